//! A call that runs until the client cancels it, and the number of such calls.

use std::{sync::Arc, time::Duration};

use mcp_runtime::{
    Context, Fault,
    backend::{Backend, BackendError, RecordCondition, Records as _},
    tool,
};
use tokio::{runtime::Handle, time::sleep};

const MINUTE: Duration = Duration::from_secs(60);

/// The group of the records that stand for running calls of `test_cancellation`, in all processes of the server.
const GROUP: &str = "everything/running";

/// The record of a running call.
struct RunningCall {
    backend: Arc<dyn Backend>,
    key: String,
}

impl RunningCall {
    /// Adds a record, which is deleted when the value is dropped.
    async fn start(backend: &Arc<dyn Backend>) -> Result<Self, BackendError> {
        let mut number = 0;
        loop {
            let key = format!("{GROUP}:{number}");
            if backend.set(&key, RecordCondition::Absent, Vec::new(), MINUTE).await?.is_some() {
                return Ok(Self { backend: Arc::clone(backend), key });
            }
            number += 1;
        }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let (backend, key) = (Arc::clone(&self.backend), std::mem::take(&mut self.key));
        // Without a runtime, the process ends, and the record expires.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { backend.delete(&key, RecordCondition::Always).await });
        }
    }
}

/// Run for a minute, unless the client cancels the call. A progress notification reports its start.
#[tool(read_only)]
async fn test_cancellation(ctx: &Context, backend: &Arc<dyn Backend>) -> Result<&'static str, Fault> {
    let _call = RunningCall::start(backend).await?;
    ctx.progress(0, 1, "The call has started");
    sleep(MINUTE).await;
    Ok("The call was not cancelled.")
}

/// Count the running calls of `test_cancellation`.
#[tool(read_only)]
async fn test_running_calls(backend: &dyn Backend) -> Result<String, Fault> {
    Ok(backend.count(GROUP).await?.to_string())
}
