use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicU32, Ordering},
};

use tokio::sync::watch;

use super::{
    carriers::{self, Carriers, GeneralStreams},
    kept::{self, KeptLogs},
    log::StreamLog,
};
use crate::{
    engine::Replica,
    transport::http::sse::stream::{KeptBytes, StreamMemory},
};

/// The state that all streams of this replica share.
#[derive(Debug)]
pub(super) struct StreamContext {
    pub(super) replica: Arc<Replica>,
    pub(super) carriers: Arc<Carriers>,
    next_number: AtomicU32,
    /// The logs of complete streams.
    kept: Mutex<KeptLogs>,
    /// Has one receiver for each stream whose log does not contain all answers.
    unwritten: watch::Sender<()>,
}

impl StreamContext {
    pub(super) fn new(replica: &Arc<Replica>, general_streams: Weak<dyn GeneralStreams>) -> Self {
        let carriers = Arc::new(Carriers::new(Arc::clone(replica), general_streams));
        let handler = Arc::downgrade(&carriers);
        replica.add_handler(carriers::KIND, handler);
        Self {
            replica: Arc::clone(replica),
            carriers,
            next_number: AtomicU32::new(1),
            kept: Mutex::default(),
            unwritten: watch::Sender::new(()),
        }
    }

    /// Returns the next number for an id of this replica.
    pub(super) fn next_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers a stream whose log does not contain the answers to its requests, until the returned value is dropped.
    pub(super) fn start_writing(&self) -> watch::Receiver<()> {
        self.unwritten.subscribe()
    }

    /// Waits until the logs contain the answers to all requests.
    pub(super) async fn written(&self) {
        self.unwritten.closed().await;
    }

    /// Counts the log of a complete stream, and removes others if there are too many.
    pub(super) async fn retire(&self, stream: kept::Stream, bytes: KeptBytes, memory: &StreamMemory) {
        let removed = self.kept().add(stream, bytes, memory);
        remove(&self.replica, removed).await;
    }

    /// Removes logs of complete streams if the memory of all streams is full.
    pub(super) async fn evict(&self, memory: &StreamMemory) {
        if memory.is_full() {
            let removed = self.kept().evict(memory);
            remove(&self.replica, removed).await;
        }
    }

    /// Removes the logs of the complete streams of a session, which this replica has written.
    pub(super) fn remove_logs(&self, session: &str) {
        let removed = self.kept().remove_session(session);
        if !removed.is_empty() {
            let replica = Arc::clone(&self.replica);
            tokio::spawn(async move { remove(&replica, removed).await });
        }
    }

    fn kept(&self) -> MutexGuard<'_, KeptLogs> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes logs. If that fails, they expire.
async fn remove(replica: &Replica, streams: Vec<kept::Stream>) {
    for (session, stream) in streams {
        let _ = StreamLog::new(replica.backend(), &session, stream).remove().await;
    }
}
