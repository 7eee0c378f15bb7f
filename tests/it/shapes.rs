//! The listed form of each shape of schema in `tests/agents/shapes.json`, which agent frameworks are measured with.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
};

use mcp_runtime::{
    Revision, Server,
    function::{Collect, SchemaProfile},
    tool,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const SHAPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/agents/shapes.json");

/// A type with a handwritten schema.
macro_rules! described {
    ($name:ident => $schema:expr) => {
        #[derive(Deserialize)]
        #[serde(transparent)]
        struct $name(#[expect(dead_code, reason = "only its schema matters")] Value);

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Plain {
    Brief,
    Detailed,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Documented {
    /// Two sentences.
    Brief,
    /// A page.
    Detailed,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Labelled {
    x: f64,
    label: String,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Point {
    x: f64,
    label: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Item {
    /// A name.
    name: String,
    count: i64,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Address {
    /// A street.
    street: String,
    city: String,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Node {
    name: String,
    children: Vec<Node>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema matters")]
enum IdOrName {
    Id(i64),
    Name(String),
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema matters")]
enum IdNameOrNull {
    Id(i64),
    Name(String),
    Null,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema matters")]
enum Tagged {
    Circle { radius: f64 },
    Square { side: f64 },
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema matters")]
enum External {
    Circle(f64),
    Square(f64),
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema matters")]
enum Mixed {
    All,
    Only(String),
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Second {
    b: String,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Both {
    a: i64,
    #[serde(flatten)]
    second: Second,
}

described!(Document => json_schema!({
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": { "query": { "type": "string", "description": "What it is for." } },
    "required": ["query"],
}));
described!(Either => json_schema!({
    "type": "object",
    "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
    "required": [],
    "anyOf": [{ "required": ["a"] }, { "required": ["b"] }],
}));
described!(OneOfThree => json_schema!({ "type": "integer", "enum": [1, 2, 5] }));
described!(Constant => json_schema!({ "const": "v1" }));
described!(Positive => json_schema!({ "type": "number", "exclusiveMinimum": 0 }));
described!(Timestamp => json_schema!({ "type": "string", "format": "date-time" }));
described!(PatternedKeys => json_schema!({
    "type": "object", "propertyNames": { "pattern": "^[a-z]+$" }, "additionalProperties": { "type": "integer" },
}));
described!(AllOf => json_schema!({
    "allOf": [
        { "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] },
        { "type": "object", "properties": { "b": { "type": "string" } }, "required": ["b"] },
    ],
}));

#[tool]
fn closed(
    /// What it is for.
    query: String,
) -> String {
    query
}

#[tool]
fn nothing() {}

#[tool]
fn document(#[arg(flatten)] _value: Document) {}

#[tool]
fn either(#[arg(flatten)] _value: Either) {}

#[tool]
fn order(zone: String, area: String, month: String) -> String {
    format!("{zone}{area}{month}")
}

#[tool]
fn default(
    /// What it is for.
    #[arg(default = 10)]
    value: u32,
) -> u32 {
    value
}

#[tool]
fn range(
    /// What it is for.
    #[arg(range = 1..=100)]
    value: u32,
) -> u32 {
    value
}

#[tool]
fn pattern(
    /// What it is for.
    #[arg(pattern = "^[a-z]+$", length = 1..=9)]
    value: String,
) -> String {
    value
}

#[tool]
fn recursive(_value: Node) {}

#[tool]
fn field(_value: Point) {}

/// Declares a tool for each type, with one described argument.
macro_rules! tools {
    ($($tool:ident: $ty:ty,)*) => {$(
        #[tool]
        fn $tool(
            /// What it is for.
            value: $ty,
        ) {
            let _ = value;
        }
    )*};
}

tools! {
    optional_string: Option<String>,
    optional_integer: Option<i64>,
    optional_enum: Option<Plain>,
    optional_struct: Option<Labelled>,
    optional_list: Option<Vec<String>>,
    plain_enum: Plain,
    documented_enum: Documented,
    integer_enum: OneOfThree,
    constant: Constant,
    any_value: Value,
    any_object: Map<String, Value>,
    integer: i64,
    byte: u8,
    positive: Positive,
    timestamp: Timestamp,
    items: Vec<Item>,
    mixed_tuple: (f64, String),
    pair: (f64, f64),
    set: HashSet<String>,
    nested_list: Vec<Vec<f64>>,
    address: Address,
    map: HashMap<String, i64>,
    optional_values: BTreeMap<String, Option<i64>>,
    patterned: PatternedKeys,
    untagged: IdOrName,
    untagged_null: IdNameOrNull,
    tagged: Tagged,
    external: External,
    mixed_enum: Mixed,
    all_of: Both,
    handwritten_all_of: AllOf,
}

/// Returns a server with the tool that has the shape.
fn server(shape: &str) -> Option<Server> {
    fn with<C: Collect>() -> Server {
        Server::empty("shapes", "1.0.0").with::<C>()
    }
    Some(match shape {
        "closed arguments" => with::<closed>(),
        "no arguments" => with::<nothing>(),
        "schema dialect" => with::<document>(),
        "property order" => with::<order>(),
        "optional string" => with::<optional_string>(),
        "optional integer" => with::<optional_integer>(),
        "optional enum" => with::<optional_enum>(),
        "optional struct" => with::<optional_struct>(),
        "optional list" => with::<optional_list>(),
        "default" => with::<default>(),
        "enum" => with::<plain_enum>(),
        "enum with descriptions" => with::<documented_enum>(),
        "integer enum" => with::<integer_enum>(),
        "constant" => with::<constant>(),
        "any value" => with::<any_value>(),
        "any object" => with::<any_object>(),
        "integer" => with::<integer>(),
        "small unsigned integer" => with::<byte>(),
        "exclusive minimum" => with::<positive>(),
        "integer range" => with::<range>(),
        "pattern" => with::<pattern>(),
        "format" => with::<timestamp>(),
        "list of structs" => with::<items>(),
        "tuple" => with::<mixed_tuple>(),
        "pair of one type" => with::<pair>(),
        "set" => with::<set>(),
        "nested list" => with::<nested_list>(),
        "nested struct" => with::<address>(),
        "optional field of a struct" => with::<field>(),
        "recursive struct" => with::<recursive>(),
        "map" => with::<map>(),
        "map of optional values" => with::<optional_values>(),
        "map with patterned keys" => with::<patterned>(),
        "untagged enum" => with::<untagged>(),
        "untagged enum with null" => with::<untagged_null>(),
        "tagged enum" => with::<tagged>(),
        "externally tagged enum" => with::<external>(),
        "enum with unit and data variants" => with::<mixed_enum>(),
        "all of" => with::<all_of>(),
        "either of two arguments" => with::<either>(),
        _ => return None,
    })
}

async fn listed(server: Server) -> Value {
    let tools = server.test_client(Revision::V2025_11_25).tools().await.unwrap();
    tools[0]["inputSchema"].clone()
}

/// Removes the underscore with which unused parameters begin.
fn renamed(text: &str) -> String {
    text.replace("\"_value\"", "\"value\"")
}

#[tokio::test]
async fn tools_are_listed_with_the_measured_form() {
    let shapes: Vec<Value> = serde_json::from_str(&fs::read_to_string(SHAPES).unwrap()).unwrap();
    let mut problems = Vec::new();
    for shape in &shapes {
        let name = shape["shape"].as_str().unwrap();
        let Some(server) = server(name) else {
            problems.push(format!("{name}: add a tool with this shape"));
            continue;
        };
        let schema = renamed(&listed(server).await.to_string());
        let mut schema: Value = serde_json::from_str(&schema).unwrap();
        let expected = &shape["forms"][shape["listed"].as_str().unwrap()];
        if shape["level"] == "property" {
            schema = schema["properties"]["value"].take();
        }
        let order =
            |schema: &Value| schema["properties"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
        // An empty `required` is not listed.
        let mut expected = expected.clone();
        if expected["required"] == json!([]) {
            expected.as_object_mut().unwrap().remove("required");
        }
        if schema.get("required").is_some_and(|names| *names == json!([])) {
            schema.as_object_mut().unwrap().remove("required");
        }
        if schema != expected || order(&schema) != order(&expected) {
            problems.push(format!("{name}: the listed form is {}\n  {schema}\n  {expected}", shape["listed"]));
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[tokio::test]
async fn all_of_is_merged() {
    let merged = listed(Server::empty("shapes", "1.0.0").with::<handwritten_all_of>()).await;
    let expected = json!({
        "description": "What it is for.",
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": "string" } },
        "required": ["a", "b"],
    });
    assert_eq!(merged["properties"]["value"], expected);
}

/// A tool with every difference between the profiles.
#[tool]
fn every_difference(
    /// A label.
    tag: Option<String>,
    shape: External,
    #[arg(header = "Region")] region: Option<String>,
) {
    drop((tag, shape, region));
}

#[tokio::test]
async fn profiles_list_the_same_contract_in_other_forms() {
    let number = json!({ "type": "number" });
    let variant = |name: &str| json!({ "type": "object", "properties": { name: number }, "required": [name] });
    let closed = |name: &str| {
        let mut variant = variant(name);
        variant["additionalProperties"] = false.into();
        variant
    };
    let region = json!({ "type": "string", "x-mcp-header": "Region" });
    let plain = json!({ "type": "string", "description": "A label." });
    let nullable = json!({ "anyOf": [plain, { "type": "null" }], "description": "A label." });
    let described_once = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "description": "A label." });
    let open = json!({ "anyOf": [variant("circle"), variant("square")] });
    let exact = json!({ "oneOf": [closed("circle"), closed("square")] });
    for (profile, tag, shape, is_closed) in [
        (SchemaProfile::Compatible, nullable, open.clone(), false),
        (SchemaProfile::WithoutNull, plain, open, false),
        // Clients that lose one of two descriptions are no clients of this profile.
        (SchemaProfile::Exact, described_once, exact, true),
    ] {
        let server = || Server::empty("profiles", "1.0.0").with::<every_difference>().schemas(profile);
        let mut expected = json!({
            "type": "object",
            "properties": { "tag": tag, "shape": shape, "region": region },
            "required": ["shape"],
        });
        if is_closed {
            expected["additionalProperties"] = false.into();
        }
        assert_eq!(listed(server()).await, expected, "{profile:?}");
        // Whatever is listed, all of the contract is enforced.
        for (arguments, problem) in [
            (json!({"tag": null, "shape": {"circle": 1}, "region": null}), None),
            (json!({"shape": {"circle": 1}, "tags": "a"}), Some("did you mean `tag`?")),
            (json!({"shape": {"circle": 1, "other": 2}}), Some("shape")),
            (json!({"shape": {"triangle": 1}}), Some("shape")),
        ] {
            let result = server().test_client(Revision::V2025_11_25).call("every_difference", &arguments).await;
            let result = result.unwrap();
            assert_eq!(result.is_error(), problem.is_some(), "{profile:?} {arguments}: {}", result.text());
            assert!(result.text().contains(problem.unwrap_or_default()), "{profile:?}: {}", result.text());
        }
    }
}
