//! The second stage: checked values.

mod argument;
mod bounds;
mod call;
mod common;
mod date_time;
mod duration;
#[cfg(feature = "ask")]
mod elicit;
mod enclosing_type;
mod flatten;
mod kind;
mod lifetimes;
mod literal;
#[cfg(feature = "ui")]
mod page;
mod prompt;
mod resource;
mod rules;
mod server;
mod signature;
mod source_text;
mod tool;
mod tools;
mod type_class;

pub(crate) use argument::{Argument, Default};
pub(crate) use call::{Call, Execution, ParameterSource};
pub(crate) use common::{Common, Icon};
#[cfg(feature = "ask")]
pub(crate) use elicit::{Choices, Elicit, Field};
pub(crate) use enclosing_type::{EnclosingType, NamedFunction};
pub(crate) use kind::Kind;
#[cfg(feature = "ui")]
pub(crate) use page::Page;
pub(crate) use prompt::Prompt;
pub(crate) use resource::Resource;
pub(crate) use rules::{Bound, Rule};
pub(crate) use server::Server;
pub(crate) use tool::{TaskSupport, Tool, ToolUi, Visibility};
pub(crate) use tools::{Entry, Tools, check_block};
