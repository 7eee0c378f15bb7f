//! Layers around calls: their order, their access to calls and outcomes, and their isolation.

mod asking;
mod built_in;
mod callers;
mod completion;
mod isolation;
pub(crate) mod log;
mod order;
mod outcomes;

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use mcp_runtime::{
    Context, Fault, Json, Server, ToolResult,
    layers::{Call, Layer, LayerFuture, Next, Outcome, from_fn},
    prompt, resource,
    testing::TestClient,
    tool,
};
use serde_json::Value;

/// Counts how often the functions ran.
#[derive(Debug, Default)]
pub(crate) struct Runs(AtomicUsize);

impl Runs {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn total(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Double a number.
#[tool(read_only)]
fn double(runs: &Runs, #[arg(range = 0..=100)] number: u32) -> u32 {
    runs.count();
    number * 2
}

/// Double a number, later.
#[tool(read_only)]
async fn later(runs: &Runs, number: u32) -> Json<u32> {
    tokio::task::yield_now().await;
    runs.count();
    Json(number * 2)
}

/// Double a number on a blocking thread.
#[tool(blocking, read_only)]
fn aside(runs: &Runs, number: u32) -> String {
    runs.count();
    (number * 2).to_string()
}

/// Fail with an error that contains a secret.
#[tool(read_only)]
fn fails(runs: &Runs) -> Result<(), String> {
    runs.count();
    Err("password=hunter2".to_owned())
}

/// Fail on purpose.
#[tool(read_only)]
fn refuses(runs: &Runs) -> ToolResult {
    runs.count();
    ToolResult::error("not today")
}

/// Fail with a protocol error.
#[tool(read_only)]
async fn faults(runs: &Runs) -> Result<(), Fault> {
    runs.count();
    Err(Fault::custom(7, "out of paper"))
}

/// Panic.
#[tool(read_only, tags("panics"))]
async fn panics() {
    panic!("boom");
}

/// Never complete, with a short timeout.
#[tool(timeout = "20ms")]
async fn not_long(runs: &Runs) {
    struct Dropped<'a>(&'a Runs);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.count();
        }
    }
    let _dropped = Dropped(runs);
    std::future::pending::<()>().await;
}

/// Describe the call.
#[tool(read_only)]
fn whoami(ctx: &Context) -> String {
    format!("{} {}", ctx.request_id(), ctx.name())
}

/// A page.
#[resource("pages://{number}")]
fn page(number: u32) -> Result<String, String> {
    match number {
        0 => Err("password=hunter2".to_owned()),
        _ => Ok(format!("page {number}")),
    }
}

/// A greeting.
#[prompt]
fn greeting(name: String, times: u8) -> String {
    format!("hello {name} {times}")
}

fn server() -> (Arc<Runs>, Server) {
    let runs = Arc::new(Runs::default());
    let server = Server::empty("layers", "1.0.0")
        .with::<double>()
        .with::<later>()
        .with::<aside>()
        .with::<fails>()
        .with::<refuses>()
        .with::<faults>()
        .with::<panics>()
        .with::<not_long>()
        .with::<whoami>()
        .with::<page>()
        .with::<greeting>()
        .with_shared(Arc::clone(&runs));
    (runs, server)
}

/// Calls a tool and returns the text of the result or the protocol error.
async fn text(client: &mut TestClient, name: &str, arguments: Value) -> String {
    match client.call(name, arguments).await {
        Ok(answer) if answer.is_error() => format!("error: {}", answer.text()),
        Ok(answer) => answer.text(),
        Err(error) => format!("{} {}", error.code, error.message),
    }
}

/// Records events in order.
#[derive(Debug, Clone, Default)]
struct Events(Arc<Mutex<Vec<String>>>);

impl Events {
    fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Records the calls that pass through it.
struct Watch(&'static str, Events);

impl Layer for Watch {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        Box::pin(async move {
            let Self(own, events) = self;
            events.push(format!("{own} > {:?} {} {}", call.kind(), call.name(), call.arguments()));
            let name = call.entry().name.to_owned();
            let outcome = next.run(call).await;
            events.push(format!("{own} < {name} {}", outcome.status()));
            outcome
        })
    }
}

/// Responds without running the function.
fn instead(answer: impl Fn(&Call) -> Outcome + Send + Sync + 'static) -> impl Layer {
    from_fn(move |call: Call, _: Next| {
        let outcome = answer(&call);
        async move { outcome }
    })
}
