//! How tasks are written.

use super::extension::RELATED;
use crate::{
    backend::{TaskOutcome, TaskRecord, TaskStatus, time::timestamp},
    handler::Encoding,
    jsonrpc::{raw, write},
    revision::{
        Feature,
        encode::{self, Object},
    },
};

/// Writes the result of a call that has become a task.
pub(super) fn created(encoding: &Encoding, task: &TaskRecord) -> Vec<u8> {
    let mut out = Vec::new();
    let mut result = Object::begin(&mut out);
    if encoding.has(Feature::TaskExtension) {
        members(&mut result, encoding, task);
        encoding.end_result_as(&mut out, "task", None);
    } else {
        write_task(result.key("task"), encoding, task);
        encoding.end_result(&mut out, None);
    }
    out
}

/// Writes the result of `tasks/get`: with the extension, everything that there is to know of the task.
pub(super) fn details(encoding: &Encoding, task: &TaskRecord) -> Vec<u8> {
    let mut out = Vec::new();
    let mut result = Object::begin(&mut out);
    everything(&mut result, encoding, task);
    encoding.end_result(&mut out, None);
    out
}

/// Writes `notifications/tasks`, for whoever listens under the JSON of an id.
pub(super) fn told(encoding: &Encoding, task: &TaskRecord, id: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut notification = Object::begin(&mut out);
    notification.string("jsonrpc", "2.0");
    notification.string("method", "notifications/tasks");
    let mut params = Object::begin(notification.key("params"));
    let mut meta = Object::begin(params.key("_meta"));
    meta.raw("io.modelcontextprotocol/subscriptionId", id.as_bytes());
    meta.end();
    everything(&mut params, encoding, task);
    params.end();
    notification.end();
    out
}

fn everything(object: &mut Object<'_>, encoding: &Encoding, task: &TaskRecord) {
    members(object, encoding, task);
    if encoding.has(Feature::TaskExtension) {
        more(object, task);
    }
}

/// Writes the result of `tasks/list`.
pub(super) fn list(encoding: &Encoding, tasks: &[TaskRecord], next: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut result = Object::begin(&mut out);
    encode::array(result.key("tasks"), tasks, |out, task| write_task(out, encoding, task));
    result.optional("nextCursor", next);
    encoding.end_result(&mut out, None);
    out
}

/// Writes a task as an object of its own.
pub(super) fn write_task(out: &mut Vec<u8>, encoding: &Encoding, task: &TaskRecord) {
    let mut object = Object::begin(out);
    members(&mut object, encoding, task);
    object.end();
}

fn members(object: &mut Object<'_>, encoding: &Encoding, task: &TaskRecord) {
    let is_extension = encoding.has(Feature::TaskExtension);
    object.string("taskId", &task.id);
    object.string("status", status(task, is_extension));
    object.optional("statusMessage", task.message.as_deref());
    object.string("createdAt", &timestamp(task.created));
    object.string("lastUpdatedAt", &timestamp(task.updated));
    let (ttl, poll_interval) = if is_extension { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
    write::plain(object.key(ttl), &task.ttl);
    write::plain(object.key(poll_interval), &task.poll_interval);
}

/// Names a status. Without the extension, a tool that says that it failed has failed as a task as well.
fn status(task: &TaskRecord, is_extension: bool) -> &'static str {
    match task.status {
        TaskStatus::Working => "working",
        TaskStatus::InputRequired => "input_required",
        TaskStatus::Completed if !is_extension && is_tool_error(task) => "failed",
        TaskStatus::Completed => "completed",
        TaskStatus::Failed => "failed",
        TaskStatus::Cancelled => "cancelled",
    }
}

fn is_tool_error(task: &TaskRecord) -> bool {
    match &task.outcome {
        Some(TaskOutcome::Returned(json)) => {
            raw::members(json).any(|(name, value)| name == "isError" && value == "true")
        }
        Some(TaskOutcome::Failed(_)) | None => false,
    }
}

/// Writes what the task came to, or what it asks.
fn more(object: &mut Object<'_>, task: &TaskRecord) {
    match &task.outcome {
        Some(TaskOutcome::Returned(json)) => object.raw("result", json.as_bytes()),
        Some(TaskOutcome::Failed(json)) => object.raw("error", json.as_bytes()),
        None => {}
    }
    if task.status != TaskStatus::InputRequired {
        return;
    }
    let mut requests = Object::begin(object.key("inputRequests"));
    for input in task.inputs.iter().filter(|input| input.answer.is_none()) {
        let mut request = Object::begin(requests.key(&input.key));
        request.string("method", &input.method);
        request.raw("params", input.params.as_bytes());
        request.end();
    }
    requests.end();
}

/// Writes an object anew, with the task that it belongs to in its `_meta`.
pub(super) fn related(object: &str, id: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + 128);
    let mut whole = Object::begin(&mut out);
    let mut meta = None;
    for (name, value) in raw::members(object) {
        match &*name {
            "_meta" => meta = Some(value),
            _ => whole.raw(&name, value.as_bytes()),
        }
    }
    let mut related = Object::begin(whole.key("_meta"));
    let meta = meta.filter(|meta| raw::kind(meta) == raw::Kind::Object);
    for (name, value) in meta.into_iter().flat_map(raw::members).filter(|(name, _)| name != RELATED) {
        related.raw(&name, value.as_bytes());
    }
    let mut task = Object::begin(related.key(RELATED));
    task.string("taskId", id);
    task.end();
    related.end();
    whole.end();
    out
}

#[cfg(test)]
mod tests {
    use super::related;

    #[test]
    fn an_object_keeps_what_it_has_beside_the_task() {
        for (object, expected) in [
            ("{}", r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"7"}}}"#),
            (r#"{"a":[1]}"#, r#"{"a":[1],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"7"}}}"#),
            (
                r#"{"_meta":{"b":{},"io.modelcontextprotocol/related-task":1},"a":1}"#,
                r#"{"a":1,"_meta":{"b":{},"io.modelcontextprotocol/related-task":{"taskId":"7"}}}"#,
            ),
        ] {
            assert_eq!(String::from_utf8(related(object, "7")).unwrap(), expected);
        }
    }
}
