//! Finds schemas that need no checking, because decoding into the Rust type refuses everything that they refuse.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::handler::schema::pointer;

/// Tells whether every value that serde decodes into the type also fits the schema which schemars generated for that type.
///
/// The schema must be as generated: what tells the bounds of an `u8` from those that an author set on an `i64` is its `format`.
/// In doubt the answer is no, which costs a check and is never wrong.
pub(super) fn implied(schema: &Value, definitions: &Map<String, Value>) -> bool {
    Judge { definitions, judged: BTreeSet::new() }.schema(schema, Place::Field)
}

/// Where a schema stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is that of a field, where an author may have extended it.
    Field,
    /// It is the whole of a type, and comes from the derive.
    Type,
    /// It is one variant of an enum.
    Variant,
}

#[derive(Debug)]
struct Judge<'a> {
    definitions: &'a Map<String, Value>,
    /// Definitions that were or are being looked at, so that a recursion ends.
    judged: BTreeSet<String>,
}

impl Judge<'_> {
    fn schema(&mut self, schema: &Value, place: Place) -> bool {
        match schema {
            Value::Bool(anything) => *anything,
            Value::Object(schema) => {
                self.bounds(schema) && schema.iter().all(|(keyword, value)| self.keyword(schema, keyword, value, place))
            }
            _ => false,
        }
    }

    fn keyword(&mut self, schema: &Map<String, Value>, keyword: &str, value: &Value, place: Place) -> bool {
        match keyword {
            "$comment" | "title" | "description" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly" => {
                true
            }
            // All three are looked at together.
            "format" | "minimum" | "maximum" => true,
            "type" => typed(schema, value),
            "$ref" => value.as_str().is_some_and(|reference| self.reference(reference)),
            "properties" => values(value).all(|property| {
                let tag = place == Place::Variant && property.get("const").is_some_and(Value::is_string);
                tag || self.schema(property, Place::Field)
            }),
            "required" => elements(value).all(|name| {
                let own = schema.get("properties").and_then(Value::as_object);
                name.as_str().is_some_and(|name| own.is_some_and(|own| own.contains_key(name)))
            }),
            "items" => value.is_boolean() || self.schema(value, Place::Field),
            "prefixItems" => elements(value).all(|item| self.schema(item, Place::Field)),
            // serde wants a tuple's length, but a list's length is the author's rule.
            "minItems" | "maxItems" => {
                let length = schema.get("prefixItems").and_then(Value::as_array).map(Vec::len);
                length.is_some() && value.as_u64() == length.and_then(|length| u64::try_from(length).ok())
            }
            "additionalProperties" => match value {
                // serde wants the one key that names the variant. Of a struct it is not known whether serde denies more.
                Value::Bool(false) => place == Place::Variant && one_required_property(schema),
                other => self.schema(other, Place::Field),
            },
            "enum" => place != Place::Field && elements(value).all(Value::is_string),
            "const" => place != Place::Field && value.is_string(),
            "anyOf" | "oneOf" => elements(value).all(|branch| {
                // A branch without a type, such as one that only demands members, is an author's rule.
                let stated = ["type", "$ref", "anyOf"].iter().any(|keyword| branch.get(keyword).is_some());
                let inner = if place == Place::Type { Place::Variant } else { Place::Field };
                stated && self.schema(branch, inner)
            }),
            _ => false,
        }
    }

    fn reference(&mut self, reference: &str) -> bool {
        let Some(name) = pointer::definition(reference) else { return false };
        let definitions = self.definitions;
        let Some(schema) = definitions.get(&name) else { return false };
        !self.judged.insert(name) || self.schema(schema, Place::Type)
    }

    /// Tells whether bounds and `format` are those of a primitive type.
    fn bounds(&self, schema: &Map<String, Value>) -> bool {
        let bounds = (schema.get("minimum"), schema.get("maximum"));
        let number = |value: Option<&Value>, expected: i64| value.is_some_and(|value| value.as_i64() == Some(expected));
        match (schema.get("format").and_then(Value::as_str), bounds) {
            (None, bounds) => bounds == (None, None) && !schema.contains_key("format"),
            (Some("float" | "double"), bounds) => bounds == (None, None) && says(schema, "number"),
            (Some("uint8"), (minimum, maximum)) => number(minimum, 0) && number(maximum, 255),
            (Some("uint16"), (minimum, maximum)) => number(minimum, 0) && number(maximum, 65_535),
            (Some("int8"), (minimum, maximum)) => number(minimum, -128) && number(maximum, 127),
            (Some("int16"), (minimum, maximum)) => number(minimum, -32_768) && number(maximum, 32_767),
            (Some("uint32" | "uint64" | "uint128" | "uint"), (minimum, None)) => number(minimum, 0),
            (Some("int32" | "int64" | "int128" | "int"), (None, None)) => true,
            _ => false,
        }
    }
}

/// Tells whether decoding enforces the type. Of an integer that takes the `format`, without which an author said so of a float.
fn typed(schema: &Map<String, Value>, kind: &Value) -> bool {
    let integer = schema.get("format").and_then(Value::as_str).is_some_and(|format| format.contains("int"));
    match kind {
        Value::String(kind) => kind != "integer" || integer,
        Value::Array(kinds) => kinds.iter().all(|kind| kind != "integer" || integer),
        _ => false,
    }
}

fn says(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind == name,
        Some(Value::Array(kinds)) => kinds.iter().all(|kind| kind == name || kind == "null"),
        _ => false,
    }
}

fn one_required_property(schema: &Map<String, Value>) -> bool {
    let count = |keyword: &str| match schema.get(keyword) {
        Some(Value::Array(list)) => list.len(),
        Some(Value::Object(map)) => map.len(),
        _ => 0,
    };
    count("properties") == 1 && count("required") == 1
}

fn values(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_object().into_iter().flat_map(Map::values)
}

fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
