use std::borrow::Cow;

/// The background that an icon was drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// For a light background.
    Light,
    /// For a dark background.
    Dark,
}

/// A picture that a client may show beside a name. Sent from revision 2025-11-25 on.
///
/// See [Icons](https://modelcontextprotocol.io/specification/2025-11-25/basic#icons).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Icon {
    /// An `https:` or `data:` URI.
    pub src: Cow<'static, str>,
    /// The picture's media type, where the server of `src` does not tell.
    pub mime_type: Option<Cow<'static, str>>,
    /// Sizes such as `48x48`, or `any` for a scalable picture.
    pub sizes: Vec<Cow<'static, str>>,
    /// The background that it was drawn for.
    pub theme: Option<Theme>,
}

impl Icon {
    /// Names a picture by its URI.
    pub fn new(src: impl Into<Cow<'static, str>>) -> Self {
        let mut icon = Self::of("");
        icon.src = src.into();
        icon
    }

    /// What a macro makes of `icon = "…"`.
    #[doc(hidden)]
    pub const fn of(src: &'static str) -> Self {
        Self { src: Cow::Borrowed(src), mime_type: None, sizes: Vec::new(), theme: None }
    }

    /// Says the media type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<Cow<'static, str>>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Adds a size such as `48x48`, or `any`.
    #[must_use]
    pub fn with_size(mut self, size: impl Into<Cow<'static, str>>) -> Self {
        self.sizes.push(size.into());
        self
    }

    /// Says the background that it was drawn for.
    #[must_use]
    pub fn with_theme(mut self, theme: Theme) -> Self {
        self.theme = Some(theme);
        self
    }
}

/// The identity of the server that `initialize` and `server/discover` tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Implementation {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) website_url: Option<String>,
    pub(crate) icons: Vec<Icon>,
}
