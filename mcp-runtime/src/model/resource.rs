use std::borrow::Cow;

use super::{Annotations, Icon};

/// The contents of a resource: in the answer to `resources/read`, or embedded in a tool's result or a prompt.
///
/// See [Resource contents](https://modelcontextprotocol.io/specification/2025-11-25/server/resources#resource-contents).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Resource {
    /// The URI; an empty one stands for the URI that was asked for.
    pub uri: Cow<'static, str>,
    /// The media type.
    pub mime_type: Option<Cow<'static, str>>,
    /// Text or bytes.
    pub body: ResourceBody,
    /// Hints for the client, where the resource is embedded in other content.
    pub annotations: Annotations,
}

/// Text or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceBody {
    /// Sent as it is.
    Text(String),
    /// Sent in base64.
    Blob(Vec<u8>),
}

impl Resource {
    /// A resource that is text.
    pub fn text(uri: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self::new(uri, ResourceBody::Text(text.into()))
    }

    /// A resource that is bytes.
    pub fn blob(uri: impl Into<Cow<'static, str>>, bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(uri, ResourceBody::Blob(bytes.into()))
    }

    fn new(uri: impl Into<Cow<'static, str>>, body: ResourceBody) -> Self {
        Self { uri: uri.into(), mime_type: None, body, annotations: Annotations::default() }
    }

    /// Says the media type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<Cow<'static, str>>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Adds hints for the client.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = annotations;
        self
    }
}

/// A resource that a client can read later: an item of `resources/list`, or a link in a tool's result.
///
/// As content of a tool or prompt it is sent from revision 2025-06-18 on; older clients get a line of text that names it.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ResourceLink {
    /// The URI to read.
    pub uri: String,
    /// The name, for programs.
    pub name: String,
    /// The name, for people. Sent from revision 2025-06-18 on.
    pub title: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// The media type, where it is known.
    pub mime_type: Option<Cow<'static, str>>,
    /// The size in bytes, where it is known.
    pub size: Option<u64>,
    /// Hints for the client.
    pub annotations: Annotations,
    /// Pictures for the client. Sent from revision 2025-11-25 on.
    pub icons: Vec<Icon>,
}

impl ResourceLink {
    /// Names a resource.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }

    /// Says the name for people.
    #[must_use]
    pub fn with_title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Says what it is.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Says the media type.
    #[must_use]
    pub fn with_mime_type(mut self, mime_type: impl Into<Cow<'static, str>>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Says the size in bytes.
    #[must_use]
    pub fn with_size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Adds hints for the client.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        self.annotations = annotations;
        self
    }

    /// Adds a picture.
    #[must_use]
    pub fn with_icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }
}
