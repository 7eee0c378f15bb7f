//! Streams of sessions that several processes share.
//!
//! The replica that received a call owns the stream of its response: its id contains the replica's slot. A `Writer`
//! writes the events to a log in the backend before any of them is sent, whether or not a response carries the stream.
//! The id of an event contains its position in the log, so a `Follower` at any replica can continue after it. The log
//! also decides everything on which replicas must agree: what follows the first entry that completes the stream does not
//! count, so the call of a replica that is gone is answered once.

mod follower;
mod general;
mod general_log;
mod log;
mod responses;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::{Arc, Weak};

use follower::Follower;
pub(super) use general::SessionStreams;
use log::StreamLog;
pub(super) use responses::ReaderRecord;
use responses::{Feed, FollowedEvents, OPEN_RESPONSES, OpenResponses};
use tokio::sync::watch;

use crate::{
    backend::BackendError, cluster::replica::Replica, engine::Slot, revision::Dialect,
    transport::http::sse::events::Resumption,
};

/// The streams that this replica shares with other replicas.
#[derive(Debug)]
pub(crate) struct ReplicaStreams {
    replica: Arc<Replica>,
    responses: OpenResponses,
    /// Has one receiver for each stream whose log does not contain all answers.
    unwritten: watch::Sender<()>,
}

impl ReplicaStreams {
    /// Creates the streams of a replica.
    pub(crate) fn new(replica: &Arc<Replica>) -> Arc<Self> {
        let (responses, unwritten) = (OpenResponses::default(), watch::Sender::new(()));
        let streams = Arc::new(Self { replica: Arc::clone(replica), responses, unwritten });
        let handler: Weak<Self> = Arc::downgrade(&streams);
        replica.add_handler(OPEN_RESPONSES, handler);
        streams
    }

    /// Waits until the logs contain the responses of all calls of this replica. This includes calls that are still in
    /// flight.
    pub(crate) async fn written(&self) {
        self.unwritten.closed().await;
    }

    /// Resumes a stream of a session after the event with a position. Any other response that carries the stream ends.
    async fn resume(
        self: &Arc<Self>,
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
        let number = self.replica.next_id(self.replica.join().await?);
        let registration = self.open_response(session, stream, number);
        registration.announce().await?;
        let (feed, items) = Feed::new(position);
        tokio::spawn(follower.run(feed));
        let events = FollowedEvents::resumed(position, items, registration);
        Ok(Resumption::Events(Box::new(events)))
    }
}
