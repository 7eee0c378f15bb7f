/// A part
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Literal(&'static str),
    /// Expr.
    Expression {
        /// op
        operator: Operator,
        /// vars
        variables: &'static [&'static str],
    },
}
/// The operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `{x}`
    Simple,
    /// `{+x}`
    Reserved,
    /// `{#x}`
    Fragment,
    /// `{.x}`
    Label,
    /// `{/x}`
    Path,
    /// `{;x}`
    PathParameter,
    /// `{?x}`
    Query,
    /// `{&x}`
    QueryContinuation,
}
