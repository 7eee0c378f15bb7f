//! A call that becomes a task in its midst.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use super::{
    runner::Job,
    service::{NewTask, Tasks, new_id},
    side::Side,
};
use crate::{
    engine::{call::callee::Callee, outbox::Outbox},
    error::Fault,
    handler::{AnswerFuture, ClientRequester, Context, Encoding, Finished, Peer, Running, TaskHandoff, ask::Question},
    jsonrpc::Id,
    model::Level,
};

/// A plain call until its function says that it becomes a task: then what it asks and says is the task's.
pub(super) struct Deferral {
    rounds: Arc<dyn ClientRequester>,
    outbox: Arc<Outbox>,
    side: Arc<Side>,
    is_wanted: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// What the task is made from; none when it is made.
    ticket: Mutex<Option<Ticket>>,
}

/// What a call needs to become a task.
pub(super) struct Ticket {
    /// None when the server has ended.
    pub(super) tasks: Weak<Tasks>,
    pub(super) owner: String,
    pub(super) encoding: Arc<Encoding>,
    pub(super) id: Id<'static>,
    pub(super) callee: Callee,
    pub(super) forwards_log: bool,
    pub(super) is_layered: bool,
}

impl Deferral {
    pub(super) fn new(
        rounds: Arc<dyn ClientRequester>,
        outbox: Arc<Outbox>,
        side: Arc<Side>,
        ticket: Ticket,
        at_once: bool,
    ) -> Self {
        let ticket = Mutex::new(Some(ticket));
        Self { rounds, outbox, side, is_wanted: AtomicBool::new(at_once), waker: Mutex::default(), ticket }
    }

    /// Whom the function asks now.
    fn requester(&self) -> &dyn ClientRequester {
        match self.side.desk().has_begun() {
            true => &*self.side,
            false => &*self.rounds,
        }
    }

    /// Whom the function talks to now.
    fn peer(&self) -> &dyn Peer {
        match self.side.desk().has_begun() {
            true => &*self.side,
            false => &*self.outbox,
        }
    }

    fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }
}

impl Ticket {
    /// Makes a task of the rest; where none can be kept, the rest stays a call.
    async fn redeem(self, side: Arc<Side>, rest: Running, context: Arc<Context>) -> Result<Finished, Fault> {
        let Self { tasks, owner, encoding, id, callee, forwards_log, is_layered } = self;
        let Some(tasks) = tasks.upgrade() else { return Err(Fault::internal("the server is shutting down")) };
        let new = NewTask { id: new_id()?, owner, ttl: None };
        let desk = Arc::clone(side.desk());
        let job = Job { encoding, id, callee, context: Some(context), forwards_log, is_layered, side };
        let refused = match tasks.create(new, job, rest).await {
            Ok(body) => return Ok(Finished { body, outcome: Ok(()) }),
            Err(refused) => refused,
        };
        tracing::warn!(name = callee.name, why = %refused.fault, "a call stays a call, since it cannot become a task");
        drop(tasks);
        desk.refuse();
        Ok(refused.running.await)
    }
}

impl TaskHandoff for Deferral {
    fn request(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.is_wanted.store(true, Ordering::Release);
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waker) = waker {
            waker.wake();
        }
        Box::pin(self.side.desk().decided())
    }

    fn poll_requested(&self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let ticket = self.ticket.lock().unwrap_or_else(PoisonError::into_inner);
        if ticket.is_none() {
            return Poll::Pending;
        }
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
        if self.is_wanted() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn hand_off(&self, rest: Running, context: Arc<Context>) -> Running {
        let ticket = self.ticket.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(ticket) = ticket else { return rest };
        let redeeming = ticket.redeem(Arc::clone(&self.side), rest, context);
        Box::pin(async move {
            redeeming.await.unwrap_or_else(|fault| Finished { body: Vec::new(), outcome: Err(fault.into()) })
        })
    }
}

impl ClientRequester for Deferral {
    fn capabilities(&self) -> &str {
        self.requester().capabilities()
    }

    fn ask(&self, question: Question, fits: &dyn Fn(&str) -> bool) -> AnswerFuture {
        self.requester().ask(question, fits)
    }

    fn asks_again(&self) -> bool {
        self.requester().asks_again()
    }

    fn recall(&self, key: &str) -> Option<String> {
        self.rounds.recall(key)
    }

    fn remember(&self, key: &str, value: String) {
        self.rounds.remember(key, value);
    }

    fn poll_suspended(&self, cx: &mut TaskContext<'_>) -> Poll<Result<Vec<u8>, Fault>> {
        self.requester().poll_suspended(cx)
    }
}

impl Peer for Deferral {
    fn notify(&self, message: &[u8]) -> bool {
        self.peer().notify(message)
    }

    fn session_level(&self) -> Level {
        self.peer().session_level()
    }

    fn close_sse_stream(&self, retry: Duration) {
        self.peer().close_sse_stream(retry);
    }
}
