use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tokio::sync::watch;

use super::{
    calls::StreamCalls,
    events::{Resumption, SharedEvents},
    feed::Feed,
    follower::Follower,
    general::GeneralStream,
    log::StreamLog,
    open_responses::{self, OpenResponses},
    pump::Pump,
};
use crate::{
    backend::{BackendError, respond},
    engine::{Outbox, Replica, Session, Slot},
    revision::Dialect,
    transport::http::sse::stream::StreamMemory,
};

/// The state that all streams of this replica share.
#[derive(Debug)]
pub(super) struct StreamContext {
    pub(super) replica: Arc<Replica>,
    pub(super) responses: Arc<OpenResponses>,
    next_number: AtomicU32,
    /// Has one receiver for each stream whose log does not contain all answers.
    unwritten: watch::Sender<()>,
}

impl StreamContext {
    /// Returns the next number for an id of this replica.
    pub(super) fn next_number(&self) -> u32 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }
}

/// The streams that this replica shares with others.
#[derive(Debug)]
pub(in crate::transport::http) struct SharedStreams {
    context: Arc<StreamContext>,
}

impl SharedStreams {
    /// Creates the streams of a replica.
    pub(in crate::transport::http) fn new(replica: &Arc<Replica>) -> Self {
        let responses = Arc::new(OpenResponses::new(Arc::clone(replica)));
        let handler = Arc::downgrade(&responses);
        replica.add_handler(open_responses::KIND, handler);
        let (replica, next_number, unwritten) = (Arc::clone(replica), AtomicU32::new(1), watch::Sender::new(()));
        Self { context: Arc::new(StreamContext { replica, responses, next_number, unwritten }) }
    }

    /// Starts the stream of a session for messages that belong to no request.
    pub(in crate::transport::http) fn start_general(&self, id: &Arc<str>, session: &Session) -> Arc<GeneralStream> {
        GeneralStream::start(&self.context, Arc::clone(id), Arc::clone(&session.outbox))
    }

    /// Opens a stream of a session for the responses that an outbox will receive. `lines` contains the messages so far.
    /// `memory` is what the messages that wait for
    /// the backend count towards.
    pub(in crate::transport::http) fn open(
        &self,
        session_id: Arc<str>,
        calls: StreamCalls,
        dialect: &'static Dialect,
        outbox: Arc<Outbox>,
        lines: Vec<u8>,
        memory: StreamMemory,
    ) -> SharedEvents {
        let (feed, items) = Feed::new(0);
        let events = SharedEvents::unopened(&self.context.responses, Arc::clone(&session_id), items);
        let context = Arc::clone(&self.context);
        let unwritten = context.unwritten.subscribe();
        tokio::spawn(Pump { context, session_id, outbox, calls, dialect, lines, feed, memory, unwritten }.run());
        events
    }

    /// Waits until the logs contain the responses of all calls of this replica. This includes calls that are still in
    /// flight.
    pub(in crate::transport::http) async fn written(&self) {
        self.context.unwritten.closed().await;
    }

    /// Resumes a stream of a session after the event with a position. Any other response that carries the stream ends.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails, or takes too long for all operations together.
    pub(in crate::transport::http) async fn resume(
        &self,
        session: &Arc<str>,
        stream: u64,
        position: u64,
        dialect: &'static Dialect,
    ) -> Result<Resumption, BackendError> {
        respond(self.try_resume(session, stream, position, dialect)).await
    }

    async fn try_resume(
        &self,
        session: &Arc<str>,
        stream: u64,
        position: u64,
        dialect: &'static Dialect,
    ) -> Result<Resumption, BackendError> {
        let Some(owner) = Slot::of_id(stream) else { return Ok(Resumption::Unknown) };
        let StreamContext { replica, responses, .. } = &*self.context;
        let log = StreamLog::new(replica.backend(), session, stream);
        let Some(follower) = Follower::open(replica, log, owner, dialect, position).await? else {
            return Ok(Resumption::Unknown);
        };
        if follower.is_complete() {
            return Ok(Resumption::Complete);
        }
        let number = replica.join().await?.id(self.context.next_number());
        let registration = responses.resume(session, stream, number);
        registration.announce().await?;
        let (feed, items) = Feed::new(position);
        tokio::spawn(follower.run(feed));
        Ok(Resumption::Events(SharedEvents::resumed(responses, session, stream, items, registration)))
    }
}

#[cfg(test)]
impl SharedStreams {
    pub(super) fn replica(&self) -> &Arc<Replica> {
        &self.context.replica
    }
}
