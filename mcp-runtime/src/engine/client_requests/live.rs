//! Requests of the server's own, in the revisions that have them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::{
    engine::outbox::{Outbox, UNREAD_NOTIFICATIONS},
    error::Fault,
    handler::{AnswerFuture, ClientRequester, Peer as _, ask::Question},
    jsonrpc::{Id, ResponseBody, raw},
    revision::encode::Object,
};

/// The questions of one session that are not yet answered.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    asked: u64,
    waiting: HashMap<u64, oneshot::Sender<Result<String, String>>>,
}

impl Questions {
    /// Takes an answer of the client's; false if nobody waits for it.
    pub(crate) fn answer(&self, id: &Id<'_>, answer: ResponseBody<'_>) -> bool {
        let waiting = id.as_json().parse().ok().and_then(|number| self.open().waiting.remove(&number));
        let Some(waiting) = waiting else { return false };
        let answer = match answer {
            ResponseBody::Result(json) => Ok(json.to_owned()),
            ResponseBody::Error(json) => Err(message_of(json)),
        };
        waiting.send(answer).is_ok()
    }

    fn ask(&self, most: usize) -> Option<(u64, oneshot::Receiver<Result<String, String>>)> {
        let mut open = self.open();
        if open.waiting.len() >= most {
            return None;
        }
        open.asked += 1;
        let number = open.asked;
        let (answer, waiting) = oneshot::channel();
        open.waiting.insert(number, answer);
        Some((number, waiting))
    }

    /// Gives up a question; false if it was answered.
    fn give_up(&self, number: u64) -> bool {
        self.open().waiting.remove(&number).is_some()
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sentence of a JSON-RPC error object.
fn message_of(error: &str) -> String {
    let message = raw::members(error).find(|(name, _)| name == "message");
    message.and_then(|(_, json)| raw::string(json)).map_or_else(|| "an error".to_owned(), std::borrow::Cow::into_owned)
}

/// Asks in the midst of a call, on the stream that the call's answer goes to.
pub(crate) struct Live {
    pub(crate) questions: Arc<Questions>,
    pub(crate) outbox: Arc<Outbox>,
    /// The JSON of what the client declared in `initialize`.
    pub(crate) capabilities: Arc<str>,
    pub(crate) timeout: Duration,
    /// The most questions of the session at once.
    pub(crate) most: usize,
    pub(crate) kept: Kept,
}

/// The values that a call made once.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<HashMap<String, String>>);

impl Kept {
    pub(in crate::engine) fn get(&self, key: &str) -> Option<String> {
        self.values().get(key).cloned()
    }

    pub(in crate::engine) fn set(&self, key: &str, value: String) {
        self.values().insert(key.to_owned(), value);
    }

    pub(super) fn values(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<HashMap<String, String>> for Kept {
    fn from(values: HashMap<String, String>) -> Self {
        Self(Mutex::new(values))
    }
}

impl Live {
    fn send(&self, question: &Question) -> Result<Waiting, Fault> {
        if !question.needs.is_declared_in(&self.capabilities) {
            return Err(Fault::MissingCapability { required: question.needs.required() });
        }
        put(&self.questions, &self.outbox, self.most, question.method, &question.params)
    }
}

/// Sends a request of the server's to the client.
///
/// # Errors
///
/// There are `most` already, it is too large, or the client does not read.
pub(in crate::engine) fn put(
    questions: &Arc<Questions>,
    outbox: &Arc<Outbox>,
    most: usize,
    method: &str,
    params: &str,
) -> Result<Waiting, Fault> {
    let Some((number, answer)) = questions.ask(most) else {
        let why = format!("too many questions wait for the client, at most {most} may");
        return Err(Fault::overloaded(why));
    };
    let mut message = Vec::with_capacity(params.len() + 96);
    let mut request = Object::begin(&mut message);
    request.string("jsonrpc", "2.0");
    request.raw("id", number.to_string().as_bytes());
    request.string("method", method);
    request.raw("params", params.as_bytes());
    request.end();
    outbox.ask();
    if message.len() > UNREAD_NOTIFICATIONS || !outbox.notify(&message) {
        questions.give_up(number);
        outbox.end_question();
        let why = match message.len() > UNREAD_NOTIFICATIONS {
            true => format!(
                "a question of {} bytes is too large, at most {UNREAD_NOTIFICATIONS} may be sent",
                message.len()
            ),
            false => "the client does not read what is sent to it, so that it cannot be asked".to_owned(),
        };
        return Err(Fault::internal(why));
    }
    let taken_back = format!(r#"{{"requestId":{number},"reason":"nobody waits for the answer any more"}}"#);
    Ok(Waiting { number, answer, taken_back, questions: Arc::clone(questions), outbox: Arc::clone(outbox) })
}

impl ClientRequester for Live {
    fn capabilities(&self) -> &str {
        &self.capabilities
    }

    fn ask(&self, question: Question, _: &dyn Fn(&str) -> bool) -> AnswerFuture {
        let sent = self.send(&question);
        let timeout = self.timeout;
        Box::pin(async move {
            let mut waiting = sent?;
            match tokio::time::timeout(timeout, &mut waiting.answer).await {
                Ok(Ok(Ok(result))) => Ok(result),
                Ok(Ok(Err(why))) => {
                    Err(Fault::internal(format!("the client answered `{}` with an error: {why}", question.method)))
                }
                Ok(Err(_)) => Err(Fault::internal("the session ended before the client answered")),
                Err(_) => {
                    Err(Fault::internal(format!("the client did not answer `{}` within {timeout:?}", question.key)))
                }
            }
        })
    }

    fn recall(&self, key: &str) -> Option<String> {
        self.kept.get(key)
    }

    fn remember(&self, key: &str, value: String) {
        self.kept.set(key, value);
    }

    fn poll_suspended(&self, _: &mut TaskContext<'_>) -> Poll<Result<Vec<u8>, Fault>> {
        Poll::Pending
    }
}

/// One question that was sent, taken back when nobody waits for its answer any more.
pub(in crate::engine) struct Waiting {
    number: u64,
    pub(in crate::engine) answer: oneshot::Receiver<Result<String, String>>,
    /// The parameters of the notification that takes it back.
    pub(in crate::engine) taken_back: String,
    questions: Arc<Questions>,
    outbox: Arc<Outbox>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.questions.give_up(self.number) {
            let params = &self.taken_back;
            let message = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
            self.outbox.notify(message.as_bytes());
        }
        self.outbox.end_question();
    }
}
