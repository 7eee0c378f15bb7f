//! Relays responses and streams from servers to clients.

use axum::{
    body::Body,
    http::{Response, header},
};
use http_body_util::BodyExt;

use super::{
    backend::ActiveRequest,
    filter::ResponseFilter,
    respond::{EventSender, SESSION_ID, channel, header_value, is_event_stream, message_event},
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
    if let Some(session) = filter.session().filter(|_| head.headers.contains_key(&SESSION_ID)) {
        head.headers.insert(SESSION_ID, header_value(&session.id));
    }
    if is_event_stream(&head.headers) {
        let (sender, events) = channel();
        tokio::spawn(relay_stream(body, filter, request, sender));
        return Response::from_parts(head, events.into_response().into_body());
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
    for error in filter.take_errors(&why) {
        let _ = sender.send(message_event(error)).await;
    }
}
