//! `tasks/result`: waits for a task to finish, and sends its questions to the client in the meantime.

use std::{
    borrow::Cow,
    future::{pending, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use super::{
    encode,
    reader::TaskReader,
    request::TaskRequest,
    store::TaskWaiter,
    task::{Task, TaskInput, TaskStatus, not_found},
};
use crate::{
    engine::{
        outbox::Outbox,
        pending_requests::{PendingRequest, session_ended},
        replicas::InputResponse,
        request::operation::Operation,
        session::Session,
    },
    error::Fault,
    handler::ask::Capability,
    jsonrpc::raw,
};

/// The stream on which the questions of a task are sent.
pub(crate) struct QuestionStream {
    pub(crate) session: Arc<Session>,
    pub(crate) outbox: Arc<Outbox>,
}

impl QuestionStream {
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
        self.session.initialized().await;
    }
}

/// A `tasks/result` request.
pub(crate) struct ResultRequest {
    pub(crate) request: TaskRequest,
    pub(crate) stream: QuestionStream,
}

/// A question that this request has sent to the client.
struct SentQuestion {
    key: String,
    request: PendingRequest,
}

impl ResultRequest {
    /// Returns the result that a plain call would have returned.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the questions that it has sent. The next request that waits for the task sends them
    /// again.
    pub(crate) async fn wait(self) -> Result<Vec<u8>, Fault> {
        let (store, key) = (self.request.tasks.store(), self.request.key()?);
        let mut sent: Vec<SentQuestion> = Vec::new();
        let mut reader = TaskReader::new(Arc::clone(store), key.clone());
        // Created before the task is loaded, so that no change is missed.
        let mut changes = store.watch(key).await;
        loop {
            let task = self.request.load().await?;
            let task =
                if self.stream.can_ask(&task) { reader.claim(task).await? } else { reader.pass_on(task).await? };
            let task = task.ok_or_else(not_found)?;
            if task.state.status.is_final() {
                let outcome = self.request.load_outcome(&task).await?;
                return into_result(&task, outcome.as_deref());
            }
            let may_ask = reader.may_ask(&task);
            sent.retain(|sent| may_ask && task.state.pending_inputs().any(|input| input.key == sent.key));
            for input in task.state.pending_inputs().filter(|input| may_ask && self.stream.can_send(input)) {
                self.send(&task, input, &mut sent)?;
            }
            if let Some((key, response)) = self.next_response(&task, &mut changes, &mut sent).await? {
                sent.retain(|sent| sent.key != key);
                self.respond(task, &key, &response).await?;
            }
        }
    }

    /// Sends a question to the client, unless this request has already sent it.
    fn send(&self, task: &Task, input: &TaskInput, sent: &mut Vec<SentQuestion>) -> Result<(), Fault> {
        if sent.iter().any(|sent| sent.key == input.key) {
            return Ok(());
        }
        let QuestionStream { session, outbox } = &self.stream;
        let related =
            |params: &str| String::from_utf8_lossy(&encode::with_related_task(params, task.id())).into_owned();
        let request = session.pending_requests.send_request(
            Operation::to_client(session, &input.method),
            outbox,
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
        let mut task_changed = pin!(changes.changed(task));
        let mut initialized = pin!(self.stream.next_initialized());
        let event = poll_fn(|cx| {
            for SentQuestion { key, request } in sent.iter_mut() {
                if let Poll::Ready(response) = pin!(&mut request.response).poll(cx) {
                    // The end of the session is not an answer: another session of the owner can still respond.
                    return Poll::Ready(match response {
                        Ok(response) => Ok(Some((key.clone(), response))),
                        Err(_) => Err(session_ended()),
                    });
                }
            }
            if task_changed.as_mut().poll(cx).is_ready() || initialized.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(None));
            }
            Poll::Pending
        });
        event.await
    }

    /// Stores a response in the task, where the runner finds it.
    async fn respond(&self, task: Task, key: &str, response: &InputResponse) -> Result<(), Fault> {
        let updated = self.request.tasks.store().update(task, |state| {
            for input in state.inputs.iter_mut().filter(|input| input.key == key && input.is_pending()) {
                input.response = Some(response.clone());
            }
            state.set_unfinished_status();
        });
        updated.await?;
        Ok(())
    }
}

/// Returns the result of a finished task from the JSON of its outcome.
fn into_result(task: &Task, outcome: Option<&[u8]>) -> Result<Vec<u8>, Fault> {
    let Some(json) = outcome else {
        return Err(Fault::invalid_params("the task was cancelled and has no result"));
    };
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
