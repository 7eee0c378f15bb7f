//! Requests about tasks: `tasks/get`, `tasks/update`, `tasks/cancel` and `tasks/list`; and the tasks extension of
//! 2026-07-28 as clients declare it.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;

use super::{
    encode,
    key::TaskKey,
    service::Tasks,
    store::Updated,
    task::{Task, TaskStatus, not_found},
};
use crate::{
    engine::{
        call::running,
        replicas::InputResponse,
        request::{
            params::{Params, TASKS_EXTENSION},
            source::SenderAccess,
        },
    },
    error::Fault,
    excerpt::excerpt,
    handler::Encoding,
    jsonrpc::{RawJson, raw},
    revision::Feature,
};

/// Returns whether the client of a request has declared the extension, so that it accepts tasks it did not request.
pub(crate) fn is_declared(params: &Params<'_>) -> bool {
    let extensions = params.meta.client_capabilities.and_then(|json| json.member("extensions"));
    let tasks = extensions.and_then(|json| json.member(TASKS_EXTENSION));
    tasks.is_some_and(RawJson::is_object)
}

/// Returns the error for a client that has not declared the extension.
pub(crate) fn undeclared() -> Fault {
    Fault::MissingCapability { required: json!({ "extensions": { TASKS_EXTENSION: {} } }) }
}

/// A request about one task.
pub(crate) struct TaskRequest {
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) encoding: Arc<Encoding>,
    /// The task of the owner on whose behalf the request is made. `None` for an id that no task has.
    pub(crate) key: Option<TaskKey>,
    /// The scopes that decide what the sender may read.
    pub(crate) access: SenderAccess,
}

impl TaskRequest {
    /// Returns the key of the task.
    ///
    /// # Errors
    ///
    /// Fails if no task has the id.
    pub(super) fn key(&self) -> Result<&TaskKey, Fault> {
        self.key.as_ref().ok_or_else(not_found)
    }

    /// Loads the task for a sender that reads its result, answers its questions or cancels it.
    ///
    /// # Errors
    ///
    /// Fails if the task does not exist or belongs to another owner, if the sender lacks scopes that the function of
    /// the task requires, or if the backend fails.
    pub(super) async fn load(&self) -> Result<Task, Fault> {
        let task = self.tasks.store().load(self.key()?).await?.ok_or_else(not_found)?;
        self.access.check(&task.state.scopes)?;
        Ok(task)
    }

    /// Loads the JSON of the outcome of a finished task.
    ///
    /// # Errors
    ///
    /// Fails if the outcome has expired together with its task, or if the backend fails.
    pub(super) async fn load_outcome(&self, task: &Task) -> Result<Option<Arc<[u8]>>, Fault> {
        let outcome = self.tasks.store().outcome(task).await?;
        if outcome.is_none() && task.state.outcome.is_some() {
            return Err(not_found());
        }
        Ok(outcome)
    }

    /// Returns the state of the task.
    pub(crate) async fn get(self) -> Result<Vec<u8>, Fault> {
        let task = self.load().await?;
        let outcome = if self.encoding.has(Feature::TaskExtension) { self.load_outcome(&task).await? } else { None };
        Ok(encode::details(&self.encoding, &task, outcome.as_deref()))
    }

    /// Stores responses to pending inputs. Responses under unknown keys are ignored.
    pub(crate) async fn update(self, responses: HashMap<String, String>) -> Result<Vec<u8>, Fault> {
        let task = self.load().await?;
        let updated = self.tasks.store().update(task, |state| {
            for input in state.inputs.iter_mut().filter(|input| input.is_pending()) {
                input.response = responses.get(&input.key).cloned().map(InputResponse::Result);
            }
            state.set_unfinished_status();
        });
        updated.await?.task().map(|_| running::empty_result(&self.encoding)).ok_or_else(not_found)
    }

    /// Cancels the task. Its runner notices the change and drops the function.
    pub(crate) async fn cancel(self) -> Result<Vec<u8>, Fault> {
        let task = self.load().await?;
        let updated = self.tasks.store().update(task, |state| {
            state.inputs.clear();
            state.status = TaskStatus::Cancelled;
            state.message = Some("the client cancelled the task".to_owned());
        });
        let is_extension = self.encoding.has(Feature::TaskExtension);
        match updated.await? {
            Updated::Expired => Err(not_found()),
            Updated::Applied(_) | Updated::Finished(_) if is_extension => Ok(running::empty_result(&self.encoding)),
            Updated::Applied(task) => Ok(encode::details(&self.encoding, &task, None)),
            Updated::Finished(_) => Err(Fault::invalid_params("the task has already finished and cannot be cancelled")),
        }
    }
}

/// Lists one page of an owner's tasks, without the tasks whose functions require scopes that the sender lacks.
pub(crate) async fn list(
    tasks: &Tasks,
    encoding: &Encoding,
    (owner, access): (&str, &SenderAccess),
    after: Option<&TaskKey>,
    page_size: usize,
) -> Result<Vec<u8>, Fault> {
    let mut page = tasks.store().page(owner, after, page_size.saturating_add(1)).await?;
    let has_more = page.len() > page_size;
    page.truncate(page_size);
    let next = page.last().filter(|_| has_more).map(|last| encode_cursor(&last.key));
    page.retain(|task| access.grants(&task.state.scopes));
    Ok(encode::list(encoding, &page, next.as_deref()))
}

fn encode_cursor(last: &TaskKey) -> String {
    URL_SAFE_NO_PAD.encode(format!("task:{}", last.id()))
}

/// Decodes a cursor that [`list`] returned to an owner: the last task of the page.
pub(crate) fn decode_cursor(tasks: &Tasks, cursor: &str, owner: &str) -> Result<TaskKey, Fault> {
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let key = decoded.as_deref().and_then(|text| tasks.store().key(owner, text.strip_prefix("task:")?));
    key.ok_or_else(|| Fault::InvalidParams(format!("`cursor` was not returned by this list: {:?}", excerpt(cursor))))
}

/// Decodes `inputResponses`: the response to each question, as JSON, by key.
pub(crate) fn decode_responses(params: &Params<'_>) -> Result<HashMap<String, String>, Fault> {
    let responses = params.input_responses.ok_or_else(|| Fault::invalid_params("`inputResponses` is missing"))?;
    if !responses.is_object() {
        return Err(Fault::invalid_params("`inputResponses` must be an object"));
    }
    Ok(raw::members(responses.text()).map(|(key, response)| (key.into_owned(), response.to_owned())).collect())
}
