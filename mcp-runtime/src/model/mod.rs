//! Tools, resources, prompts and content as values that belong to no protocol revision.
//!
//! Nothing here is serialised by itself: how a value is spelled is the business of `revision`.

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
pub use level::Level;
pub use prompt::{PromptMessage, PromptResult};
pub use resource::{Resource, ResourceBody, ResourceLink};
pub use tool::{Json, ToolResult};

pub(crate) use identity::Implementation;
