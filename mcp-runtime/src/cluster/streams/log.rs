use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{calls::StreamCalls, entry::Entry};
use crate::{
    backend::{Append, Backend, BackendError, Backoff, LogBounds, LogEntry, LogPosition, RecordCondition, respond},
    transport::http::sse::stream::{MAX_LOGGED_BYTES, MAX_LOGGED_MESSAGES},
};

/// The time after its last entry at which the log of a running stream expires.
pub(super) const RUNNING_TTL: Duration = Duration::from_secs(10 * 60);

/// The time for which the log of a complete stream is kept for clients that may resume it.
pub(super) const ENDED_TTL: Duration = Duration::from_secs(5 * 60);

/// The maximum number of entries that are read at once.
pub(super) const PAGE: usize = 64;

/// The longest time between two attempts to reach a backend that has failed.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(1);

/// The log of one stream.
#[derive(Debug, Clone)]
pub(super) struct StreamLog {
    backend: Arc<dyn Backend>,
    /// The key of the log, and of the record with the requests of the stream.
    key: Arc<str>,
}

impl StreamLog {
    pub(super) fn new(backend: &Arc<dyn Backend>, session: &str, stream: u64) -> Self {
        Self { backend: Arc::clone(backend), key: format!("mcp/1/stream/{session}/{stream}").into() }
    }

    /// Records the requests of a running stream, or postpones the time at which the record expires.
    pub(super) async fn record(&self, calls: &StreamCalls) -> Result<(), BackendError> {
        respond(self.backend.set(&self.key, RecordCondition::Always, calls.encode(), RUNNING_TTL)).await.map(drop)
    }

    /// Appends entries to the log of a running stream that ends at a position. The log then keeps at most `max_bytes`, or
    /// its newest entry if that is longer.
    pub(super) async fn append(
        &self,
        after: u64,
        entries: Vec<Vec<u8>>,
        max_bytes: usize,
    ) -> Result<Append, BackendError> {
        self.append_for(after, entries, max_bytes, RUNNING_TTL).await
    }

    /// Postpones the time at which the log of a running stream expires, unless it has entries after a position.
    pub(super) async fn keep_alive(&self, after: u64) -> Result<Append, BackendError> {
        self.append(after, vec![Entry::Alive.encode()], MAX_LOGGED_BYTES).await
    }

    /// Appends the entries that complete a stream, like [`append`](Self::append).
    pub(super) async fn complete(
        &self,
        after: u64,
        entries: Vec<Vec<u8>>,
        max_bytes: usize,
    ) -> Result<Append, BackendError> {
        let append = self.append_for(after, entries, max_bytes, ENDED_TTL).await?;
        if matches!(append, Append::Appended(_)) {
            // Only a running stream can be lost. If this fails, the record expires.
            let _ = respond(self.backend.delete(&self.key, RecordCondition::Always)).await;
        }
        Ok(append)
    }

    /// Completes a stream whose owner is gone, unless it has entries after a position. Drops no entries to limit their
    /// bytes, since the log may contain a long response.
    pub(super) async fn lose(&self, after: u64, message: &[u8]) -> Result<Append, BackendError> {
        self.complete(after, vec![Entry::Lost(message).encode()], usize::MAX).await
    }

    async fn append_for(
        &self,
        after: u64,
        entries: Vec<Vec<u8>>,
        max_bytes: usize,
        ttl: Duration,
    ) -> Result<Append, BackendError> {
        let bounds = LogBounds::new(MAX_LOGGED_MESSAGES, max_bytes, ttl);
        respond(self.backend.append(&self.key, LogPosition::new(after), entries, bounds)).await
    }

    /// Returns the next entries after a position. If some of them have been dropped, starts with the first one that is
    /// left. Returns `None` if there is no log.
    pub(super) async fn read(&self, after: u64) -> Result<Option<Vec<LogEntry>>, BackendError> {
        respond(self.backend.read(&self.key, LogPosition::new(after), PAGE)).await
    }

    /// Waits until there is an entry after a position.
    pub(super) async fn appended(&self, after: u64) -> Result<(), BackendError> {
        self.backend.appended(&self.key, LogPosition::new(after)).await
    }

    /// Returns the requests of the stream. Returns `None` if the stream is complete, or if the backend has lost them.
    pub(super) async fn calls(&self) -> Result<Option<StreamCalls>, BackendError> {
        let record = respond(self.backend.get(&self.key)).await?;
        Ok(record.and_then(|record| StreamCalls::decode(&record.value)))
    }

    /// Deletes the log.
    #[cfg(test)]
    pub(super) async fn remove(&self) -> Result<(), BackendError> {
        respond(self.backend.remove(&self.key)).await
    }
}

/// Repeats an operation until it succeeds. Returns `None` if it fails for so long that the log expires.
pub(super) async fn persist<T, F: Future<Output = Result<T, BackendError>>>(operation: impl Fn() -> F) -> Option<T> {
    persist_while(operation, |_| true).await
}

/// Like [`persist`], but returns `None` at once if the backend is full.
pub(super) async fn persist_unless_full<T, F: Future<Output = Result<T, BackendError>>>(
    operation: impl Fn() -> F,
) -> Option<T> {
    persist_while(operation, |error| !matches!(error, BackendError::Full)).await
}

async fn persist_while<T, F: Future<Output = Result<T, BackendError>>>(
    operation: impl Fn() -> F,
    is_transient: fn(&BackendError) -> bool,
) -> Option<T> {
    let give_up = Instant::now() + RUNNING_TTL;
    let mut backoff = Backoff::up_to(MAX_PAUSE);
    loop {
        match operation().await {
            Ok(value) => return Some(value),
            Err(error) if !is_transient(&error) || Instant::now() > give_up => {
                tracing::error!(%error, "an event stream cannot be written to the backend");
                return None;
            }
            Err(error) => tracing::debug!(%error, "cannot write an event stream to the backend"),
        }
        backoff.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::MemoryBackend;

    #[tokio::test]
    async fn a_reader_that_is_too_slow_continues_with_what_is_left() {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::default());
        for written in [1, MAX_LOGGED_MESSAGES, MAX_LOGGED_MESSAGES + 1, 40 * MAX_LOGGED_MESSAGES + 7] {
            let log = StreamLog::new(&backend, "session", written as u64);
            assert!(log.read(0).await.unwrap().is_none(), "there is no log");
            for after in 0..written {
                log.keep_alive(after as u64).await.unwrap();
            }
            let first = written.saturating_sub(MAX_LOGGED_MESSAGES) as u64 + 1;
            for after in [0, first / 2, first, written as u64 - 1] {
                let entries = log.read(after).await.unwrap().unwrap();
                let expected = first.max(after + 1);
                let found = entries.first().map(|entry| entry.position.number());
                assert_eq!(found, (expected <= written as u64).then_some(expected), "{written} {after}");
            }
            for after in [written as u64, u64::from(u32::MAX), u64::MAX] {
                assert_eq!(log.read(after).await.unwrap(), Some(Vec::new()), "{written} {after}");
            }
        }
    }
}
