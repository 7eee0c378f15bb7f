//! Traversal of a schema and its subschemas.

use serde_json::Value;

/// A schema within a schema.
pub(crate) struct Subschema<'a> {
    /// The path to it, such as `filter.tags[]`; empty for the root.
    pub(crate) path: String,
    /// The number of enclosing objects and arrays.
    pub(crate) depth: usize,
    pub(crate) schema: &'a Value,
    /// Whether it describes a value by itself, unlike a branch, a condition or a definition.
    pub(crate) is_value: bool,
}

/// Calls `visit` for a schema and all its subschemas, including definitions.
pub(crate) fn walk(schema: &Value, visit: &mut dyn FnMut(&Subschema<'_>)) {
    step(&Subschema { path: String::new(), depth: 0, schema, is_value: true }, visit);
}

fn step(parent: &Subschema<'_>, visit: &mut dyn FnMut(&Subschema<'_>)) {
    visit(parent);
    let Value::Object(members) = parent.schema else { return };
    for (keyword, value) in members {
        match keyword.as_str() {
            "properties" | "patternProperties" | "dependentSchemas" | "$defs" | "definitions" => {
                for (name, schema) in value.as_object().into_iter().flatten() {
                    let (path, deeper, is_value) = match keyword.as_str() {
                        "properties" if parent.path.is_empty() => (name.clone(), 1, true),
                        "properties" => (format!("{}.{name}", parent.path), 1, true),
                        "$defs" | "definitions" => (name.clone(), 0, true),
                        _ => (format!("{}.{name}", parent.path), 1, false),
                    };
                    step(&Subschema { path, depth: parent.depth + deeper, schema, is_value }, visit);
                }
            }
            // Only objects: `true` and `false` are the usual way to allow and to forbid further properties.
            "additionalProperties" | "unevaluatedProperties" if value.is_object() => {
                element(parent, format!("{}.*", parent.path), value, visit);
            }
            "items" if !value.is_array() => element(parent, format!("{}[]", parent.path), value, visit),
            "prefixItems" => {
                for (index, schema) in value.as_array().into_iter().flatten().enumerate() {
                    element(parent, format!("{}[{index}]", parent.path), schema, visit);
                }
            }
            "anyOf" | "oneOf" | "allOf" => {
                for schema in value.as_array().into_iter().flatten() {
                    same_value(parent, schema, visit);
                }
            }
            "not" | "if" | "then" | "else" | "contains" | "propertyNames" => same_value(parent, value, visit),
            _ => {}
        }
    }
}

/// Visits the schema of an element, one level deeper.
fn element(parent: &Subschema<'_>, path: String, schema: &Value, visit: &mut dyn FnMut(&Subschema<'_>)) {
    let path = path.strip_prefix('.').map(str::to_owned).unwrap_or(path);
    step(&Subschema { path, depth: parent.depth + 1, schema, is_value: true }, visit);
}

/// Visits a further schema of the same value.
fn same_value(parent: &Subschema<'_>, schema: &Value, visit: &mut dyn FnMut(&Subschema<'_>)) {
    step(&Subschema { path: parent.path.clone(), depth: parent.depth, schema, is_value: false }, visit);
}
