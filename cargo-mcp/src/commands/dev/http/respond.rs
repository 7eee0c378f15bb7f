//! Headers, responses and streams of events.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header},
    response::{
        IntoResponse, Sse as SseResponse,
        sse::{Event, KeepAlive},
    },
};
use futures_util::stream;
use tokio::sync::mpsc;

use super::super::message::{Generation, INTERNAL_ERROR, INVALID_REQUEST, batch_elements, error_response};
use crate::sse::SseEvent;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A response with a JSON body.
pub(super) fn json(status: StatusCode, text: String) -> Response<Body> {
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// A response with an error that belongs to no request.
pub(super) fn reject(status: StatusCode, why: &str) -> Response<Body> {
    json(status, error_response("null", INVALID_REQUEST, why))
}

/// The response that makes a client start a new session.
pub(super) fn session_rejected() -> Response<Body> {
    reject(StatusCode::NOT_FOUND, "the rebuilt server rejected this session; start a new one")
}

/// A response with an error for each request in a body.
pub(super) fn fail_requests(ids: &[String], body: &str, why: &str) -> Response<Body> {
    let errors: Vec<_> = ids.iter().map(|id| error_response(id, INTERNAL_ERROR, why)).collect();
    match (&*errors, batch_elements(body)) {
        ([], _) => StatusCode::ACCEPTED.into_response(),
        (_, Some(_)) => json(StatusCode::OK, format!("[{}]", errors.join(","))),
        (_, None) => json(StatusCode::OK, errors.concat()),
    }
}

/// Returns whether a response is a stream of server-sent events.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.trim_start().to_ascii_lowercase().starts_with("text/event-stream")
}

/// Returns a header value, which is empty if the text contains invalid characters.
pub(super) fn header_value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

/// The number of events that may wait for a slow client.
const CHANNEL_CAPACITY: usize = 64;
/// The interval of comments that show that an idle stream is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The sender of the events of a client's stream.
pub(super) type EventSender = mpsc::Sender<SseEvent>;

/// Creates a channel for the events of a client's stream.
pub(super) fn channel() -> (EventSender, mpsc::Receiver<SseEvent>) {
    mpsc::channel(CHANNEL_CAPACITY)
}

/// Sends messages to a client. Returns `false` if it is gone.
pub(super) async fn send_messages(sender: &EventSender, messages: impl IntoIterator<Item = String>) -> bool {
    for message in messages {
        if sender.send(message_event(message)).await.is_err() {
            return false;
        }
    }
    true
}

/// Returns a response that streams events.
pub(super) fn stream_response(receiver: mpsc::Receiver<SseEvent>) -> Response<Body> {
    let events = stream::unfold(receiver, |mut receiver| async {
        let event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(encode(event)), receiver))
    });
    let keep_alive = KeepAlive::new().interval(KEEP_ALIVE).text("keep-alive");
    let events = SseResponse::new(events).keep_alive(keep_alive);
    ([(header::CACHE_CONTROL, "no-cache, no-transform")], events).into_response()
}

fn encode(event: SseEvent) -> Event {
    let mut encoded = Event::default();
    if let Some(name) = event.event {
        encoded = encoded.event(name);
    }
    if let Some(id) = event.id {
        encoded = encoded.id(id);
    }
    if let Some(retry) = event.retry {
        encoded = encoded.retry(Duration::from_millis(retry));
    }
    match event.data {
        Some(data) => encoded.data(data),
        None => encoded,
    }
}

/// Creates an event that carries a message.
pub(super) fn message_event(message: impl Into<String>) -> SseEvent {
    SseEvent { event: Some("message".to_owned()), data: Some(message.into()), ..SseEvent::default() }
}

/// Returns the message that an event carries.
pub(super) fn message_of(event: &SseEvent) -> Option<&str> {
    event.data.as_deref().filter(|data| !data.trim().is_empty())
}

/// Adds the server to an event's id, so that a client that resumes the stream is sent to the same server.
pub(super) fn with_server(mut event: SseEvent, server: Generation) -> SseEvent {
    event.id = event.id.map(|id| if id.trim().is_empty() { id } else { format!("{server}-{}", id.trim()) });
    event
}

/// Splits an event id from a client into the server and the server's id.
pub(super) fn parse_event_id(id: &str) -> Option<(Generation, &str)> {
    let (server, id) = id.split_once('-')?;
    Some((server.parse().ok()?, id))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;
    use crate::sse::EventReader;

    #[tokio::test]
    async fn reads_events_regardless_of_chunk_boundaries() {
        let text = "id: 1\ndata: {\"a\":1}\n\n: alive\n\nevent: message\r\ndata: x\r\ndata: y\r\n\r\nrest";
        for size in 1..text.len() {
            let chunks: Vec<_> =
                text.as_bytes().chunks(size).map(|chunk| Ok::<_, Infallible>(chunk.to_vec())).collect();
            let mut reader = EventReader::new(Body::from_stream(stream::iter(chunks)));
            let mut messages = Vec::new();
            while let Some(event) = reader.next().await {
                messages.push(event.expect("an event").data);
            }
            assert_eq!(messages, [Some("{\"a\":1}".to_owned()), Some("x\ny".to_owned())], "{size}");
        }
    }

    #[test]
    fn event_ids_name_their_server() {
        for (id, expected) in
            [(Some("3-7"), Some("2-3-7")), (Some("7"), Some("2-7")), (Some(""), Some("")), (None, None)]
        {
            let event = SseEvent { id: id.map(str::to_owned), data: Some("id: 7".to_owned()), ..SseEvent::default() };
            let event = with_server(event, 2);
            assert_eq!(event.id.as_deref(), expected);
            assert_eq!(event.data.as_deref(), Some("id: 7"));
        }
        assert_eq!(parse_event_id("2-3-7"), Some((2, "3-7")));
        assert_eq!(parse_event_id("7"), None);
    }

    #[tokio::test]
    async fn errors_have_the_form_of_the_requests() {
        let error = |id: &str| error_response(id, INTERNAL_ERROR, "no");
        for (ids, body, expected) in [
            (&["1"][..], "{}", error("1")),
            (&["1"], "[{}]", format!("[{}]", error("1"))),
            (&["1", "2"], "[{}, {}]", format!("[{},{}]", error("1"), error("2"))),
            (&[], "{}", String::new()),
        ] {
            let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            let response = fail_requests(&ids, body, "no");
            assert_eq!(response.status() == StatusCode::ACCEPTED, ids.is_empty(), "{body}");
            let text = response.into_body().collect().await.expect("a body").to_bytes();
            assert_eq!(text, expected, "{body}");
        }
    }

    #[test]
    fn media_types_are_case_insensitive() {
        for (content_type, expected) in
            [("text/event-stream", true), ("Text/Event-Stream; charset=utf-8", true), ("application/json", false)]
        {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))]);
            assert_eq!(is_event_stream(&headers), expected, "{content_type}");
        }
    }

    #[tokio::test]
    async fn responses_contain_all_fields() {
        let (sender, events) = channel();
        let event = SseEvent { id: Some("1".to_owned()), retry: Some(5), ..message_event("x\ny") };
        sender.send(event).await.expect("the receiver is open");
        let empty = SseEvent { id: Some("2".to_owned()), data: Some(String::new()), ..SseEvent::default() };
        sender.send(empty).await.expect("the receiver is open");
        drop(sender);
        let body = stream_response(events).into_body().collect().await.expect("a body").to_bytes();
        let text = std::str::from_utf8(&body).expect("UTF-8");
        assert_eq!(text, "event: message\nid: 1\nretry: 5\ndata: x\ndata: y\n\nid: 2\n\n");
    }
}
