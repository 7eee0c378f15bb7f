//! Resources, links to them, and hints about content.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Icon;
use crate::stdx::setters;

/// The contents of a resource, as the result of `resources/read` or embedded in a tool result or a prompt.
///
/// ```
/// use mcp_runtime::{Resource, tool};
///
/// /// Return the latest report.
/// #[tool(read_only)]
/// fn report() -> Resource {
///     Resource::text("reports://2026-07", "# July\n\nAll is well.").with_mime_type("text/markdown")
/// }
/// ```
///
/// See [contents](https://modelcontextprotocol.io/specification/2025-11-25/server/resources#resource-contents).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Resource {
    /// The URI. If empty, the requested URI is sent.
    pub uri: Cow<'static, str>,
    /// The media type.
    pub mime_type: Option<Cow<'static, str>>,
    /// The body.
    pub body: ResourceBody,
    /// Hints for the client, sent if the resource is embedded in other content.
    pub annotations: Annotations,
    /// Additional data in the `_meta` of the contents. Sent since revision 2025-06-18.
    pub meta: Map<String, Value>,
    /// Additional data in the `_meta` of the content block, sent if the resource is embedded in other content, since
    /// revision 2025-06-18.
    pub block_meta: Map<String, Value>,
}

/// The body of a resource.
///
/// ```
/// use mcp_runtime::{Resource, model::ResourceBody};
///
/// let readme = Resource::text("docs://readme", "Read me.");
/// assert_eq!(readme.body, ResourceBody::Text("Read me.".to_owned()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Bytes. They are sent in base64.
    Blob(Vec<u8>),
}

impl Resource {
    /// Creates a text resource.
    pub fn text(uri: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Self {
        Self::new(uri, ResourceBody::Text(text.into()))
    }

    /// Creates a binary resource.
    ///
    /// ```
    /// use mcp_runtime::Resource;
    ///
    /// let icon = Resource::blob("assets://icon.png", [0x89, b'P', b'N', b'G']).with_mime_type("image/png");
    /// ```
    pub fn blob(uri: impl Into<Cow<'static, str>>, bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(uri, ResourceBody::Blob(bytes.into()))
    }

    fn new(uri: impl Into<Cow<'static, str>>, body: ResourceBody) -> Self {
        Self {
            uri: uri.into(),
            mime_type: None,
            body,
            annotations: Annotations::default(),
            meta: Map::new(),
            block_meta: Map::new(),
        }
    }

    setters! {
        /// Sets the media type.
        pub fn with_mime_type(self, mime_type: impl Into<Cow<'static, str>>) { self.mime_type = Some(mime_type.into()) }

        /// Sets the hints for the client.
        pub fn with_annotations(self, annotations: Annotations) { self.annotations = annotations }
    }

    with_meta! {
        /// The member belongs to the contents. [`Content::with_meta`](crate::Content::with_meta) adds one to the block
        /// that embeds the resource.
    }
}

/// The complete result of `resources/read`, for resources that set more than contents.
///
/// ```
/// use mcp_runtime::{Resource, model::ResourceResult, resource};
///
/// /// The latest report.
/// #[resource("reports://latest")]
/// fn latest() -> ResourceResult {
///     ResourceResult::new([Resource::text("reports://2026-07", "All is well.")]).with_meta("com.example/issue", 7)
/// }
/// ```
///
/// See [Reading resources](https://modelcontextprotocol.io/specification/2025-11-25/server/resources#reading-resources).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ResourceResult {
    /// The contents. Empty means that the resource does not exist.
    pub contents: Vec<Resource>,
    /// Additional data in `_meta`.
    pub meta: Map<String, Value>,
}

impl ResourceResult {
    /// Creates a result with these contents.
    pub fn new(contents: impl IntoIterator<Item = Resource>) -> Self {
        Self { contents: contents.into_iter().collect(), meta: Map::new() }
    }

    with_meta!();
}

/// A link to a resource that a client can read, as an item of `resources/list` or in a tool result.
///
/// As content of a tool or prompt, it is sent to clients of revision 2025-06-18 or later. Older clients receive a line
/// of text with the link.
///
/// ```
/// use mcp_runtime::{ResourceLink, tool};
///
/// /// Find reports.
/// #[tool(read_only)]
/// fn find_reports() -> Vec<ResourceLink> {
///     vec![
///         ResourceLink::new("reports://2026-07", "july")
///             .with_title("July 2026")
///             .with_mime_type("text/markdown")
///             .with_size(2048),
///     ]
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ResourceLink {
    /// The URI.
    pub uri: String,
    /// The name for programs.
    pub name: String,
    /// The name for display. Sent since revision 2025-06-18.
    pub title: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The media type, if known.
    pub mime_type: Option<Cow<'static, str>>,
    /// The size in bytes, if known.
    pub size: Option<u64>,
    /// Hints for the client.
    pub annotations: Annotations,
    /// Icons for the client. Sent since revision 2025-11-25.
    pub icons: Vec<Icon>,
    /// Additional data in `_meta`. Sent since revision 2025-06-18.
    pub meta: Map<String, Value>,
}

impl ResourceLink {
    /// Creates a link.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        Self { uri: uri.into(), name: name.into(), ..Self::default() }
    }

    setters! {
        /// Sets the name for display.
        pub fn with_title(self, title: impl Into<String>) { self.title = Some(title.into()) }

        /// Sets the description.
        pub fn with_description(self, description: impl Into<String>) { self.description = Some(description.into()) }

        /// Sets the media type.
        pub fn with_mime_type(self, mime_type: impl Into<Cow<'static, str>>) { self.mime_type = Some(mime_type.into()) }

        /// Sets the size in bytes.
        pub fn with_size(self, bytes: u64) { self.size = Some(bytes) }

        /// Sets the hints for the client.
        pub fn with_annotations(self, annotations: Annotations) { self.annotations = annotations }

        /// Adds an icon.
        ///
        /// ```
        /// use mcp_runtime::{ResourceLink, model::Icon};
        ///
        /// let link = ResourceLink::new("reports://2026-07", "july").with_icon(Icon::new("https://example.com/report.svg"));
        /// ```
        pub fn with_icon(self, icon: Icon) { self.icons.push(icon) }
    }

    with_meta!();
}

/// The callers to whom a cached list may be given. See [`Server::list_cache`](crate::Server::list_cache).
///
/// See [Cache scope](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cache-scope-field).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// Every caller, also by caches that several users share.
    Public,
    /// Only the caller that received it.
    Private,
}

named! {
    /// The audience of content, or the author of a prompt message.
    ///
    /// ```
    /// use mcp_runtime::{ask::SampleRequest, model::Role};
    ///
    /// let conversation = SampleRequest::new("Is 7 prime?").with_message(Role::Assistant, "Yes.").with_message(Role::User, "And 9?");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Role {
        /// The user of the client.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

/// Hints about how a client should use or display content.
///
/// ```
/// use mcp_runtime::model::{Annotations, Role};
///
/// let hints = Annotations::default().for_audience([Role::Assistant]).with_priority(0.9);
/// ```
///
/// See [Annotations](https://modelcontextprotocol.io/specification/2025-11-25/server/resources#annotations).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Annotations {
    /// The intended audience. Empty means unspecified.
    pub audience: Vec<Role>,
    /// The importance, from 0 (entirely optional) to 1 (effectively required).
    pub priority: Option<f64>,
    /// The time of the last change, as an ISO 8601 date and time such as `2025-01-12T15:00:58Z`, or as a date. Sent
    /// since revision 2025-06-18. Any other text is not sent.
    pub last_modified: Option<String>,
}

impl Annotations {
    setters! {
        /// Sets the intended audience.
        pub fn for_audience(self, audience: impl IntoIterator<Item = Role>) {
            self.audience = audience.into_iter().collect()
        }

        /// Sets the importance. Values outside of 0 to 1 are clamped, and a value that is not a number is ignored.
        pub fn with_priority(self, priority: f64) {
            self.priority = Some(priority).filter(|priority| !priority.is_nan()).map(|priority| priority.clamp(0.0, 1.0))
        }

        /// Sets the time of the last change, as an ISO 8601 date and time or a [`Timestamp`](crate::backend::Timestamp). Any other
        /// text is not sent.
        ///
        /// ```
        /// use mcp_runtime::{ResourceLink, backend::Timestamp, model::Annotations};
        ///
        /// # fn link(metadata: &std::fs::Metadata) -> std::io::Result<ResourceLink> {
        /// let modified = Timestamp::from(metadata.modified()?);
        /// let hints = Annotations::default().with_priority(0.8).with_last_modified(modified);
        /// Ok(ResourceLink::new("file:///notes.txt", "notes").with_annotations(hints))
        /// # }
        /// ```
        pub fn with_last_modified(self, date: impl Into<String>) { self.last_modified = Some(date.into()) }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.audience.is_empty() && self.priority.is_none() && self.last_modified.is_none()
    }
}
