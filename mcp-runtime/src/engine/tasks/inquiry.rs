//! Requests about a task: `tasks/get`, `tasks/update`, `tasks/cancel` and `tasks/list`.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{
    encode,
    record::{Changed, change, failed, set_status},
    service::Tasks,
};
use crate::{
    backend::{TaskRecord, TaskStatus},
    engine::{
        call::response,
        request::params::{self, Params},
    },
    error::Fault,
    handler::Encoding,
    jsonrpc::raw,
    revision::Feature,
};

/// One request about a task, as whoever may ask for it.
pub(crate) struct Inquiry {
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) encoding: Arc<Encoding>,
    pub(crate) owner: String,
    pub(crate) id: String,
}

impl Inquiry {
    /// Finds the task, unless it is somebody else's.
    pub(crate) async fn task(&self) -> Result<TaskRecord, Fault> {
        let found = self.tasks.store().load(&self.id).await.map_err(|error| failed(&error))?;
        found.filter(|task| task.owner == self.owner).ok_or_else(unknown)
    }

    pub(crate) async fn get(self) -> Result<Vec<u8>, Fault> {
        Ok(encode::details(&self.encoding, &self.task().await?))
    }

    /// Takes answers to open questions; what answers none is left aside.
    pub(crate) async fn update(self, answers: HashMap<String, String>) -> Result<Vec<u8>, Fault> {
        let task = self.task().await?;
        let changed = change(&**self.tasks.store(), task, |task| {
            for input in task.inputs.iter_mut().filter(|input| input.answer.is_none()) {
                input.answer = answers.get(&input.key).map(|answer| Ok(answer.clone()));
            }
            set_status(task);
        });
        match changed.await.map_err(|error| failed(&error))? {
            Changed::Done(_) | Changed::Ended(_) => Ok(response::empty(&self.encoding)),
            Changed::Gone => Err(unknown()),
        }
    }

    /// Ends a task, whose function is dropped when its runner hears of it.
    pub(crate) async fn cancel(self) -> Result<Vec<u8>, Fault> {
        let task = self.task().await?;
        let cancelled = change(&**self.tasks.store(), task, |task| {
            task.inputs.clear();
            task.status = TaskStatus::Cancelled;
            task.message = Some("the client cancelled the task".to_owned());
        });
        let is_extension = self.encoding.has(Feature::TaskExtension);
        match cancelled.await.map_err(|error| failed(&error))? {
            Changed::Gone => Err(unknown()),
            Changed::Done(_) | Changed::Ended(_) if is_extension => Ok(response::empty(&self.encoding)),
            Changed::Done(task) => Ok(encode::details(&self.encoding, &task)),
            Changed::Ended(_) => Err(Fault::invalid_params("the task has ended, so that it cannot be cancelled")),
        }
    }
}

/// Says that there is no such task, or none of the caller's.
fn unknown() -> Fault {
    Fault::invalid_params("there is no such task, or no longer")
}

pub(crate) async fn list(
    tasks: &Tasks,
    encoding: &Encoding,
    owner: &str,
    after: Option<(u64, String)>,
    most: usize,
) -> Result<Vec<u8>, Fault> {
    let after = after.as_ref().map(|(created, id)| (*created, id.as_str()));
    let mut found = tasks.store().page(owner, after, most.saturating_add(1)).await.map_err(|error| failed(&error))?;
    let has_more = found.len() > most;
    found.truncate(most);
    let next = found.last().filter(|_| has_more).map(cursor_after);
    Ok(encode::list(encoding, &found, next.as_deref()))
}

fn cursor_after(task: &TaskRecord) -> String {
    URL_SAFE_NO_PAD.encode(format!("task:{}:{}", task.created, task.id))
}

pub(crate) fn read_cursor(cursor: &str) -> Result<(u64, String), Fault> {
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let place = decoded.as_deref().and_then(|text| text.strip_prefix("task:")?.split_once(':'));
    let place = place.and_then(|(created, id)| Some((created.parse().ok()?, id.to_owned())));
    place.ok_or_else(|| Fault::InvalidParams(format!("`cursor` is none that this list gave: {cursor:?}")))
}

/// Reads the JSON of each answer, by the key of its question.
pub(crate) fn read_answers(params: &Params<'_>) -> Result<HashMap<String, String>, Fault> {
    let answers = params.input_responses.ok_or_else(|| Fault::invalid_params("`inputResponses` is missing"))?;
    if raw::kind(answers) != raw::Kind::Object {
        return Err(Fault::invalid_params("`inputResponses` must be an object"));
    }
    let answers = raw::members(answers).map(|(key, answer)| (key.into_owned(), answer.to_owned()));
    Ok(answers.collect())
}

/// The error of a call, as it stands in a task's record.
pub(crate) fn read_error(json: &str) -> Fault {
    let member = |name| params::member(json, name);
    let message = member("message").and_then(raw::string).map_or_else(String::new, std::borrow::Cow::into_owned);
    Fault::Custom {
        code: member("code").and_then(|code| code.parse().ok()).unwrap_or(-32603),
        message,
        data: member("data").and_then(|data| serde_json::from_str(data).ok()),
    }
}
