//! A server with a function for each part of the protocol.

use std::{collections::BTreeMap, sync::OnceLock, time::Duration};

use mcp_runtime::{
    BuiltServer, Context, Elicit, Fault, Json, Level, PromptMessage, Server, StateKey, TaskLimits, ask::SampleRequest,
    prompt, resource, schemars, tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A tree.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Tree {
    label: String,
    #[serde(default)]
    children: Vec<Tree>,
}

/// A shape.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Shape {
    Circle { radius: f64 },
    Square { side: u8, label: Option<String> },
}

/// The answer of the user.
#[derive(Debug, Elicit)]
struct Confirm {
    sure: bool,
}

/// Return the text.
#[tool]
fn echo(text: String) -> String {
    text
}

/// Add two numbers.
#[tool]
fn add(#[arg(header = "Left")] a: i64, #[arg(range = -5..=5)] b: f64) -> String {
    (a as f64 + b).to_string()
}

/// Count the nodes of a tree.
#[tool]
fn count(tree: Tree, #[arg(length = ..=3)] shapes: Option<Vec<Shape>>) -> Json<BTreeMap<String, Vec<Shape>>> {
    Json(BTreeMap::from([(tree.label, shapes.unwrap_or_default())]))
}

/// Log the text and the JSON that it contains, report progress, and return the text.
#[tool]
async fn say(ctx: &Context, text: String) -> String {
    ctx.log(Level::Error, &text);
    if let Ok(json) = serde_json::from_str::<&RawValue>(&text) {
        ctx.log(Level::Error, json);
    }
    ctx.progress(1, 2, &text);
    tokio::time::sleep(Duration::from_millis(10)).await;
    ctx.progress(2, 2, &text);
    text
}

/// Ask the user.
#[tool]
async fn confirm(ctx: &Context, what: String) -> Result<String, Fault> {
    let receipt = ctx.once("receipt", async { "receipt".to_owned() }).await?;
    let answer = ctx.elicit::<Confirm>("sure", what).await?;
    Ok(format!("{receipt}: {:?}", answer.accepted().map(|confirm| confirm.sure)))
}

/// Ask the model and for the roots.
#[tool]
async fn consult(ctx: &Context) -> Result<String, Fault> {
    let roots = ctx.roots().await?.len();
    Ok(format!("{roots}: {}", ctx.sample(SampleRequest::new("Hello")).await?.text()))
}

/// Take a while.
#[tool(task, timeout = "1s")]
async fn rest(milliseconds: u16) -> String {
    tokio::time::sleep(Duration::from_millis(milliseconds.into())).await;
    "rested".to_owned()
}

/// A text.
#[resource("fuzz://static")]
fn fixed() -> &'static str {
    "text"
}

/// Text and numbers.
#[resource("fuzz://{name}/{+path}{?limit}", complete(name = names))]
async fn item(name: String, path: String, limit: Option<u8>) -> Option<String> {
    tokio::task::yield_now().await;
    (name != "absent").then(|| format!("{name} {path} {limit:?}"))
}

fn names(prefix: &str) -> Vec<String> {
    ["ada", "eve"].into_iter().filter(|name| name.starts_with(prefix)).map(str::to_owned).collect()
}

/// A conversation.
#[prompt]
fn greet(name: String, #[arg(range = 1..=9)] times: Option<u8>) -> Vec<PromptMessage> {
    vec![PromptMessage::user(format!("{name} {times:?}")), PromptMessage::assistant("Hello")]
}

/// Returns the server. It is built once.
pub fn server() -> BuiltServer {
    static SERVER: OnceLock<BuiltServer> = OnceLock::new();
    SERVER.get_or_init(build).clone()
}

fn build() -> BuiltServer {
    let server = Server::new("fuzz", "1.0.0")
        .page_size(4)
        .max_message_bytes(1 << 16)
        .max_in_flight(8)
        // Shorter than the grace period at the end of the input, so that calls with questions end with a response.
        .ask_timeout(Duration::from_millis(500))
        .state_keys([StateKey::new([7; 32])])
        // Tasks outlive connections. Bounded, so that an input does not depend on many earlier ones.
        .task_ttl(Duration::from_millis(1))
        .max_task_ttl(Duration::from_millis(1))
        .max_tasks(TaskLimits::default());
    let built = server.build().unwrap_or_else(|error| panic!("{error}"));
    built.handle();
    built
}
