//! Schemas that are valid, but that some clients and models are known to reject. `codes` names them, with sources.

use std::{collections::HashMap, mem, ptr};

use serde_json::Value;

use super::{
    codes::{self, Findings, Subject},
    schemas::{Subschema, walk},
};
use crate::output::counted;

/// The deepest nesting without known problems.
const MAX_DEPTH: usize = 5;

const FORMATS: [&str; 6] = ["enum", "date-time", "float", "double", "int32", "int64"];
const UNIONS: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// Checks the schema of a tool's arguments against the limits of the least capable client.
pub(crate) fn input(findings: &mut Findings, subject: &Subject, schema: &Value) {
    for keyword in UNIONS.iter().filter(|keyword| schema.get(**keyword).is_some()) {
        findings.add(codes::TOP_LEVEL_UNION, subject, format!("`{keyword}` at the top level of `inputSchema`"));
    }
    for name in schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_allowed) {
            findings.add(codes::PROPERTY_NAME, subject, format!("argument name `{name}`"));
        }
    }
    references(findings, subject, "inputSchema", schema);
    subschemas(findings, subject, schema);
}

/// Checks the schema of a tool's result, for which clients have fewer restrictions.
pub(crate) fn output(findings: &mut Findings, subject: &Subject, schema: &Value) {
    references(findings, subject, "outputSchema", schema);
    walk(schema, &mut |part: &Subschema<'_>| {
        if part.schema.is_boolean() && part.is_value {
            let message = format!("the schema of field `{}` is `{}`", part.path, part.schema);
            findings.add(codes::BOOLEAN_SCHEMA, subject, message);
        }
    });
}

fn subschemas(findings: &mut Findings, subject: &Subject, schema: &Value) {
    let mut deepest: Option<(usize, String)> = None;
    walk(schema, &mut |part: &Subschema<'_>| {
        subschema(findings, subject, part);
        if part.depth > deepest.as_ref().map_or(MAX_DEPTH, |(depth, _)| *depth) {
            deepest = Some((part.depth, part.path.clone()));
        }
    });
    if let Some((depth, path)) = deepest {
        findings.add(codes::DEEP_NESTING, subject, format!("argument `{path}` is {depth} levels deep"));
    }
}

fn subschema(findings: &mut Findings, subject: &Subject, part: &Subschema<'_>) {
    let Subschema { path, schema, .. } = part;
    let what = if path.is_empty() { "`inputSchema`".to_owned() } else { format!("argument `{path}`") };
    if schema.is_boolean() {
        findings.add(codes::BOOLEAN_SCHEMA, subject, format!("the schema of {what} is `{schema}`"));
        return;
    }
    if let Value::Array(types) = &schema["type"] {
        let types: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
        findings.add(codes::TYPE_ARRAY, subject, format!("{what} has the types {}", types.join(" and ")));
    }
    let has_other_type = ["type", "$ref"].iter().chain(&UNIONS).any(|keyword| schema.get(*keyword).is_some());
    if part.is_value && !path.is_empty() && !has_other_type {
        findings.add(codes::MISSING_TYPE, subject, format!("{what} has no type"));
    }
    let is_array = schema["type"] == "array"
        || schema["type"].as_array().is_some_and(|types| types.iter().any(|name| name == "array"));
    if is_array && schema.get("items").is_none() {
        findings.add(codes::ARRAY_WITHOUT_ITEMS, subject, format!("{what} is an array without `items`"));
    }
    if schema.get("prefixItems").is_some() {
        findings.add(codes::TUPLE, subject, format!("{what} is a tuple"));
    }
    if !path.is_empty() {
        for keyword in UNIONS.iter().filter(|keyword| schema.get(**keyword).is_some()) {
            if is_nullable(&schema[*keyword]) {
                continue;
            }
            findings.add(codes::UNION, subject, format!("{what} uses `{keyword}`"));
        }
    }
    if schema["additionalProperties"].is_boolean() {
        let message = format!("`additionalProperties` of {what} is `{}`", schema["additionalProperties"]);
        findings.add(codes::BOOLEAN_ADDITIONAL, subject, message);
    }
    if schema["additionalProperties"].as_object().is_some_and(|values| !values.is_empty()) {
        findings.add(codes::MAP_SCHEMA, subject, format!("{what} is a map"));
    }
    if let Some(values) = schema["enum"].as_array()
        && values.iter().any(|value| !value.is_string())
    {
        findings.add(codes::ENUM_VALUES, subject, format!("{what} has the values {}", schema["enum"]));
    }
    if let Some(format) = schema["format"].as_str().filter(|format| !FORMATS.contains(format)) {
        findings.add(codes::UNKNOWN_FORMAT, subject, format!("{what} has the format `{format}`"));
    }
}

/// Returns whether a union consists of a single schema and `null`, the form of optional arguments.
fn is_nullable(branches: &Value) -> bool {
    let Some(branches) = branches.as_array() else { return false };
    branches.len() == 2 && branches.iter().any(|branch| branch["type"] == "null")
}

fn references(findings: &mut Findings, subject: &Subject, what: &str, schema: &Value) {
    let mut count = 0;
    walk(schema, &mut |part: &Subschema<'_>| count += usize::from(part.schema.get("$ref").is_some()));
    if count == 0 {
        return;
    }
    if is_recursive(schema) {
        findings.add(codes::RECURSIVE_SCHEMA, subject, format!("`{what}` refers to itself"));
    }
    findings.add(codes::SCHEMA_REF, subject, format!("`{what}` has {}", counted(count, "reference")));
}

/// Returns whether following the references of a schema leads back to it, or to a reference that is being followed.
fn is_recursive(root: &Value) -> bool {
    // A server chooses the number of references, so they are followed without recursion, and each of them once.
    let mut is_followed = HashMap::new();
    let mut followed = vec![(String::new(), references_of(root))];
    while let Some((reference, remaining)) = followed.last_mut() {
        let Some(next) = remaining.pop() else {
            is_followed.insert(mem::take(reference), false);
            followed.pop();
            continue;
        };
        let Some(target) = next.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) else { continue };
        match is_followed.get(&next) {
            Some(true) => return true,
            Some(false) => {}
            None if ptr::eq(target, root) => return true,
            None => {
                is_followed.insert(next.clone(), true);
                followed.push((next, references_of(target)));
            }
        }
    }
    false
}

fn references_of(schema: &Value) -> Vec<String> {
    let mut references = Vec::new();
    walk(schema, &mut |part: &Subschema<'_>| {
        references.extend(part.schema["$ref"].as_str().map(str::to_owned));
    });
    references
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::is_recursive;

    /// Returns a schema of definitions, each of which has `count` references to the next one, and the last to `last`.
    fn chain(length: usize, count: usize, last: &str) -> Value {
        let definition = |index: usize| {
            let next = if index + 1 < length { format!("#/$defs/{}", index + 1) } else { last.to_owned() };
            (index.to_string(), json!({"anyOf": vec![json!({"$ref": next}); count]}))
        };
        json!({"$ref": "#/$defs/0", "$defs": (0..length).map(definition).collect::<Map<_, _>>()})
    }

    #[test]
    fn schemas_that_refer_to_themselves_are_recursive() {
        for (schema, expected) in [
            (json!({"$ref": "#"}), true),
            (json!({"$ref": "#/$defs/none"}), false),
            (json!({"$ref": "https://example.com/a.json"}), false),
            (json!({"properties": {"a": {"items": {"$ref": "#/properties/a"}}}}), true),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/b"}, "c": {"$ref": "#/$defs/b"}}, "$defs": {"b": {}}}),
                false,
            ),
            (chain(3, 2, "#/$defs/1"), true),
            (chain(3, 2, "#"), true),
            // Hostile servers: paths without number, and one without end.
            (chain(100, 2, "#/$defs/none"), false),
            (chain(100_000, 1, "#/$defs/none"), false),
            (chain(100_000, 1, "#/$defs/99999"), true),
        ] {
            let mut start = schema.to_string();
            start.truncate(100);
            assert_eq!(is_recursive(&schema), expected, "{start}");
        }
    }
}
