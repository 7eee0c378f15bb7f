//! Signs of life of a session's client.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::task::AbortHandle;

/// The shortest time between two pings.
const MIN_PERIOD: Duration = Duration::from_millis(1);
/// The longest period, so that sums of instants and periods do not overflow.
const MAX_PERIOD: Duration = Duration::from_secs(365 * 24 * 3600);

/// When silent clients are pinged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PingSchedule {
    /// The silence after which a client is pinged.
    pub(super) interval: Duration,
    /// How long the client may take to answer.
    pub(super) limit: Duration,
}

/// Whether the client of a session is alive, as observed by a task that pings it.
#[derive(Debug)]
pub(super) struct Liveness {
    pub(super) schedule: PingSchedule,
    /// Whether the client has sent a message, or read output that was waiting, since the task last cleared the flag.
    /// Messages set a flag, not a time, so that they neither read a clock nor reset a timer.
    is_active: AtomicBool,
    task: OnceLock<AbortHandle>,
}

impl PingSchedule {
    pub(crate) fn new(interval: Duration, limit: Duration) -> Self {
        Self { interval: interval.clamp(MIN_PERIOD, MAX_PERIOD), limit: limit.clamp(MIN_PERIOD, MAX_PERIOD) }
    }

    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }
}

impl Liveness {
    pub(super) fn new(schedule: PingSchedule) -> Self {
        Self { schedule, is_active: AtomicBool::new(false), task: OnceLock::new() }
    }

    /// Sets the task that pings the client. It is aborted when the pings end.
    pub(super) fn set_task(&self, task: AbortHandle) {
        let _ = self.task.set(task);
    }

    /// Ends the pings.
    pub(super) fn stop(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Records a sign of life.
    pub(super) fn record(&self) {
        self.is_active.store(true, Ordering::Relaxed);
    }

    /// Returns whether there has been a sign of life since the previous call.
    pub(super) fn take(&self) -> bool {
        self.is_active.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        self.stop();
    }
}
