//! Checks with an independent validator that compatible changes keep all valid values valid.

use mcp_runtime_lock::{Role, compare};
use serde_json::{Value, json};

/// Returns schemas of all kinds, which the test compares pairwise.
fn schemas() -> Vec<Value> {
    let text = || json!({"type": "string"});
    let object = |more: Value| {
        let mut object = json!({"type": "object"});
        for (name, member) in more.as_object().expect("members") {
            object[name] = member.clone();
        }
        object
    };
    let mut schemas = vec![
        json!(true),
        json!(false),
        text(),
        json!({"type": "integer"}),
        json!({"type": "number"}),
        json!({"type": ["string", "null"]}),
        json!({"type": ["integer", "string"]}),
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"oneOf": [{"type": "integer", "maximum": 2}, {"type": "string"}]}),
        json!({"anyOf": [{"type": "integer", "minimum": 2}, {"type": "boolean"}], "maximum": 3}),
        json!({"enum": ["a", "abc"]}),
        json!({"enum": ["a", 1, null]}),
        json!({"const": "a"}),
        json!({"oneOf": [{"const": "a"}, {"const": 1}, {"type": "null"}]}),
        json!({"type": "string", "enum": ["a", 1]}),
        json!({"type": "string", "minLength": 2}),
        json!({"type": "string", "maxLength": 2}),
        json!({"type": "string", "pattern": "^a"}),
        json!({"type": "string", "pattern": "c$"}),
        json!({"type": "integer", "minimum": 1}),
        json!({"type": "integer", "exclusiveMinimum": 1}),
        json!({"type": "number", "maximum": 2}),
        json!({"type": "number", "exclusiveMaximum": 2}),
        json!({"type": "number", "multipleOf": 0.5}),
        json!({"type": "integer", "multipleOf": 2}),
        json!({"minimum": 2}),
        json!({"maxLength": 2}),
        json!({"not": {"type": "string"}}),
        json!({"not": {"type": "integer"}}),
        json!({"if": {"type": "string"}, "then": {"maxLength": 2}}),
        json!({"allOf": [{"type": "string"}, {"maxLength": 2}]}),
        json!({"allOf": [{"type": "integer"}, {"minimum": 1}, {"maximum": 2}]}),
        json!({"allOf": [{"pattern": "^a"}, {"pattern": "c$"}]}),
        json!({"type": "array"}),
        json!({"type": "array", "items": text()}),
        json!({"type": "array", "items": {"type": ["string", "integer"]}}),
        json!({"type": "array", "maxItems": 1}),
        json!({"type": "array", "minItems": 1, "uniqueItems": true}),
        json!({"type": "array", "prefixItems": [text(), {"type": "integer"}]}),
        json!({"type": "array", "contains": text()}),
        json!({"items": {"type": "integer"}}),
        object(json!({})),
        object(json!({"properties": {"a": text()}})),
        object(json!({"properties": {"a": text()}, "required": ["a"]})),
        object(json!({"properties": {"a": {"type": "integer"}}})),
        object(json!({"properties": {"a": text(), "b": {"type": "integer"}}, "required": ["b"]})),
        object(json!({"properties": {"a": text()}, "additionalProperties": false})),
        object(json!({"properties": {"a": text(), "b": {"type": "integer"}}, "additionalProperties": false})),
        object(json!({"additionalProperties": text()})),
        object(json!({"additionalProperties": {"type": "integer"}})),
        object(json!({"required": ["b"]})),
        object(json!({"maxProperties": 1})),
        object(json!({"minProperties": 1})),
        object(json!({"patternProperties": {"^a": {"type": "integer"}}})),
        object(json!({"propertyNames": {"maxLength": 1}})),
        object(json!({"dependentRequired": {"a": ["b"]}})),
        json!({"properties": {"a": text()}}),
        json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "x"}, "a": {"type": "integer"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "y"}, "b": {"type": "integer"}}, "required": ["kind"]}]}),
        json!({"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "x"}, "a": {"type": "number"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "y"}, "b": {"type": "integer"}}, "required": ["kind", "b"]}]}),
    ];
    let within: Vec<Value> = schemas.iter().take(24).map(|inner| object(json!({"properties": {"a": inner}}))).collect();
    let lists: Vec<Value> = schemas.iter().take(24).map(|inner| json!({"type": "array", "items": inner})).collect();
    let referenced: Vec<Value> =
        schemas.iter().take(24).map(|inner| json!({"$ref": "#/$defs/d", "$defs": {"d": inner}})).collect();
    schemas.extend(within);
    schemas.extend(lists);
    schemas.extend(referenced);
    schemas
}

fn values() -> Vec<Value> {
    let simple = [
        json!(null),
        json!(true),
        json!("a"),
        json!("b"),
        json!("abc"),
        json!("xc"),
        json!(""),
        json!(0),
        json!(1),
        json!(1.0),
        json!(1.5),
        json!(2),
        json!(3),
        json!(-4),
        json!(1.25),
    ];
    let mut values = simple.to_vec();
    values.extend([
        json!([]),
        json!({}),
        json!(["a", "a"]),
        json!(["a", 1]),
        json!([1, "a", 2]),
        json!({"kind": "x"}),
        json!({"kind": "y"}),
    ]);
    values.extend(simple.iter().map(|value| json!([value])));
    values.extend(simple.iter().map(|value| json!({"a": value})));
    values.extend(simple.iter().map(|value| json!({"b": value})));
    values.extend(simple.iter().map(|value| json!({"a": "a", "b": value})));
    values.extend(simple.iter().map(|value| json!({"kind": "x", "a": value})));
    values.extend(simple.iter().map(|value| json!({"kind": "y", "b": value})));
    values
}

/// Returns whether a value has members that a schema does not declare. A later version may declare them with another
/// type.
fn has_undeclared_members(schema: &Value, value: &Value) -> bool {
    let target = schema["$ref"].as_str().and_then(|reference| schema.pointer(reference.trim_start_matches('#')));
    let schema = target.unwrap_or(schema);
    match value {
        Value::Object(members) => {
            let branches = ["oneOf", "anyOf", "allOf"].iter().filter_map(|word| schema[*word].as_array()).flatten();
            let all: Vec<&Value> = branches.chain([schema]).collect();
            members.iter().any(|(name, member)| {
                let described = |schema: &&Value| {
                    schema["properties"].get(name).is_some_and(|inner| !has_undeclared_members(inner, member))
                };
                let is_other = |schema: &&Value| schema["additionalProperties"].is_object();
                !all.iter().any(|schema| described(schema) || is_other(schema))
            })
        }
        Value::Array(items) => items.iter().any(|item| has_undeclared_members(&schema["items"], item)),
        _ => false,
    }
}

#[test]
fn compatible_changes_keep_valid_values_valid() {
    let (schemas, values) = (schemas(), values());
    let compiled: Vec<_> =
        schemas.iter().map(|schema| jsonschema::draft202012::new(schema).expect("a schema")).collect();
    let mut kept = [0, 0];
    for (old, old_validator) in schemas.iter().zip(&compiled) {
        for (new, new_validator) in schemas.iter().zip(&compiled) {
            for (at, (role, before, after)) in
                [(Role::Input, old_validator, new_validator), (Role::Output, new_validator, old_validator)]
                    .into_iter()
                    .enumerate()
            {
                let differences = compare(old, new, role);
                if differences.iter().any(|found| found.effect.breaks(role)) {
                    continue;
                }
                kept[at] += 1;
                let wrong = values.iter().find(|value| {
                    !has_undeclared_members(old, value) && before.is_valid(value) && !after.is_valid(value)
                });
                assert!(wrong.is_none(), "{role:?}: {wrong:?}\nold {old}\nnew {new}\n{differences:?}");
            }
        }
    }
    // Guards against reporting compatible changes as breaking.
    assert!(kept.iter().all(|kept| *kept > 500), "{kept:?}");
}
