use std::sync::{Arc, Weak};

use http::{StatusCode, request::Parts};

use super::{
    awaited::AwaitedReplies,
    clients::Clients,
    inbox::Inbox,
    message::{Head, KIND, Message},
    outgoing::OutgoingPost,
};
use crate::{
    engine::{Engine, Replica, ReplicaHandler, Slot},
    error::Fault,
    transport::http::{
        endpoint::Endpoint,
        request_body::ReceivedBody,
        response::{self, HttpResponse},
        session::{is_id, new_id},
    },
};

/// The maximum size of the head of a forwarded POST, as it is encoded. With their heads and bodies, all POSTs that a
/// replica may forward at once fit into the queue of the other replica's topic.
const MAX_HEAD_BYTES: usize = 8 << 10;

/// Forwards POSTs to the replica that holds the stream of their session, and receives those that others forward.
///
/// The id of a session contains the [`Slot`] of that replica. It receives a forwarded POST as if it had arrived there,
/// and the response of the POST says what has become of it. A POST is sent again until there is a reply, and
/// [`SeenMessages`](super::seen::SeenMessages) recognizes repetitions. If the replica is gone, so is the session. Once a
/// POST has been sent, only a reply of the other replica may ask the client to retry: the message may have been
/// received.
#[derive(Debug)]
pub(super) struct Forwarder {
    replica: Arc<Replica>,
    clients: Arc<Clients>,
    inbox: Inbox,
    awaited: Arc<AwaitedReplies>,
}

impl Forwarder {
    /// Creates the forwarder of a server, or `None` if its backend is not shared.
    pub(super) fn new(engine: &Engine, clients: &Arc<Clients>) -> Option<Arc<Self>> {
        let replica = Arc::clone(engine.replica()?);
        let inbox = Inbox::new(&replica, clients);
        let forwarder = Arc::new(Self { replica, clients: Arc::clone(clients), inbox, awaited: Arc::default() });
        let handler: Weak<Self> = Arc::downgrade(&forwarder);
        forwarder.replica.add_handler(KIND, handler);
        Some(forwarder)
    }

    /// Returns the id of a new session whose stream this replica holds.
    pub(super) async fn new_id(&self) -> Result<Arc<str>, Fault> {
        let slot = self.replica.join().await?;
        let random = new_id().ok_or_else(|| Fault::overloaded("no session id could be generated"))?;
        Ok(format!("{slot}.{random}").into())
    }

    /// Returns whether the other replicas consider this one the holder of a session's stream.
    pub(super) fn holds(&self, id: &str) -> bool {
        slot_of(id).is_some_and(|slot| self.replica.slot() == Some(slot))
    }

    /// Returns the other replica that holds the stream of a session, if that exists.
    pub(super) fn holder_of(&self, id: &str) -> Option<Slot> {
        slot_of(id).filter(|slot| self.replica.slot() != Some(*slot))
    }

    /// Forwards a POST of the client of a connection, and returns the response.
    pub(super) async fn forward(
        &self,
        holder: Slot,
        session: &str,
        connection: &Endpoint,
        request: &Parts,
        body: ReceivedBody,
    ) -> HttpResponse {
        let Some(permit) = connection.limits().admit_forwarding(&connection.peer_of(request)) else {
            return response::overloaded("too many messages are being forwarded to other processes");
        };
        let head = Head::new(connection.remote(), request);
        if head.encoded_len() > MAX_HEAD_BYTES {
            let why = "the headers and the identity of the sender are too long to be forwarded to another process";
            return response::invalid_request(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, why);
        }
        let (replica, awaited) = (Arc::clone(&self.replica), Arc::clone(&self.awaited));
        let post = OutgoingPost { replica, awaited, holder, session: session.into(), head, _permit: permit };
        post.forward(body).await
    }
}

impl ReplicaHandler for Forwarder {
    fn message(&self, payload: &[u8]) {
        match Message::decode(payload) {
            Some((Message::Posted(posted), body)) => self.inbox.take(*posted, body),
            Some((Message::Reply { number, reply }, body)) => self.awaited.deliver(number, reply, body),
            None => {}
        }
    }

    /// Messages are sent again until there is a reply.
    fn missed(&self) {}

    /// The other replicas reject the messages of these sessions.
    fn lost(&self, slot: Slot) {
        let lost = Fault::internal(
            "the session has ended: the server could not reach the state that it shares with other processes in time",
        );
        self.clients.end_if(|id| slot_of(id) == Some(slot), &lost);
    }
}

/// Returns the slot in the id of a session.
fn slot_of(id: &str) -> Option<Slot> {
    let (slot, random) = id.split_once('.')?;
    if is_id(random) { Slot::parse(slot) } else { None }
}
