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
pub(crate) use common::{Common, Icon, Prompt};
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

/// The kind of item that a macro defines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tool,
    Resource,
    Page,
    Prompt,
    Server,
    Form,
}

impl Kind {
    /// Returns the kind with its article, for messages.
    pub(crate) fn subject(self) -> &'static str {
        match self {
            Self::Tool => "a tool",
            Self::Resource => "a resource",
            Self::Page => "a page",
            Self::Prompt => "a prompt",
            Self::Server => "a `#[server]` function",
            Self::Form => "a form",
        }
    }

    /// Returns the term for a parameter that the caller provides.
    pub(crate) fn argument(self) -> &'static str {
        match self {
            Self::Tool => "an argument of a tool",
            Self::Resource => "an argument of a resource",
            Self::Page => "an argument of a page",
            Self::Prompt => "an argument of a prompt",
            Self::Server => "a command-line flag",
            Self::Form => "a field of a form",
        }
    }

    /// Returns the term for the input that contains the arguments.
    pub(crate) fn input(self) -> &'static str {
        match self {
            Self::Tool | Self::Resource | Self::Page | Self::Prompt => "a request",
            Self::Server => "a command line",
            Self::Form => "an answer",
        }
    }

    /// Returns the attribute as written.
    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Self::Tool => "#[tool]",
            Self::Resource => "#[resource]",
            Self::Page => "#[ui]",
            Self::Prompt => "#[prompt]",
            Self::Server => "#[server]",
            Self::Form => "#[derive(Elicit)]",
        }
    }
}
