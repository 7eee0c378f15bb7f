use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Annotations, Resource, ResourceLink, add_meta};

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
