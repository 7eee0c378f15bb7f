//! What is in work: bodies that are being read, calls that are not yet answered.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{HttpOptions, sessions::Sessions};
use crate::engine::Permit;

/// The places for calls, and the memory for bodies, over all clients.
#[derive(Debug)]
pub(super) struct Work {
    places: Arc<Semaphore>,
    most: usize,
    bodies: Arc<Semaphore>,
    receiving: watch::Sender<()>,
    sessions: Arc<Sessions>,
}

/// A call's place.
#[derive(Debug)]
struct Place {
    _permit: OwnedSemaphorePermit,
    sessions: Arc<Sessions>,
}

impl Work {
    pub(super) fn new(options: &HttpOptions, sessions: Arc<Sessions>) -> Self {
        Self {
            places: Arc::new(Semaphore::new(options.max_in_flight)),
            most: options.max_in_flight,
            bodies: Arc::new(Semaphore::new(options.body_memory())),
            receiving: watch::Sender::new(()),
            sessions,
        }
    }

    /// Gives a call its place; none if all are taken.
    pub(super) fn admit(&self) -> Option<Permit> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(Box::new(Place { _permit: permit, sessions: Arc::clone(&self.sessions) }))
    }

    /// Says whether there is a place for a call.
    pub(super) fn has_room(&self) -> bool {
        self.places.available_permits() > 0
    }

    /// Gives a body some of the memory for all of them; none if that is used up.
    pub(super) fn body_memory(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.bodies).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }

    /// Counts a message that is being received, until the receiver is dropped.
    pub(super) fn receiving(&self) -> watch::Receiver<()> {
        self.receiving.subscribe()
    }

    /// Waits until no message is being received, and every call has ended.
    pub(super) async fn settled(&self) {
        self.receiving.closed().await;
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        let _ = self.places.acquire_many(all).await;
    }
}

impl Drop for Place {
    /// The call has left its answer, which nobody may ever fetch.
    fn drop(&mut self) {
        self.sessions.relieve();
    }
}
