//! The macros find `mcp-runtime` under the name that this package gives it.

/// Say a word.
#[framework::tool(tags("hygiene"))]
#[must_use]
pub fn renamed(word: String) -> String {
    word
}

/// A form.
#[derive(Debug, framework::Elicit)]
pub struct Form {
    /// Text.
    #[elicit(length = 1..)]
    pub text: String,
}
