use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    calls::object,
    client::TestClient,
    result::{CallResult, RpcError},
};
use crate::engine::TaskStatus;

/// The time after which a task is polled again for the first time. It grows up to the interval that the server asks for,
/// so that a short task takes no longer in a test.
const FIRST_INTERVAL: Duration = Duration::from_millis(1);
/// The factor by which the time between two polls grows.
const GROWTH: u32 = 4;
/// The extension of tasks, which a client declares.
const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Calls that run as tasks.
impl TestClient {
    /// Calls a tool as a task, in the revisions that have tasks: 2025-11-25 and 2026-07-28.
    ///
    /// ```
    /// use mcp_runtime::{Context, Revision, Server, function::TaskStatus, tool};
    ///
    /// /// Build the index.
    /// #[tool(task)]
    /// async fn index(ctx: &Context) -> &'static str {
    ///     ctx.progress(1, 1, "indexed");
    ///     "done"
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
    ///     let mut client = Server::empty("search", "1.0.0").with::<index>().test_client(revision);
    ///     let task = client.start_task("index", ()).await.unwrap();
    ///     assert_eq!(task.result(&mut client).await.unwrap().text(), "done");
    ///     assert_eq!(task.status(&mut client).await.unwrap(), TaskStatus::Completed);
    /// }
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    ///
    /// # Panics
    ///
    /// Panics if the call did not become a task.
    pub async fn start_task(&mut self, name: &str, arguments: impl Serialize) -> Result<TestTask, RpcError> {
        let mut params = json!({"name": name, "arguments": object(arguments)});
        if !self.revision.is_stateless() {
            params["task"] = json!({});
        }
        let result = self.task_request("tools/call", params).await?;
        Ok(TestTask::read(&result).unwrap_or_else(|| panic!("the call of `{name}` did not become a task: {result}")))
    }

    /// Sends a request about tasks, for which the client declares the extension.
    async fn task_request(&mut self, method: &str, mut params: Value) -> Result<Value, RpcError> {
        if self.revision.is_stateless() {
            let mut capabilities = self.capabilities();
            capabilities["extensions"][EXTENSION] = json!({});
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        }
        self.request(method, params).await
    }
}

/// A call that runs as a task. [`TestClient::start_task`] returns it.
///
/// ```
/// use mcp_runtime::{Revision, Server, function::TaskStatus, tool};
///
/// /// Report the sales of the year.
/// #[tool(task)]
/// async fn report() -> &'static str {
///     "42 pens"
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
///     let mut client = Server::empty("shop", "1.0.0").with::<report>().test_client(revision);
///     let task = client.start_task("report", ()).await.unwrap();
///     assert_eq!(task.result(&mut client).await.unwrap().text(), "42 pens");
///     assert_eq!(task.status(&mut client).await.unwrap(), TaskStatus::Completed);
/// }
/// # });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestTask {
    id: String,
}

impl TestTask {
    /// Reads the result of a call.
    pub(super) fn read(result: &Value) -> Option<Self> {
        let task = result.get("task").unwrap_or(result);
        Some(Self { id: task["taskId"].as_str()?.to_owned() })
    }

    /// Returns the id of the task.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Polls the task and returns its status.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server, for instance if the task has expired.
    pub async fn status(&self, client: &mut TestClient) -> Result<TaskStatus, RpcError> {
        Ok(status(&self.get(client).await?))
    }

    /// Waits for the task to end, and returns the result that a plain call would have returned. If the client
    /// [answers](TestClient::answering) questions, it also answers the questions of the task.
    ///
    /// In 2026-07-28, the client polls the task, at first at once and then less and less often, until the time between two
    /// polls is the [interval](crate::Server::task_poll_interval) that the server asks for.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error with which the call failed, or an error if the task was cancelled or has expired.
    ///
    /// # Panics
    ///
    /// Panics if the task does not end within the time set with [`max_wait`](TestClient::max_wait).
    pub async fn result(&self, client: &mut TestClient) -> Result<CallResult, RpcError> {
        if !client.revision().is_stateless() {
            return client.request("tasks/result", self.params()).await.map(CallResult);
        }
        let began = Instant::now();
        let mut interval = FIRST_INTERVAL;
        loop {
            let mut task = self.get(client).await?;
            match status(&task) {
                TaskStatus::Completed => return Ok(CallResult(task["result"].take())),
                TaskStatus::Failed => return Err(RpcError::read(&mut task["error"])),
                TaskStatus::Cancelled => {
                    let message = "the task was cancelled and has no result".to_owned();
                    return Err(RpcError { code: -32602, message, data: None });
                }
                TaskStatus::InputRequired => self.answer(client, &task["inputRequests"]).await?,
                TaskStatus::Working => {}
            }
            assert!(began.elapsed() < client.wire.max_wait, "the task did not end within {:?}", client.wire.max_wait);
            tokio::time::sleep(interval).await;
            let longest = task["pollIntervalMs"].as_u64().map_or(interval, Duration::from_millis);
            interval = (interval * GROWTH).min(longest);
        }
    }

    /// Cancels the task.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server, for instance if the task has already ended.
    pub async fn cancel(&self, client: &mut TestClient) -> Result<(), RpcError> {
        client.task_request("tasks/cancel", self.params()).await.map(drop)
    }

    async fn get(&self, client: &mut TestClient) -> Result<Value, RpcError> {
        client.task_request("tasks/get", self.params()).await
    }

    async fn answer(&self, client: &mut TestClient, requests: &Value) -> Result<(), RpcError> {
        let Some(responses) = client.input_responses(requests) else { return Ok(()) };
        let params = json!({"taskId": self.id, "inputResponses": responses});
        client.task_request("tasks/update", params).await.map(drop)
    }

    fn params(&self) -> Value {
        json!({"taskId": self.id})
    }
}

/// Returns the status of a task.
fn status(task: &Value) -> TaskStatus {
    let status = &task["status"];
    serde_json::from_value(status.clone()).unwrap_or_else(|_| panic!("unknown task status {status}"))
}
