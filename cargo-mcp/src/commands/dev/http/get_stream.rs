//! GET: the stream of a session for messages that belong to no request. It stays open while servers are replaced.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Response, StatusCode, request::Parts},
};
use bytes::Bytes;
use tokio::sync::{broadcast, mpsc};

use super::{
    super::message::{Generation, INTERNAL_ERROR, error_response},
    HttpProxy, SharedSession,
    backend::Backend,
    lock,
    relay::{ResponseFilter, StreamEnd, relay_events},
    respond::{
        EventSender, LAST_EVENT_ID, SESSION_ID, channel, header_value, is_event_stream, message_event, parse_event_id,
        reject, send_messages, session_rejected, stream_response,
    },
    session::{JoinError, join},
};
use crate::sse::{EventReader, SseEvent};

/// The stream of a client.
struct GetStream {
    proxy: Arc<HttpProxy>,
    session: Arc<SharedSession>,
    parts: Parts,
    sender: EventSender,
    /// Whether the client resumes the stream of a request, which the server finishes even after it is replaced.
    is_resumed: bool,
    /// The server that exited before the client could resume a stream on it.
    exited: Option<Generation>,
}

/// A server's reply to a GET request.
enum GetReply {
    Stream(Body),
    /// Any other response, which is relayed.
    Other(Response<Body>),
}

/// Opens the stream of a session.
pub(super) async fn open(proxy: &Arc<HttpProxy>, session: &Arc<SharedSession>, mut parts: Parts) -> Response<Body> {
    let last_event = parts.headers.remove(&LAST_EVENT_ID).and_then(|id| id.to_str().ok().map(str::to_owned));
    let last_event = last_event.as_deref().and_then(parse_event_id);
    // The client may resume a stream on a server that was replaced and still finishes it.
    let resumed = last_event.and_then(|(server, id)| Some((proxy.backends.running(server)?, id)));
    let mut backend = match (resumed, proxy.backends.begin().await) {
        (Some((backend, id)), _) => {
            parts.headers.insert(LAST_EVENT_ID, header_value(id));
            backend
        }
        (None, Ok(request)) => request.backend.clone(),
        (None, Err(error)) => return reject(StatusCode::SERVICE_UNAVAILABLE, &error),
    };
    let (sender, events) = channel();
    let mut stream = GetStream {
        proxy: Arc::clone(proxy),
        session: Arc::clone(session),
        is_resumed: parts.headers.contains_key(&LAST_EVENT_ID),
        parts,
        sender,
        exited: None,
    };
    let mut reply = stream.send_request(&backend).await;
    if stream.is_resumed
        && !matches!(reply, Ok(GetReply::Stream(_)))
        && let Some(newer) = proxy.backends.current().filter(|newer| newer.generation != backend.generation)
    {
        // The replaced server exited in the meantime.
        stream.exited = Some(backend.generation);
        stream.stop_resuming();
        reply = stream.send_request(&newer).await;
        backend = newer;
    }
    let body = match reply {
        Ok(GetReply::Stream(body)) => body,
        Ok(GetReply::Other(response)) => return response,
        Err(JoinError::Rejected) => return session_rejected(),
        Err(JoinError::Unavailable) => return reject(StatusCode::SERVICE_UNAVAILABLE, "the server exited"),
    };
    let has_lost_stream = last_event.is_some() && !stream.is_resumed;
    let log_messages = proxy.backends.log_messages.subscribe();
    tokio::spawn(send_log_messages(log_messages, Arc::clone(session), stream.sender.downgrade()));
    tokio::spawn(stream.run(backend, body, has_lost_stream));
    stream_response(events)
}

impl GetStream {
    async fn send_request(&self, backend: &Backend) -> Result<GetReply, JoinError> {
        let id = join(&self.proxy, &self.session, backend).await?;
        let mut parts = self.parts.clone();
        parts.headers.insert(SESSION_ID, header_value(&id));
        let response = backend.send(&parts, Bytes::new()).await.map_err(|_| JoinError::Unavailable)?;
        if response.status() == StatusCode::OK && is_event_stream(response.headers()) {
            Ok(GetReply::Stream(response.into_body()))
        } else {
            Ok(GetReply::Other(response))
        }
    }

    /// Makes this a stream for messages that belong to no request.
    fn stop_resuming(&mut self) {
        self.is_resumed = false;
        self.parts.headers.remove(&LAST_EVENT_ID);
    }

    /// Relays the streams of successive servers.
    async fn run(mut self, mut backend: Backend, body: Body, has_lost_stream: bool) {
        let mut body = Some(body);
        if has_lost_stream {
            self.fail_lost_requests().await;
        }
        loop {
            let is_open = self.is_resumed || self.send_changes().await;
            let end = match body.take() {
                Some(body) if is_open => self.relay(body, &backend).await,
                _ => StreamEnd::Broken,
            };
            if let StreamEnd::Invalid(why) = &end {
                self.proxy.reporter.warn(format_args!("cannot relay a GET stream: {why}"));
            }
            let is_current = self.proxy.backends.is_current(backend.generation);
            if end == StreamEnd::ClientGone || (end == StreamEnd::Finished && is_current) {
                return;
            }
            let newer = tokio::select! {
                newer = self.proxy.backends.newer_than(backend.generation) => newer,
                () = self.sender.closed() => None,
            };
            let Some(newer) = newer else { return };
            if self.is_resumed {
                self.stop_resuming();
                self.fail_lost_requests().await;
            }
            backend = newer;
            body = match self.send_request(&backend).await {
                Ok(GetReply::Stream(body)) => Some(body),
                Ok(GetReply::Other(_)) | Err(JoinError::Unavailable) => None,
                // The stream ends, and the client learns the reason when it opens it again.
                Err(JoinError::Rejected) => return,
            };
        }
    }

    /// Relays the stream of a server until it ends or, unless it is resumed, a newer server replaces this one.
    async fn relay(&self, body: Body, backend: &Backend) -> StreamEnd {
        let (proxy, session) = (Arc::clone(&self.proxy), Arc::clone(&self.session));
        let mut filter = ResponseFilter::new(proxy, backend.generation, Some(session), Vec::new());
        let mut reader = EventReader::new(body);
        let relay = relay_events(&mut reader, &self.sender, |event| filter.apply_to_event(event));
        if self.is_resumed {
            return relay.await;
        }
        tokio::select! {
            biased;
            end = relay => end,
            _ = self.proxy.backends.newer_than(backend.generation) => StreamEnd::Broken,
        }
    }

    /// Notifies the client of the changes in a new build. Returns `false` if the client is gone.
    async fn send_changes(&self) -> bool {
        let notifications = lock(&self.session.state).take_change_notifications();
        send_messages(&self.sender, notifications).await
    }

    /// Answers the requests that servers left unanswered when they exited.
    async fn fail_lost_requests(&self) {
        let has_exited = |server| self.exited == Some(server) || self.proxy.backends.running(server).is_none();
        let ids = lock(&self.session.state).take_unanswered(None, has_exited);
        let why = "the server was rebuilt or exited before it responded";
        let errors: Vec<_> = ids.iter().map(|id| error_response(id, INTERNAL_ERROR, why)).collect();
        send_messages(&self.sender, errors).await;
    }
}

/// Sends log messages about failed builds for as long as the stream is open.
async fn send_log_messages(
    mut messages: broadcast::Receiver<String>,
    session: Arc<SharedSession>,
    sender: mpsc::WeakSender<SseEvent>,
) {
    while let Ok(message) = messages.recv().await {
        let Some(sender) = sender.upgrade() else { return };
        let receives_errors = lock(&session.state).state.receives_errors();
        if receives_errors && sender.send(message_event(message)).await.is_err() {
            return;
        }
    }
}
