//! Calls that an upstream runs as tasks.
//!
//! If the client of this server receives a task as well, it is a task of this server, whose function is the call. The ids of the
//! upstream's tasks leave neither this file nor `follow.rs`, which follows a task until its end.

use std::{borrow::Cow, mem, sync::Arc, time::Duration};

use mcp_runtime::{Context, Revision, function::TaskSupport};
use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{ClientRequest, CustomRequest, GetExtensions as _, InputResponses, RequestMetaObject, ServerResult},
    service::{PeerRequestOptions, RequestHandle},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::transport::{LATE_TASK_TIMEOUT, WaitingCall};

/// The extension of stateless revisions.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The key in the `_meta` of a listed tool that has its `execution`.
const EXECUTION: &str = "io.modelcontextprotocol/execution";
/// The time to live that tasks of 2025-11-25 ask for, as long as that of the server's own tasks.
const TTL: Duration = Duration::from_secs(60 * 60);
/// How long the upstream may take to respond to a request about a task.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// An extension of a request that the upstream may run as a task.
#[derive(Clone)]
struct AcceptsTask;

/// Marks a request that the upstream may run as a task.
pub(crate) fn accept_for(request: &mut ClientRequest) {
    request.extensions_mut().insert(AcceptsTask);
}

pub(crate) fn is_accepted_for(request: &ClientRequest) -> bool {
    request.extensions().get::<AcceptsTask>().is_some()
}

/// Returns whether the client of a call runs it as a task, or accepts that.
pub(crate) async fn are_accepted(ctx: &Context) -> bool {
    if ctx.revision() < Revision::V2026_07_28 {
        return ctx.become_task().await;
    }
    // The call becomes a task when the upstream has made one.
    ctx.client_extension(EXTENSION).is_some()
}

/// Returns a message in which listed tools have their `execution` in `_meta`: `rmcp` drops it, since it is not part of the newest
/// revision.
pub(crate) fn keep_execution(message: &str) -> Cow<'_, str> {
    if !message.contains("\"taskSupport\"") {
        return message.into();
    }
    let Ok(mut changed) = serde_json::from_str::<Value>(message) else { return message.into() };
    let Some(tools) = changed.pointer_mut("/result/tools").and_then(Value::as_array_mut) else { return message.into() };
    for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
        if let Some(execution) = tool.remove("execution")
            && let Some(meta) = tool.entry("_meta").or_insert_with(|| json!({})).as_object_mut()
        {
            meta.insert(EXECUTION.to_owned(), execution);
        }
    }
    changed.to_string().into()
}

/// Returns how the upstream runs a listed tool. `is_extended` is whether it is stateless, and may make a task of every call.
pub(crate) fn support(listed: &Value, is_extended: bool) -> TaskSupport {
    match listed["_meta"][EXECUTION]["taskSupport"].as_str() {
        _ if is_extended => TaskSupport::Deferred,
        Some("required") => TaskSupport::Required,
        // Becomes a task when the upstream has made one.
        Some("optional") => TaskSupport::Deferred,
        _ => TaskSupport::Forbidden,
    }
}

/// Returns the call of a tool as a request for a task of 2025-11-25.
pub(crate) fn requesting(request: ClientRequest) -> ClientRequest {
    let ClientRequest::CallToolRequest(call) = request else { return request };
    let mut params = serde_json::to_value(call.params).unwrap_or_default();
    params["task"] = json!({"ttl": TTL.as_millis() as u64});
    ClientRequest::CustomRequest(CustomRequest::new("tools/call", Some(params)))
}

/// Returns the task that the upstream has made of a call.
pub(crate) fn created(result: &ServerResult) -> Option<Value> {
    match result {
        ServerResult::CreateTaskResult(created) => serde_json::to_value(&created.task).ok(),
        ServerResult::CustomResult(result) => result.0.get("task").filter(|task| task["taskId"].is_string()).cloned(),
        _ => None,
    }
}

/// A task of the upstream, which is cancelled if it is dropped before its end.
pub(crate) struct Task {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) meta: RequestMetaObject,
    pub(crate) id: String,
    pub(crate) has_ended: bool,
}

impl Task {
    /// Sends a request about the task. `call` belongs to a request that may wait as long as the task exists.
    pub(crate) async fn request(
        &self,
        method: &'static str,
        responses: Option<InputResponses>,
        call: Option<&Arc<WaitingCall>>,
    ) -> Result<ServerResult, ServiceError> {
        let mut params = json!({"taskId": self.id});
        if let Some(responses) = responses {
            params["inputResponses"] = serde_json::to_value(responses).unwrap_or_default();
        }
        let (mut request, mut options) = (CustomRequest::new(method, Some(params)), PeerRequestOptions::no_options());
        match call {
            Some(call) => drop(request.extensions_mut().insert(Arc::clone(call))),
            None => options.timeout = Some(REQUEST_TIMEOUT),
        }
        let options = options.with_meta(self.meta.clone());
        let sent = self.peer.send_request_with_option(ClientRequest::CustomRequest(request), options).await?;
        sent.await_response().await
    }
}

/// Waits up to [`LATE_TASK_TIMEOUT`] for the response to a call that was dropped, and cancels the task that it names. Returns `false` if
/// no response has arrived, so that the request itself must be cancelled.
pub(crate) async fn cancel_created(handle: &mut RequestHandle<RoleClient>, meta: RequestMetaObject) -> bool {
    let Ok(response) = timeout(LATE_TASK_TIMEOUT, &mut handle.rx).await else { return false };
    if let Ok(Ok(result)) = response
        && let Some(id) = created(&result).and_then(|task| Some(task["taskId"].as_str()?.to_owned()))
    {
        drop(Task { peer: handle.peer.clone(), meta, id, has_ended: false });
    }
    true
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (peer, meta, id) = (self.peer.clone(), mem::take(&mut self.meta), mem::take(&mut self.id));
        runtime.spawn(async move {
            let task = Self { peer, meta, id, has_ended: true };
            let _ = timeout(Duration::from_secs(5), task.request("tasks/cancel", None, None)).await;
        });
    }
}
