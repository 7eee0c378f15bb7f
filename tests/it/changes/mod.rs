//! Servers that change at run time, and the notifications that their clients receive.

mod flood;
mod handle;
mod listen;
mod model;
mod sessions;
mod visible;

use mcp_runtime::{Context, Handle, Json, Revision, Server, prompt, resource, testing::TestClient, tool};
use mcp_tests::schemas::Official;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

const ID: &str = "io.modelcontextprotocol/subscriptionId";

/// A tool that is registered from the start.
#[tool]
fn permanent() -> &'static str {
    "permanent result"
}

/// A tool that tests add and remove.
#[tool(tags("admin"))]
fn optional(_level: Option<u8>) -> &'static str {
    "optional result"
}

/// Wait until the test opens the gate.
#[tool]
async fn slow(gate: &Semaphore) -> &'static str {
    gate.acquire().await.unwrap().forget();
    "slow result"
}

/// A fixed resource.
#[resource("test://fixed")]
fn fixed() -> &'static str {
    "fixed"
}

/// A fixed resource that tests disable or hide.
#[resource("test://other", tags("admin"))]
fn other() -> &'static str {
    "other"
}

/// One of many items.
#[resource("test://item/{id}", complete(id = ids))]
fn item(id: u32) -> String {
    id.to_string()
}

fn ids() -> Vec<String> {
    vec!["1".to_owned()]
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
enum Style {
    Plain,
}

/// A prompt.
#[prompt]
fn ask(style: Style) -> String {
    format!("{style:?}")
}

/// A prompt that tests hide.
#[prompt(tags("admin"))]
fn ask_more(style: Style) -> String {
    format!("{style:?}")
}

fn empty() -> Server {
    Server::empty("changes", "1.0.0")
}

/// Returns a server with an entry of every kind.
fn server() -> Server {
    empty().with::<permanent>().with::<fixed>().with::<item>().with::<ask>()
}

fn method(message: &Value) -> &str {
    message["method"].as_str().unwrap_or_default()
}

/// Takes the pending notifications and returns their methods without `notifications/`.
fn methods(client: &mut TestClient) -> Vec<String> {
    let notifications = client.notifications();
    notifications
        .iter()
        .map(|notification| method(notification).trim_start_matches("notifications/").to_owned())
        .collect()
}

/// Validates messages against the official schema of a revision, if it is available.
fn check(revision: Revision, messages: &[Value]) {
    let Some(official) = Official::load(revision) else { return };
    for message in messages {
        assert_eq!(official.problems(message, None), Vec::<String>::new(), "{revision} {message}");
    }
}

/// Requests all pages of a list, and returns the names or URIs.
async fn listed(client: &mut TestClient, method: &str) -> Vec<String> {
    let (member, key) = match method {
        "tools/list" => ("tools", "name"),
        "prompts/list" => ("prompts", "name"),
        "resources/list" => ("resources", "uri"),
        _ => ("resourceTemplates", "uriTemplate"),
    };
    let mut names = Vec::new();
    let mut params = json!({});
    loop {
        let page = client.request(method, params).await.unwrap();
        let items = page[member].as_array().unwrap();
        names.extend(items.iter().map(|item| item[key].as_str().unwrap().to_owned()));
        match &page["nextCursor"] {
            Value::String(cursor) => params = json!({ "cursor": cursor }),
            _ => return names,
        }
    }
}

/// Returns the error code of a request, or 0 if it succeeds.
async fn code(client: &mut TestClient, method: &str, params: Value) -> i64 {
    client.request(method, params).await.map_or_else(|error| error.code, |_| 0)
}

/// Opens a subscription, and returns its id and the acknowledged filter.
fn listen(client: &mut TestClient, filter: Value) -> (u64, Value) {
    let id = client.send_request("subscriptions/listen", json!({ "notifications": filter }));
    let notifications = client.notifications();
    let [acknowledged] = notifications.as_slice() else { panic!("{notifications:?}") };
    assert_eq!(method(acknowledged), "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][ID], id);
    check(client.revision(), &notifications);
    (id, acknowledged["params"]["notifications"].clone())
}

/// Subscribes to all list changes, which sessions receive without a request.
fn watch_lists(client: &mut TestClient) {
    if client.revision().is_stateless() {
        listen(client, json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}));
    }
}
