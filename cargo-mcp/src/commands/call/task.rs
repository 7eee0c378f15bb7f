//! Calls that run as tasks: the experimental tasks of 2025-11-25, and the tasks of the extension of 2026-07-28.

use std::{collections::HashSet, time::Duration};

use rmcp::model::{
    CallToolResult, CancelTaskParams, CancelTaskRequest, ClientRequest, CustomRequest, ErrorCode, ErrorData,
    GetTaskParams, GetTaskRequest, ServerResult, TASKS_EXTENSION_ID, Task, TaskPayload, UpdateTaskParams,
    UpdateTaskRequest,
};
use serde_json::{Map, Value, json};

use crate::{
    failure::Failure,
    session::{RequestOptions, Session, rejection},
};

const TASKS: RequestOptions = RequestOptions { tasks: true };
/// The default interval for polling a task.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// Returns whether an error means that the call must run as a task.
pub(super) fn is_required(error: &ErrorData) -> bool {
    let extensions = error.data.as_ref().and_then(|data| data.pointer("/requiredCapabilities/extensions"));
    error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        && extensions.is_some_and(|extensions| extensions.get(TASKS_EXTENSION_ID).is_some())
}

/// Returns whether a result means that the call must run as a task: the TypeScript SDK reports this as a tool error.
pub(super) fn is_required_by_result(result: &CallToolResult) -> bool {
    let is_required = |text: &str| text.starts_with("MCP error -32601:") && text.contains("task");
    result.is_error == Some(true)
        && result.content.iter().filter_map(|content| content.as_text()).any(|text| is_required(&text.text))
}

/// Waits for the end of a task of 2026-07-28 and answers its questions.
pub(super) async fn wait_for_result(session: &Session, what: &str, task: Task) -> Result<CallToolResult, Failure> {
    let id = task.task_id.clone();
    announce(session, what, &id);
    let done = poll(session, what, task).await;
    if done.as_ref().is_err_and(Failure::is_local) {
        let cancel = CancelTaskRequest::new(CancelTaskParams::new(id));
        session.request_and_forget(ClientRequest::CancelTaskRequest(cancel), TASKS).await;
    }
    done
}

async fn poll(session: &Session, what: &str, mut task: Task) -> Result<CallToolResult, Failure> {
    let id = task.task_id.clone();
    let mut answered = HashSet::new();
    loop {
        show(session, &id, task.status_message.as_deref());
        session.pause(interval(task.poll_interval_ms)).await?;
        let request = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(id.clone())));
        let answer = session.request(what, request, TASKS).await?;
        let ServerResult::GetTaskResult(state) = answer.map_err(|error| rejection(session, what, error))? else {
            return Err(unexpected(what));
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
                acknowledged.map_err(|error| rejection(session, what, error))?;
            }
            TaskPayload::Completed { result } => return parse_result(what, Value::Object(result)),
            TaskPayload::Failed { error } => {
                let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
                return Err(Failure::tool(format_args!("{what} failed: {message}")));
            }
            TaskPayload::Cancelled => return Err(Failure::tool(format_args!("{what}: the server cancelled the task"))),
            _ => return Err(unexpected(what)),
        }
    }
}

/// Calls a tool as a task of 2025-11-25. The official client no longer supports them, so the messages are built here.
pub(super) async fn legacy(
    session: &Session,
    what: &str,
    tool: &str,
    arguments: Map<String, Value>,
) -> Result<CallToolResult, Failure> {
    let params = json!({"name": tool, "arguments": arguments, "task": {}});
    let created = custom(session, what, "tools/call", params).await?;
    let Some(task) = created.get("task") else {
        // A server without tasks ignores the parameter and returns the result.
        return parse_result(what, created);
    };
    let Some(id) = task.get("taskId").and_then(Value::as_str) else { return Err(unexpected(what)) };
    announce(session, what, id);
    let interval = interval(task.get("pollInterval").and_then(Value::as_u64));
    // The result is requested immediately, because the server sends its questions on the same stream.
    let done = tokio::select! {
        result = custom(session, what, "tasks/result", json!({"taskId": id})) => result.and_then(|it| parse_result(what, it)),
        failure = watch(session, what, id, interval) => Err(failure),
    };
    if done.as_ref().is_err_and(Failure::is_local) {
        let cancel = CustomRequest::new("tasks/cancel", Some(json!({"taskId": id})));
        session.request_and_forget(ClientRequest::CustomRequest(cancel), RequestOptions::default()).await;
    }
    done
}

/// Polls the status of a task, which also detects that the server exited. Returns only if a request fails.
async fn watch(session: &Session, what: &str, id: &str, interval: Duration) -> Failure {
    loop {
        if let Err(failure) = session.pause(interval).await {
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
    let result = result.map_err(|error| rejection(session, what, error))?;
    serde_json::to_value(result).map_err(|_| unexpected(what))
}

fn announce(session: &Session, what: &str, id: &str) {
    session.host().console.line(&format!("{what} runs as task {id}"));
}

fn show(session: &Session, id: &str, message: Option<&str>) {
    if let Some(message) = message {
        session.host().console.status(id, message);
    }
}

fn interval(milliseconds: Option<u64>) -> Duration {
    let requested = milliseconds.map_or(DEFAULT_INTERVAL, Duration::from_millis);
    requested.clamp(Duration::from_millis(50), Duration::from_secs(30))
}

fn parse_result(what: &str, result: Value) -> Result<CallToolResult, Failure> {
    serde_json::from_value(result).map_err(|_| unexpected(what))
}

fn unexpected(what: &str) -> Failure {
    Failure::connection(format_args!("{what}: unexpected response to a task request"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_polls_has_bounds() {
        for (requested, expected) in [
            (None, 1000),
            (Some(0), 50),
            (Some(49), 50),
            (Some(51), 51),
            (Some(29_999), 29_999),
            (Some(30_001), 30_000),
            (Some(u64::MAX), 30_000),
        ] {
            assert_eq!(interval(requested), Duration::from_millis(expected), "{requested:?}");
        }
    }
}
