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
        message::{Generation, INTERNAL_ERROR, METHOD_NOT_FOUND, Message, MessageKind, error_response},
        session::{ACKNOWLEDGED, ListenRequest},
        snapshot::Capability,
    },
    HttpProxy,
    backend::Backend,
    relay::{StreamEnd, relay_events},
    respond::{EventSender, channel, is_event_stream, json, message_of, send_messages, stream_response},
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
enum ListenReply {
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
    let list_changes = proxy.backends.list_changes.subscribe();
    let backend = match proxy.backends.begin().await {
        Ok(request) => request.backend.clone(),
        Err(error) => return json(StatusCode::OK, error_response(id, INTERNAL_ERROR, &error)),
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
    if let ListenReply::Other(response) = reply {
        return response;
    }
    tokio::spawn(stream.run(backend, reply));
    stream_response(events)
}

impl ListenStream {
    async fn send_request(&self, backend: &Backend) -> ListenReply {
        let Ok(response) = backend.send(&self.parts, self.body.clone()).await else { return ListenReply::Unavailable };
        if is_event_stream(response.headers()) {
            return ListenReply::Stream(response.into_body());
        }
        let (mut head, body) = response.into_parts();
        let Ok(collected) = body.collect().await else { return ListenReply::Unavailable };
        let bytes = collected.to_bytes();
        let code = std::str::from_utf8(&bytes).ok().and_then(|text| Message::parse(text)?.error_code());
        if code == Some(METHOD_NOT_FOUND) {
            return ListenReply::MethodNotFound;
        }
        head.headers.remove(header::TRANSFER_ENCODING);
        ListenReply::Other(Response::from_parts(head, bytes.into()))
    }

    /// Relays the notifications of successive servers, until the client is gone or the request is answered.
    async fn run(mut self, mut backend: Backend, mut reply: ListenReply) {
        loop {
            let is_client_gone = match reply {
                ListenReply::Stream(body) => {
                    let end = self.relay(body, &backend).await;
                    if let StreamEnd::Invalid(why) = &end {
                        self.proxy.reporter.warn(format_args!("cannot relay a `subscriptions/listen` stream: {why}"));
                    }
                    end == StreamEnd::ClientGone
                }
                ListenReply::MethodNotFound => {
                    let acknowledgement = self.request.acknowledge();
                    !send_messages(&self.sender, acknowledgement).await
                }
                ListenReply::Other(response) => {
                    let bytes = response.into_body().collect().await.map(Collected::to_bytes);
                    send_messages(&self.sender, bytes.ok().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()))
                        .await;
                    return;
                }
                ListenReply::Unavailable => false,
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
            if !send_messages(&self.sender, self.request.change_notifications(&changed)).await {
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
                    send_messages(&self.sender, [self.request.response()]).await;
                }
                newer
            }
            () = self.sender.closed() => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use axum::http::Request;

    use super::{
        super::{Reporter, backend::Backends},
        *,
    };

    /// A server that is being replaced ends its streams.
    #[tokio::test]
    async fn only_the_current_server_ends_a_subscription() {
        let backend = |generation| Backend::new(generation, "127.0.0.1:9".to_owned());
        for (current, is_ended) in [(1, true), (2, false)] {
            let (backends, _requests) = Backends::new();
            backends.current.send_replace(Some(backend(current)));
            let proxy = HttpProxy { backends, sessions: Mutex::default(), reporter: Reporter { quiet: true } };
            let message = Message::parse(r#"{"id":1,"method":"subscriptions/listen"}"#).expect("a message");
            let (sender, mut events) = channel();
            let mut stream = ListenStream {
                list_changes: proxy.backends.list_changes.subscribe(),
                proxy: Arc::new(proxy),
                parts: Request::new(()).into_parts().0,
                body: Bytes::new(),
                request: ListenRequest::parse("1", &message),
                sender,
                is_answered: false,
            };
            let response = Body::from("data: {\"id\":1,\"result\":{}}\n\n");
            stream.relay(response, &backend(1)).await;
            assert_eq!((stream.is_answered, events.try_recv().is_ok()), (is_ended, is_ended), "{current}");
        }
    }
}
