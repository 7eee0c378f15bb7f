//! Messages between replicas, and the time for which a replica may trust what it has read.

use std::{
    fmt,
    sync::{
        Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::{engine::ReplicaHandler, mutex::Mutex};

/// The handlers of a replica, by kind of message. There are as many as the engine and the transports register.
#[derive(Default)]
pub(super) struct Handlers(Mutex<Vec<(&'static str, Weak<dyn ReplicaHandler>)>>);

impl Handlers {
    pub(super) fn add(&self, kind: &'static str, handler: Weak<dyn ReplicaHandler>) {
        let mut handlers = self.0.lock();
        handlers.retain(|(_, handler)| handler.strong_count() > 0);
        handlers.push((kind, handler));
    }

    /// Passes a message to the handlers of its kind. Ignores messages without a handler, which a newer release may send.
    pub(super) fn message(&self, message: &[u8]) {
        let Some(end) = message.iter().position(|&byte| byte == b' ') else { return };
        for (kind, handler) in self.live() {
            if kind.as_bytes() == &message[..end] {
                handler.message(&message[end + 1..]);
            }
        }
    }

    /// Passes an event to all handlers.
    pub(super) fn tell(&self, event: impl Fn(&dyn ReplicaHandler)) {
        self.live().iter().for_each(|(_, handler)| event(&**handler));
    }

    /// Returns the handlers, which are called without the lock.
    fn live(&self) -> Vec<(&'static str, std::sync::Arc<dyn ReplicaHandler>)> {
        self.0.lock().iter().filter_map(|(kind, handler)| Some((*kind, handler.upgrade()?))).collect()
    }
}

/// Returns a message of a kind, which contains no spaces.
pub(super) fn encode(kind: &str, payload: &[u8]) -> Vec<u8> {
    debug_assert!(!kind.contains(' '));
    [kind.as_bytes(), b" ", payload].concat()
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.lock().iter().map(|(kind, _)| kind)).finish()
    }
}

/// Tells whether this replica would have heard of a change to the state that it has read.
///
/// A change goes unnoticed if messages do not arrive, or if the replica was not scheduled: a process that continues
/// after `SIGSTOP` may receive a request before the message that was sent earlier. Therefore, the replica sends itself
/// messages. The state that it has read is fresh for the time of a lease after the last message that arrived was sent,
/// while its task runs often enough.
#[derive(Debug)]
pub(super) struct Freshness {
    start: Instant,
    lease: Duration,
    /// The time until which changes are known to be announced, in nanoseconds after `start`.
    announced_until: AtomicU64,
    /// The time at which the task of the replica should have run again, in nanoseconds after `start`.
    scheduled_until: AtomicU64,
}

impl Freshness {
    /// The kind of the messages of a replica to itself.
    pub(super) const ECHO: &str = "echo";

    pub(super) fn new(lease: Duration) -> Self {
        let (announced_until, scheduled_until) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { start: Instant::now(), lease, announced_until, scheduled_until }
    }

    /// Returns the maximum time for which the task of the replica does not run before everything is read again.
    pub(super) fn max_pause(&self) -> Duration {
        (self.lease / 40).max(Duration::from_millis(100))
    }

    /// Returns whether what was read is fresh at a time. This needs no lock.
    #[cfg(feature = "http")]
    pub(super) fn is_fresh(&self, at: Instant) -> bool {
        let at = self.nanos(at);
        at < self.announced_until.load(Ordering::Acquire) && at < self.scheduled_until.load(Ordering::Acquire)
    }

    /// Records that the messages of all replicas arrive which are sent after this time.
    pub(super) fn heard(&self, sent: Instant) {
        self.announced_until.fetch_max(self.nanos(sent + self.lease), Ordering::AcqRel);
    }

    /// Records that the task of the replica runs.
    pub(super) fn scheduled(&self) {
        self.scheduled_until.store(self.nanos(Instant::now() + self.max_pause()), Ordering::Release);
    }

    /// Returns whether the task of the replica should have run before.
    pub(super) fn has_paused(&self) -> bool {
        self.nanos(Instant::now()) >= self.scheduled_until.load(Ordering::Acquire)
    }

    /// Records that messages no longer arrive.
    pub(super) fn end(&self) {
        self.announced_until.store(0, Ordering::Release);
    }

    /// Returns the message that proves that messages arrive which are sent after this time.
    pub(super) fn echo(&self, sent: Instant) -> Vec<u8> {
        self.nanos(sent).to_string().into_bytes()
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

impl ReplicaHandler for Freshness {
    fn message(&self, payload: &[u8]) {
        let sent = std::str::from_utf8(payload).ok().and_then(|nanos| nanos.parse().ok());
        if let Some(sent) = sent.map(Duration::from_nanos).and_then(|sent| self.start.checked_add(sent)) {
            // A message cannot have been sent later than now.
            self.heard(sent.min(Instant::now()));
        }
    }

    fn missed(&self) {}
}
