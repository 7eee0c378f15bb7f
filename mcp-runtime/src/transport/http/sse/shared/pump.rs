use std::{
    future::poll_fn,
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};

use super::{
    calls::StreamCalls,
    cursor::Cursor,
    entry::Entry,
    feed::Feed,
    log::{RUNNING_TTL, StreamLog},
    streams::{SharedStreams, StreamItem},
};
use crate::{
    backend::{BackendError, LogEntry, LogPosition},
    engine::Outbox,
    transport::http::session::HttpSession,
};

/// The times between two attempts to reach a backend that has failed.
pub(super) const MIN_RETRY: Duration = Duration::from_millis(50);
const MAX_RETRY: Duration = Duration::from_secs(1);

/// Moves the messages of a stream from its outbox to its log, and then to the response of the call as long as that
/// exists.
///
/// While the backend fails, no event is sent, and messages wait in the outbox, which drops notifications beyond its
/// limit. An event that a client has received can therefore be resumed from, and a response is sent only if every
/// replica can know about it.
pub(super) struct Pump {
    pub(super) streams: Arc<SharedStreams>,
    pub(super) session_id: Arc<str>,
    pub(super) session: Weak<HttpSession>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) calls: StreamCalls,
    /// The messages that the outbox no longer contains.
    pub(super) lines: Vec<u8>,
    pub(super) feed: Feed,
}

impl Pump {
    /// Runs until the stream is complete.
    pub(super) async fn run(self) {
        let replica = self.streams.replica();
        let Some(slot) = persist(|| replica.join()).await else { return };
        let stream = slot.id(self.streams.next_number());
        let log = StreamLog::new(replica.backend(), &self.session_id, stream);
        let Some(at) = persist(|| log.keep(&self.calls)).await else { return };
        let mut writer = Writer {
            log,
            calls: self.calls,
            cursor: Cursor::new(at),
            number: 0,
            is_answered: false,
            feed: Some(self.feed),
        };
        writer.feed(StreamItem::Opened { stream }).await;
        let mut lines = self.lines;
        while writer.write(&self.outbox, &mut lines).await {
            if timeout(RUNNING_TTL / 2, writer.output(&self.outbox)).await.is_err() && !writer.keep_alive().await {
                break;
            }
        }
        // The log is not needed any more once the session has too many others.
        let retired = self.session.upgrade().and_then(|session| session.retire_stream(stream));
        if let Some(stream) = retired {
            let _ = StreamLog::new(self.streams.replica().backend(), &self.session_id, stream).remove().await;
        }
    }
}

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

    /// Writes the output of the calls. Returns `false` if the stream is complete, or if the backend has failed for too
    /// long.
    async fn write(&mut self, outbox: &Outbox, lines: &mut Vec<u8>) -> bool {
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
        lines.clear();
        if is_finished {
            entries.push(Entry::End.encode());
        } else if is_answered && !std::mem::replace(&mut self.is_answered, true) {
            entries.push(Entry::Answered.encode());
        }
        if let Some(retry) = outbox.take_close_request().filter(|_| !is_finished) {
            entries.push(Entry::Close(retry).encode());
        }
        if entries.is_empty() {
            return true;
        }
        let log = &self.log;
        let written = if is_finished {
            persist(|| log.complete(entries.clone())).await
        } else {
            persist(|| log.append(entries.clone())).await
        };
        match written {
            Some(last) => self.publish(entries, last).await,
            None => false,
        }
    }

    /// Keeps the log from expiring.
    async fn keep_alive(&mut self) -> bool {
        let (log, calls) = (&self.log, &self.calls);
        match persist(|| log.keep(calls)).await {
            Some(last) => self.publish(vec![Entry::Alive.encode()], last).await,
            None => false,
        }
    }

    /// Sends the entries that the log contains now, up to its last one. Returns `false` if the stream is complete.
    async fn publish(&mut self, entries: Vec<Vec<u8>>, last: u64) -> bool {
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
        }
        let own = (first..).zip(entries).map(|(position, entry)| LogEntry::new(LogPosition::new(position), entry));
        self.accept(&own.collect::<Vec<_>>()).await;
        if self.cursor.has_ended() {
            self.feed(StreamItem::End).await;
        }
        !self.cursor.has_ended()
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

/// Repeats an operation until it succeeds. Returns `None` if it fails for so long that the log expires.
pub(super) async fn persist<T, F: Future<Output = Result<T, BackendError>>>(operation: impl Fn() -> F) -> Option<T> {
    let give_up = Instant::now() + RUNNING_TTL;
    let mut retry = MIN_RETRY;
    loop {
        match operation().await {
            Ok(value) => return Some(value),
            Err(error) if Instant::now() > give_up => {
                tracing::error!(%error, "an event stream is lost: the backend has failed for too long");
                return None;
            }
            Err(error) => tracing::debug!(%error, "cannot write an event stream to the backend"),
        }
        sleep(retry).await;
        retry = (retry * 2).min(MAX_RETRY);
    }
}
