//! The encoding of tasks.

use crate::{
    backend::{TaskOutcome, TaskRecord, TaskStatus, time::whole_millis},
    handler::Encoding,
    jsonrpc::{raw, write},
    revision::{
        Feature,
        encode::{self, Object},
    },
};

/// The member of `_meta` that names the task of a message.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Encodes the result of a call that has become a task.
pub(super) fn created(encoding: &Encoding, task: &TaskRecord) -> Vec<u8> {
    let mut out = Vec::new();
    let mut result = Object::begin(&mut out);
    if encoding.has(Feature::TaskExtension) {
        write_members(&mut result, encoding, task);
        encoding.end_result_as(&mut out, "task", None);
    } else {
        write_task(result.key("task"), encoding, task);
        encoding.end_result(&mut out, None);
    }
    out
}

/// Encodes the result of `tasks/get`. With the extension, it includes the outcome and the pending inputs.
pub(super) fn details(encoding: &Encoding, task: &TaskRecord) -> Vec<u8> {
    let mut out = Vec::new();
    let mut result = Object::begin(&mut out);
    write_detailed_members(&mut result, encoding, task);
    encoding.end_result(&mut out, None);
    out
}

/// Encodes `notifications/tasks` for a subscription. `subscription_id` is JSON.
pub(super) fn task_notification(encoding: &Encoding, task: &TaskRecord, subscription_id: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut notification = Object::begin(&mut out);
    notification.string("jsonrpc", "2.0");
    notification.string("method", "notifications/tasks");
    let mut params = Object::begin(notification.key("params"));
    let mut meta = Object::begin(params.key("_meta"));
    meta.raw("io.modelcontextprotocol/subscriptionId", subscription_id.as_bytes());
    meta.end();
    write_detailed_members(&mut params, encoding, task);
    params.end();
    notification.end();
    out
}

/// Encodes `notifications/tasks/status`.
pub(super) fn status_notification(encoding: &Encoding, task: &TaskRecord) -> Vec<u8> {
    let mut out = Vec::new();
    let mut notification = Object::begin(&mut out);
    notification.string("jsonrpc", "2.0");
    notification.string("method", "notifications/tasks/status");
    write_task(notification.key("params"), encoding, task);
    notification.end();
    out
}

/// Encodes the result of `tasks/list`.
pub(super) fn list(encoding: &Encoding, tasks: &[TaskRecord], next: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut result = Object::begin(&mut out);
    encode::array(result.key("tasks"), tasks, |out, task| write_task(out, encoding, task));
    result.optional("nextCursor", next);
    encoding.end_result(&mut out, None);
    out
}

fn write_task(out: &mut Vec<u8>, encoding: &Encoding, task: &TaskRecord) {
    let mut object = Object::begin(out);
    write_members(&mut object, encoding, task);
    object.end();
}

fn write_members(object: &mut Object<'_>, encoding: &Encoding, task: &TaskRecord) {
    let is_extension = encoding.has(Feature::TaskExtension);
    object.string("taskId", &task.id);
    object.string("status", status(task, is_extension));
    object.optional("statusMessage", task.message.as_deref());
    object.string("createdAt", &task.created.to_string());
    object.string("lastUpdatedAt", &task.updated.to_string());
    let (ttl, poll_interval) = if is_extension { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
    write::plain(object.key(ttl), &whole_millis(task.ttl));
    write::plain(object.key(poll_interval), &whole_millis(task.poll_interval));
}

/// Returns the part of a task's id that the log contains. The whole id would give its readers access to the task.
pub(super) fn log_id(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// Returns the name of a status. Without the extension, a task that returned a tool error has failed.
fn status(task: &TaskRecord, is_extension: bool) -> &'static str {
    match task.status {
        TaskStatus::Completed if !is_extension && is_tool_error(task) => TaskStatus::Failed.as_str(),
        status => status.as_str(),
    }
}

fn is_tool_error(task: &TaskRecord) -> bool {
    match &task.outcome {
        Some(TaskOutcome::Result(json)) => raw::members(json).any(|(name, value)| name == "isError" && value == "true"),
        Some(TaskOutcome::Error(_)) | None => false,
    }
}

fn write_detailed_members(object: &mut Object<'_>, encoding: &Encoding, task: &TaskRecord) {
    write_members(object, encoding, task);
    if encoding.has(Feature::TaskExtension) {
        write_outcome(object, task);
        if task.status == TaskStatus::InputRequired {
            write_inputs(object, task);
        }
    }
}

fn write_outcome(object: &mut Object<'_>, task: &TaskRecord) {
    match &task.outcome {
        Some(TaskOutcome::Result(json)) => object.raw("result", json.as_bytes()),
        Some(TaskOutcome::Error(json)) => object.raw("error", json.as_bytes()),
        None => {}
    }
}

fn write_inputs(object: &mut Object<'_>, task: &TaskRecord) {
    let mut requests = Object::begin(object.key("inputRequests"));
    for input in task.inputs.iter().filter(|input| input.is_pending()) {
        let mut request = Object::begin(requests.key(&input.key));
        request.string("method", &input.method);
        request.raw("params", input.params.as_bytes());
        request.end();
    }
    requests.end();
}

/// Copies a JSON object and adds its task to the `_meta` of the copy.
pub(super) fn with_related_task(object: &str, id: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + 128);
    let mut copy = Object::begin(&mut out);
    let mut meta = None;
    for (name, value) in raw::members(object) {
        match &*name {
            "_meta" => meta = Some(value),
            _ => copy.raw(&name, value.as_bytes()),
        }
    }
    let mut new_meta = Object::begin(copy.key("_meta"));
    let meta = meta.filter(|meta| raw::kind(meta) == raw::Kind::Object);
    for (name, value) in meta.into_iter().flat_map(raw::members).filter(|(name, _)| name != RELATED_TASK) {
        new_meta.raw(&name, value.as_bytes());
    }
    let mut task = Object::begin(new_meta.key(RELATED_TASK));
    task.string("taskId", id);
    task.end();
    new_meta.end();
    copy.end();
    out
}

#[cfg(test)]
mod tests {
    use super::with_related_task;

    #[test]
    fn adding_the_related_task_keeps_all_other_members() {
        for (object, expected) in [
            ("{}", r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"7"}}}"#),
            (r#"{"a":[1]}"#, r#"{"a":[1],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"7"}}}"#),
            (
                r#"{"_meta":{"b":{},"io.modelcontextprotocol/related-task":1},"a":1}"#,
                r#"{"a":1,"_meta":{"b":{},"io.modelcontextprotocol/related-task":{"taskId":"7"}}}"#,
            ),
        ] {
            assert_eq!(String::from_utf8(with_related_task(object, "7")).unwrap(), expected);
        }
    }
}
