//! Writes the streams of calls to their logs.

use std::{collections::VecDeque, future::poll_fn, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use super::{
    SessionStreams,
    log::{Cursor, Entry, EventHeader, MAX_PAUSE, RESULT_TOO_LONG, RUNNING_TTL, StreamLog, persist},
    responses::{Closed, Feed},
};
use crate::{
    backend::{Append, BACKEND_TIMEOUT, BackendError, Backoff, EventLogEntry, LogPosition},
    counters::Warnings,
    engine::{MeteredBytes, Outbox},
    revision::Dialect,
    stdx::race,
    transport::http::{
        session::StreamCalls,
        sse::{
            events::StreamItem,
            stream::{MAX_LOGGED_BYTES, MAX_LOGGED_MESSAGES, StreamMemory},
        },
    },
};

/// The time for which a response waits for entries that precede its own, and that cannot be read.
const MAX_GAP_TIME: Duration = Duration::from_secs(10);

/// The time for which the output of a call waits for a failing backend, without the time for which the process was stopped.
/// After this time, the output is sent without ids once another attempt to write it has failed, which takes a few seconds
/// at most.
const MAX_DELAY: Duration = Duration::from_secs(3);

impl SessionStreams {
    /// Creates the log of a stream. Returns the id of the stream, its log, and the position of the last entry.
    async fn create_log(&self, calls: &StreamCalls) -> Option<(u64, StreamLog, u64)> {
        let (replica, is_transient) = (&self.streams.replica, |error: &BackendError| *error != BackendError::Full);
        let slot = persist(|| replica.join(), is_transient).await?;
        let stream = replica.next_id(slot);
        let log = self.log(stream);
        persist(|| log.record(calls), is_transient).await?;
        let at = persist(|| log.keep_alive(0), is_transient).await?.last().number();
        Some((stream, log, at))
    }

    /// Moves the messages of a stream from its outbox to its log, and then to the response of the call as long as that
    /// exists. `lines` are messages that the outbox no longer contains. Runs until the stream is complete. Returns its id,
    /// unless it has no log. `unwritten` delays the shutdown until the answers are written.
    ///
    /// While the backend fails for a few seconds, no event is sent, and messages wait in the outbox, which drops
    /// notifications beyond its limit. A client can therefore resume the stream after any event that it has received.
    ///
    /// If the backend fails for longer, or is full, messages are sent without ids, and clients cannot resume the stream
    /// after these messages. The log receives them when the backend responds again, unless the log could not be created in
    /// time.
    pub(super) async fn pump(
        &self,
        calls: StreamCalls,
        outbox: Arc<Outbox>,
        mut lines: Vec<u8>,
        memory: StreamMemory,
        feed: Feed,
        unwritten: watch::Receiver<()>,
    ) -> Option<u64> {
        let created = timeout(BACKEND_TIMEOUT, self.create_log(&calls)).await.ok().flatten();
        let Some((stream, log, at)) = created else {
            static WARNINGS: Warnings = Warnings::new();
            if WARNINGS.is_due() {
                tracing::warn!("event streams cannot be resumed: the backend is full or has failed");
            }
            let _ = send_without_log(&outbox, &mut lines, &feed).await;
            return None;
        };
        let mut writer = Writer {
            log,
            calls,
            dialect: self.dialect,
            cursor: Cursor::new(at),
            pending: VecDeque::new(),
            pending_bytes: memory.count(0),
            header: EventHeader::default(),
            answer_bytes: 0,
            has_pending_answers: false,
            sent: EventHeader::default(),
            is_finished: false,
            failure: None,
            keep_at: Instant::now() + RUNNING_TTL / 2,
            feed: Some(feed),
        };
        writer.feed(StreamItem::Opened { stream }).await;
        let mut unwritten = Some(unwritten);
        while !writer.is_over() {
            writer.advance(&outbox, &mut lines).await;
            if writer.has_written_answers() {
                unwritten.take();
            }
        }
        Some(stream)
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

/// Writes the log of a stream, and sends what the log contains to the response of the call as long as that exists.
///
/// If the log cannot be written for some time, the response receives the messages without ids. They are written when
/// the backend responds again, so that clients can then resume the stream.
pub(super) struct Writer {
    log: StreamLog,
    calls: StreamCalls,
    dialect: &'static Dialect,
    /// The position and state of the log.
    cursor: Cursor,
    /// The entries that are still to be written. They come from the outbox, whose limits apply. Once the response has
    /// received them, they are bounded like the log.
    pending: VecDeque<Vec<u8>>,
    /// The bytes of the pending entries, which count towards the memory of all streams.
    pending_bytes: MeteredBytes,
    /// The header of the last event, including the pending events.
    header: EventHeader,
    /// The number of bytes of the entries that arrived together with the answers. The log keeps them beyond its limit, so
    /// that it never drops an answer.
    answer_bytes: usize,
    /// Whether the pending entries contain the answers.
    has_pending_answers: bool,
    /// The header of the last event whose message the response has received without an id.
    sent: EventHeader,
    /// Whether the last entry completes the stream.
    is_finished: bool,
    failure: Option<WriteFailure>,
    /// The next time at which to extend the lifetime of the log and of the record of its requests.
    keep_at: Instant,
    /// The response of the call. `None` once it is gone.
    feed: Option<Feed>,
}

impl Writer {
    /// Returns whether nothing is left to write: the log is complete, or has expired before it could be completed.
    pub(super) fn is_over(&self) -> bool {
        let has_expired = |failure: &WriteFailure| self.is_finished && failure.since.elapsed() > RUNNING_TTL;
        self.cursor.has_ended() || self.failure.as_ref().is_some_and(has_expired)
    }

    /// Returns whether every request has been answered, and the log contains the answers.
    pub(super) fn has_written_answers(&self) -> bool {
        self.header.is_answered && self.pending.is_empty()
    }

    /// Takes the next step: writes output, waits for more, or sends it without ids. `lines` contains messages that
    /// precede the messages of the outbox.
    pub(super) async fn advance(&mut self, outbox: &Outbox, lines: &mut Vec<u8>) {
        let is_failing = self.failure.as_ref().is_some_and(|failure| failure.is_long);
        // Output that is not collected waits in the outbox, which limits it.
        let collects = !self.is_finished && (self.pending.is_empty() || is_failing);
        if collects {
            self.collect(outbox, lines);
        }
        if is_failing {
            self.send_pending().await;
        }
        let due = match &self.failure {
            Some(failure) => failure.retry_at,
            None if self.pending.is_empty() => self.keep_at,
            None => Instant::now(),
        };
        if due <= Instant::now() {
            self.write().await;
        } else if collects {
            let _ = timeout_at(due, self.output(outbox)).await;
        } else {
            sleep_until(due).await;
        }
    }

    /// Waits until there is something to collect.
    async fn output(&self, outbox: &Outbox) {
        poll_fn(|cx| {
            let output = outbox.poll_output_or_close_request(cx);
            // Registered before the check, so that no change is missed.
            let is_answered = !self.header.is_answered && outbox.call_count() == 0;
            if is_answered || outbox.is_finished() { Poll::Ready(()) } else { output }
        })
        .await;
    }

    /// Moves the output of the calls to the pending entries.
    fn collect(&mut self, outbox: &Outbox, lines: &mut Vec<u8>) {
        outbox.drain(lines);
        let is_answered = outbox.call_count() == 0;
        if is_answered {
            // Its response may have arrived in the meantime.
            outbox.drain(lines);
        }
        self.is_finished = outbox.is_finished();
        let earlier = self.pending.len();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.header.number += 1;
            self.pending.push_back(Entry::Message { header: self.header, line }.encode());
        }
        lines.clear();
        let was_answered = std::mem::replace(&mut self.header.is_answered, is_answered);
        if is_answered && !was_answered {
            self.answer_bytes += self.pending.range(earlier..).map(Vec::len).sum::<usize>();
            self.has_pending_answers = true;
        }
        if self.is_finished {
            self.pending.push_back(Entry::End.encode());
        } else if is_answered && !was_answered {
            self.pending.push_back(Entry::Answered.encode());
        }
        if let Some(retry) = outbox.take_close_request().filter(|_| !self.is_finished) {
            self.header.number += 1;
            self.pending.push_back(Entry::Close { header: self.header, retry }.encode());
        }
        self.count_pending();
    }

    /// Sends the pending messages without ids, and drops the messages that the log would drop.
    async fn send_pending(&mut self) {
        let sent = self.sent.number;
        let message = |entry: &Vec<u8>| match Entry::decode(entry) {
            Some(Entry::Message { header, line }) if header.number > sent => {
                Some(StreamItem::Message { line: Bytes::copy_from_slice(line) })
            }
            _ => None,
        };
        for item in self.pending.iter().filter_map(message).collect::<Vec<_>>() {
            self.feed(item).await;
        }
        self.sent = self.header;
        if self.is_finished {
            self.feed(StreamItem::End).await;
            self.feed = None;
        }
        while self.pending.len() > MAX_LOGGED_MESSAGES
            || (self.pending.len() > 1 && self.pending_bytes() > MAX_LOGGED_BYTES + self.answer_bytes)
        {
            self.pending.pop_front();
        }
        self.count_pending();
    }

    /// Replaces the pending answers, and what precedes them, with errors.
    fn replace_answers(&mut self) {
        tracing::error!(
            bytes = self.answer_bytes,
            "the backend has no room for a response: a client that has lost its connection receives an error"
        );
        let error = self.calls.fail(self.dialect, RESULT_TOO_LONG);
        let header = EventHeader { is_answered: false, ..self.header };
        let last = if self.is_finished { Entry::End } else { Entry::Answered };
        self.pending = [Entry::Message { header, line: &error }.encode(), last.encode()].into();
        self.answer_bytes = 0;
        self.count_pending();
    }

    fn pending_bytes(&self) -> usize {
        self.pending.iter().map(Vec::len).sum()
    }

    fn count_pending(&mut self) {
        self.pending_bytes.set(self.pending_bytes());
    }

    /// Attempts to write the pending entries or, if there are none, to keep the log from expiring.
    async fn write(&mut self) {
        let began = Instant::now();
        let keeps = !self.is_finished && began >= self.keep_at;
        if self.pending.is_empty() {
            self.pending.push_back(Entry::Alive.encode());
        }
        match self.try_write(keeps, MAX_LOGGED_BYTES + self.answer_bytes).await {
            Ok(Append::Appended(_)) => {
                self.failure = None;
                self.has_pending_answers = false;
                let entries = Vec::from(std::mem::take(&mut self.pending));
                self.pending_bytes.set(0);
                if keeps {
                    self.keep_at = began + RUNNING_TTL / 2;
                }
                let own = (self.cursor.at() + 1..).zip(entries);
                let own = own.map(|(position, entry)| EventLogEntry::new(LogPosition::new(position), entry));
                self.accept(&own.collect::<Vec<_>>()).await;
            }
            Ok(Append::Conflict(last)) => {
                self.catch_up(last.number()).await;
                self.pending.retain(|entry| !self.cursor.contains(entry));
                self.count_pending();
                self.failure = None;
            }
            Err(error) => {
                let is_too_long = self.has_pending_answers && self.pending_bytes() > MAX_LOGGED_BYTES;
                if is_too_long && error == BackendError::Full {
                    self.send_pending().await;
                    self.replace_answers();
                }
                self.failure.get_or_insert_with(|| WriteFailure::new(began)).record(&error);
            }
        }
    }

    async fn try_write(&self, keeps: bool, max_bytes: usize) -> Result<Append, BackendError> {
        if keeps {
            self.log.record(&self.calls).await?;
        }
        let entries = self.pending.iter().cloned().collect();
        if self.is_finished {
            self.log.complete(self.cursor.at(), entries, max_bytes).await
        } else {
            self.log.append(self.cursor.at(), entries, max_bytes, RUNNING_TTL).await
        }
    }

    /// Moves to the last entry of a log that ends elsewhere than expected: an append that seemed to fail took effect,
    /// another replica has completed the stream because it found this replica gone, or the backend has lost the log.
    async fn catch_up(&mut self, last: u64) {
        if last < self.cursor.at() {
            tracing::warn!("the backend has lost the log of an event stream");
            self.cursor.rewind(0);
            // The record of the requests is gone, too. The fact that they were answered must be written again.
            self.keep_at = Instant::now();
            self.header.is_answered = false;
        }
        let deadline = Instant::now() + MAX_GAP_TIME;
        while self.cursor.at() < last && !self.cursor.has_ended() {
            let (log, after) = (&self.log, self.cursor.at());
            match timeout_at(deadline, persist(|| log.read(after), |_| true)).await {
                Ok(Some(Some(found))) if !found.is_empty() => self.accept(&found).await,
                // The backend has lost the log meanwhile, which the next append shows.
                Ok(Some(_)) => return,
                // The entries that the client must receive next are unknown. It may resume the stream.
                Ok(None) | Err(_) => {
                    self.feed = None;
                    return;
                }
            }
        }
    }

    async fn accept(&mut self, entries: &[EventLogEntry]) {
        for entry in entries {
            let before = self.cursor.number();
            let item = self.cursor.accept(entry);
            // An event without a number is the error that replaces the answers.
            let number = self.cursor.number();
            let was_sent = if number > before { number <= self.sent.number } else { self.sent.is_answered };
            if let Some(item) = item.filter(|_| !was_sent) {
                self.feed(item).await;
            }
        }
        if self.cursor.has_ended() {
            self.feed(StreamItem::End).await;
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

/// The time since which the log of a stream cannot be written.
struct WriteFailure {
    since: Instant,
    /// The time of the last attempt.
    last: Instant,
    /// The time for which attempts have failed. A process that was stopped for longer than its lease may find its calls
    /// answered by another replica, so one attempt counts as [`BACKEND_TIMEOUT`] at most.
    failed_for: Duration,
    backoff: Backoff,
    /// The time of the next attempt.
    retry_at: Instant,
    /// Whether output no longer waits for the backend.
    is_long: bool,
}

impl WriteFailure {
    fn new(since: Instant) -> Self {
        let (failed_for, backoff) = (Duration::ZERO, Backoff::up_to(MAX_PAUSE));
        Self { since, last: since, failed_for, backoff, retry_at: since, is_long: false }
    }

    /// Records an attempt that has failed.
    fn record(&mut self, error: &BackendError) {
        let now = Instant::now();
        self.failed_for += (now - std::mem::replace(&mut self.last, now)).min(BACKEND_TIMEOUT);
        self.retry_at = now + self.backoff.next();
        if !self.is_long && (*error == BackendError::Full || self.failed_for >= MAX_DELAY) {
            self.is_long = true;
            static WARNINGS: Warnings = Warnings::new();
            if WARNINGS.is_due() {
                tracing::warn!(%error, "events are sent without ids: the backend is full or has failed");
            }
        }
        tracing::debug!(%error, "cannot write an event stream to the backend");
    }
}
