mod suite;
mod vocabulary;

use serde_json::{Value, json};

use super::{Checker, Violation};
use crate::schema::NULLABLE;

fn compile(schema: &Value) -> Checker {
    Checker::compile(schema).unwrap_or_else(|error| panic!("{schema}: {error}"))
}

/// Checks that `accepts` and `violations` agree, and returns the messages.
fn messages_of(schema: &Value, text: &str) -> Vec<String> {
    let checker = compile(schema);
    let violations = checker.violations(text);
    assert_eq!(checker.accepts(text), violations.is_empty(), "{schema} {text}: {violations:?}");
    violations.iter().map(Violation::to_string).collect()
}

#[test]
fn keywords_accept_valid_and_reject_invalid_values() {
    for (schema, good, bad) in [
        (json!(true), &["1", "null", "{}"] as &[&str], &[] as &[&str]),
        (json!(false), &[], &["1", "null"]),
        (json!({}), &["1", "[]"], &[]),
        (json!({"type": "integer"}), &["1", "-1", "1.0", "1e2", "12345678901234567890123"], &["1.5", "\"1\"", "null"]),
        (json!({"type": "number"}), &["1", "1.5", "1e999"], &["\"1\"", "true"]),
        (json!({"type": ["string", "null"]}), &["\"\"", "null", " null "], &["1", "[]"]),
        (json!({"type": ["integer", "boolean"]}), &["1", "true"], &["1.5", "{}"]),
        (json!({"type": ["array", "object"]}), &["[]", "{}"], &["1", "\"[]\""]),
        (
            json!({"enum": ["a", 1, null, [1, {"b": 2}]]}),
            &["\"a\"", "\"\\u0061\"", "1.0", "null", "[1e0,{ \"b\":2.0}]"],
            &["\"b\"", "2", "[1]", "{}"],
        ),
        (json!({"const": {"a": 1, "b": [true]}}), &["{\"b\":[ true ],\"a\":1}"], &["{\"a\":1}", "{}", "\"a\""]),
        (
            json!({"minimum": 0, "maximum": 255}),
            &["0", "255", "2.55e2", "\"x\""],
            &["-1", "256", "255.5", "1e999", "-1e999"],
        ),
        (json!({"exclusiveMinimum": 0, "exclusiveMaximum": 1.5}), &["1", "1.4999"], &["0", "-0.0", "1.5"]),
        (json!({"minimum": 9_007_199_254_740_993_u64}), &["9007199254740993"], &["9007199254740992"]),
        (json!({"maximum": u64::MAX}), &["18446744073709551615"], &["18446744073709551616"]),
        (json!({"multipleOf": 5}), &["10", "-5", "0", "1e1"], &["11", "2.5"]),
        (json!({"multipleOf": 2}), &["9007199254740994"], &["9007199254740993"]),
        (json!({"multipleOf": 0.01}), &["10", "0.07", "19.99"], &["0.005"]),
        (
            json!({"minLength": 2, "maxLength": 3}),
            &["\"äö\"", "\"😀😀😀\"", "\"\\ud83d\\ude00a\"", "1"],
            &["\"a\"", "\"é\"", "\"😀\"", "\"abcd\"", "\"\""],
        ),
        (json!({"minLength": 4}), &["\"😀😀😀😀\""], &["\"😀😀😀\""]),
        (json!({"pattern": "^a\\d+$"}), &["\"a12\"", "7"], &["\"a\"", "\"ba1\""]),
        (json!({"pattern": "b"}), &["\"abc\""], &["\"ac\""]),
        (json!({"format": "date"}), &["\"2024-02-29\"", "1"], &["\"x\""]),
        (json!({"format": "colour"}), &["\"x\""], &[]),
        (json!({"minItems": 1, "maxItems": 2}), &["[1]", "[1,2]", "{}"], &["[]", "[1,2,3]"]),
        (
            json!({"uniqueItems": true}),
            &["[1,2]", "[]", "[\"1\",1]", "[{\"a\":1},{\"a\":2}]"],
            &["[1,1.0]", "[\"a\",\"\\u0061\"]", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]"],
        ),
        (json!({"items": {"type": "integer"}}), &["[]", "[1,2]"], &["[1,\"a\"]"]),
        (
            json!({"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false}),
            &["[]", "[1]", "[1,\"a\"]"],
            &["[\"a\"]", "[1,\"a\",2]"],
        ),
        (json!({"contains": {"const": 1}}), &["[0,1]"], &["[]", "[0]"]),
        (json!({"contains": {"const": 1}, "minContains": 2, "maxContains": 3}), &["[1,1]"], &["[1]", "[1,1,1,1]"]),
        (json!({"contains": {"const": 1}, "minContains": 0}), &["[]"], &[]),
        // Decoding takes the last of the repeated members, which the first one must not hide.
        (
            json!({"contains": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "minContains": 0, "maxContains": 0}),
            &["[{\"a\":0}]", "[]"],
            &["[{\"a\":1}]", "[{\"a\":0,\"a\":1}]"],
        ),
        (json!({"minProperties": 2}), &["{\"a\":0,\"b\":1}"], &["{\"a\":0,\"a\":1}"]),
        (
            json!({"oneOf": [{"properties": {"a": {"const": 1}}}, {"required": ["b"]}]}),
            &["{\"a\":1}", "{\"a\":0,\"b\":1}"],
            &["{\"a\":1,\"b\":1}", "{\"a\":0,\"a\":1,\"b\":1}"],
        ),
        (
            json!({"properties": {"a": {"type": "integer"}}, "required": ["b"]}),
            &["{\"b\":1}", "{\"b\":null,\"a\":1}", "{\"a\":null,\"b\":1}", "[]"],
            &["{}", "{\"a\":\"x\",\"b\":1}"],
        ),
        (
            json!({"properties": {"a": {"type": ["integer", "null"]}, "b": {"type": "integer"}}, "required": ["a", "b"]}),
            &["{\"a\":null,\"b\":1}"],
            &["{\"a\":null,\"b\":null}"],
        ),
        (
            json!({"properties": {"a": true}, "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": false}),
            &["{\"a\":[],\"x1\":1}", "{}"],
            &["{\"x1\":\"a\"}", "{\"b\":1}"],
        ),
        (json!({"additionalProperties": {"type": "integer"}}), &["{\"a\":1}"], &["{\"a\":\"b\"}", "{\"a\":null}"]),
        (json!({"propertyNames": {"maxLength": 2}}), &["{\"ab\":1}"], &["{\"abc\":1}"]),
        (json!({"minProperties": 1, "maxProperties": 2}), &["{\"a\":1}"], &["{}", "{\"a\":1,\"b\":2,\"c\":3}"]),
        (json!({"dependentRequired": {"a": ["b"]}}), &["{}", "{\"b\":1}", "{\"a\":1,\"b\":1}"], &["{\"a\":1}"]),
        (json!({"dependentSchemas": {"a": {"required": ["b"]}}}), &["{}", "{\"a\":1,\"b\":1}"], &["{\"a\":1}"]),
        (json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}), &["1", "2"], &["0", "3"]),
        (json!({"anyOf": [{"type": "string"}, {"minimum": 5}]}), &["\"a\"", "5", "true"], &["4"]),
        // Items that an alternative refuses do not add to the depth.
        (
            json!({"items": {"anyOf": [{"items": {"type": "string"}}, {"type": "array"}]}}),
            &[&format!("[{}[1]]", "[1],".repeat(500))],
            &[],
        ),
        (json!({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}), &["2", "3"], &["1", "6"]),
        (json!({"not": {"type": "string"}}), &["1"], &["\"a\""]),
        (
            json!({"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"required": ["a"]}, "else": {"required": ["b"]}}),
            &["{\"k\":1,\"a\":1}", "{\"k\":2,\"b\":1}", "{\"b\":1}"],
            &["{\"k\":1,\"b\":1}", "{}"],
        ),
        (json!({"then": false}), &["1"], &[]),
        (
            json!({"allOf": [{"unevaluatedItems": false}], "unevaluatedProperties": false}),
            &["{}", "[]"],
            &["{\"a\":1}", "[1]"],
        ),
        (json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}}), &["1"], &["\"a\""]),
        (json!({"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "integer"}}}), &["1"], &["\"a\""]),
        (
            json!({"type": "object", "properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}, "required": ["v"]}),
            &["{\"v\":1,\"next\":{\"v\":2,\"next\":null}}"],
            &["{\"v\":1,\"next\":{\"next\":{\"v\":1}}}"],
        ),
        (
            json!({"$id": "https://example.com/a", "$ref": "../../c", "$defs": {"x": {"$id": "/c", "type": "integer"}}}),
            &["1"],
            &["\"a\""],
        ),
        (json!({"allOf": [{"items": {"type": "string"}}], "$ref": "#/allOf/0"}), &["[\"a\"]"], &["[1]"]),
        // Without a dynamic anchor at its target, the reference is an ordinary one.
        (
            json!({"$dynamicRef": "#a", "$defs": {
                "x": {"$anchor": "a", "type": "integer"},
                "y": {"$id": "y", "$dynamicAnchor": "a"},
                "z": {"$id": "z", "$dynamicAnchor": "a"},
            }}),
            &["1"],
            &["\"a\""],
        ),
        // A scheme begins with a letter.
        (
            json!({"$id": "https://example.com/a", "$ref": "1b:c", "$defs": {
                "x": {"$id": "https://example.com/1b:c", "type": "integer"},
            }}),
            &["1"],
            &["\"a\""],
        ),
    ] {
        for text in good {
            assert_eq!(messages_of(&schema, text), [] as [&str; 0], "{schema} {text}");
        }
        for text in bad {
            assert_ne!(messages_of(&schema, text), [] as [&str; 0], "{schema} {text}");
        }
    }
}

#[test]
fn messages_explain_violations() {
    let shape = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
        {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
    ]});
    let external = json!({"oneOf": [
        {"type": "string", "enum": ["Unit"]},
        {"type": "object", "properties": {"A": {"type": "integer"}}, "required": ["A"], "additionalProperties": false},
        {"type": "object", "properties": {"B": {"type": "string"}}, "required": ["B"], "additionalProperties": false},
    ]});
    let schema = json!({
        "type": "object",
        "properties": {
            "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "closed": {"anyOf": [
                {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "additionalProperties": false},
                {"properties": {"a": {"type": "integer"}, "c": {}, "d": {}}, "additionalProperties": false},
            ]},
            "color": {"type": "string", "pattern": "^#"},
            "date": {"type": "string", "format": "date"},
            "even": {"type": "integer", "multipleOf": 2, "exclusiveMinimum": 0, "exclusiveMaximum": 10},
            "external": external,
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
            "map": {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": {"type": "boolean"}},
            "never": false,
            "not": {"not": {"const": 3}},
            "one": {"const": "x"},
            "pair": {"type": "array", "prefixItems": [{}, {}], "minItems": 2, "maxItems": 2, "items": false},
            "plain": {"type": ["string", "null"]},
            "set": {"type": "array", "uniqueItems": true, "contains": {"type": "string"}},
            "shape": shape,
            "style": {"enum": ["formal", "casual"]},
            "tags": {"type": "array", "maxItems": 3, "items": {"type": "string", "minLength": 1}},
            "user": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "mail": {"type": "string", "format": "email"}},
                "required": ["name"],
                "additionalProperties": false,
            },
        },
        "dependentRequired": {"date": ["limit"]},
        "additionalProperties": false,
    });
    for (text, expected) in [
        (r#"{"limit":500}"#, &["`limit`: 500 must be at least 1 and at most 100"] as &[&str]),
        (r#"{"limit":0}"#, &["`limit`: 0 must be at least 1 and at most 100"]),
        (r#"{"limit":"ten"}"#, &["`limit`: \"ten\" must be an integer"]),
        (r#"{"limit":1.5}"#, &["`limit`: 1.5 must be an integer"]),
        (
            r#"{"even":13}"#,
            &["`even`: 13 must be greater than 0 and less than 10", "`even`: 13 must be a multiple of 2"],
        ),
        (r#"{"even":0}"#, &["`even`: 0 must be greater than 0 and less than 10"]),
        (r#"{"style":"formel"}"#, &[r#"`style`: "formel" must be one of "formal", "casual" (did you mean "formal"?)"#]),
        (r#"{"style":1}"#, &[r#"`style`: 1 must be one of "formal", "casual""#]),
        (r#"{"one":"y"}"#, &[r#"`one`: "y" must be "x""#]),
        (r#"{"tags":["a",""]}"#, &["`tags[1]`: \"\" must have at least 1 character"]),
        (r#"{"tags":["a","b","c","d"]}"#, &[r#"`tags`: ["a","b","c","d"] must have at most 3 items"#]),
        (r##"{"color":"red"}"##, &["`color`: \"red\" must match the pattern `^#`"]),
        (r#"{"date":"x","limit":1}"#, &["`date`: \"x\" must match the format `date`"]),
        (r#"{"date":"2024-01-01"}"#, &["`limit` is required when `date` is given"]),
        (r#"{"plain":1}"#, &["`plain`: 1 must be a string or null"]),
        (r#"{"never":1}"#, &["`never`: 1 is not allowed"]),
        (r#"{"not":3}"#, &["`not`: 3 must not be 3"]),
        (r#"{"pair":[1]}"#, &["`pair`: [1] must have exactly 2 items"]),
        (r#"{"pair":[1,2,3]}"#, &["`pair[2]`: 3 is not allowed", "`pair`: [1,2,3] must have exactly 2 items"]),
        (r#"{"set":["a","a"]}"#, &["`set[1]`: \"a\" must be unique"]),
        (r#"{"set":[1]}"#, &["`set`: [1] must contain a matching item (string)"]),
        (r#"{"map":{"A":true}}"#, &["`map.A` is not an allowed name: it must match the pattern `^[a-z]+$`"]),
        (r#"{"map":{"a":1}}"#, &["`map.a`: 1 must be a boolean"]),
        (
            r#"{"user":{"nam":"x","mail":"y"}}"#,
            &[
                "`user.nam` is not a property, expected one of `mail`, `name` (did you mean `name`?)",
                "`user.mail`: \"y\" must match the format `email`",
                "`user.name` is required (string)",
            ],
        ),
        (r#"{"any":true}"#, &["`any`: true must be an integer or a string"]),
        // Only one of the alternatives has `b`.
        (r#"{"closed":{"a":"x","b":1}}"#, &["`closed.a`: \"x\" must be an integer"]),
        (
            r#"{"closed":{"a":"x","b":"y"}}"#,
            &["`closed.a`: \"x\" must be an integer", "`closed.b`: \"y\" must be an integer"],
        ),
        (
            r#"{"shape":{"kind":"circl","r":1}}"#,
            &[r#"`shape.kind`: "circl" must be one of "circle", "square" (did you mean "circle"?)"#],
        ),
        (r#"{"shape":{"r":1}}"#, &[r#"`shape.kind` is required (one of "circle", "square")"#]),
        (r#"{"shape":{"kind":"square","side":"a"}}"#, &["`shape.side`: \"a\" must be a number"]),
        (r#"{"shape":{"kind":"square","r":1}}"#, &["`shape.side` is required (number)"]),
        (r#"{"shape":3}"#, &["`shape`: 3 must be an object"]),
        (r#"{"external":"Unti"}"#, &[r#"`external`: "Unti" must be "Unit""#]),
        (r#"{"external":{"A":"x"}}"#, &["`external.A`: \"x\" must be an integer"]),
        (r#"{"external":{"C":1}}"#, &[r#"`external`: {"C":1} must match one of: object with `A`; object with `B`"#]),
        ("[]", &["[] must be an object"]),
    ] {
        assert_eq!(messages_of(&schema, text), expected, "{text}");
    }
}

#[test]
fn unknown_and_missing_arguments_are_reported_with_suggestions() {
    let schema = json!({
        "type": "object",
        "properties": {"query": {"type": "string"}, "color": {}, "size": {"enum": ["s", "m"]}},
        "required": ["query", "size"],
        "additionalProperties": false,
    });
    for (text, expected) in [
        ("{}", &["`query` is required (string)", "`size` is required (one of \"s\", \"m\")"] as &[&str]),
        (
            r#"{"query":"","size":"s","colour":1}"#,
            &["`colour` is not an argument, expected one of `color`, `query`, `size` (did you mean `color`?)"],
        ),
        (r#"{"query":"","size":"s","x":1}"#, &["`x` is not an argument, expected one of `color`, `query`, `size`"]),
        (r#"{"query":null,"size":"s"}"#, &["`query`: null must be a string"]),
    ] {
        assert_eq!(messages_of(&schema, text), expected, "{text}");
    }
    let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(messages_of(&none, r#"{"a b":1}"#), ["`[\"a b\"]` is not an argument, no arguments are expected"]);
    let many: serde_json::Map<_, _> = (10..40).map(|number| (format!("p{number}"), json!({}))).collect();
    let messages = messages_of(&json!({"properties": many, "additionalProperties": false}), r#"{"x":1}"#);
    assert!(messages[0].ends_with("`p28`, `p29`, …"), "{messages:?}");
}

#[test]
fn alternatives_inside_alternatives_are_summarized() {
    let (text, integer) = (json!({"type": "string"}), json!({"type": "integer"}));
    for (inner, value, expected) in [
        (json!({"anyOf": [text, integer]}), "[]", "[] must be a boolean or an integer or a string"),
        (json!({"oneOf": [text, integer]}), "[]", "[] must be a boolean or an integer or a string"),
        (json!({"anyOf": [text, {"not": {"const": 1}}]}), "1", "1 must not be 1"),
    ] {
        assert_eq!(messages_of(&json!({"anyOf": [inner, {"type": "boolean"}]}), value), [expected], "{inner}");
    }
}

#[test]
fn a_value_of_several_alternatives_is_listed_once() {
    let schema = json!({"anyOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]});
    assert_eq!(messages_of(&schema, r#""d""#), [r#""d" must be one of "a", "b", "c""#]);
}

#[test]
fn missing_properties_are_described() {
    let constants = |count: u32| json!({"anyOf": (0..count).map(|value| json!({"const": value})).collect::<Vec<_>>()});
    let twenty: Vec<String> = (0..20).map(|value| value.to_string()).collect();
    for (schema, expected) in [
        (json!({"$ref": "#/$defs/text"}), " (string)".to_owned()),
        (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), " (string or null)".to_owned()),
        (json!({"oneOf": [{"$ref": "#/$defs/text"}, {"const": 1}]}), " (string or 1)".to_owned()),
        (constants(20), format!(" ({})", twenty.join(" or "))),
        (constants(21), String::new()),
        (json!({"allOf": [{"type": "string"}]}), String::new()),
    ] {
        let whole = json!({"properties": {"a": schema}, "required": ["a"], "$defs": {"text": {"type": "string"}}});
        assert_eq!(messages_of(&whole, "{}"), [format!("`a` is required{expected}")], "{schema}");
    }
}

#[test]
fn the_violations_of_the_closest_alternative_are_reported() {
    let closed = |mut schema: Value| {
        schema["properties"]["a"] = json!({"type": "integer"});
        schema["additionalProperties"] = false.into();
        schema
    };
    let number = json!({"type": "number"});
    for (alternatives, text, expected) in [
        // Names that a pattern matches are known.
        (
            [closed(json!({"patternProperties": {"^x": {}}})), closed(json!({"properties": {"x1": {}}}))],
            r#"{"a":"b","x1":1,"x2":1}"#,
            "`a`: \"b\" must be an integer",
        ),
        // A constant that is optional distinguishes nothing.
        (
            [
                json!({"properties": {"kind": {"const": "circle"}, "r": number}, "required": ["r"]}),
                json!({"properties": {"kind": {"const": "square"}, "side": number}, "required": ["side"]}),
            ],
            r#"{"r":"b"}"#,
            "`r`: \"b\" must be a number",
        ),
    ] {
        assert_eq!(messages_of(&json!({"anyOf": alternatives}), text), [expected], "{text}");
    }
}

#[test]
fn the_number_of_items_that_must_match_is_reported() {
    for (least, most, expected) in [
        (2, None, "at least 2 matching items"),
        (1, Some(2), "1 to 2 matching items"),
        (0, Some(0), "0 to 0 matching items"),
    ] {
        let mut schema = json!({"contains": {"const": 1}, "minContains": least});
        if let Some(most) = most {
            schema["maxContains"] = most.into();
        }
        let text = if least == 2 { "[1]" } else { "[1,1,1]" };
        assert_eq!(messages_of(&schema, text), [format!("{text} must contain {expected} (1)")]);
    }
}

/// Decoding an argument whose type is not an `Option` rejects `null`.
#[test]
fn null_is_accepted_for_arguments_only_where_it_is_marked() {
    let text = json!({"type": "string"});
    let marked = json!({"type": "string", NULLABLE: true});
    let schema = json!({"properties": {"a": text, "b": marked, "c": marked}, "required": ["c"]});
    let checker = Checker::of_arguments(&schema).unwrap();
    for (text, is_accepted) in [
        (r#"{"c":"x"}"#, true),
        (r#"{"b":null,"c":"x"}"#, true),
        (r#"{"a":null,"c":"x"}"#, false),
        (r#"{"c":null}"#, false),
    ] {
        assert_eq!(checker.accepts(text), is_accepted, "{text}");
    }
}

#[test]
fn at_most_32_violations_are_listed() {
    let schema = json!({"items": {"type": "string"}});
    let violations = messages_of(&schema, &format!("[{}]", ["1"; 40].join(",")));
    assert_eq!(violations.len(), 33);
    assert_eq!(violations[31], "`[31]`: 1 must be a string");
    assert_eq!(violations[32], "and 8 more");
    let nested = json!({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]});
    let violations = messages_of(&nested, &format!("[{}]", ["1"; 40].join(",")));
    assert_eq!((violations.len(), violations[32].as_str()), (33, "and 8 more"));
}

#[test]
fn more_than_64_required_properties_are_checked() {
    let names: Vec<String> = (0..100).map(|index| format!("p{index}")).collect();
    let schema = json!({"required": names});
    let whole: Vec<String> = names.iter().map(|name| format!("{name:?}:1")).collect();
    assert_eq!(messages_of(&schema, &format!("{{{}}}", whole.join(","))), [] as [&str; 0]);
    assert_eq!(messages_of(&schema, &format!("{{{}}}", whole[..99].join(","))), ["`p99` is required"]);
}

#[test]
fn invalid_schemas_are_rejected() {
    for (schema, expected) in [
        (json!(1), "a schema must be an object or a boolean, found `1`"),
        (json!({"type": "int"}), "`type` must be a JSON type or an array of JSON types, found `\"int\"`"),
        (json!({"minLength": -1}), "`minLength` must be a non-negative integer, found `-1`"),
        (json!({"minimum": "1"}), "`minimum` must be a number, found `\"1\"`"),
        (json!({"multipleOf": 0}), "`multipleOf` must be greater than 0, found `0`"),
        (json!({"enum": "a"}), "`enum` must be an array, found `\"a\"`"),
        (json!({"required": "a"}), "`required` must be an array of strings, found `\"a\"`"),
        (json!({"anyOf": []}), "`anyOf` must not be empty"),
        (json!({"properties": []}), "`properties` must be an object, found `[]`"),
        (
            json!({"$ref": "#/$defs/x"}),
            "unresolved reference `#/$defs/x`: only references within the schema are supported",
        ),
        (
            json!({"$ref": "https://example.org/s"}),
            "unresolved reference `https://example.org/s`: only references within the schema are supported",
        ),
        (
            json!({"items": {"$ref": "#nowhere"}}),
            "unresolved reference `#nowhere`: only references within the schema are supported",
        ),
        (
            json!({"items": {"$schema": "http://json-schema.org/draft-07/schema#"}}),
            "unsupported `$schema` \"http://json-schema.org/draft-07/schema#\", expected `https://json-schema.org/draft/2020-12/schema`",
        ),
    ] {
        assert_eq!(Checker::compile(&schema).unwrap_err().to_string(), expected, "{schema}");
    }
    assert!(Checker::compile(&json!({"$schema": "https://json-schema.org/draft/2020-12/schema"})).is_ok());
    let error = Checker::compile(&json!({"pattern": "(?=a)"})).unwrap_err().to_string();
    assert!(error.starts_with("unsupported pattern `(?=a)`"), "{error}");
    let deep = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
    assert_eq!(Checker::compile(&deep).unwrap_err().to_string(), "the schema is nested deeper than 128 levels");
}

/// Checks inputs that could recurse without bound or take exponential time, on a small stack.
#[test]
fn hostile_input_terminates() {
    let hostile = || {
        let circular = compile(&json!({"$ref": "#"}));
        assert!(!circular.accepts("1"));
        assert_eq!(circular.violations("1").len(), 1);
        assert!(!circular.accepts(r#"{"a":null}"#));
        assert_eq!(circular.normalize_integers("1.0"), "1.0");

        let tree = compile(&json!({"items": {"$ref": "#"}}));
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(!tree.accepts(&deep));
        assert!(tree.violations(&deep)[0].rule.contains("too deeply nested"));
        assert!(tree.accepts(&deep[100_000 - 100..100_000 + 100]));
        // A value that is too deep to check is refused, even under `not`.
        let excluded =
            compile(&json!({"not": {"$ref": "#/$defs/t"}, "$defs": {"t": {"items": {"$ref": "#/$defs/t"}}}}));
        assert!(!excluded.accepts(&deep));
        assert!(excluded.violations(&deep)[0].rule.contains("too deeply nested"));
        tree.normalize_integers(&deep);

        let optional = compile(&json!({"properties": {"a": {"type": "string"}}}));
        let absent = format!("{{{}{}\"c\":1}}", "\"a\":null,".repeat(50_000), "\"b\":null,".repeat(50_000));
        optional.violations(&absent);

        // Each of these refers to all in the next group, so there are 200⁵ ways to follow them.
        let group = |next: usize| json!({"anyOf": vec![json!({"$ref": format!("#/$defs/d{next}")}); 200]});
        let groups: serde_json::Map<_, _> = (0..5).map(|index| (format!("d{index}"), group(index + 1))).collect();
        let mut unions =
            json!({"$defs": groups, "minProperties": 5, "anyOf": [{"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/d1"}]});
        unions["$defs"]["d5"] = json!({"type": "string"});
        assert!(!compile(&unions).violations("{}").is_empty());

        let branch = json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]});
        let doubled = compile(&json!({"anyOf": [branch, branch, branch, {"type": "integer"}]}));
        let nested = (0..100).fold("\"x\"".to_owned(), |inner, _| format!("{{\"a\":{inner}}}"));
        assert!(!doubled.accepts(&nested));
        assert!(!doubled.violations(&nested).is_empty());

        let unique = compile(&json!({"uniqueItems": true, "items": {"enum": [[]]}}));
        let items: Vec<String> = (0..20_000).map(|index| index.to_string()).collect();
        assert!(!unique.accepts(&format!("[{}]", items.join(","))));
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(hostile).unwrap().join().unwrap();
}

/// Returns an array of `count` items.
fn array(count: usize, item: impl Fn(usize) -> String) -> String {
    format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","))
}

fn object(count: usize, value: impl Fn(usize) -> String) -> String {
    format!("{{{}}}", (0..count).map(|index| format!("\"p{index}\":{}", value(index))).collect::<Vec<_>>().join(","))
}

#[test]
fn work_grows_no_faster_than_the_text() {
    let words: Vec<String> = (0..2_000).map(|index| format!("word {index}")).collect();
    let types = ["null", "boolean", "integer", "array"].map(|kind| json!({"type": kind}));
    for (schema, text) in [
        (json!({"pattern": "^(a|b|ab)*c$"}), (|n| format!("\"{}\"", "ab".repeat(n))) as fn(usize) -> String),
        (json!({"pattern": "^(a?){100}$"}), |n| format!("\"{}\"", "a".repeat(n))),
        (json!({"uniqueItems": true}), |n| array(n, |index| index.to_string())),
        (json!({"uniqueItems": true}), |n| array(n, |_| "[{}]".to_owned())),
        (json!({"contains": {"const": -1}}), |n| array(n, |_| "0".to_owned())),
        (json!({"contains": {"pattern": "b$"}}), |n| array(n, |_| "\"aaaa\"".to_owned())),
        (json!({"items": {"enum": words}}), |n| array(n, |_| "\"word 0x\"".to_owned())),
        (json!({"items": {"anyOf": types}}), |n| array(n, |_| "\"x\"".to_owned())),
        (json!({"items": {"not": {"$ref": "#"}}}), |n| array(n, |_| "[[]]".to_owned())),
        (json!({"propertyNames": {"pattern": "^q"}}), |n| object(n, |_| "1".to_owned())),
        (json!({"patternProperties": {"^p.*x$": false}}), |n| object(n, |_| "1".to_owned())),
        (json!({"required": words, "dependentRequired": {"p1": words}}), |n| object(n, |_| "1".to_owned())),
    ] {
        let checker = compile(&schema);
        let [once, twice] = [250, 500].map(|count| checker.steps(&text(count)));
        // More digits make numbers a little longer.
        assert!(twice <= once * 2 + once / 4, "{once} and {twice} steps: {}", &schema.to_string()[..40]);
    }
}

/// Each takes more than a mebibyte.
#[test]
fn the_patterns_of_a_schema_share_a_limit() {
    for (count, is_accepted) in [(1, true), (17, false)] {
        let schema = json!({"prefixItems": vec![json!({"pattern": "(?:a{1000}){100}"}); count]});
        assert_eq!(Checker::compile(&schema).is_ok(), is_accepted, "{count}");
    }
}

/// Otherwise, the maximum number of steps would not bound the time of a check.
#[test]
fn the_work_of_each_keyword_counts_as_steps() {
    let words: Vec<String> = (0..2_000).map(|index| format!("word {index}")).collect();
    for (schema, text, least_per_byte) in [
        (json!({"patternProperties": {"^(a?){100}$": true}}), format!("{{\"{}\":1}}", "a".repeat(1_000)), 100),
        (json!({"uniqueItems": true}), array(1_000, |index| index.to_string()), 8),
        (json!({"required": words}), object(1_000, |_| "1".to_owned()), 100),
        (json!({"dependentRequired": {"p1": words}}), object(1_000, |_| "1".to_owned()), 1_000),
        (json!({"maxProperties": 10}), object(1_000, |_| "1".to_owned()), 2),
        (json!({"maxItems": 10}), array(1_000, |_| "1".to_owned()), 2),
        (
            json!({"unevaluatedProperties": true, "patternProperties": {"^(a?){100}$": true}}),
            format!("{{\"{}\":1}}", "a".repeat(1_000)),
            1_500,
        ),
    ] {
        let steps = compile(&schema).steps(&text);
        assert!(steps >= least_per_byte * text.len() as u64, "{steps} steps: {}", &schema.to_string()[..20]);
    }
}

/// A bound is cheap to check, unlike what follows it.
#[test]
fn nothing_is_checked_beyond_a_maximum() {
    let pattern = json!({"pattern": "^(a?){100}$"});
    for (schema, text) in [
        (json!({"maxLength": 10, "pattern": "^(a?){100}$", "format": "uri"}), format!("\"{}\"", "a".repeat(10_000))),
        (json!({"maxItems": 10, "items": pattern}), array(10_000, |_| "\"aaaa\"".to_owned())),
        (json!({"maxItems": 10, "uniqueItems": true}), array(10_000, |_| "1".to_owned())),
        (json!({"maxItems": 10, "contains": pattern}), array(10_000, |_| "\"bbbb\"".to_owned())),
        (json!({"maxProperties": 10, "additionalProperties": pattern}), object(10_000, |_| "\"bbbb\"".to_owned())),
        (json!({"maxProperties": 10, "propertyNames": pattern}), object(10_000, |_| "1".to_owned())),
    ] {
        let checker = compile(&schema);
        let messages = messages_of(&schema, &text);
        assert!(messages.len() == 1 && messages[0].contains("must have at most 10"), "{schema}: {messages:?}");
        assert!(checker.steps(&text) <= 3 * text.len() as u64, "{schema}: {}", checker.steps(&text));
    }
}

#[test]
fn patterns_have_a_bound_that_depends_on_their_size() {
    let text = |length: usize| format!("\"{}\"", "a".repeat(length));
    for (pattern, length, is_checked) in [
        ("^[A-Za-z0-9+/]*=*$", 1 << 20, true),
        ("^[a-z]{0,1000}$", 1 << 12, true),
        ("^(a?){100}$", 1 << 12, true),
        ("^((a?){100}){100}$", 1 << 12, false),
    ] {
        let violations = compile(&json!({"pattern": pattern})).violations(&text(length));
        let is_refused = violations.iter().any(|violation| violation.rule.contains("too large"));
        assert_eq!(is_refused, !is_checked, "{pattern}: {violations:?}");
    }
}

/// Such a check is repeated on another thread.
#[test]
fn quick_checks_give_up() {
    let text = |length: usize| format!("\"{}\"", "a".repeat(length));
    let checker = compile(&json!({"pattern": "^(a?){100}$"}));
    assert_eq!(checker.quick_violations(&text(10)), Some(Vec::new()));
    assert_eq!(checker.quick_violations(&text(101)).map(|violations| violations.len()), Some(1));
    assert_eq!(checker.quick_violations(&text(1 << 20)), None);
}

#[test]
fn checks_of_long_texts_are_slow() {
    for (schema, length, is_slow) in [
        (json!({"minLength": 1}), 1 << 10, false),
        (json!({"minLength": 1}), 1 << 14, true),
        (json!({"pattern": "^[a-z]*$"}), 1 << 10, false),
        (json!({"pattern": "^((a?){100}){100}$"}), 1 << 10, true),
    ] {
        assert_eq!(compile(&schema).is_slow(&"x".repeat(length)), is_slow, "{schema} {length}");
    }
}

/// Schemas that apply to the same value, one after the other, are no deeper than one of them.
#[test]
fn many_parts_may_evaluate_the_members_of_a_value() {
    let parts = vec![json!({"properties": {"a": true}}); 1_000];
    let schema = json!({"allOf": parts, "unevaluatedProperties": false});
    assert_eq!(messages_of(&schema, r#"{"a":1}"#), [] as [&str; 0]);
    assert_eq!(messages_of(&schema, r#"{"b":1}"#), ["`b`: 1 is not allowed"]);
}

/// `null` as the value of an optional property is decoded like an absent one.
#[test]
fn null_does_not_satisfy_a_requirement_unless_it_is_accepted() {
    let text = json!({"type": "string"});
    let one_of_two = json!([{"required": ["a"]}, {"required": ["b"]}]);
    for (schema, good, bad) in [
        (
            json!({"properties": {"a": text, "b": text}, "anyOf": one_of_two}),
            &[r#"{"a":"x"}"#, r#"{"a":"x","b":null}"#] as &[&str],
            &[r#"{"a":null}"#, r#"{"a":null,"b":null}"#] as &[&str],
        ),
        (json!({"properties": {"a": text}}), &[r#"{"a":null,"a":"x"}"#], &[r#"{"a":null,"a":1}"#]),
        (
            json!({"properties": {"a": text, "b": text}, "oneOf": one_of_two}),
            &[r#"{"a":null,"b":"x"}"#],
            &[r#"{"a":"x","b":"x"}"#, r#"{"b":null}"#],
        ),
        (json!({"allOf": [{"properties": {"a": text}}, {"required": ["a"]}]}), &[r#"{"a":"x"}"#], &[r#"{"a":null}"#]),
        (
            json!({"$ref": "#/$defs/s", "not": {"required": ["a"]}, "$defs": {"s": {"properties": {"a": text}}}}),
            &[r#"{"a":null}"#, "{}"],
            &[r#"{"a":"x"}"#],
        ),
        (json!({"properties": {"a": text}, "minProperties": 1}), &[r#"{"b":1}"#], &[r#"{"a":null}"#]),
        (json!({"properties": {"a": text}, "dependentRequired": {"a": ["b"]}}), &[r#"{"a":null}"#], &[r#"{"a":"x"}"#]),
        (json!({"properties": {"a": true}, "anyOf": one_of_two}), &[r#"{"a":null}"#], &["{}"]),
        (json!({"anyOf": one_of_two}), &[r#"{"a":null}"#], &["{}"]),
        (
            json!({"properties": {"a": text}, "additionalProperties": false}),
            &[r#"{"\u0061":null}"#],
            &[r#"{"c":null}"#],
        ),
    ] {
        for text in good {
            assert_eq!(messages_of(&schema, text), [] as [&str; 0], "{schema} {text}");
        }
        for text in bad {
            assert_ne!(messages_of(&schema, text), [] as [&str; 0], "{schema} {text}");
        }
    }
}

#[test]
fn malformed_text_does_not_panic() {
    let checker = compile(&json!({
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "integer", "minimum": 1}, "uniqueItems": true}, "s": {"minLength": 1}},
        "required": ["a"],
        "additionalProperties": {"enum": [1, "x", {"y": []}]},
    }));
    let whole = r#"{"a":[1,2.0,1e2,"é"],"s":"\ud83d\ude00","z":{"y":[]},"\u00e9":-0.5}"#;
    for at in (0..=whole.len()).filter(|&at| whole.is_char_boundary(at)) {
        for damage in ["", "\"", "\\", "{", "]", ",", ":", "x", "é", "-", "\\ud83d"] {
            for text in [format!("{}{damage}{}", &whole[..at], &whole[at..]), format!("{}{damage}", &whole[..at])] {
                checker.accepts(&text);
                checker.violations(&text);
                checker.normalize_integers(&text);
            }
        }
    }
}

#[test]
fn integral_numbers_are_rewritten_as_integers() {
    let schema = json!({
        "properties": {
            "n": {"type": "integer"},
            "maybe": {"anyOf": [{"type": ["integer", "null"]}, {"type": "string"}]},
            "x": {"type": "number"},
            "list": {"type": "array", "items": {"$ref": "#/$defs/n"}},
            "pair": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "integer"}]},
            "rest": {"type": "array", "prefixItems": [{"type": "number"}], "items": {"type": "integer"}},
        },
        "patternProperties": {"^p": {"type": "integer"}},
        "additionalProperties": {"properties": {"deep": {"type": "integer"}}},
        "$defs": {"n": {"type": "integer"}},
    });
    for (text, expected) in [
        (r#"{"n":1.0}"#, r#"{"n":1}"#),
        (r#" { "n" : 1e2 , "x": 1.0 } "#, r#" { "n" : 100 , "x": 1.0 } "#),
        (r#"{"maybe":-2.50e1,"list":[1.0,2,3.5,"4.0"]}"#, r#"{"maybe":-25,"list":[1,2,3.5,"4.0"]}"#),
        (
            r#"{"pair":[1.0,1.0],"p1":5.0,"other":{"deep":7e0},"\u006e":2.0}"#,
            r#"{"pair":[1.0,1],"p1":5,"other":{"deep":7},"\u006e":2}"#,
        ),
        (r#"{"rest":[1.0,1.0,2e0]}"#, r#"{"rest":[1.0,1,2]}"#),
        (r#"{"n":1.5}"#, r#"{"n":1.5}"#),
        // As many digits as the largest integer that is decoded, and one more.
        (r#"{"n":1e38}"#, r#"{"n":100000000000000000000000000000000000000}"#),
        (r#"{"n":1e39}"#, r#"{"n":1e39}"#),
        (r#"{"n":1e99}"#, r#"{"n":1e99}"#),
        ("1.0", "1.0"),
        ("", ""),
    ] {
        assert_eq!(compile(&schema).normalize_integers(text), expected, "{text}");
    }
    let rest = json!({"prefixItems": [true], "unevaluatedItems": {"type": "integer"}});
    assert_eq!(compile(&rest).normalize_integers("[null,1.0]"), "[null,1]");
    let integers = json!({"properties": {"n": {"type": "integer"}}});
    for schema in [
        json!({"if": {"required": ["n"]}, "then": integers}),
        json!({"if": {"required": ["x"]}, "else": integers}),
        json!({"dependentSchemas": {"n": integers}}),
        json!({"properties": {"x": true}, "unevaluatedProperties": {"type": "integer"}}),
    ] {
        assert_eq!(compile(&schema).normalize_integers(r#"{"n":1.0}"#), r#"{"n":1}"#, "{schema}");
    }
}
