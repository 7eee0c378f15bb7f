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
    pub sizes: Vec<Cow<'static, str>>,
    /// The background that the icon is designed for.
    pub theme: Option<Theme>,
}

impl Icon {
    /// Creates an icon from its URI.
    pub fn new(src: impl Into<Cow<'static, str>>) -> Self {
        let mut icon = Self::of("");
        icon.src = src.into();
        icon
    }

    /// Creates an icon in a constant. The expansion of `icon = "…"` calls it.
    #[doc(hidden)]
    pub const fn of(src: &'static str) -> Self {
        Self { src: Cow::Borrowed(src), mime_type: None, sizes: Vec::new(), theme: None }
    }

    setters! {
        /// Sets the media type.
        pub fn with_mime_type(self, mime_type: impl Into<Cow<'static, str>>) { self.mime_type = Some(mime_type.into()) }

        /// Adds a size such as `48x48`, or `any`.
        pub fn with_size(self, size: impl Into<Cow<'static, str>>) { self.sizes.push(size.into()) }

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
    /// Extensions of the protocol. Sent in revisions that have them.
    pub(crate) extensions: Map<String, Value>,
}
