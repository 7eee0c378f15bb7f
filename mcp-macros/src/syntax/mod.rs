//! The first stage: parsed options and functions, not yet checked.

mod common;
mod docs;
#[cfg(feature = "ask")]
mod elicit;
mod function;
mod options;
mod resource;
mod server;
mod tools;
#[cfg(feature = "ui")]
mod ui;

pub(crate) use common::{CommonSyntax, IconSyntax, JsonMember, JsonSyntax, MetaSyntax, PromptSyntax, ScopeSyntax};
pub(crate) use docs::{DocFragment, Docs};
#[cfg(feature = "ask")]
pub(crate) use elicit::{ElicitSyntax, FieldSyntax, ItemSyntax, VariantSyntax};
pub(crate) use function::{ArgumentSyntax, Function, Parameter};
pub(crate) use resource::{CompleteSyntax, ResourceSyntax};
pub(crate) use server::ServerSyntax;
pub(crate) use tools::{Method, ToolSyntax, ToolsSyntax};
#[cfg(feature = "ui")]
pub(crate) use ui::PageSyntax;

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

/// A heading in the documentation of a macro, and the names of the options in the table below it.
#[cfg(test)]
pub(crate) type OptionTable = (String, Vec<String>);

/// Returns the tables that the documentation of each macro must contain: all options that the macro accepts.
#[cfg(test)]
pub(crate) fn option_tables() -> Vec<(&'static str, Vec<OptionTable>)> {
    use self::options::OptionSpec;

    fn table(heading: &str, known: &[&[OptionSpec]]) -> OptionTable {
        (heading.to_owned(), known.iter().copied().flatten().map(|option| option.name.to_owned()).collect())
    }

    let only_crate = || vec![("Options".to_owned(), vec!["crate".to_owned()])];
    #[cfg(feature = "ask")]
    let elicit = {
        let mut of_type = table("Options of the type", &[&elicit::ENUM]);
        of_type.1.push("crate".to_owned());
        vec![of_type, table("Options of fields", &[&elicit::FIELD]), table("Options of variants", &[&elicit::VARIANT])]
    };
    vec![
        ("tool", vec![table("Options", &tools::TOOL), table("Options of parameters", &[&function::ARGUMENT])]),
        ("resource", vec![table("Options", &resource::KNOWN)]),
        ("prompt", vec![table("Options", &common::PROMPT)]),
        ("tools", vec![("Options".to_owned(), vec!["scopes".to_owned(), "crate".to_owned()])]),
        #[cfg(feature = "ask")]
        ("elicit", elicit),
        ("server", only_crate()),
        #[cfg(feature = "ui")]
        ("ui", vec![table("Options", &ui::KNOWN)]),
    ]
}
