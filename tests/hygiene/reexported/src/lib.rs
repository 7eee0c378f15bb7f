//! The macros with an explicit path of `mcp-runtime`.

use hygiene_strict::framework::{tool, tools};

/// Say a word.
#[tool(crate = hygiene_strict::framework, tags("hygiene"))]
#[must_use]
pub fn reexported(word: String) -> String {
    word
}

/// Says words.
#[derive(Debug)]
pub struct Speaker;

#[tools(crate = hygiene_strict::framework)]
impl Speaker {
    /// Say a word.
    #[tool(tags("hygiene"))]
    #[must_use]
    pub fn reexported_method(&self, word: String) -> String {
        word
    }
}

/// A form.
#[derive(Debug, hygiene_strict::framework::Elicit)]
#[elicit(crate = hygiene_strict::framework)]
pub struct Form {
    /// Text.
    #[elicit(length = 1..)]
    pub text: String,
}
