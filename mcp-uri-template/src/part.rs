//! The parts of a parsed template.

/// A part of a template.
///
/// The parser returns owned strings. Code that a macro generates uses `&'static str` for `S` and
/// `&'static [&'static str]` for `V`, so that a template is a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<S = String, V = Vec<S>> {
    /// Text outside of braces.
    Literal(S),
    /// `{…}`
    Expression {
        /// The character in front of the variables.
        operator: Operator,
        /// The names of the variables.
        variables: V,
    },
}

/// The kind of an expression, which decides how its variables expand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `{a}`
    Simple,
    /// `{+a}`: leaves reserved characters such as `/` unencoded.
    Reserved,
    /// `{#a}`: like `{+a}`, with a leading `#`.
    Fragment,
    /// `{.a}`
    Label,
    /// `{/a}`
    Path,
    /// `{;a}`
    PathParameter,
    /// `{?a}`
    Query,
    /// `{&a}`
    QueryContinuation,
}

impl Operator {
    /// Returns whether each value is preceded by its name, as in `{?a}`.
    #[must_use]
    pub fn is_named(self) -> bool {
        matches!(self, Self::PathParameter | Self::Query | Self::QueryContinuation)
    }

    /// Returns the text in front of the first value.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Simple | Self::Reserved => "",
            Self::Fragment => "#",
            Self::Label => ".",
            Self::Path => "/",
            Self::PathParameter => ";",
            Self::Query => "?",
            Self::QueryContinuation => "&",
        }
    }

    /// Returns the text between two values.
    pub(crate) fn separator(self) -> &'static str {
        match self {
            Self::Simple | Self::Reserved | Self::Fragment => ",",
            Self::Label | Self::Path | Self::PathParameter => self.prefix(),
            Self::Query | Self::QueryContinuation => "&",
        }
    }

    /// Returns whether reserved characters stay unencoded.
    pub(crate) fn keeps_reserved(self) -> bool {
        matches!(self, Self::Reserved | Self::Fragment)
    }

    /// Returns the characters that end a named value.
    pub(crate) fn terminators(self) -> &'static [u8] {
        if self == Self::PathParameter { b";/?#" } else { b"&#" }
    }
}
