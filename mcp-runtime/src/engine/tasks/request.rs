//! Requests about one task: `tasks/get`, `tasks/update`, `tasks/cancel`, and `tasks/result`, which waits for the task to
//! finish and sends its questions to the client in the meantime.

use std::{
    borrow::Cow,
    collections::HashMap,
    future::{pending, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use tokio::runtime::Handle;

use super::{
    encode,
    records::TaskWaiter,
    service::Tasks,
    store::{TaskStore, Updated},
    task::{Task, TaskError, TaskInput, TaskKey, TaskState, TaskStatus, not_found},
};
use crate::{
    backend::Backoff,
    engine::{
        call::response,
        outbox::Outbox,
        pending_requests::{PendingRequest, session_ended},
        replicas::InputResponse,
        request::{operation::Operation, params::Params, source::SenderAccess},
        session::Session,
    },
    error::Fault,
    handler::{Encoding, ask::Capability},
    jsonrpc::raw,
    random::log_id,
    revision::Feature,
    stdx::race,
};

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
        let task = self.tasks.store.load(self.key()?).await?.ok_or_else(not_found)?;
        self.access.check(&task.state.scopes)?;
        Ok(task)
    }

    /// Loads the JSON of the outcome of a finished task.
    ///
    /// # Errors
    ///
    /// Fails if the outcome has expired together with its task, or if the backend fails.
    pub(super) async fn load_outcome(&self, task: &Task) -> Result<Option<Arc<[u8]>>, Fault> {
        let outcome = self.tasks.store.outcome(task).await?;
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
        let response = |key: &str| responses.get(key).cloned().map(InputResponse::Result);
        let updated = self.tasks.store.update(task, |state| state.respond(response));
        updated.await?.task().map(|_| response::empty_result(&self.encoding)).ok_or_else(not_found)
    }

    /// Cancels the task. Its runner notices the change and drops the function.
    pub(crate) async fn cancel(self) -> Result<Vec<u8>, Fault> {
        let task = self.load().await?;
        let updated = self.tasks.store.update(task, |state| {
            state.inputs.clear();
            state.status = TaskStatus::Cancelled;
            state.message = Some("the client cancelled the task".to_owned());
        });
        let is_extension = self.encoding.has(Feature::TaskExtension);
        match updated.await? {
            Updated::Expired => Err(not_found()),
            Updated::Applied(_) | Updated::Finished(_) if is_extension => Ok(response::empty_result(&self.encoding)),
            Updated::Applied(task) => Ok(encode::details(&self.encoding, &task, None)),
            Updated::Finished(_) => Err(Fault::invalid_params("the task has already finished and cannot be cancelled")),
        }
    }
}

/// Decodes `inputResponses`: the response to each question, as JSON, by key.
pub(crate) fn decode_responses(params: &Params<'_>) -> Result<HashMap<String, String>, Fault> {
    let responses = params.input_responses.ok_or_else(|| Fault::invalid_params("`inputResponses` is missing"))?;
    if !responses.is_object() {
        return Err(Fault::invalid_params("`inputResponses` must be an object"));
    }
    Ok(raw::members(responses.text()).map(|(key, response)| (key.into_owned(), response.to_owned())).collect())
}

/// A `tasks/result` request.
pub(crate) struct ResultRequest {
    pub(crate) request: TaskRequest,
    pub(crate) session: Arc<Session>,
    /// The stream on which the questions of the task are sent.
    pub(crate) outbox: Arc<Outbox>,
}

/// A question that a `tasks/result` request has sent to the client.
struct SentQuestion {
    key: String,
    request: PendingRequest,
}

impl ResultRequest {
    /// Returns whether questions of a task can be sent: to an initialized client that has declared what one of the
    /// pending questions requires or, if none is pending, what any question requires.
    fn can_ask(&self, task: &Task) -> bool {
        let mut pending = task.state.pending_inputs().peekable();
        let can_answer = match pending.peek() {
            Some(_) => pending.any(|input| self.can_send(input)),
            None => Capability::any_is_declared_in(&self.session.info.capabilities),
        };
        self.session.is_initialized() && can_answer
    }

    /// Returns whether the client has declared the capabilities that a question requires.
    fn can_send(&self, input: &TaskInput) -> bool {
        input.capabilities.iter().all(|capability| capability.is_declared_in(&self.session.info.capabilities))
    }

    /// Completes when the client becomes initialized. Never completes if it already is.
    async fn next_initialized(&self) {
        if self.session.is_initialized() {
            return pending().await;
        }
        self.session.initialized.wait().await;
    }

    /// Returns the result that a plain call would have returned.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the questions that it has sent. The next request that waits for the task sends them
    /// again.
    pub(crate) async fn wait(self) -> Result<Vec<u8>, Fault> {
        let (store, key) = (&self.request.tasks.store, self.request.key()?);
        let mut sent: Vec<SentQuestion> = Vec::new();
        let mut reader = TaskReader::new(Arc::clone(store), key.clone());
        // Created before the task is loaded, so that no change is missed.
        let mut changes = store.watch(key).await;
        loop {
            let task = self.request.load().await?;
            let task = if self.can_ask(&task) { reader.claim(task).await? } else { reader.pass_on(task).await? };
            let task = task.ok_or_else(not_found)?;
            if task.state.status.is_final() {
                let outcome = self.request.load_outcome(&task).await?;
                return into_result(&task, outcome.as_deref());
            }
            let may_ask = reader.may_ask(&task);
            sent.retain(|sent| may_ask && task.state.pending_inputs().any(|input| input.key == sent.key));
            for input in task.state.pending_inputs().filter(|input| may_ask && self.can_send(input)) {
                self.send(&task, input, &mut sent)?;
            }
            if let Some((key, response)) = self.next_response(&task, &mut changes, &mut sent).await? {
                sent.retain(|sent| sent.key != key);
                // The runner finds the response in the task.
                let respond = |state: &mut TaskState| state.respond(|it| (it == key).then(|| response.clone()));
                store.update(task, respond).await?;
            }
        }
    }

    /// Sends a question to the client, unless this request has already sent it.
    fn send(&self, task: &Task, input: &TaskInput, sent: &mut Vec<SentQuestion>) -> Result<(), Fault> {
        if sent.iter().any(|sent| sent.key == input.key) {
            return Ok(());
        }
        let related =
            |params: &str| String::from_utf8_lossy(&encode::with_related_task(params, task.id())).into_owned();
        let request = self.session.pending_requests.send_request(
            Operation::to_client(&self.session, &input.method),
            &self.outbox,
            (&input.method, &related(&input.params)),
            false,
        )?;
        request.map_cancelled_params(related);
        sent.push(SentQuestion { key: input.key.clone(), request });
        Ok(())
    }

    /// Waits for the response to a question. Returns `None` if the task has to be loaded again.
    async fn next_response(
        &self,
        task: &Task,
        changes: &mut TaskWaiter,
        sent: &mut [SentQuestion],
    ) -> Result<Option<(String, InputResponse)>, Fault> {
        let mut must_load = pin!(race(changes.changed(task), self.next_initialized()));
        let event = poll_fn(|cx| {
            for SentQuestion { key, request } in sent.iter_mut() {
                if let Poll::Ready(response) = pin!(&mut request.response).poll(cx) {
                    // The end of the session is not an answer: another session of the owner can still respond.
                    let response = response.map_err(|_| session_ended());
                    return Poll::Ready(response.map(|response| Some((key.clone(), response))));
                }
            }
            must_load.as_mut().poll(cx).map(|_| Ok(None))
        });
        event.await
    }
}

/// Returns the result of a finished task from the JSON of its outcome.
fn into_result(task: &Task, outcome: Option<&[u8]>) -> Result<Vec<u8>, Fault> {
    let json = outcome.ok_or_else(|| Fault::invalid_params("the task was cancelled and has no result"))?;
    let json = std::str::from_utf8(json).map_err(|_| Fault::internal("the result of the task is damaged"))?;
    if task.state.status == TaskStatus::Failed {
        return Err(decode_error(json));
    }
    Ok(encode::with_related_task(json, task.id()))
}

/// Decodes the error object of a call.
fn decode_error(json: &str) -> Fault {
    let member = |name| raw::member(json, name);
    let message = member("message").and_then(raw::string).map_or_else(String::new, Cow::into_owned);
    match member("code").and_then(|code| code.parse().ok()) {
        Some(code) => {
            Fault::Custom { code, message, data: member("data").and_then(|data| serde_json::from_str(data).ok()) }
        }
        // Another process has stored something other than an error object.
        None => Fault::Internal(message),
    }
}

/// A `tasks/result` request that can send the questions of its task.
///
/// If several requests wait for a task, the newest request sends the questions, because the stream of an older request
/// may be lost. The record of the task names that request, so requests in other processes respect it. When the request
/// ends, or its process is gone, another request takes over.
pub(super) struct TaskReader {
    store: Arc<TaskStore>,
    key: TaskKey,
    /// `None` until the request has claimed the right.
    id: Option<u64>,
    /// Whether the record may name this request.
    may_hold: bool,
}

impl TaskReader {
    pub(super) fn new(store: Arc<TaskStore>, key: TaskKey) -> Self {
        Self { store, key, id: None, may_hold: false }
    }

    /// Claims the right to send the questions of an unfinished task. The first call takes the right from any other
    /// request. Later calls take it only if no request has it, or if the process of the request that has it is gone.
    /// Returns the latest state of the task, or `None` if the task has expired.
    pub(super) async fn claim(&mut self, task: Task) -> Result<Option<Task>, TaskError> {
        let (id, holder) = (self.id, task.state.reader);
        if task.state.status.is_final() || (id.is_some() && self.is_in_use(holder).await?) {
            return Ok(Some(self.observe(task)));
        }
        let new_id = match id {
            Some(id) => id,
            None => self.store.new_request_id().await?,
        };
        (self.id, self.may_hold) = (Some(new_id), true);
        let must_watch = self.store.must_watch(&task);
        let claimed = self.store.update(task, |state| {
            state.is_watched |= must_watch;
            if id.is_none() || state.reader == holder {
                state.reader = Some(new_id);
            }
        });
        Ok(claimed.await?.task().map(|task| self.observe(task)))
    }

    /// Lets another request send the questions of a task, which this one cannot. Returns the latest state of the task, or
    /// `None` if it has expired.
    pub(super) async fn pass_on(&mut self, task: Task) -> Result<Option<Task>, TaskError> {
        if !self.may_ask(&task) {
            return self.store.begin_watching(task).await;
        }
        let id = self.id;
        let passed_on =
            self.store.update(task, |state| state.reader = state.reader.filter(|reader| Some(*reader) != id));
        Ok(passed_on.await?.task().map(|task| self.observe(task)))
    }

    /// Returns whether this request sends the questions of a task.
    pub(super) fn may_ask(&self, task: &Task) -> bool {
        self.id.is_some() && task.state.reader == self.id
    }

    /// Returns whether a request has the right and can still use it.
    async fn is_in_use(&self, holder: Option<u64>) -> Result<bool, TaskError> {
        match holder {
            Some(holder) if self.id == Some(holder) => Ok(true),
            Some(holder) => Ok(self.store.is_alive(holder).await?),
            None => Ok(false),
        }
    }

    fn observe(&mut self, task: Task) -> Task {
        self.may_hold = !task.state.status.is_final() && self.may_ask(&task);
        task
    }
}

/// Lets another request send the questions.
impl Drop for TaskReader {
    fn drop(&mut self) {
        if let (true, Some(id), Ok(runtime)) = (self.may_hold, self.id, Handle::try_current()) {
            runtime.spawn(release(Arc::clone(&self.store), self.key.clone(), id));
        }
    }
}

async fn release(store: Arc<TaskStore>, key: TaskKey, id: u64) {
    let mut backoff = Backoff::default();
    // The loop ends when the backend responds: a task that has expired by then has no questions.
    while let Err(error) = try_release(&store, &key, id).await {
        tracing::debug!(%error, task = log_id(key.id()), "cannot let another request send the questions of a task");
        backoff.wait().await;
    }
}

async fn try_release(store: &TaskStore, key: &TaskKey, id: u64) -> Result<(), TaskError> {
    let Some(task) = store.read(key).await? else { return Ok(()) };
    store.update(task, |state| state.reader = state.reader.filter(|reader| *reader != id)).await?;
    Ok(())
}
