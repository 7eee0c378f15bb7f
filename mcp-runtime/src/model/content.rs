use std::borrow::Cow;

use super::{Annotations, Resource, ResourceLink};

/// A content block of a tool result or a prompt message.
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

impl Content {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Text { text: text.into(), annotations: Annotations::default() })
    }

    /// Sets the hints for the client.
    #[must_use]
    pub fn with_annotations(mut self, annotations: Annotations) -> Self {
        match &mut self {
            Self::Text(text) => text.annotations = annotations,
            Self::Image(image) => image.annotations = annotations,
            Self::Audio(audio) => audio.annotations = annotations,
            Self::Resource(resource) => resource.annotations = annotations,
            Self::ResourceLink(link) => link.annotations = annotations,
        }
        self
    }
}

/// Text with hints for the client.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Text {
    /// The text.
    pub text: String,
    /// Hints for the client.
    pub annotations: Annotations,
}

macro_rules! media {
    ($(#[$doc:meta])* $name:ident, $($(#[$ctor_doc:meta])* $ctor:ident = $mime:literal),+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            /// The bytes. They are sent in base64.
            pub data: Vec<u8>,
            /// The media type.
            pub mime_type: Cow<'static, str>,
            /// Hints for the client.
            pub annotations: Annotations,
        }

        impl $name {
            /// Creates a block from bytes and their media type.
            pub fn new(data: impl Into<Vec<u8>>, mime_type: impl Into<Cow<'static, str>>) -> Self {
                Self { data: data.into(), mime_type: mime_type.into(), annotations: Annotations::default() }
            }

            $($(#[$ctor_doc])* pub fn $ctor(data: impl Into<Vec<u8>>) -> Self { Self::new(data, $mime) })+
        }

        impl From<$name> for Content {
            fn from(value: $name) -> Self {
                Self::$name(value)
            }
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

impl From<Text> for Content {
    fn from(text: Text) -> Self {
        Self::Text(text)
    }
}

impl From<Resource> for Content {
    fn from(resource: Resource) -> Self {
        Self::Resource(resource)
    }
}

impl From<ResourceLink> for Content {
    fn from(link: ResourceLink) -> Self {
        Self::ResourceLink(link)
    }
}
