//! Spans and measurements: the names of the semantic conventions for MCP, and that each operation is recorded once.

mod operations;
mod recorder;
mod statistics;
mod traces;

use std::{sync::Arc, time::Duration};

use mcp_runtime::{
    Context, Elicit, Fault, HttpOptions, Revision, Server,
    ask::{Answer, Ask as _, Elicitation},
    auth::{Identity, IdentityFromExtensions, Principal, Scopes},
    backend::MemoryBackend,
    function::MethodEntry,
    layers::{Call, Next, Outcome, from_fn},
    prompt, resource,
    telemetry::{Operation, SessionEnd, Stat, Stats, StreamEnd, Telemetry, TraceCarrier, TraceContext, Unsampled},
    testing::{RpcError, TestClient},
    tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::Span;
use tracing_subscriber::{filter::LevelFilter, layer::SubscriberExt};

use self::recorder::{Fields, Recorder, Spans, TRACE};
use crate::layers::log::set_default;

const OTHER_TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Add two numbers.
#[tool]
fn add(a: f64, b: f64) -> f64 {
    a + b
}

/// Add two numbers later.
#[tool]
async fn add_later(a: f64, b: f64) -> f64 {
    tokio::time::sleep(Duration::from_millis(1)).await;
    a + b
}

/// Fail.
#[tool]
fn fails() -> Result<(), &'static str> {
    Err("secret")
}

/// Refuse.
#[tool]
async fn refuses() -> Result<(), Fault> {
    tokio::task::yield_now().await;
    Err(Fault::custom(4003, "the vault opens at nine"))
}

/// Panic.
#[tool]
fn panics() {
    panic!("boo")
}

/// Panic later.
#[tool]
async fn panics_later() {
    tokio::task::yield_now().await;
    panic!("boo")
}

/// Panic on a thread.
#[tool(blocking)]
fn panics_blocking() {
    panic!("boo")
}

/// Take too long.
#[tool(timeout = "5ms")]
async fn slow() {
    std::future::pending().await
}

/// Wait.
#[tool]
async fn waits() {
    std::future::pending().await
}

/// Run as a task.
#[tool(task)]
async fn runs(fails: bool) -> Result<(), &'static str> {
    tokio::task::yield_now().await;
    if fails { Err("secret") } else { Ok(()) }
}

/// Wait as a task.
#[tool(task)]
async fn waits_as_task() {
    std::future::pending().await
}

/// Whether to go on.
#[derive(Elicit)]
struct Sure {
    sure: bool,
}

/// Ask.
#[tool]
async fn asks(ctx: &Context) -> Result<bool, Fault> {
    let answer = ctx.elicit::<Sure>("sure", "Are you sure?").await?;
    Ok(matches!(answer, Answer::Accept(Sure { sure: true })))
}

/// A note.
#[resource("notes://{id}")]
fn note(id: u8) -> Option<String> {
    (id < 10).then(|| "text".to_owned())
}

#[derive(Deserialize, JsonSchema)]
enum Topic {
    Rust,
}

/// Summarize.
#[prompt]
fn summary(topic: Option<Topic>) -> &'static str {
    topic.map_or("", |Topic::Rust| "Rust")
}

async fn search(_: Value, _: Context) -> Result<Value, Fault> {
    Ok(json!({"found": []}))
}

fn server(recorder: &Arc<Recorder>) -> Server {
    let server = Server::empty("measured", "1.0.0")
        .with::<add>()
        .with::<add_later>()
        .with::<fails>()
        .with::<refuses>()
        .with::<panics>()
        .with::<panics_later>()
        .with::<panics_blocking>()
        .with::<slow>()
        .with::<waits>()
        .with::<runs>()
        .with::<waits_as_task>()
        .with::<asks>()
        .with::<note>()
        .with::<summary>()
        .with_entry(MethodEntry::new("com.example/search", json!({"type": "object"}), search))
        .telemetry(Arc::clone(recorder));
    let _ = server.handle();
    server
}

const TRANSPORTS: [&str; 2] = ["pipe", "tcp/http/1.1"];

fn client(server: Server, transport: &str, revision: Revision) -> TestClient {
    if transport == "pipe" {
        return server.test_client(revision);
    }
    let service = server.build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    TestClient::over_http(service, "/", revision)
}
