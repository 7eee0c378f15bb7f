//! Every schema within a schema, and where it stands.

use serde_json::Value;

/// A schema and its place.
pub(crate) struct Place<'a> {
    /// `filter.tags[]`; empty for the whole.
    pub(crate) path: String,
    /// How many objects and arrays are around it.
    pub(crate) depth: usize,
    pub(crate) schema: &'a Value,
    /// Whether it is a value's schema by itself, and not a branch, a condition or a definition.
    pub(crate) is_value: bool,
}

/// Calls something with a schema and all those within it, definitions included.
pub(crate) fn walk(schema: &Value, visit: &mut dyn FnMut(&Place<'_>)) {
    step(&Place { path: String::new(), depth: 0, schema, is_value: true }, visit);
}

fn step(place: &Place<'_>, visit: &mut dyn FnMut(&Place<'_>)) {
    visit(place);
    let Value::Object(members) = place.schema else { return };
    for (keyword, value) in members {
        match keyword.as_str() {
            "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    let (path, deeper, is_value) = match keyword.as_str() {
                        "properties" if place.path.is_empty() => (name.clone(), 1, true),
                        "properties" => (format!("{}.{name}", place.path), 1, true),
                        "$defs" | "definitions" => (name.clone(), 0, true),
                        _ => (format!("{}.{name}", place.path), 1, false),
                    };
                    step(&Place { path, depth: place.depth + deeper, schema, is_value }, visit);
                }
            }
            // Schemas, not only permissions: `false` and `true` are what everybody writes.
            "additionalProperties" | "unevaluatedProperties" if value.is_object() => {
                within(place, format!("{}.*", place.path), 1, value, visit);
            }
            "items" if !value.is_array() => within(place, format!("{}[]", place.path), 1, value, visit),
            "prefixItems" => {
                for (at, schema) in value.as_array().into_iter().flatten().enumerate() {
                    within(place, format!("{}[{at}]", place.path), 1, schema, visit);
                }
            }
            "anyOf" | "oneOf" | "allOf" => {
                for schema in value.as_array().into_iter().flatten() {
                    let (path, depth) = (place.path.clone(), place.depth);
                    step(&Place { path, depth, schema, is_value: false }, visit);
                }
            }
            "not" | "if" | "then" | "else" | "contains" | "propertyNames" => {
                let (path, depth) = (place.path.clone(), place.depth);
                step(&Place { path, depth, schema: value, is_value: false }, visit);
            }
            _ => {}
        }
    }
}

fn within(place: &Place<'_>, path: String, deeper: usize, schema: &Value, visit: &mut dyn FnMut(&Place<'_>)) {
    let path = path.strip_prefix('.').map(str::to_owned).unwrap_or(path);
    step(&Place { path, depth: place.depth + deeper, schema, is_value: true }, visit);
}
