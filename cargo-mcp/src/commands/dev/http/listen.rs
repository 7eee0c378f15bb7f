//! `subscriptions/listen` over HTTP: the client's stream stays open while the request moves from server to server.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    body::Body,
    http::{Response, StatusCode, header, request::Parts},
};
use bytes::Bytes;
use http_body_util::{BodyExt, Collected};
use tokio::sync::broadcast;

use super::{
    super::{
        listen_request::{ACKNOWLEDGED, ListenRequest},
        message::{Generation, INTERNAL_ERROR, METHOD_NOT_FOUND, Message, MessageKind, error_response},
        snapshot::Capability,
    },
    backend::Backend,
    relay::{StreamEnd, relay_events},
    respond::{EventSender, channel, is_event_stream, json, message_event, message_of},
    state::HttpProxy,
};
use crate::sse::{EventReader, SseEvent};

/// A `subscriptions/listen` request and the stream of its client.
struct ListenStream {
    proxy: Arc<HttpProxy>,
    parts: Parts,
    body: Bytes,
    request: ListenRequest,
    list_changes: broadcast::Receiver<BTreeSet<Capability>>,
    sender: EventSender,
    is_answered: bool,
}

/// A server's reply to the request.
enum Reply {
    Stream(Body),
    /// The server does not know the method.
    MethodNotFound,
    /// Any other response, which is relayed.
    Other(Response<Body>),
    /// The server exited.
    Unavailable,
}

/// Handles a `subscriptions/listen` request.
pub(super) async fn listen(
    proxy: &Arc<HttpProxy>,
    parts: &Parts,
    body: Bytes,
    id: &str,
    message: &Message<'_>,
) -> Response<Body> {
    let list_changes = proxy.backends.list_changes();
    let backend = match proxy.backends.begin().await {
        Ok(request) => request.backend().clone(),
        Err(error) => return json(StatusCode::OK, error_response(id, INTERNAL_ERROR, error.reason())),
    };
    let (sender, events) = channel();
    let stream = ListenStream {
        proxy: Arc::clone(proxy),
        parts: parts.clone(),
        body,
        request: ListenRequest::parse(id, message),
        list_changes,
        sender,
        is_answered: false,
    };
    let reply = stream.send_request(&backend).await;
    if let Reply::Other(response) = reply {
        return response;
    }
    tokio::spawn(stream.run(backend, reply));
    events.into_response()
}

impl ListenStream {
    async fn send_request(&self, backend: &Backend) -> Reply {
        let Ok(response) = backend.send(&self.parts, self.body.clone()).await else { return Reply::Unavailable };
        if is_event_stream(response.headers()) {
            return Reply::Stream(response.into_body());
        }
        let (mut head, body) = response.into_parts();
        let Ok(collected) = body.collect().await else { return Reply::Unavailable };
        let bytes = collected.to_bytes();
        let code = std::str::from_utf8(&bytes).ok().and_then(|text| Message::parse(text)?.error_code());
        if code == Some(METHOD_NOT_FOUND) {
            return Reply::MethodNotFound;
        }
        head.headers.remove(header::TRANSFER_ENCODING);
        Reply::Other(Response::from_parts(head, bytes.into()))
    }

    /// Relays the notifications of successive servers, until the client is gone or the request is answered.
    async fn run(mut self, mut backend: Backend, mut reply: Reply) {
        loop {
            let is_client_gone = match reply {
                Reply::Stream(body) => {
                    let end = self.relay(body, &backend).await;
                    if let StreamEnd::Invalid(why) = &end {
                        self.proxy.reporter.warn(format_args!("cannot relay a `subscriptions/listen` stream: {why}"));
                    }
                    end == StreamEnd::ClientGone
                }
                Reply::MethodNotFound => {
                    let acknowledgement = self.request.acknowledge();
                    !self.send(acknowledgement).await
                }
                Reply::Other(response) => {
                    let bytes = response.into_body().collect().await.map(Collected::to_bytes);
                    self.send(bytes.ok().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())).await;
                    return;
                }
                Reply::Unavailable => false,
            };
            if is_client_gone || self.is_answered {
                return;
            }
            let Some(newer) = self.next_backend(backend.generation).await else { return };
            backend = newer;
            reply = self.send_request(&backend).await;
            let mut changed = BTreeSet::new();
            while let Ok(more) = self.list_changes.try_recv() {
                changed.extend(more);
            }
            if !self.send(self.request.change_notifications(&changed)).await {
                return;
            }
        }
    }

    /// Relays the stream of a server until it ends or a newer server replaces this one.
    async fn relay(&mut self, body: Body, backend: &Backend) -> StreamEnd {
        let (request, is_answered, backends) = (&mut self.request, &mut self.is_answered, &self.proxy.backends);
        let filter = |mut event: SseEvent| {
            let Some((text, message)) = message_of(&event).and_then(|text| Some((text, Message::parse(text)?))) else {
                return Some(event);
            };
            match message.kind() {
                MessageKind::Notification { method: ACKNOWLEDGED } => {
                    let extended = request.extend_acknowledgement(text, &message)?;
                    event.data = Some(extended);
                    Some(event)
                }
                // A server that is being replaced ends its streams. The request continues on the next one.
                MessageKind::Response { .. } if !backends.is_current(backend.generation) => None,
                MessageKind::Response { .. } => {
                    *is_answered = true;
                    Some(event)
                }
                _ => Some(event),
            }
        };
        let mut reader = EventReader::new(body);
        tokio::select! {
            biased;
            end = relay_events(&mut reader, &self.sender, filter) => end,
            _ = backends.newer_than(backend.generation) => StreamEnd::Broken,
        }
    }

    /// Waits for a newer server. Returns `None` if the client is gone, or, after answering the request, at shutdown.
    async fn next_backend(&self, server: Generation) -> Option<Backend> {
        tokio::select! {
            newer = self.proxy.backends.newer_than(server) => {
                if newer.is_none() {
                    self.send([self.request.response()]).await;
                }
                newer
            }
            () = self.sender.closed() => None,
        }
    }

    /// Sends messages to the client. Returns `false` if it is gone.
    async fn send(&self, messages: impl IntoIterator<Item = String>) -> bool {
        for message in messages {
            if self.sender.send(message_event(message)).await.is_err() {
                return false;
            }
        }
        true
    }
}
