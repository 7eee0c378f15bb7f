//! Limits over all clients of a server: calls in flight, and memory for request bodies.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{options::HttpOptions, session::Sessions};
use crate::engine::Permit;

/// The limits that all clients share. Requests that exceed them are rejected with status 503.
#[derive(Debug)]
pub(super) struct SharedLimits {
    calls: Arc<Semaphore>,
    max_calls: usize,
    /// One permit for each byte.
    body_memory: Arc<Semaphore>,
    /// The sender with one receiver for each message that is being received.
    receiving: watch::Sender<()>,
    sessions: Arc<Sessions>,
}

/// The permit of a call in flight.
#[derive(Debug)]
struct CallPermit {
    _permit: OwnedSemaphorePermit,
    sessions: Arc<Sessions>,
}

impl SharedLimits {
    pub(super) fn new(options: &HttpOptions, sessions: Arc<Sessions>) -> Self {
        Self {
            calls: Arc::new(Semaphore::new(options.max_in_flight)),
            max_calls: options.max_in_flight,
            body_memory: Arc::new(Semaphore::new(options.body_memory())),
            receiving: watch::Sender::new(()),
            sessions,
        }
    }

    /// Returns a permit for a call, or `None` if too many calls are in flight.
    pub(super) fn admit_call(&self) -> Option<Permit> {
        let permit = Arc::clone(&self.calls).try_acquire_owned().ok()?;
        Some(Box::new(CallPermit { _permit: permit, sessions: Arc::clone(&self.sessions) }))
    }

    /// Returns whether [`admit_call`](Self::admit_call) would succeed.
    pub(super) fn has_room(&self) -> bool {
        self.calls.available_permits() > 0
    }

    /// Reserves memory for a request body, or returns `None` if all of it is in use.
    pub(super) fn reserve_body_memory(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.body_memory).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }

    /// Registers a message that is being received, until the returned value is dropped.
    pub(super) fn start_receiving(&self) -> watch::Receiver<()> {
        self.receiving.subscribe()
    }

    /// Waits until no message is being received and no call is in flight.
    pub(super) async fn settled(&self) {
        self.receiving.closed().await;
        let all = u32::try_from(self.max_calls).unwrap_or(u32::MAX);
        let _ = self.calls.acquire_many(all).await;
    }
}

impl Drop for CallPermit {
    /// Evicts streams if memory is full, since the client of the finished call may never fetch its response.
    fn drop(&mut self) {
        self.sessions.evict_streams();
    }
}
