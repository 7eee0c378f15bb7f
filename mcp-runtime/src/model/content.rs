//! Content, and the results of tools and prompts, which consist of it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Annotations, Resource, ResourceLink, Role, add_meta};
use crate::stdx::setters;

/// A content block of a tool result or a prompt message.
///
/// ```
/// use mcp_runtime::{Content, Image, model::{Annotations, Role}, tool};
///
/// /// Compare two maps.
/// #[tool(read_only)]
/// fn compare() -> Vec<Content> {
///     let map = Image::jpeg(vec![/* … */]);
///     vec![
///         Content::text("The river has moved."),
///         Content::from(map).with_annotations(Annotations::default().for_audience([Role::User])),
///     ]
/// }
/// ```
///
/// See [Tool result](https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text(Text),
    /// An image.
    Image(Image),
    /// Audio. Sent since revision 2025-03-26; older clients receive an embedded resource.
    Audio(Audio),
    /// An embedded resource.
    Resource(Resource),
    /// A link to a resource that the client can read.
    ResourceLink(ResourceLink),
}

/// Calls a macro with the types of content.
macro_rules! content_types {
    ($callback:ident) => {
        $callback! { Text, Image, Audio, Resource, ResourceLink }
    };
}

pub(crate) use content_types;

macro_rules! content_blocks {
    ($($block:ident),+) => {
        $(impl From<$block> for Content {
            fn from(block: $block) -> Self {
                Self::$block(block)
            }
        })+

        impl Content {
            /// Sets the hints for the client.
            ///
            /// ```
            /// use mcp_runtime::{Content, model::{Annotations, Role}};
            ///
            /// let for_the_user = Content::text("Look at the map.")
            ///     .with_annotations(Annotations::default().for_audience([Role::User]).with_priority(0.2));
            /// ```
            #[must_use]
            pub fn with_annotations(mut self, annotations: Annotations) -> Self {
                match &mut self {
                    $(Self::$block(block) => block.annotations = annotations,)+
                }
                self
            }
        }
    };
}

content_types!(content_blocks);

impl Content {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text::new(text))
    }

    /// Adds a member to the `_meta` of the block, for clients of revision 2025-06-18 or later. The `_meta` of the
    /// contents of an embedded resource is [`Resource::meta`].
    ///
    /// ```
    /// use mcp_runtime::Content;
    ///
    /// let content = Content::text("42").with_meta("com.example/unit", "km");
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the key is malformed or has a prefix that the protocol reserves, such as `io.modelcontextprotocol/`.
    #[track_caller]
    #[must_use]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        let meta = match &mut self {
            Self::Text(text) => &mut text.meta,
            Self::Image(image) => &mut image.meta,
            Self::Audio(audio) => &mut audio.meta,
            Self::Resource(resource) => &mut resource.block_meta,
            Self::ResourceLink(link) => &mut link.meta,
        };
        add_meta(meta, key, value);
        self
    }
}

/// Text with hints for the client.
///
/// ```
/// use mcp_runtime::{model::{Annotations, Role, Text}, tool};
///
/// /// Count the visitors.
/// #[tool(read_only)]
/// fn visitors() -> Text {
///     let mut text = Text::new("17 visitors");
///     text.annotations = Annotations::default().for_audience([Role::User]);
///     text
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Text {
    /// The text.
    pub text: String,
    /// Hints for the client.
    pub annotations: Annotations,
    /// Additional data in `_meta`. Sent since revision 2025-06-18.
    pub meta: Map<String, Value>,
}

impl Text {
    /// Creates a block from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

macro_rules! media {
    ($(#[$doc:meta])* $name:ident, $($(#[$ctor_doc:meta])* $ctor:ident = $mime:literal),+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            /// The bytes. They are sent in base64.
            pub data: Vec<u8>,
            /// The media type.
            pub mime_type: Cow<'static, str>,
            /// Hints for the client.
            pub annotations: Annotations,
            /// Additional data in `_meta`. Sent since revision 2025-06-18.
            pub meta: Map<String, Value>,
        }

        impl $name {
            /// Creates a block from bytes and their media type.
            pub fn new(data: impl Into<Vec<u8>>, mime_type: impl Into<Cow<'static, str>>) -> Self {
                Self {
                    data: data.into(),
                    mime_type: mime_type.into(),
                    annotations: Annotations::default(),
                    meta: Map::new(),
                }
            }

            $($(#[$ctor_doc])* pub fn $ctor(data: impl Into<Vec<u8>>) -> Self { Self::new(data, $mime) })+
        }
    };
}

media!(
    /// An image.
    Image,
    /// Creates a PNG image.
    png = "image/png",
    /// Creates a JPEG image.
    jpeg = "image/jpeg"
);
media!(
    /// Audio.
    Audio,
    /// Creates WAV audio.
    wav = "audio/wav",
    /// Creates MP3 audio.
    mp3 = "audio/mpeg"
);

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// A structured result. The type determines the `outputSchema` of the tool; the value is sent as `structuredContent`
/// and, serialized, as text.
///
/// Clients of revisions before 2025-06-18 receive only the text. Revisions 2025-06-18 and 2025-11-25 require an object:
/// for them, other values are wrapped as `{"result": …}`, and the schema is wrapped to match.
///
/// ```
/// use mcp_runtime::{Json, Revision, Server, tool};
/// use schemars::JsonSchema;
/// use serde::Serialize;
///
/// #[derive(Serialize, JsonSchema)]
/// struct Weather {
///     /// The temperature in degrees Celsius.
///     celsius: f64,
/// }
///
/// /// Return the weather.
/// #[tool(read_only)]
/// fn weather() -> Json<Weather> {
///     Json(Weather { celsius: 21.5 })
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut client = Server::empty("weather", "1.0.0").with::<weather>().test_client(Revision::V2025_11_25);
/// assert_eq!(client.tools().await.unwrap()[0]["outputSchema"]["properties"]["celsius"]["type"], "number");
/// assert_eq!(client.call("weather", ()).await.unwrap().structured().unwrap()["celsius"], 21.5);
/// # });
/// ```
///
/// See [Structured content](https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Json<T>(pub T);

/// A structured result with further content for the model and the user, such as an image.
///
/// The value is encoded like the value of [`Json`]: it determines the `outputSchema` of the tool, and is sent as
/// `structuredContent` and as a text block. The content follows that block.
///
/// ```
/// use mcp_runtime::{Image, model::Structured, tool};
/// use schemars::JsonSchema;
/// use serde::Serialize;
///
/// #[derive(Serialize, JsonSchema)]
/// struct Sales {
///     total: u32,
/// }
///
/// /// Draw the sales of the year.
/// #[tool(read_only)]
/// fn sales() -> Structured<Sales> {
///     let png = vec![/* … */];
///     Structured::new(Sales { total: 7 }).with_content(Image::png(png))
/// }
/// ```
///
/// See [Structured content](https://modelcontextprotocol.io/specification/2025-11-25/server/tools#structured-content).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Structured<T> {
    /// The structured content.
    pub value: T,
    /// The content that follows the text of the value.
    pub content: Vec<Content>,
    /// Additional data in `_meta`.
    pub meta: Map<String, Value>,
}

impl<T> Structured<T> {
    /// Creates a result with this value and no further content.
    pub fn new(value: T) -> Self {
        Self { value, content: Vec::new(), meta: Map::new() }
    }

    setters! {
        /// Adds a content block.
        pub fn with_content(self, content: impl Into<Content>) { self.content.push(content.into()) }
    }

    with_meta!();
}

/// The complete result of a tool, for tools that set more than content.
///
/// ```
/// use mcp_runtime::{Content, Image, ToolResult, tool};
/// use serde_json::json;
///
/// /// Draw a chart.
/// #[tool(read_only)]
/// fn chart(title: String) -> ToolResult {
///     if title.is_empty() {
///         return ToolResult::error("the title is empty; pass a short one");
///     }
///     let picture = Content::from(Image::png(vec![/* … */]));
///     ToolResult::new([Content::text(title), picture]).with_structured(json!({"points": 12}))
/// }
/// # assert!(chart(String::new()).is_error);
/// ```
///
/// See [Tool result](https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result).
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The content, which the model reads.
    pub content: Vec<Content>,
    /// The structured content, which programs read. Sent since revision 2025-06-18, and wrapped like [`Json`] where an
    /// object is required.
    pub structured: Option<Value>,
    /// Whether the call failed with an error that the model may correct.
    pub is_error: bool,
    /// Additional data in `_meta`.
    pub meta: Map<String, Value>,
}

impl ToolResult {
    /// Creates a result with this content.
    pub fn new(content: impl IntoIterator<Item = impl Into<Content>>) -> Self {
        Self { content: content.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Creates an error result, which the model may correct.
    ///
    /// ```
    /// use mcp_runtime::ToolResult;
    ///
    /// let result = ToolResult::error("order 7 not found; `find_orders` returns the numbers");
    /// assert!(result.is_error);
    /// ```
    pub fn error(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], is_error: true, ..Self::default() }
    }

    setters! {
        /// Sets the structured content.
        pub fn with_structured(self, value: impl Into<Value>) { self.structured = Some(value.into()) }
    }

    with_meta!();
}

/// A message of a prompt.
///
/// A message has no `_meta` of its own in any revision; its content has, see [`Content::with_meta`].
///
/// ```
/// use mcp_runtime::{PromptMessage, prompt};
///
/// /// Practise small talk.
/// #[prompt]
/// fn small_talk() -> Vec<PromptMessage> {
///     vec![
///         PromptMessage::user("Let us practise small talk. You begin."),
///         PromptMessage::assistant("Lovely weather today, is it not?"),
///     ]
/// }
/// ```
///
/// See [PromptMessage](https://modelcontextprotocol.io/specification/2025-11-25/server/prompts#promptmessage).
#[derive(Debug, Clone, PartialEq)]
pub struct PromptMessage {
    /// The author.
    pub role: Role,
    /// The content.
    pub content: Content,
}

impl PromptMessage {
    /// Creates a user message.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into() }
    }

    /// Creates an assistant message.
    ///
    /// ```
    /// use mcp_runtime::PromptMessage;
    ///
    /// let example = [PromptMessage::user("2, 4, 8"), PromptMessage::assistant("16: each number is doubled.")];
    /// ```
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into() }
    }
}

/// The complete result of `prompts/get`, for prompts that set more than messages.
///
/// ```
/// use mcp_runtime::{PromptMessage, model::PromptResult, prompt};
///
/// /// Review a text.
/// #[prompt]
/// fn review(text: String) -> PromptResult {
///     let description = format!("Reviews {} characters", text.len());
///     PromptResult::new([PromptMessage::user(format!("Review this text:\n{text}"))]).with_description(description)
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct PromptResult {
    /// The description, which replaces the description in the list.
    pub description: Option<String>,
    /// The messages.
    pub messages: Vec<PromptMessage>,
    /// Additional data in `_meta`.
    pub meta: Map<String, Value>,
}

impl PromptResult {
    /// Creates a result with these messages.
    pub fn new(messages: impl IntoIterator<Item = PromptMessage>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    setters! {
        /// Sets the description.
        ///
        /// ```
        /// use mcp_runtime::{PromptMessage, model::PromptResult};
        ///
        /// let result = PromptResult::new([PromptMessage::user("Review the change.")]).with_description("A review");
        /// assert_eq!(result.messages.len(), 1);
        /// ```
        pub fn with_description(self, description: impl Into<String>) { self.description = Some(description.into()) }
    }

    with_meta!();
}
