//! Requests of clients, with servers of this process behind the proxy.

use std::{
    convert::Infallible,
    future::IntoFuture as _,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::timeout};

use crate::{
    commands::dev::{
        Reporter,
        http::{
            HttpProxy,
            backend::{Backend, BackendRequest, Backends},
            lock, routes,
        },
        message::{Generation, INTERNAL_ERROR, error_response},
        session::build_failure_notification,
    },
    sse::EventReader,
};

/// A time limit that is generous even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const SET_LEVEL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"error"}}"#;
const SUBSCRIBE: &str = r#"{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"a://b"}}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}"#;

/// A request that a server has received.
struct Received {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: String,
}

impl Received {
    /// Formats the method, the session, the revision and the method of the message.
    fn summary(&self) -> String {
        let header = |name: &str| self.headers.get(name).map_or("-", |value| value.to_str().expect("text"));
        let message: Value = serde_json::from_str(&self.body).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or("-");
        format!("{} {} {} {method}", self.method, header("mcp-session-id"), header("mcp-protocol-version"))
    }
}

/// The requests that a server has received.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<Vec<Received>>>);

impl Requests {
    fn summaries(&self) -> Vec<String> {
        lock(&self.0).iter().map(Received::summary).collect()
    }

    fn last(&self) -> Option<String> {
        self.summaries().pop()
    }
}

/// Starts a server that responds to each body with what a function returns.
async fn start(
    generation: Generation,
    respond: impl Fn(&str) -> Response + Clone + Send + Sync + 'static,
) -> (Backend, Requests) {
    let requests = Requests::default();
    let received = requests.clone();
    let handle = move |request: Request| {
        let (received, respond) = (received.clone(), respond.clone());
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.expect("a body").to_bytes();
            let body = String::from_utf8(body.to_vec()).expect("text");
            let response = respond(&body);
            lock(&received.0).push(Received { method: head.method, uri: head.uri, headers: head.headers, body });
            response
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let authority = listener.local_addr().expect("an address").to_string();
    tokio::spawn(axum::serve(listener, Router::new().fallback(handle)).into_future());
    (Backend::new(generation, authority), requests)
}

/// Returns the responses of a server that opens sessions with this id and revision.
fn responses(
    session: &'static str,
    revision: &'static str,
) -> impl Fn(&str) -> Response + Clone + Send + Sync + 'static {
    move |body: &str| {
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        if message.get("method").is_none() || message.get("id").is_none() {
            return StatusCode::ACCEPTED.into_response();
        }
        let capabilities = json!({"logging": {}, "resources": {"subscribe": true}, "tools": {}});
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": revision, "capabilities": capabilities}),
            _ => json!({}),
        };
        let response = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        let headers = [("content-type", "application/json"), ("mcp-session-id", session)];
        (headers, response.to_string()).into_response()
    }
}

/// Returns a stream that begins with a text and, unless it is finished, remains open.
fn events(text: String, is_finished: bool) -> Response {
    let text = stream::iter([Ok::<_, Infallible>(text)]);
    let body = if is_finished { Body::from_stream(text) } else { Body::from_stream(text.chain(stream::pending())) };
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// Returns a proxy in front of a server.
fn proxy_for(backend: &Backend) -> Arc<HttpProxy> {
    let (backends, mut requests) = Backends::new();
    let proxy = Arc::new(HttpProxy { backends, sessions: Mutex::default(), reporter: Reporter { quiet: true } });
    replace_server(&proxy, backend);
    let shared = Arc::clone(&proxy);
    // In place of the supervisor.
    tokio::spawn(async move {
        let mut failures = Vec::new();
        while let Some(request) = requests.recv().await {
            if let BackendRequest::Begin { started, failed, .. } = request {
                let _ = started.send(shared.backends.current().expect("a server"));
                failures.push(failed);
            }
        }
    });
    proxy
}

/// Makes a server the current one. The previous one keeps running.
fn replace_server(proxy: &HttpProxy, backend: &Backend) {
    lock(&proxy.backends.running).insert(backend.generation, backend.clone());
    proxy.backends.current.send_replace(Some(backend.clone()));
}

async fn handle(proxy: &Arc<HttpProxy>, request: Request) -> Response {
    let (Ok(response) | Err(response)) = routes::handle(State(Arc::clone(proxy)), request).await;
    response
}

/// Sends a request, in the session `one` if that is open.
async fn send(proxy: &Arc<HttpProxy>, method: &str, body: impl Into<Body>) -> Response {
    let mut request = Request::builder().method(method).uri("/mcp").header("host", "localhost");
    if proxy.session("one").is_some() {
        request = request.header("mcp-session-id", "one").header("mcp-protocol-version", "2025-06-18");
    }
    handle(proxy, request.body(body.into()).expect("a request")).await
}

async fn text(response: Response) -> String {
    let body = timeout(TIMEOUT, response.into_body().collect()).await.expect("the body ends");
    String::from_utf8(body.expect("a body").to_bytes().to_vec()).expect("text")
}

/// Opens the session `one` on a server.
async fn open_session(backend: &Backend) -> Arc<HttpProxy> {
    let proxy = proxy_for(backend);
    for message in [INITIALIZE, INITIALIZED] {
        assert!(send(&proxy, "POST", message).await.status().is_success(), "{message}");
    }
    proxy
}

#[tokio::test]
async fn a_session_continues_on_the_next_server_in_the_same_state() {
    let (first, _) = start(1, responses("one", "2025-06-18")).await;
    let (second, requests) = start(2, responses("two", "2025-06-18")).await;
    let proxy = open_session(&first).await;
    for message in [SUBSCRIBE, SET_LEVEL] {
        send(&proxy, "POST", message).await;
    }
    replace_server(&proxy, &second);
    let response = send(&proxy, "POST", CALL).await;
    assert_eq!(response.headers()["mcp-session-id"], "one");
    assert_eq!(
        requests.summaries(),
        [
            "POST - - initialize",
            "POST two 2025-06-18 notifications/initialized",
            "POST two 2025-06-18 logging/setLevel",
            "POST two 2025-06-18 resources/subscribe",
            "POST two 2025-06-18 tools/call",
        ]
    );
}

#[tokio::test]
async fn a_session_ends_if_the_next_server_offers_another_revision() {
    let (first, _) = start(1, responses("one", "2025-06-18")).await;
    let (second, requests) = start(2, responses("two", "2024-11-05")).await;
    let proxy = open_session(&first).await;
    replace_server(&proxy, &second);
    assert_eq!(send(&proxy, "POST", CALL).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(requests.summaries(), ["POST - - initialize"]);
    assert!(proxy.session("one").is_none());
}

#[tokio::test]
async fn a_deleted_session_ends_on_every_server() {
    let (first, of_first) = start(1, responses("one", "2025-06-18")).await;
    let (second, of_second) = start(2, responses("two", "2025-06-18")).await;
    let proxy = open_session(&first).await;
    replace_server(&proxy, &second);
    send(&proxy, "POST", CALL).await;
    assert_eq!(send(&proxy, "DELETE", "").await.status(), StatusCode::NO_CONTENT);
    assert_eq!(of_first.last().as_deref(), Some("DELETE one 2025-06-18 -"));
    assert_eq!(of_second.last().as_deref(), Some("DELETE two 2025-06-18 -"));
    assert!(proxy.session("one").is_none());
}

/// It may still be waiting for the answer to finish a call.
#[tokio::test]
async fn an_answer_reaches_the_server_that_has_asked() {
    let (first, of_first) = start(1, responses("one", "2025-06-18")).await;
    let (second, of_second) = start(2, responses("two", "2025-06-18")).await;
    let proxy = open_session(&first).await;
    let session = proxy.session("one").expect("a session");
    lock(&session.state).handle_server_message(1, r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#);
    replace_server(&proxy, &second);
    let response = send(&proxy, "POST", r#"{"jsonrpc":"2.0","id":9,"result":{"roots":[]}}"#).await;
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(of_first.last().as_deref(), Some("POST one 2025-06-18 -"));
    assert_eq!(of_second.summaries(), [""; 0]);
}

/// A server may close a stream at any time. The client then resumes it.
#[tokio::test]
async fn the_requests_of_a_closed_stream_stay_unanswered() {
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;
    let others = responses("one", "2025-06-18");
    let respond = move |body: &str| {
        if body == CALL { events(format!("id: 5\ndata: {progress}\n\n"), true) } else { others(body) }
    };
    let (server, _) = start(1, respond).await;
    let proxy = open_session(&server).await;
    assert_eq!(text(send(&proxy, "POST", CALL).await).await, format!("id: 1-5\ndata: {progress}\n\n"));
    let session = proxy.session("one").expect("a session");
    assert!(lock(&session.state).has_unanswered(1, &["7".to_owned()]));
}

/// A client that resumes the stream would receive the same event.
#[tokio::test]
async fn a_request_whose_response_is_too_large_fails() {
    let others = responses("one", "2025-06-18");
    let respond = move |body: &str| if body == CALL { events("x".repeat((64 << 20) + 1), false) } else { others(body) };
    let (server, _) = start(1, respond).await;
    let proxy = open_session(&server).await;
    let error = error_response("7", INTERNAL_ERROR, "an event of the stream is larger than 67108864 bytes");
    let stream = text(send(&proxy, "POST", CALL).await).await;
    assert!(stream.contains(&error), "{stream}");
}

#[tokio::test]
async fn clients_with_logging_receive_compiler_errors() {
    let others = responses("one", "2025-06-18");
    let respond = move |body: &str| if body.is_empty() { events(": open\n\n".to_owned(), false) } else { others(body) };
    let (server, _) = start(1, respond).await;
    let proxy = open_session(&server).await;
    let response = send(&proxy, "GET", "").await;
    let message = build_failure_notification("src/main.rs:1: no");
    proxy.backends.log_messages.send(message.clone()).expect("the stream waits for messages");
    let event = timeout(TIMEOUT, EventReader::new(response.into_body()).next()).await.expect("an event");
    assert_eq!(event.expect("an event").expect("an event").data, Some(message));
}

#[tokio::test]
async fn a_subscription_is_answered_at_shutdown() {
    let meta = r#""_meta":{"io.modelcontextprotocol/subscriptionId":"l"}"#;
    let acknowledged = r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{}}"#;
    let (server, _) = start(1, move |_| events(format!("data: {acknowledged}\n\n"), false)).await;
    let proxy = proxy_for(&server);
    let listen = r#"{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{}}"#;
    let mut events = EventReader::new(send(&proxy, "POST", listen).await.into_body());
    let expected = format!(r#"{{"jsonrpc":"2.0","id":"l","result":{{"resultType":"complete",{meta}}}}}"#);
    for expected in [acknowledged, &*expected] {
        let event = timeout(TIMEOUT, events.next()).await.expect("an event");
        assert_eq!(event.expect("an event").expect("an event").data.as_deref(), Some(expected));
        proxy.backends.is_shutdown.send_replace(true);
    }
    assert!(timeout(TIMEOUT, events.next()).await.expect("the stream ends").is_none());
}

#[tokio::test]
async fn other_requests_are_forwarded_unchanged() {
    let (server, requests) = start(1, |_| StatusCode::IM_A_TEAPOT.into_response()).await;
    let request = Request::builder().method("PUT").uri("/tea?milk=1").header("host", "localhost");
    let response = handle(&proxy_for(&server), request.body("pour".into()).expect("a request")).await;
    assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
    let requests = lock(&requests.0);
    let [Received { method, uri, body, .. }] = &**requests else { panic!("{} requests", requests.len()) };
    assert_eq!((method, uri.to_string().as_str(), body.as_str()), (&Method::PUT, "/tea?milk=1", "pour"));
}

#[tokio::test]
async fn the_size_of_a_request_is_limited() {
    let (server, requests) = start(1, |_| StatusCode::OK.into_response()).await;
    let response = send(&proxy_for(&server), "POST", vec![b' '; (64 << 20) + 1]).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(requests.summaries(), [""; 0]);
}
