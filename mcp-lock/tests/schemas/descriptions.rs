//! Paths and messages of differences.

use serde_json::json;

use super::*;

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
