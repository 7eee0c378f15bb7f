//! Servers that change while they run, and clients that want to know.

mod flood;
mod handle;
mod listen;
mod sessions;
mod visible;

use mcp_runtime::{Context, Handle, Json, Revision, Server, TestClient, prompt, resource, tool};
use mcp_tests::schemas::Official;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

const ID: &str = "io.modelcontextprotocol/subscriptionId";

const HANDSHAKES: [Revision; 4] =
    [Revision::V2024_11_05, Revision::V2025_03_26, Revision::V2025_06_18, Revision::V2025_11_25];

/// Is there from the beginning.
#[tool]
fn stays() -> &'static str {
    "stayed"
}

/// Comes and goes.
#[tool(tags("admin"))]
fn comes() -> &'static str {
    "came"
}

/// Comes and goes, and takes its time.
#[tool]
async fn takes_time(gate: &Semaphore) -> &'static str {
    gate.acquire().await.unwrap().forget();
    "took its time"
}

/// A text.
#[resource("test://fixed")]
fn fixed() -> &'static str {
    "fixed"
}

/// Another text.
#[resource("test://other", tags("admin"))]
fn other() -> &'static str {
    "other"
}

/// One of many.
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

/// Asks.
#[prompt]
fn asks(style: Style) -> String {
    format!("{style:?}")
}

/// Asks for more.
#[prompt(tags("admin"))]
fn asks_more(style: Style) -> String {
    format!("{style:?}")
}

fn empty() -> Server {
    Server::empty("changes", "1.0.0")
}

/// Something of every kind.
fn server() -> Server {
    empty().with::<stays>().with::<fixed>().with::<item>().with::<asks>()
}

fn method(message: &Value) -> &str {
    message["method"].as_str().unwrap_or_default()
}

/// The methods of the notifications that came, without `notifications/`.
fn methods(client: &mut TestClient) -> Vec<String> {
    let notifications = client.notifications();
    notifications.iter().map(|told| method(told).trim_start_matches("notifications/").to_owned()).collect()
}

/// Complains about messages that the official schema of a revision refuses.
fn check(revision: Revision, messages: &[Value]) {
    let Some(mut official) = Official::load(revision) else { return };
    for message in messages {
        assert_eq!(official.problems(message, None), Vec::<String>::new(), "{revision} {message}");
    }
}

/// The names of a list, or the URIs.
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

async fn code(client: &mut TestClient, method: &str, params: Value) -> i64 {
    client.request(method, params).await.map_or_else(|error| error.code, |_| 0)
}

/// Listens, and gives the id and the acknowledged filter.
fn listen(client: &mut TestClient, filter: Value) -> (u64, Value) {
    let id = client.send_request("subscriptions/listen", json!({ "notifications": filter }));
    let told = client.notifications();
    let [acknowledged] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(method(acknowledged), "notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["_meta"][ID], id);
    check(client.revision(), &told);
    (id, acknowledged["params"]["notifications"].clone())
}

/// Has the client be told of every list, as its revision does it.
fn watch_lists(client: &mut TestClient) {
    if client.revision().is_stateless() {
        listen(client, json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}));
    }
}
