//! A call that runs until the client cancels it, and the number of such calls.

use std::{sync::Arc, time::Duration};

use mcp_runtime::{BackendError, Context, Fault, RecordCondition, Records, tool};
use tokio::{runtime::Handle, time::sleep};

const MINUTE: Duration = Duration::from_secs(60);

/// The group of the records that stand for running calls of `test_cancellation`.
const GROUP: &str = "everything/running";

/// The running calls of `test_cancellation`, in all processes that share the records.
pub(crate) struct Running(pub(crate) Arc<dyn Records>);

impl Running {
    /// Adds a call, which has a record until it is dropped.
    async fn start(&self) -> Result<RunningCall, BackendError> {
        let mut number = 0;
        loop {
            let key = format!("{GROUP}:{number}");
            if self.0.set(&key, RecordCondition::Absent, Vec::new(), MINUTE).await?.is_some() {
                return Ok(RunningCall { records: Arc::clone(&self.0), key });
            }
            number += 1;
        }
    }
}

/// The record of a running call.
struct RunningCall {
    records: Arc<dyn Records>,
    key: String,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let (records, key) = (Arc::clone(&self.records), std::mem::take(&mut self.key));
        // Without a runtime, the process ends, and the record expires.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { records.delete(&key, RecordCondition::Always).await });
        }
    }
}

/// Run for a minute, unless the client cancels the call. A progress notification reports its start.
#[tool(read_only)]
async fn test_cancellation(ctx: &Context, running: &Running) -> Result<&'static str, Fault> {
    let _call = running.start().await?;
    ctx.progress(0, 1, "The call has started");
    sleep(MINUTE).await;
    Ok("The call was not cancelled.")
}

/// Count the running calls of `test_cancellation`.
#[tool(read_only)]
async fn test_running_calls(running: &Running) -> Result<String, Fault> {
    Ok(running.0.count(GROUP).await?.to_string())
}
