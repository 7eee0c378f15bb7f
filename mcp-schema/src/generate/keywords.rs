//! Keywords that a declaration adds to the schema of an argument.

use std::{cmp::Ordering, collections::BTreeSet};

use serde_json::{Map, Number, Value};

use crate::{references, schema::SchemaError};

/// A keyword that is added to the schema of an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Keyword {
    /// The minimum.
    Minimum(Bound),
    /// The maximum.
    Maximum(Bound),
    /// An exclusive maximum.
    ExclusiveMaximum(Bound),
    /// The minimum number of characters, items or members.
    MinLength(u64),
    /// The maximum number of characters, items or members.
    MaxLength(u64),
    /// A regular expression, which is not anchored.
    Pattern(&'static str),
    /// The name of a string format.
    Format(&'static str),
    /// Example values, each as JSON.
    Examples(&'static [&'static str]),
    /// A keyword that is not part of JSON Schema, and its value.
    Extension(&'static str, &'static str),
}

impl Keyword {
    /// Returns whether the keyword rejects values that the type accepts.
    pub fn is_constraint(&self) -> bool {
        !matches!(self, Self::Examples(_) | Self::Extension(..))
    }

    /// Returns the name in error messages.
    fn name(&self) -> &'static str {
        match self {
            Self::Minimum(_) | Self::Maximum(_) | Self::ExclusiveMaximum(_) => "range",
            Self::MinLength(_) | Self::MaxLength(_) => "length",
            Self::Pattern(_) => "pattern",
            Self::Format(_) => "format",
            Self::Examples(_) => "examples",
            Self::Extension(name, _) => name,
        }
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

impl Bound {
    fn number(self) -> Result<Number, SchemaError> {
        let number = match self {
            Self::Integer(integer) => Number::from_i128(integer),
            Self::Float(float) => Number::from_f64(float),
        };
        number.ok_or_else(|| SchemaError::new(format!("the bound {self:?} is not a JSON number")))
    }
}

/// Adds the keyword to the schema.
///
/// # Errors
///
/// Fails if the keyword is not applicable to the type, if its value is not JSON, or if no value would be valid.
pub(super) fn apply(
    schema: &mut Map<String, Value>,
    definitions: &Map<String, Value>,
    keyword: Keyword,
) -> Result<(), SchemaError> {
    let types = types(schema, definitions, 0);
    let name = keyword.name();
    let not_applicable = |expected: &str| {
        let found = types.iter().copied().collect::<Vec<_>>().join(" or ");
        let found = if found.is_empty() { "any type".to_owned() } else { found };
        Err(SchemaError::new(format!("`{name}` requires {expected}, found {found}")))
    };
    let is = |name: &str| types.contains(name);
    match keyword {
        Keyword::Minimum(_) | Keyword::Maximum(_) | Keyword::ExclusiveMaximum(_)
            if !(is("integer") || is("number")) =>
        {
            not_applicable("a number")
        }
        Keyword::Minimum(bound) => tighten(schema, "minimum", bound.number()?, Ordering::Greater),
        Keyword::Maximum(bound) => tighten(schema, "maximum", bound.number()?, Ordering::Less),
        Keyword::ExclusiveMaximum(bound) => tighten(schema, "exclusiveMaximum", bound.number()?, Ordering::Less),
        Keyword::MinLength(_) | Keyword::MaxLength(_) => {
            let keywords = match (is("string"), is("array"), is("object")) {
                (true, false, false) => ("minLength", "maxLength"),
                (false, true, false) => ("minItems", "maxItems"),
                (false, false, true) => ("minProperties", "maxProperties"),
                _ => return not_applicable("a string, an array or an object"),
            };
            match keyword {
                Keyword::MinLength(least) => tighten(schema, keywords.0, least.into(), Ordering::Greater),
                Keyword::MaxLength(most) => tighten(schema, keywords.1, most.into(), Ordering::Less),
                _ => Ok(()),
            }
        }
        Keyword::Pattern(_) | Keyword::Format(_) if !is("string") => not_applicable("a string"),
        Keyword::Pattern(pattern) => set(schema, "pattern", pattern.into()),
        Keyword::Format(format) => set(schema, "format", format.into()),
        Keyword::Examples(examples) => {
            let parsed: Result<Vec<Value>, _> = examples.iter().map(|json| serde_json::from_str(json)).collect();
            let parsed = parsed.map_err(|error| SchemaError::new(format!("an example: {error}")))?;
            set(schema, "examples", parsed.into())
        }
        Keyword::Extension(name, value) => set(schema, name, value.into()),
    }
}

/// Sets a bound.
///
/// # Errors
///
/// Fails if the type has a tighter bound, or if no value would be valid.
fn tighten(
    schema: &mut Map<String, Value>,
    keyword: &str,
    bound: Number,
    tighter: Ordering,
) -> Result<(), SchemaError> {
    let present = schema.get(keyword).and_then(Value::as_number);
    if let Some(present) = present.filter(|present| compare(&bound, present) == tighter.reverse()) {
        return Err(SchemaError::new(format!("`{keyword}` is {bound}, but that of the type is {present}")));
    }
    schema.insert(keyword.to_owned(), Value::Number(bound));
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_number);
    let pairs = [
        ("minimum", "maximum"),
        ("minLength", "maxLength"),
        ("minItems", "maxItems"),
        ("minProperties", "maxProperties"),
    ];
    for (low, high) in pairs.into_iter().filter(|(low, high)| [*low, *high].contains(&keyword)) {
        if let (Some(least), Some(most)) = (number(low), number(high))
            && compare(least, most) == Ordering::Greater
        {
            let message = format!("no value is valid: `{low}` is {least}, but `{high}` is {most}");
            return Err(SchemaError::new(message));
        }
    }
    Ok(())
}

fn set(schema: &mut Map<String, Value>, keyword: &str, value: Value) -> Result<(), SchemaError> {
    schema.insert(keyword.to_owned(), value);
    Ok(())
}

fn compare(left: &Number, right: &Number) -> Ordering {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.as_f64().partial_cmp(&right.as_f64()).unwrap_or(Ordering::Equal),
    }
}

/// Returns the types of a schema or of its branches, without `null`. Returns an empty set if the types are
/// unrestricted.
fn types<'a>(schema: &'a Map<String, Value>, definitions: &'a Map<String, Value>, depth: usize) -> BTreeSet<&'a str> {
    const DEPTH: usize = 16;

    let mut found = BTreeSet::new();
    match schema.get("type") {
        Some(Value::String(name)) => found.extend([name.as_str()]),
        Some(Value::Array(names)) => found.extend(names.iter().filter_map(Value::as_str)),
        _ if depth < DEPTH => {
            let name = schema.get("$ref").and_then(Value::as_str).and_then(references::definition);
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
