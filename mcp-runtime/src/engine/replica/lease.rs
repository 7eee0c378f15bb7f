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
    valid_until: Instant,
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
                return Ok(Self { slot, key, instance, version, ttl, valid_until });
            }
        }
        Err(BackendError::Unavailable("no free number for the replica was found".to_owned()))
    }

    /// Renews the lease until that fails: until its time has passed, or until the record is gone.
    pub(super) async fn keep(&mut self, backend: &Arc<dyn Backend>) {
        let (interval, retry) = (self.ttl / 3, self.ttl / 20);
        let mut pause = interval;
        loop {
            sleep(pause).await;
            let valid_until = Instant::now() + self.ttl;
            match timeout_at(self.valid_until, self.renew(backend)).await {
                Ok(Ok(true)) => {
                    self.valid_until = valid_until;
                    pause = interval;
                }
                Ok(Ok(false)) => return,
                Ok(Err(error)) => {
                    if pause != retry {
                        tracing::warn!(%error, "cannot renew the lease of this replica: retrying");
                    }
                    pause = retry;
                }
                Err(_) => return,
            }
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
