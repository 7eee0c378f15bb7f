use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bytes::Bytes;
use http::{StatusCode, request::Parts};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{
    clients::{Client, Clients},
    message::{Content, Head, Message, Posted, Reply, decode_response, encode_response},
    received::Receipt,
};
use crate::{
    backend::{BACKEND_TIMEOUT, BackendError, RecordCondition, respond},
    engine::{Replica, ReplicaHandler, Slot},
    error::Fault,
    transport::http::{
        endpoint::Endpoint,
        request::HttpRequestSource,
        request_body,
        response::{self, HttpResponse},
        routing,
        session::{is_id, new_id},
    },
};

/// The kind of the messages between replicas.
const KIND: &str = "legacy";

/// The maximum size of a body that is part of the message to the other replica. Larger ones are records.
const MAX_INLINE_BYTES: usize = 4 << 10;

/// The maximum number of bodies of one session that are records. Further ones are rejected.
const MAX_STORED: usize = 16;

/// The time after which such a record expires if nobody deletes it.
const STORED_TTL: Duration = Duration::from_secs(30);

/// The time after which a message without a reply is sent again, since topics may lose it or the reply.
const REPEAT_AFTER: Duration = Duration::from_millis(250);

/// Forwards POSTs to the replica that holds the stream of their session, and receives those that others forward.
///
/// The id of a session contains the [`Slot`] of that replica. It receives a forwarded POST as if it had arrived there,
/// and the response of the POST says what has become of it. A POST is sent again until there is a reply, and
/// [`Received`](super::received::Received) recognizes repetitions. If the replica is gone, so is the session. Once a
/// POST has been sent, only a reply of the other replica may ask the client to retry: the message may have been
/// received.
#[derive(Debug)]
pub(super) struct Forwarder {
    this: Weak<Self>,
    replica: Arc<Replica>,
    endpoint: Endpoint,
    clients: Arc<Clients>,
    /// The POSTs that wait for a reply, each of which has a permit.
    waiting: Mutex<HashMap<u64, mpsc::Sender<(Reply, Bytes)>>>,
}

/// A POST that waits for a reply.
struct Waiting<'a> {
    forwarder: &'a Forwarder,
    number: u64,
    replies: mpsc::Receiver<(Reply, Bytes)>,
}

impl Forwarder {
    /// Creates the forwarder of an endpoint, or `None` if its backend is not shared.
    pub(super) fn new(endpoint: &Endpoint, clients: &Arc<Clients>) -> Option<Arc<Self>> {
        let replica = Arc::clone(endpoint.engine().replica()?);
        let forwarder = Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            replica,
            endpoint: endpoint.clone(),
            clients: Arc::clone(clients),
            waiting: Mutex::default(),
        });
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
        body: &[u8],
    ) -> HttpResponse {
        let Some(_permit) = connection.limits().admit_forwarding(&connection.peer_of(request)) else {
            return response::overloaded("too many messages are being forwarded to other processes");
        };
        let head = Head::new(connection.remote(), request);
        let forwarded = if body.len() <= MAX_INLINE_BYTES {
            self.post(holder, session, &head, Content::Inline, body).await
        } else {
            self.post_stored(holder, session, &head, body).await
        };
        match forwarded {
            Ok(Some(response)) => response,
            Ok(None) => no_reply(),
            Err(error) => response::overloaded_with(response::error_message(&error.into())),
        }
    }

    /// Forwards a POST whose body is too long for a message.
    async fn post_stored(
        &self,
        holder: Slot,
        session: &str,
        head: &Head,
        body: &[u8],
    ) -> Result<Option<HttpResponse>, BackendError> {
        // Only the client of a session can make replicas store bodies.
        let expected = self.post(holder, session, head, Content::Announced, &[]).await?;
        let expected = expected
            .unwrap_or_else(|| response::overloaded("the process with the stream of this session does not respond"));
        if expected.status() != StatusCode::ACCEPTED {
            return Ok(Some(expected));
        }
        let backend = self.replica.backend();
        if respond(backend.count(&stored_group(session))).await? >= MAX_STORED {
            return Err(BackendError::Full);
        }
        let number = self.new_number()?;
        let key = stored_key(session, number);
        respond(backend.set(&key, RecordCondition::Absent, body.to_vec(), STORED_TTL)).await?;
        let content = Content::Stored { number, bytes: body.len() };
        let response = self.post(holder, session, head, content, &[]).await;
        // If this fails, the record expires.
        let _ = respond(backend.delete(&key, RecordCondition::Always)).await;
        response
    }

    /// Sends a POST until there is a reply. Returns `None` if there is none in time.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails before the POST is sent.
    async fn post(
        &self,
        holder: Slot,
        session: &str,
        head: &Head,
        content: Content,
        body: &[u8],
    ) -> Result<Option<HttpResponse>, BackendError> {
        self.replica.join().await?;
        if !self.replica.is_alive(holder).await? {
            return Ok(Some(routing::session_not_found()));
        }
        let mut waiting = self.wait(self.new_number()?);
        let posted = Posted { number: waiting.number, session: session.to_owned(), content, head: head.clone() };
        let message = Message::Posted(Box::new(posted)).encode(body);
        let mut deadline = Instant::now() + BACKEND_TIMEOUT;
        while Instant::now() < deadline {
            // Whatever fails from here on, the message may have been received.
            if let Ok(Err(error)) = timeout_at(deadline, self.replica.send(holder, KIND, &message)).await {
                tracing::debug!(%error, "cannot forward a message");
            }
            let repeat_at = deadline.min(Instant::now() + REPEAT_AFTER);
            while let Ok(Some((reply, body))) = timeout_at(repeat_at, waiting.replies.recv()).await {
                match reply {
                    Reply::Pending => deadline = Instant::now() + BACKEND_TIMEOUT,
                    Reply::Done { status, headers } => return Ok(Some(decode_response(status, headers, body))),
                }
            }
            if let Ok(Ok(false)) = timeout_at(deadline, self.replica.is_alive(holder)).await {
                return Ok(Some(routing::session_not_found()));
            }
        }
        Ok(None)
    }

    fn wait(&self, number: u64) -> Waiting<'_> {
        let (sender, replies) = mpsc::channel(2);
        self.waiting().insert(number, sender);
        Waiting { forwarder: self, number, replies }
    }

    fn new_number(&self) -> Result<u64, BackendError> {
        let lost = || BackendError::Unavailable("the replica has no number".to_owned());
        self.replica.new_id().ok_or_else(lost)
    }

    /// Takes a POST that another replica has forwarded. If too many are being received, the other replica sends it again.
    fn take(&self, posted: Posted, body: &[u8]) {
        let Some((this, sender)) = self.this.upgrade().zip(Slot::of_id(posted.number)) else { return };
        let Posted { number, session, content, head } = posted;
        let endpoint = self.endpoint.for_remote(head.remote);
        let Some(source) = head.into_request().map(|request| endpoint.request_source(request)) else { return };
        let Some(permit) = endpoint.limits().admit_forwarded(source.peer()) else {
            tracing::debug!("too many forwarded messages are being received");
            return;
        };
        let body = Bytes::copy_from_slice(body);
        tokio::spawn(async move {
            let (reply, body) = this.respond(number, &session, content, source, body).await;
            drop(permit);
            let reply = Message::Reply { number, reply }.encode(&body);
            if let Err(error) = this.replica.send(sender, KIND, &reply).await {
                tracing::debug!(%error, "cannot send the response to a forwarded message");
            }
        });
    }

    /// Receives a forwarded POST, and returns what has become of it.
    async fn respond(
        &self,
        number: u64,
        session: &str,
        content: Content,
        source: Arc<HttpRequestSource>,
        body: Bytes,
    ) -> (Reply, Bytes) {
        let client = self.clients.get(session).filter(|client| client.is_sender_of(source.request()));
        let Some(client) = client else { return encode_response(routing::session_not_found()).await };
        let receiving = match client.received.begin(number, Instant::now().into_std()) {
            Receipt::New(receiving) => receiving,
            Receipt::Receiving => return (Reply::Pending, Bytes::new()),
            Receipt::Accepted => return encode_response(response::empty(StatusCode::ACCEPTED)).await,
            Receipt::TooMany => {
                return encode_response(response::overloaded("too many messages for this session")).await;
            }
        };
        let received = self.receive(&client, session, content, source, body).await;
        let response = received.unwrap_or_else(|rejection| *rejection);
        if response.status() == StatusCode::ACCEPTED {
            receiving.accept();
        }
        encode_response(response).await
    }

    async fn receive(
        &self,
        client: &Client,
        session: &str,
        content: Content,
        source: Arc<HttpRequestSource>,
        body: Bytes,
    ) -> Result<HttpResponse, Box<HttpResponse>> {
        client.check_unread()?;
        let limits = self.endpoint.limits();
        // The shutdown waits for the message.
        let _receiving = limits.start_receiving();
        let bytes = match content {
            Content::Inline => body.len(),
            Content::Stored { bytes, .. } => bytes,
            Content::Announced => return Ok(response::empty(StatusCode::ACCEPTED)),
        };
        source.keep_memory(request_body::reserve(limits, source.peer(), bytes)?);
        let body = match content {
            Content::Stored { number, .. } => self.load(session, number).await?,
            Content::Inline | Content::Announced => body,
        };
        Ok(client.receive(source, &body).await)
    }

    /// Reads a body that another replica has stored.
    async fn load(&self, session: &str, number: u64) -> Result<Bytes, Box<HttpResponse>> {
        let found = respond(self.replica.backend().get(&stored_key(session, number))).await;
        let found =
            found.map_err(|error| Box::new(response::overloaded_with(response::error_message(&error.into()))))?;
        // The other replica no longer waits for the response.
        found
            .map(|record| Bytes::from_owner(record.value))
            .ok_or_else(|| Box::new(response::overloaded("the message is no longer stored")))
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, mpsc::Sender<(Reply, Bytes)>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplicaHandler for Forwarder {
    fn message(&self, payload: &[u8]) {
        match Message::decode(payload) {
            Some((Message::Posted(posted), body)) => self.take(*posted, body),
            Some((Message::Reply { number, reply }, body)) => {
                let waiting = self.waiting().get(&number).cloned();
                if let Some(waiting) = waiting {
                    // If replies to repetitions are waiting already, one more has nothing to add.
                    let _ = waiting.try_send((reply, Bytes::copy_from_slice(body)));
                }
            }
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

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.forwarder.waiting().remove(&self.number);
    }
}

/// Returns the response to a POST that was sent to the other replica without any reply. It does not ask the client to
/// retry: the function that the message calls would run twice.
fn no_reply() -> HttpResponse {
    let why = "the process with the stream of this session does not respond: it may have received the message";
    response::error(StatusCode::GATEWAY_TIMEOUT, &Fault::internal(why))
}

/// Returns the slot in the id of a session.
fn slot_of(id: &str) -> Option<Slot> {
    let (slot, random) = id.split_once('.')?;
    if is_id(random) { Slot::parse(slot) } else { None }
}

fn stored_group(session: &str) -> String {
    format!("mcp/1/posted/{session}")
}

fn stored_key(session: &str, number: u64) -> String {
    format!("{}:{number}", stored_group(session))
}
