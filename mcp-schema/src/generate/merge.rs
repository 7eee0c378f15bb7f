//! Merges and reduces the keywords of a single schema.

use serde_json::{Map, Value, json};

use crate::subschemas::has_any;

/// Keywords without constraints.
pub(super) const ANNOTATIONS: &[&str] =
    &["$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];

/// Merges a schema with the siblings of the reference to it. Constraints of both apply; annotations of the siblings
/// take precedence.
pub(super) fn merge(mut schema: Map<String, Value>, siblings: Map<String, Value>) -> Map<String, Value> {
    let (annotations, constraints): (Map<_, _>, Map<_, _>) =
        siblings.into_iter().partition(|(keyword, _)| ANNOTATIONS.contains(&keyword.as_str()));
    schema.extend(annotations);
    if constraints.iter().all(|(keyword, value)| is_mergeable(schema.get(keyword), keyword, value)) {
        for (keyword, value) in constraints {
            merge_keyword(&mut schema, keyword, value);
        }
    } else if let Value::Array(all) = schema.entry("allOf").or_insert_with(|| json!([])) {
        all.push(Value::Object(constraints));
    }
    schema
}

/// Merges the schemas of `allOf` into the schema, as far as possible.
pub(super) fn merge_all(schema: &mut Map<String, Value>) {
    let Some(Value::Array(parts)) = schema.shift_remove("allOf") else { return };
    let mut rest = Vec::new();
    for part in parts {
        let Value::Object(part) = part else {
            rest.push(part);
            continue;
        };
        let present = |keyword: &str| schema.get(keyword);
        let is_annotation = |keyword: &str| ANNOTATIONS.contains(&keyword);
        // `additionalProperties` depends on its siblings.
        let is_open = !part.contains_key("additionalProperties") && !schema.contains_key("additionalProperties");
        let merges = |(keyword, value): (&String, &Value)| {
            is_annotation(keyword) || is_mergeable(present(keyword), keyword, value)
        };
        if is_open && part.iter().all(merges) {
            for (keyword, value) in part {
                if !(is_annotation(&keyword) && schema.contains_key(&keyword)) {
                    merge_keyword(schema, keyword, value);
                }
            }
        } else {
            rest.push(Value::Object(part));
        }
    }
    if !rest.is_empty() {
        schema.insert("allOf".to_owned(), rest.into());
    }
}

/// Returns whether a keyword can be merged into a schema in which its value is `present`.
fn is_mergeable(present: Option<&Value>, keyword: &str, added: &Value) -> bool {
    match (keyword, present, added) {
        (_, None, _) => true,
        (_, Some(present), added) if present == added => true,
        ("required" | "allOf", Some(Value::Array(_)), Value::Array(_)) => true,
        ("properties" | "$defs", Some(Value::Object(present)), Value::Object(added)) => {
            added.iter().all(|(name, schema)| present.get(name).is_none_or(|present| present == schema))
        }
        _ => false,
    }
}

fn merge_keyword(schema: &mut Map<String, Value>, keyword: String, value: Value) {
    match (schema.get_mut(&keyword), value) {
        (Some(Value::Array(present)), Value::Array(added)) => {
            for item in added {
                if !present.contains(&item) {
                    present.push(item);
                }
            }
        }
        (Some(Value::Object(present)), Value::Object(added)) => present.extend(added),
        (_, value) => {
            schema.insert(keyword, value);
        }
    }
}

/// Removes `null` from the schema of an optional property, and returns whether the schema accepted it.
pub(super) fn drop_null(schema: &mut Map<String, Value>) -> bool {
    let mut dropped = false;
    if schema.get("default") == Some(&Value::Null) {
        schema.shift_remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        if types.iter().any(|kind| kind != "null") {
            let count = types.len();
            types.retain(|kind| kind != "null");
            dropped |= types.len() < count;
        }
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && values.iter().any(|value| !value.is_null())
    {
        let count = values.len();
        values.retain(|value| !value.is_null());
        dropped |= values.len() < count;
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = schema.get_mut(keyword) else { continue };
        let count = branches.len();
        if branches.iter().any(|branch| !only_null(branch)) {
            branches.retain(|branch| !only_null(branch));
        }
        if branches.len() == count {
            continue;
        }
        dropped = true;
        if let [Value::Object(_)] = branches.as_slice() {
            let Some(Value::Object(only)) = branches.pop() else { continue };
            schema.shift_remove(keyword);
            let siblings = std::mem::take(schema);
            *schema = merge(only, siblings);
            drop_null(schema);
            return true;
        }
        if branches.as_slice() == [Value::Bool(true)] {
            schema.shift_remove(keyword);
        }
    }
    dropped
}

/// Returns whether the schema accepts only `null`.
fn only_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
        || schema.get("const").is_some_and(Value::is_null)
        || schema.get("enum").and_then(Value::as_array).is_some_and(|values| values.as_slice() == [Value::Null])
}

/// Replaces a choice between strings with an `enum` and adds the descriptions of the choices to that of the schema.
///
/// schemars generates such choices for enums whose unit variants have doc comments.
pub(super) fn choices_to_enum(schema: &mut Map<String, Value>) {
    if !has_any(schema, &["oneOf", "anyOf"]) {
        return;
    }
    let taken = ["enum", "const"].iter().any(|keyword| schema.contains_key(*keyword));
    if taken || !is_string_or_untyped(schema) || (schema.contains_key("oneOf") && schema.contains_key("anyOf")) {
        return;
    }
    for keyword in ["oneOf", "anyOf"] {
        let Some(Value::Array(branches)) = schema.get(keyword) else { continue };
        let Some(choices) = branches.iter().map(choice).collect::<Option<Vec<_>>>() else { continue };
        if choices.is_empty() {
            continue;
        }
        let mut values: Vec<Value> = Vec::new();
        let mut lines: Vec<String> =
            schema.get("description").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
        for (strings, description) in choices {
            if let Some(description) = description {
                let names: Vec<String> = strings.iter().map(|name| format!("`{name}`")).collect();
                let text: Vec<&str> = description.split_whitespace().collect();
                lines.push(format!("{}: {}", names.join(", "), text.join(" ")));
            }
            values.extend(strings.into_iter().map(Value::from));
        }
        schema.shift_remove(keyword);
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), values.into());
        if !lines.is_empty() {
            schema.insert("description".to_owned(), lines.join("\n").into());
        }
    }
}

/// Returns the strings and the description of a schema that has nothing else.
fn choice(schema: &Value) -> Option<(Vec<&str>, Option<&str>)> {
    let schema = schema.as_object()?;
    let known = |keyword: &String| matches!(keyword.as_str(), "const" | "enum" | "type" | "description");
    if !schema.keys().all(known) || !is_string_or_untyped(schema) {
        return None;
    }
    let strings = match (schema.get("const"), schema.get("enum")) {
        (Some(only), None) => vec![only.as_str()?],
        (None, Some(Value::Array(values))) => values.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    Some((strings, schema.get("description").and_then(Value::as_str)))
}

fn is_string_or_untyped(schema: &Map<String, Value>) -> bool {
    schema.get("type").is_none_or(|kind| kind == "string")
}
