use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{
    calls::StreamCalls,
    cursor::Cursor,
    entry::Entry,
    feed::{Closed, Feed},
    log::{RUNNING_TTL, StreamLog},
    streams::{SharedStreams, StreamItem},
};
use crate::{
    backend::{BACKEND_TIMEOUT, BackendError, LogEntry, LogPosition},
    engine::Outbox,
    race::race,
    transport::http::{
        session::HttpSession,
        sse::stream::{MAX_LOGGED_BYTES, MAX_LOGGED_MESSAGES, StreamMemory},
    },
};

/// The times between two attempts to reach a backend that has failed.
pub(super) const MIN_RETRY: Duration = Duration::from_millis(50);
const MAX_RETRY: Duration = Duration::from_secs(1);

/// Moves the messages of a stream from its outbox to its log, and then to the response of the call as long as that
/// exists.
///
/// While the backend fails, no event is sent, and messages wait in the outbox, which drops notifications beyond its
/// limit. An event that a client has received can therefore be resumed from.
///
/// If the log cannot be created in time, or cannot be continued, the messages are sent without it, as events that
/// nobody can resume from.
pub(super) struct Pump {
    pub(super) streams: Arc<SharedStreams>,
    pub(super) session_id: Arc<str>,
    pub(super) session: Weak<HttpSession>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) calls: StreamCalls,
    /// The messages that the outbox no longer contains.
    pub(super) lines: Vec<u8>,
    pub(super) feed: Feed,
    pub(super) memory: StreamMemory,
}

impl Pump {
    /// Creates the log. Returns the id of the stream, its log, and the position of the last entry.
    async fn open(&self) -> Option<(u64, StreamLog, u64)> {
        let replica = self.streams.replica();
        let slot = persist_unless_full(|| replica.join()).await?;
        let stream = slot.id(self.streams.next_number());
        let log = StreamLog::new(replica.backend(), &self.session_id, stream);
        let at = persist_unless_full(|| log.keep(&self.calls)).await?;
        Some((stream, log, at))
    }

    /// Runs until the stream is complete.
    pub(super) async fn run(self) {
        let opened = timeout(BACKEND_TIMEOUT, self.open()).await.ok().flatten();
        let mut lines = self.lines;
        let Some((stream, log, at)) = opened else {
            tracing::warn!("an event stream cannot be resumed: the backend is full or has failed");
            let _ = send_without_log(&self.outbox, &mut lines, &self.feed).await;
            return;
        };
        let mut writer = Writer {
            log,
            calls: self.calls,
            cursor: Cursor::new(at),
            number: 0,
            is_answered: false,
            keep_at: Instant::now() + RUNNING_TTL / 2,
            sizes: VecDeque::new(),
            feed: Some(self.feed),
        };
        writer.feed(StreamItem::Opened { stream }).await;
        let written = loop {
            match writer.write(&self.outbox, &mut lines).await {
                Ok(Progress::Running) => {}
                result => break result,
            }
            // Output that never pauses must not prevent this.
            let waited = timeout_at(writer.keep_at, writer.output(&self.outbox)).await;
            if waited.is_err() || Instant::now() >= writer.keep_at {
                match writer.keep_alive().await {
                    Ok(Progress::Running) => {}
                    result => break result,
                }
            }
        };
        if let Err(Unwritable) = written {
            let sent = match &writer.feed {
                Some(feed) => send_without_log(&self.outbox, &mut lines, feed).await,
                None => Err(Closed),
            };
            if let (Err(Closed), Some(session)) = (sent, self.session.upgrade()) {
                // Otherwise, clients that resume the stream at other replicas would wait until its log expires.
                let lost = writer.calls.lost(session.session.info.dialect);
                let _ = writer.log.complete(vec![Entry::Lost(&lost).encode()]).await;
            }
        }
        let bytes = writer.kept_bytes();
        self.streams.retire((self.session_id, stream), bytes, &self.memory).await;
    }
}

/// Whether a stream goes on.
enum Progress {
    Running,
    Complete,
}

/// The log of a stream cannot be continued: the backend is full, or has failed for too long.
struct Unwritable;

/// Writes the log of a stream.
struct Writer {
    log: StreamLog,
    calls: StreamCalls,
    /// What the log contains.
    cursor: Cursor,
    /// The number of messages written.
    number: u64,
    /// Whether the log says that every request has been answered.
    is_answered: bool,
    /// The time at which the log and the record of its requests are kept from expiring.
    keep_at: Instant,
    /// The lengths of the entries that the log keeps, except for those that are dropped because of their length.
    sizes: VecDeque<usize>,
    /// The response of the call. `None` once it is gone.
    feed: Option<Feed>,
}

impl Writer {
    /// Waits until there is something to write.
    async fn output(&self, outbox: &Outbox) {
        poll_fn(|cx| {
            let output = outbox.poll_output_or_close_request(cx);
            // Registered before the check, so that no change is missed.
            let is_answered = !self.is_answered && outbox.call_count() == 0;
            if is_answered || outbox.is_finished() { Poll::Ready(()) } else { output }
        })
        .await;
    }

    /// Writes the output of the calls. On failure, `lines` contains what could not be written.
    async fn write(&mut self, outbox: &Outbox, lines: &mut Vec<u8>) -> Result<Progress, Unwritable> {
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
    fn kept_bytes(&self) -> usize {
        let limit = MAX_LOGGED_BYTES.max(self.sizes.back().copied().unwrap_or_default());
        self.sizes.iter().sum::<usize>().min(limit)
    }

    /// Keeps the log and the record of its requests from expiring.
    async fn keep_alive(&mut self) -> Result<Progress, Unwritable> {
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
    async fn feed(&mut self, item: StreamItem) {
        let Some(feed) = &self.feed else { return };
        if feed.send(item).await.is_err() {
            self.feed = None;
        }
    }
}

/// Sends messages to a response as long as it exists, until every request has been answered.
async fn send_without_log(outbox: &Outbox, lines: &mut Vec<u8>, feed: &Feed) -> Result<(), Closed> {
    loop {
        let is_finished = outbox.is_finished();
        outbox.drain(lines);
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            feed.send(StreamItem::Message { line: line.to_vec().into() }).await?;
        }
        lines.clear();
        if is_finished {
            return feed.send(StreamItem::End).await;
        }
        let output = poll_fn(|cx| {
            let output = outbox.poll_output(cx);
            // Registered before the check, so that the end is not missed.
            if outbox.is_finished() { Poll::Ready(()) } else { output }
        });
        race(output, feed.closed()).await.map_err(|()| Closed)?;
    }
}

/// Repeats an operation until it succeeds. Returns `None` if it fails for so long that the log expires.
pub(super) async fn persist<T, F: Future<Output = Result<T, BackendError>>>(operation: impl Fn() -> F) -> Option<T> {
    persist_while(operation, |_| true).await
}

/// Like [`persist`], but returns `None` at once if the backend is full.
async fn persist_unless_full<T, F: Future<Output = Result<T, BackendError>>>(operation: impl Fn() -> F) -> Option<T> {
    persist_while(operation, |error| !matches!(error, BackendError::Full)).await
}

async fn persist_while<T, F: Future<Output = Result<T, BackendError>>>(
    operation: impl Fn() -> F,
    is_transient: fn(&BackendError) -> bool,
) -> Option<T> {
    let give_up = Instant::now() + RUNNING_TTL;
    let mut retry = MIN_RETRY;
    loop {
        match operation().await {
            Ok(value) => return Some(value),
            Err(error) if !is_transient(&error) || Instant::now() > give_up => {
                tracing::error!(%error, "an event stream cannot be written to the backend");
                return None;
            }
            Err(error) => tracing::debug!(%error, "cannot write an event stream to the backend"),
        }
        sleep(retry).await;
        retry = (retry * 2).min(MAX_RETRY);
    }
}
