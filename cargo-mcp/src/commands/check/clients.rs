//! What is right and what some clients and models are known not to take. `codes` says who, and where that is known from.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    codes,
    finding::{Entry, Findings},
    walk::{Place, walk},
};

/// The deepest nesting that nobody has complained about.
const LEVELS: usize = 5;

const FORMATS: [&str; 6] = ["enum", "date-time", "float", "double", "int32", "int64"];

/// Looks at a schema of arguments as the weakest client does.
pub(crate) fn input(findings: &mut Findings, entry: &Entry, schema: &Value) {
    for keyword in ["anyOf", "oneOf", "allOf"].iter().filter(|keyword| schema.get(**keyword).is_some()) {
        findings.add(codes::TOP_LEVEL_UNION, entry, format!("`{keyword}` at the top of `inputSchema`"));
    }
    for name in schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_fine) {
            findings.add(codes::PROPERTY_NAME, entry, format!("the argument `{name}`"));
        }
    }
    every(findings, entry, "argument", schema);
}

/// Looks at a schema of results, of which clients want less.
pub(crate) fn output(findings: &mut Findings, entry: &Entry, schema: &Value) {
    references(findings, entry, "outputSchema", schema);
    walk(schema, &mut |place: &Place<'_>| {
        if place.schema.is_boolean() && place.is_value {
            findings.add(codes::BOOLEAN_SCHEMA, entry, format!("the field `{}` is {}", place.path, place.schema));
        }
    });
}

fn every(findings: &mut Findings, entry: &Entry, what: &str, schema: &Value) {
    references(findings, entry, "inputSchema", schema);
    let mut deepest: Option<(usize, String)> = None;
    walk(schema, &mut |place: &Place<'_>| {
        one(findings, entry, what, place);
        if place.depth > deepest.as_ref().map_or(LEVELS, |(depth, _)| *depth) {
            deepest = Some((place.depth, place.path.clone()));
        }
    });
    if let Some((depth, path)) = deepest {
        findings.add(codes::DEEP_NESTING, entry, format!("the {what} `{path}` is {depth} levels deep"));
    }
}

fn one(findings: &mut Findings, entry: &Entry, what: &str, place: &Place<'_>) {
    let Place { path, schema, .. } = place;
    let place_of = if path.is_empty() { "`inputSchema`".to_owned() } else { format!("the {what} `{path}`") };
    if schema.is_boolean() {
        findings.add(codes::BOOLEAN_SCHEMA, entry, format!("{place_of} is {schema}"));
        return;
    }
    if let Value::Array(types) = &schema["type"] {
        let types: Vec<&str> = types.iter().filter_map(Value::as_str).collect();
        findings.add(codes::TYPE_ARRAY, entry, format!("{place_of} is {}", types.join(" or ")));
    }
    let says_otherwise = ["type", "$ref", "anyOf", "oneOf", "allOf"].iter().any(|word| schema.get(*word).is_some());
    if place.is_value && !path.is_empty() && !says_otherwise {
        findings.add(codes::MISSING_TYPE, entry, format!("{place_of} has no type"));
    }
    let is_array = schema["type"] == "array"
        || schema["type"].as_array().is_some_and(|types| types.iter().any(|name| name == "array"));
    if is_array && schema.get("items").is_none() {
        findings.add(codes::ARRAY_WITHOUT_ITEMS, entry, format!("{place_of} is an array of anything"));
    }
    if !path.is_empty() {
        for keyword in ["anyOf", "oneOf", "allOf"].iter().filter(|keyword| schema.get(**keyword).is_some()) {
            findings.add(codes::UNION, entry, format!("{place_of} has `{keyword}`"));
        }
    }
    if schema["additionalProperties"].is_object() {
        findings.add(codes::MAP_SCHEMA, entry, format!("{place_of} is a map"));
    }
    if let Some(values) = schema["enum"].as_array()
        && values.iter().any(|value| !value.is_string())
    {
        findings.add(codes::ENUM_VALUES, entry, format!("{place_of} is one of {}", schema["enum"]));
    }
    if let Some(format) = schema["format"].as_str().filter(|format| !FORMATS.contains(format)) {
        findings.add(codes::UNKNOWN_FORMAT, entry, format!("{place_of} has the format `{format}`"));
    }
}

fn references(findings: &mut Findings, entry: &Entry, what: &str, schema: &Value) {
    let mut count = 0;
    walk(schema, &mut |place: &Place<'_>| count += usize::from(place.schema.get("$ref").is_some()));
    if count == 0 {
        return;
    }
    if is_recursive(schema, schema, &mut BTreeSet::new()) {
        findings.add(codes::RECURSIVE_SCHEMA, entry, format!("`{what}` refers to itself"));
    }
    let s = if count == 1 { "" } else { "s" };
    findings.add(codes::SCHEMA_REF, entry, format!("`{what}` has {count} reference{s}"));
}

/// Says whether following references leads back to one that is being followed.
fn is_recursive(schema: &Value, whole: &Value, open: &mut BTreeSet<String>) -> bool {
    let mut targets = Vec::new();
    walk(schema, &mut |place: &Place<'_>| {
        // Definitions count where they are used.
        if let Some(reference) = place.schema["$ref"].as_str() {
            targets.push(reference.to_owned());
        }
    });
    targets.into_iter().any(|reference| {
        let Some(target) = reference.strip_prefix('#').and_then(|pointer| whole.pointer(pointer)) else { return false };
        if std::ptr::eq(target, whole) || !open.insert(reference.clone()) {
            return true;
        }
        let found = is_recursive(target, whole, open);
        open.remove(&reference);
        found
    })
}
