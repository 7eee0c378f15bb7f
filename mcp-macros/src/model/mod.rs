//! What was found to be sound: checked values, in which every name, rule and type has its place.

mod argument;
mod bounds;
mod call;
mod common;
mod duration;
mod elicit;
mod flatten;
mod literal;
mod owner;
mod prompt;
mod resource;
mod rules;
mod server;
mod shape;
mod signature;
mod spelled;
mod tool;
mod tools;

pub(crate) use argument::{Argument, Default};
pub(crate) use call::{Call, Given, Manner};
pub(crate) use common::Common;
pub(crate) use elicit::{Choices, Elicit, Field};
pub(crate) use owner::Owner;
pub(crate) use prompt::Prompt;
pub(crate) use resource::Resource;
pub(crate) use rules::{Bound, Rule};
pub(crate) use server::Server;
pub(crate) use tool::{TaskSupport, Tool};
pub(crate) use tools::{Entry, Tools, check_block};

/// What a function is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Tool,
    Resource,
    Prompt,
    Server,
    Form,
}

impl Kind {
    /// The kind with its article, as the subject of a message.
    pub(crate) fn subject(self) -> &'static str {
        match self {
            Self::Tool => "a tool",
            Self::Resource => "a resource",
            Self::Prompt => "a prompt",
            Self::Server => "a `#[server]` function",
            Self::Form => "a form",
        }
    }

    /// What the kind calls a parameter that the caller gives.
    pub(crate) fn argument(self) -> &'static str {
        match self {
            Self::Tool => "an argument of a tool",
            Self::Resource => "an argument of a resource",
            Self::Prompt => "an argument of a prompt",
            Self::Server => "a flag of the command line",
            Self::Form => "a field of a form",
        }
    }

    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Self::Tool => "#[tool]",
            Self::Resource => "#[resource]",
            Self::Prompt => "#[prompt]",
            Self::Server => "#[server]",
            Self::Form => "#[derive(Elicit)]",
        }
    }
}
