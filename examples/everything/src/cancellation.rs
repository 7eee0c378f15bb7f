//! A call that runs until the client cancels it, and the number of such calls.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use mcp_runtime::{Context, tool};
use tokio::time::sleep;

const MINUTE: Duration = Duration::from_secs(60);

/// The number of running calls of `test_cancellation`.
#[derive(Default)]
pub(crate) struct Running(AtomicU64);

/// Counts one call until it is dropped.
struct RunningCall<'a>(&'a Running);

impl<'a> RunningCall<'a> {
    fn start(running: &'a Running) -> Self {
        running.0.fetch_add(1, Ordering::Relaxed);
        Self(running)
    }
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Run for a minute, unless the client cancels the call. A progress notification reports its start.
#[tool(read_only)]
async fn test_cancellation(ctx: &Context, running: &Running) -> &'static str {
    let _call = RunningCall::start(running);
    ctx.progress(0, 1, "The call has started");
    sleep(MINUTE).await;
    "The call was not cancelled."
}

/// Count the running calls of `test_cancellation`.
#[tool(read_only)]
fn test_running_calls(running: &Running) -> String {
    running.0.load(Ordering::Relaxed).to_string()
}
