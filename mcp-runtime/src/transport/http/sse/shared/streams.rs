use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;

use super::{
    calls::StreamCalls,
    carriers::{self, Carrier, Carriers},
    feed::{Feed, FeedReceiver},
    follower::Follower,
    kept::{self, KeptLogs},
    log::StreamLog,
    pump::Pump,
};
use crate::{
    backend::BackendError,
    engine::{Outbox, Replica, Slot},
    revision::Dialect,
    transport::http::{session::HttpSession, sse::stream::StreamMemory},
};

/// The id of the stream for messages that belong to no request.
pub(in crate::transport::http) const GENERAL: u64 = 0;

/// The streams that this replica shares with others.
#[derive(Debug)]
pub(in crate::transport::http) struct SharedStreams {
    replica: Arc<Replica>,
    carriers: Arc<Carriers>,
    next_number: AtomicU32,
    /// The logs of complete streams.
    kept: Mutex<KeptLogs>,
}

/// What a response receives from a stream.
#[derive(Debug)]
pub(in crate::transport::http) enum StreamItem {
    /// The stream exists, so the client can resume it.
    Opened { stream: u64 },
    /// A message.
    Event { position: u64, line: Bytes },
    /// A message that no log contains, so that the client cannot resume the stream after it.
    Message { line: Bytes },
    /// The request of a function to close the response. The client should reconnect after a delay.
    Close { position: u64, retry: Duration },
    /// The stream is complete.
    End,
}

/// The events of a stream, for the response that carries it.
#[derive(Debug)]
pub(in crate::transport::http) struct SharedEvents {
    session: Arc<str>,
    /// The id of the stream, which is 0 until the stream is opened.
    stream: u64,
    items: FeedReceiver,
    carriers: Arc<Carriers>,
    /// The registration of the response, once the stream is opened.
    carrier: Option<Carrier>,
}

/// The result of a request to resume a stream.
#[derive(Debug)]
pub(in crate::transport::http) enum Resumption {
    Events(SharedEvents),
    /// The client has received everything.
    Complete,
    /// The event does not exist, or its stream has been removed.
    Unknown,
}

impl SharedStreams {
    pub(in crate::transport::http) fn new(replica: &Arc<Replica>) -> Self {
        let carriers = Arc::new(Carriers::new(Arc::clone(replica)));
        let handler = Arc::downgrade(&carriers);
        replica.add_handler(carriers::KIND, handler);
        Self { replica: Arc::clone(replica), carriers, next_number: AtomicU32::new(1), kept: Mutex::default() }
    }

    pub(super) fn replica(&self) -> &Arc<Replica> {
        &self.replica
    }

    pub(super) fn carriers(&self) -> &Arc<Carriers> {
        &self.carriers
    }

    /// Returns the next number for an id of this replica.
    pub(super) fn next_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts the log of a complete stream, and removes others if there are too many.
    pub(super) async fn retire(&self, stream: kept::Stream, bytes: usize, memory: &StreamMemory) {
        let removed = self.kept.lock().unwrap_or_else(PoisonError::into_inner).add(stream, bytes, memory);
        remove(&self.replica, removed).await;
    }

    /// Removes the logs of the complete streams of a session, as far as this replica has written them.
    pub(super) fn remove_logs(&self, session: &str) {
        let removed = self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove_session(session);
        if !removed.is_empty() {
            let replica = Arc::clone(&self.replica);
            tokio::spawn(async move { remove(&replica, removed).await });
        }
    }

    /// Opens a stream of a session for the responses that an outbox will receive. `lines` contains the messages so far.
    /// `memory` is what the log of the stream counts towards once it is complete.
    pub(in crate::transport::http) fn open(
        self: &Arc<Self>,
        session_id: Arc<str>,
        session: Weak<HttpSession>,
        calls: StreamCalls,
        outbox: Arc<Outbox>,
        lines: Vec<u8>,
        memory: StreamMemory,
    ) -> SharedEvents {
        let (feed, items) = Feed::new(0);
        let (streams, id) = (Arc::clone(self), Arc::clone(&session_id));
        let pump = Pump { streams, session_id: id, session, outbox, calls, lines, feed, memory };
        tokio::spawn(pump.run());
        self.events(&session_id, 0, items, None)
    }

    pub(super) fn events(
        &self,
        session: &Arc<str>,
        stream: u64,
        items: FeedReceiver,
        carrier: Option<Carrier>,
    ) -> SharedEvents {
        SharedEvents { session: Arc::clone(session), stream, items, carriers: Arc::clone(&self.carriers), carrier }
    }

    /// Resumes a stream of a session after the event with a position. Any other response that carries the stream ends.
    pub(in crate::transport::http) async fn resume(
        &self,
        session: &Arc<str>,
        stream: u64,
        position: u64,
        dialect: &'static Dialect,
    ) -> Result<Resumption, BackendError> {
        let Some(owner) = Slot::of_id(stream) else { return Ok(Resumption::Unknown) };
        let log = StreamLog::new(self.replica.backend(), session, stream);
        let Some(follower) = Follower::open(&self.replica, log, owner, dialect, position).await? else {
            return Ok(Resumption::Unknown);
        };
        if follower.is_complete() {
            return Ok(Resumption::Complete);
        }
        let number = self.replica.join().await?.id(self.next_number());
        let carrier = self.carriers.resume(&self.replica, session, stream, number).await?;
        let (feed, items) = Feed::new(position);
        tokio::spawn(follower.run(feed));
        Ok(Resumption::Events(self.events(session, stream, items, Some(carrier))))
    }
}

/// Removes logs. If that fails, they expire.
async fn remove(replica: &Replica, streams: Vec<kept::Stream>) {
    for (session, stream) in streams {
        let _ = StreamLog::new(replica.backend(), &session, stream).remove().await;
    }
}

impl StreamItem {
    /// Returns the length of the message.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Event { line, .. } | Self::Message { line } => line.len(),
            _ => 0,
        }
    }
}

impl SharedEvents {
    /// Returns the id of the stream.
    pub(in crate::transport::http) fn stream(&self) -> u64 {
        self.stream
    }

    /// Returns the next item. Returns `None` if the response ends without the stream, for example because another one
    /// carries it.
    pub(in crate::transport::http) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        if self.carrier.as_mut().is_some_and(|carrier| carrier.poll_ended(cx).is_ready()) {
            return Poll::Ready(None);
        }
        let item = ready!(self.items.poll_next(cx));
        if let Some(StreamItem::Opened { stream }) = item {
            self.stream = stream;
            self.carrier = Some(self.carriers.begin(&self.session, stream));
        }
        Poll::Ready(item)
    }
}
