use std::{collections::VecDeque, future::poll_fn, task::Poll};

use tokio::time::Instant;

use super::{
    calls::StreamCalls,
    cursor::Cursor,
    entry::Entry,
    feed::Feed,
    item::StreamItem,
    log::{RUNNING_TTL, StreamLog},
    retry::{persist, persist_unless_full},
};
use crate::{
    backend::{LogEntry, LogPosition},
    engine::Outbox,
    transport::http::sse::stream::{MAX_LOGGED_BYTES, MAX_LOGGED_MESSAGES},
};

/// Whether a stream goes on.
pub(super) enum Progress {
    Running,
    Complete,
}

/// The log of a stream cannot be continued: the backend is full, or has failed for too long.
pub(super) struct Unwritable;

/// Writes the log of a stream.
pub(super) struct Writer {
    pub(super) log: StreamLog,
    pub(super) calls: StreamCalls,
    /// What the log contains.
    cursor: Cursor,
    /// The number of messages written.
    number: u64,
    /// Whether the log says that every request has been answered.
    is_answered: bool,
    /// The time at which the log and the record of its requests are kept from expiring.
    pub(super) keep_at: Instant,
    /// The lengths of the entries that the log keeps, except for those that are dropped because of their length.
    sizes: VecDeque<usize>,
    /// The response of the call. `None` once it is gone.
    pub(super) feed: Option<Feed>,
}

impl Writer {
    /// Creates the writer of a log whose last entry has a position.
    pub(super) fn new(log: StreamLog, calls: StreamCalls, at: u64, feed: Feed) -> Self {
        Self {
            log,
            calls,
            cursor: Cursor::new(at),
            number: 0,
            is_answered: false,
            keep_at: Instant::now() + RUNNING_TTL / 2,
            sizes: VecDeque::new(),
            feed: Some(feed),
        }
    }

    /// Waits until there is something to write.
    pub(super) async fn output(&self, outbox: &Outbox) {
        poll_fn(|cx| {
            let output = outbox.poll_output_or_close_request(cx);
            // Registered before the check, so that no change is missed.
            let is_answered = !self.is_answered && outbox.call_count() == 0;
            if is_answered || outbox.is_finished() { Poll::Ready(()) } else { output }
        })
        .await;
    }

    /// Writes the output of the calls. On failure, `lines` contains what could not be written.
    pub(super) async fn write(&mut self, outbox: &Outbox, lines: &mut Vec<u8>) -> Result<Progress, Unwritable> {
        outbox.drain(lines);
        let is_answered = outbox.call_count() == 0;
        if is_answered {
            // Its response may have arrived in the meantime.
            outbox.drain(lines);
        }
        let is_finished = outbox.is_finished();
        let mut entries = Vec::new();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.number += 1;
            entries.push(Entry::Message { number: self.number, line }.encode());
        }
        if is_finished {
            entries.push(Entry::End.encode());
        } else if is_answered && !std::mem::replace(&mut self.is_answered, true) {
            entries.push(Entry::Answered.encode());
        }
        if let Some(retry) = outbox.take_close_request().filter(|_| !is_finished) {
            entries.push(Entry::Close(retry).encode());
        }
        if entries.is_empty() {
            return Ok(Progress::Running);
        }
        let log = &self.log;
        let written = if is_finished {
            persist_unless_full(|| log.complete(entries.clone())).await
        } else {
            persist_unless_full(|| log.append(entries.clone())).await
        };
        let last = written.ok_or(Unwritable)?;
        lines.clear();
        self.sizes.extend(entries.iter().map(Vec::len));
        self.sizes.drain(..self.sizes.len().saturating_sub(MAX_LOGGED_MESSAGES));
        Ok(self.publish(entries, last).await)
    }

    /// Returns the number of bytes that the log keeps.
    pub(super) fn kept_bytes(&self) -> usize {
        let limit = MAX_LOGGED_BYTES.max(self.sizes.back().copied().unwrap_or_default());
        self.sizes.iter().sum::<usize>().min(limit)
    }

    /// Keeps the log and the record of its requests from expiring.
    pub(super) async fn keep_alive(&mut self) -> Result<Progress, Unwritable> {
        let (log, calls) = (&self.log, &self.calls);
        let last = persist_unless_full(|| log.keep(calls)).await.ok_or(Unwritable)?;
        self.keep_at = Instant::now() + RUNNING_TTL / 2;
        Ok(self.publish(vec![Entry::Alive.encode()], last).await)
    }

    /// Sends the entries that the log contains now, up to its last one.
    async fn publish(&mut self, entries: Vec<Vec<u8>>, last: u64) -> Progress {
        let before = self.cursor.at();
        let first = (last + 1).saturating_sub(entries.len() as u64);
        if first > before + 1 {
            // An attempt that seemed to fail was successful, or another replica has found this one gone.
            while self.cursor.at() < last && !self.cursor.has_ended() {
                let log = &self.log;
                let after = self.cursor.at();
                match persist(|| log.read(after)).await {
                    Some(Some(found)) if !found.is_empty() => self.accept(&found).await,
                    _ => break,
                }
            }
        } else if first <= before {
            tracing::warn!("the backend has lost the log of an event stream");
            self.cursor = Cursor::new(first.saturating_sub(1));
            // The record of the requests is gone, too.
            self.keep_at = Instant::now();
        }
        let own = (first..).zip(entries).map(|(position, entry)| LogEntry::new(LogPosition::new(position), entry));
        self.accept(&own.collect::<Vec<_>>()).await;
        if self.cursor.has_ended() {
            self.feed(StreamItem::End).await;
            return Progress::Complete;
        }
        Progress::Running
    }

    async fn accept(&mut self, entries: &[LogEntry]) {
        for entry in entries {
            if let Some(item) = self.cursor.accept(entry) {
                self.feed(item).await;
            }
        }
    }

    /// Passes an item to the response, and waits while its client reads too slowly.
    pub(super) async fn feed(&mut self, item: StreamItem) {
        let Some(feed) = &self.feed else { return };
        if feed.send(item).await.is_err() {
            self.feed = None;
        }
    }
}
