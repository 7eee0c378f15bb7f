//! Merges and reduces the keywords of a single schema.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::schema::has_any;

/// Keywords without constraints.
const ANNOTATIONS: &[&str] =
    &["$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"];

pub(super) fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword)
}

/// Keywords whose meaning depends on their siblings.
const DEPENDENT: [(&str, &[&str]); 8] = [
    ("additionalProperties", &["properties", "patternProperties"]),
    ("items", &["prefixItems"]),
    ("then", &["if"]),
    ("else", &["if"]),
    ("minContains", &["contains"]),
    ("maxContains", &["contains"]),
    ("unevaluatedProperties", EVALUATING),
    ("unevaluatedItems", EVALUATING),
];

/// Keywords that evaluate properties or items.
const EVALUATING: &[&str] = &[
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "dependentSchemas",
    "prefixItems",
    "items",
    "contains",
    "unevaluatedItems",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$dynamicRef",
];

/// Merges a schema with the siblings of the reference to it. Constraints of both apply; annotations of the siblings
/// take precedence.
pub(super) fn merge(mut schema: Map<String, Value>, siblings: Map<String, Value>) -> Map<String, Value> {
    let (annotations, constraints): (Map<_, _>, Map<_, _>) =
        siblings.into_iter().partition(|(keyword, _)| is_annotation(keyword));
    schema.extend(annotations);
    if are_independent(&schema, &constraints)
        && constraints.iter().all(|(keyword, value)| is_mergeable(schema.get(keyword), keyword, value))
    {
        for (keyword, value) in constraints {
            merge_keyword(&mut schema, keyword, value);
        }
        return schema;
    }
    // The siblings see what the definition evaluates, but not the other way around.
    let unevaluated = ["unevaluatedProperties", "unevaluatedItems"];
    let part = if has_any(&constraints, &unevaluated) || has_any(&schema, &unevaluated) {
        let (mut whole, definition): (Map<_, _>, Map<_, _>) =
            schema.into_iter().partition(|(keyword, _)| is_annotation(keyword));
        whole.extend(constraints);
        schema = whole;
        definition
    } else {
        constraints
    };
    if let Value::Array(all) = schema.entry("allOf").or_insert_with(|| json!([])) {
        all.push(Value::Object(part));
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
        let merges = |(keyword, value): (&String, &Value)| {
            is_annotation(keyword) || is_mergeable(present(keyword), keyword, value)
        };
        if are_independent(schema, &part) && part.iter().all(merges) {
            for (keyword, value) in part {
                if !(is_annotation(&keyword) && schema.contains_key(&keyword)) {
                    merge_keyword(schema, keyword, value);
                }
            }
        } else {
            rest.push(Value::Object(part));
        }
    }
    // Parts that were merged may have parts of their own.
    if !rest.is_empty()
        && let Value::Array(all) = schema.entry("allOf").or_insert_with(|| json!([]))
    {
        all.append(&mut rest);
    }
}

/// Returns whether no keyword of one schema would change the meaning of a keyword of the other.
fn are_independent(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    DEPENDENT.iter().all(|(keyword, siblings)| {
        !(one.contains_key(*keyword) && has_any(other, siblings)
            || other.contains_key(*keyword) && has_any(one, siblings))
    })
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

/// Replaces a choice between strings with an `enum` and adds the descriptions of the choices to the description of the
/// schema.
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
        let (mut values, mut seen) = (Vec::new(), HashSet::new());
        let mut lines: Vec<String> =
            schema.get("description").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
        for (strings, description) in choices {
            if let Some(description) = description {
                let names: Vec<String> = strings.iter().map(|name| format!("`{name}`")).collect();
                let text: Vec<&str> = description.split_whitespace().collect();
                lines.push(format!("{}: {}", names.join(", "), text.join(" ")));
            }
            values.extend(strings.into_iter().filter(|name| seen.insert(*name)).map(Value::from));
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

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::{merge, merge_all};
    use crate::check::Checker;

    fn schemas() -> Vec<Map<String, Value>> {
        let schemas = [
            json!({}),
            json!({"type": "object", "description": "An object."}),
            json!({"properties": {"a": {"type": "integer"}}}),
            json!({"properties": {"a": {"type": "string"}}, "required": ["a"]}),
            json!({"properties": {"b": true}}),
            json!({"properties": {"a": {"type": "string"}, "b": true}}),
            json!({"additionalProperties": false}),
            json!({"properties": {"a": true}, "additionalProperties": false}),
            json!({"properties": {"b": true}, "additionalProperties": {"type": "integer"}}),
            json!({"patternProperties": {"^a": {"type": "integer"}}}),
            json!({"patternProperties": {"^b": {"type": "string"}}, "minProperties": 1}),
            json!({"required": ["b"], "maxProperties": 1}),
            json!({"allOf": [{"required": ["a"]}]}),
            json!({"anyOf": [{"required": ["a"]}, {"type": "array"}]}),
            json!({"anyOf": [{"required": ["b"]}, {"type": "array"}]}),
            json!({"not": {"required": ["a"]}}),
            json!({"not": {"required": ["b"]}}),
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}}),
            json!({"then": false, "else": true}),
            json!({"if": {"required": ["b"]}, "else": false}),
            json!({"prefixItems": [{"type": "integer"}]}),
            json!({"items": {"type": "string"}}),
            json!({"prefixItems": [true], "items": false}),
            json!({"contains": {"type": "integer"}}),
            json!({"contains": {"type": "integer"}, "maxContains": 1}),
            json!({"minContains": 0}),
            json!({"unevaluatedProperties": false}),
            json!({"properties": {"b": true}, "unevaluatedProperties": false}),
            json!({"contains": {"type": "integer"}, "unevaluatedItems": false}),
        ];
        schemas.map(|schema| schema.as_object().unwrap().clone()).to_vec()
    }

    const VALUES: [&str; 16] = [
        "1",
        r#""a""#,
        "{}",
        r#"{"a":1}"#,
        r#"{"a":"x"}"#,
        r#"{"b":1}"#,
        r#"{"b":"x"}"#,
        r#"{"a":1,"b":1}"#,
        r#"{"a":"x","b":"x"}"#,
        r#"{"c":1}"#,
        r#"{"a":1,"c":"x"}"#,
        "[]",
        "[1]",
        r#"["x"]"#,
        r#"[1,"x"]"#,
        "[1,1]",
    ];

    fn accepted(schema: Map<String, Value>) -> Vec<&'static str> {
        let checker = Checker::compile(&schema.into()).unwrap();
        VALUES.into_iter().filter(|value| checker.accepts(value)).collect()
    }

    #[test]
    fn annotations_of_a_schema_take_precedence_over_those_of_its_parts() {
        let parts = json!([{"title": "One", "description": "One.", "required": ["a"]}, {"title": "Two", "default": 1}]);
        let mut schema = json!({"description": "All.", "allOf": parts}).as_object().unwrap().clone();
        merge_all(&mut schema);
        let expected = json!({"title": "One", "description": "All.", "default": 1, "required": ["a"]});
        assert_eq!(Value::Object(schema), expected);
    }

    /// Clients find the type of an argument beside its description.
    #[test]
    fn constraints_beside_a_reference_become_a_part_of_its_target_if_they_cannot_be_merged() {
        let members = |schema: Value| schema.as_object().unwrap().clone();
        let longer = json!({"properties": {"a": {"minLength": 1}}});
        let target = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let expected = json!({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [longer]});
        assert_eq!(Value::Object(merge(members(target), members(longer))), expected);
    }

    /// Adds a schema to the `allOf` of another one, which sees what the added one evaluates.
    fn with_part(schema: &Map<String, Value>, part: &Map<String, Value>) -> Map<String, Value> {
        let mut whole = schema.clone();
        whole.entry("allOf").or_insert_with(|| json!([])).as_array_mut().unwrap().push(part.clone().into());
        whole
    }

    /// Every pair of schemas, merged in both ways, accepts the same values as one with the other as its part.
    #[test]
    fn merged_schemas_accept_the_same_values() {
        for (outer, inner) in schemas().iter().flat_map(|outer| schemas().into_iter().map(move |inner| (outer, inner)))
        {
            let mut whole = with_part(outer, &inner);
            let expected = accepted(whole.clone());
            merge_all(&mut whole);
            assert_eq!(accepted(whole.clone()), expected, "merge_all({outer:?}, {inner:?}) = {whole:?}");
            let expected = accepted(with_part(&inner, outer));
            let merged = merge(outer.clone(), inner.clone());
            assert_eq!(accepted(merged.clone()), expected, "merge({outer:?}, {inner:?}) = {merged:?}");
        }
    }
}
