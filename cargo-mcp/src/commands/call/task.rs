//! Calls that are tasks: the experimental ones of 2025-11-25, and those of the extension of 2026-07-28.

use std::{collections::HashSet, time::Duration};

use rmcp::model::{
    CallToolResult, CancelTaskParams, CancelTaskRequest, ClientRequest, CustomRequest, ErrorCode, ErrorData,
    GetTaskParams, GetTaskRequest, ServerResult, TASKS_EXTENSION_ID, Task, TaskPayload, UpdateTaskParams,
    UpdateTaskRequest,
};
use serde_json::{Map, Value, json};

use crate::{
    failure::Failure,
    session::{RequestOptions, Session},
};

const TASKS: RequestOptions = RequestOptions { tasks: true };
/// How often a server is asked that does not say how often.
const POLL: Duration = Duration::from_secs(1);

/// Whether a server refuses to do something but as a task.
pub(super) fn is_required(error: &ErrorData) -> bool {
    let extensions = error.data.as_ref().and_then(|data| data.pointer("/requiredCapabilities/extensions"));
    error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        && extensions.is_some_and(|extensions| extensions.get(TASKS_EXTENSION_ID).is_some())
}

/// Whether a result is the error of a tool that can only be a task: the TypeScript SDK writes it into the result.
pub(super) fn is_missed(result: &CallToolResult) -> bool {
    let says = |text: &str| text.starts_with("MCP error -32601:") && text.contains("task");
    result.is_error == Some(true)
        && result.content.iter().filter_map(|content| content.as_text()).any(|text| says(&text.text))
}

/// Waits for the end of a task of 2026-07-28, answering what it asks.
pub(super) async fn finished(session: &Session, what: &str, task: Task) -> Result<CallToolResult, Failure> {
    let id = task.task_id.clone();
    tell(session, what, &id);
    let done = followed(session, what, task).await;
    if done.as_ref().is_err_and(Failure::is_ours) {
        let cancel = CancelTaskRequest::new(CancelTaskParams::new(id));
        session.request_and_forget(ClientRequest::CancelTaskRequest(cancel), TASKS).await;
    }
    done
}

async fn followed(session: &Session, what: &str, mut task: Task) -> Result<CallToolResult, Failure> {
    let id = task.task_id.clone();
    let mut answered = HashSet::new();
    loop {
        show(session, &id, task.status_message.as_deref());
        session.pause(interval(task.poll_interval_ms)).await?;
        let request = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(id.clone())));
        let answer = session.request(what, request, TASKS).await?;
        let ServerResult::GetTaskResult(state) = answer.map_err(|error| session.refused(what, error))? else {
            return Err(strange(what));
        };
        task = state.task.task;
        match state.task.payload {
            TaskPayload::Working => {}
            TaskPayload::InputRequired { input_requests } => {
                let open = input_requests.into_iter().filter(|(key, _)| !answered.contains(key)).collect();
                let responses = session.fulfil(what, open).await?;
                if responses.is_empty() {
                    continue;
                }
                answered.extend(responses.keys().cloned());
                let update = UpdateTaskRequest::new(UpdateTaskParams::new(id.clone(), responses));
                let acknowledged = session.request(what, ClientRequest::UpdateTaskRequest(update), TASKS).await?;
                acknowledged.map_err(|error| session.refused(what, error))?;
            }
            TaskPayload::Completed { result } => return parsed(what, Value::Object(result)),
            TaskPayload::Failed { error } => {
                let said = error.get("message").and_then(Value::as_str).unwrap_or("no reason is given");
                return Err(Failure::tool(format_args!("{what} failed: {said}")));
            }
            TaskPayload::Cancelled => return Err(Failure::tool(format_args!("{what}: the server cancelled the task"))),
            _ => return Err(strange(what)),
        }
    }
}

/// Calls a tool as a task of 2025-11-25. The official client has left them behind, so that the messages are put together here.
pub(super) async fn legacy(
    session: &Session,
    what: &str,
    tool: &str,
    arguments: Map<String, Value>,
) -> Result<CallToolResult, Failure> {
    let params = json!({"name": tool, "arguments": arguments, "task": {}});
    let created = custom(session, what, "tools/call", params).await?;
    let Some(task) = created.get("task") else {
        // A server that knows no tasks ignores the wish, and has done it.
        return parsed(what, created);
    };
    let Some(id) = task.get("taskId").and_then(Value::as_str) else { return Err(strange(what)) };
    tell(session, what, id);
    let poll = interval(task.get("pollInterval").and_then(Value::as_u64));
    // The result is waited for from the start, because questions come on its way.
    let done = tokio::select! {
        result = custom(session, what, "tasks/result", json!({"taskId": id})) => result.and_then(|it| parsed(what, it)),
        failure = watched(session, what, id, poll) => Err(failure),
    };
    if done.as_ref().is_err_and(Failure::is_ours) {
        let cancel = CustomRequest::new("tasks/cancel", Some(json!({"taskId": id})));
        session.request_and_forget(ClientRequest::CustomRequest(cancel), RequestOptions::default()).await;
    }
    done
}

/// Asks how a task is, which shows as well that the server lives. Ends only when it cannot be asked.
async fn watched(session: &Session, what: &str, id: &str, poll: Duration) -> Failure {
    loop {
        if let Err(failure) = session.pause(poll).await {
            return failure;
        }
        match custom(session, what, "tasks/get", json!({"taskId": id})).await {
            Ok(state) => show(session, id, state.get("statusMessage").and_then(Value::as_str)),
            Err(failure) => return failure,
        }
    }
}

async fn custom(session: &Session, what: &str, method: &str, params: Value) -> Result<Value, Failure> {
    let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
    let result = session.request(what, request, RequestOptions::default()).await?;
    let result = result.map_err(|error| session.refused(what, error))?;
    serde_json::to_value(result).map_err(|_| strange(what))
}

fn tell(session: &Session, what: &str, id: &str) {
    session.host().console.line(&format!("{what} is a task: {id}"));
}

fn show(session: &Session, id: &str, message: Option<&str>) {
    if let Some(message) = message {
        session.host().console.status(id, message);
    }
}

fn interval(milliseconds: Option<u64>) -> Duration {
    let asked = milliseconds.map_or(POLL, Duration::from_millis);
    asked.clamp(Duration::from_millis(50), Duration::from_secs(30))
}

fn parsed(what: &str, result: Value) -> Result<CallToolResult, Failure> {
    serde_json::from_value(result).map_err(|_| strange(what))
}

fn strange(what: &str) -> Failure {
    Failure::connection(format_args!("{what}: the server's answer is none that a task has"))
}
