//! Arguments, fields and members have the order in which they are declared, wherever they are listed.

use mcp_runtime::{__private::encoded_question, Elicit, Json, Revision, Server, ask::Elicitation, prompt, tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Deserialize, Serialize, JsonSchema)]
struct Inner {
    zone: String,
    area: Option<String>,
    month: u8,
}

#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Outer {
    zone: String,
    area: Option<Inner>,
    month: u8,
}

#[derive(Debug, Elicit)]
#[expect(dead_code, reason = "only its schema matters")]
struct Form {
    zone: String,
    area: Option<String>,
    month: u8,
}

#[tool]
fn parameters(zone: String, area: Option<Inner>, month: u8) {
    drop((zone, area, month));
}

#[tool]
fn flattened(#[arg(flatten)] outer: Outer) {
    drop(outer);
}

#[tool]
fn result() -> Json<Inner> {
    Json(Inner { zone: "z".to_owned(), area: None, month: 1 })
}

#[prompt]
fn arguments(zone: String, area: Option<String>, month: u8) -> String {
    format!("{zone}{area:?}{month}")
}

/// Returns the names of an object's members.
fn names(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn declared_order_is_kept() {
    let server =
        Server::empty("order", "1.0.0").with::<parameters>().with::<flattened>().with::<result>().with::<arguments>();
    let mut client = server.test_client(Revision::V2025_11_25);
    let tools = client.tools().await.unwrap();
    let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    let prompts = client.request("prompts/list", json!({})).await.unwrap();
    let arguments: Vec<&Value> =
        prompts["prompts"][0]["arguments"].as_array().unwrap().iter().map(|argument| &argument["name"]).collect();
    let called = client.call("result", &json!({})).await.unwrap();
    let form: Value = serde_json::from_str(
        &encoded_question(&Elicitation::<Form>::new("form", "Fill in."), Revision::V2025_11_25).unwrap(),
    )
    .unwrap();
    for (listed, what) in [
        (&tool("parameters")["inputSchema"]["properties"], "parameters"),
        (&tool("parameters")["inputSchema"]["properties"]["area"]["anyOf"][0]["properties"], "a nested struct"),
        (&tool("flattened")["inputSchema"]["properties"], "a flattened struct"),
        (&tool("flattened")["inputSchema"]["properties"]["area"]["anyOf"][0]["properties"], "its nested struct"),
        (&tool("result")["outputSchema"]["properties"], "an output schema"),
        (called.structured().unwrap(), "a structured result"),
        (&form["params"]["requestedSchema"]["properties"], "a form"),
    ] {
        assert_eq!(names(listed), ["zone", "area", "month"], "{what}");
    }
    assert_eq!(arguments, ["zone", "area", "month"], "a prompt");
}
