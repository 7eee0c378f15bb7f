//! Finds schemas that need no separate check, because decoding into the Rust type enforces them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::handler::schema::pointer;

/// Returns whether every value that serde decodes into the type is valid according to the schema that schemars
/// generated for it.
///
/// The schema must be unmodified: only its `format` distinguishes the bounds of a `u8` from those that an author set on
/// an `i64`. Returns `false` if in doubt, which costs a check but is always correct.
pub(super) fn implied(schema: &Value, definitions: &Map<String, Value>) -> bool {
    Analysis { definitions, visited: BTreeSet::new() }.schema(schema, TypePart::Field)
}

/// The part of a type that a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypePart {
    /// A field, whose schema the author may have extended.
    Field,
    /// A type, whose schema comes from the derive macro.
    Type,
    /// A variant of an enum.
    Variant,
}

#[derive(Debug)]
struct Analysis<'a> {
    definitions: &'a Map<String, Value>,
    /// The definitions visited so far. Ends the recursion.
    visited: BTreeSet<String>,
}

impl Analysis<'_> {
    fn schema(&mut self, schema: &Value, part: TypePart) -> bool {
        match schema {
            Value::Bool(anything) => *anything,
            Value::Object(schema) => {
                self.bounds(schema) && schema.iter().all(|(keyword, value)| self.keyword(schema, keyword, value, part))
            }
            _ => false,
        }
    }

    fn keyword(&mut self, schema: &Map<String, Value>, keyword: &str, value: &Value, part: TypePart) -> bool {
        match keyword {
            "$comment" | "title" | "description" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly" => {
                true
            }
            // Checked together in `bounds`.
            "format" | "minimum" | "maximum" => true,
            "type" => typed(schema, value),
            "$ref" => value.as_str().is_some_and(|reference| self.reference(reference)),
            "properties" => values(value).all(|property| {
                let tag = part == TypePart::Variant && property.get("const").is_some_and(Value::is_string);
                tag || self.schema(property, TypePart::Field)
            }),
            "required" => elements(value).all(|name| {
                let own = schema.get("properties").and_then(Value::as_object);
                name.as_str().is_some_and(|name| own.is_some_and(|own| own.contains_key(name)))
            }),
            "items" => value.is_boolean() || self.schema(value, TypePart::Field),
            "prefixItems" => elements(value).all(|item| self.schema(item, TypePart::Field)),
            // serde enforces the length of a tuple; the length of a list is the author's constraint.
            "minItems" | "maxItems" => {
                let length = schema.get("prefixItems").and_then(Value::as_array).map(Vec::len);
                length.is_some() && value.as_u64() == length.and_then(|length| u64::try_from(length).ok())
            }
            "additionalProperties" => match value {
                // serde requires the single key that names the variant. For a struct, the schema does not show whether
                // serde denies unknown fields.
                Value::Bool(false) => part == TypePart::Variant && one_required_property(schema),
                other => self.schema(other, TypePart::Field),
            },
            "enum" => part != TypePart::Field && elements(value).all(Value::is_string),
            "const" => part != TypePart::Field && value.is_string(),
            "anyOf" | "oneOf" => elements(value).all(|branch| {
                // A branch without a type, such as one with only `required`, is the author's constraint.
                let stated = ["type", "$ref", "anyOf"].iter().any(|keyword| branch.get(keyword).is_some());
                let inner = if part == TypePart::Type { TypePart::Variant } else { TypePart::Field };
                stated && self.schema(branch, inner)
            }),
            _ => false,
        }
    }

    fn reference(&mut self, reference: &str) -> bool {
        let Some(name) = pointer::definition(reference) else { return false };
        let definitions = self.definitions;
        let Some(schema) = definitions.get(&name) else { return false };
        !self.visited.insert(name) || self.schema(schema, TypePart::Type)
    }

    /// Returns whether the bounds and the `format` are those of a primitive type.
    fn bounds(&self, schema: &Map<String, Value>) -> bool {
        let bounds = (schema.get("minimum"), schema.get("maximum"));
        let number = |value: Option<&Value>, expected: i64| value.is_some_and(|value| value.as_i64() == Some(expected));
        match (schema.get("format").and_then(Value::as_str), bounds) {
            (None, bounds) => bounds == (None, None) && !schema.contains_key("format"),
            (Some("float" | "double"), bounds) => bounds == (None, None) && has_type(schema, "number"),
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

/// Returns whether decoding enforces the `type`. An `integer` without a `format` may be the author's constraint on a
/// float.
fn typed(schema: &Map<String, Value>, kind: &Value) -> bool {
    let integer = schema.get("format").and_then(Value::as_str).is_some_and(|format| format.contains("int"));
    match kind {
        Value::String(kind) => kind != "integer" || integer,
        Value::Array(kinds) => kinds.iter().all(|kind| kind != "integer" || integer),
        _ => false,
    }
}

fn has_type(schema: &Map<String, Value>, name: &str) -> bool {
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
