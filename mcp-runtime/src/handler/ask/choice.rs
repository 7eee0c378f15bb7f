/// An enum whose variants the user chooses from: a single one, or several with a `Vec`.
///
/// Implement it with `#[derive(Elicit)]` on an enum without data.
///
/// See [Requested schema](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#requested-schema).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an item of a list in a form",
    label = "expected an enum that derives `Elicit`: lists in forms are lists of choices",
    note = "for an enum of your own without data in its variants, add `#[derive(mcp_runtime::Elicit)]`"
)]
pub trait ElicitChoice: Sized + Send + 'static {
    /// The choices, in the order of the variants.
    #[doc(hidden)]
    const CHOICES: &'static ChoiceSet;

    /// Returns the variant at an index.
    #[doc(hidden)]
    fn from_index(index: usize) -> Option<Self>;

    /// Returns the index of the variant.
    #[doc(hidden)]
    fn index(&self) -> usize;
}

/// The choices of an enum.
#[derive(Debug, PartialEq, Eq)]
pub struct ChoiceSet {
    /// Whether titles are encoded as `enumNames`.
    pub legacy_names: bool,
    /// The variants.
    pub all: &'static [Choice],
}

/// One variant of an enum.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// The value in the requested schema.
    pub value: &'static str,
    /// The display name.
    pub title: Option<&'static str>,
}

impl Choice {
    pub(super) fn title(&self) -> &'static str {
        self.title.unwrap_or(self.value)
    }
}

impl ChoiceSet {
    /// Returns whether any choice has a title.
    pub(super) fn is_titled(&self) -> bool {
        self.all.iter().any(|choice| choice.title.is_some())
    }

    /// Returns the index of the choice with a value.
    pub(super) fn index_of(&self, value: &str) -> Option<usize> {
        self.all.iter().position(|choice| choice.value == value)
    }
}
