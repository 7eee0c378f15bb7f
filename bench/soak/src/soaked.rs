//! The served program: a function for each way in which a call can end, and one that reports what is alive.

mod limits;

use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use mcp_runtime::{
    BuiltServer, Context, Elicit, Fault, Handle, HttpOptions, Json, Level, Server,
    ask::SampleRequest,
    http::{self, ListenerOptions},
    resource, schemars, tool,
};
use serde::Serialize;

use crate::limits::MAX_IN_FLIGHT;

#[global_allocator]
static ALLOCATOR: counting::Metered = counting::Metered;

/// The functions that are running.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// A function that is running, until it is dropped.
struct Running;

impl Running {
    fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The objects that are alive in this process.
#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Alive {
    heap_bytes: usize,
    tasks: usize,
    functions: usize,
    sessions: usize,
}

/// The answer of a user.
#[derive(Debug, Elicit)]
struct Confirm {
    sure: bool,
}

/// Report what is alive.
#[tool]
async fn alive(handle: &Handle) -> Json<Alive> {
    Json(Alive {
        heap_bytes: counting::bytes_in_use(),
        tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        functions: RUNNING.load(Ordering::SeqCst),
        sessions: handle.sessions().len(),
    })
}

/// Return the text.
#[tool]
fn echo(text: String) -> String {
    text
}

/// Return a long text.
#[tool]
fn long(#[arg(range = ..=2_000_000)] length: usize) -> String {
    "x".repeat(length)
}

/// Wait.
#[tool]
async fn wait(#[arg(range = ..=60_000)] milliseconds: u64) -> &'static str {
    let _running = Running::begin();
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    "waited"
}

/// Report progress and log, slowly.
#[tool]
async fn reports(ctx: &Context) -> &'static str {
    let _running = Running::begin();
    for done in 0..5 {
        ctx.progress(done, 5, "working");
        ctx.log(Level::Error, "still working");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    "reported"
}

/// Ask the user.
#[tool]
async fn asks(ctx: &Context) -> Result<&'static str, Fault> {
    let _running = Running::begin();
    let answer = ctx.elicit::<Confirm>("sure", "Sure?").await?;
    Ok(if answer.accepted().is_some_and(|confirm| confirm.sure) { "sure" } else { "not sure" })
}

/// Ask the model.
#[tool]
async fn samples(ctx: &Context) -> Result<String, Fault> {
    let _running = Running::begin();
    Ok(ctx.sample(SampleRequest::new("Hello")).await?.text())
}

/// Block a thread.
#[tool(blocking)]
fn blocks() -> &'static str {
    let _running = Running::begin();
    std::thread::sleep(Duration::from_millis(20));
    "blocked"
}

/// Panic.
#[tool]
async fn panics() -> &'static str {
    let _running = Running::begin();
    tokio::task::yield_now().await;
    panic!("on purpose")
}

/// Run as a task where possible.
#[tool(task)]
async fn task() -> &'static str {
    let _running = Running::begin();
    tokio::time::sleep(Duration::from_millis(100)).await;
    "done"
}

/// One of many.
#[resource("soak://{id}")]
fn item(id: u32) -> Option<String> {
    (id < 1000).then(|| format!("item {id}"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The panics are on purpose, and there is no reader of stderr.
    std::panic::set_hook(Box::new(|_| {}));
    let server = Server::new("soaked", "1.0.0");
    let handle = server.handle();
    let server = server
        .timeout(Duration::from_secs(8))
        .ask_timeout(Duration::from_secs(3))
        .task_ttl(Duration::from_secs(5))
        .max_task_ttl(Duration::from_secs(5))
        .shutdown_grace(Duration::from_secs(2));
    let built = server.build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(200)).await;
                handle.resource_updated("soak://1");
            }
        });
        if std::env::args().nth(1).as_deref() != Some("--http") {
            return built.serve_stdio().await;
        }
        serve_http(built).await
    })?;
    Ok(())
}

async fn serve_http(built: BuiltServer) -> io::Result<()> {
    // Short, so that the soak sees the end of everything that it abandons.
    let options = HttpOptions::default()
        .allow_host("localhost")
        .max_in_flight(MAX_IN_FLIGHT)
        .max_sessions(400)
        .session_idle(Duration::from_secs(8))
        .body_timeout(Duration::from_secs(5))
        .keep_alive(Duration::from_secs(2));
    let listener_options = ListenerOptions::default()
        .legacy_sse(true)
        .max_connections(1000)
        .header_timeout(Duration::from_secs(5))
        .write_timeout(Duration::from_secs(5));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    tokio::task::spawn_blocking(move || {
        // The end of stdin stops the server.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(stop);
    });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    let service = built.into_http_service(options).map_err(io::Error::other)?;
    http::serve(listener, service).options(listener_options).with_graceful_shutdown(async { drop(stopped.await) }).await
}
