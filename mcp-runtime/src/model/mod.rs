//! Tools, resources, prompts and content as values that are independent of the protocol revision.
//!
//! Nothing here implements serialization. The layer `revision` encodes these values.

mod annotations;
mod content;
mod identity;
mod level;
mod prompt;
mod resource;
mod tool;

pub use annotations::{Annotations, Role};
pub use content::{Audio, Content, Image, Text};
pub use identity::{Icon, Theme};
pub use level::{Level, ParseLevelError};
pub use prompt::{PromptMessage, PromptResult};
pub use resource::{Resource, ResourceBody, ResourceLink, ResourceResult};
pub use tool::{Json, Structured, ToolResult};

pub(crate) use content::content_types;
pub(crate) use identity::{Implementation, OptionalCapabilities};
