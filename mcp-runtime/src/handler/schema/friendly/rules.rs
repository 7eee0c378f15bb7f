//! What an author says of an argument beside its type, merged into its schema.

use std::{cmp::Ordering, collections::BTreeSet};

use serde_json::{Map, Number, Value};

use crate::handler::schema::pointer;

/// One rule or remark from `#[arg(…)]`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Rule {
    /// The least value.
    Minimum(Number),
    /// The greatest value.
    Maximum(Number),
    /// A value that every value must be above.
    ExclusiveMinimum(Number),
    /// A value that every value must be below.
    ExclusiveMaximum(Number),
    /// The least number of characters, items or members.
    MinLength(u64),
    /// The greatest number of characters, items or members.
    MaxLength(u64),
    /// A regular expression that must match somewhere.
    Pattern(&'static str),
    /// The name of a format of strings.
    Format(&'static str),
    /// Values that show what is meant.
    Examples(Vec<Value>),
    /// The HTTP header that repeats the argument, without `Mcp-Param-` in front.
    Header(&'static str),
}

impl Rule {
    /// Whether the rule refuses values that the type allows.
    pub(super) fn constrains(&self) -> bool {
        !matches!(self, Self::Examples(_) | Self::Header(_))
    }

    /// What the author calls it.
    fn name(&self) -> &'static str {
        match self {
            Self::Minimum(_) | Self::Maximum(_) | Self::ExclusiveMinimum(_) | Self::ExclusiveMaximum(_) => "range",
            Self::MinLength(_) | Self::MaxLength(_) => "length",
            Self::Pattern(_) => "pattern",
            Self::Format(_) => "format",
            Self::Examples(_) => "examples",
            Self::Header(_) => "header",
        }
    }
}

/// Puts the rule into the schema, unless it makes no sense for the type.
///
/// # Errors
///
/// A sentence that says what the rule is for, to which the caller adds the argument's name.
pub(super) fn apply(
    schema: &mut Map<String, Value>,
    definitions: &Map<String, Value>,
    rule: Rule,
) -> Result<(), String> {
    let types = types(schema, definitions, 0);
    let misfit = |expected: &str| {
        let found = types.iter().copied().collect::<Vec<_>>().join(" or ");
        let found = if found.is_empty() { "anything".to_owned() } else { found };
        Err(format!("`{}` does not fit its type, expected {expected}, found {found}", rule.name()))
    };
    let is = |name: &str| types.contains(name);
    match rule {
        Rule::Minimum(_) | Rule::Maximum(_) | Rule::ExclusiveMinimum(_) | Rule::ExclusiveMaximum(_)
            if !(is("integer") || is("number")) =>
        {
            misfit("a number")
        }
        Rule::Minimum(bound) => tighten(schema, "minimum", bound, Ordering::Greater),
        Rule::ExclusiveMinimum(bound) => tighten(schema, "exclusiveMinimum", bound, Ordering::Greater),
        Rule::Maximum(bound) => tighten(schema, "maximum", bound, Ordering::Less),
        Rule::ExclusiveMaximum(bound) => tighten(schema, "exclusiveMaximum", bound, Ordering::Less),
        Rule::MinLength(_) | Rule::MaxLength(_) => {
            let keywords = match (is("string"), is("array"), is("object")) {
                (true, false, false) => ("minLength", "maxLength"),
                (false, true, false) => ("minItems", "maxItems"),
                (false, false, true) => ("minProperties", "maxProperties"),
                _ => return misfit("a string, an array or an object"),
            };
            match rule {
                Rule::MinLength(least) => tighten(schema, keywords.0, least.into(), Ordering::Greater),
                Rule::MaxLength(most) => tighten(schema, keywords.1, most.into(), Ordering::Less),
                _ => Ok(()),
            }
        }
        Rule::Pattern(_) | Rule::Format(_) if !is("string") => misfit("a string"),
        Rule::Pattern(pattern) => set(schema, "pattern", pattern.into()),
        Rule::Format(format) => set(schema, "format", format.into()),
        Rule::Examples(examples) => set(schema, "examples", examples.into()),
        Rule::Header(name) => {
            if name.is_empty() || !name.bytes().all(is_tchar) {
                return Err(format!("`{name}` is not the name of a header, expected letters, digits and `-`"));
            }
            let primitive = |name: &&str| matches!(*name, "string" | "integer" | "boolean");
            if types.is_empty() || !types.iter().all(primitive) {
                return misfit("a string, an integer or a boolean");
            }
            set(schema, "x-mcp-header", name.into())
        }
    }
}

/// Sets a bound, and keeps the tighter one if the type has its own. Then makes sure that something fits.
fn tighten(schema: &mut Map<String, Value>, keyword: &str, bound: Number, tighter: Ordering) -> Result<(), String> {
    let present = schema.get(keyword).and_then(Value::as_number);
    if present.is_none_or(|present| compare(&bound, present) == tighter) {
        schema.insert(keyword.to_owned(), Value::Number(bound));
    }
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_number);
    for (low, high) in [
        ("minimum", "maximum"),
        ("minLength", "maxLength"),
        ("minItems", "maxItems"),
        ("minProperties", "maxProperties"),
    ] {
        if let (Some(least), Some(most)) = (number(low), number(high))
            && compare(least, most) == Ordering::Greater
        {
            return Err(format!("nothing fits, as `{low}` is {least} and `{high}` is {most}"));
        }
    }
    Ok(())
}

fn set(schema: &mut Map<String, Value>, keyword: &str, value: Value) -> Result<(), String> {
    schema.insert(keyword.to_owned(), value);
    Ok(())
}

fn compare(left: &Number, right: &Number) -> Ordering {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
    }
}

/// Returns the types that a schema states or that its branches do, without `null`. Nothing is stated of one that allows anything.
fn types<'a>(schema: &'a Map<String, Value>, definitions: &'a Map<String, Value>, depth: usize) -> BTreeSet<&'a str> {
    const DEPTH: usize = 16;

    let mut found = BTreeSet::new();
    match schema.get("type") {
        Some(Value::String(name)) => found.extend([name.as_str()]),
        Some(Value::Array(names)) => found.extend(names.iter().filter_map(Value::as_str)),
        _ if depth < DEPTH => {
            let name = schema.get("$ref").and_then(Value::as_str).and_then(pointer::definition);
            let target = name.and_then(|name| definitions.get(&name));
            let branches = ["anyOf", "oneOf"].iter().filter_map(|keyword| schema.get(*keyword)?.as_array()).flatten();
            for inner in target.into_iter().chain(branches).filter_map(Value::as_object) {
                found.extend(types(inner, definitions, depth + 1));
            }
        }
        _ => {}
    }
    found.remove("null");
    found
}

/// The characters of a token in HTTP, see <https://www.rfc-editor.org/rfc/rfc9110#name-tokens>.
fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
