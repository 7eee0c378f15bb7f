//! References, unions and `allOf`.

use serde_json::json;

use super::*;

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
    // A part that several references share, directly or through others, is merged once.
    let shared = |last: u32| {
        let definition = |index: u32| {
            let next = json!({"$ref": format!("#/$defs/{}", last.min(index + 1))});
            (index.to_string(), json!({"minLength": index, "allOf": [next, next, next, next]}))
        };
        json!({"$ref": "#/$defs/0", "$defs": (0..=last).map(definition).collect::<serde_json::Map<_, _>>()})
    };
    let found = differences(Role::Input, &shared(12), &json!({"minLength": 31}));
    assert_eq!(found, ["!`minLength` changed from 12 to 31"]);
    let large = |name: &str, next: &str| {
        let values = (0..256).map(|value| json!({"const": value}));
        let next = json!({"$ref": format!("#/$defs/{next}")});
        json!({"title": name, "anyOf": values.chain([next]).collect::<Vec<_>>()})
    };
    let circular = json!({"$ref": "#/$defs/a", "$defs": {"a": large("a", "b"), "b": large("b", "a")}});
    let found = differences(Role::Input, &circular, &json!({"type": "boolean"}));
    assert_eq!(found.iter().filter(|difference| difference.ends_with(" removed")).count(), 2 * 256, "{found:?}");
    // A union counts as changed if it contains too many unions, or nests them too deeply.
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
