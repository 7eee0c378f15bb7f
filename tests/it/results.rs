//! Structured results are checked against the output schema of their tool, in debug builds and by the test client.

use mcp_runtime::{
    Context, Json, Level, Revision, Server, ToolResult,
    layers::{Call, Next, Outcome, from_fn},
    model::Structured,
    resource, tool,
};
use schemars::JsonSchema;
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap as _},
};
use serde_json::{Value, json};

/// A type whose `Serialize` and `JsonSchema` may disagree.
#[derive(Clone, Default, Serialize, JsonSchema)]
struct Weather {
    /// Described as a number, but written as whatever it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64")]
    celsius: Option<Value>,
    #[schemars(length(max = 3))]
    city: String,
    #[schemars(with = "u8")]
    #[serde(skip_serializing_if = "Option::is_none", rename = "wind speed")]
    wind: Option<Option<u8>>,
}

/// Return the weather.
#[tool]
fn weather(celsius: Option<Value>, city: Option<String>, wind: bool) -> Json<Weather> {
    Json(Weather { celsius, city: city.unwrap_or_default(), wind: wind.then_some(None) })
}

/// Return the weather later.
#[tool]
async fn later(celsius: Value) -> Structured<Weather> {
    tokio::task::yield_now().await;
    Structured::new(Weather { celsius: Some(celsius), ..Weather::default() })
}

/// Return all weather.
#[tool]
fn all(celsius: Vec<Value>) -> Json<Vec<Weather>> {
    let weather = |celsius: Value| Weather { celsius: Some(celsius), ..Weather::default() };
    Json(celsius.into_iter().map(weather).collect())
}

/// Return the weather, if there is any.
#[tool]
fn maybe(celsius: Value) -> Result<Option<Json<Weather>>, String> {
    match celsius {
        Value::Null => Ok(None),
        Value::Bool(_) => Err("no weather".to_owned()),
        celsius => Ok(Some(Json(Weather { celsius: Some(celsius), ..Weather::default() }))),
    }
}

/// Return text, if there is any.
#[tool]
fn perhaps(text: Option<String>) -> Option<String> {
    text
}

/// A value whose serialization fails after its first member.
#[derive(JsonSchema)]
struct Torn {
    whole: u8,
}

impl Serialize for Torn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_map(None)?.serialize_entry("whole", &self.whole)?;
        Err(S::Error::custom("torn"))
    }
}

/// Return a torn value.
#[tool]
fn torn() -> Json<Torn> {
    Json(Torn { whole: 1 })
}

/// Log a torn value.
#[tool]
fn logs_torn(ctx: &Context) {
    ctx.log(Level::Error, Torn { whole: 1 });
}

/// A torn resource.
#[resource("test://torn")]
fn torn_resource() -> Json<Torn> {
    Json(Torn { whole: 1 })
}

fn server() -> Server {
    Server::empty("weather", "1.0.0").with::<weather>().with::<later>().with::<all>().with::<maybe>()
}

/// Returns the lines of the error of a call after the first, without the help at the end.
fn violations(message: &str, name: &str) -> Vec<String> {
    let lines = message.strip_prefix(&format!("the result of `{name}` does not match its output schema:\n"));
    let (lines, help) = lines.unwrap_or_else(|| panic!("{message}")).rsplit_once('\n').unwrap();
    assert!(help.starts_with("help: correct the `Serialize` or the `JsonSchema` of the returned type"), "{help}");
    lines.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn structured_results_that_violate_their_schema_fail() {
    for (name, arguments, expected) in [
        ("weather", json!({"celsius": 21.5, "wind": false}), &[][..]),
        ("later", json!({"celsius": 21}), &[]),
        ("all", json!({"celsius": [1, 2]}), &[]),
        ("maybe", json!({"celsius": 1}), &[]),
        ("maybe", json!({"celsius": null}), &[]),
        ("maybe", json!({"celsius": true}), &[]),
        (
            "weather",
            json!({"celsius": "warm", "city": "Ulm and Jena", "wind": true}),
            &[
                r#"- `structuredContent.celsius`: "warm" must be a number"#,
                r#"- `structuredContent.city`: "Ulm and Jena" must have at most 3 characters"#,
                r#"- `structuredContent["wind speed"]`: null must be an integer"#,
            ],
        ),
        ("later", json!({"celsius": []}), &["- `structuredContent.celsius`: [] must be a number"]),
        ("all", json!({"celsius": [1, {}]}), &["- `structuredContent[1].celsius`: {} must be a number"]),
        ("maybe", json!({"celsius": "x"}), &[r#"- `structuredContent.celsius`: "x" must be a number"#]),
    ] {
        let built = server().check_results(true).build().unwrap();
        for revision in Revision::ALL {
            let result = built.test_client(revision).call(name, arguments.clone()).await;
            if expected.is_empty() || !mcp_tests::expected(revision).structured_content {
                result.unwrap_or_else(|error| panic!("{revision} {name}: {error}"));
                continue;
            }
            let error = result.expect_err(&format!("{revision} {name} {arguments}"));
            assert_eq!(error.code, -32603, "{revision} {name}: {error}");
            // A result that is no object is wrapped where the revision requires an object.
            let wraps = !revision.is_stateless() && ["all", "maybe"].contains(&name);
            let member = if wraps { "structuredContent.result" } else { "structuredContent" };
            let expected: Vec<_> = expected.iter().map(|line| line.replace("structuredContent", member)).collect();
            assert_eq!(violations(&error.message, name), expected, "{revision}");
        }
    }
}

/// Nothing is sent of a value that cannot be sent as a whole.
#[tokio::test]
async fn values_that_cannot_be_serialized_are_errors() {
    let server = Server::empty("torn", "1.0.0").with::<torn>().with::<logs_torn>().with::<torn_resource>();
    let built = server.build().unwrap();
    for revision in Revision::ALL {
        let mut client = built.test_client(revision);
        let error = client.call("torn", json!({})).await.unwrap_err();
        assert_eq!((error.code, &*error.message), (-32603, "the result cannot be serialized: torn"), "{revision}");
        let error = client.read("test://torn").await.unwrap_err();
        assert_eq!((error.code, &*error.message), (-32603, "the contents cannot be serialized: torn"), "{revision}");
        let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
        client.request("tools/call", json!({"name": "logs_torn", "_meta": meta})).await.unwrap();
        assert_eq!(client.notifications(), [] as [Value; 0], "{revision}");
    }
}

#[tokio::test]
async fn absent_text_is_no_content() {
    let mut client = Server::empty("texts", "1.0.0").with::<perhaps>().test_client(Revision::V2025_11_25);
    for (arguments, expected) in
        [(json!({}), json!([])), (json!({"text": "a"}), json!([{"type": "text", "text": "a"}]))]
    {
        let result = client.request("tools/call", json!({"name": "perhaps", "arguments": arguments})).await.unwrap();
        assert_eq!(result["content"], expected);
    }
}

#[tokio::test]
async fn results_that_layers_change_are_checked() {
    for (name, result, expected) in [
        ("weather", ToolResult::default().with_structured(json!({"celsius": 1, "city": ""})), &[][..]),
        ("weather", ToolResult::error("closed"), &[]),
        ("maybe", ToolResult::default().with_structured(json!({"celsius": 1, "city": ""})), &[]),
        ("weather", ToolResult::new(["warm"]), &["- `structuredContent` is required (object with `city`)"]),
        (
            "weather",
            ToolResult::default().with_structured(json!({"celsius": 1})),
            &["- `structuredContent.city` is required (string)"],
        ),
        (
            "weather",
            ToolResult::new(["warm"]).with_structured(json!({"celsius": true, "city": ""})),
            &["- `structuredContent.celsius`: true must be a number"],
        ),
    ] {
        for revision in mcp_tests::revisions(|expected| expected.structured_content) {
            let result = result.clone();
            let layer = from_fn(move |call: Call, _: Next| {
                let result = result.clone();
                async move { Outcome::tool(&call, result) }
            });
            let mut client = server().layer(layer).test_client(revision);
            let answer = client.call(name, json!({"celsius": 1, "wind": false})).await;
            match answer {
                Ok(_) => assert_eq!(expected, &[] as &[&str], "{revision} {name}"),
                Err(error) => assert_eq!(violations(&error.message, name), expected, "{revision} {name}"),
            }
        }
    }
}

#[tokio::test]
async fn authors_decide_whether_results_are_checked() {
    let wrong = json!({"celsius": "warm", "wind": false});
    let is_checked = async |server: Server| {
        let built = server.build().unwrap();
        built.test_client(Revision::V2025_11_25).call("weather", wrong.clone()).await.is_err()
    };
    assert_eq!(is_checked(server()).await, cfg!(debug_assertions));
    assert!(is_checked(server().check_results(true)).await);
    assert!(!is_checked(server().check_results(false)).await);
    let mut client = server().check_results(false).test_client(Revision::V2025_11_25);
    assert!(client.call("weather", wrong).await.is_ok());
}
