//! The client of a task, as its function sees it.

use std::{
    future::ready,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use super::{encode, inbox::TaskInbox, task::Task};
use crate::{
    engine::{
        client_requests::{LiveRequester, into_result},
        outbox::Outbox,
        pending_requests::session_ended,
        session::Session,
    },
    error::Fault,
    handler::{
        AnswerFuture, CallConnection, CheckAnswer, ClientRequester, Encoding, OnceValues, SessionPeer, TaskPeer,
        ask::Question,
    },
    jsonrpc::raw,
    model::Level,
    revision::encode::Object,
};

/// The client of a task, as its function sees it. Questions and status messages are passed through the inbox to the
/// record; notifications are sent to the session.
pub(crate) struct TaskClient {
    inbox: Arc<TaskInbox>,
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

impl TaskSession {
    /// Returns the outbox for messages that belong to no request.
    fn outbox(&self) -> Option<Arc<Outbox>> {
        self.session.upgrade().map(|session| Arc::clone(&session.outbox))
    }
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

    pub(super) fn inbox(&self) -> &Arc<TaskInbox> {
        &self.inbox
    }

    /// Returns the requester for messages that belong to no request.
    fn session_requester(&self) -> Option<LiveRequester> {
        Some(LiveRequester::of_session(&self.session.as_ref()?.session.upgrade()?))
    }

    /// Returns the outbox of the session that created the task, if both still exist.
    fn outbox(&self) -> Option<Arc<Outbox>> {
        self.session.as_ref()?.outbox()
    }

    /// Notifies the session of the status of the task.
    pub(super) fn notify_status(&self, task: &Task) {
        let Some(session) = &self.session else { return };
        let Some(outbox) = session.outbox() else { return };
        outbox.notify(&encode::status_notification(&session.encoding, task));
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
        let guard = WithdrawOnDrop { inbox: Arc::clone(&self.inbox), key };
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

/// A guard that withdraws a question when the future that waits for its response is dropped.
struct WithdrawOnDrop {
    inbox: Arc<TaskInbox>,
    key: String,
}

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        self.inbox.withdraw(&self.key);
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
    fn notify(&self, message: &[u8]) -> bool {
        let Some(session) = &self.session else { return true };
        let Some(outbox) = session.outbox() else { return true };
        let Ok(text) = std::str::from_utf8(message) else { return false };
        let task_id = session.task_id.get().map(String::as_str).unwrap_or_default();
        let mut out = Vec::with_capacity(message.len() + 128);
        let mut notification = Object::begin(&mut out);
        for (name, value) in raw::members(text) {
            match &*name {
                "params" => notification.raw(&name, &encode::with_related_task(value, task_id)),
                _ => notification.raw(&name, value.as_bytes()),
            }
        }
        notification.end();
        outbox.notify(&out)
    }

    fn session_level(&self) -> Level {
        self.outbox().map_or(Level::Info, |outbox| outbox.session_level())
    }

    fn admits_log_message(&self) -> bool {
        self.outbox().is_some_and(|outbox| outbox.admits_log_message())
    }

    fn close_sse_stream(&self, _: Duration) {}
}
