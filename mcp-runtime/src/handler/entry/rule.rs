/// The default of an argument or of a form field.
#[derive(Debug, Clone, Copy)]
pub enum ArgumentDefault {
    /// A literal, as JSON.
    Json(&'static str),
    /// An expression, evaluated and serialized.
    Expression(fn() -> Result<serde_json::Value, serde_json::Error>),
}

/// A constraint on an argument or a form field: a keyword of its schema.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// `minimum`
    Minimum(Bound),
    /// `maximum`
    Maximum(Bound),
    /// `exclusiveMinimum`
    ExclusiveMinimum(Bound),
    /// `exclusiveMaximum`
    ExclusiveMaximum(Bound),
    /// `minLength`, `minItems` or `minProperties`
    MinLength(u64),
    /// `maxLength`, `maxItems` or `maxProperties`
    MaxLength(u64),
    /// `pattern`
    Pattern(&'static str),
    /// `format`
    Format(&'static str),
    /// `examples`, each as JSON
    Examples(&'static [&'static str]),
    /// `x-mcp-header`
    Header(&'static str),
}

impl Rule {
    /// Returns whether the rule rejects values that the type accepts.
    pub(crate) fn is_constraint(&self) -> bool {
        !matches!(self, Self::Examples(_) | Self::Header(_))
    }
}

/// The bound of a range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    /// An integer.
    Integer(i128),
    /// Any other number.
    Float(f64),
}
