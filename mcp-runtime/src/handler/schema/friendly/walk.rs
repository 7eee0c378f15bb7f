//! Where schemas are found within schemas.

use serde_json::{Map, Value};

/// What a keyword holds, as far as schemas are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// One schema.
    One,
    /// An array of schemas.
    List,
    /// An object whose values are schemas.
    Named,
    /// Data, never a schema: what looks like a keyword in there is none.
    Data,
}

/// Tells what the keyword holds in JSON Schema 2020-12.
pub(super) fn holds(keyword: &str) -> Holds {
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
        | "contentSchema" => Holds::One,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
        "properties" | "patternProperties" | "dependentSchemas" | "$defs" => Holds::Named,
        _ => Holds::Data,
    }
}

/// Calls `visit` for each schema that stands directly within `schema`, with the keyword and, under a name, that name.
pub(super) fn each_within(schema: &mut Map<String, Value>, visit: &mut dyn FnMut(&str, Option<&str>, &mut Value)) {
    for (keyword, value) in schema {
        match (holds(keyword), value) {
            (Holds::One, value) => visit(keyword, None, value),
            (Holds::List, Value::Array(list)) => list.iter_mut().for_each(|value| visit(keyword, None, value)),
            (Holds::Named, Value::Object(named)) => {
                named.iter_mut().for_each(|(name, value)| visit(keyword, Some(name), value));
            }
            _ => {}
        }
    }
}

/// Calls `visit` for each `$ref`, which stays as it is.in the schema, at any depth.
pub(super) fn each_reference(schema: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    let Value::Object(map) = schema else { return };
    if let Some(Value::String(reference)) = map.get_mut("$ref") {
        visit(reference);
    }
    each_within(map, &mut |_, _, inner| each_reference(inner, visit));
}

/// Counts the values that the schema is made of, as a measure of its size.
pub(super) fn size(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(size).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// Calls `visit` for each `$ref`, which stays as it is.
pub(super) fn read_references(schema: &Value, visit: &mut dyn FnMut(&str)) {
    let Value::Object(map) = schema else { return };
    for (keyword, value) in map {
        match (holds(keyword), value) {
            (_, Value::String(reference)) if keyword == "$ref" => visit(reference),
            (Holds::One, value) => read_references(value, visit),
            (Holds::List, Value::Array(list)) => list.iter().for_each(|value| read_references(value, visit)),
            (Holds::Named, Value::Object(named)) => named.values().for_each(|value| read_references(value, visit)),
            _ => {}
        }
    }
}
