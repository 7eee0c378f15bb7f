//! The log of the messages of a session that belong to no request, as this replica writes it.

use tokio::sync::Mutex;

use super::log::{MAX_PAUSE, RUNNING_TTL, StreamLog};
use crate::{
    backend::{Append, BackendError, Backoff},
    transport::http::sse::stream::MAX_LOGGED_BYTES,
};

/// The number of appends in a row that may conflict with the appends of other replicas before the next append waits.
const MAX_CONFLICTS: usize = 4;

/// The log of the messages of a session that belong to no request, and the position at which this replica appends to it.
#[derive(Debug)]
pub(super) struct GeneralLog {
    pub(super) log: StreamLog,
    /// The position of the last entry of the log, as far as this replica knows. Locked during an append.
    at: Mutex<u64>,
}

impl GeneralLog {
    pub(super) fn new(log: StreamLog) -> Self {
        Self { log, at: Mutex::default() }
    }

    /// Appends entries at the end of the log. Does not append them again if they are in the log after an append that
    /// seemed to fail. Returns the position of the last one.
    pub(super) async fn append(&self, entries: &[Vec<u8>]) -> Result<u64, BackendError> {
        let mut at = self.at.lock().await;
        let (mut backoff, mut conflicts) = (Backoff::up_to(MAX_PAUSE), 0);
        loop {
            if conflicts >= MAX_CONFLICTS {
                backoff.wait().await;
            }
            conflicts += 1;
            match self.log.append(*at, entries.to_vec(), MAX_LOGGED_BYTES, RUNNING_TTL).await? {
                Append::Appended(last) => {
                    *at = last.number();
                    return Ok(*at);
                }
                Append::Conflict(last) => {
                    if let Some(last) = self.catch_up(&mut at, last.number(), entries).await? {
                        return Ok(last);
                    }
                }
            }
        }
    }

    /// Moves a position to the last entry of the log. Returns the position of the last of the entries if the log contains
    /// them. Does not move the position if it fails or is cancelled: the next search must find entries that were read.
    async fn catch_up(&self, at: &mut u64, last: u64, entries: &[Vec<u8>]) -> Result<Option<u64>, BackendError> {
        // The backend may have lost the log. It then begins a new one.
        let mut next = if *at > last { 0 } else { *at };
        let mut own = None;
        while next < last {
            let found = self.log.read(next).await?.unwrap_or_default();
            next = found.last().map_or(last, |entry| entry.position.number());
            let found = found.iter().find(|entry| entries.last().is_some_and(|last| *entry.value == **last));
            own = own.or(found.map(|entry| entry.position.number()));
        }
        *at = next;
        Ok(own)
    }

    /// Waits for the end of the append that has begun, if any. Waits neither for later appends, since the lock is fair, nor for
    /// messages that no append writes yet.
    pub(super) async fn settled(&self) {
        drop(self.at.lock().await);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc, OnceLock,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use tokio::time::{Instant, sleep, timeout};

    use super::{super::log::PAGE, *};
    use crate::{
        backend::{Backend, BackendFuture, MemoryBackend},
        stdx::race,
        testing::test_backend::{BackendHook, BackendMethod, BackendOperation, Failing, TestBackend, unavailable},
    };

    /// Lets another replica append an entry to a log before each of the next appends.
    #[derive(Debug, Default)]
    struct Rival {
        log: OnceLock<StreamLog>,
        appends: AtomicUsize,
    }

    impl BackendHook for Rival {
        fn intercept<'a, T: Send + 'a>(
            &'a self,
            operation: BackendOperation<'_>,
            run: BackendFuture<'a, T>,
        ) -> BackendFuture<'a, T> {
            let left = || self.appends.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            match self.log.get() {
                Some(log) if operation.method == BackendMethod::Append && left().is_ok() => Box::pin(async move {
                    let last = log.keep_alive(u64::from(u32::MAX)).await?.last();
                    log.keep_alive(last.number()).await?;
                    run.await
                }),
                _ => run,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_append_that_conflicts_repeatedly_lets_others_finish() {
        for (conflicts, waits) in [(MAX_CONFLICTS - 1, false), (MAX_CONFLICTS, true)] {
            let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(Rival::default()));
            let rival: Arc<dyn Backend> = Arc::new(backend.other_process());
            backend.log.set(StreamLog::new(&rival, "session", 0)).unwrap();
            backend.appends.store(conflicts, Ordering::Relaxed);
            let own: Arc<dyn Backend> = Arc::clone(&backend) as _;
            let log = StreamLog::new(&own, "session", 0);
            let begun = Instant::now();
            let last = GeneralLog::new(log).append(&[vec![0]]).await;
            assert_eq!(last, Ok(conflicts as u64 + 1));
            assert_eq!(begun.elapsed() > Duration::ZERO, waits, "{conflicts}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_was_lost_begins_anew() {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::default());
        let general = GeneralLog::new(StreamLog::new(&backend, "session", 0));
        for expected in [1, 2, 1] {
            let entries = [vec![0]];
            let append = general.append(&entries);
            assert_eq!(timeout(Duration::from_secs(60), append).await, Ok(Ok(expected)));
            if expected == 2 {
                general.log.remove().await.unwrap();
            }
        }
    }

    /// A writer whose next append begins as soon as the last one has ended does not keep a response waiting.
    #[tokio::test(start_paused = true)]
    async fn a_response_does_not_wait_for_later_appends() {
        const DELAY: Duration = Duration::from_secs(1);
        let backend: Arc<dyn Backend> = Arc::new(TestBackend::<_, MemoryBackend>::new(DELAY));
        let general = GeneralLog::new(StreamLog::new(&backend, "session", 0));
        let begun = Instant::now();
        let appends = async { while general.append(&[vec![0]]).await.is_ok() {} };
        let settled = async {
            sleep(DELAY / 2).await;
            general.settled().await;
        };
        assert!(race(settled, appends).await.is_ok(), "an append has failed");
        let waited = begun.elapsed();
        assert!((DELAY..DELAY * 2).contains(&waited), "{waited:?}");
    }

    /// An append seemed to fail, and the search for its entries fails once it has passed them.
    #[tokio::test]
    async fn a_search_that_has_failed_starts_again() {
        let reads = AtomicUsize::new(0);
        let fails = move |operation: BackendOperation<'_>| match operation.method {
            BackendMethod::Read if reads.fetch_add(1, Ordering::Relaxed) == 1 => Err(unavailable()),
            _ => Ok(()),
        };
        let backend: Arc<dyn Backend> = Arc::new(TestBackend::<_, MemoryBackend>::new(Failing(fails)));
        let general = GeneralLog::new(StreamLog::new(&backend, "session", 0));
        let entries = [vec![0]];
        general.log.append(0, entries.to_vec(), MAX_LOGGED_BYTES, RUNNING_TTL).await.unwrap();
        for after in 1..=PAGE as u64 {
            general.log.keep_alive(after).await.unwrap();
        }
        assert_eq!(general.append(&entries).await, Err(unavailable()));
        assert_eq!(general.append(&entries).await, Ok(1));
    }
}
