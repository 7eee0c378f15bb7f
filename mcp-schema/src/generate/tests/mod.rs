mod keywords;

use std::collections::BTreeMap;

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Bound, Keyword, Property, SchemaError, generator, input, is_object, output, output_generator, wrap};
use crate::{
    check::Checker,
    schema::{DIALECT, NULLABLE, visit_subschemas_mut},
};

/// A tree.
#[derive(JsonSchema, Serialize, Deserialize)]
struct Tree {
    name: String,
    children: Vec<Tree>,
    parent: Option<Box<Tree>>,
    style: Option<Style>,
}

/// A style.
#[derive(JsonSchema, Serialize, Deserialize)]
enum Style {
    /// With a tie.
    Formal,
    /// Without,
    /// really.
    Casual,
    Plain,
}

#[derive(JsonSchema, Serialize, Deserialize)]
enum Bare {
    A,
    B,
}

#[derive(JsonSchema, Serialize, Deserialize)]
enum External {
    Unit,
    Pair(u8, i32),
    Named {
        a: Option<u64>,
        #[serde(default)]
        b: f32,
    },
}

#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    Unit,
    Whole(Point),
    Part { x: Option<i64> },
}

#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Text(String),
    Number(i32),
    Maybe(Option<bool>),
}

/// A point.
#[derive(JsonSchema, Serialize, Deserialize)]
struct Point {
    x: f64,
    /// Up.
    y: Option<f64>,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Wide {
    #[serde(default)]
    text: Option<String>,
    map: BTreeMap<String, Option<i32>>,
    list: Vec<Option<Bare>>,
    any: Value,
    needed: Point,
    /// Where from.
    from: Option<Point>,
    pair: (f64, f64),
    mixed: (u8, Bare),
    #[schemars(title = "Level", range(min = 1, max = 5))]
    level: u8,
}

#[derive(JsonSchema, Serialize, Deserialize)]
struct Own {
    #[schemars(extend("$anchor" = "home"))]
    place: String,
    #[schemars(extend("type" = ["string", "null"], "if" = {"properties": {"a": {"type": ["string", "null"]}}}, "then" = false))]
    free: Option<String>,
}

/// A type whose schema contains its own definitions.
struct Address;

impl JsonSchema for Address {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Address".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        json_schema!({
            "$ref": "#/$defs/address",
            "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"city": {"type": "string"}}}},
        })
    }
}

fn property<T: JsonSchema>(generator: &mut schemars::SchemaGenerator, required: bool) -> Property<'static> {
    let schema = generator.subschema_for::<T>().into();
    Property { name: "p", description: "", schema, required, default: None, keywords: &[] }
}

fn argument<T: JsonSchema>(required: bool) -> Value {
    let mut generator = generator();
    let property = property::<T>(&mut generator, required);
    let mut schema = input(vec![property], generator).unwrap();
    assert!(Checker::compile(&schema).is_ok(), "{schema}");
    let optional = schema["properties"]["p"].as_object_mut().unwrap().shift_remove(NULLABLE);
    assert_eq!(optional.is_some(), !required);
    without_markers(&mut schema);
    assert_eq!(schema.get("required"), required.then(|| json!(["p"])).as_ref());
    schema
}

/// Removes the markers of properties that accept `null`, which `listed` turns into schemas.
fn without_markers(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    members.shift_remove(NULLABLE);
    visit_subschemas_mut(members, &mut |_, _, inner| without_markers(inner));
}

fn with<T: JsonSchema>(edit: impl FnOnce(&mut Property<'_>)) -> Result<Value, SchemaError> {
    let mut generator = generator();
    let mut property = property::<T>(&mut generator, false);
    edit(&mut property);
    let mut schema = input(vec![property], generator)?["properties"]["p"].take();
    without_markers(&mut schema);
    Ok(schema)
}

#[test]
fn argument_types_have_simple_schemas() {
    let style = "`Formal`: With a tie.\n`Casual`: Without, really.";
    let point = json!({
        "type": "object", "description": "A point.", "required": ["x"],
        "properties": {"x": {"type": "number"}, "y": {"type": "number", "description": "Up."}},
    });
    let point_from = json!({
        "type": "object", "description": "Where from.", "required": ["x"],
        "properties": {"x": {"type": "number"}, "y": {"type": "number", "description": "Up."}},
    });
    let bare = json!({"type": "string", "enum": ["A", "B"]});
    let byte = json!({"type": "integer", "minimum": 0, "maximum": 255});
    for (required, found, expected) in [
        (true, argument::<u64>(true), json!({"type": "integer", "minimum": 0})),
        (true, argument::<u8>(true), byte.clone()),
        (true, argument::<f64>(true), json!({"type": "number"})),
        (true, argument::<char>(true), json!({"type": "string", "minLength": 1, "maxLength": 1})),
        (true, argument::<std::net::IpAddr>(true), json!({"type": "string"})),
        (true, argument::<std::net::Ipv4Addr>(true), json!({"type": "string", "format": "ipv4"})),
        (true, argument::<Option<String>>(true), json!({"type": ["string", "null"]})),
        (false, argument::<Option<String>>(false), json!({"type": "string"})),
        (false, argument::<Option<Vec<u8>>>(false), json!({"type": "array", "items": byte})),
        (false, argument::<Option<Bare>>(false), bare.clone()),
        (false, argument::<Option<Point>>(false), point.clone()),
        (true, argument::<Value>(true), json!({})),
        (false, argument::<Option<Value>>(false), json!({})),
        (true, argument::<Vec<Value>>(true), json!({"type": "array", "items": {}})),
        (
            true,
            argument::<Style>(true),
            json!({"type": "string", "enum": ["Plain", "Formal", "Casual"], "description": format!("A style.\n{style}")}),
        ),
        (
            true,
            argument::<External>(true),
            json!({"oneOf": [
                {"type": "string", "enum": ["Unit"]},
                {
                    "type": "object", "required": ["Pair"], "additionalProperties": false,
                    "properties": {"Pair": {
                        "type": "array", "minItems": 2, "maxItems": 2, "items": {},
                        "prefixItems": [byte, {"type": "integer"}],
                    }},
                },
                {
                    "type": "object", "required": ["Named"], "additionalProperties": false,
                    "properties": {"Named": {
                        "type": "object",
                        "properties": {"a": {"type": "integer", "minimum": 0}, "b": {"type": "number", "default": 0.0}},
                    }},
                },
            ]}),
        ),
        (
            true,
            argument::<Tagged>(true),
            json!({"oneOf": [
                {"type": "object", "properties": {"kind": {"type": "string", "const": "Unit"}}, "required": ["kind"]},
                {
                    "type": "object", "description": "A point.", "required": ["x", "kind"],
                    "properties": {
                        "kind": {"type": "string", "const": "Whole"},
                        "x": {"type": "number"},
                        "y": {"type": "number", "description": "Up."},
                    },
                },
                {
                    "type": "object", "required": ["kind"],
                    "properties": {"kind": {"type": "string", "const": "Part"}, "x": {"type": "integer"}},
                },
            ]}),
        ),
        (
            true,
            argument::<(u8, Bare, u8)>(true),
            json!({"type": "array", "minItems": 3, "maxItems": 3, "items": {}, "prefixItems": [byte, bare, byte]}),
        ),
        (
            false,
            argument::<Untagged>(false),
            json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": ["boolean", "null"]}]}),
        ),
        (
            true,
            argument::<Wide>(true),
            json!({
                "type": "object",
                "required": ["map", "list", "any", "needed", "pair", "mixed", "level"],
                "properties": {
                    "text": {"type": "string"},
                    "map": {"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
                    "list": {"type": "array", "items": {"anyOf": [bare, {"type": "null"}]}},
                    "any": {},
                    "needed": point,
                    "from": point_from,
                    "pair": {
                        "type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "number"},
                        "prefixItems": [{"type": "number"}, {"type": "number"}],
                    },
                    "mixed": {"type": "array", "minItems": 2, "maxItems": 2, "items": {}, "prefixItems": [byte, bare]},
                    "level": {"type": "integer", "title": "Level", "minimum": 1, "maximum": 5},
                },
            }),
        ),
        (
            true,
            argument::<Own>(true),
            json!({
                "type": "object", "required": ["place"],
                "properties": {
                    "place": {"type": "string", "$anchor": "home"},
                    "free": {"type": "string", "if": {"properties": {"a": {"type": ["string", "null"]}}}, "then": false},
                },
            }),
        ),
    ] {
        let mut whole = json!({"type": "object", "properties": {"p": expected}, "additionalProperties": false});
        if required {
            whole["required"] = json!(["p"]);
        }
        assert_eq!(found, whole);
    }
}

#[test]
fn functions_without_arguments_have_an_empty_schema() {
    let found = input(Vec::new(), generator()).unwrap();
    assert_eq!(found, json!({"type": "object", "properties": {}, "additionalProperties": false}));
}

#[test]
fn recursion_keeps_references() {
    let style = json!({
        "type": "string", "enum": ["Plain", "Formal", "Casual"],
        "description": "A style.\n`Formal`: With a tie.\n`Casual`: Without, really.",
    });
    let tree = json!({
        "type": "object", "description": "A tree.", "required": ["name", "children"],
        "properties": {
            "name": {"type": "string"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
            "parent": {"$ref": "#/$defs/Tree"},
            "style": style,
        },
    });
    let found = argument::<Option<Tree>>(false);
    assert_eq!(found["properties"]["p"], tree, "the type is inlined once");
    assert_eq!(found["$defs"], json!({"Tree": tree}));

    let mut generator = output_generator();
    let schema = generator.subschema_for::<Tree>().into();
    let found = output(schema, generator);
    assert!(is_object(&found));
    assert_eq!(found["properties"]["children"], tree["properties"]["children"]);
    assert_eq!(found["$defs"].as_object().unwrap().keys().collect::<Vec<_>>(), ["Tree"]);
}

#[test]
fn own_definitions_move_to_the_root() {
    let found = argument::<Address>(true);
    assert_eq!(found["properties"]["p"], json!({"$ref": "#/$defs/address"}));
    assert_eq!(found["$defs"]["address"]["$anchor"], "addressDef");
}

#[test]
fn definitions_are_renamed_only_if_others_have_their_names() {
    let own = |definitions: Value| json!({"properties": {"x": {"$ref": "#/$defs/A"}}, "$defs": definitions});
    let text = json!({"A": {"type": "string"}});
    for (other, expected) in [
        (text.clone(), &["A"] as &[&str]),
        (json!({"A": {"type": "integer"}, "B": {"type": "boolean"}}), &["A", "A2", "B"]),
    ] {
        let mut simplifier = super::simplify::Simplifier::new(serde_json::Map::new(), true);
        for definitions in [&text, &other] {
            simplifier.property(own(definitions.clone()), false);
        }
        let definitions = simplifier.finish();
        let mut names: Vec<_> = definitions.keys().collect();
        names.sort();
        assert_eq!(names, expected, "{other}");
    }
}

#[test]
fn null_is_removed_from_the_alternatives_of_optional_properties() {
    let (text, integer, nothing) = (json!({"type": "string"}), json!({"type": "integer"}), json!({"type": "null"}));
    for (schema, expected) in [
        (json!({"anyOf": [true, nothing]}), json!({})),
        (json!({"anyOf": [text, nothing]}), text.clone()),
        (json!({"oneOf": [text, nothing, integer]}), json!({"oneOf": [text, integer]})),
    ] {
        let mut found = super::simplify::Simplifier::new(serde_json::Map::new(), true).property(schema, true);
        without_markers(&mut found);
        assert_eq!(found, expected);
    }
}

/// As a type does that lists its own definitions and those of the generator.
#[test]
fn a_definition_may_be_repeated() {
    let mut generator = generator();
    let _ = generator.subschema_for::<Point>();
    let definitions = generator.clone().take_definitions(true);
    let properties = json!({"p": {"$ref": "#/$defs/Point"}});
    let schema = json!({"$schema": DIALECT, "type": "object", "properties": properties, "$defs": definitions});
    assert_eq!(super::whole_input(schema.clone(), generator).unwrap(), schema);
}

/// A type that is written as a document refers to the definitions of other types, not to its own.
#[test]
fn a_document_that_is_a_definition_becomes_the_root() {
    let document =
        |dialect: &str| json!({"$schema": dialect, "type": "object", "properties": {"p": {"$ref": "#/$defs/Point"}}});
    let with_mark = format!("{DIALECT}#");
    for (dialect, is_supported) in
        [(DIALECT, true), (&with_mark, true), ("http://json-schema.org/draft-07/schema#", false)]
    {
        let mut generator = generator();
        let _ = generator.subschema_for::<Point>();
        let point = generator.definitions()["Point"].clone();
        generator.definitions_mut().insert("Document".to_owned(), document(dialect));
        let found = super::whole_input(json!({"$ref": "#/$defs/Document"}), generator).ok();
        let mut expected = document(dialect);
        expected["$defs"] = json!({"Point": point});
        assert_eq!(found, is_supported.then_some(expected), "{dialect}");
    }
}

/// Some clients reject objects without `properties`.
#[test]
fn the_arguments_of_a_type_without_fields_have_properties() {
    let found = super::whole_input(json!({"type": "object"}), generator()).unwrap();
    assert_eq!(found, json!({"type": "object", "properties": {}}));
}

#[test]
fn simplified_schemas_accept_no_less_than_authors_wrote() {
    let open = json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}]});
    let letters = |first: &str, second: &str| json!([{"const": first}, {"const": second}]);
    for (schema, expected) in [
        // Further items may be anything.
        (open.clone(), json!({"type": "array", "prefixItems": open["prefixItems"], "items": {}})),
        (json!({"enum": ["a"], "oneOf": letters("a", "b")}), json!({"enum": ["a"], "oneOf": letters("a", "b")})),
        (
            json!({"anyOf": letters("a", "b"), "oneOf": letters("b", "c")}),
            json!({"anyOf": letters("a", "b"), "oneOf": letters("b", "c")}),
        ),
        // A repeated value is listed once.
        (
            json!({"anyOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]}),
            json!({"type": "string", "enum": ["a", "b", "c"]}),
        ),
        // Only the name of a Rust type is removed.
        (json!({"type": "string", "format": "interval"}), json!({"type": "string", "format": "interval"})),
        (json!({"type": "integer", "format": "uint16"}), json!({"type": "integer"})),
    ] {
        let found = super::simplify::Simplifier::new(serde_json::Map::new(), true).property(schema, false);
        assert_eq!(found, expected);
    }
}

#[test]
fn definitions_remain_while_references_to_them_do() {
    let deep = (0..110).fold(json!({"$ref": "#/$defs/Point"}), |inner, _| json!({"items": inner}));
    let mut generator = generator();
    let _ = generator.subschema_for::<Point>();
    generator.definitions_mut().insert("Never".to_owned(), false.into());
    generator.definitions_mut().insert("Circle".to_owned(), json!({"$ref": "#/$defs/Circle"}));
    let property =
        |schema, keywords| Property { name: "p", description: "", schema, required: true, default: None, keywords };
    for schema in [json!({"$ref": "#/$defs/Never"}), deep] {
        let schema = input(vec![property(schema, &[])], generator.clone()).unwrap();
        assert!(Checker::compile(&schema).is_ok(), "{schema}");
    }
    // The type of a value that refers only to itself is unknown.
    let circle = property(json!({"$ref": "#/$defs/Circle"}), &[Keyword::Format("date")]);
    let error = input(vec![circle], generator).unwrap_err().to_string();
    assert_eq!(error, "argument `p`: `format` requires a string, found any type");
}

/// The schema of an argument, with values that it accepts and rejects.
struct Case(Value, &'static [&'static str], &'static [&'static str]);

/// Each argument accepts what its schema accepts alone, whatever the definitions of other arguments are called.
#[test]
fn definitions_of_arguments_do_not_mix() {
    let own = |name: &str, ty: &str| json!({"$ref": format!("#/$defs/{name}"), "$defs": {name: {"type": ty}}});
    let linked = |ty: &str| {
        json!({
            "properties": {"x": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"type": ty}},
        })
    };
    let deep =
        |ty: &str| json!({"$ref": "#/$defs/A/properties/x", "$defs": {"A": {"properties": {"x": {"type": ty}}}}});
    let recursive = |ty: &str| json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": [ty, "array"], "items": {"$ref": "#/$defs/A"}}}});
    let reference = |name: &str| json!({"$ref": format!("#/$defs/{name}")});
    let with_id = json!({
        "$id": "https://example.com/trip",
        "properties": {"from": reference("Point"), "tree": reference("Tree"), "own": reference("own")},
        "$defs": {"own": {"type": "boolean"}},
    });
    const TEXT: &[&str] = &[r#""a""#];
    const NUMBER: &[&str] = &["1"];
    for cases in [
        vec![Case(own("A", "string"), TEXT, NUMBER), Case(own("A", "integer"), NUMBER, TEXT)],
        vec![Case(own("A", "string"), TEXT, NUMBER), Case(own("A", "string"), TEXT, NUMBER)],
        // The first free name in place of `A` is also one of its own.
        vec![
            Case(own("A", "string"), TEXT, NUMBER),
            Case(
                json!({
                    "properties": {"one": reference("A"), "two": reference("A2")},
                    "$defs": {"A": {"type": "integer"}, "A2": {"type": "boolean"}},
                }),
                &[r#"{"one":1,"two":true}"#],
                &[r#"{"one":true}"#, r#"{"two":1}"#],
            ),
        ],
        vec![
            Case(own("Point", "string"), TEXT, &["1", r#"{"x":1}"#]),
            Case(reference("Point"), &[r#"{"x":1}"#], NUMBER),
        ],
        vec![
            Case(linked("string"), &[r#"{"x":["a"]}"#], &[r#"{"x":[1]}"#]),
            Case(linked("integer"), &[r#"{"x":[1]}"#], &[r#"{"x":["a"]}"#]),
        ],
        vec![
            Case(deep("string"), TEXT, NUMBER),
            Case(deep("integer"), NUMBER, TEXT),
            Case(deep("boolean"), &["true"], NUMBER),
        ],
        vec![
            Case(recursive("string"), &[r#"[["a"]]"#], &["[[1]]"]),
            Case(recursive("integer"), &["[[1]]"], &[r#"[["a"]]"#]),
        ],
        vec![Case(
            with_id.clone(),
            &[r#"{"tree":{"name":"a","children":[]}}"#, r#"{"from":{"x":1},"own":true}"#],
            &[r#"{"tree":{"name":"a","children":[1]}}"#, r#"{"from":{}}"#, r#"{"own":1}"#],
        )],
        vec![
            Case(json!({"items": with_id}), &[r#"[{"from":{"x":1}}]"#], &[r#"[{"from":{}}]"#]),
            Case(own("own", "integer"), NUMBER, TEXT),
        ],
    ] {
        let mut generator = generator();
        let _ = (generator.subschema_for::<Point>(), generator.subschema_for::<Tree>());
        let names = ["a", "b", "c"];
        let property = |(&name, Case(schema, ..)): (&&'static str, &Case)| {
            let schema = schema.clone();
            Property { name, description: "", schema, required: false, default: None, keywords: &[] }
        };
        let schema = input(names.iter().zip(&cases).map(property).collect(), generator).unwrap();
        let checker = Checker::compile(&schema).unwrap_or_else(|error| panic!("{error}: {schema}"));
        for (name, Case(_, valid, invalid)) in names.iter().zip(&cases) {
            let values = valid.iter().map(|value| (value, true)).chain(invalid.iter().map(|value| (value, false)));
            for (value, is_valid) in values {
                let arguments = format!(r#"{{"{name}":{value}}}"#);
                assert_eq!(checker.accepts(&arguments), is_valid, "{arguments} {schema}");
            }
        }
    }
}

#[test]
fn descriptions_of_parameters_take_precedence() {
    for (description, expected) in [("", "A point."), ("Where to.", "Where to.")] {
        assert_eq!(with::<Option<Point>>(|p| p.description = description).unwrap()["description"], expected);
    }
    let style = with::<Style>(|property| property.description = "How.").unwrap();
    assert_eq!(style["description"], "How.\n`Formal`: With a tie.\n`Casual`: Without, really.");
    let any = with::<Value>(|property| property.description = "What.").unwrap();
    assert_eq!(any, json!({"description": "What."}));
}

#[test]
fn outputs_keep_null_and_are_wrapped_in_objects() {
    let found = |schema: fn(&mut schemars::SchemaGenerator) -> schemars::Schema| {
        let mut generator = output_generator();
        let schema = schema(&mut generator).into();
        output(schema, generator)
    };
    let point = found(|generator| generator.subschema_for::<Point>());
    assert!(is_object(&point));
    // serde serializes it as `null`, so the schema must accept `null`.
    assert_eq!(point["properties"]["y"]["type"], json!(["number", "null"]));
    assert_eq!(point["required"], json!(["x", "y"]));

    let list = found(|generator| generator.subschema_for::<Vec<Tree>>());
    assert!(!is_object(&list));
    let wrapped = wrap(list, "result");
    assert!(is_object(&wrapped));
    assert_eq!(wrapped["required"], json!(["result"]));
    assert_eq!(wrapped["properties"]["result"], json!({"type": "array", "items": {"$ref": "#/$defs/Tree"}}));
    assert!(Checker::compile(&wrapped).unwrap().accepts(r#"{"result":[]}"#));

    let moved = wrap(
        json!({"anyOf": [
            {"type": "null"}, {"items": {"$ref": "#"}}, {"$ref": "#/anyOf/0"}, {"$ref": "#a"}, {"$ref": "#/anyOf/1/$defs/b"},
            {"$id": "urn:own", "items": {"$ref": "#"}},
        ]}),
        "result",
    );
    assert_eq!(
        moved["properties"]["result"]["anyOf"],
        json!([
            {"type": "null"},
            {"items": {"$ref": "#/properties/result"}},
            {"$ref": "#/properties/result/anyOf/0"},
            {"$ref": "#a"},
            {"$ref": "#/properties/result/anyOf/1/$defs/b"},
            {"$id": "urn:own", "items": {"$ref": "#"}},
        ])
    );
}

#[test]
fn exponential_nesting_keeps_references() {
    // Each definition uses the previous one twice, so inlining all references would double the schema each time.
    let mut generator = generator();
    generator.definitions_mut().insert("T0".to_owned(), json!({"type": "string"}));
    for index in 1..40 {
        let reference = json!({"$ref": format!("#/$defs/T{}", index - 1)});
        let schema = json!({"type": "object", "properties": {"a": reference, "b": reference}, "required": ["a", "b"]});
        generator.definitions_mut().insert(format!("T{index}"), schema);
    }
    let schema = json!({"$ref": "#/$defs/T39"});
    let property = Property { name: "p", description: "", schema, required: true, default: None, keywords: &[] };
    let first = input(vec![property.clone()], generator.clone()).unwrap();
    assert!(Checker::compile(&first).is_ok());
    assert!(first.to_string().len() < 1 << 20, "{}", first.to_string().len());
    assert_eq!(first.to_string(), input(vec![property], generator).unwrap().to_string());
}

/// A simplified schema evaluates the same items as before.
#[test]
fn unevaluated_items_are_still_rejected() {
    let pair = json!({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "integer"}]});
    for schema in [
        json!({"allOf": [pair], "unevaluatedItems": false}),
        json!({"anyOf": [pair, {"type": "string"}], "unevaluatedItems": false}),
    ] {
        let property = super::simplify::Simplifier::new(serde_json::Map::new(), true).property(schema, false);
        let checker = Checker::compile(&property).unwrap();
        assert!(checker.accepts("[1,2]") && !checker.accepts("[1,2,3]"), "{property}");
    }
    // Both are definitions, and one of them is inlined into the other.
    let outer = json!({"allOf": [{"$ref": "#/$defs/Pair"}], "unevaluatedItems": false});
    let definitions = json!({"Pair": pair, "Outer": outer}).as_object().unwrap().clone();
    let mut simplifier = super::simplify::Simplifier::new(definitions, true);
    let property = simplifier.property(json!({"$ref": "#/$defs/Outer"}), false);
    let checker = Checker::compile(&property).unwrap();
    assert!(checker.accepts("[1,2]") && !checker.accepts("[1,2,3]"), "{property}");
}
