//! Calls that become tasks while their function runs.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use super::{
    client::TaskClient,
    service::{NewTask, Rejected, Tasks},
};
use crate::{
    engine::outbox::Outbox,
    error::Fault,
    handler::{
        AnswerFuture, CallFuture, CheckAnswer, ClientRequester, Context, Finished, OnceValues, Peer, SessionPeer,
        TaskHandoff,
        ask::{ElicitationSession, Question},
    },
    model::Level,
};

/// A call that becomes a task when its function requests it. Until then, its questions and notifications are sent like
/// those of a plain call; afterwards, like those of a task.
pub(crate) struct DeferredTask {
    call_requester: Arc<dyn ClientRequester>,
    outbox: Arc<Outbox>,
    client: Arc<TaskClient>,
    is_requested: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// The tasks of the server. Weak, so that a call does not keep those of a stopped server alive.
    tasks: Weak<Tasks>,
    /// The task, without the context of its call. `None` once the handoff has begun.
    pending: Mutex<Option<NewTask>>,
}

impl DeferredTask {
    pub(crate) fn new(
        call_requester: Arc<dyn ClientRequester>,
        outbox: Arc<Outbox>,
        client: Arc<TaskClient>,
        tasks: Weak<Tasks>,
        at_once: bool,
    ) -> Self {
        let (is_requested, pending) = (AtomicBool::new(at_once), Mutex::default());
        Self { call_requester, outbox, client, is_requested, waker: Mutex::default(), tasks, pending }
    }

    /// Sets the task that the call may become, without the context of the call, before the call runs.
    pub(crate) fn set_task(&self, task: NewTask) {
        *self.pending() = Some(task);
    }

    fn pending(&self) -> MutexGuard<'_, Option<NewTask>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the requester of the call, or of the task that it has become.
    fn requester(&self) -> &dyn ClientRequester {
        if self.client.inbox().is_task() { &*self.client } else { &*self.call_requester }
    }

    /// Returns the peer of the call, or of the task that it has become.
    fn peer(&self) -> &dyn Peer {
        if self.client.inbox().is_task() { &*self.client } else { &*self.outbox }
    }
}

/// Creates a task that runs the rest of a function. If it is rejected, the rest runs as part of the call.
async fn start(tasks: Weak<Tasks>, task: NewTask, rest: CallFuture) -> Result<Finished, Fault> {
    let Some(tasks) = tasks.upgrade() else { return Err(Fault::shutting_down()) };
    let (inbox, name) = (Arc::clone(task.client.inbox()), task.call.name);
    let Rejected { fault, running } = match tasks.create(task, rest).await {
        Ok(body) => return Ok(Finished::with_result(body)),
        Err(rejected) => rejected,
    };
    tracing::warn!(name, reason = %fault, "task rejected, continuing as a plain call");
    drop(tasks);
    inbox.reject();
    Ok(running.await)
}

impl TaskHandoff for DeferredTask {
    fn request(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.is_requested.store(true, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
        Box::pin(self.client.inbox().decided())
    }

    fn poll_requested(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let pending = self.pending();
        if pending.is_none() {
            return Poll::Pending;
        }
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        if self.is_requested.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn hand_off(&self, rest: CallFuture, context: Arc<Context>) -> CallFuture {
        let Some(mut task) = self.pending().take() else { return rest };
        task.call.context = Some(context);
        let started = start(Weak::clone(&self.tasks), task, rest);
        Box::pin(async move { started.await.unwrap_or_else(Finished::failed) })
    }
}

impl ClientRequester for DeferredTask {
    fn capabilities(&self) -> &str {
        self.requester().capabilities()
    }

    fn ask(&self, question: Question, check: &CheckAnswer<'_>) -> AnswerFuture {
        self.requester().ask(question, check)
    }

    fn retries_invalid_answers(&self) -> bool {
        self.requester().retries_invalid_answers()
    }

    fn ping(&self) -> AnswerFuture {
        self.requester().ping()
    }

    fn session(&self) -> Option<Arc<dyn SessionPeer>> {
        self.requester().session()
    }

    fn elicitation_session(&self) -> Option<Arc<dyn ElicitationSession>> {
        self.requester().elicitation_session()
    }

    fn once_values(&self) -> &OnceValues {
        self.call_requester.once_values()
    }

    fn poll_suspended(&self, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Vec<u8>, Fault>>> {
        self.requester().poll_suspended(cx)
    }
}

impl Peer for DeferredTask {
    fn notify(&self, message: &[u8]) -> bool {
        self.peer().notify(message)
    }

    fn session_level(&self) -> Level {
        self.peer().session_level()
    }

    fn admits_log_message(&self) -> bool {
        self.peer().admits_log_message()
    }

    fn close_sse_stream(&self, retry: Duration) {
        self.peer().close_sse_stream(retry);
    }
}
