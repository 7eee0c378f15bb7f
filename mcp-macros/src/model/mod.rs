//! The second stage: checked values.

mod argument;
mod bounds;
mod common;
#[cfg(feature = "ask")]
mod elicit;
mod literal;
#[cfg(feature = "ui")]
mod page;
mod resource;
mod rules;
mod server;
mod signature;
mod tool;
mod tools;
mod types;

pub(crate) use argument::{Argument, Default};
pub(crate) use common::{Common, Icon};
#[cfg(feature = "ask")]
pub(crate) use elicit::{Choices, Elicit, Field};
#[cfg(feature = "ui")]
pub(crate) use page::Page;
pub(crate) use resource::Resource;
pub(crate) use rules::{Bound, Rule};
pub(crate) use server::Server;
pub(crate) use signature::{Call, Execution, ParameterSource};
pub(crate) use tool::{TaskSupport, Tool, ToolUi, Visibility};
pub(crate) use tools::{Entry, Tools, check_block};
pub(crate) use types::{EnclosingType, NamedFunction};

use crate::syntax::Kind;
