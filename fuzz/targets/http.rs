//! The HTTP service answers arbitrary requests with a defined status and valid messages.
//!
//! An input is a sequence of requests, separated by lines with `===`. `$session` stands for the id of the session
//! opened last, and `$event` for the id of the event received last.

#![no_main]

use std::time::Duration;

use bytes::Bytes;
use fuzz::{
    json::{self, Members},
    output::Output,
    runtime,
    server::server,
    sse,
};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use libfuzzer_sys::{Corpus, fuzz_target};
use mcp_runtime::{
    HttpOptions,
    http::{HttpBody, HttpService},
};
use tokio::time::timeout;
use tower_service::Service as _;

/// The maximum number of requests of one input.
const MAX_REQUESTS: usize = 16;

const STATUSES: [u16; 14] = [200, 202, 204, 400, 403, 404, 405, 406, 408, 413, 415, 421, 429, 503];

fuzz_target!(|data: &[u8]| -> Corpus {
    let mut sent = 0;
    runtime().block_on(async {
        let options = HttpOptions::default().allow_origin("https://example.com").max_sessions(4).max_in_flight(4);
        let mut client = Client {
            service: server().into_http_service(options).unwrap(),
            session: b"none".to_vec(),
            event: b"0-0".to_vec(),
            open: Vec::new(),
        };
        for text in parts(data).into_iter().take(MAX_REQUESTS) {
            let Some(request) = client.request(text) else { continue };
            sent += 1;
            client.send(request).await;
        }
        // Streams that are still open end with the service.
        client.service.graceful_shutdown(Duration::from_secs(1)).await;
        for mut body in std::mem::take(&mut client.open) {
            client.read_events(&mut body, &mut Output::default()).await;
        }
    });
    if sent > 0 { Corpus::Keep } else { Corpus::Reject }
});

/// Splits the input at the separators.
fn parts(data: &[u8]) -> Vec<&[u8]> {
    let (mut parts, mut rest) = (Vec::new(), data);
    while let Some(at) = rest.windows(5).position(|window| window == b"\n===\n") {
        parts.push(&rest[..at]);
        rest = &rest[at + 5..];
    }
    parts.push(rest);
    parts
}

struct Client {
    service: HttpService,
    session: Vec<u8>,
    event: Vec<u8>,
    /// The event streams that have not ended.
    open: Vec<HttpBody>,
}

impl Client {
    /// Builds a request from its text. Returns `None` if `httparse` or `http` rejects its head, as hyper would.
    fn request(&self, text: &[u8]) -> Option<Request<Full<Bytes>>> {
        let text = replace(&replace(text, b"$session", &self.session), b"$event", &self.event);
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut head = httparse::Request::new(&mut headers);
        let httparse::Status::Complete(length) = head.parse(&text).ok()? else { return None };
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(&text[length..])));
        *request.method_mut() = head.method?.parse::<Method>().ok()?;
        *request.uri_mut() = head.path?.parse::<Uri>().ok()?;
        for header in head.headers.iter() {
            let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
            request.headers_mut().append(name, HeaderValue::from_bytes(header.value).ok()?);
        }
        Some(request)
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) {
        let method = request.method().clone();
        let body = request.body().clone().collect().await.unwrap_or_else(|never| match never {}).to_bytes();
        let is_batch = body.trim_ascii().starts_with(b"[") || body.starts_with("\u{feff}".as_bytes());
        let sent = std::str::from_utf8(&body).ok().and_then(Members::read);
        let id = sent.filter(|sent| sent.get("method").is_some()).and_then(|sent| json::id(sent.get("id")?));

        let response = self.service.call(request).await.unwrap_or_else(|never| match never {});
        let (head, mut body) = response.into_parts();
        assert!(STATUSES.contains(&head.status.as_u16()), "status {}", head.status);
        let text = |name| head.headers.get(name).map(|value| value.to_str().expect("headers are ASCII"));
        if let Some(session) = text("mcp-session-id") {
            self.session = session.as_bytes().to_vec();
        }
        let mut output = Output::default();
        match text("content-type") {
            Some("text/event-stream") => {
                assert_eq!(head.status, StatusCode::OK);
                if self.read_events(&mut body, &mut output).await {
                    assert!(output.responses.len() <= 1 || is_batch || method == Method::GET, "{:?}", output.responses);
                } else {
                    self.open.push(body);
                }
            }
            Some("application/json") => {
                let body = body.collect().await.expect("the body is complete").to_bytes();
                output.add(body.trim_ascii());
                let is_answered = output.responses.values().sum::<usize>() == 1;
                assert!(is_answered || body.starts_with(b"["), "{body:?}");
                if head.status == StatusCode::OK && method == Method::POST && is_answered {
                    let answered = output.responses.keys().next();
                    assert!(id.is_none() || answered == id.as_ref() || body.starts_with(b"["), "{id:?}: {body:?}");
                }
            }
            Some("text/plain; charset=utf-8") | None => {}
            other => panic!("unexpected content type {other:?}"),
        }
        // The messages of a batch may have the same id.
        for (id, count) in output.responses.iter().filter(|_| !is_batch) {
            assert!(*count == 1, "{count} responses to {id}");
        }
    }

    /// Reads the events that arrive within some seconds. Returns whether the stream has ended.
    async fn read_events(&mut self, body: &mut HttpBody, output: &mut Output) -> bool {
        let (mut text, mut ended) = (Vec::new(), false);
        while let Ok(frame) = timeout(Duration::from_secs(4), body.frame()).await {
            let Some(frame) = frame else {
                ended = true;
                break;
            };
            text.extend_from_slice(frame.expect("the body is complete").data_ref().expect("there are no trailers"));
            if text.ends_with(b"\n:\n\n") {
                break;
            }
        }
        for event in sse::read(&text, &[1 << 12]).await {
            if let Some(id) = event.id {
                self.event = id.into_bytes();
            }
            if let Some(data) = event.data.filter(|data| !data.is_empty()) {
                output.add(data.as_bytes());
            }
        }
        ended
    }
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        replaced.extend_from_slice(&rest[..at]);
        replaced.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    replaced.extend_from_slice(rest);
    replaced
}
