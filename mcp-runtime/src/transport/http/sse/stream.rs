//! Event streams, and the logs from which clients resume them.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::{
    engine::{Meter, MeteredBytes, Outbox},
    stdx::{Mutex, wait_until},
    transport::http::peers::Peer,
};

/// The maximum number of messages in the log of one stream.
pub(crate) const MAX_LOGGED_MESSAGES: usize = 256;
/// The maximum number of bytes in the log of one stream. Long responses are kept beyond it.
pub(crate) const MAX_LOGGED_BYTES: usize = 1 << 20;
/// The factor by which requests and responses, without which calls would not end, may exceed these limits.
const ESSENTIAL_FACTOR: usize = 4;
/// The number of bytes that all streams of one server may keep for clients that may reconnect.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// The memory of all streams of one server: the messages in their logs and outboxes.
#[derive(Debug, Clone)]
pub(crate) struct StreamMemory {
    meter: Meter,
    pub(crate) max: usize,
}

impl StreamMemory {
    /// Returns the memory of the streams of one peer, whose use counts towards the total.
    pub(crate) fn of_peer(&self, peer: &Peer) -> Self {
        Self { meter: self.meter.with_part(&peer.stream_bytes), max: self.max }
    }

    /// Counts bytes until the returned value is dropped.
    pub(crate) fn count(&self, bytes: usize) -> MeteredBytes {
        self.meter.count(bytes)
    }

    /// Counts the unread bytes of an outbox.
    pub(crate) fn watch(&self, outbox: &Outbox) {
        outbox.set_meter(self.meter.clone());
    }

    /// Returns the number of bytes that all streams of the server use.
    pub(crate) fn used(&self) -> usize {
        self.meter.total()
    }

    /// Returns whether the limit is exceeded, so that logs must shrink.
    pub(crate) fn is_full(&self) -> bool {
        self.used() > self.max
    }
}

impl Default for StreamMemory {
    fn default() -> Self {
        Self { meter: Meter::default(), max: MAX_KEPT_BYTES }
    }
}

/// A stream of messages. It outlives the HTTP responses that carry it.
#[derive(Debug)]
pub(crate) struct EventStream {
    /// The id, which is unique in the session.
    pub(super) id: u64,
    outbox: Arc<Outbox>,
    /// Whether the stream ends once its outbox is settled. Otherwise it ends with its session.
    ends: bool,
    pub(crate) opened: Instant,
    /// The number of responses that have not ended, including those that were replaced.
    responses: AtomicUsize,
    log: Mutex<Log>,
    /// The signal that no response carries the stream any more.
    released: Notify,
}

#[derive(Debug)]
struct Log {
    memory: StreamMemory,
    /// The messages with the numbers of their events.
    events: VecDeque<(u64, Bytes)>,
    bytes: MeteredBytes,
    /// The number of the newest event.
    last: u64,
    /// The number of the event written last. Later events must not be dropped.
    written: u64,
    /// The number of responses that have carried the stream. Only the newest one may still do so.
    carrier: u64,
    is_carried: bool,
}

impl EventStream {
    pub(crate) fn new(id: u64, outbox: Arc<Outbox>, ends: bool, memory: &StreamMemory) -> Self {
        memory.watch(&outbox);
        let log = Mutex::new(Log::new(memory.clone()));
        Self { id, outbox, ends, opened: Instant::now(), responses: AtomicUsize::new(0), log, released: Notify::new() }
    }

    /// Returns whether the log contains every message the stream will ever carry.
    pub(crate) fn is_over(&self) -> bool {
        self.ends() && self.outbox.is_finished()
    }

    /// Returns whether no further output will be produced, and no response carries the stream. Streams of a session are
    /// resumed only with its state locked, so the result holds as long as the caller keeps the lock.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.responses.load(Ordering::Acquire) == 0 && self.ends() && self.outbox.is_complete()
    }

    /// Returns whether the stream ends once its outbox is settled.
    fn ends(&self) -> bool {
        self.ends || self.outbox.is_closed()
    }

    /// Returns whether there are messages that no response has carried.
    pub(crate) fn has_unsent(&self) -> bool {
        let log = self.log.lock();
        log.last > log.written || self.outbox.unread() > 0
    }

    /// Adds encoded lines to the log.
    pub(crate) fn append(&self, lines: &[u8]) {
        self.log.lock().append(lines);
    }

    /// Returns the number of the newest event.
    pub(crate) fn last(&self) -> u64 {
        self.log.lock().last
    }

    /// Returns the number of the last event handed to a response.
    pub(crate) fn written(&self) -> u64 {
        self.log.lock().written
    }

    /// Hands the stream over to a new response, which starts after event `at`, and returns the number of the response.
    /// Earlier responses receive nothing more. Each response must be [released](Self::release).
    pub(crate) fn carry(&self, at: u64) -> u64 {
        self.responses.fetch_add(1, Ordering::AcqRel);
        self.outbox.open_reader();
        let mut log = self.log.lock();
        log.carrier += 1;
        log.is_carried = true;
        log.written = at;
        self.outbox.wake();
        log.carrier
    }

    /// Records that a response has ended.
    pub(crate) fn release(&self, carrier: u64) {
        let mut log = self.log.lock();
        if log.carrier == carrier {
            log.is_carried = false;
            drop(log);
            self.released.notify_waiters();
        }
        self.responses.fetch_sub(1, Ordering::AcqRel);
        self.outbox.close_reader();
    }

    /// Returns a future that completes when a response that was replaced has to end.
    ///
    /// If the stream ends with its session, its client may read it on two connections. The client opens each of them
    /// again when it ends, so if each replaced the other, the replacements would never stop. Therefore, the earlier
    /// response stays open, without events, as long as another response carries the stream.
    pub(crate) fn replaced(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let stream = Arc::clone(self);
        async move {
            let has_to_end = || stream.ends || !stream.log.lock().is_carried;
            wait_until(&stream.released, || has_to_end().then_some(())).await;
        }
    }

    pub(crate) fn is_carried_by(&self, carrier: u64) -> bool {
        self.log.lock().carrier == carrier
    }

    /// Returns the message after event `at`. If the log does not contain it, moves pending output into the log first.
    pub(crate) fn after(&self, at: u64) -> Option<(u64, Bytes)> {
        let mut log = self.log.lock();
        let found = log.after(at).or_else(|| {
            let mut lines = Vec::new();
            self.outbox.drain(&mut lines).then(|| log.append(&lines))?;
            log.after(at)
        });
        if let Some((number, _)) = &found {
            log.written = *number;
            log.trim();
        }
        found
    }

    /// Takes the request of a function to close the stream. Returns the delay after which the client should reconnect.
    pub(crate) fn take_close_request(&self) -> Option<Duration> {
        self.outbox.take_close_request()
    }

    /// Waits for a message after event `at`, or for another response to take over the stream.
    pub(crate) fn poll_output(&self, carrier: u64, at: u64, cx: &mut Context<'_>) -> Poll<()> {
        // The lock is held throughout, so that only the response that carries the stream now registers its waker.
        let log = self.log.lock();
        if log.carrier != carrier || log.last > at {
            return Poll::Ready(());
        }
        self.outbox.poll_output_or_close_request(cx)
    }
}

impl Log {
    fn new(memory: StreamMemory) -> Self {
        let bytes = memory.count(0);
        Self { memory, events: VecDeque::new(), bytes, last: 0, written: 0, carrier: 0, is_carried: false }
    }

    fn append(&mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.last += 1;
            self.bytes.set(self.bytes.get() + line.len());
            self.events.push_back((self.last, Bytes::copy_from_slice(line)));
        }
    }

    fn after(&self, at: u64) -> Option<(u64, Bytes)> {
        let next = self.events.partition_point(|(number, _)| *number <= at);
        self.events.get(next).cloned()
    }

    /// Drops the oldest written messages while the log or the shared memory exceeds its limit, notifications first.
    fn trim(&mut self) {
        while self.exceeds_limit(1) {
            let is_full = self.memory.is_full() || self.exceeds_limit(ESSENTIAL_FACTOR);
            let written = self.events.partition_point(|(number, _)| *number < self.written);
            let oldest = self.events.iter().take(written).position(|(_, line)| is_notification(line));
            let Some(index) = oldest.or((is_full && written > 0).then_some(0)) else { return };
            let Some((_, dropped)) = self.events.remove(index) else { return };
            self.bytes.set(self.bytes.get() - dropped.len());
        }
    }

    /// Returns whether the log exceeds its limits multiplied by a factor, or the shared memory its own.
    fn exceeds_limit(&self, factor: usize) -> bool {
        self.events.len() > factor * MAX_LOGGED_MESSAGES
            || (self.events.len() > 1 && (self.bytes.get() > factor * MAX_LOGGED_BYTES || self.memory.is_full()))
    }
}

/// Returns whether a message of this server is a notification.
fn is_notification(line: &[u8]) -> bool {
    line.starts_with(br#"{"jsonrpc":"2.0","method":"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client may have lost all of them.
    #[test]
    fn requests_and_responses_stay_longer_than_notifications() {
        const QUESTION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}"#;
        const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;
        let essential = |stream: &EventStream| {
            let log = stream.log.lock();
            (log.events.iter().filter(|(_, line)| !is_notification(line)).count(), log.events.len())
        };
        let stream = EventStream::new(1, Outbox::for_test(), true, &StreamMemory::default());
        for (message, count, expected) in [
            (QUESTION, 2, (2, 2)),
            (NOTE, 1000, (2, MAX_LOGGED_MESSAGES)),
            (QUESTION, 400, (402, 402)),
            (QUESTION, 2000, (1024, 1024)),
        ] {
            for _ in 0..count {
                stream.append(format!("{message}\n").as_bytes());
                assert!(stream.after(stream.written()).is_some());
            }
            assert_eq!(essential(&stream), expected, "{count} times {message}");
        }
        // Even if other streams use up the memory.
        let memory = StreamMemory { max: 120, ..StreamMemory::default() };
        let stream = EventStream::new(1, Outbox::for_test(), true, &memory);
        for message in [QUESTION, NOTE, NOTE] {
            stream.append(format!("{message}\n").as_bytes());
            assert!(stream.after(stream.written()).is_some());
        }
        assert_eq!(essential(&stream), (1, 2));
    }

    /// The client may have lost what earlier responses have carried.
    #[test]
    fn events_after_the_start_of_a_response_are_unsent() {
        let stream = EventStream::new(1, Outbox::for_test(), true, &StreamMemory::default());
        stream.append(b"1\n2\n3\n");
        for start in [0, 2, 3, 1] {
            stream.carry(start);
            assert_eq!((stream.written(), stream.has_unsent()), (start, start < 3), "{start}");
            while stream.after(stream.written()).is_some() {}
            assert!(!stream.has_unsent(), "{start}");
        }
    }

    #[test]
    fn output_that_was_not_read_takes_memory_until_it_is_dropped() {
        let (memory, outbox) = (StreamMemory::default(), Outbox::for_test());
        let stream = EventStream::new(1, Arc::clone(&outbox), true, &memory);
        outbox.push(b"12345\n");
        assert_eq!(memory.used(), 6);
        drop((stream, outbox));
        assert_eq!(memory.used(), 0);
    }

    /// The client may lose its connection before it receives the event that was written last.
    #[test]
    fn the_event_written_last_stays_in_the_log() {
        for (count, length, max) in
            [(MAX_LOGGED_MESSAGES + 50, 1, MAX_KEPT_BYTES), (4, MAX_LOGGED_BYTES, MAX_KEPT_BYTES), (40, 10, 100)]
        {
            let memory = StreamMemory { max, ..StreamMemory::default() };
            let stream = EventStream::new(1, Outbox::for_test(), true, &memory);
            let line = format!("{}{}\n", r#"{"jsonrpc":"2.0","method":"#, "x".repeat(length));
            stream.append(line.repeat(count).as_bytes());
            for at in 0..count as u64 {
                assert_eq!(stream.after(at).map(|(number, _)| number), Some(at + 1));
                stream.carry(at);
                assert_eq!(stream.after(at).map(|(number, _)| number), Some(at + 1), "event {} was dropped", at + 1);
            }
            assert!(stream.log.lock().events.len() <= MAX_LOGGED_MESSAGES, "{count} messages");
            assert_eq!(memory.used(), stream.log.lock().bytes.get(), "{count} messages");
            assert!(!memory.is_full(), "{count} messages");
            drop(stream);
            assert_eq!(memory.used(), 0, "{count} messages");
        }
    }
}
