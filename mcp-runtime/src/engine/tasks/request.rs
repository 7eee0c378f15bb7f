//! Requests about tasks: `tasks/get`, `tasks/update`, `tasks/cancel` and `tasks/list`; and the options of tasks.

use std::{collections::HashMap, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::json;

use super::{
    encode::{self, not_found},
    key::TaskKey,
    service::Tasks,
    store::Updated,
    task::{Task, TaskStatus},
};
use crate::{
    engine::{
        call::running,
        client_requests::InputResponse,
        request::{access::SenderAccess, params::Params},
    },
    error::Fault,
    excerpt::excerpt,
    handler::Encoding,
    jsonrpc::{RawJson, raw},
    revision::Feature,
};

/// A request about one task.
pub(crate) struct TaskRequest {
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) encoding: Arc<Encoding>,
    /// The task of the owner on whose behalf the request is made. `None` for an id that no task has.
    pub(crate) key: Option<TaskKey>,
    /// The scopes by which it is decided what the sender may read.
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
        match updated.await? {
            Updated::Applied(_) | Updated::Finished(_) => Ok(running::empty_result(&self.encoding)),
            Updated::Expired => Err(not_found()),
        }
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

/// Lists one page of an owner's tasks, without those whose functions require scopes that the sender lacks.
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
pub(crate) fn decode_cursor(cursor: &str, owner: &str) -> Result<TaskKey, Fault> {
    let decoded = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let key = decoded.as_deref().and_then(|text| TaskKey::new(owner, text.strip_prefix("task:")?));
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

/// The options of a server's tasks.
#[derive(Debug, Clone)]
pub(crate) struct TaskOptions {
    /// The time to live of a task whose client requests none.
    pub(crate) default_ttl: Duration,
    /// The maximum time to live that a client can request.
    pub(crate) max_ttl: Duration,
    /// The interval at which clients should poll.
    pub(crate) poll_interval: Duration,
    pub(crate) limits: TaskLimits,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self {
            default_ttl: Duration::from_secs(3600),
            max_ttl: Duration::from_secs(24 * 3600),
            poll_interval: Duration::from_secs(1),
            limits: TaskLimits::default(),
        }
    }
}

/// The maximum numbers of tasks that a server keeps, including finished ones.
///
/// Processes that share a [backend](crate::Server::backend) share the limits.
///
/// ```
/// use mcp_runtime::TaskLimits;
///
/// let limits = TaskLimits::default().total(4096).per_peer(16);
/// assert_eq!(limits.per_peer, 16);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskLimits {
    /// The maximum number of tasks of all clients.
    pub total: usize,
    /// The maximum number of tasks of one principal. Clients without a principal are counted by the network of their
    /// address or, if it is unknown, by their session.
    pub per_peer: usize,
}

impl Default for TaskLimits {
    /// Returns the default limits: 1024 tasks in total and 128 per peer.
    fn default() -> Self {
        Self { total: 1024, per_peer: 128 }
    }
}

impl TaskLimits {
    /// Sets the maximum number of tasks of all clients.
    #[must_use]
    pub fn total(mut self, total: usize) -> Self {
        self.total = total;
        self
    }

    /// Sets the maximum number of tasks of one principal, network or session.
    #[must_use]
    pub fn per_peer(mut self, per_peer: usize) -> Self {
        self.per_peer = per_peer;
        self
    }
}

/// The name of the extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Returns whether the client of a request has declared the extension, so that it accepts tasks it did not request.
pub(crate) fn is_declared(params: &Params<'_>) -> bool {
    let extensions = params.meta.client_capabilities.and_then(|json| json.member("extensions"));
    let tasks = extensions.and_then(|json| json.member(EXTENSION));
    tasks.is_some_and(RawJson::is_object)
}

/// Returns the error for a client that has not declared the extension.
pub(crate) fn undeclared() -> Fault {
    Fault::MissingCapability { required: json!({ "extensions": { EXTENSION: {} } }) }
}
