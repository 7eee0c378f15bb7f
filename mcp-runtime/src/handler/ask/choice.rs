/// An enum whose variants a person chooses from: one of them, or several as a `Vec`.
///
/// There is nothing to implement: `#[derive(Elicit)]` on an enum without data does it.
///
/// See [Requested schema](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema).
#[diagnostic::on_unimplemented(
    message = "a form has no list of `{Self}`",
    label = "a list in a form is one of choices: `Vec` of an enum that derives `Elicit`",
    note = "for an enum of your own, without data in its variants, add `#[derive(mcp_runtime::Elicit)]`"
)]
pub trait ElicitChoice: Sized + Send + 'static {
    /// The choices, in the order of the variants.
    #[doc(hidden)]
    const CHOICES: &'static Choices;

    /// Makes the variant of a choice.
    #[doc(hidden)]
    fn choose(index: usize) -> Option<Self>;

    /// Tells which choice it is.
    #[doc(hidden)]
    fn chosen(&self) -> usize;
}

/// What an enum says of its variants.
#[derive(Debug, PartialEq, Eq)]
pub struct Choices {
    /// Whether titles go out as `enumNames`.
    pub legacy_names: bool,
    /// The variants.
    pub all: &'static [Choice],
}

/// One variant.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// What goes over the encoding.
    pub value: &'static str,
    /// What a person reads.
    pub title: Option<&'static str>,
}

impl Choice {
    pub(super) fn title(&self) -> &'static str {
        self.title.unwrap_or(self.value)
    }
}

impl Choices {
    /// Tells whether any of them has a title.
    pub(super) fn is_titled(&self) -> bool {
        self.all.iter().any(|choice| choice.title.is_some())
    }

    /// Finds the choice of a value.
    pub(super) fn index_of(&self, value: &str) -> Option<usize> {
        self.all.iter().position(|choice| choice.value == value)
    }
}
