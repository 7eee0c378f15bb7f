use std::{sync::Arc, time::Duration};

use http::StatusCode;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout_at},
};

use super::{
    awaited::AwaitedReplies,
    message::{Content, Head, KIND, Message, MessageId, Posted, Reply, decode_response, stored_key},
};
use crate::{
    backend::{BACKEND_TIMEOUT, BackendError, RecordCondition, respond},
    engine::{Replica, Slot},
    error::Fault,
    transport::http::{
        peers::PeerPermit,
        request_body::ReceivedBody,
        response::{self, HttpResponse},
        routing,
    },
};

/// The maximum size of a body that is part of the message to the other replica. Larger ones are records.
const MAX_INLINE_BYTES: usize = 4 << 10;

/// The time after which such a record expires if nobody deletes it.
const STORED_TTL: Duration = Duration::from_secs(30);

/// The time after which a message without a reply is sent again, since topics may lose it or the reply.
const REPEAT_AFTER: Duration = Duration::from_millis(250);

/// The response of the other replica. `None` if there is no reply in time.
type Forwarded = Result<Option<HttpResponse>, BackendError>;

/// A POST that is forwarded to the replica with the stream of its session.
#[derive(Debug)]
pub(super) struct OutgoingPost {
    pub(super) replica: Arc<Replica>,
    pub(super) awaited: Arc<AwaitedReplies>,
    pub(super) holder: Slot,
    pub(super) session: Arc<str>,
    pub(super) head: Head,
    pub(super) _permit: PeerPermit,
}

impl OutgoingPost {
    /// Forwards the POST, and returns its response.
    pub(super) async fn forward(self, body: ReceivedBody) -> HttpResponse {
        let forwarded = if body.bytes().len() <= MAX_INLINE_BYTES {
            self.send(Content::Inline, body.bytes()).await
        } else {
            self.forward_stored(body).await
        };
        match forwarded {
            Ok(Some(response)) => response,
            Ok(None) => no_reply(),
            Err(error) => response::overloaded_with(response::error_message(&error.into())),
        }
    }

    /// Forwards the POST, whose body is too long for a message.
    async fn forward_stored(self, body: ReceivedBody) -> Forwarded {
        // Only the client of a session can make replicas store bodies.
        let checked = self.send(Content::Check, &[]).await?;
        let checked = checked
            .unwrap_or_else(|| response::overloaded("the process with the stream of this session does not respond"));
        if checked.status() != StatusCode::ACCEPTED {
            return Ok(Some(checked));
        }
        let number = self.replica.new_id();
        let number = number.ok_or_else(|| BackendError::Unavailable("the replica has no number".to_owned()))?;
        let (respond_to, response) = oneshot::channel();
        // The record must be deleted even if the client hangs up.
        tokio::spawn(self.store(number, body, respond_to));
        response.await.unwrap_or(Ok(None))
    }

    /// Forwards the POST with a body that is a record. Until the record is gone, it uses the permit of the POST and the
    /// memory of its body, which bound the records of each peer and of all.
    async fn store(self, number: u64, mut body: ReceivedBody, respond_to: oneshot::Sender<Forwarded>) {
        let memory = body.take_memory();
        let backend = Arc::clone(self.replica.backend());
        let key = stored_key(&self.session, number);
        let stored = respond(backend.set(&key, RecordCondition::Absent, body.bytes().to_vec(), STORED_TTL)).await;
        let forwarded = match stored {
            Ok(_) => self.send(Content::Stored { number, bytes: body.bytes().len() }, &[]).await,
            Err(error) => Err(error),
        };
        // The client may have hung up.
        let _ = respond_to.send(forwarded);
        let deleted = respond(backend.delete(&key, RecordCondition::Always)).await;
        // The shutdown does not wait for the expiry.
        drop(body);
        if deleted.is_err() {
            sleep(STORED_TTL).await;
        }
        drop(memory);
    }

    /// Sends a message until there is a reply. Returns `None` if there is none in time.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails before the message is sent.
    async fn send(&self, content: Content, body: &[u8]) -> Forwarded {
        let replica = &self.replica;
        let sender = replica.join().await?;
        if !replica.is_alive(self.holder).await? {
            return Ok(Some(routing::session_not_found()));
        }
        let (mut awaited, waiting) = self.awaited.add(&self.session);
        let id = MessageId { sender, number: awaited.number };
        let posted = Posted { id, waiting, session: self.session.to_string(), content, head: self.head.clone() };
        let message = Message::Posted(Box::new(posted)).encode(body);
        let mut deadline = Instant::now() + BACKEND_TIMEOUT;
        while Instant::now() < deadline {
            // Whatever fails from here on, the message may have been received.
            if let Ok(Err(error)) = timeout_at(deadline, replica.send(self.holder, KIND, &message)).await {
                tracing::debug!(%error, "cannot forward a message");
            }
            let repeat_at = deadline.min(Instant::now() + REPEAT_AFTER);
            while let Ok(Some((reply, body))) = timeout_at(repeat_at, awaited.next()).await {
                match reply {
                    Reply::Pending => deadline = Instant::now() + BACKEND_TIMEOUT,
                    Reply::Done { status, headers } => return Ok(Some(decode_response(status, headers, body))),
                }
            }
            if let Ok(Ok(false)) = timeout_at(deadline, replica.is_alive(self.holder)).await {
                return Ok(Some(routing::session_not_found()));
            }
        }
        Ok(None)
    }
}

/// Returns the response to a POST that was sent to the other replica without any reply. It does not ask the client to
/// retry: the function that the message calls would run twice.
fn no_reply() -> HttpResponse {
    let why = "the process with the stream of this session does not respond: it may have received the message";
    response::error(StatusCode::GATEWAY_TIMEOUT, &Fault::internal(why))
}
