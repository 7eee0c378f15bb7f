use std::sync::{Arc, Weak};

use tokio::time::{Instant, sleep, sleep_until};

use super::{
    collector::Collector,
    entry::Entry,
    feed::{Closed, Feed},
    item::StreamItem,
    local_entries::LocalFollower,
    log::{PAGE, RUNNING_TTL, StreamLog},
    reader::Reader,
    retry::MIN_RETRY,
};
use crate::{
    backend::{BackendError, LogEntry},
    engine::Session,
    race::race,
};

/// A response that carries the stream of a session for messages that belong to no request.
pub(super) struct GeneralResponse {
    pub(super) collector: Arc<Collector>,
    pub(super) log: StreamLog,
    /// The entries that this replica has appended to the log.
    pub(super) local: LocalFollower,
    pub(super) session: Weak<Session>,
    /// The number of the response.
    pub(super) number: u64,
    /// The position in the log.
    pub(super) at: u64,
    pub(super) reader: Reader,
    /// The time at which the client is notified of everything, unless the old [`Collector`] has written its pending
    /// notifications by then.
    pub(super) complete_at: Option<Instant>,
}

impl GeneralResponse {
    /// Follows the log until the response or the session ends.
    pub(super) async fn run(mut self, feed: Feed) {
        let _: Result<(), Closed> = self.follow(&feed).await;
        self.collector.outbox().close_reader();
        self.reader.close(feed.taken()).await;
    }

    async fn follow(&mut self, feed: &Feed) -> Result<(), Closed> {
        let mut renew_at = Instant::now() + RUNNING_TTL / 2;
        loop {
            match race(self.next(), feed.closed()).await {
                Ok(Ok(entries)) => {
                    self.send(&entries, feed).await?;
                    // More entries may follow a full page. The wait for the next entry ends at once if one exists.
                    if entries.len() < PAGE {
                        self.collector.want_changes();
                        if !self.collector.outbox().is_closed() {
                            self.wait(renew_at, feed).await?;
                        } else if entries.is_empty() {
                            return feed.send(StreamItem::End).await;
                        }
                    }
                }
                Ok(Err(error)) => {
                    tracing::debug!(%error, "cannot read an event stream from the backend");
                    let _ = race(sleep(MIN_RETRY), feed.closed()).await;
                }
                Err(()) => return Err(Closed),
            }
            let now = Instant::now();
            if self.complete_at.take_if(|at| *at <= now).is_some() {
                self.collector.complete();
                if let Some(session) = self.session.upgrade() {
                    session.renotify();
                }
            }
            if renew_at <= now {
                renew_at = now + RUNNING_TTL / 2;
                self.reader.renew(feed.taken()).await;
                if self.log.keep_alive(self.at).await.is_ok_and(|append| append.last().number() < self.at) {
                    // The backend has lost the log, and begins a new one.
                    self.at = 0;
                }
            }
        }
    }

    /// Waits until there may be further entries, or until something else is due.
    async fn wait(&self, renew_at: Instant, feed: &Feed) -> Result<(), Closed> {
        let due = self.complete_at.map_or(renew_at, |at| at.min(renew_at));
        let woken = race(sleep_until(due), self.collector.outbox().until_closed());
        let woken = race(self.log.appended(self.at), woken);
        let woken = race(self.local.appended(self.at), woken);
        let woken = race(woken, feed.closed()).await.map_err(|()| Closed)?;
        if let Err(Ok(Err(_))) = woken {
            sleep(MIN_RETRY).await;
        }
        Ok(())
    }

    /// Returns the next entries. Returns none if there are no newer ones.
    async fn next(&mut self) -> Result<Vec<LogEntry>, BackendError> {
        let mut entries = self.local.take(self.at);
        if entries.is_empty() {
            // An entry of this replica may be announced before its position arrives.
            self.local.settled().await;
            entries = self.local.take(self.at);
        }
        if entries.is_empty() { self.read().await } else { Ok(entries) }
    }

    async fn read(&mut self) -> Result<Vec<LogEntry>, BackendError> {
        if let Some(entries) = self.log.read(self.at).await? {
            return Ok(entries);
        }
        // The log does not exist. A new one begins at its start.
        self.at = 0;
        self.log.keep_alive(self.at).await?;
        Ok(self.log.read(self.at).await?.unwrap_or_default())
    }

    async fn send(&mut self, entries: &[LogEntry], feed: &Feed) -> Result<(), Closed> {
        for entry in entries {
            let position = entry.position.number();
            self.at = position;
            match Entry::decode(&entry.value) {
                Some(Entry::Message { line, .. }) => {
                    feed.send(StreamItem::Event { position, line: line.to_vec().into() }).await?;
                }
                Some(Entry::Flushed(number)) if number == self.number => {
                    self.complete_at = None;
                    self.collector.complete();
                }
                _ => {}
            }
        }
        Ok(())
    }
}
