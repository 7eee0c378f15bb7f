//! Relays responses and streams from servers to clients, and changes the messages in them.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Response, StatusCode, header, request::Parts},
};
use bytes::Bytes;
use http_body_util::BodyExt;

use super::{
    super::message::{
        Generation, INTERNAL_ERROR, Message, MessageKind, RequestId, add_list_changed, batch_elements, error_response,
    },
    HttpProxy, SharedSession,
    backend::ActiveRequest,
    lock,
    respond::{
        EventSender, SESSION_ID, channel, header_value, is_event_stream, json, message_of, send_messages,
        stream_response, with_server,
    },
    session::HttpSession,
};
use crate::sse::{EventReader, ReadError, SseEvent};

/// The reason for an error if the server does not give one.
const BODY_INCOMPLETE: &str = "the response ended early";

/// Relays the response to a request.
pub(super) async fn relay(
    response: Response<Body>,
    mut filter: ResponseFilter,
    mut request: ActiveRequest,
) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    for name in [header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION] {
        head.headers.remove(name);
    }
    if let Some(session) = filter.session.as_ref().filter(|_| head.headers.contains_key(&SESSION_ID)) {
        head.headers.insert(SESSION_ID, header_value(&session.id));
    }
    if is_event_stream(&head.headers) {
        let (sender, events) = channel();
        tokio::spawn(relay_stream(body, filter, request, sender));
        return Response::from_parts(head, stream_response(events).into_body());
    }
    let collected = tokio::select! {
        biased;
        collected = body.collect() => collected.ok(),
        _ = request.failed() => None,
    };
    let Some(collected) = collected else {
        let why = request.failure_reason(BODY_INCOMPLETE).await;
        return filter.into_error_response(&why);
    };
    let bytes = collected.to_bytes();
    // A body that is not text contains no messages and is relayed unchanged.
    let body = match std::str::from_utf8(&bytes) {
        Ok(text) if !text.is_empty() => filter.apply(text).unwrap_or_default().into(),
        _ => bytes,
    };
    if head.status.is_success() && body.is_empty() && filter.has_unanswered() {
        return filter.into_error_response("the server sent an empty response");
    }
    Response::from_parts(head, body.into())
}

/// How a stream ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The server finished it.
    Finished,
    /// The connection to the server broke, or another server replaces it.
    Broken,
    /// The stream cannot be read, for this reason.
    Invalid(String),
    /// The client is gone.
    ClientGone,
}

/// Relays events until the stream ends.
pub(super) async fn relay_events(
    reader: &mut EventReader,
    sender: &EventSender,
    mut filter: impl FnMut(SseEvent) -> Option<SseEvent>,
) -> StreamEnd {
    loop {
        let event = tokio::select! {
            biased;
            event = reader.next() => event,
            () = sender.closed() => return StreamEnd::ClientGone,
        };
        let event = match event {
            None => return StreamEnd::Finished,
            Some(Err(ReadError::Body(_))) => return StreamEnd::Broken,
            Some(Err(error @ ReadError::EventTooLarge(_))) => return StreamEnd::Invalid(error.to_string()),
            Some(Ok(event)) => event,
        };
        if let Some(event) = filter(event)
            && sender.send(event).await.is_err()
        {
            return StreamEnd::ClientGone;
        }
    }
}

/// Relays the stream of a response. Sends errors for the requests that it does not answer.
async fn relay_stream(body: Body, mut filter: ResponseFilter, mut request: ActiveRequest, sender: EventSender) {
    let mut reader = EventReader::new(body);
    let end = tokio::select! {
        biased;
        end = relay_events(&mut reader, &sender, |event| filter.apply_to_event(event)) => end,
        _ = request.failed() => StreamEnd::Broken,
    };
    // A server may close the stream of a session early: the client then resumes it for the rest.
    let is_resumable = filter.is_resumable();
    if end == StreamEnd::ClientGone || (end == StreamEnd::Finished && is_resumable) || !filter.has_unanswered() {
        return;
    }
    let why = match end {
        StreamEnd::Invalid(why) => why,
        _ => request.failure_reason(BODY_INCOMPLETE).await,
    };
    if sender.is_closed() {
        // The requests stay unanswered for a client that resumes the stream.
        return;
    }
    send_messages(&sender, filter.take_errors(&why)).await;
}

/// Filters the messages of one response.
pub(super) struct ResponseFilter {
    proxy: Arc<HttpProxy>,
    server: Generation,
    session: Option<Arc<SharedSession>>,
    /// The ids of the requests that the server has to answer, as JSON. A session keeps track of its own.
    unanswered: Vec<String>,
    /// The session that the result opens.
    pub(super) new_session: Option<NewSession>,
    /// Whether the result contains capabilities.
    pub(super) has_capabilities: bool,
}

/// The session that a successful `initialize` response opens.
pub(super) struct NewSession {
    pub(super) id: String,
    /// The head and body of the `initialize` request.
    pub(super) parts: Parts,
    pub(super) body: Bytes,
}

impl ResponseFilter {
    /// Filters a response to requests in a session, or to requests without one.
    pub(super) fn new(
        proxy: Arc<HttpProxy>,
        server: Generation,
        session: Option<Arc<SharedSession>>,
        unanswered: Vec<String>,
    ) -> Self {
        Self { proxy, server, session, unanswered, new_session: None, has_capabilities: false }
    }

    /// Returns whether a client can resume the stream of this response on its server.
    pub(super) fn is_resumable(&self) -> bool {
        self.session.is_some() && self.proxy.backends.running(self.server).is_some()
    }

    /// Records a message. Returns it as the client should receive it, or `None` if it should not.
    pub(super) fn apply(&mut self, text: &str) -> Option<String> {
        if let Some(session) = &self.session {
            return lock(&session.state).handle_server_message(self.server, text);
        }
        for message in batch_elements(text).unwrap_or_else(|| vec![text]) {
            self.record_response(message);
        }
        let extended = if self.has_capabilities { add_list_changed(text) } else { None };
        Some(extended.unwrap_or_else(|| text.to_owned()))
    }

    fn record_response(&mut self, text: &str) {
        let Some(message) = Message::parse(text) else { return };
        let MessageKind::Response { id } = message.kind() else { return };
        let id = RequestId::parse(id);
        self.unanswered.retain(|unanswered| RequestId::parse(unanswered) != id);
        if message.result.is_none() {
            return;
        }
        if let Some(NewSession { id, parts, body }) = self.new_session.take()
            && let Some(session) = HttpSession::open(&parts, &body, self.server, &id, text)
        {
            self.proxy.add_session(id, session);
        }
    }

    /// Applies the filter to an event.
    pub(super) fn apply_to_event(&mut self, mut event: SseEvent) -> Option<SseEvent> {
        if let Some(message) = message_of(&event) {
            event.data = Some(self.apply(message)?);
        }
        Some(if self.session.is_some() { with_server(event, self.server) } else { event })
    }

    /// Returns whether the server has not answered all requests.
    pub(super) fn has_unanswered(&self) -> bool {
        match &self.session {
            Some(session) => lock(&session.state).has_unanswered(self.server, &self.unanswered),
            None => !self.unanswered.is_empty(),
        }
    }

    /// Returns errors for the requests that the server has not answered.
    pub(super) fn take_errors(&mut self, why: &str) -> Vec<String> {
        let ids = match &self.session {
            Some(session) => {
                lock(&session.state).take_unanswered(Some(&self.unanswered), |server| server == self.server)
            }
            None => std::mem::take(&mut self.unanswered),
        };
        ids.iter().map(|id| error_response(id, INTERNAL_ERROR, why)).collect()
    }

    /// Returns a response with an error for each request that the server has not answered.
    pub(super) fn into_error_response(mut self, why: &str) -> Response<Body> {
        let errors = self.take_errors(why);
        let text = if let [error] = &*errors { error.clone() } else { format!("[{}]", errors.join(",")) };
        json(StatusCode::OK, text)
    }
}
