use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::Semaphore;

use super::{
    clients::{Client, Clients},
    message::{Content, KIND, Message, MessageId, Posted, Reply, encode_response, stored_key},
    seen::{PendingMessage, Seen},
};
use crate::{
    backend::respond,
    engine::Replica,
    transport::http::{
        request::HttpRequestSource,
        request_body,
        response::{self, HttpResponse},
        routing,
    },
};

/// The maximum number of replies that are being sent to POSTs that are not received. Further ones are not sent: the other
/// replica sends its POST again.
const MAX_REPLIES: usize = 1024;

/// Receives the POSTs that other replicas forward, as if they had arrived at the endpoint with the stream of their
/// session.
#[derive(Debug)]
pub(super) struct Inbox {
    replica: Arc<Replica>,
    clients: Arc<Clients>,
    /// One permit for each reply to a POST that is not received.
    replies: Arc<Semaphore>,
}

/// A POST that is being received.
struct ReceivedPost {
    client: Arc<Client>,
    source: Arc<HttpRequestSource>,
    session: String,
    content: Content,
    body: Bytes,
    pending: PendingMessage,
}

impl Inbox {
    pub(super) fn new(replica: &Arc<Replica>, clients: &Arc<Clients>) -> Self {
        let replies = Arc::new(Semaphore::new(MAX_REPLIES));
        Self { replica: Arc::clone(replica), clients: Arc::clone(clients), replies }
    }

    /// Takes a POST that another replica has forwarded.
    pub(super) fn take(&self, posted: Posted, body: &[u8]) {
        let Posted { id, waiting, session, content, head } = posted;
        let remote = head.remote;
        let Some(request) = head.into_request() else { return };
        let client = self.clients.get(&session).filter(|client| client.is_sender_of(&request));
        let Some(client) = client else { return self.reply(id, Some(routing::session_not_found())) };
        let pending = match client.seen.register(id, &waiting, Instant::now()) {
            Seen::New(pending) => pending,
            Seen::Pending => return self.reply(id, None),
            Seen::Accepted => return self.reply(id, Some(response::empty(StatusCode::ACCEPTED))),
            Seen::Rejected => return self.reply(id, Some(response::overloaded("the message was not received"))),
            Seen::Abandoned => return,
        };
        let endpoint = client.endpoint().for_remote(remote);
        let source = endpoint.request_source(request);
        let Some(permit) = endpoint.limits().admit_forwarded(source.peer()) else {
            return self
                .reply(id, Some(response::overloaded("too many messages of other processes are being received")));
        };
        let body = Bytes::copy_from_slice(body);
        let post = ReceivedPost { client, source, session, content, body, pending };
        let replica = Arc::clone(&self.replica);
        tokio::spawn(async move {
            let response = post.receive(&replica).await;
            send(&replica, id, Some(response)).await;
            drop(permit);
        });
    }

    /// Replies to a POST that is not received. Without a response, the POST is being received already.
    fn reply(&self, id: MessageId, response: Option<HttpResponse>) {
        let Ok(permit) = Arc::clone(&self.replies).try_acquire_owned() else { return };
        let replica = Arc::clone(&self.replica);
        tokio::spawn(async move {
            send(&replica, id, response).await;
            drop(permit);
        });
    }
}

impl ReceivedPost {
    async fn receive(self, replica: &Replica) -> HttpResponse {
        let response = self.try_receive(replica).await.unwrap_or_else(|rejection| *rejection);
        if response.status() == StatusCode::ACCEPTED {
            self.pending.accept();
        }
        response
    }

    async fn try_receive(&self, replica: &Replica) -> Result<HttpResponse, Box<HttpResponse>> {
        self.client.check_unread()?;
        let limits = self.client.endpoint().limits();
        // The shutdown waits for the message.
        let _receiving = limits.start_receiving();
        let bytes = match self.content {
            Content::Inline => self.body.len(),
            Content::Stored { bytes, .. } => bytes,
            Content::Check => return Ok(response::empty(StatusCode::ACCEPTED)),
        };
        self.source.keep_memory(request_body::reserve(limits, self.source.peer(), bytes)?);
        let stored = match self.content {
            Content::Stored { number, .. } => Some(self.load(replica, number).await?),
            Content::Inline | Content::Check => None,
        };
        Ok(self.client.receive(Arc::clone(&self.source), stored.as_ref().unwrap_or(&self.body)).await)
    }

    /// Reads a body that another replica has stored.
    async fn load(&self, replica: &Replica, number: u64) -> Result<Bytes, Box<HttpResponse>> {
        let found = respond(replica.backend().get(&stored_key(&self.session, number))).await;
        let found =
            found.map_err(|error| Box::new(response::overloaded_with(response::error_message(&error.into()))))?;
        // The other replica no longer waits for the response.
        found
            .map(|record| Bytes::from_owner(record.value))
            .ok_or_else(|| Box::new(response::overloaded("the message is no longer stored")))
    }
}

/// Sends a reply to the replica that has forwarded a POST.
async fn send(replica: &Replica, id: MessageId, response: Option<HttpResponse>) {
    let (reply, body) = match response {
        Some(response) => encode_response(response).await,
        None => (Reply::Pending, Bytes::new()),
    };
    let message = Message::Reply { number: id.number, reply }.encode(&body);
    if let Err(error) = replica.send(id.sender, KIND, &message).await {
        tracing::debug!(%error, "cannot send the response to a forwarded message");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Request, request::Parts};
    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        Server,
        backend::MemoryBackend,
        engine::{Connection, ReplicaHandler, Slot},
        transport::http::{
            endpoint::Endpoint,
            legacy::{message::Head, sessions::LegacySessions},
            options::HttpOptions,
            peers::Remote,
        },
    };

    /// The replies that a replica receives.
    struct Replies(mpsc::UnboundedSender<(u64, u16)>);

    impl ReplicaHandler for Replies {
        fn message(&self, payload: &[u8]) {
            let Some((Message::Reply { number, reply: Reply::Done { status, .. } }, _)) = Message::decode(payload)
            else {
                panic!("{payload:?}")
            };
            self.0.send((number, status)).unwrap();
        }

        fn missed(&self) {}
    }

    /// A replica that forwards messages to the session of another one.
    struct Sender {
        replica: Replica,
        slot: Slot,
        holder: Slot,
        session: Arc<str>,
        _handler: Arc<Replies>,
        replies: mpsc::UnboundedReceiver<(u64, u16)>,
    }

    impl Sender {
        async fn new(backend: Arc<MemoryBackend>, holder: Slot, session: Arc<str>) -> Self {
            let (replies, received) = mpsc::unbounded_channel();
            let handler = Arc::new(Replies(replies));
            let replica = Replica::new(backend, Duration::from_secs(60));
            let weak = Arc::downgrade(&handler);
            replica.add_handler(KIND, weak);
            let slot = replica.join().await.unwrap();
            Self { replica, slot, holder, session, _handler: handler, replies: received }
        }

        /// Returns the status of the response to a message for which alone the replica waits.
        async fn post(&mut self, number: u64) -> u16 {
            let id = MessageId { sender: self.slot, number };
            let head = Head::new(Remote::Unknown, &request());
            let (waiting, session) = (vec![number], self.session.to_string());
            let posted = Message::Posted(Box::new(Posted { id, waiting, session, content: Content::Inline, head }));
            let message = posted.encode(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
            self.replica.send(self.holder, KIND, &message).await.unwrap();
            let (replied, status) = self.replies.recv().await.unwrap();
            assert_eq!(replied, number);
            status
        }
    }

    fn request() -> Parts {
        Request::post("/message").body(()).unwrap().into_parts().0
    }

    #[tokio::test]
    async fn every_repetition_gets_the_reply_of_its_message() {
        let backend = Arc::<MemoryBackend>::default();
        let built = Server::empty("legacy", "1.0.0").backend(Arc::clone(&backend)).build().unwrap();
        let engine = Arc::clone(built.engine());
        // Its own sessions would reply as well.
        drop(built);
        let sessions = LegacySessions::new(&engine);
        let endpoint = Endpoint::new(Arc::clone(&engine), None, HttpOptions::default());
        let session = sessions.forwarder.as_ref().unwrap().new_id().await.unwrap();
        let permit = endpoint.sessions().reserve(endpoint.peer()).unwrap();
        let client = Client::new(&endpoint, &request(), Connection::new(Arc::clone(&engine)), permit);
        let _client = sessions.clients.insert(Arc::clone(&session), Arc::new(client));
        let holder = engine.replica().unwrap().join().await.unwrap();
        let mut sender = Sender::new(backend, holder, session).await;
        assert_eq!(sender.post(1).await, 202);
        let all = || endpoint.limits().admit_forwarded(endpoint.peer());
        let permits: Vec<_> = std::iter::from_fn(all).collect();
        assert_eq!(sender.post(1).await, 202);
        assert_eq!(sender.post(2).await, 503);
        drop(permits);
        // The client has been told to retry, so this copy must not be received.
        assert_eq!(sender.post(2).await, 503);
        assert_eq!(sender.post(3).await, 202);
    }
}
