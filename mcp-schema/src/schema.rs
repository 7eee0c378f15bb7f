//! The structure of schemas: the places where a schema contains other schemas.

use std::{error::Error, fmt};

use serde_json::{Map, Value};

/// A schema that cannot be built or enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError(String);

impl SchemaError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Adds the name of the argument to the message.
    pub(super) fn of_argument(self, name: &str) -> Self {
        Self(format!("argument `{name}`: {self}"))
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for SchemaError {}

/// The only supported `$schema`.
///
/// See [JSON Schema usage](https://modelcontextprotocol.io/specification/2025-11-25/basic#json-schema-usage).
pub(super) const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The keyword that marks a schema from which `null` was removed, although decoding accepts it. Not listed.
pub(super) const NULLABLE: &str = "$nullable";

/// The kind of value that a keyword has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordValue {
    /// A schema.
    Schema,
    /// An array of schemas.
    SchemaArray,
    /// An object whose values are schemas.
    SchemaMap,
    /// Data. Its members are not keywords, even if they have the name of one.
    Data,
}

impl KeywordValue {
    /// Returns the kind of value that a keyword of JSON Schema 2020-12 has. The value of an unknown keyword is data.
    pub(super) fn of(keyword: &str) -> Self {
        match keyword {
            "items"
            | "contains"
            | "additionalProperties"
            | "propertyNames"
            | "not"
            | "if"
            | "then"
            | "else"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "contentSchema" => Self::Schema,
            "allOf" | "anyOf" | "oneOf" | "prefixItems" => Self::SchemaArray,
            "properties" | "patternProperties" | "dependentSchemas" | "$defs" => Self::SchemaMap,
            _ => Self::Data,
        }
    }
}

/// Returns whether a keyword's schemas apply to a value without being asserted of it. A weaker schema there may reject
/// more values.
pub(super) fn is_condition(keyword: &str) -> bool {
    matches!(keyword, "if" | "then" | "else" | "not" | "contains" | "dependentSchemas")
}

/// Returns whether a schema has one of these keywords. For the few members of most schemas, comparing keys is cheaper
/// than hashing keywords.
pub(super) fn has_any(schema: &Map<String, Value>, keywords: &[&str]) -> bool {
    schema.keys().any(|keyword| keywords.contains(&keyword.as_str()))
}

/// Returns the schemas directly inside a schema.
pub(super) fn subschemas(schema: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    schema.iter().flat_map(|(keyword, value)| -> Vec<&Value> {
        match (KeywordValue::of(keyword), value) {
            (KeywordValue::Schema, value) => vec![value],
            (KeywordValue::SchemaArray, Value::Array(list)) => list.iter().collect(),
            (KeywordValue::SchemaMap, Value::Object(named)) => named.values().collect(),
            _ => Vec::new(),
        }
    })
}

/// Calls `visit` for each schema directly inside `schema`, with its keyword and, in a map of schemas, its name.
pub(super) fn visit_subschemas_mut(
    schema: &mut Map<String, Value>,
    visit: &mut dyn FnMut(&str, Option<&str>, &mut Value),
) {
    for (keyword, value) in schema {
        match (KeywordValue::of(keyword), value) {
            (KeywordValue::Schema, value) => visit(keyword, None, value),
            (KeywordValue::SchemaArray, Value::Array(list)) => {
                list.iter_mut().for_each(|value| visit(keyword, None, value));
            }
            (KeywordValue::SchemaMap, Value::Object(named)) => {
                named.iter_mut().for_each(|(name, value)| visit(keyword, Some(name), value));
            }
            _ => {}
        }
    }
}

/// Calls `visit` for each `$ref` in the schema, at any depth.
pub(super) fn visit_references(schema: &Value, visit: &mut dyn FnMut(&str)) {
    let Value::Object(schema) = schema else { return };
    if let Some(Value::String(reference)) = schema.get("$ref") {
        visit(reference);
    }
    subschemas(schema).for_each(|inner| visit_references(inner, visit));
}

/// Calls `visit` for each `$ref` in the schema, at any depth, except in schemas with an `$id`, which is their base.
pub(super) fn visit_references_mut(schema: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    let Value::Object(schema) = schema else { return };
    if schema.contains_key("$id") {
        return;
    }
    if let Some(Value::String(reference)) = schema.get_mut("$ref") {
        visit(reference);
    }
    visit_subschemas_mut(schema, &mut |_, _, inner| visit_references_mut(inner, visit));
}

/// Counts the JSON values in a schema, as a measure of its size.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(size).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        _ => 1,
    }
}
