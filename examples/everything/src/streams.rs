//! Progress and log messages before the result, and a result that is delivered on a second connection.

use std::time::Duration;

use mcp_runtime::{Context, tool};
use tokio::time::sleep;

const STEP: Duration = Duration::from_millis(50);

/// Work in three steps and report progress.
#[tool(read_only)]
async fn test_tool_with_progress(ctx: &Context) -> &'static str {
    for done in [0, 50, 100] {
        ctx.progress(done, 100, format!("Completed step {done} of 100"));
        // Some clients drop a progress notification that arrives together with the response.
        sleep(STEP).await;
    }
    "The work is done."
}

/// Work in three steps and log each of them.
#[tool(read_only)]
async fn test_tool_with_logging(ctx: &Context) -> &'static str {
    ctx.info("Tool execution started");
    sleep(STEP).await;
    ctx.info("Tool processing data");
    sleep(STEP).await;
    ctx.info("Tool execution completed");
    "The work is done, and logged."
}

/// Log a message, for clients that requested the log.
#[tool(read_only)]
fn test_logging_tool(ctx: &Context) -> &'static str {
    ctx.info("This is a log message for testing.");
    "A message was logged."
}

/// Log a message at each of four levels.
#[tool(read_only)]
fn test_log_levels(ctx: &Context) -> &'static str {
    ctx.debug("debug message");
    ctx.info("info message");
    ctx.warning("warning message");
    ctx.error("error message");
    "Four messages were logged."
}

/// Close the SSE stream before the result is ready: the client reconnects to receive it.
#[tool(read_only)]
async fn test_reconnection(ctx: &Context) -> &'static str {
    ctx.close_sse_stream(Duration::from_millis(500));
    sleep(2 * STEP).await;
    "The stream was closed, and the result was delivered after the client reconnected."
}
