//! Kinds of items.

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
