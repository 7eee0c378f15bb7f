//! The fixture as a process, for tests of stdio and of the command line.

use std::time::Duration;

use mcp_runtime::{
    Completions, Context, Elicit, Fault, Server,
    ask::{Answer, ListRoots, SampleRequest},
    layers::{Call, Next, Outcome, from_fn},
    prompt, resource, server, tool,
};

/// Prints to stdout, where only messages are allowed.
#[tool]
#[allow(clippy::print_stdout)]
fn prints() -> &'static str {
    println!("printed by a function");
    "printed"
}

/// Prints ten megabytes to stdout and to stderr, and panics in between.
#[tool]
#[allow(clippy::print_stdout, clippy::print_stderr)]
fn floods() -> &'static str {
    let line = "x".repeat(1 << 10);
    for _ in 0..10 << 10 {
        println!("{line}");
        eprintln!("{line}");
    }
    let panicked = std::panic::catch_unwind(|| panic!("{line}"));
    if panicked.is_err() { "printed" } else { "did not panic" }
}

/// Prints a line that does not end.
#[tool]
#[allow(clippy::print_stdout)]
fn prompts() -> &'static str {
    print!("without a line break");
    "printed"
}

/// Logs an event.
#[tool]
fn logs_sync() {
    tracing::info!("inside");
}

/// Logs an event after it has been pending.
#[tool]
async fn logs_async() {
    tokio::task::yield_now().await;
    tracing::info!("inside");
}

/// Logs an event on another thread.
#[tool(blocking)]
fn logs_blocking() {
    tracing::info!("inside");
}

/// Logs an event in a task.
#[tool(task)]
async fn logs_task() {
    tokio::task::yield_now().await;
    tracing::info!("inside");
}

/// Logs an event on another thread, in a task.
#[tool(task, blocking)]
fn logs_blocking_task() {
    tracing::info!("inside");
}

/// Logs an event in the task that the call becomes.
#[tool(task = "deferred")]
async fn logs_deferred(ctx: &Context) {
    ctx.become_task().await;
    tokio::task::yield_now().await;
    tracing::info!("inside");
}

/// Logs an event when its future is dropped.
#[tool]
async fn logs_dropped() {
    struct Dropped;
    impl Drop for Dropped {
        fn drop(&mut self) {
            tracing::info!("inside");
        }
    }
    let _dropped = Dropped;
    std::future::pending::<()>().await;
}

#[derive(Elicit)]
struct Confirm {
    /// Continue?
    sure: bool,
}

/// Asks, and logs an event when it has the answer.
#[tool]
async fn logs_asking(ctx: &Context) -> Result<(), Fault> {
    if let Answer::Accept(Confirm { sure: true }) = ctx.elicit("confirm", "Continue?").await? {
        tracing::info!("inside");
    }
    Ok(())
}

/// Asks, as a task if the client wants one.
#[tool(task)]
async fn asks_in_task(ctx: &Context) -> Result<(), Fault> {
    ctx.elicit::<Confirm>("confirm", "Continue?").await.map(drop)
}

/// Uses features that the protocol has deprecated.
#[tool]
async fn deprecated(ctx: &Context) -> Result<(), Fault> {
    ctx.ask(SampleRequest::new("Hello").key("sampling")).await?;
    ctx.ask(ListRoots).await.map(drop)
}

/// Logs an event.
#[resource("logs://{part}", complete(part = complete_part))]
fn logs_resource(part: String) -> String {
    tracing::info!("inside");
    part
}

/// Logs an event, in a future.
async fn complete_part(_: &str) -> Completions {
    tokio::task::yield_now().await;
    tracing::info!("inside");
    Completions::default()
}

/// Logs an event.
#[prompt]
fn logs_prompt() -> String {
    tracing::info!("inside");
    "Hello".to_owned()
}

/// A layer that logs an event before and after a call.
async fn log_around(call: Call, next: Next) -> Outcome {
    tracing::info!("around");
    let outcome = next.run(call).await;
    tracing::info!("around");
    outcome
}

/// Blocks its thread forever.
#[tool]
fn hang() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Returns the stdin of a child process that inherits it.
#[tool(blocking)]
#[deprecated = "start it without stdin"]
fn child() -> std::io::Result<String> {
    let output = std::process::Command::new("cat").stdin(std::process::Stdio::inherit()).output()?;
    Ok(format!("{} {:?}", output.status, String::from_utf8_lossy(&output.stdout)))
}

#[server]
#[allow(clippy::print_stdout)]
async fn main(
    server: Server,
    /// The shutdown grace period in milliseconds.
    #[arg(default = 5000, env = "FIXTURE_GRACE", range = 1..)]
    grace: u64,
    /// The greeting to use.
    #[arg(length = 1..)]
    greeting: Option<String>,
    /// Whether to forward the log.
    #[arg(default)]
    forward_log: bool,
    /// Whether a layer wraps every call.
    #[arg(default)]
    layered: bool,
) -> Result<Server, String> {
    println!("printed at startup");
    let server = mcp_tests::configure(server, greeting.as_deref().unwrap_or("Hello"));
    let server = server.shutdown_grace(Duration::from_millis(grace));
    let server = if layered { server.layer(from_fn(log_around)) } else { server };
    Ok(if forward_log { server.forward_log() } else { server })
}
