//! `tasks/get`, `tasks/list`, `tasks/update`, `tasks/cancel`; `tasks/result` is [elsewhere](super::result).

use std::{collections::HashMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{
    Tasks,
    calling::declares_extension,
    encode, failed,
    result::{Awaiting, Questioning},
    runner::{Changed, change, set_status},
    undeclared,
};
use crate::{
    backend::{TaskRecord, TaskStatus},
    engine::{
        connection::Connection,
        dispatch::Request,
        params::{self, Params},
        results,
    },
    error::Fault,
    handler::Encoding,
    jsonrpc::raw,
    revision::Feature,
};

/// One request about a task, as whoever may ask for it.
pub(super) struct Inquiry {
    pub(super) tasks: Arc<Tasks>,
    pub(super) encoding: Arc<Encoding>,
    pub(super) owner: String,
    pub(super) id: String,
}

impl Connection {
    /// Answers a request of `tasks/…`; true if the response was written.
    pub(in crate::engine) fn task_request(
        &self,
        method: &str,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let has = |feature| request.speaker.dialect.has(feature);
        let (in_session, by_extension) = (has(Feature::SessionTasks), has(Feature::TaskExtension));
        let known = match method {
            "tasks/get" | "tasks/cancel" => in_session || by_extension,
            "tasks/list" | "tasks/result" => in_session,
            "tasks/update" => by_extension,
            _ => false,
        };
        if !known {
            return Err(Fault::MethodNotFound(method.to_owned()));
        }
        if by_extension && !declares_extension(request.params) {
            return Err(undeclared());
        }
        self.check_in_flight()?;
        let timeout = self.engine.limits.timeout;
        let answered = match method {
            "tasks/list" => {
                let (tasks, encoding, owner) = self.about_tasks(request)?;
                let after = request.params.cursor()?.map(|cursor| read_cursor(&cursor)).transpose()?;
                let most = self.engine.limits.page;
                let list = async move { list(&tasks, &encoding, &owner, after, most).await };
                self.answer_with(request, "tasks/list", timeout, list, out)
            }
            "tasks/result" => {
                let awaiting = self.awaiting(request)?;
                // As long as the task is there.
                self.answer_with(request, "tasks/result", None, awaiting.result(), out)
            }
            "tasks/update" => {
                let (inquiry, answers) = (self.inquiry(request)?, read_answers(request.params)?);
                self.answer_with(request, "tasks/update", timeout, inquiry.update(answers), out)
            }
            "tasks/cancel" => {
                let inquiry = self.inquiry(request)?;
                self.answer_with(request, "tasks/cancel", timeout, inquiry.cancel(), out)
            }
            _ => {
                let inquiry = self.inquiry(request)?;
                self.answer_with(request, "tasks/get", timeout, inquiry.get(), out)
            }
        };
        Ok(answered)
    }

    fn about_tasks(&self, request: &Request<'_>) -> Result<(Arc<Tasks>, Arc<Encoding>, String), Fault> {
        let encoding = self.engine.encoding(request.speaker.dialect);
        Ok((Arc::clone(&self.engine.tasks), Arc::clone(encoding), self.task_owner(request)?))
    }

    fn inquiry(&self, request: &Request<'_>) -> Result<Inquiry, Fault> {
        let id = request.params.string("taskId")?.into_owned();
        let (tasks, encoding, owner) = self.about_tasks(request)?;
        Ok(Inquiry { tasks, encoding, owner, id })
    }

    fn awaiting(&self, request: &Request<'_>) -> Result<Awaiting, Fault> {
        let inquiry = self.inquiry(request)?;
        let Some(session) = &self.session else { return Err(Fault::MethodNotFound("tasks/result".to_owned())) };
        let questioning = Questioning {
            questions: Arc::clone(&session.questions),
            outbox: Arc::clone(&self.outbox),
            most: self.engine.limits.in_flight,
        };
        Ok(Awaiting { inquiry, questioning })
    }
}

impl Inquiry {
    /// Finds the task, unless it is somebody else's.
    pub(super) async fn task(&self) -> Result<TaskRecord, Fault> {
        let found = self.tasks.store.load(&self.id).await.map_err(|error| failed(&error))?;
        found.filter(|task| task.owner == self.owner).ok_or_else(unknown)
    }

    async fn get(self) -> Result<Vec<u8>, Fault> {
        Ok(encode::details(&self.encoding, &self.task().await?))
    }

    /// Takes answers to open questions; what answers none is left aside.
    async fn update(self, answers: HashMap<String, String>) -> Result<Vec<u8>, Fault> {
        let task = self.task().await?;
        let changed = change(&*self.tasks.store, task, |task| {
            for input in task.inputs.iter_mut().filter(|input| input.answer.is_none()) {
                input.answer = answers.get(&input.key).map(|answer| Ok(answer.clone()));
            }
            set_status(task);
        });
        match changed.await.map_err(|error| failed(&error))? {
            Changed::Done(_) | Changed::Ended(_) => Ok(results::empty(&self.encoding)),
            Changed::Gone => Err(unknown()),
        }
    }

    /// Ends a task, whose function is dropped when its runner hears of it.
    async fn cancel(self) -> Result<Vec<u8>, Fault> {
        let task = self.task().await?;
        let cancelled = change(&*self.tasks.store, task, |task| {
            task.inputs.clear();
            task.status = TaskStatus::Cancelled;
            task.message = Some("the client cancelled the task".to_owned());
        });
        let is_extension = self.encoding.has(Feature::TaskExtension);
        match cancelled.await.map_err(|error| failed(&error))? {
            Changed::Gone => Err(unknown()),
            Changed::Done(_) | Changed::Ended(_) if is_extension => Ok(results::empty(&self.encoding)),
            Changed::Done(task) => Ok(encode::details(&self.encoding, &task)),
            Changed::Ended(_) => Err(Fault::invalid_params("the task has ended, so that it cannot be cancelled")),
        }
    }
}

/// Says that there is no such task, or none of the caller's.
fn unknown() -> Fault {
    Fault::invalid_params("there is no such task, or no longer")
}

async fn list(
    tasks: &Tasks,
    encoding: &Encoding,
    owner: &str,
    after: Option<(u64, String)>,
    most: usize,
) -> Result<Vec<u8>, Fault> {
    let after = after.as_ref().map(|(created, id)| (*created, id.as_str()));
    let mut found = tasks.store.page(owner, after, most.saturating_add(1)).await.map_err(|error| failed(&error))?;
    let has_more = found.len() > most;
    found.truncate(most);
    let next = found.last().filter(|_| has_more).map(cursor_after);
    Ok(encode::list(encoding, &found, next.as_deref()))
}

fn cursor_after(task: &TaskRecord) -> String {
    URL_SAFE_NO_PAD.encode(format!("task:{}:{}", task.created, task.id))
}

fn read_cursor(cursor: &str) -> Result<(u64, String), Fault> {
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let place = decoded.as_deref().and_then(|text| text.strip_prefix("task:")?.split_once(':'));
    let place = place.and_then(|(created, id)| Some((created.parse().ok()?, id.to_owned())));
    place.ok_or_else(|| Fault::InvalidParams(format!("`cursor` is none that this list gave: {cursor:?}")))
}

/// Reads the JSON of each answer, by the key of its question.
fn read_answers(params: &Params<'_>) -> Result<HashMap<String, String>, Fault> {
    let answers = params.input_responses.ok_or_else(|| Fault::invalid_params("`inputResponses` is missing"))?;
    if raw::kind(answers) != raw::Kind::Object {
        return Err(Fault::invalid_params("`inputResponses` must be an object"));
    }
    let answers = raw::members(answers).map(|(key, answer)| (key.into_owned(), answer.to_owned()));
    Ok(answers.collect())
}

/// The error of a call, as it stands in a task's record.
pub(super) fn read_error(json: &str) -> Fault {
    let member = |name| params::member(json, name);
    let message = member("message").and_then(raw::string).map_or_else(String::new, std::borrow::Cow::into_owned);
    Fault::Custom {
        code: member("code").and_then(|code| code.parse().ok()).unwrap_or(-32603),
        message,
        data: member("data").and_then(|data| serde_json::from_str(data).ok()),
    }
}
