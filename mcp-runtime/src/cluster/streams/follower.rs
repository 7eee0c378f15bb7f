//! Reads the stream of a call from its log, at any replica.

use std::{collections::VecDeque, sync::Arc};

use tokio::time::{Instant, timeout_at};

use super::{
    log::{CALL_LOST, Cursor, MAX_PAUSE, PAGE, StreamLog},
    responses::{Closed, Feed},
};
use crate::{
    backend::{Append, BackendError, Backoff, EventLogEntry},
    cluster::replica::Replica,
    engine::Slot,
    revision::Dialect,
    stdx::race,
    transport::http::sse::events::StreamItem,
};

/// How often the lease of the owner is checked in the time of a lease.
const CHECKS: u32 = 10;

/// Follows the log of a stream, on behalf of a response that resumes the stream at any replica.
pub(super) struct Follower {
    replica: Arc<Replica>,
    log: StreamLog,
    owner: Slot,
    dialect: &'static Dialect,
    cursor: Cursor,
    /// The items that were read with the last entries. The number of entries that are read at once limits them.
    items: VecDeque<StreamItem>,
    /// Whether the log had no further entries when it was read last.
    is_at_end: bool,
    /// The time at which the lease of the owner is checked.
    check_at: Instant,
}

impl Follower {
    /// Continues a stream after the event with a position, or from its start at position 0. Returns `None` if there is
    /// no such stream or no such event.
    pub(super) async fn open(
        replica: &Arc<Replica>,
        log: StreamLog,
        owner: Slot,
        dialect: &'static Dialect,
        at: u64,
    ) -> Result<Option<Self>, BackendError> {
        // Starts with the known event, which shows that it exists.
        let before = at.saturating_sub(1);
        let Some(entries) = log.read(before).await?.filter(|entries| !entries.is_empty()) else { return Ok(None) };
        let replica = Arc::clone(replica);
        let mut follower = Self {
            replica,
            log,
            owner,
            dialect,
            cursor: Cursor::new(before),
            items: VecDeque::new(),
            is_at_end: entries.len() < PAGE,
            check_at: Instant::now(),
        };
        let known = entries.partition_point(|entry| entry.position.number() <= at);
        follower.accept(&entries[..known]);
        follower.items.clear();
        follower.accept(&entries[known..]);
        Ok(Some(follower))
    }

    /// Returns whether the client has received the whole stream.
    pub(super) fn is_complete(&self) -> bool {
        self.cursor.has_ended() && self.items.is_empty()
    }

    /// Runs until the stream or its response ends.
    pub(super) async fn run(mut self, feed: Feed) -> Result<(), Closed> {
        let mut backoff = Backoff::up_to(MAX_PAUSE);
        loop {
            while let Some(item) = self.items.pop_front() {
                feed.send(item).await?;
            }
            if self.cursor.has_ended() {
                return feed.send(StreamItem::End).await;
            }
            match race(self.advance(), feed.closed()).await {
                Ok(Ok(true)) => backoff.reset(),
                // The log or the record of its requests has expired.
                Ok(Ok(false)) => return Ok(()),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "cannot read an event stream from the backend");
                    let _ = race(backoff.wait(), feed.closed()).await;
                }
                Err(()) => return Err(Closed),
            }
        }
    }

    /// Reads the next entries. If there were none left, waits for them first, but not longer than until the lease of the
    /// owner is checked. Returns `false` if the log, or the record of the requests that must be answered, does not exist
    /// any more.
    async fn advance(&mut self) -> Result<bool, BackendError> {
        if self.is_at_end {
            match timeout_at(self.check_at, self.log.appended(self.cursor.at())).await {
                Ok(appended) => appended?,
                Err(_) => return self.check_owner().await,
            }
        }
        Ok(self.read().await?.is_some())
    }

    /// Reads the next entries. Returns whether there were any, or `None` if the log does not exist any more.
    async fn read(&mut self) -> Result<Option<bool>, BackendError> {
        let Some(entries) = self.log.read(self.cursor.at()).await? else { return Ok(None) };
        self.is_at_end = entries.len() < PAGE;
        self.accept(&entries);
        Ok(Some(!entries.is_empty()))
    }

    /// Completes the stream if its owner is gone. Returns `false` if that is not possible.
    async fn check_owner(&mut self) -> Result<bool, BackendError> {
        if self.replica.is_alive(self.owner).await? {
            self.check_at = Instant::now() + self.replica.lease() / CHECKS;
            // The announcement of an entry may have been lost.
            self.is_at_end = false;
            return Ok(true);
        }
        let Some(calls) = self.log.calls().await? else {
            // The owner has completed the stream in the meantime, or its requests are unknown.
            return Ok(self.read().await? == Some(true));
        };
        // If other followers find the same, or if the owner has written more meanwhile, their entries are read next.
        if let Append::Conflict(last) = self.log.lose(self.cursor.at(), &calls.fail(self.dialect, CALL_LOST)).await?
            && last.number() < self.cursor.at()
        {
            // The backend has lost the last entries.
            self.cursor.rewind(last.number());
        }
        self.is_at_end = false;
        Ok(true)
    }

    fn accept(&mut self, entries: &[EventLogEntry]) {
        self.items.extend(entries.iter().filter_map(|entry| self.cursor.accept(entry)));
    }
}
