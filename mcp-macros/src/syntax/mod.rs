//! The first stage: parsed options and functions, not yet checked.

mod argument;
mod common;
mod docs;
mod elicit;
mod function;
mod options;
mod prompt;
mod resource;
mod server;
mod tool;
mod tools;

pub(crate) use argument::ArgumentSyntax;
pub(crate) use common::{CommonSyntax, MetaSyntax};
pub(crate) use docs::{DocFragment, Docs};
pub(crate) use elicit::{ElicitSyntax, FieldSyntax, ItemSyntax, VariantSyntax};
pub(crate) use function::{Function, Parameter};
pub(crate) use prompt::PromptSyntax;
pub(crate) use resource::{CompleteSyntax, ResourceSyntax};
pub(crate) use server::ServerSyntax;
pub(crate) use tool::ToolSyntax;
pub(crate) use tools::{Method, ToolsSyntax};
