use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};

use super::slot::Slot;
use crate::{
    backend::{Backend, BackendError, RecordCondition, RecordVersion, respond},
    random,
};

/// The number of slots that a replica tries to take before it gives up.
const MAX_ATTEMPTS: usize = 16;

/// A slot that belongs to a replica as long as it renews the slot's record in time.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) slot: Slot,
    key: String,
    /// The value of the record, which no other replica writes.
    instance: String,
    version: RecordVersion,
    ttl: Duration,
    /// The time until which the record exists. The other replicas see the slot expire at this time or later.
    pub(super) valid_until: Instant,
    /// The time until the next attempt to renew the record.
    pause: Duration,
}

impl Lease {
    /// Takes a free slot.
    pub(super) async fn acquire(backend: &Arc<dyn Backend>, ttl: Duration) -> Result<Self, BackendError> {
        let no_random = || BackendError::Unavailable("no random bytes for the number of the replica".to_owned());
        let instance = random::id().ok_or_else(no_random)?;
        for _ in 0..MAX_ATTEMPTS {
            let slot = Slot::random().ok_or_else(no_random)?;
            let key = slot.key();
            let valid_until = Instant::now() + ttl;
            let value = instance.clone().into_bytes();
            if let Some(version) = respond(backend.set(&key, RecordCondition::Absent, value, ttl)).await? {
                let pause = ttl / 3;
                return Ok(Self { slot, key, instance, version, ttl, valid_until, pause });
            }
        }
        Err(BackendError::Unavailable("no free number for the replica was found".to_owned()))
    }

    /// Waits until the lease is to be renewed, and renews it. Returns the time at which that was requested, or an error if
    /// it is tried again soon. Returns `None` if the lease is lost: its time has passed, or the record is gone.
    pub(super) async fn renewal(&mut self, backend: &Arc<dyn Backend>) -> Option<Result<Instant, BackendError>> {
        sleep(self.pause).await;
        let sent = Instant::now();
        match timeout_at(self.valid_until, self.renew(backend)).await {
            Ok(Ok(true)) => {
                self.valid_until = sent + self.ttl;
                self.pause = self.ttl / 3;
                Some(Ok(sent))
            }
            Ok(Err(error)) if Instant::now() < self.valid_until => {
                self.pause = self.ttl / 20;
                Some(Err(error))
            }
            _ => None,
        }
    }

    /// Renews the record. Returns `false` if it is gone.
    async fn renew(&mut self, backend: &Arc<dyn Backend>) -> Result<bool, BackendError> {
        loop {
            let value = self.instance.clone().into_bytes();
            let condition = RecordCondition::Version(self.version);
            if let Some(version) = respond(backend.set(&self.key, condition, value, self.ttl)).await? {
                self.version = version;
                return Ok(true);
            }
            // An earlier attempt that seemed to fail may have taken effect.
            match respond(backend.get(&self.key)).await? {
                Some(record) if *record.value == *self.instance.as_bytes() => self.version = record.version,
                _ => return Ok(false),
            }
        }
    }

    /// Deletes the record, so that the other replicas see at once that this one is gone.
    pub(super) async fn release(self, backend: &Arc<dyn Backend>) {
        if let Err(error) = respond(backend.delete(&self.key, RecordCondition::Version(self.version))).await {
            tracing::debug!(%error, "cannot release the lease of this replica");
        }
    }
}
