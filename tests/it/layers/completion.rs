//! Completions through layers.

use mcp_runtime::{
    Completions, Context, Fault, Revision, Server,
    function::EarlierArguments,
    layers::{Call, CallKind, LogCalls, Next, Outcome, from_fn},
    prompt, resource,
    schemars::JsonSchema,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Events, Watch, log::Log};

/// Complete the name of a street.
fn streets(value: &str, earlier: &EarlierArguments) -> Result<Vec<String>, String> {
    match value {
        "" => Err("password=hunter2".to_owned()),
        _ => Ok(vec![format!("{value} street, {}", earlier.get("city").unwrap_or("?"))]),
    }
}

/// An address.
#[resource("addresses://{city}/{street}", complete(street = streets))]
fn address(city: String, street: String) -> String {
    format!("{street}, {city}")
}

/// The tone of a greeting.
#[derive(Debug, Deserialize, JsonSchema)]
enum Tone {
    #[serde(rename = "formal")]
    Formal,
    #[serde(rename = "friendly")]
    Friendly,
    Unfriendly,
}

/// Greet somebody.
#[prompt]
fn greet(tone: Tone) -> String {
    format!("{tone:?}")
}

const TEMPLATE: &str = "addresses://{city}/{street}";

fn template() -> Value {
    json!({"type": "ref/resource", "uri": TEMPLATE})
}

fn greeting() -> Value {
    json!({"type": "ref/prompt", "name": "greet"})
}

fn server() -> Server {
    Server::empty("addresses", "1.0.0").with::<address>().with::<greet>()
}

#[tokio::test]
async fn completions_pass_through_layers() {
    for revision in Revision::ALL {
        let events = Events::default();
        let mut client = server().layer(Watch("a", events.clone())).test_client(revision);
        let params = json!({
            "ref": template(),
            "argument": {"name": "street", "value": "main", "context": {"arguments": {"city": "Rome"}}},
            "context": {"arguments": {"city": "Bern"}},
        });
        let result = client.request("completion/complete", params).await.unwrap();
        assert_eq!(result["completion"]["values"], json!(["main street, Bern"]), "{revision}");
        let arguments = r#"{"name":"street","value":"main","context":{"arguments":{"city":"Bern"}}}"#;
        let expected = [format!("a > Completion {TEMPLATE} {arguments}"), "a < address success".to_owned()];
        assert_eq!(events.take(), expected, "{revision}");

        let values = client.complete(greeting(), "tone", "friend").await.unwrap();
        assert_eq!(values, ["friendly", "Unfriendly"], "{revision}");
        let expected = [r#"a > Completion greet {"name":"tone","value":"friend"}"#, "a < greet success"];
        assert_eq!(events.take(), expected, "{revision}");
    }
}

/// Responses are byte-for-byte the same with and without layers.
#[tokio::test]
async fn a_pass_through_layer_does_not_change_completions() {
    for revision in Revision::ALL {
        let mut bare = server().test_client(revision);
        let layer = from_fn(|call: Call, next: Next| async move { next.run(call).await });
        let mut layered = server().layer(layer).test_client(revision);
        for (reference, argument) in [
            (template(), json!({"name": "street", "value": "main"})),
            (template(), json!({"name": "street", "value": ""})),
            (template(), json!({"name": "city", "value": "b"})),
            (template(), json!({"name": "planet", "value": "m"})),
            (template(), json!({"name": "street"})),
            (greeting(), json!({"name": "tone", "value": "F"})),
            (greeting(), json!({"name": "tone", "value": 1})),
            (json!({"type": "ref/prompt", "name": "unknown"}), json!({"name": "tone", "value": ""})),
        ] {
            let params = json!({"ref": reference, "argument": argument});
            let expected = bare.request("completion/complete", params.clone()).await;
            let response = layered.request("completion/complete", params.clone()).await;
            assert_eq!(response, expected, "{params} in {revision}");
        }
    }
}

#[tokio::test]
async fn layers_can_answer_and_reject_completions() {
    let layer = from_fn(|mut call: Call, next: Next| async move {
        if call.kind() != CallKind::Completion {
            return Ok(next.run(call).await);
        }
        match call.argument("value").as_ref().and_then(Value::as_str) {
            Some("cached") => Ok(Outcome::completions(&call, &Completions::new(["from the cache"]))),
            Some("forbidden") => Err(Fault::custom(403, "not for you")),
            Some("rewritten") => {
                let name = call.argument("name").unwrap();
                call.set_arguments(
                    [("name".to_owned(), name), ("value".to_owned(), json!("new"))].into_iter().collect(),
                );
                Ok(next.run(call).await)
            }
            Some("misplaced") => Ok(Outcome::prompt(&call, "a prompt")),
            _ => Ok(next.run(call).await),
        }
    });
    let mut client = server().layer(layer).test_client(Revision::V2025_11_25);
    for (value, expected) in [("cached", "from the cache"), ("rewritten", "new street, ?"), ("old", "old street, ?")] {
        assert_eq!(client.complete(template(), "street", value).await.unwrap(), [expected]);
    }
    for (value, code) in [("forbidden", 403), ("misplaced", -32603), ("", -32603)] {
        let error = client.complete(template(), "street", value).await.unwrap_err();
        assert_eq!(error.code, code, "{value}: {error:?}");
    }
    let error = client.prompt("greet", json!({"tone": "formal"})).await;
    assert!(error.is_ok(), "{error:?}");
}

fn cities(value: &str) -> Vec<String> {
    vec![value.to_owned()]
}

/// A letter.
#[resource("letters://{city}", complete(city = cities))]
fn letter(ctx: &Context, city: String) -> String {
    format!("{} {city}", ctx.name())
}

#[tokio::test]
async fn a_completion_uses_no_context_because_its_function_does() {
    let events = Events::default();
    let seen = events.clone();
    let layer = from_fn(move |call: Call, next: Next| {
        seen.push(format!("{} {}", call.kind(), call.uses_context()));
        next.run(call)
    });
    let server = Server::empty("letters", "1.0.0").with::<letter>().layer(layer);
    let mut client = server.test_client(Revision::V2025_11_25);
    let reference = json!({"type": "ref/resource", "uri": "letters://{city}"});
    assert_eq!(client.complete(reference, "city", "Bern").await.unwrap(), ["Bern"]);
    client.read("letters://Bern").await.unwrap();
    assert_eq!(events.take(), ["completion false", "resource true"]);
}

#[tokio::test]
async fn completions_are_logged_as_completions() {
    let (log, _guard) = Log::listen();
    let mut client = server().layer(LogCalls::new()).test_client(Revision::V2025_11_25);
    client.complete(greeting(), "tone", "f").await.unwrap();
    let lines = log.take("call finished name");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(r#"name="greet" kind="completion""#), "{lines:?}");
}
