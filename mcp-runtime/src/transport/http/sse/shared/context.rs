use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use super::{
    carriers::{self, Carriers},
    kept::{self, KeptLogs},
    log::StreamLog,
};
use crate::{engine::Replica, transport::http::sse::stream::StreamMemory};

/// What all streams of this replica have in common.
#[derive(Debug)]
pub(super) struct StreamContext {
    pub(super) replica: Arc<Replica>,
    pub(super) carriers: Arc<Carriers>,
    next_number: AtomicU32,
    /// The logs of complete streams.
    kept: Mutex<KeptLogs>,
}

impl StreamContext {
    pub(super) fn new(replica: &Arc<Replica>) -> Self {
        let carriers = Arc::new(Carriers::new(Arc::clone(replica)));
        let handler = Arc::downgrade(&carriers);
        replica.add_handler(carriers::KIND, handler);
        Self { replica: Arc::clone(replica), carriers, next_number: AtomicU32::new(1), kept: Mutex::default() }
    }

    /// Returns the next number for an id of this replica.
    pub(super) fn next_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts the log of a complete stream, and removes others if there are too many.
    pub(super) async fn retire(&self, stream: kept::Stream, bytes: usize, memory: &StreamMemory) {
        let removed = self.kept.lock().unwrap_or_else(PoisonError::into_inner).add(stream, bytes, memory);
        remove(&self.replica, removed).await;
    }

    /// Removes the logs of the complete streams of a session, as far as this replica has written them.
    pub(super) fn remove_logs(&self, session: &str) {
        let removed = self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove_session(session);
        if !removed.is_empty() {
            let replica = Arc::clone(&self.replica);
            tokio::spawn(async move { remove(&replica, removed).await });
        }
    }
}

/// Removes logs. If that fails, they expire.
async fn remove(replica: &Replica, streams: Vec<kept::Stream>) {
    for (session, stream) in streams {
        let _ = StreamLog::new(replica.backend(), &session, stream).remove().await;
    }
}
