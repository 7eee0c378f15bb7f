//! Tools whose arguments are the fields of a single struct: their schema, and its enforcement.

use std::{borrow::Cow, collections::HashMap};

use mcp_runtime::{Revision, Server, function::Collect, testing::TestClient, tool};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};

/// A search query.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Query {
    /// Words that must appear.
    #[schemars(length(min = 1))]
    words: String,
    #[serde(default)]
    limit: Option<u8>,
    within: Option<Place>,
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Place {
    folder: String,
}

/// Find something.
#[tool]
fn find(#[arg(flatten)] query: Query) -> String {
    let folder = query.within.map_or_else(|| "/".to_owned(), |place| place.folder);
    format!("{} × {:?} in {folder} of {:?}", query.words, query.limit, query.region)
}

#[derive(Deserialize, JsonSchema)]
struct Tree {
    name: String,
    #[serde(default)]
    children: Vec<Tree>,
}

/// Count the nodes of a tree.
#[tool]
fn count(#[arg(flatten)] tree: Tree) -> String {
    fn of(tree: &Tree) -> usize {
        1 + tree.children.iter().map(of).sum::<usize>()
    }
    format!("{} has {}", tree.name, of(&tree))
}

/// A type with a handwritten schema.
macro_rules! described {
    ($name:ident, $generator:ident => $schema:expr) => {
        #[derive(Deserialize)]
        struct $name {
            #[serde(flatten)]
            all: serde_json::Map<String, Value>,
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

described!(Document, generator => {
    let place = generator.subschema_for::<Place>();
    json_schema!({
        "$schema": DIALECT,
        "type": "object",
        "$defs": { "number": { "$anchor": "number", "type": ["integer", "null"] } },
        "properties": { "least": { "$ref": "#/$defs/number" }, "most": { "$ref": "#number" }, "place": place },
        "dependentRequired": { "most": ["least"] },
        "additionalProperties": false,
    })
});
described!(NotAnObject, _generator => json_schema!({ "type": "array" }));
described!(OtherDialect, _generator => json_schema!({
    "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
}));
described!(Unresolved, _generator => json_schema!({
    "$schema": DIALECT, "type": "object", "properties": { "a": { "$ref": "#/$defs/none" } },
}));
described!(DefinedTwice, generator => {
    let place = generator.subschema_for::<Place>();
    json_schema!({
        "$schema": DIALECT, "type": "object", "$defs": { "Place": true }, "properties": { "place": place },
    })
});

/// Accept arguments that match a schema document.
#[tool]
fn document(#[arg(flatten)] document: Document) -> String {
    document.all.keys().cloned().collect::<Vec<_>>().join(", ")
}

#[tool]
fn not_an_object(#[arg(flatten)] any: NotAnObject) -> usize {
    any.all.len()
}

#[tool]
fn other_dialect(#[arg(flatten)] any: OtherDialect) -> usize {
    any.all.len()
}

#[tool]
fn unresolved(#[arg(flatten)] any: Unresolved) -> usize {
    any.all.len()
}

#[tool]
fn defined_twice(#[arg(flatten)] any: DefinedTwice) -> usize {
    any.all.len()
}

#[tool]
fn perhaps(#[arg(flatten)] _any: Option<Query>) {}

fn client(revision: Revision) -> TestClient {
    Server::empty("flat", "1.0.0").with::<find>().with::<count>().with::<document>().test_client(revision)
}

async fn schema_of(name: &str) -> Value {
    let tools = client(Revision::V2025_11_25).tools().await.unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
    tool["inputSchema"].clone()
}

#[tokio::test]
async fn the_tool_has_the_schema_of_the_type() {
    let expected = json!({
        "type": "object",
        "description": "A search query.",
        "properties": {
            "words": { "type": "string", "minLength": 1, "description": "Words that must appear." },
            "limit": { "anyOf": [{ "type": "integer", "minimum": 0, "maximum": 255 }, { "type": "null" }] },
            "within": { "anyOf": [
                { "type": "object", "properties": { "folder": { "type": "string" } }, "required": ["folder"] },
                { "type": "null" },
            ] },
            "region": { "type": "string", "x-mcp-header": "Region" },
        },
        "required": ["words"],
    });
    assert_eq!(schema_of("find").await, expected);
    let recurring = schema_of("count").await;
    assert_eq!(recurring["properties"]["children"]["items"]["$ref"], "#/$defs/Tree");
    assert_eq!(recurring["$defs"]["Tree"]["type"], "object");
}

#[tokio::test]
async fn a_schema_document_is_unchanged() {
    let expected = json!({
        "$schema": DIALECT,
        "type": "object",
        "$defs": {
            "number": { "$anchor": "number", "type": ["integer", "null"] },
            "Place": { "type": "object", "properties": { "folder": { "type": "string" } }, "required": ["folder"] },
        },
        "properties": {
            "least": { "$ref": "#/$defs/number" },
            "most": { "$ref": "#number" },
            "place": { "$ref": "#/$defs/Place" },
        },
        "dependentRequired": { "most": ["least"] },
        "additionalProperties": false,
    });
    assert_eq!(schema_of("document").await, expected);
}

#[tokio::test]
async fn the_schema_is_enforced() {
    let valid = [
        ("find", json!({"words": "a", "limit": 2.0, "within": {"folder": "b"}}), "a × Some(2) in b of None"),
        ("count", json!({"name": "a", "children": [{"name": "b"}]}), "a has 2"),
        ("document", json!({"least": 1, "most": null, "place": {"folder": "a"}}), "least, most, place"),
        ("document", json!({}), ""),
    ];
    for (tool, arguments, text) in valid {
        let result = client(Revision::V2026_07_28).call(tool, arguments).await.unwrap();
        assert!(!result.is_error(), "{tool}: {}", result.text());
        assert_eq!(result.text(), text);
    }
    let invalid = [
        ("find", json!({"words": "", "limit": 256, "wrods": "a"}), &["`words`", "`limit`", "`wrods`"][..]),
        ("find", json!({"within": {}}), &["`words` is required", "`within.folder` is required"]),
        ("count", json!({"name": "a", "children": [{"name": 1}]}), &["`children[0].name`"]),
        ("document", json!({"most": "a", "extra": 1}), &["`most`", "`least` is required", "`extra`"]),
        ("document", json!({"place": {}}), &["`place.folder` is required"]),
    ];
    for (tool, arguments, parts) in invalid {
        let result = client(Revision::V2026_07_28).call(tool, arguments).await.unwrap();
        assert!(result.is_error(), "{tool}");
        for part in parts {
            assert!(result.text().contains(part), "{tool}: {part} is missing from {}", result.text());
        }
    }
}

#[test]
fn schemas_that_cannot_describe_arguments_are_rejected() {
    fn error_of<F: Collect>() -> String {
        Server::empty("flat", "1.0.0").with::<F>().check().unwrap_err().to_string()
    }

    let no_fields = "the `type` of its schema is not `object`";
    for (error, part) in [
        (error_of::<not_an_object>(), no_fields),
        (error_of::<perhaps>(), no_fields),
        (error_of::<other_dialect>(), "unsupported `$schema` \"http://json-schema.org/draft-07/schema#\""),
        (error_of::<unresolved>(), "unresolved reference `#/$defs/none`"),
        (error_of::<defined_twice>(), "conflicting definitions of `Place`"),
    ] {
        assert!(error.contains(part), "{part} is missing from {error}");
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind")]
enum Shape {
    Circle { radius: String },
    Square { side: String },
}

/// schemars describes the unknown fields with `unevaluatedProperties`.
#[derive(Deserialize, JsonSchema)]
struct Figure {
    name: String,
    #[serde(flatten)]
    shape: Shape,
    #[serde(flatten)]
    labels: HashMap<String, String>,
}

/// Describe a figure.
#[tool]
fn describe(figure: Figure) -> String {
    let size = match figure.shape {
        Shape::Circle { radius } => radius,
        Shape::Square { side } => side,
    };
    format!("{} {size} {:?}", figure.name, figure.labels.get("color"))
}

#[tokio::test]
async fn unknown_fields_beside_a_flattened_enum_are_decoded() {
    let mut client = Server::empty("figures", "1.0.0").with::<describe>().test_client(Revision::V2025_11_25);
    for (color, is_error) in [(json!("red"), false), (json!(7), true)] {
        let figure = json!({"name": "dot", "kind": "Circle", "radius": "2 m", "color": color});
        let answer = client.call("describe", json!({ "figure": figure })).await.unwrap();
        assert_eq!(answer.is_error(), is_error, "{}", answer.text());
        let expected = if is_error {
            "invalid arguments for `describe`:\n- `figure.color`: 7 must be a string"
        } else {
            r#"dot 2 m Some("red")"#
        };
        assert_eq!(answer.text(), expected);
    }
}
