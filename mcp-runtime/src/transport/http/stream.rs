//! Streams of events, and the log that lets a client take one up again where it lost it.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{Interval, MissedTickBehavior, interval_at},
};

use super::{legacy::Leave, sessions::Busy};
use crate::engine::{InFlight, Meter, Outbox};

/// The most that the log of one stream keeps, in messages and in bytes.
const LOGGED: usize = 256;
const LOGGED_BYTES: usize = 1 << 20;
/// The most bytes that all streams of one server keep for clients that may come back.
const KEPT_IN_ALL: usize = 64 << 20;

/// What all streams of one server keep: the messages in their logs, and those that wait for a response to carry them.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    taken: Meter,
    pub(super) most: usize,
}

impl Memory {
    pub(super) fn new(most: usize) -> Self {
        Self { taken: Arc::default(), most }
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Says whether clients that come back must be content with less.
    pub(super) fn is_full(&self) -> bool {
        self.taken() > self.most
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(KEPT_IN_ALL)
    }
}

/// One stream of messages, which outlives the response that carries it.
#[derive(Debug)]
pub(super) struct Stream {
    /// Unique in its session.
    pub(super) id: u64,
    outbox: Arc<Outbox>,
    /// Whether it ends with the answers that it was opened for; one that does not ends with its session.
    ends: AtomicBool,
    pub(super) opened: Instant,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    memory: Memory,
    /// The messages, each with the number of its event.
    events: VecDeque<(u64, Bytes)>,
    bytes: usize,
    last: u64,
    /// The message that was written last; what comes after it must not be dropped.
    written: u64,
    /// Counts the responses that carried the stream; only the newest one does.
    carrier: u64,
}

impl Stream {
    pub(super) fn new(id: u64, outbox: Arc<Outbox>, ends: bool, memory: &Memory) -> Self {
        outbox.set_meter(Arc::clone(&memory.taken));
        let log = Mutex::new(Log::new(memory.clone()));
        Self { id, outbox, ends: AtomicBool::new(ends), opened: Instant::now(), log }
    }

    /// Ends it when what waits is written.
    pub(super) fn end(&self) {
        self.ends.store(true, Ordering::Release);
        self.outbox.wake();
    }

    /// Says whether everything that will ever come is in the log.
    pub(super) fn is_over(&self) -> bool {
        self.ends.load(Ordering::Acquire) && self.outbox.is_finished()
    }

    /// Says whether nothing more will come than is there.
    pub(super) fn is_complete(&self) -> bool {
        self.ends.load(Ordering::Acquire) && self.outbox.is_complete()
    }

    /// Says whether there is something that no response carried.
    pub(super) fn has_news(&self) -> bool {
        let log = self.log();
        log.last > log.written || self.outbox.unread() > 0
    }

    /// Makes a response that carries the stream from an event on; any that carried it before ends.
    fn carry(&self, at: u64) -> u64 {
        let mut log = self.log();
        log.carrier += 1;
        log.written = at;
        self.outbox.wake();
        log.carrier
    }

    pub(super) fn append(&self, lines: &[u8]) {
        self.log().append(lines);
    }

    /// The number of the event that came last.
    pub(super) fn last(&self) -> u64 {
        self.log().last
    }

    /// Takes the next message after an event, and brings what waits into the log where there is none.
    fn after(&self, at: u64) -> Option<(u64, Bytes)> {
        let mut log = self.log();
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

    /// The number of the event that was given to a response last.
    pub(super) fn written(&self) -> u64 {
        self.log().written
    }

    fn is_carried_by(&self, carrier: u64) -> bool {
        self.log().carrier == carrier
    }

    /// Waits until there is something after an event, or another response carries the stream.
    fn poll_output(&self, carrier: u64, at: u64, cx: &mut Context<'_>) -> Poll<()> {
        // Under one lock, so that only the response that carries the stream is woken.
        let log = self.log();
        if log.carrier != carrier || log.last > at {
            return Poll::Ready(());
        }
        self.outbox.poll_output_or_close_request(cx)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn new(memory: Memory) -> Self {
        Self { memory, events: VecDeque::new(), bytes: 0, last: 0, written: 0, carrier: 0 }
    }

    fn append(&mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.last += 1;
            self.bytes += line.len();
            self.memory.taken.fetch_add(line.len(), Ordering::Relaxed);
            self.events.push_back((self.last, Bytes::copy_from_slice(line)));
        }
    }

    fn after(&self, at: u64) -> Option<(u64, Bytes)> {
        let next = self.events.partition_point(|(number, _)| *number <= at);
        self.events.get(next).cloned()
    }

    /// Drops the oldest messages that were written, as far as there are too many.
    fn trim(&mut self) {
        while self.events.len() > LOGGED
            || (self.events.len() > 1 && (self.bytes > LOGGED_BYTES || self.memory.is_full()))
        {
            match self.events.front() {
                Some((number, line)) if *number < self.written => {
                    self.bytes -= line.len();
                    self.memory.taken.fetch_sub(line.len(), Ordering::Relaxed);
                }
                _ => return,
            }
            self.events.pop_front();
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// How a stream is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Whether events have ids, by which the client can resume.
    pub(super) ids: bool,
    /// Whether the stream begins with an event without a message, so that the client has an id early.
    pub(super) primed: bool,
    pub(super) keep_alive: Duration,
}

/// How far the server is on its way to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Closing {
    /// It serves.
    No,
    /// Requests that listen are answered; calls go on.
    Listens,
    /// Every stream ends.
    Everything,
}

/// One response that carries a stream.
#[derive(Debug)]
pub(super) struct Events {
    stream: Arc<Stream>,
    manner: Manner,
    carrier: u64,
    /// The event that was written last.
    at: u64,
    primed: bool,
    over: bool,
    ticks: Interval,
    closing: watch::Receiver<Closing>,
    /// What of the server's end ends this response.
    ends_at: Closing,
    closed: Option<Closed>,
    /// The calls that nobody else may ask about, which end with the response.
    cancels: Option<CancelOnDrop>,
    /// What comes first, for the transport of 2024-11-05, where events have names; the client is forgotten at the end.
    greeting: Option<Bytes>,
    leave: Option<Leave>,
    /// What must not be taken for idle while the response lasts.
    _busy: Option<Busy>,
}

/// The wait for the end of the server.
struct Closed(Pin<Box<dyn Future<Output = ()> + Send>>);

impl std::fmt::Debug for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Closed")
    }
}

/// Drops the calls of a stateless request when its response is given up.
#[derive(Debug)]
pub(super) struct CancelOnDrop(pub(super) Arc<InFlight>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel_all();
    }
}

impl Events {
    pub(super) fn new(stream: Arc<Stream>, manner: Manner, at: u64, closing: watch::Receiver<Closing>) -> Self {
        let mut ticks = interval_at(tokio::time::Instant::now() + manner.keep_alive, manner.keep_alive);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let carrier = stream.carry(at);
        Self {
            stream,
            manner,
            carrier,
            at,
            primed: !manner.primed,
            over: false,
            ticks,
            closing,
            ends_at: Closing::Everything,
            closed: None,
            cancels: None,
            greeting: None,
            leave: None,
            _busy: None,
        }
    }

    pub(super) fn cancelling(mut self, cancels: Option<CancelOnDrop>) -> Self {
        self.cancels = cancels;
        self
    }

    /// Says that the response is a request's that listens.
    pub(super) fn listening(mut self) -> Self {
        self.ends_at = Closing::Listens;
        self
    }

    pub(super) fn greeting(mut self, greeting: Bytes, leave: Leave) -> Self {
        self.greeting = Some(greeting);
        self.leave = Some(leave);
        self
    }

    pub(super) fn busy(mut self, busy: Option<Busy>) -> Self {
        self._busy = busy;
        self
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(greeting) = self.greeting.take() {
            return Poll::Ready(Some(greeting));
        }
        if self.over || !self.stream.is_carried_by(self.carrier) {
            return Poll::Ready(None);
        }
        if !std::mem::replace(&mut self.primed, true) {
            return Poll::Ready(Some(self.event(self.at, b"")));
        }
        loop {
            // Asked before the log is filled: what comes after has woken us.
            let is_over = self.stream.is_over();
            if let Some((number, line)) = self.stream.after(self.at) {
                self.at = number;
                return Poll::Ready(Some(self.event(number, &line)));
            }
            if is_over {
                self.over = true;
                return Poll::Ready(None);
            }
            // Without ids, the client could not come back.
            if let Some(retry) = self.stream.outbox.take_close_request().filter(|_| self.manner.ids) {
                // The stream goes on, its response does not.
                self.over = true;
                return Poll::Ready(Some(self.farewell(retry)));
            }
            if self.poll_closing(cx) {
                if self.cancels.as_ref().is_some_and(|cancels| cancels.0.end_listeners()) {
                    continue;
                }
                self.over = true;
                return Poll::Ready(None);
            }
            if self.ticks.poll_tick(cx).is_ready() {
                return Poll::Ready(Some(Bytes::from_static(b":\n\n")));
            }
            if self.stream.poll_output(self.carrier, self.at, cx).is_pending() {
                return Poll::Pending;
            }
            if !self.stream.is_carried_by(self.carrier) {
                return Poll::Ready(None);
            }
        }
    }

    fn poll_closing(&mut self, cx: &mut Context<'_>) -> bool {
        let ends_at = self.ends_at;
        if *self.closing.borrow() >= ends_at {
            return true;
        }
        let mut closing = self.closing.clone();
        let closed = self.closed.get_or_insert_with(|| {
            Closed(Box::pin(async move {
                let _ = closing.wait_for(|closing| *closing >= ends_at).await;
            }))
        });
        closed.0.as_mut().poll(cx).is_ready()
    }

    fn event(&self, number: u64, line: &[u8]) -> Bytes {
        let mut event = Vec::with_capacity(line.len() + 32);
        if self.manner.ids {
            event.extend_from_slice(format!("id: {}-{number}\n", self.stream.id).as_bytes());
        }
        if self.leave.is_some() {
            event.extend_from_slice(b"event: message\n");
        }
        event.extend_from_slice(b"data: ");
        event.extend_from_slice(line);
        event.extend_from_slice(b"\n\n");
        event.into()
    }

    /// Tells the client when to come back.
    fn farewell(&self, retry: Duration) -> Bytes {
        format!("retry: {}\nid: {}-{}\ndata: \n\n", retry.as_millis(), self.stream.id, self.at).into()
    }
}

/// Reads an event's id: the stream's, and the event's number.
pub(super) fn read_event_id(text: &str) -> Option<(u64, u64)> {
    let (stream, number) = text.split_once('-')?;
    Some((stream.parse().ok()?, number.parse().ok()?))
}
