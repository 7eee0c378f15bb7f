use std::sync::{Arc, Weak};

use super::{
    calls::StreamCalls,
    carriers::GeneralStreams,
    context::StreamContext,
    events::{Resumption, SharedEvents},
    feed::Feed,
    follower::Follower,
    general::GeneralStream,
    log::StreamLog,
    pump::Pump,
};
use crate::{
    backend::{BackendError, respond},
    engine::{Outbox, Replica, Session, Slot},
    revision::Dialect,
    transport::http::sse::stream::StreamMemory,
};

/// The streams that this replica shares with others.
#[derive(Debug)]
pub(in crate::transport::http) struct SharedStreams {
    context: Arc<StreamContext>,
}

impl SharedStreams {
    /// Creates the streams of a replica. `general_streams` are those that [`start_general`](Self::start_general) has
    /// started, of the sessions that are in use.
    pub(in crate::transport::http) fn new(replica: &Arc<Replica>, general_streams: Weak<dyn GeneralStreams>) -> Self {
        Self { context: Arc::new(StreamContext::new(replica, general_streams)) }
    }

    /// Starts the stream of a session for messages that belong to no request. `is_collector` is whether this replica has
    /// opened the session, and `memory` is what the log counts towards.
    pub(in crate::transport::http) fn start_general(
        &self,
        session_id: &Arc<str>,
        session: &Arc<Session>,
        is_collector: bool,
        memory: StreamMemory,
    ) -> Arc<GeneralStream> {
        GeneralStream::start(&self.context, Arc::clone(session_id), session, is_collector, memory)
    }

    /// Opens a stream of a session for the responses that an outbox will receive. `lines` contains the messages so far.
    /// `memory` is what the log of the stream counts towards.
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
        let events = SharedEvents::unopened(&self.context.carriers, Arc::clone(&session_id), items);
        let context = Arc::clone(&self.context);
        let unwritten = context.start_writing();
        tokio::spawn(Pump { context, session_id, outbox, calls, dialect, lines, feed, memory, unwritten }.run());
        events
    }

    /// Waits until the logs contain the responses of all calls of this replica. This includes calls that are still in
    /// flight.
    pub(in crate::transport::http) async fn written(&self) {
        self.context.written().await;
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
        let StreamContext { replica, carriers, .. } = &*self.context;
        let log = StreamLog::new(replica.backend(), session, stream);
        let Some(follower) = Follower::open(replica, log, owner, dialect, position).await? else {
            return Ok(Resumption::Unknown);
        };
        if follower.is_complete() {
            return Ok(Resumption::Complete);
        }
        let number = replica.join().await?.id(self.context.next_number());
        let carrier = carriers.resume(session, stream, number);
        carrier.announce().await?;
        let (feed, items) = Feed::new(position);
        tokio::spawn(follower.run(feed));
        Ok(Resumption::Events(SharedEvents::resumed(carriers, session, stream, items, carrier)))
    }
}

#[cfg(test)]
impl SharedStreams {
    pub(super) fn replica(&self) -> &Arc<Replica> {
        &self.context.replica
    }

    pub(super) fn remove_logs(&self, session: &str) {
        self.context.remove_logs(session);
    }
}
