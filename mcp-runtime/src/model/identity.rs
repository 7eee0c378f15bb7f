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
pub struct Icon {
    /// An `https:` or `data:` URI.
    pub src: Cow<'static, str>,
    /// The picture's media type, where the server of `src` does not tell.
    pub mime_type: Option<Cow<'static, str>>,
    /// Sizes such as `48x48`, or `any` for a scalable picture.
    pub sizes: Cow<'static, [&'static str]>,
    /// The background that it was drawn for.
    pub theme: Option<Theme>,
}

impl Icon {
    /// Names a picture by its URI.
    pub const fn new(src: &'static str) -> Self {
        Self { src: Cow::Borrowed(src), mime_type: None, sizes: Cow::Borrowed(&[]), theme: None }
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
