//! Tools, resources, prompts and content as values that are independent of the protocol revision.
//!
//! Nothing here implements serialization. The layer `revision` encodes these values.

use mcp_runtime_uri_template::check_meta_key;
use serde_json::{Map, Value};

/// Writes builder methods: each sets something in `self` and returns it.
macro_rules! setters {
    ($($(#[$doc:meta])* pub fn $name:ident($this:ident $(, $arg:ident: $ty:ty)*) $body:block)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            #[allow(clippy::double_must_use, reason = "some types are marked themselves")]
            pub fn $name(mut $this $(, $arg: $ty)*) -> Self {
                $body
                $this
            }
        )*
    };
}

pub(crate) use setters;

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
mod identity;
mod level;
mod resource;
mod results;

pub use content::{Audio, Content, Image, Text};
pub use identity::{Icon, Theme};
pub use level::{Level, ParseLevelError};
pub use resource::{Annotations, CacheScope, Resource, ResourceBody, ResourceLink, ResourceResult, Role};
pub use results::{Json, PromptMessage, PromptResult, Structured, ToolResult};

pub(crate) use content::content_types;
pub(crate) use identity::{Implementation, OptionalCapabilities};
