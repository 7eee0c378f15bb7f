//! Compares pairs of schemas and checks which changes break callers.

use mcp_runtime_lock::{Difference, Role, compare};
use serde_json::{Value, json};

/// Describes the differences between two schemas. `!` marks those that break callers.
fn differences(role: Role, old: &Value, new: &Value) -> Vec<String> {
    let mut differences: Vec<String> = compare(old, new, role)
        .into_iter()
        .map(|Difference { path, effect, text }| {
            let subject = if path.is_empty() { String::new() } else { format!("{path}: ") };
            format!("{}{subject}{text}", if effect.breaks(role) { "!" } else { "" })
        })
        .collect();
    differences.sort();
    differences
}

fn one(schema: Value) -> Value {
    json!({"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": false})
}

/// Checks for each row whether the change breaks callers that send the value, and callers that receive it.
#[test]
fn changes_of_a_value_break_senders_or_receivers() {
    let (breaks, keeps) = (true, false);
    let table: Vec<(&str, Value, Value, bool, bool)> = vec![
        ("no change", json!({"type": "string"}), json!({"type": "string"}), keeps, keeps),
        (
            "description",
            json!({"type": "string", "description": "a"}),
            json!({"type": "string", "description": "b"}),
            keeps,
            keeps,
        ),
        ("default", json!({"type": "integer", "default": 1}), json!({"type": "integer", "default": 2}), keeps, keeps),
        ("type changed", json!({"type": "string"}), json!({"type": "integer"}), breaks, breaks),
        ("number to integer", json!({"type": "number"}), json!({"type": "integer"}), breaks, keeps),
        ("integer to number", json!({"type": "integer"}), json!({"type": "number"}), keeps, breaks),
        ("null added to the types", json!({"type": "string"}), json!({"type": ["string", "null"]}), keeps, breaks),
        ("null removed from the types", json!({"type": ["string", "null"]}), json!({"type": "string"}), breaks, keeps),
        (
            "null moved from `type` to `anyOf`",
            json!({"type": ["string", "null"]}),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            keeps,
            keeps,
        ),
        ("type removed", json!({"type": "string"}), json!({}), keeps, breaks),
        ("`true` to a type", json!(true), json!({"type": "string"}), breaks, keeps),
        ("`true` to `{}`", json!(true), json!({}), keeps, keeps),
        ("type to `false`", json!({"type": "string"}), json!(false), breaks, keeps),
        ("value removed from enum", json!({"enum": ["a", "b"]}), json!({"enum": ["a"]}), breaks, keeps),
        ("value added to enum", json!({"enum": ["a"]}), json!({"enum": ["a", "b"]}), keeps, breaks),
        ("enum reordered", json!({"enum": ["a", "b"]}), json!({"enum": ["b", "a"]}), keeps, keeps),
        ("enum of one value to const", json!({"enum": ["a"]}), json!({"const": "a"}), keeps, keeps),
        ("enum added", json!({"type": "string"}), json!({"type": "string", "enum": ["a"]}), breaks, keeps),
        ("boolean to its two values", json!({"type": "boolean"}), json!({"enum": [true, false]}), keeps, keeps),
        ("two values to boolean", json!({"enum": [false, true]}), json!({"type": "boolean"}), keeps, keeps),
        (
            "boolean to its two values and null",
            json!({"type": "boolean"}),
            json!({"enum": [true, false, null]}),
            keeps,
            breaks,
        ),
        ("one value of a boolean", json!({"type": "boolean"}), json!({"enum": [true]}), breaks, keeps),
        ("one boolean listed twice", json!({"type": "boolean"}), json!({"enum": [true, true]}), breaks, keeps),
        (
            "nullable boolean to its values",
            json!({"type": ["boolean", "null"]}),
            json!({"enum": [true, false, null]}),
            keeps,
            keeps,
        ),
        (
            "values to a nullable boolean",
            json!({"enum": [true, null, false]}),
            json!({"type": ["null", "boolean"]}),
            keeps,
            keeps,
        ),
        ("null to its only value", json!({"type": "null"}), json!({"const": null}), keeps, keeps),
        ("enum removed", json!({"type": "string", "enum": ["a"]}), json!({"type": "string"}), keeps, breaks),
        (
            "enum to a constraint that rejects a value",
            json!({"enum": ["a", "abc"]}),
            json!({"type": "string", "maxLength": 2}),
            breaks,
            breaks,
        ),
        ("enum to a maximum", json!({"enum": ["ab"]}), json!({"type": "string", "maxLength": 3}), keeps, breaks),
        (
            "enum to bounds that are among its values",
            json!({"enum": ["ab", "abc"]}),
            json!({"type": "string", "minLength": 2, "maxLength": 3}),
            keeps,
            breaks,
        ),
        (
            "enum of numbers to a range",
            json!({"enum": [1, 2]}),
            json!({"type": "integer", "minimum": 1, "exclusiveMaximum": 3}),
            keeps,
            breaks,
        ),
        (
            "enum of numbers to a minimum",
            json!({"enum": [1, 2]}),
            json!({"type": "integer", "minimum": 1}),
            keeps,
            breaks,
        ),
        (
            "enum to an exclusive minimum that is among its values",
            json!({"enum": [1, 2]}),
            json!({"type": "integer", "exclusiveMinimum": 1}),
            breaks,
            breaks,
        ),
        (
            "enum to an exclusive maximum that is among its values",
            json!({"enum": [1, 2]}),
            json!({"type": "integer", "exclusiveMaximum": 2}),
            breaks,
            breaks,
        ),
        ("enum of a fraction to integers", json!({"enum": [1.5]}), json!({"type": "integer"}), breaks, breaks),
        (
            "enum to a definition that accepts its values",
            json!({"enum": ["ab"]}),
            json!({"$ref": "#/properties/x/$defs/t", "$defs": {"t": {"type": "string", "maxLength": 3}}}),
            keeps,
            breaks,
        ),
        (
            "enum of arrays to arrays of other items",
            json!({"enum": [[1]]}),
            json!({"type": "array", "items": {"type": "string"}}),
            breaks,
            breaks,
        ),
        ("enum of arrays to arrays", json!({"enum": [[1]]}), json!({"type": "array"}), keeps, breaks),
        ("number in another notation", json!({"enum": [1]}), json!({"enum": [1.0]}), keeps, keeps),
        (
            "value of another type removed from enum",
            json!({"type": "string", "enum": ["a", 1]}),
            json!({"type": "string", "enum": ["a"]}),
            keeps,
            keeps,
        ),
        (
            "fraction as the minimum of an integer",
            json!({"type": "integer", "minimum": 0.5}),
            json!({"type": "integer", "minimum": 1}),
            keeps,
            keeps,
        ),
        (
            "minimum raised to an integer",
            json!({"type": "number", "minimum": 0.5}),
            json!({"type": "number", "minimum": 1}),
            breaks,
            keeps,
        ),
        (
            "minimum raised",
            json!({"type": "integer", "minimum": 1}),
            json!({"type": "integer", "minimum": 2}),
            breaks,
            keeps,
        ),
        (
            "minimum lowered",
            json!({"type": "integer", "minimum": 2}),
            json!({"type": "integer", "minimum": 1}),
            keeps,
            breaks,
        ),
        ("minimum added", json!({"type": "integer"}), json!({"type": "integer", "minimum": 1}), breaks, keeps),
        (
            "maximum lowered",
            json!({"type": "number", "maximum": 9}),
            json!({"type": "number", "maximum": 8}),
            breaks,
            keeps,
        ),
        (
            "inclusive to equivalent exclusive bound",
            json!({"type": "integer", "minimum": 1}),
            json!({"type": "integer", "exclusiveMinimum": 0}),
            keeps,
            keeps,
        ),
        (
            "inclusive to exclusive bound",
            json!({"type": "number", "minimum": 1}),
            json!({"type": "number", "exclusiveMinimum": 1}),
            breaks,
            keeps,
        ),
        (
            "exclusive bound raised by a fraction",
            json!({"type": "number", "exclusiveMinimum": 0}),
            json!({"type": "number", "exclusiveMinimum": 0.5}),
            breaks,
            keeps,
        ),
        (
            "multipleOf doubled",
            json!({"type": "integer", "multipleOf": 2}),
            json!({"type": "integer", "multipleOf": 4}),
            breaks,
            keeps,
        ),
        (
            "multipleOf halved",
            json!({"type": "number", "multipleOf": 0.5}),
            json!({"type": "number", "multipleOf": 0.25}),
            keeps,
            breaks,
        ),
        (
            "maxLength lowered",
            json!({"type": "string", "maxLength": 9}),
            json!({"type": "string", "maxLength": 8}),
            breaks,
            keeps,
        ),
        ("maxLength removed", json!({"type": "string", "maxLength": 9}), json!({"type": "string"}), keeps, breaks),
        ("minLength added", json!({"type": "string"}), json!({"type": "string", "minLength": 1}), breaks, keeps),
        ("minLength of 0 added", json!({"type": "string"}), json!({"type": "string", "minLength": 0}), keeps, keeps),
        ("pattern added", json!({"type": "string"}), json!({"type": "string", "pattern": "^a"}), breaks, keeps),
        ("pattern removed", json!({"type": "string", "pattern": "^a"}), json!({"type": "string"}), keeps, breaks),
        (
            "pattern changed",
            json!({"type": "string", "pattern": "^a"}),
            json!({"type": "string", "pattern": "^b"}),
            breaks,
            breaks,
        ),
        (
            "enforced format added",
            json!({"type": "string"}),
            json!({"type": "string", "format": "uuid"}),
            breaks,
            keeps,
        ),
        (
            "format of a Rust type added",
            json!({"type": "integer"}),
            json!({"type": "integer", "format": "uint32"}),
            keeps,
            keeps,
        ),
        (
            "maxItems lowered",
            json!({"type": "array", "maxItems": 9}),
            json!({"type": "array", "maxItems": 8}),
            breaks,
            keeps,
        ),
        ("uniqueItems added", json!({"type": "array"}), json!({"type": "array", "uniqueItems": true}), breaks, keeps),
        (
            "type of items narrowed",
            json!({"type": "array", "items": {"type": "number"}}),
            json!({"type": "array", "items": {"type": "integer"}}),
            breaks,
            keeps,
        ),
        ("items added", json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}}), breaks, keeps),
        (
            "type in a tuple narrowed",
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}),
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}),
            breaks,
            keeps,
        ),
        (
            "tuple extended",
            json!({"type": "array", "prefixItems": [{"type": "string"}]}),
            json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}),
            breaks,
            breaks,
        ),
        (
            "type of map values narrowed",
            json!({"type": "object", "additionalProperties": {"type": "number"}}),
            json!({"type": "object", "additionalProperties": {"type": "integer"}}),
            breaks,
            keeps,
        ),
        (
            "object closed",
            json!({"type": "object"}),
            json!({"type": "object", "additionalProperties": false}),
            breaks,
            keeps,
        ),
        (
            "object opened",
            json!({"type": "object", "additionalProperties": false}),
            json!({"type": "object"}),
            keeps,
            breaks,
        ),
        (
            "branch removed",
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
            json!({"type": "string"}),
            breaks,
            keeps,
        ),
        (
            "branch added",
            json!({"type": "string"}),
            json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
            keeps,
            breaks,
        ),
        (
            "branch narrowed",
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}),
            breaks,
            keeps,
        ),
        (
            "branch widened",
            json!({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            keeps,
            breaks,
        ),
        (
            "constraint beside the branches narrowed",
            json!({"anyOf": [{"type": "string"}, {"type": "null"}], "maxLength": 3}),
            json!({"anyOf": [{"type": "string"}, {"type": "null"}], "maxLength": 2}),
            breaks,
            keeps,
        ),
        (
            "branches reordered",
            json!({"oneOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"oneOf": [{"type": "null"}, {"type": "string"}]}),
            keeps,
            keeps,
        ),
        (
            "alternatives inside an alternative",
            json!({"anyOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": "null"}]}),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
            keeps,
            keeps,
        ),
        (
            "titled constants to enum",
            json!({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}),
            json!({"enum": ["a", "b"]}),
            keeps,
            keeps,
        ),
        (
            "`not` changed",
            json!({"type": "string", "not": {"const": "a"}}),
            json!({"type": "string", "not": {"const": "b"}}),
            breaks,
            breaks,
        ),
        (
            "allOf merged",
            json!({"allOf": [{"type": "string"}, {"maxLength": 3}]}),
            json!({"type": "string", "maxLength": 3}),
            keeps,
            keeps,
        ),
        (
            "part added to allOf",
            json!({"allOf": [{"type": "string"}]}),
            json!({"allOf": [{"type": "string"}, {"maxLength": 3}]}),
            breaks,
            keeps,
        ),
        (
            "part that repeats the type",
            json!({"type": "string", "allOf": [{"type": "string", "maxLength": 3}]}),
            json!({"type": "string", "maxLength": 3}),
            keeps,
            keeps,
        ),
        (
            "parts with members",
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}, "allOf": [
                {"required": ["a", "b"], "properties": {"a": {"maxLength": 3}, "b": {"type": "integer"}}},
            ]}),
            json!({
                "type": "object", "required": ["a", "b"],
                "properties": {"a": {"type": "string", "maxLength": 3}, "b": {"type": "integer"}},
            }),
            keeps,
            keeps,
        ),
        (
            "members to parts",
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "allOf": [
                {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}},
            ]}),
            keeps,
            keeps,
        ),
        (
            "second pattern changed",
            json!({"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "c$"}]}),
            json!({"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "d$"}]}),
            breaks,
            breaks,
        ),
        (
            "header added",
            json!({"type": "string"}),
            json!({"type": "string", "x-mcp-header": "Region"}),
            breaks,
            breaks,
        ),
    ];
    for (reason, old, new, breaks_senders, breaks_receivers) in table {
        let breaks =
            |role| compare(&one(old.clone()), &one(new.clone()), role).iter().any(|found| found.effect.breaks(role));
        assert_eq!(
            breaks(Role::Input),
            breaks_senders,
            "{reason}, sent: {:?}",
            differences(Role::Input, &one(old.clone()), &one(new.clone()))
        );
        assert_eq!(
            breaks(Role::Output),
            breaks_receivers,
            "{reason}, received: {:?}",
            differences(Role::Output, &one(old.clone()), &one(new.clone()))
        );
        if old != new && !["`true` to `{}`", "minLength of 0 added"].contains(&reason) {
            assert_eq!(compare(&one(old.clone()), &one(old.clone()), Role::Input), [], "{reason}");
        }
    }
}

/// Each use of a definition is a change for callers.
#[test]
fn a_change_of_a_definition_is_reported_wherever_it_is_used() {
    let uses = |max: u32| {
        let tag = json!({"$ref": "#/$defs/Tag"});
        json!({
            "type": "object",
            "properties": {
                "w": {"not": {"anyOf": [tag, {"type": "null"}], "minLength": 1}}, "x": tag, "y": {"type": "array", "items": tag}, "z": tag,
            },
            "$defs": {"Tag": {"type": "string", "maxLength": max}},
        })
    };
    let found = differences(Role::Input, &uses(9), &uses(8));
    let not = r##"{"anyOf":[{"$ref":"#/$defs/Tag"},{"type":"null"}],"minLength":1}"##;
    assert_eq!(
        found,
        [
            &*format!("!w: `not` changed from {not} to {not}"),
            "!x: `maxLength` changed from 9 to 8",
            "!y[]: `maxLength` changed from 9 to 8",
            "!z: `maxLength` changed from 9 to 8"
        ]
    );
}

#[test]
fn changes_of_members_are_described() {
    let closed = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let open =
        |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
    let texts = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": {"type": "string"}});
    let text = || json!({"type": "string"});
    let (a, ab) = (json!({"a": text()}), json!({"a": text(), "b": text()}));
    let none = || json!([]);
    let table: Vec<(Role, Value, Value, &[&str])> = vec![
        (Role::Input, closed(a.clone(), none()), closed(ab.clone(), json!(["b"])), &["!b: is new and required"]),
        (Role::Input, open(a.clone(), none()), open(ab.clone(), json!(["b"])), &["!b: is new and required"]),
        (Role::Input, closed(a.clone(), none()), closed(ab.clone(), none()), &["b: is new and optional"]),
        (Role::Input, open(a.clone(), none()), open(ab.clone(), none()), &["b: is new and optional"]),
        (Role::Input, closed(a.clone(), none()), closed(a.clone(), json!(["a"])), &["!a: is now required"]),
        (Role::Input, closed(a.clone(), json!(["a"])), closed(a.clone(), none()), &["a: is no longer required"]),
        (Role::Input, closed(ab.clone(), none()), closed(a.clone(), none()), &["!b: is removed"]),
        (Role::Input, open(ab.clone(), none()), open(a.clone(), none()), &["!b: is removed"]),
        (
            Role::Input,
            open(ab.clone(), none()),
            open(a.clone(), json!(["b"])),
            &["!b: is now required", "!b: is removed"],
        ),
        (Role::Input, texts(ab.clone(), none()), texts(a.clone(), json!(["b"])), &["!b: is now required"]),
        (Role::Output, open(ab.clone(), none()), open(a.clone(), none()), &["!b: is removed"]),
        (Role::Output, open(a.clone(), json!(["b"])), open(ab.clone(), json!(["b"])), &["b: is now declared"]),
        (Role::Output, closed(a.clone(), json!(["b"])), closed(ab.clone(), json!(["b"])), &["!b: is now declared"]),
        (Role::Output, open(a.clone(), none()), open(ab.clone(), json!(["b"])), &["b: is new and required"]),
        (Role::Output, open(a.clone(), none()), open(ab.clone(), none()), &["b: is new and optional"]),
        (Role::Output, closed(a.clone(), none()), closed(ab.clone(), none()), &["!b: is new and optional"]),
        (Role::Output, closed(a.clone(), none()), closed(ab.clone(), json!(["b"])), &["!b: is new and required"]),
        (Role::Output, closed(ab.clone(), none()), closed(a.clone(), none()), &["!b: is removed"]),
        (Role::Output, open(a.clone(), json!(["a"])), open(a.clone(), none()), &["!a: is no longer required"]),
        (Role::Output, open(a.clone(), none()), open(a.clone(), json!(["a"])), &["a: is now required"]),
    ];
    for (role, old, new, expected) in table {
        assert_eq!(differences(role, &old, &new), expected, "{role:?}\n{old}\n{new}");
    }
}

#[test]
fn differences_have_paths_and_messages() {
    let nested = |inner: Value| {
        json!({"type": "object", "properties": {"filter": {"type": "object", "properties": {
        "tags": {"type": "array", "items": inner}}}}})
    };
    let (first, second, text) = (json!({"const": 1}), json!({"const": 2}), json!({"type": "string"}));
    // Both parts of a shape name its kind.
    let shape = |kind: &str| {
        let kind = json!({"const": kind});
        json!({"type": "object", "properties": {"kind": kind}, "allOf": [{"properties": {"kind": kind, "size": {}}}]})
    };
    for (old, new, expected) in [
        (
            nested(json!({"type": "string", "maxLength": 40})),
            nested(json!({"type": "string", "maxLength": 20, "description": "A label."})),
            vec!["!filter.tags[]: `maxLength` changed from 40 to 20", "filter.tags[]: the description changed"],
        ),
        (
            one(json!({"type": "integer"})),
            one(json!({"type": "string"})),
            vec!["!x: `type` changed from integer to string"],
        ),
        (
            one(json!({"type": ["integer", "null"]})),
            one(json!({"type": "integer"})),
            vec!["!x: `type` changed from null or integer to integer"],
        ),
        (
            one(json!({"enum": ["a", "b", 3]})),
            one(json!({"enum": ["b", "c"]})),
            vec![
                "!x: `enum` no longer contains \"a\", 3",
                "!x: `type` changed from string or integer to string",
                "x: `enum` now contains \"c\"",
            ],
        ),
        (
            one(
                json!({"oneOf": [{"type": "object", "properties": {"kind": {"const": "circle"}}}, {"type": "string"}]}),
            ),
            one(
                json!({"oneOf": [{"type": "object", "properties": {"kind": {"const": "square"}}}, {"type": "string"}]}),
            ),
            vec![
                "!x: alternative object with `kind` \"circle\" removed",
                "x: alternative object with `kind` \"square\" added",
            ],
        ),
        (
            one(json!({"anyOf": [{"type": "string"}, {"type": "null"}]})),
            one(json!({"anyOf": [{"type": "integer"}, {"type": "null"}]})),
            vec!["!x: `type` changed from string to integer"],
        ),
        (
            one(json!({"title": "Id", "anyOf": [{"type": "string"}, {"type": "null"}]})),
            one(json!({"title": "Id", "anyOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}]})),
            vec!["x: alternative integer added"],
        ),
        (
            one(json!({"anyOf": [{"const": "a"}, {"const": "b"}, {"const": "c"}, {"type": "null"}]})),
            one(json!({"anyOf": [{"const": "a"}, {"const": "b"}, {"type": "null"}]})),
            vec!["!x: alternative \"c\" removed"],
        ),
        (
            one(json!({"oneOf": [shape("circle"), {"type": "string"}]})),
            one(json!({"oneOf": [shape("square"), {"type": "string"}]})),
            vec![
                "!x: alternative object with `kind` \"circle\" removed",
                "x: alternative object with `kind` \"square\" added",
            ],
        ),
        (
            one(
                json!({"anyOf": [{"type": "object", "properties": {"a": first, "b": second}, "maxProperties": 4}, text]}),
            ),
            one(
                json!({"anyOf": [{"type": "object", "properties": {"b": second, "a": first}, "maxProperties": 3}, text]}),
            ),
            vec!["!x: `maxProperties` changed from 4 to 3"],
        ),
        (
            one(json!({"type": "string"})),
            one(json!({"type": "string", "format": "phone"})),
            vec!["x: `format` added: \"phone\""],
        ),
        (
            one(json!({"type": "integer", "default": 1})),
            one(json!({"type": "integer", "default": 2})),
            vec!["x: `default` changed from 1 to 2"],
        ),
        (
            one(json!({"type": "array", "default": ["string", "x"]})),
            one(json!({"type": "array", "default": []})),
            vec![r#"x: `default` changed from ["string","x"] to []"#],
        ),
        (
            one(json!({"enum": ["a", "abc"]})),
            one(json!({"type": "string", "maxLength": 2})),
            vec!["!x: no longer accepts \"abc\"", "x: `enum` removed: \"a\", \"abc\""],
        ),
        (
            one(json!({"type": "string", "maxLength": 2})),
            one(json!({"enum": ["a", "abc"]})),
            vec!["!x: `enum` added: \"a\", \"abc\"", "x: now accepts \"abc\""],
        ),
        (
            one(json!({"type": "integer", "minimum": 1})),
            one(json!({"type": "integer"})),
            vec!["x: `minimum` removed: 1"],
        ),
        (
            one(json!({"type": "number", "exclusiveMinimum": 1})),
            one(json!({"type": "number"})),
            vec!["x: `exclusiveMinimum` removed: 1"],
        ),
        (
            one(json!({"type": "number", "minimum": 0})),
            one(json!({"type": "number", "exclusiveMinimum": 1})),
            vec!["!x: `exclusiveMinimum` changed from 0 to 1"],
        ),
        (
            one(json!({"type": "number", "minimum": 1})),
            one(json!({"type": "number", "exclusiveMinimum": 1})),
            vec!["!x: `minimum` changed to `exclusiveMinimum`: 1"],
        ),
        (
            one(json!({"type": "number", "exclusiveMaximum": 1})),
            one(json!({"type": "number", "maximum": 1})),
            vec!["x: `exclusiveMaximum` changed to `maximum`: 1"],
        ),
        (
            one(json!({"type": "number", "exclusiveMaximum": 1})),
            one(json!({"type": "number", "maximum": 2})),
            vec!["x: `maximum` changed from 1 to 2"],
        ),
    ] {
        assert_eq!(differences(Role::Input, &old, &new), expected);
    }
}

#[test]
fn references_are_resolved_even_if_recursive() {
    let by_name = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/Tag"}}, "$defs": {"Tag": {"type": "string", "maxLength": 9}}});
    let in_place = json!({"type": "object", "properties": {"x": {"type": "string", "maxLength": 9}}});
    assert_eq!(differences(Role::Input, &by_name, &in_place), Vec::<String>::new());
    let renamed = json!({"type": "object", "properties": {"x": {"$ref": "#/definitions/Label"}}, "definitions": {"Label": {"type": "string", "maxLength": 8}}});
    assert_eq!(differences(Role::Input, &by_name, &renamed), ["!x: `maxLength` changed from 9 to 8"]);

    let tree = |leaf: Value| {
        json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": {"type": "object", "properties": {
        "value": leaf, "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}}})
    };
    assert_eq!(
        differences(Role::Input, &tree(json!({"type": "number"})), &tree(json!({"type": "number"}))),
        Vec::<String>::new()
    );
    assert_eq!(
        differences(Role::Input, &tree(json!({"type": "number"})), &tree(json!({"type": "integer"}))),
        ["!root.value: `type` changed from number to integer"]
    );
    // An inlined schema is compared with a recursive one down to its full depth.
    let inlined = |leaf: Value| {
        json!({"type": "object", "properties": {"root": {"type": "object", "properties": {
        "value": {"type": "number"}, "children": {"type": "array", "items": {"type": "object", "properties": {"value": leaf}}}}}}})
    };
    assert_eq!(
        differences(Role::Input, &inlined(json!({"type": "string"})), &tree(json!({"type": "number"}))),
        [
            "!root.children[].value: `type` changed from string to number",
            "root.children[].children: is new and optional"
        ]
    );
    let lists = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/l"}}, "$defs": {"l": {"type": "array", "items": {"$ref": "#/$defs/l"}}}});
    let anything = json!({"type": "object", "properties": {"x": {"type": "array"}}});
    assert_eq!(differences(Role::Input, &anything, &lists), ["!x[]: `type` changed from any to array"]);
    // A reference to itself, and unions that grow with each step, terminate as well.
    let circular = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
    let _ = differences(Role::Input, &circular, &one(json!({})));
    let large = |name: &str, next: &str| {
        let values = (0..256).map(|value| json!({"const": value}));
        let next = json!({"$ref": format!("#/$defs/{next}")});
        json!({"title": name, "anyOf": values.chain([next]).collect::<Vec<_>>()})
    };
    let circular = json!({"$ref": "#/$defs/a", "$defs": {"a": large("a", "b"), "b": large("b", "a")}});
    let found = differences(Role::Input, &circular, &json!({"type": "boolean"}));
    assert_eq!(found.iter().filter(|difference| difference.ends_with(" removed")).count(), 2 * 256, "{found:?}");
    // What is nested too deeply, or has too many unions, counts as changed.
    let nested = |kind: &str, depth| (0..depth).fold(json!({"type": kind}), |schema, _| json!({"anyOf": [schema]}));
    let reference = |index: u32| json!({"$ref": format!("#/$defs/{index}")});
    let doubled = |kind: &str| {
        let definition =
            |index: u32| (index.to_string(), json!({"anyOf": [reference(index + 1), reference(index + 1)]}));
        let mut definitions = (0..20).map(definition).collect::<serde_json::Map<_, _>>();
        definitions.insert("20".to_owned(), json!({"type": kind}));
        json!({"anyOf": [reference(0)], "$defs": definitions})
    };
    let mutual = |kind: &str| {
        let all: Vec<_> = (0..12).map(reference).collect();
        let definition = |index: u32| (index.to_string(), json!({"title": index.to_string(), "anyOf": all}));
        let definitions = (0..12).map(definition).collect::<serde_json::Map<_, _>>();
        json!({"anyOf": [reference(0), {"type": kind}], "$defs": definitions})
    };
    for (old, new) in [
        (nested("string", 40), nested("integer", 40)),
        (doubled("string"), doubled("integer")),
        (mutual("string"), mutual("integer")),
    ] {
        assert_eq!(differences(Role::Input, &old, &new), ["!is too large to compare"]);
    }
    for keyword in ["anyOf", "oneOf"] {
        let itself = json!({"$ref": "#/$defs/a", "$defs": {"a": {keyword: [{"$ref": "#/$defs/a"}, {"type": "null"}]}}});
        let string = json!({"type": "string"});
        assert_eq!(differences(Role::Input, &itself, &string), ["!`type` changed from null to string"]);
    }
    let branching = |leaf: &str| {
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [
        {"type": "object", "properties": {"l": {"$ref": "#/$defs/a"}, "r": {"$ref": "#/$defs/b"}}},
        {"type": "array", "items": {"$ref": "#/$defs/b"}}, {"type": leaf}]},
        "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}, {"type": "object", "properties": {"n": {"$ref": "#/$defs/b"}}}]}}})
    };
    assert!(!differences(Role::Input, &branching("string"), &branching("integer")).is_empty());
    assert_eq!(differences(Role::Input, &branching("string"), &branching("string")), Vec::<String>::new());
}

#[test]
fn only_the_changed_part_of_nested_unions_is_reported() {
    let deep = |innermost: Value| {
        (0..8).fold(innermost, |inner, _| {
            json!({"anyOf": [{"type": "null"}, {"type": "object", "properties": {"a": inner}}, {"type": "array", "items": {"$ref": "#/$defs/t"}}]})
        })
    };
    let whole = |innermost: Value, note: &str| json!({"type": "object", "description": note, "properties": {"x": deep(innermost)}, "$defs": {"t": {"type": "string"}}});
    let (number, integer) = (|| json!({"type": "number"}), || json!({"type": "integer"}));
    assert_eq!(differences(Role::Input, &whole(number(), "a"), &whole(number(), "b")), ["the description changed"]);
    let differences = differences(Role::Input, &whole(number(), "a"), &whole(integer(), "a"));
    assert_eq!(differences, ["!x.a.a.a.a.a.a.a.a: `type` changed from number to integer"]);
}

/// A change has one effect on a schema, however many alternatives are around it.
#[test]
fn no_difference_is_reported_twice() {
    let schemas = [
        json!({"type": "string"}),
        json!({"type": "string", "pattern": "a"}),
        json!({"type": "string", "pattern": "b"}),
        json!({"type": "string", "minLength": 1, "format": "date"}),
        json!({"type": "string", "not": {"const": "x"}}),
        json!({"type": "array", "items": {"type": "string", "pattern": "a"}}),
        json!({"type": "array", "items": {"type": "string", "pattern": "b"}}),
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "a"}}}),
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "b"}}, "required": ["a"]}),
        json!({"type": ["integer", "null"], "multipleOf": 3}),
    ];
    let around: [fn(&Value) -> Value; 4] = [
        Value::clone,
        |schema| json!({"anyOf": [schema, {"type": "null"}]}),
        |schema| json!({"oneOf": [{"type": "boolean"}, schema, {"type": "null"}]}),
        |schema| json!({"anyOf": [{"type": "null"}, {"type": "object", "properties": {"y": {"anyOf": [schema, {"type": "null"}]}}}]}),
    ];
    for (old, new) in schemas.iter().flat_map(|old| schemas.iter().map(move |new| (old, new))) {
        for wrap in around {
            let (old, new) = (one(wrap(old)), one(wrap(new)));
            let found = differences(Role::Input, &old, &new);
            assert_eq!(found.is_empty(), old == new, "{old} {new}");
            let mut once = found.clone();
            once.dedup();
            assert_eq!(found, once, "{old} {new}");
        }
    }
}

/// Of several bounds, the tightest counts, whichever part of the schema has it.
#[test]
fn all_bounds_of_the_parts_of_a_schema_hold() {
    for (least, most, ty) in [
        ("minimum", "maximum", "integer"),
        ("exclusiveMinimum", "exclusiveMaximum", "number"),
        ("minLength", "maxLength", "string"),
        ("minItems", "maxItems", "array"),
        ("minProperties", "maxProperties", "object"),
    ] {
        for (keyword, tight, loose) in [(least, 7, 3), (most, 3, 7)] {
            let one = |bound: i32| json!({"type": ty, keyword: bound});
            let part = |bound: i32| json!({ keyword: bound });
            for both in [
                json!({"type": ty, "allOf": [part(tight), part(loose)]}),
                json!({"type": ty, "allOf": [part(loose), part(tight)]}),
                json!({"type": ty, keyword: tight, "allOf": [part(loose)]}),
                json!({"type": ty, keyword: loose, "allOf": [part(tight)]}),
                json!({"$ref": "#/$defs/a", keyword: loose, "$defs": {"a": one(tight)}}),
            ] {
                for role in [Role::Input, Role::Output] {
                    assert_eq!(differences(role, &both, &one(tight)), [""; 0], "{both}");
                    assert_eq!(differences(role, &one(tight), &both), [""; 0], "{both}");
                    let changes = [differences(role, &both, &one(loose)), differences(role, &one(loose), &both)];
                    let breaks = changes.map(|changes| changes.iter().any(|change| change.starts_with('!')));
                    assert_eq!(breaks, if role == Role::Input { [false, true] } else { [true, false] }, "{both}");
                }
            }
        }
    }
}
