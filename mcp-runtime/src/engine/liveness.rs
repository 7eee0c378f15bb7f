//! Pings to clients that are silent, and the end of sessions whose clients do not answer them.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::AbortHandle,
    time::{Instant, Sleep, sleep},
};

use super::{client_requests::send_request, session::Session};
use crate::race::race;

/// The shortest time between two pings.
const MIN_PERIOD: Duration = Duration::from_millis(1);
/// The longest period, so that sums of instants and periods do not overflow.
const MAX_PERIOD: Duration = Duration::from_secs(365 * 24 * 3600);

/// When silent clients are pinged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PingSchedule {
    /// The silence after which a client is pinged.
    interval: Duration,
    /// How long the client may take to answer.
    limit: Duration,
}

/// Whether the client of a session is alive, as observed by a task that pings it.
#[derive(Debug)]
pub(super) struct Liveness {
    schedule: PingSchedule,
    /// Whether a message has arrived since the task last cleared the flag. Messages set a flag, not a time, so that
    /// they neither read a clock nor reset a timer.
    heard: AtomicBool,
    task: OnceLock<AbortHandle>,
}

impl PingSchedule {
    pub(crate) fn new(interval: Duration, limit: Duration) -> Self {
        Self { interval: interval.clamp(MIN_PERIOD, MAX_PERIOD), limit: limit.clamp(MIN_PERIOD, MAX_PERIOD) }
    }
}

impl Liveness {
    pub(super) fn new(schedule: PingSchedule) -> Self {
        Self { schedule, heard: AtomicBool::new(false), task: OnceLock::new() }
    }

    /// Starts to ping the client of the session.
    pub(super) fn start(&self, session: &Arc<Session>) {
        let task = tokio::spawn(watch(Arc::downgrade(session), self.schedule));
        let _ = self.task.set(task.abort_handle());
    }

    /// Ends the pings.
    pub(super) fn stop(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Records a message of the client.
    pub(super) fn record_message(&self) {
        self.heard.store(true, Ordering::Relaxed);
    }

    /// Returns whether a message has arrived since the previous call.
    fn take_heard(&self) -> bool {
        self.heard.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Pings the client of a session whenever it is silent for the interval, until the session ends. Ends the session if
/// the client remains silent.
async fn watch(session: Weak<Session>, schedule: PingSchedule) {
    let mut timer = pin!(sleep(schedule.interval));
    loop {
        timer.as_mut().await;
        let Some(session) = session.upgrade() else { return };
        if !is_alive(&session, schedule.limit, timer.as_mut()).await {
            let client = session.info.client.as_ref().map(|client| client.name.as_str());
            tracing::warn!(client, limit = ?schedule.limit, "ending a session: the client did not answer a ping");
            session.end();
            return;
        }
        timer.as_mut().reset(Instant::now() + schedule.interval);
    }
}

/// Returns whether the client has sent a message recently, cannot be pinged, or sends a message within `limit` after a
/// ping.
async fn is_alive(session: &Arc<Session>, limit: Duration, mut timer: Pin<&mut Sleep>) -> bool {
    let Some(liveness) = &session.liveness else { return true };
    if liveness.take_heard() || !session.outbox.has_reader() {
        return true;
    }
    timer.as_mut().reset(Instant::now() + limit);
    match send_request(&session.pending_requests, &session.outbox, "ping", "{}", false) {
        // An error response also shows that the client is alive. If the session ends, so does this task.
        Ok(mut ping) => drop(race(&mut ping.response, timer).await),
        // The client does not read its messages, or leaves too many requests unanswered.
        Err(_) => timer.await,
    }
    // A client whose stream has broken may still open another one. Until then, the session may become idle.
    liveness.take_heard() || !session.outbox.has_reader()
}
