//! Reads the values of keywords.

use std::{cmp::Ordering, fmt};

use regex_lite::RegexBuilder;
use serde_json::{Map, Value};

use super::{
    format::Format,
    node::{Bound, Counts, NumberRules, Pattern, StringRules, Types},
    number::{Number, integer},
};
use crate::{
    error::SchemaError,
    subschemas::{DIALECT, has_any},
};

pub(super) fn check_dialect(schema: &Map<String, Value>) -> Result<(), SchemaError> {
    match schema.get("$schema") {
        Some(dialect) if dialect.as_str().is_none_or(|dialect| dialect.trim_end_matches('#') != DIALECT) => {
            Err(SchemaError::new(format!("unsupported `$schema` {dialect}, expected `{DIALECT}`")))
        }
        _ => Ok(()),
    }
}

pub(super) fn types(schema: &Map<String, Value>) -> Result<Option<Types>, SchemaError> {
    let named = |name: &Value| {
        let known = name.as_str().and_then(Types::named);
        known.ok_or_else(|| must_be("`type`", "a JSON type or an array of JSON types", name))
    };
    match schema.get("type") {
        None => Ok(None),
        Some(Value::Array(names)) => {
            let all = names.iter().map(named).collect::<Result<Vec<_>, _>>()?;
            Ok(Some(all.into_iter().fold(Types::default(), Types::with)))
        }
        Some(name) => named(name).map(Some),
    }
}

pub(super) fn number(schema: &Map<String, Value>) -> Result<NumberRules, SchemaError> {
    let mut rules = NumberRules::default();
    for (keyword, beyond, inclusive) in [
        ("minimum", Ordering::Less, true),
        ("exclusiveMinimum", Ordering::Less, false),
        ("maximum", Ordering::Greater, true),
        ("exclusiveMaximum", Ordering::Greater, false),
    ] {
        if let Some((value, shown)) = number_of(schema, keyword)? {
            rules.bounds.push(Bound { value, beyond, inclusive, shown });
        }
    }
    rules.multiple_of = number_of(schema, "multipleOf")?;
    if let Some((of, shown)) = &rules.multiple_of
        && of.compare(Number::Integer(0)) != Some(Ordering::Greater)
    {
        return Err(must_be("`multipleOf`", "greater than 0", shown));
    }
    Ok(rules)
}

pub(super) fn number_of(schema: &Map<String, Value>, keyword: &str) -> Result<Option<(Number, Box<str>)>, SchemaError> {
    let Some(value) = schema.get(keyword) else { return Ok(None) };
    let shown = value.to_string();
    let number = if value.is_number() { Number::parse(&shown) } else { None };
    let number = number.ok_or_else(|| must_be(&format!("`{keyword}`"), "a number", &shown))?;
    Ok(Some((number, shown.into())))
}

pub(super) fn string(schema: &Map<String, Value>) -> Result<Option<Box<StringRules>>, SchemaError> {
    let pattern = match schema.get("pattern") {
        None => None,
        Some(Value::String(pattern)) => Some(self::pattern(pattern)?),
        Some(other) => return Err(must_be("`pattern`", "a string", other)),
    };
    let format = schema.get("format").and_then(Value::as_str).map(Format::named).transpose()?.flatten();
    if pattern.is_none() && format.is_none() && !has_any(schema, &["minLength", "maxLength"]) {
        return Ok(None);
    }
    Ok(Some(Box::new(StringRules { length: counts(schema, "minLength", "maxLength")?, pattern, format })))
}

/// Compiles a pattern. `regex_lite` matches in time proportional to the length of the text and the size of the pattern,
/// which it reports only by refusing to exceed a limit.
pub(super) fn pattern(pattern: &str) -> Result<Pattern, SchemaError> {
    const LEAST: usize = 1 << 10;
    const MOST: usize = 10 << 20;
    const STATE_BYTES: usize = 64;

    let mut size = LEAST;
    loop {
        match RegexBuilder::new(pattern).size_limit(size).build() {
            Ok(regex) => return Ok(Pattern { regex, weight: (size / STATE_BYTES) as u64 }),
            Err(_) if size < MOST => size *= 4,
            Err(error) => return Err(SchemaError::new(format!("unsupported pattern `{pattern}`: {error}"))),
        }
    }
}

pub(super) fn counts(schema: &Map<String, Value>, least: &str, most: &str) -> Result<Counts, SchemaError> {
    let count = |keyword: &str, default: u64| match schema.get(keyword) {
        None => Ok(default),
        Some(value) => {
            // `2.0` is an integer, too.
            let number = integer(&value.to_string(), 20).and_then(|text| text.parse().ok());
            number.ok_or_else(|| must_be(&format!("`{keyword}`"), "a non-negative integer", value))
        }
    };
    Ok(Counts { least: count(least, 0)?, most: count(most, u64::MAX)? })
}

/// Reads an array of property names.
pub(super) fn names(value: Option<&Value>, keyword: &str) -> Result<Vec<Box<str>>, SchemaError> {
    let invalid = |found: &Value| must_be(keyword, "an array of strings", found);
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(names)) => {
            names.iter().map(|name| name.as_str().map(Box::from).ok_or_else(|| invalid(name))).collect()
        }
        Some(other) => Err(invalid(other)),
    }
}

pub(super) fn array_of<'a>(schema: &'a Map<String, Value>, keyword: &str) -> Result<Option<&'a [Value]>, SchemaError> {
    match schema.get(keyword) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list)),
        Some(other) => Err(must_be(&format!("`{keyword}`"), "an array", other)),
    }
}

pub(super) fn object_of<'a>(
    schema: &'a Map<String, Value>,
    keyword: &str,
) -> Result<Option<&'a Map<String, Value>>, SchemaError> {
    match schema.get(keyword) {
        None => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(other) => Err(must_be(&format!("`{keyword}`"), "an object", other)),
    }
}

pub(super) fn must_be(subject: &str, expected: &str, found: impl fmt::Display) -> SchemaError {
    SchemaError::new(format!("{subject} must be {expected}, found `{found}`"))
}
