//! Waiting until the client of a session may receive requests, or until the session has ended.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{sleep, timeout};

use crate::{
    engine::{
        outbox::Outbox,
        pending_requests::session_ended,
        session::{Lifecycle, Session},
    },
    error::Fault,
    race::race,
};

/// The time between two checks whether a client reads at another replica.
const READER_INTERVAL: Duration = Duration::from_millis(200);

impl Lifecycle {
    /// Waits until a phase has begun.
    async fn begun(&self, phase: &AtomicBool) {
        loop {
            // Registered before the check, so that no change is missed.
            let changed = self.changed.notified();
            if phase.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }
}

impl Session {
    /// Waits until the client has sent `notifications/initialized`.
    pub(in crate::engine) async fn initialized(&self) {
        self.lifecycle.begun(&self.lifecycle.is_initialized).await;
    }

    /// Waits until the client has sent `notifications/initialized`. Until then, the server may send no requests except
    /// pings.
    ///
    /// # Errors
    ///
    /// Fails if the notification does not arrive within `limit`, or if the session ends first.
    pub(super) async fn until_initialized(&self, limit: Duration) -> Result<(), Fault> {
        if self.is_initialized() {
            return Ok(());
        }
        let initialized = timeout(limit, self.initialized());
        match race(initialized, self.ended()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(Fault::internal(format!(
                "the client has not sent `notifications/initialized` within {limit:?}, so no request can be sent to it"
            ))),
            Err(()) => Err(session_ended()),
        }
    }

    /// Waits until the client reads messages that belong to no request, and returns their outbox.
    ///
    /// # Errors
    ///
    /// Fails if the client does not open a stream for them within `limit`, or if the session ends first.
    pub(super) async fn until_read(&self, limit: Duration) -> Result<Arc<Outbox>, Fault> {
        if self.outbox.has_reader() {
            return Ok(Arc::clone(&self.outbox));
        }
        let read = race(self.outbox.until_read(), self.until_read_elsewhere());
        match race(timeout(limit, read), self.ended()).await {
            Ok(Ok(_)) => Ok(Arc::clone(&self.outbox)),
            Ok(Err(_)) => Err(Fault::internal(format!(
                "the client has not opened a stream for messages outside of calls within {limit:?}"
            ))),
            Err(()) => Err(session_ended()),
        }
    }

    /// Waits until the client reads messages that belong to no request at another replica, which receives what is sent
    /// here.
    async fn until_read_elsewhere(&self) {
        if self.pending_requests.replicas().is_none() {
            return pending().await;
        }
        while !self.is_read_elsewhere().await {
            sleep(READER_INTERVAL).await;
        }
    }

    /// Returns whether the client reads messages that belong to no request, here or at another replica. Returns `false`
    /// if the backend fails.
    pub(super) async fn is_read(&self) -> bool {
        self.outbox.has_reader() || self.is_read_elsewhere().await
    }

    async fn is_read_elsewhere(&self) -> bool {
        match self.pending_requests.replicas().zip(self.id()) {
            Some((replicas, id)) => replicas.is_read(id).await.unwrap_or(false),
            None => false,
        }
    }

    /// Waits until the session has ended.
    pub(in crate::engine) async fn ended(&self) {
        self.lifecycle.begun(&self.lifecycle.has_ended).await;
    }
}

#[cfg(all(test, feature = "cluster", feature = "http"))]
mod tests {
    use super::*;
    use crate::{backend::MemoryBackend, cluster::Cluster, testing::test_backend::TestBackend};

    #[tokio::test(start_paused = true)]
    async fn the_backend_is_seldom_asked_whether_the_client_reads_elsewhere() {
        let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(Duration::from_millis(1)));
        let session = Session::for_test();
        session.set_id(&"session".into());
        let replica = Cluster::for_test(Arc::clone(&backend) as _, Duration::from_secs(60));
        session.pending_requests.number_by(&replica);
        assert!(session.until_read(Duration::from_secs(4)).await.is_err());
        let operations = backend.operations();
        assert!((10..=30).contains(&operations), "{operations} in 4 seconds");
    }
}
