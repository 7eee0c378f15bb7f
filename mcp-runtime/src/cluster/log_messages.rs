//! Log messages outside of calls, which processes that share a backend send to each other's clients.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, OnceLock, Weak},
};

use tokio::sync::Notify;

use super::replica::Replica;
use crate::{
    engine::{ReplicaHandler, Sessions},
    model::Level,
    mutex::Mutex,
    random,
};

/// The kind of the messages between replicas.
const LOG_MESSAGES: &str = "log";
/// The maximum number of messages that wait to be announced, and of their bytes. Further messages are dropped.
const MAX_WAITING: usize = 256;
const MAX_WAITING_BYTES: usize = 512 << 10;

/// The log messages that this process announces, and the handler of the messages that other processes announce.
#[derive(Debug)]
pub(crate) struct SharedLog {
    replica: Arc<Replica>,
    /// Distinguishes this process from the other processes.
    id: String,
    /// Delivers the messages that other processes announce, once the server is built.
    sessions: OnceLock<Arc<Sessions>>,
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl SharedLog {
    pub(super) fn new(replica: &Arc<Replica>) -> Arc<Self> {
        let shared = Arc::new(Self {
            replica: Arc::clone(replica),
            id: random::id().unwrap_or_default(),
            sessions: OnceLock::new(),
            waiting: Mutex::default(),
            changed: Notify::new(),
        });
        let handler: Weak<Self> = Arc::downgrade(&shared);
        replica.add_handler(LOG_MESSAGES, handler);
        shared
    }

    /// Sets the sessions that receive the messages of other processes.
    pub(super) fn connect(&self, sessions: &Arc<Sessions>) {
        let _ = self.sessions.set(Arc::clone(sessions));
    }

    /// Announces a message. Returns `false` if it was dropped because too many are waiting.
    pub(crate) fn send(&self, level: Level, message: &[u8]) -> bool {
        let payload = [self.id.as_bytes(), b" ", level.as_str().as_bytes(), b" ", message].concat();
        let mut waiting = self.waiting.lock();
        if waiting.messages.len() >= MAX_WAITING || waiting.bytes + payload.len() > MAX_WAITING_BYTES {
            return false;
        }
        waiting.bytes += payload.len();
        waiting.messages.push_back(payload);
        drop(waiting);
        self.changed.notify_one();
        true
    }

    /// Announces the messages that are waiting.
    pub(crate) async fn run(&self) -> Infallible {
        loop {
            let next = self.next();
            let Some(payload) = next else {
                self.changed.notified().await;
                continue;
            };
            // Like other log messages, it is dropped if it cannot be sent.
            if let Err(error) = self.replica.announce(LOG_MESSAGES, &payload).await {
                tracing::debug!(%error, "a log message cannot be sent to other processes");
            }
        }
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut waiting = self.waiting.lock();
        let payload = waiting.messages.pop_front()?;
        waiting.bytes -= payload.len();
        Some(payload)
    }
}

impl ReplicaHandler for SharedLog {
    fn message(&self, payload: &[u8]) {
        let mut parts = payload.splitn(3, |byte| *byte == b' ');
        let (Some(from), Some(level), Some(message)) = (parts.next(), parts.next(), parts.next()) else { return };
        let level = std::str::from_utf8(level).ok().and_then(|level| level.parse().ok());
        if let Some((level, sessions)) = level.zip(self.sessions.get()).filter(|_| from != self.id.as_bytes()) {
            sessions.log(level, message);
        }
    }

    /// Log messages may be lost.
    fn missed(&self) {}
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::MemoryBackend;

    #[test]
    fn the_messages_that_wait_may_take_exactly_the_maximum() {
        let log = SharedLog::new(&Arc::new(Replica::new(Arc::new(MemoryBackend::default()), Duration::MAX)));
        let overhead = log.id.len() + " info ".len();
        assert!(!log.send(Level::Info, &vec![b'x'; MAX_WAITING_BYTES - overhead + 1]));
        assert!(log.send(Level::Info, &vec![b'x'; MAX_WAITING_BYTES - overhead]));
    }

    /// The messages that wait are bounded in number and bytes; messages that were sent do not count.
    #[test]
    fn only_messages_that_wait_are_counted() {
        for (bytes, fit) in [(10, MAX_WAITING), (100 << 10, 5)] {
            let log = SharedLog::new(&Arc::new(Replica::new(Arc::new(MemoryBackend::default()), Duration::MAX)));
            let message = vec![b'x'; bytes];
            for round in 0..3 {
                for number in 0..fit {
                    assert!(log.send(Level::Info, &message), "{bytes} bytes, round {round}, message {number}");
                }
                assert!(!log.send(Level::Info, &message), "{bytes} bytes, round {round}");
                while log.next().is_some() {}
            }
        }
    }
}
