//! A function never runs with arguments that its listed schema refuses, whatever its types decode: `jsonschema`, which
//! shares no code with the runtime, decides what a schema refuses.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    fmt::Write,
    path::PathBuf,
    sync::RwLock,
    time::Duration,
};

use jsonschema::Validator;
use mcp_runtime::{
    __private::{AnyDecoding as _, Decoding},
    Revision, Server,
    function::{Collect, SchemaProfile},
    prompt, resource,
    testing::TestClient,
    tool,
};
use proptest::{collection::vec, option, prelude::*, sample::select};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// An option that the schema requires.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only decoding matters")]
struct Demanded {
    #[schemars(required)]
    owner: Option<String>,
    count: Option<u8>,
}

/// Fields whose schemas are those of other types.
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only decoding matters")]
struct With {
    #[schemars(with = "String")]
    text: Value,
    #[serde(default)]
    #[schemars(with = "i8")]
    number: Value,
    #[serde(default)]
    #[schemars(with = "Option<bool>")]
    flag: Value,
}

/// Fields that have other names in requests, and names that the schema does not contain.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only decoding matters")]
struct Renamed {
    #[serde(alias = "first")]
    first_name: String,
    #[serde(rename = "b", default)]
    last_name: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only decoding matters")]
struct Flattened {
    a: i64,
    #[serde(flatten)]
    demanded: Demanded,
    #[serde(flatten)]
    rest: BTreeMap<String, u8>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("type" = "object"))]
#[serde(untagged)]
#[expect(dead_code, reason = "only decoding matters")]
enum Untagged {
    Demanded(Demanded),
    Pair { a: u8, b: u8 },
}

#[derive(Deserialize, JsonSchema)]
#[schemars(extend("type" = "object"))]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
#[expect(dead_code, reason = "only decoding matters")]
enum Tagged {
    Circle { a: f64 },
    Square { b: Option<f64> },
}

/// A schema that `Deserialize` knows nothing of.
macro_rules! handwritten {
    ($($name:ident => $schema:tt)*) => {
        $(
            #[derive(Deserialize)]
            #[serde(transparent)]
            #[expect(dead_code, reason = "only decoding matters")]
            struct $name(Value);

            impl JsonSchema for $name {
                fn schema_name() -> Cow<'static, str> {
                    stringify!($name).into()
                }

                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!($schema)
                }
            }
        )*
    };
}

handwritten! {
    Handwritten => {
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "enum": ["x", null] } },
        "required": ["a"],
    }
    Document => {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": { "a": { "type": "integer" }, "b": { "type": "string" } },
        "required": ["a"],
    }
}

/// Declares functions that take a type in every position.
macro_rules! takers {
    ($($ty:ty => $value:ident $perhaps:ident $many:ident $whole:ident)*) => {
        $(
            #[tool]
            fn $value(value: $ty) {
                let _ = value;
            }

            #[tool]
            fn $perhaps(value: Option<$ty>) {
                let _ = value;
            }

            #[tool]
            fn $many(value: Vec<$ty>) {
                let _ = value;
            }

            #[tool]
            fn $whole(#[arg(flatten)] value: $ty) {
                let _ = value;
            }
        )*

        fn takers() -> Server {
            Server::empty("enforcement", "1.0.0")
                $(.with::<$value>().with::<$perhaps>().with::<$many>().with::<$whole>())*
        }
    };
}

takers! {
    Demanded => demanded perhaps_demanded many_demanded whole_demanded
    With => with perhaps_with many_with whole_with
    Renamed => renamed perhaps_renamed many_renamed whole_renamed
    Flattened => flattened perhaps_flattened many_flattened whole_flattened
    Untagged => untagged perhaps_untagged many_untagged whole_untagged
    Tagged => tagged perhaps_tagged many_tagged whole_tagged
    Handwritten => handwritten perhaps_handwritten many_handwritten whole_handwritten
    Document => document perhaps_document many_document whole_document
}

/// Returns a server with the functions that take a type.
fn takers_of(name: &'static str) -> Server {
    takers().only(move |entry| entry.name.ends_with(name))
}

/// The names of the types, and a value that each of them accepts.
fn samples() -> Vec<(&'static str, Value)> {
    vec![
        ("demanded", json!({"owner": "x", "count": 1})),
        ("with", json!({"text": "x", "number": 1, "flag": true})),
        ("renamed", json!({"firstName": "x", "b": "y"})),
        ("flattened", json!({"a": 1, "owner": "x", "count": 1, "b": 2})),
        ("untagged", json!({"a": 1, "b": 2})),
        ("tagged", json!({"kind": "circle", "a": 1.5})),
        ("handwritten", json!({"a": 1, "b": "x"})),
        ("document", json!({"a": 1, "b": "x"})),
    ]
}

/// Returns the arguments that pass a value in each position, with the name of the tool.
fn positions(name: &str, value: &Value) -> [(String, Value); 4] {
    [
        (name.to_owned(), json!({"value": value})),
        (format!("perhaps_{name}"), json!({"value": value})),
        (format!("many_{name}"), json!({"value": [value]})),
        (format!("whole_{name}"), value.clone()),
    ]
}

const PROFILES: [SchemaProfile; 3] = [SchemaProfile::Compatible, SchemaProfile::WithoutNull, SchemaProfile::Exact];

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Returns the validators of the schemas that a client sees, by the name of the tool.
async fn listed(client: &mut TestClient) -> HashMap<String, Validator> {
    let tools = client.tools().await.unwrap();
    let compile = |schema: &Value| jsonschema::draft202012::new(schema).unwrap_or_else(|e| panic!("{schema}: {e}"));
    tools.iter().map(|tool| (tool["name"].as_str().unwrap().to_owned(), compile(&tool["inputSchema"]))).collect()
}

/// Removes the members that are `null`. Optional ones count as absent, even if a profile does not list `null`.
fn without_null(value: &Value) -> Value {
    match value {
        Value::Array(elements) => elements.iter().map(without_null).collect(),
        Value::Object(members) => members
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_null(value)))
            .collect(),
        other => other.clone(),
    }
}

/// Returns whether a listed schema refuses the arguments.
fn refuses(validator: &Validator, profile: SchemaProfile, arguments: &Value) -> bool {
    let is_null_listed = profile != SchemaProfile::WithoutNull;
    !validator.is_valid(arguments) && (is_null_listed || !validator.is_valid(&without_null(arguments)))
}

/// Calls the tools with arguments in all revisions and profiles. Returns the number of calls that ran.
async fn check(server: impl Fn() -> Server, calls: &[(String, Value)]) -> Result<usize, TestCaseError> {
    let mut ran = 0;
    for profile in PROFILES {
        for revision in Revision::ALL {
            let mut client = server().schemas(profile).test_client(revision);
            let listed = listed(&mut client).await;
            for (tool, arguments) in calls {
                if !arguments.is_object() {
                    continue;
                }
                let result = client.call(tool, arguments).await.unwrap();
                ran += usize::from(!result.is_error());
                prop_assert!(
                    result.is_error() || !refuses(&listed[tool], profile, arguments),
                    "{tool} ran with {arguments}, which its schema refuses ({profile:?}, {revision})"
                );
            }
        }
    }
    Ok(ran)
}

#[test]
fn values_that_only_the_schema_refuses_do_not_reach_a_function() {
    block_on(async {
        for (name, value) in samples() {
            let calls = positions(name, &value);
            assert_eq!(check(|| takers_of(name), &calls).await.unwrap(), calls.len() * 15, "{name} {value}");
        }
        for (name, value, reason) in [
            ("demanded", json!({}), "a required option is missing"),
            ("demanded", json!(["x", 1]), "serde decodes structs from arrays"),
            ("with", json!({"text": 3}), "the schema is that of a stricter type"),
            ("with", json!({"text": null}), "the schema does not accept `null`"),
            ("with", json!({"text": "x", "number": null}), "the schema of an optional field does not accept `null`"),
            ("with", json!({"text": "x", "number": 1.5}), "the schema is that of an integer"),
            ("renamed", json!({"first": "x"}), "the schema does not contain aliases"),
            ("flattened", json!({"a": 1, "count": 2}), "a required option of a flattened struct is missing"),
            ("untagged", json!({"count": 1}), "a required option of an untagged variant is missing"),
            ("untagged", json!([1, 2]), "serde decodes variants from arrays"),
            ("tagged", json!(["circle", 1.5]), "serde decodes tagged enums from arrays"),
            ("handwritten", json!({"a": "x"}), "the types of a handwritten schema"),
            ("handwritten", json!({}), "`required` of a handwritten schema"),
            ("document", json!({"a": 1.5}), "the types of a document"),
            ("document", json!({"a": 1, "b": null}), "an optional property of a document does not accept `null`"),
        ] {
            let calls = positions(name, &value);
            assert_eq!(check(|| takers_of(name), &calls).await.unwrap(), 0, "{name} {value}: {reason}");
        }
    });
}

#[test]
fn null_counts_as_absent_where_the_schema_of_the_type_accepts_it() {
    block_on(async {
        for (name, value) in [
            ("demanded", json!({"owner": "x", "count": null})),
            ("with", json!({"text": "x", "flag": null})),
            ("renamed", json!({"firstName": "x", "b": null})),
            ("tagged", json!({"kind": "square", "b": null})),
            ("handwritten", json!({"a": 1, "b": null})),
        ] {
            let calls = positions(name, &value);
            assert_eq!(check(|| takers_of(name), &calls).await.unwrap(), calls.len() * 15, "{name} {value}");
        }
    });
}

/// A value of any kind.
fn value() -> impl Strategy<Value = Value> {
    let leaves = [
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(2),
        json!(-1),
        json!(300),
        json!(1.0),
        json!(1.5),
        json!(""),
        json!("a"),
        json!("ab"),
        json!("x"),
    ];
    select(leaves.to_vec()).prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((select(vec!["a", "b", "c"]), inner), 0..4)
                .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

/// A change of one member of a sample: its name, and the value that it gets, if any.
fn change() -> impl Strategy<Value = (&'static str, Option<Value>)> {
    let names = vec!["a", "b", "count", "first", "firstName", "flag", "kind", "number", "other", "owner", "text"];
    (select(names), option::of(value()))
}

/// A schema with constraints of every kind.
fn schema() -> impl Strategy<Value = Value> {
    let names = || select(vec!["a", "b", "c"]);
    let leaves = [
        json!(true),
        json!({}),
        json!({"type": "string"}),
        json!({"type": "integer"}),
        json!({"type": "number"}),
        json!({"type": "boolean"}),
        json!({"type": "null"}),
        json!({"type": "array"}),
        json!({"type": "object"}),
        json!({"type": ["string", "null"]}),
        json!({"type": ["integer", "boolean"]}),
        json!({"enum": ["a", 1, null]}),
        json!({"enum": ["a", "ab"], "description": "Text."}),
        json!({"const": "a"}),
        json!({"const": 1}),
        json!({"type": "integer", "minimum": 0, "maximum": 255, "format": "uint8"}),
        json!({"type": "number", "exclusiveMinimum": 0}),
        json!({"type": "integer", "exclusiveMaximum": 2}),
        json!({"type": "string", "minLength": 1, "maxLength": 1}),
        json!({"pattern": "^a", "default": "a"}),
        json!({"multipleOf": 2}),
        json!({"uniqueItems": true}),
        json!({"minProperties": 1}),
        json!({"dependentRequired": {"a": ["b"]}}),
        json!({"required": ["a"]}),
    ];
    select(leaves.to_vec()).prop_recursive(3, 16, 3, move |inner| {
        let some = || vec(inner.clone(), 1..3);
        let one = || inner.clone();
        let object =
            (vec((names(), one()), 0..3), vec(names(), 0..2), option::of(prop_oneof![Just(json!(false)), one()]))
                .prop_map(|(properties, required, additional)| {
                    let properties: Map<_, _> =
                        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
                    let required: BTreeSet<_> = required.into_iter().collect();
                    let mut schema = json!({"type": "object", "properties": properties, "required": required});
                    if let Some(additional) = additional {
                        schema["additionalProperties"] = additional;
                    }
                    schema
                });
        prop_oneof![
            4 => object,
            1 => one().prop_map(|items| json!({"type": "array", "items": items, "maxItems": 2})),
            1 => some().prop_map(|items| json!({"type": "array", "prefixItems": items, "items": false})),
            1 => one().prop_map(|inner| json!({"contains": inner})),
            1 => some().prop_map(|branches| json!({"anyOf": branches})),
            1 => some().prop_map(|branches| json!({"oneOf": branches, "title": "One"})),
            1 => some().prop_map(|branches| json!({"allOf": branches})),
            1 => one().prop_map(|inner| json!({"not": inner})),
            1 => (one(), one(), one()).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            1 => one().prop_map(|inner| json!({"patternProperties": {"^a": inner}})),
            1 => one().prop_map(|inner| json!({"propertyNames": inner})),
            1 => one().prop_map(|inner| json!({"dependentSchemas": {"a": inner}})),
        ]
    })
}

/// The schema of [`Generated`], and the properties of [`Fields`].
static SCHEMA: RwLock<Value> = RwLock::new(Value::Bool(true));

/// A type that decodes everything and has a generated schema.
#[derive(Deserialize)]
#[serde(transparent)]
struct Generated(Value);

impl JsonSchema for Generated {
    fn schema_name() -> Cow<'static, str> {
        "Generated".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        SCHEMA.read().unwrap().clone().try_into().unwrap()
    }
}

/// All arguments of a tool, in a type that decodes every object.
#[derive(Deserialize)]
struct Fields {
    #[serde(flatten)]
    all: Map<String, Value>,
}

impl JsonSchema for Fields {
    fn schema_name() -> Cow<'static, str> {
        "Fields".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let inner = generator.subschema_for::<Generated>();
        json_schema!({
            "type": "object",
            "properties": { "value": inner, "others": { "type": "array", "items": inner } },
            "required": ["value"],
        })
    }
}

#[tool]
fn generated(value: Generated, others: Option<Vec<Generated>>) {
    drop((value, others));
}

#[tool]
fn generated_fields(#[arg(flatten)] fields: Fields) {
    drop(fields.all);
}

#[prompt]
fn generated_prompt(value: Generated) -> String {
    value.0.to_string()
}

#[resource("generated://{value}")]
fn generated_resource(value: Generated) -> String {
    value.0.to_string()
}

fn generated_server() -> Server {
    Server::empty("enforcement", "1.0.0").with::<generated>().with::<generated_fields>()
}

/// Passes a value as a string, and checks the value that the function received.
async fn check_strings(value: &Value) -> Result<(), TestCaseError> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut uri = "generated://".to_owned();
    text.bytes().for_each(|byte| write!(uri, "%{byte:02X}").unwrap());
    let listed = listed(&mut generated_server().test_client(Revision::V2025_11_25)).await;
    for revision in Revision::ALL {
        let mut received = Vec::new();
        let server = || generated_server().with::<generated_resource>();
        if server().check().is_ok() {
            let contents = server().test_client(revision).read(&uri).await;
            received.extend(contents.map(|contents| contents[0]["text"].clone()));
        }
        // Arguments of prompts are no objects.
        let server = || generated_server().with::<generated_prompt>();
        if server().check().is_ok() {
            let prompt = server().test_client(revision).prompt("generated_prompt", json!({"value": text})).await;
            received.extend(prompt.map(|prompt| prompt["messages"][0]["content"]["text"].clone()));
        }
        for received in received {
            let received: Value = serde_json::from_str(received.as_str().unwrap()).unwrap();
            prop_assert!(
                listed["generated"].is_valid(&json!({"value": received})),
                "a function received {received} for {text:?}, which its schema refuses ({revision})"
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_samples_reach_a_function_only_if_its_schema_accepts_them(
        (name, sample) in select(samples()),
        changes in vec(change(), 1..4),
    ) {
        let mut changed = sample;
        for (member, value) in changes {
            match value {
                Some(value) => changed[member] = value,
                None => drop(changed.as_object_mut().unwrap().remove(member)),
            }
        }
        block_on(check(|| takers_of(name), &positions(name, &changed)))?;
    }

    #[test]
    fn values_reach_a_function_only_if_its_generated_schema_accepts_them(
        schema in schema().prop_filter("a schema of a type is an object", Value::is_object),
        values in vec(value(), 1..6),
    ) {
        *SCHEMA.write().unwrap() = schema;
        let calls: Vec<_> = values
            .iter()
            .flat_map(|value| [json!({"value": value}), json!({"value": values[0], "others": [value]})])
            .flat_map(|arguments| ["generated", "generated_fields"].map(|tool| (tool.to_owned(), arguments.clone())))
            .collect();
        block_on(async {
            check(generated_server, &calls).await?;
            check_strings(&values[0]).await
        })?;
    }
}

/// Returns a row of the test of types that are not checked.
macro_rules! enforced {
    ($($ty:ty),* $(,)?) => {
        [$((stringify!($ty), Decoding::<$ty>::ENFORCES_SCHEMA, decodes_what_the_schema_refuses::<$ty>())),*]
    };
}

/// Returns the values that a type decodes although its schema refuses them.
fn decodes_what_the_schema_refuses<T: DeserializeOwned + JsonSchema>() -> Vec<String> {
    let schema = jsonschema::draft202012::new(schemars::schema_for!(T).as_value()).unwrap();
    let leaves = [
        "null",
        "true",
        "0",
        "1",
        "-1",
        "127",
        "128",
        "255",
        "256",
        "-129",
        "65536",
        "4294967296",
        "-2147483649",
        "9223372036854775808",
        "18446744073709551615",
        "-0",
        "0.0",
        "1.0",
        "1e2",
        "1.5",
        "1e300",
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "\"é\"",
        "\"🦀\"",
        "\"1\"",
        "\"\\u0000\"",
        "[]",
        "{}",
    ];
    let nested = |inner: &str| {
        [
            format!("[{inner}]"),
            format!("[{inner},{inner}]"),
            format!("[{inner},\"a\"]"),
            format!("[{inner},null]"),
            format!("[{inner},{inner},{inner}]"),
            format!("{{\"a\":{inner}}}"),
            format!("{{\"secs\":{inner},\"nanos\":{inner}}}"),
            format!("{{\"1\":{inner},\"\":{inner}}}"),
        ]
    };
    let once: Vec<String> = leaves.iter().flat_map(|leaf| nested(leaf)).collect();
    let twice: Vec<String> = once.iter().flat_map(|text| nested(text)).collect();
    let all = leaves.iter().map(|leaf| (*leaf).to_owned()).chain(once).chain(twice);
    all.filter(|text| serde_json::from_str::<T>(text).is_ok() && !schema.is_valid(&serde_json::from_str(text).unwrap()))
        .collect()
}

/// Types whose values are not checked decode nothing that their schema refuses.
#[test]
fn types_that_are_not_checked_enforce_their_schema() {
    let checked = enforced![BTreeSet<u8>, Duration, Demanded, Vec<Demanded>, Option<With>, (u8, Duration), Generated];
    for (name, is_unchecked, _) in &checked {
        assert!(!is_unchecked, "{name}");
    }
    let lax = checked.iter().filter(|(_, _, refused)| !refused.is_empty()).count();
    assert!(lax >= 5, "the values tell types that enforce their schema from types that do not");
    let unchecked = enforced![
        bool, char, u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, String, PathBuf, Value,
        Map<String, Value>, Option<u8>, Option<Vec<String>>, Option<Option<bool>>, Box<str>, Box<u8>, Box<[i8]>,
        Cow<'static, str>, [u8; 0], [u8; 2], Vec<u8>, Vec<Option<char>>, Vec<Vec<i16>>, VecDeque<String>,
        BTreeMap<String, u8>, HashMap<String, Vec<bool>>, (u8,), (String, u8), (u8, Option<i8>, f32),
    ];
    for (name, is_unchecked, refused) in unchecked {
        assert!(is_unchecked, "{name}");
        assert_eq!(refused, [""; 0], "{name}");
    }
}

/// Every format that the macros accept.
#[tool]
#[allow(clippy::too_many_arguments, reason = "one for each format")]
fn formats(
    #[arg(format = "date")] date: String,
    #[arg(format = "date-time")] date_time: String,
    #[arg(format = "email")] email: String,
    #[arg(format = "hostname")] hostname: String,
    #[arg(format = "ipv4")] ipv4: String,
    #[arg(format = "ipv6")] ipv6: String,
    #[arg(format = "time")] time: String,
    #[arg(format = "uri")] uri: String,
    #[arg(format = "uuid")] uuid: String,
) {
    drop((date, date_time, email, hostname, ipv4, ipv6, time, uri, uuid));
}

#[tokio::test]
async fn formats_of_arguments_are_enforced() {
    let mut client = Server::empty("formats", "1.0.0").with::<formats>().test_client(Revision::V2025_11_25);
    let names = ["date", "date_time", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"];
    let arguments: Map<_, _> = names.map(|name| (name.to_owned(), json!("-"))).into_iter().collect();
    let refused = client.call("formats", arguments).await.unwrap().text();
    for name in names {
        let line = format!("- `{name}`: \"-\" must match the format `{}`", name.replace('_', "-"));
        assert!(refused.contains(&line), "{line} is missing from {refused}");
    }
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Formats {
    #[schemars(extend("format" = "color"))]
    own: String,
    #[schemars(extend("format" = "e-mail"))]
    misspelled: String,
}

#[tool]
fn misspelled_format(formats: Formats) {
    drop(formats);
}

#[tool]
fn misspelled_formats(#[arg(flatten)] formats: Formats) {
    drop(formats);
}

/// JSON Schema permits formats of one's own, but none that look like one that is enforced.
#[test]
fn a_misspelled_format_is_an_error_at_startup() {
    fn error_of<F: Collect>() -> String {
        Server::empty("formats", "1.0.0").with::<F>().check().unwrap_err().to_string()
    }

    for error in [error_of::<misspelled_format>(), error_of::<misspelled_formats>()] {
        let expected = "unknown format `e-mail`, which would not be enforced\nhelp: did you mean `email`?";
        assert!(error.contains(expected), "{error}");
    }
}
