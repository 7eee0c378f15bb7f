//! The client of a task, as its function sees it, and the inbox through which the function reaches its runner.

use std::{
    collections::HashMap,
    future::ready,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use tokio::sync::{Notify, SetOnce, oneshot};

use super::{
    encode,
    task::{Task, TaskInput},
};
use crate::{
    engine::{
        client_requests::{LiveRequester, into_result},
        outbox::Outbox,
        pending_requests::session_ended,
        replicas::InputResponse,
        session::Session,
    },
    error::{Fault, beginning},
    handler::{
        AnswerFuture, CallConnection, CallLifetime, CheckAnswer, ClientRequester, Encoding, OnceValues, SessionPeer,
        TaskPeer, ask::Question,
    },
    jsonrpc::raw,
    model::Level,
    revision::encode::Object,
    stdx::{Mutex, OnDrop},
};

/// The client of a task, as its function sees it. Questions and status messages are passed through the inbox to the
/// record; notifications are sent to the session.
pub(crate) struct TaskClient {
    pub(super) inbox: Arc<TaskInbox>,
    /// The capabilities that the client declared, as JSON.
    capabilities: Arc<str>,
    once: OnceValues,
    /// The session in which the task was created. `None` with the extension, which has no sessions.
    session: Option<TaskSession>,
}

/// The session in which a task was created. It receives the notifications of the task for as long as it exists.
pub(crate) struct TaskSession {
    /// The id of the task, which exists before its function runs.
    pub(crate) task_id: OnceLock<String>,
    pub(crate) session: Weak<Session>,
    pub(crate) encoding: Arc<Encoding>,
}

impl TaskClient {
    pub(crate) fn new(capabilities: &str, session: Option<TaskSession>) -> Self {
        Self { inbox: Arc::default(), capabilities: capabilities.into(), once: OnceValues::default(), session }
    }

    /// Sets the id of the task that has been created.
    pub(super) fn set_task_id(&self, id: &str) {
        if let Some(session) = &self.session {
            // A call becomes a task once.
            let _ = session.task_id.set(id.to_owned());
        }
    }

    /// Returns the requester for messages that belong to no request.
    fn session_requester(&self) -> Option<LiveRequester> {
        Some(LiveRequester::of_session(&self.session.as_ref()?.session.upgrade()?))
    }

    /// Returns the outbox of the session that created the task, if both still exist.
    fn outbox(&self) -> Option<Arc<Outbox>> {
        self.session.as_ref()?.session.upgrade().map(|session| Arc::clone(&session.outbox))
    }

    /// Notifies the session of the status of the task.
    pub(super) fn notify_status(&self, task: &Task) {
        if let Some((session, outbox)) = self.session.as_ref().zip(self.outbox()) {
            outbox.notify(&encode::status_notification(&session.encoding, task));
        }
    }
}

impl ClientRequester for TaskClient {
    fn capabilities(&self) -> &str {
        &self.capabilities
    }

    fn ask(&self, question: Question, check: &CheckAnswer<'_>) -> AnswerFuture {
        if let Err(fault) = question.check_capabilities(&self.capabilities) {
            return Box::pin(ready(Err(fault)));
        }
        let session = self.session.as_ref().and_then(|session| session.session.upgrade());
        let known = session.and_then(|session| session.roots.answer(&question));
        if let Some(known) = known.filter(|answer| check(answer).is_ok()) {
            return Box::pin(ready(Ok(known)));
        }
        let (key, response) = match self.inbox.ask(&question) {
            Ok(asked) => asked,
            Err(fault) => return Box::pin(ready(Err(fault))),
        };
        let inbox = Arc::clone(&self.inbox);
        let guard = OnDrop(move || inbox.withdraw(&key));
        Box::pin(async move {
            let response = match question.options.timeout {
                // Returning drops the guard, which withdraws the question.
                Some(timeout) => tokio::time::timeout(timeout, response)
                    .await
                    .map_err(|_| Fault::AnswerTimeout { key: question.key.clone(), timeout })?,
                None => response.await,
            };
            drop(guard);
            match response {
                // Another session of the owner may have answered, so the roots are not cached.
                Ok(response) => into_result(response, question.method),
                Err(_) => Err(Fault::internal("the task ended before its client answered")),
            }
        })
    }

    /// Returns `true` with the extension, where a question stays open until its response is valid. In a session, a
    /// response answers a JSON-RPC request and cannot be repeated.
    fn retries_invalid_answers(&self) -> bool {
        self.session.is_none()
    }

    fn ping(&self) -> AnswerFuture {
        match self.session_requester() {
            Some(requester) => requester.ping(),
            None => Box::pin(ready(Err(session_ended()))),
        }
    }

    fn session(&self) -> Option<Arc<dyn SessionPeer>> {
        Some(Arc::new(self.session_requester()?))
    }

    fn once_values(&self) -> &OnceValues {
        &self.once
    }
}

impl TaskPeer for TaskClient {
    fn set_status(&self, message: &str) {
        self.inbox.set_message(message);
    }
}

/// Sends notifications to the session instead of to the connection of the call, which may be gone. With the extension
/// there is no session, and notifications are discarded.
impl CallConnection for TaskClient {
    fn notify(&self, message: &[u8], call: &CallLifetime) {
        let Some((session, outbox)) = self.session.as_ref().zip(self.outbox()) else { return };
        let Ok(text) = std::str::from_utf8(message) else { return };
        let task_id = session.task_id.get().map(String::as_str).unwrap_or_default();
        let mut out = Vec::with_capacity(message.len() + 128);
        let mut notification = Object::begin(&mut out);
        notification.copy_without(text, "params");
        if let Some(params) = raw::member(text, "params") {
            notification.raw("params", &encode::with_related_task(params, task_id));
        }
        notification.end();
        CallConnection::notify(&*outbox, &out, call);
    }

    fn session_level(&self) -> Level {
        self.outbox().map_or(Level::Info, |outbox| outbox.session_level())
    }

    fn admits_log_message(&self) -> bool {
        self.outbox().is_some_and(|outbox| outbox.admits_log_message())
    }

    fn close_sse_stream(&self, _: Duration) {}
}

/// The maximum size of a status message in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// The maximum number of questions of one task that wait for a response, and their maximum size in bytes. A question
/// beyond either limit fails with [`Fault::Overloaded`].
const MAX_WAITING: usize = 1000;
const MAX_WAITING_BYTES: usize = 1 << 20;

/// The maximum number of questions that one task asks in total, and the maximum size of their keys in bytes. A question
/// beyond either limit fails with [`Fault::Overloaded`].
const MAX_QUESTIONS: usize = 10_000;
const MAX_KEY_BYTES: usize = 1 << 20;

/// The mailbox between the function of a task and its runner.
#[derive(Debug, Default)]
pub(super) struct TaskInbox {
    contents: Mutex<Contents>,
    /// The signal that the function has asked or withdrawn a question.
    pub(super) questions_changed: Notify,
    /// The signal that the function has set the status message.
    pub(super) message_changed: Notify,
    /// Whether the call has become a task, once that is decided.
    is_task: SetOnce<bool>,
}

#[derive(Debug, Default)]
struct Contents {
    keys: UsedKeys,
    /// The questions without a response. At most [`MAX_WAITING`], of [`MAX_WAITING_BYTES`] together.
    waiting: HashMap<String, WaitingQuestion>,
    waiting_bytes: usize,
    update: InboxUpdate,
}

/// A question without a response.
#[derive(Debug)]
struct WaitingQuestion {
    sender: oneshot::Sender<InputResponse>,
    /// The size of the key and the parameters in bytes.
    size: usize,
}

/// The keys of all questions so far, which must not be reused. At most [`MAX_QUESTIONS`], of [`MAX_KEY_BYTES`]
/// together.
#[derive(Debug, Default)]
struct UsedKeys {
    /// For each key, the number that makes the next question with this key unique.
    next_numbers: HashMap<String, u64>,
    bytes: usize,
}

/// The changes that a function has made since its runner last took them. A question that is withdrawn before the runner
/// takes it is not included, so there are at most [`MAX_WAITING`] questions and as many withdrawals.
#[derive(Debug, Default)]
pub(super) struct InboxUpdate {
    pub(super) asked: Vec<TaskInput>,
    /// The keys of the questions that were withdrawn.
    pub(super) withdrawn: Vec<String>,
    pub(super) message: Option<String>,
}

impl TaskInbox {
    /// Records whether the call has become a task.
    pub(super) fn decide(&self, is_task: bool) {
        let _ = self.is_task.set(is_task);
    }

    /// Returns whether the call has become a task.
    pub(super) fn is_task(&self) -> bool {
        self.is_task.get() == Some(&true)
    }

    /// Waits until it is decided whether the call becomes a task.
    pub(super) async fn decided(&self) {
        self.is_task.wait().await;
    }

    /// Takes the changes that were made since this method was last called.
    pub(super) fn take_update(&self) -> InboxUpdate {
        std::mem::take(&mut self.contents.lock().update)
    }

    /// Delivers a response to the function. Does nothing if the question was withdrawn.
    pub(super) fn respond(&self, key: &str, response: InputResponse) {
        if let Some(sender) = self.contents.lock().remove_waiting(key) {
            let _ = sender.send(response);
        }
    }

    /// Adds a question. Returns its key, which is unique within the task, and the receiver of the response.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if the task has asked too many questions.
    pub(super) fn ask(&self, question: &Question) -> Result<(String, oneshot::Receiver<InputResponse>), Fault> {
        let mut contents = self.contents.lock();
        let size = question.key.len() + question.params.len();
        if contents.waiting.len() >= MAX_WAITING || contents.waiting_bytes + size > MAX_WAITING_BYTES {
            return Err(Fault::overloaded(format!(
                "too many questions of the task are waiting for the client's response: the limit is {MAX_WAITING} \
                 questions and {MAX_WAITING_BYTES} bytes"
            )));
        }
        let key = contents.keys.take_unused(&question.key)?;
        contents.update.asked.push(TaskInput::new(key.clone(), question));
        let (sender, receiver) = oneshot::channel();
        contents.waiting.insert(key.clone(), WaitingQuestion { sender, size });
        contents.waiting_bytes += size;
        drop(contents);
        self.questions_changed.notify_one();
        Ok((key, receiver))
    }

    /// Withdraws a question, unless its response has been delivered.
    pub(super) fn withdraw(&self, key: &str) {
        let mut contents = self.contents.lock();
        if contents.remove_waiting(key).is_none() {
            return;
        }
        let unseen = contents.update.asked.iter().position(|input| input.key == key);
        match unseen {
            Some(at) => drop(contents.update.asked.remove(at)),
            None => contents.update.withdrawn.push(key.to_owned()),
        }
        drop(contents);
        self.questions_changed.notify_one();
    }

    /// Sets the status message, which is truncated if it is too long.
    pub(super) fn set_message(&self, message: &str) {
        self.contents.lock().update.message = Some(truncated(message));
        self.message_changed.notify_one();
    }

    /// Puts back a status message that was taken, unless there is a newer one, without announcing it. The next update takes it.
    pub(super) fn restore_message(&self, message: Option<String>) {
        let latest = &mut self.contents.lock().update.message;
        *latest = latest.take().or(message);
    }
}

impl Contents {
    fn remove_waiting(&mut self, key: &str) -> Option<oneshot::Sender<InputResponse>> {
        let WaitingQuestion { sender, size } = self.waiting.remove(key)?;
        self.waiting_bytes -= size;
        Some(sender)
    }
}

impl UsedKeys {
    /// Returns `wanted`, with a number appended if the task has used it before, and marks the result as used.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if the task has used too many keys.
    fn take_unused(&mut self, wanted: &str) -> Result<String, Fault> {
        let mut key = wanted.to_owned();
        if let Some(mut number) = self.next_numbers.get(wanted).copied() {
            while self.next_numbers.contains_key(&key) {
                key = format!("{wanted}-{number}");
                number += 1;
            }
            self.next_numbers.insert(wanted.to_owned(), number);
        }
        if self.next_numbers.len() >= MAX_QUESTIONS || self.bytes + key.len() > MAX_KEY_BYTES {
            return Err(Fault::overloaded(format!(
                "the task has asked too many questions: the limit is {MAX_QUESTIONS} questions and {MAX_KEY_BYTES} \
                 bytes of keys"
            )));
        }
        self.bytes += key.len();
        self.next_numbers.insert(key.clone(), 2);
        Ok(key)
    }
}

/// Truncates a text to the maximum size of a status message.
pub(super) fn truncated(text: &str) -> String {
    beginning(text, MAX_MESSAGE_BYTES).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::ask::AskOptions;

    fn question(key: &str, params: &str) -> Question {
        let (key, params, options) = (key.to_owned(), params.to_owned(), AskOptions::default());
        Question { key, method: "roots/list", params, capabilities: &[], options, tracked: None }
    }

    #[test]
    fn every_question_has_a_key_of_its_own() {
        let inbox = TaskInbox::default();
        let keys = ["a", "a", "a-3", "a", "a-2", "a"].map(|key| inbox.ask(&question(key, "{}")).unwrap().0);
        assert_eq!(keys, ["a", "a-2", "a-3", "a-4", "a-2-2", "a-5"]);
    }

    #[test]
    fn waiting_questions_are_limited_in_number_and_size() {
        let big = "x".repeat(MAX_WAITING_BYTES / 4);
        for (params, limit) in [("{}", MAX_WAITING), (&*big, 3)] {
            let inbox = TaskInbox::default();
            let waiting: Vec<_> = (0..limit).map(|_| inbox.ask(&question("a", params)).unwrap()).collect();
            let fault = inbox.ask(&question("a", params)).unwrap_err();
            assert!(fault.to_string().starts_with("too many questions of the task are waiting"), "{fault}");
            // The refused question leaves nothing behind, and a response or a withdrawal makes room for another
            // question.
            assert_eq!(inbox.take_update().asked.len(), limit);
            inbox.respond(&waiting[0].0, InputResponse::Result("{}".to_owned()));
            inbox.withdraw(&waiting[1].0);
            for _ in 0..2 {
                assert!(inbox.ask(&question("a", params)).is_ok());
            }
            assert!(inbox.ask(&question("a", params)).is_err());
        }
    }

    #[test]
    fn the_questions_of_a_task_are_limited_in_total() {
        let long = "x".repeat(MAX_KEY_BYTES / 4);
        for (key, limit) in [("a", MAX_QUESTIONS), (&*long, 3)] {
            let inbox = TaskInbox::default();
            for _ in 0..limit {
                let (key, _) = inbox.ask(&question(key, "{}")).unwrap();
                inbox.withdraw(&key);
            }
            let fault = inbox.ask(&question(key, "{}")).unwrap_err();
            assert!(fault.to_string().starts_with("the task has asked too many questions"), "{fault}");
            assert_eq!(inbox.take_update().asked.len(), 0);
        }
    }

    /// The function may set another message while the backend fails.
    #[test]
    fn a_message_that_could_not_be_stored_replaces_no_newer_one() {
        for (newer, expected) in [(None, "older"), (Some("newer"), "newer")] {
            let inbox = TaskInbox::default();
            inbox.set_message("older");
            let taken = inbox.take_update().message;
            newer.into_iter().for_each(|message| inbox.set_message(message));
            inbox.restore_message(taken);
            assert_eq!(inbox.take_update().message.as_deref(), Some(expected));
        }
    }
}
