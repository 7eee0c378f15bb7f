//! Requests about tasks: `tasks/get`, `tasks/update`, `tasks/cancel` and `tasks/list`.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{
    encode,
    errors::{not_found, store_failed},
    service::Tasks,
    update::{Updated, set_status, update},
};
use crate::{
    backend::{InputResponse, TaskCursor, TaskRecord, TaskStatus, Timestamp},
    engine::{
        call::response,
        request::{params::Params, sender_access::SenderAccess},
    },
    error::Fault,
    excerpt::excerpt,
    handler::Encoding,
    jsonrpc::raw,
    revision::Feature,
};

/// A request about one task.
pub(crate) struct TaskRequest {
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) encoding: Arc<Encoding>,
    /// The owner on whose behalf the request is made.
    pub(crate) owner: String,
    /// The scopes by which it is decided what the sender may read.
    pub(crate) access: SenderAccess,
    pub(crate) id: String,
}

impl TaskRequest {
    /// Loads the task.
    ///
    /// # Errors
    ///
    /// Fails if the task does not exist or belongs to another owner, or if the store fails.
    pub(super) async fn load(&self) -> Result<TaskRecord, Fault> {
        let found = self.tasks.store().load(&self.id).await.map_err(|error| store_failed(&error))?;
        found.filter(|task| task.owner == self.owner).ok_or_else(not_found)
    }

    /// Loads the task for a sender that reads its result, answers its questions or cancels it.
    ///
    /// # Errors
    ///
    /// Also fails if the sender lacks scopes that the function of the task requires.
    pub(super) async fn load_to_use(&self) -> Result<TaskRecord, Fault> {
        let task = self.load().await?;
        self.access.check(&task.scopes)?;
        Ok(task)
    }

    /// Returns the state of the task.
    pub(crate) async fn get(self) -> Result<Vec<u8>, Fault> {
        Ok(encode::details(&self.encoding, &self.load_to_use().await?))
    }

    /// Stores responses to pending inputs. Responses under unknown keys are ignored.
    pub(crate) async fn update(self, responses: HashMap<String, String>) -> Result<Vec<u8>, Fault> {
        let task = self.load_to_use().await?;
        let updated = update(&**self.tasks.store(), task, |task| {
            for input in task.inputs.iter_mut().filter(|input| input.is_pending()) {
                input.response = responses.get(&input.key).cloned().map(InputResponse::Result);
            }
            set_status(task);
        });
        match updated.await.map_err(|error| store_failed(&error))? {
            Updated::Applied(_) | Updated::Finished(_) => Ok(response::empty_result(&self.encoding)),
            Updated::Expired => Err(not_found()),
        }
    }

    /// Cancels the task. Its runner notices the change of the record and drops the function.
    pub(crate) async fn cancel(self) -> Result<Vec<u8>, Fault> {
        let task = self.load_to_use().await?;
        let updated = update(&**self.tasks.store(), task, |task| {
            task.inputs.clear();
            task.status = TaskStatus::Cancelled;
            task.message = Some("the client cancelled the task".to_owned());
        });
        let is_extension = self.encoding.has(Feature::TaskExtension);
        match updated.await.map_err(|error| store_failed(&error))? {
            Updated::Expired => Err(not_found()),
            Updated::Applied(_) | Updated::Finished(_) if is_extension => Ok(response::empty_result(&self.encoding)),
            Updated::Applied(task) => Ok(encode::details(&self.encoding, &task)),
            Updated::Finished(_) => Err(Fault::invalid_params("the task has already finished and cannot be cancelled")),
        }
    }
}

/// Lists one page of an owner's tasks, without those whose functions require scopes that the sender lacks.
pub(crate) async fn list(
    tasks: &Tasks,
    encoding: &Encoding,
    (owner, access): (&str, &SenderAccess),
    after: Option<&TaskCursor>,
    page_size: usize,
) -> Result<Vec<u8>, Fault> {
    let page = tasks.store().page(owner, after, page_size.saturating_add(1)).await;
    let mut page = page.map_err(|error| store_failed(&error))?;
    let has_more = page.len() > page_size;
    page.truncate(page_size);
    let next = page.last().filter(|_| has_more).map(|last| encode_cursor(&last.cursor()));
    page.retain(|task| access.grants(&task.scopes));
    Ok(encode::list(encoding, &page, next.as_deref()))
}

fn encode_cursor(cursor: &TaskCursor) -> String {
    URL_SAFE_NO_PAD.encode(format!("task:{}:{}", cursor.created.as_unix_millis(), cursor.id))
}

/// Decodes a cursor that [`list`] returned.
pub(crate) fn decode_cursor(cursor: &str) -> Result<TaskCursor, Fault> {
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let parts = decoded.as_deref().and_then(|text| text.strip_prefix("task:")?.split_once(':'));
    let parsed =
        parts.and_then(|(millis, id)| Some(TaskCursor::new(Timestamp::from_unix_millis(millis.parse().ok()?), id)));
    parsed.ok_or_else(|| Fault::InvalidParams(format!("`cursor` was not returned by this list: {:?}", excerpt(cursor))))
}

/// Decodes `inputResponses`: the response to each question, as JSON, by key.
pub(crate) fn decode_responses(params: &Params<'_>) -> Result<HashMap<String, String>, Fault> {
    let responses = params.input_responses.ok_or_else(|| Fault::invalid_params("`inputResponses` is missing"))?;
    if raw::kind(responses) != raw::Kind::Object {
        return Err(Fault::invalid_params("`inputResponses` must be an object"));
    }
    Ok(raw::members(responses).map(|(key, response)| (key.into_owned(), response.to_owned())).collect())
}
