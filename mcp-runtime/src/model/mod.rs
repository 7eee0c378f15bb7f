//! Tools, resources, prompts and content as values that are independent of the protocol revision.
//!
//! Nothing here implements serialization. The layer `revision` encodes these values.

use std::{borrow::Cow, fmt, str::FromStr};

use mcp_runtime_uri_template::{ICON_SOURCE, check_meta_key, is_icon_size, is_icon_source};
use serde_json::{Map, Value};

use crate::{error::excerpt, stdx::setters};

/// Writes a builder method that adds a member to the field `meta`. The argument, if any, is the rest of the first paragraph
/// of its documentation.
macro_rules! with_meta {
    ($(#[$doc:meta])*) => {
        /// Adds a member to `_meta`.
        $(#[$doc])*
        ///
        /// # Panics
        ///
        /// Panics if the key is malformed or has a prefix that the protocol reserves, such as
        /// `io.modelcontextprotocol/`.
        #[track_caller]
        #[must_use]
        pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
            $crate::model::add_meta(&mut self.meta, key, value);
            self
        }
    };
}

pub(crate) use with_meta;

/// Defines an enum whose variants have names, in the protocol or in logs.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        pub enum $type {
            $($(#[$doc])* $variant,)+
        }

        impl $type {
            #[doc = concat!("Returns the name that the protocol or the log contains:\n", $("\n- `", stringify!($variant), "`: `", $name, "`",)+)]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use named;

/// Adds a member to `_meta`.
///
/// # Panics
///
/// Panics if the key is malformed or reserved for the protocol.
#[track_caller]
pub(crate) fn add_meta(meta: &mut Map<String, Value>, key: impl Into<String>, value: impl Into<Value>) {
    let key = key.into();
    if let Err(rule) = check_meta_key(&key) {
        panic!("invalid key `{key}` of `_meta`: {rule}");
    }
    meta.insert(key, value.into());
}

mod content;
mod resource;

pub use content::{Audio, Content, Image, Json, PromptMessage, PromptResult, Structured, Text, ToolResult};
pub use resource::{Annotations, CacheScope, Resource, ResourceBody, ResourceLink, ResourceResult, Role};

pub(crate) use content::content_types;

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
    /// Creates an icon from its URI, which must be an `https:` URI or a `data:` URI of an image in base64. A server with
    /// an invalid icon cannot be built, and a link is sent without it.
    pub fn new(src: impl Into<Cow<'static, str>>) -> Self {
        Self { src: src.into(), ..Self::of("", None, &[], None) }
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

    /// Returns the problem of an icon that is not valid. `owner` is empty or follows the word "icon", as in ` of the server`.
    pub(crate) fn problem(&self, owner: &str) -> Option<String> {
        if !is_icon_source(&self.src) {
            return Some(format!("invalid icon `{}`{owner}, expected {ICON_SOURCE}", excerpt(&self.src)));
        }
        let size = self.sizes.iter().find(|size| !is_icon_size(size))?;
        Some(format!("invalid size `{}` of an icon{owner}, expected one such as `48x48`, or `any`", excerpt(size)))
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

named! {
    /// The severity of a log message, as defined by RFC 5424.
    ///
    /// ```
    /// use mcp_runtime::Level;
    ///
    /// assert!(Level::Error > Level::Warning);
    /// assert_eq!("notice".parse(), Ok(Level::Notice));
    /// ```
    ///
    /// See [Logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#log-levels).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Level {
        /// Details for debugging.
        Debug = "debug",
        /// Informational messages.
        Info = "info",
        /// Normal but significant events.
        Notice = "notice",
        /// Warnings.
        Warning = "warning",
        /// Errors.
        Error = "error",
        /// Critical conditions, such as the failure of a component.
        Critical = "critical",
        /// Conditions that require immediate action.
        Alert = "alert",
        /// The system is unusable.
        Emergency = "emergency",
    }
}

impl Level {
    /// All levels, from the least to the most severe.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];
}

impl FromStr for Level {
    type Err = ParseLevelError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|level| level.as_str() == name)
            .ok_or_else(|| ParseLevelError(excerpt(name).into_owned()))
    }
}

/// The error of parsing the name of a [`Level`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseLevelError(String);

impl fmt::Display for ParseLevelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Level::ALL.iter().map(|level| format!("`{level}`")).collect();
        write!(f, "unknown log level `{}`, expected one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for ParseLevelError {}
