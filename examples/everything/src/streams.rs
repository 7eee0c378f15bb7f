//! Progress and log messages before the result, and a result that is delivered on another connection.

use std::time::Duration;

use mcp_runtime::{Context, tool};
use tokio::time::sleep;

const STEP: Duration = Duration::from_millis(50);

/// Work in three steps, and tell how far it is.
#[tool(read_only)]
async fn test_tool_with_progress(ctx: &Context) -> &'static str {
    for done in [0, 50, 100] {
        if done > 0 {
            sleep(STEP).await;
        }
        ctx.progress(done, 100, format!("Completed step {done} of 100"));
    }
    "The work is done."
}

/// Work in three steps, and log each.
#[tool(read_only)]
async fn test_tool_with_logging(ctx: &Context) -> &'static str {
    ctx.info("Tool execution started");
    sleep(STEP).await;
    ctx.info("Tool processing data");
    sleep(STEP).await;
    ctx.info("Tool execution completed");
    "The work is done, and logged."
}

/// Log a line, for whoever asked for the log.
#[tool(read_only)]
fn test_logging_tool(ctx: &Context) -> &'static str {
    ctx.info("This is a log message for testing.");
    "A line was logged, if you asked for the log."
}

/// Work for longer than the connection stays open: the client comes back for the result.
#[tool(read_only)]
async fn test_reconnection(ctx: &Context) -> &'static str {
    ctx.close_sse_stream(Duration::from_millis(500));
    sleep(2 * STEP).await;
    "The connection was closed in between, and the result is here all the same."
}
