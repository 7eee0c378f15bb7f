//! Joins and reduces the keywords of single schemas.

use serde_json::{Map, Value, json};

/// Keywords that say something for people and constrain nothing.
const ANNOTATIONS: &[&str] =
    &["$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];

/// Joins a schema with the keywords that stand beside the reference to it. Both apply; of annotations, the sibling's wins.
pub(super) fn merge(mut schema: Map<String, Value>, siblings: Map<String, Value>) -> Map<String, Value> {
    let (annotations, constraints): (Map<_, _>, Map<_, _>) =
        siblings.into_iter().partition(|(keyword, _)| ANNOTATIONS.contains(&keyword.as_str()));
    schema.extend(annotations);
    if constraints.iter().all(|(keyword, value)| joins(schema.get(keyword), keyword, value)) {
        for (keyword, value) in constraints {
            join(&mut schema, keyword, value);
        }
    } else if let Value::Array(all) = schema.entry("allOf").or_insert_with(|| json!([])) {
        all.push(Value::Object(constraints));
    }
    schema
}

/// Tells whether a keyword can be added to a schema that has `present` for it.
fn joins(present: Option<&Value>, keyword: &str, added: &Value) -> bool {
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

fn join(schema: &mut Map<String, Value>, keyword: String, value: Value) {
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

/// Takes `null` out of the schema of a property that may be absent: clients leave it out, and many understand nothing else.
pub(super) fn drop_null(mut schema: Map<String, Value>) -> Map<String, Value> {
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        if types.iter().any(|kind| kind != "null") {
            types.retain(|kind| kind != "null");
        }
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && values.iter().any(|value| !value.is_null())
    {
        values.retain(|value| !value.is_null());
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
        if let [Value::Object(_)] = branches.as_slice() {
            let Some(Value::Object(only)) = branches.pop() else { continue };
            schema.remove(keyword);
            return drop_null(merge(only, schema));
        }
        if branches.as_slice() == [Value::Bool(true)] {
            schema.remove(keyword);
        }
    }
    schema
}

/// Tells whether nothing but `null` fits the schema.
fn only_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
        || schema.get("const").is_some_and(Value::is_null)
        || schema.get("enum").and_then(Value::as_array).is_some_and(|values| values.as_slice() == [Value::Null])
}

/// Turns a choice between single strings, which is how an enum of unit variants with doc comments comes out, into an `enum`.
/// The comments move into the description.
pub(super) fn choices_to_enum(schema: &mut Map<String, Value>) {
    let taken = ["enum", "const"].iter().any(|keyword| schema.contains_key(*keyword));
    if taken || !states_string_or_nothing(schema) || (schema.contains_key("oneOf") && schema.contains_key("anyOf")) {
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
        schema.remove(keyword);
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), values.into());
        if !lines.is_empty() {
            schema.insert("description".to_owned(), lines.join("\n").into());
        }
    }
}

/// Reads a schema that allows certain strings and says nothing else but a description.
fn choice(schema: &Value) -> Option<(Vec<&str>, Option<&str>)> {
    let schema = schema.as_object()?;
    let known = |keyword: &String| matches!(keyword.as_str(), "const" | "enum" | "type" | "description");
    if !schema.keys().all(known) || !states_string_or_nothing(schema) {
        return None;
    }
    let strings = match (schema.get("const"), schema.get("enum")) {
        (Some(only), None) => vec![only.as_str()?],
        (None, Some(Value::Array(values))) => values.iter().map(Value::as_str).collect::<Option<_>>()?,
        _ => return None,
    };
    Some((strings, schema.get("description").and_then(Value::as_str)))
}

fn states_string_or_nothing(schema: &Map<String, Value>) -> bool {
    schema.get("type").is_none_or(|kind| kind == "string")
}
