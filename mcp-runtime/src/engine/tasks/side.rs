//! What a function has of the task that it runs in.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use tokio::sync::{Notify, oneshot};

use super::encode;
use crate::{
    backend::{TaskInput, TaskRecord},
    engine::{client_requests::Kept, outbox::Outbox},
    error::Fault,
    handler::{AnswerFuture, ClientRequester, Encoding, Peer, StatusMessages, ask::Question},
    jsonrpc::raw,
    model::Level,
    revision::encode::Object,
};

/// The most bytes of a line that says how far a task is.
const NOTE: usize = 1024;

/// A task as its function sees it: it asks here, and says how far it is. The [`Runner`](super::Runner) takes it from here.
pub(super) struct Side {
    desk: Arc<Desk>,
    /// The JSON of what the client declared.
    capabilities: Arc<str>,
    kept: Kept,
    session: Option<TaskSession>,
}

/// The session that a task was made in, where messages go that belong to it.
pub(super) struct TaskSession {
    pub(super) task: String,
    pub(super) outbox: Weak<Outbox>,
    pub(super) encoding: Arc<Encoding>,
}

/// What lies between the function and its runner.
#[derive(Debug, Default)]
pub(super) struct Desk {
    papers: Mutex<Papers>,
    /// There is a question, or one less.
    pub(super) asked: Notify,
    /// There is a note.
    pub(super) noted: Notify,
    has_begun: AtomicBool,
    is_refused: AtomicBool,
    decided: Notify,
}

#[derive(Debug, Default)]
struct Papers {
    /// The keys that were given.
    keys: HashSet<String>,
    waiting: HashMap<String, oneshot::Sender<Result<String, String>>>,
    news: News,
}

/// What a function did since its runner looked last.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) asked: Vec<TaskInput>,
    /// The keys of questions that nobody waits for any more.
    pub(super) withdrawn: Vec<String>,
    pub(super) note: Option<String>,
}

impl Side {
    pub(super) fn new(capabilities: &str, session: Option<TaskSession>) -> Self {
        Self { desk: Arc::default(), capabilities: capabilities.into(), kept: Kept::default(), session }
    }

    pub(super) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Tells the session how far the task is.
    pub(super) fn tell(&self, task: &TaskRecord) {
        let Some(TaskSession { outbox, encoding, .. }) = &self.session else { return };
        let Some(outbox) = outbox.upgrade() else { return };
        let mut message = Vec::new();
        let mut notification = Object::begin(&mut message);
        notification.string("jsonrpc", "2.0");
        notification.string("method", "notifications/tasks/status");
        encode::write_task(notification.key("params"), encoding, task);
        notification.end();
        outbox.notify(&message);
    }
}

impl Desk {
    /// Says that the task has begun.
    pub(super) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
        self.decided.notify_waiters();
    }

    /// Says that there will be no task.
    pub(super) fn refuse(&self) {
        self.is_refused.store(true, Ordering::Release);
        self.decided.notify_waiters();
    }

    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Acquire)
    }

    /// Waits until the task has begun, or it is known that there will be none.
    pub(super) async fn decided(&self) {
        loop {
            let decided = self.decided.notified();
            if self.has_begun() || self.is_refused.load(Ordering::Acquire) {
                return;
            }
            decided.await;
        }
    }

    /// Takes what is new.
    pub(super) fn take_news(&self) -> News {
        std::mem::take(&mut self.papers().news)
    }

    /// Gives an answer to whoever asked.
    pub(super) fn answer(&self, key: &str, answer: Result<String, String>) {
        if let Some(waiting) = self.papers().waiting.remove(key) {
            // Whoever no longer waits has withdrawn the question as well.
            let _ = waiting.send(answer);
        }
    }

    fn ask(&self, question: &Question) -> (String, oneshot::Receiver<Result<String, String>>) {
        let mut papers = self.papers();
        let key = unused(&papers.keys, &question.key);
        papers.keys.insert(key.clone());
        papers.news.asked.push(TaskInput::new(key.clone(), question.method, question.params.clone()));
        let (answer, waiting) = oneshot::channel();
        papers.waiting.insert(key.clone(), answer);
        drop(papers);
        self.asked.notify_one();
        (key, waiting)
    }

    fn withdraw(&self, key: &str) {
        let mut papers = self.papers();
        if papers.waiting.remove(key).is_none() {
            return;
        }
        let unseen = papers.news.asked.iter().position(|input| input.key == key);
        match unseen {
            Some(at) => drop(papers.news.asked.remove(at)),
            None => papers.news.withdrawn.push(key.to_owned()),
        }
        drop(papers);
        self.asked.notify_one();
    }

    fn papers(&self) -> MutexGuard<'_, Papers> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key that no question of the task had before.
fn unused(keys: &HashSet<String>, wanted: &str) -> String {
    let numbered = (2_u64..).map(|number| format!("{wanted}-{number}"));
    std::iter::once(wanted.to_owned()).chain(numbered).find(|key| !keys.contains(key)).unwrap_or_default()
}

/// The beginning of a line, no longer than a note may be.
pub(super) fn shortened(text: &str) -> String {
    let mut end = text.len().min(NOTE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

impl ClientRequester for Side {
    fn capabilities(&self) -> &str {
        &self.capabilities
    }

    fn ask(&self, question: Question, _: &dyn Fn(&str) -> bool) -> AnswerFuture {
        if !question.needs.is_declared_in(&self.capabilities) {
            let fault = Fault::MissingCapability { required: question.needs.required() };
            return Box::pin(std::future::ready(Err(fault)));
        }
        let (key, answer) = self.desk.ask(&question);
        let open = Open { desk: Arc::clone(&self.desk), key };
        Box::pin(async move {
            let answer = answer.await;
            drop(open);
            match answer {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(why)) => {
                    Err(Fault::internal(format!("the client answered `{}` with an error: {why}", question.method)))
                }
                Err(_) => Err(Fault::internal("the task ended before its client answered")),
            }
        })
    }

    /// With the extension, a question stays open until its answer fits; in a session, an answer is the response to a request.
    fn asks_again(&self) -> bool {
        self.session.is_none()
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

/// Withdraws a question when nobody waits for its answer any more.
struct Open {
    desk: Arc<Desk>,
    key: String,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.desk.withdraw(&self.key);
    }
}

impl StatusMessages for Side {
    fn set(&self, message: &str) {
        self.desk.papers().news.note = Some(shortened(message));
        self.desk.noted.notify_one();
    }
}

/// The connection that a task's call came by is none of the task's: what belongs to no answer goes to the session, and with the
/// extension nowhere.
impl Peer for Side {
    fn notify(&self, message: &[u8]) -> bool {
        let Some(TaskSession { task, outbox, .. }) = &self.session else { return true };
        let Some(outbox) = outbox.upgrade() else { return true };
        let Ok(text) = std::str::from_utf8(message) else { return false };
        let mut out = Vec::with_capacity(message.len() + 128);
        let mut notification = Object::begin(&mut out);
        for (name, value) in raw::members(text) {
            match &*name {
                "params" => notification.raw(&name, &encode::related(value, task)),
                _ => notification.raw(&name, value.as_bytes()),
            }
        }
        notification.end();
        outbox.notify(&out)
    }

    fn session_level(&self) -> Level {
        let outbox = self.session.as_ref().and_then(|session| session.outbox.upgrade());
        outbox.map_or(Level::Info, |outbox| outbox.session_level())
    }

    fn close_sse_stream(&self, _: Duration) {}
}
