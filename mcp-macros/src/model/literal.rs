//! Literals and their JSON.

use syn::{Expr, Lit, UnOp};

use crate::{
    errors::Errors,
    syntax::{JsonMember, JsonSyntax},
};

/// A value that is known at compile time.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Number(Number),
    Str(String),
    Bool(bool),
    Array(Vec<Self>),
}

/// A number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Number {
    Integer(i128),
    Float(f64, String),
}

impl Literal {
    /// Returns the value of a literal or of an array of literals.
    pub(super) fn of(expression: &Expr) -> Option<Self> {
        match expression {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(Self::Str(text.value())),
                Lit::Char(letter) => Some(Self::Str(letter.value().to_string())),
                Lit::Bool(value) => Some(Self::Bool(value.value)),
                Lit::Int(_) | Lit::Float(_) => Number::of(expression).map(Self::Number),
                _ => None,
            },
            Expr::Unary(_) => Number::of(expression).map(Self::Number),
            Expr::Array(array) => array.elems.iter().map(Self::of).collect::<Option<_>>().map(Self::Array),
            Expr::Group(group) => Self::of(&group.expr),
            Expr::Paren(paren) => Self::of(&paren.expr),
            _ => None,
        }
    }

    pub(super) fn json(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Str(text) => json_string(text),
            Self::Bool(value) => value.to_string(),
            Self::Array(items) => format!("[{}]", items.iter().map(Self::json).collect::<Vec<_>>().join(",")),
        }
    }

    /// Returns the kind of the value, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Number(_) => "a number",
            Self::Str(_) => "a string",
            Self::Bool(_) => "a boolean",
            Self::Array(_) => "an array",
        }
    }
}

impl Number {
    /// Returns the value of a number with an optional sign.
    pub(super) fn of(expression: &Expr) -> Option<Self> {
        match expression {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(integer) => integer.base10_parse().ok().map(Self::Integer),
                Lit::Float(float) => Self::float(float.base10_digits()),
                _ => None,
            },
            Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => match Self::of(&unary.expr)? {
                Self::Integer(integer) => integer.checked_neg().map(Self::Integer),
                Self::Float(_, digits) => Self::float(&format!("-{digits}")),
            },
            Expr::Group(group) => Self::of(&group.expr),
            Expr::Paren(paren) => Self::of(&paren.expr),
            _ => None,
        }
    }

    fn float(digits: &str) -> Option<Self> {
        // `1.` is valid in Rust but not in JSON.
        let digits = digits.strip_suffix('.').map_or(digits.to_owned(), |whole| format!("{whole}.0"));
        let value: f64 = digits.parse().ok()?;
        value.is_finite().then_some(Self::Float(value, digits))
    }
}

impl PartialOrd for Number {
    #[allow(clippy::cast_precision_loss, reason = "the comparison follows JSON Schema")]
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        let float = |number: &Self| match number {
            Self::Integer(integer) => *integer as f64,
            Self::Float(float, _) => *float,
        };
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a.partial_cmp(b),
            _ => float(self).partial_cmp(&float(other)),
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Float(_, digits) => f.write_str(digits),
        }
    }
}

/// Returns a JSON value as text. Reports what has no JSON, and duplicate keys.
pub(super) fn json(value: &JsonSyntax, errors: &mut Errors) -> String {
    match value {
        JsonSyntax::Null => "null".to_owned(),
        JsonSyntax::Literal(expression) => match Literal::of(expression) {
            Some(literal) => literal.json(),
            None => {
                errors.on(expression, "expected JSON: a literal, `null`, `[value, …]` or `{\"key\": value, …}`");
                String::new()
            }
        },
        JsonSyntax::Array(items) => {
            format!("[{}]", items.iter().map(|item| json(item, errors)).collect::<Vec<_>>().join(","))
        }
        JsonSyntax::Object(members) => {
            let mut keys: Vec<String> = Vec::new();
            let mut written = Vec::new();
            for JsonMember { key, value } in members {
                let name = key.value();
                if keys.contains(&name) {
                    errors.on(key, format_args!("duplicate key `{name}`"));
                }
                written.push(format!("{}:{}", json_string(&name), json(value, errors)));
                keys.push(name);
            }
            format!("{{{}}}", written.join(","))
        }
    }
}

pub(super) fn json_string(text: &str) -> String {
    let mut json = String::from('"');
    for c in text.chars() {
        match c {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            c if c < ' ' => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => json.push(c),
        }
    }
    json + "\""
}

#[cfg(test)]
mod tests {
    use super::Literal;

    #[test]
    fn literals_are_converted_to_json() {
        for (rust, expected) in [
            ("1", Some("1")),
            ("-5", Some("-5")),
            ("0xff_u8", Some("255")),
            ("1_000", Some("1000")),
            ("1.", Some("1.0")),
            ("-2.5e3", Some("-2.5e3")),
            ("170141183460469231731687303715884105728", None),
            ("1e999", None),
            ("true", Some("true")),
            ("'x'", Some("\"x\"")),
            ("\"a \\\"b\\\" \\\\ \\n\"", Some("\"a \\\"b\\\" \\\\ \\u000a\"")),
            ("[1, -2]", Some("[1,-2]")),
            ("[]", Some("[]")),
            ("(3)", Some("3")),
            ("LIMIT", None),
            ("1 + 1", None),
            ("-x", None),
            ("b\"x\"", None),
        ] {
            let expression = syn::parse_str(rust).expect("an expression");
            assert_eq!(Literal::of(&expression).map(|literal| literal.json()).as_deref(), expected, "{rust}");
        }
    }
}
