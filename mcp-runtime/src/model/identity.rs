use std::borrow::Cow;

use serde_json::{Map, Value};

/// The background that an icon is designed for.
///
/// ```
/// use mcp_runtime::model::{Icon, Theme};
///
/// let icons = [
///     Icon::new("https://example.com/black.svg").with_theme(Theme::Light),
///     Icon::new("https://example.com/white.svg").with_theme(Theme::Dark),
/// ];
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// A light background.
    Light,
    /// A dark background.
    Dark,
}

/// An icon that a client may display next to a name. Sent since revision 2025-11-25.
///
/// ```
/// use mcp_runtime::model::{Icon, Theme};
///
/// let icon = Icon::new("https://example.com/dark.png").with_size("48x48").with_theme(Theme::Dark);
/// ```
///
/// See [Icons](https://modelcontextprotocol.io/specification/2025-11-25/basic#icons).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Icon {
    /// An `https:` or `data:` URI.
    pub src: Cow<'static, str>,
    /// The media type, in case the server of `src` does not send it.
    pub mime_type: Option<Cow<'static, str>>,
    /// Sizes such as `48x48`, or `any` for a scalable icon.
    pub sizes: Cow<'static, [Cow<'static, str>]>,
    /// The background that the icon is designed for.
    pub theme: Option<Theme>,
}

impl Icon {
    /// Creates an icon from its URI, which must be an `https:` URI or a `data:` URI of an image. A server with another
    /// icon cannot be built, and a link is sent without it.
    pub fn new(src: impl Into<Cow<'static, str>>) -> Self {
        let mut icon = Self::of("", None, &[], None);
        icon.src = src.into();
        icon
    }

    /// Creates an icon in a constant. The expansion of `icon = "…"` calls it.
    #[doc(hidden)]
    pub const fn of(
        src: &'static str,
        mime_type: Option<&'static str>,
        sizes: &'static [Cow<'static, str>],
        theme: Option<Theme>,
    ) -> Self {
        let mime_type = match mime_type {
            Some(mime_type) => Some(Cow::Borrowed(mime_type)),
            None => None,
        };
        Self { src: Cow::Borrowed(src), mime_type, sizes: Cow::Borrowed(sizes), theme }
    }

    /// Returns whether clients may load the icon. They reject URIs with other schemes.
    pub(crate) fn is_safe(&self) -> bool {
        self.src.starts_with("https://") || self.src.starts_with("data:image/")
    }

    setters! {
        /// Sets the media type.
        pub fn with_mime_type(self, mime_type: impl Into<Cow<'static, str>>) { self.mime_type = Some(mime_type.into()) }

        /// Adds a size such as `48x48`, or `any`.
        pub fn with_size(self, size: impl Into<Cow<'static, str>>) { self.sizes.to_mut().push(size.into()) }

        /// Sets the background that the icon is designed for.
        pub fn with_theme(self, theme: Theme) { self.theme = Some(theme) }
    }
}

/// The identity of the server in `initialize` and `server/discover`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Implementation {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) website_url: Option<String>,
    pub(crate) icons: Vec<Icon>,
}

/// The capabilities that the author of a server declares, by name. Every value is an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OptionalCapabilities {
    /// Capabilities outside of the specification.
    pub(crate) experimental: Map<String, Value>,
    /// Extensions of the protocol.
    pub(crate) extensions: Map<String, Value>,
}
