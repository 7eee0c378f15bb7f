//! The encoding of tasks.

use super::task::{Task, TaskStatus};
use crate::{
    backend::time::whole_millis,
    handler::Encoding,
    jsonrpc::{object_member, write},
    revision::{
        Feature,
        encode::{self, Object},
    },
};

/// The member of `_meta` that names the task of a message.
const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Encodes the result of a call that has become a task.
pub(super) fn created(encoding: &Encoding, task: &Task) -> Vec<u8> {
    if !encoding.has(Feature::TaskExtension) {
        return result(encoding, |result| write_task(result.key("task"), encoding, task));
    }
    let mut out = Vec::new();
    write_members(&mut Object::begin(&mut out), encoding, task);
    encoding.end_result_as(&mut out, "task", None);
    out
}

/// Encodes the result of `tasks/get`. With the extension, it includes the pending inputs and the outcome, which is JSON.
pub(super) fn details(encoding: &Encoding, task: &Task, outcome: Option<&[u8]>) -> Vec<u8> {
    result(encoding, |result| write_detailed_members(result, encoding, task, outcome))
}

/// Encodes `notifications/tasks` for a subscription. `outcome` and `subscription_id` are JSON.
pub(super) fn task_notification(
    encoding: &Encoding,
    task: &Task,
    outcome: Option<&[u8]>,
    subscription_id: &str,
) -> Vec<u8> {
    notification("notifications/tasks", |out| {
        let mut params = Object::begin(out);
        let mut meta = Object::begin(params.key("_meta"));
        meta.raw("io.modelcontextprotocol/subscriptionId", subscription_id.as_bytes());
        meta.end();
        write_detailed_members(&mut params, encoding, task, outcome);
        params.end();
    })
}

/// Encodes `notifications/tasks/status`.
pub(super) fn status_notification(encoding: &Encoding, task: &Task) -> Vec<u8> {
    notification("notifications/tasks/status", |out| write_task(out, encoding, task))
}

fn notification(method: &str, write_params: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut notification = Object::begin(&mut out);
    notification.string("jsonrpc", "2.0");
    notification.string("method", method);
    write_params(notification.key("params"));
    notification.end();
    out
}

/// Encodes the result of `tasks/list`.
pub(super) fn list(encoding: &Encoding, tasks: &[Task], next: Option<&str>) -> Vec<u8> {
    result(encoding, |result| {
        encode::array(result.key("tasks"), tasks, |out, task| write_task(out, encoding, task));
        result.optional("nextCursor", next);
    })
}

fn result(encoding: &Encoding, write_members: impl FnOnce(&mut Object<'_>)) -> Vec<u8> {
    let mut out = Vec::new();
    write_members(&mut Object::begin(&mut out));
    encoding.end_result(&mut out, None);
    out
}

fn write_task(out: &mut Vec<u8>, encoding: &Encoding, task: &Task) {
    let mut object = Object::begin(out);
    write_members(&mut object, encoding, task);
    object.end();
}

fn write_members(object: &mut Object<'_>, encoding: &Encoding, task: &Task) {
    let is_extension = encoding.has(Feature::TaskExtension);
    let state = &task.state;
    object.string("taskId", task.id());
    object.string("status", status(task, is_extension));
    object.optional("statusMessage", state.message.as_deref());
    object.string("createdAt", &task.key.created().to_string());
    object.string("lastUpdatedAt", &state.updated.to_string());
    let (ttl, poll_interval) = if is_extension { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
    write::plain(object.key(ttl), &whole_millis(state.ttl));
    write::plain(object.key(poll_interval), &whole_millis(state.poll_interval));
}

/// Returns the name of a status. Without the extension, a task that returned a tool error has failed.
fn status(task: &Task, is_extension: bool) -> &'static str {
    match task.state.status {
        TaskStatus::Completed if !is_extension && task.state.is_tool_error => TaskStatus::Failed.as_str(),
        status => status.as_str(),
    }
}

fn write_detailed_members(object: &mut Object<'_>, encoding: &Encoding, task: &Task, outcome: Option<&[u8]>) {
    write_members(object, encoding, task);
    if encoding.has(Feature::TaskExtension) {
        if let Some(json) = outcome {
            object.raw(if task.state.status == TaskStatus::Failed { "error" } else { "result" }, json);
        }
        if task.state.status == TaskStatus::InputRequired {
            let mut requests = Object::begin(object.key("inputRequests"));
            for input in task.state.pending_inputs() {
                let mut request = Object::begin(requests.key(&input.key));
                request.string("method", &input.method);
                request.raw("params", input.params.as_bytes());
                request.end();
            }
            requests.end();
        }
    }
}

/// Copies a JSON object and adds its task to the `_meta` of the copy.
pub(super) fn with_related_task(object: &str, id: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + 128);
    let mut copy = Object::begin(&mut out);
    copy.copy_without(object, "_meta");
    let mut meta = Object::begin(copy.key("_meta"));
    meta.copy_without(object_member(object, "_meta").unwrap_or("{}"), RELATED_TASK);
    let mut task = Object::begin(meta.key(RELATED_TASK));
    task.string("taskId", id);
    task.end();
    meta.end();
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
            (r#"{"_meta":[1]}"#, r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"7"}}}"#),
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
