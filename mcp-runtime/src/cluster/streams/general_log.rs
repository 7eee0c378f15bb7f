//! The log of the messages of a session that belong to no request, as this replica writes and reads it.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::Notify;

use super::log::{MAX_PAUSE, RUNNING_TTL, StreamLog};
use crate::{
    backend::{Append, BackendError, Backoff, EventLogEntry, LogPosition},
    stdx::{Mutex, wait_until},
    transport::http::sse::stream::MAX_LOGGED_BYTES,
};

/// The maximum size in bytes of the entries that wait for a response, and their maximum number. A response that does not
/// take them in time reads them from the log.
const MAX_BYTES: usize = 64 << 10;
const MAX_ENTRIES: usize = 64;

/// The number of appends in a row that may conflict with the appends of other replicas before the next append waits.
const MAX_CONFLICTS: usize = 4;

/// The log of the messages of a session that belong to no request, and the entries that this replica has appended to it,
/// for the responses of this replica that follow the log. The responses need not read entries from the backend that this
/// replica has just sent to it.
#[derive(Debug)]
pub(super) struct GeneralLog {
    pub(super) log: StreamLog,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The position of the last entry of the log, as far as this replica knows.
    at: u64,
    /// The number of responses that follow the log.
    followers: usize,
    /// The numbers of appends that have started, and that have their position or have failed.
    started: u64,
    finished: u64,
    entries: VecDeque<EventLogEntry>,
    bytes: usize,
}

/// A response that follows the log. Entries are only kept while there is one.
#[derive(Debug)]
pub(super) struct LocalFollower(Arc<GeneralLog>);

/// An append that waits for its position. Ends when dropped.
struct Appending<'a>(&'a GeneralLog);

impl GeneralLog {
    pub(super) fn new(log: StreamLog) -> Self {
        Self { log, state: Mutex::default(), changed: Notify::new() }
    }

    /// Adds a response that follows the log, until the returned value is dropped.
    pub(super) fn follow(self: &Arc<Self>) -> LocalFollower {
        self.state.lock().followers += 1;
        LocalFollower(Arc::clone(self))
    }

    /// Appends entries at the end of the log, and passes them to the response that follows the log. Does not append them
    /// again if they are in the log after an append that seemed to fail. Returns the position of the last one.
    pub(super) async fn append(&self, entries: &[Vec<u8>]) -> Result<u64, BackendError> {
        self.state.lock().started += 1;
        let _appending = Appending(self);
        let (mut backoff, mut conflicts) = (Backoff::up_to(MAX_PAUSE), 0);
        loop {
            if conflicts >= MAX_CONFLICTS {
                backoff.wait().await;
            }
            conflicts += 1;
            let at = self.state.lock().at;
            match self.log.append(at, entries.to_vec(), MAX_LOGGED_BYTES, RUNNING_TTL).await? {
                Append::Appended(last) => {
                    let mut state = self.state.lock();
                    state.at = last.number();
                    state.add(last.number(), entries);
                    return Ok(last.number());
                }
                Append::Conflict(last) => {
                    if let Some(last) = self.catch_up(last.number(), entries).await? {
                        return Ok(last);
                    }
                }
            }
        }
    }

    /// Moves to the last entry of the log. Returns the position of the last of the entries if the log contains them.
    async fn catch_up(&self, last: u64, entries: &[Vec<u8>]) -> Result<Option<u64>, BackendError> {
        let mut at = self.state.lock().at;
        if at > last {
            // The backend has lost the log, and begins a new one.
            at = 0;
        }
        let mut own = None;
        while at < last {
            let found = self.log.read(at).await?.unwrap_or_default();
            at = found.last().map_or(last, |entry| entry.position.number());
            let found = found.iter().find(|entry| entries.last().is_some_and(|last| *entry.value == **last));
            own = own.or(found.map(|entry| entry.position.number()));
        }
        self.state.lock().at = at;
        Ok(own)
    }

    /// Waits until `is_ready` returns `true`.
    async fn until(&self, is_ready: impl Fn(&State) -> bool) {
        wait_until(&self.changed, || is_ready(&self.state.lock()).then_some(())).await;
    }
}

impl LocalFollower {
    /// Waits until this replica has appended entries after a position.
    pub(super) async fn appended(&self, after: u64) {
        let is_after = |entry: &EventLogEntry| entry.position.number() > after;
        self.0.until(|state| state.entries.back().is_some_and(is_after)).await;
    }

    /// Waits until the append that waits for its position now has it. Does not wait for later appends.
    pub(super) async fn settled(&self) {
        let started = self.0.state.lock().started;
        self.0.until(|state| state.finished >= started).await;
    }

    /// Takes the entries that directly follow a position. All other entries of this replica must be read from the log,
    /// with the entries that other replicas have appended in between.
    pub(super) fn take(&self, after: u64) -> Vec<EventLogEntry> {
        let mut next = after + 1;
        let follows = |entry: &EventLogEntry| {
            let follows = entry.position.number() == next;
            next += u64::from(follows);
            follows
        };
        let entries = self.0.state.lock().take().into_iter();
        entries.skip_while(|entry| entry.position.number() <= after).take_while(follows).collect()
    }
}

impl State {
    fn add(&mut self, last: u64, entries: &[Vec<u8>]) {
        let first = (last + 1).saturating_sub(entries.len() as u64);
        let bytes = entries.iter().map(Vec::len).sum::<usize>();
        let fits = self.bytes + bytes <= MAX_BYTES && self.entries.len() + entries.len() <= MAX_ENTRIES;
        if fits && self.followers > 0 {
            self.bytes += bytes;
            let entry =
                |(position, entry): (u64, &Vec<u8>)| EventLogEntry::new(LogPosition::new(position), entry.as_slice());
            self.entries.extend((first..).zip(entries).map(entry));
        }
    }

    fn take(&mut self) -> VecDeque<EventLogEntry> {
        self.bytes = 0;
        std::mem::take(&mut self.entries)
    }
}

impl Drop for LocalFollower {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.followers -= 1;
        if state.followers == 0 {
            state.take();
        }
    }
}

impl Drop for Appending<'_> {
    fn drop(&mut self) {
        self.0.state.lock().finished += 1;
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        pin::pin,
        sync::{
            OnceLock,
            atomic::{AtomicUsize, Ordering},
        },
        task::Poll,
        time::Duration,
    };

    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::{
        backend::{Backend, BackendFuture, MemoryBackend},
        testing::test_backend::{BackendHook, BackendMethod, BackendOperation, TestBackend},
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
        let local = GeneralLog::new(StreamLog::new(&backend, "session", 0));
        for expected in [1, 2, 1] {
            let entries = [vec![0]];
            let append = local.append(&entries);
            assert_eq!(timeout(Duration::from_secs(60), append).await, Ok(Ok(expected)));
            if expected == 2 {
                local.log.remove().await.unwrap();
            }
        }
    }

    /// A writer whose next append begins as soon as the last one has ended does not keep a response waiting.
    #[tokio::test]
    async fn a_response_does_not_wait_for_later_appends() {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::default());
        let local = Arc::new(GeneralLog::new(StreamLog::new(&backend, "session", 0)));
        let follower = local.follow();
        let begin = || {
            local.state.lock().started += 1;
            Appending(&local)
        };
        let first = begin();
        let mut settled = pin!(follower.settled());
        poll_fn(|cx| {
            assert!(settled.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(first);
        let _second = begin();
        settled.await;
    }

    #[tokio::test]
    async fn a_response_takes_what_directly_follows_its_position() {
        let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::default());
        let local = Arc::new(GeneralLog::new(StreamLog::new(&backend, "session", 0)));
        let append = |entries: usize, length| {
            let (local, entries) = (&local, vec![vec![0; length]; entries]);
            async move { local.append(&entries).await.unwrap() }
        };
        let follower = local.follow();
        let take = |after| follower.take(after).iter().map(|entry| entry.position.number()).collect::<Vec<_>>();
        for (behind, expected) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 0)] {
            let last = append(3, 1).await;
            assert_eq!(take(last - behind), (last + 1 - expected..=last).collect::<Vec<_>>(), "{behind}");
            assert!(take(last - behind).is_empty(), "entries are taken once");
        }
        // Another replica writes in between.
        let first = append(1, 1).await;
        local.log.keep_alive(first).await.unwrap();
        append(1, 1).await;
        assert_eq!(take(first - 1), [first]);
        // Entries that do not fit are read from the log.
        for (entries, length) in [(MAX_ENTRIES + 1, 1), (1, MAX_BYTES + 1)] {
            let last = append(entries, length).await;
            assert!(take(last - entries as u64).is_empty());
        }
        drop(follower);
        append(1, 1).await;
        assert!(local.state.lock().entries.is_empty(), "the entry would never be taken");
    }
}
