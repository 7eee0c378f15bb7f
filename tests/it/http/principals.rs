//! A session belongs to the principal that opened it, or to none if it was opened without one.

use std::sync::Arc;

use http::Response;
use http_body_util::BodyExt;
use mcp_runtime::{
    HttpOptions, Server,
    auth::Identity,
    backend::MemoryBackend,
    http::{HttpBody, HttpService},
    resource,
};
use serde_json::{Value, json};
use tower_service::Service as _;

use super::{
    Gate,
    client::soon,
    request::{Request, initialize},
    server,
};

const VERSION: &str = "2025-11-25";
const PRINCIPALS: [Option<&str>; 4] = [None, Some(""), Some("ada"), Some("eve")];

/// A resource to subscribe to.
#[resource("memo://one")]
fn memo() -> &'static str {
    "one"
}

pub(super) fn service(server: Server, options: HttpOptions) -> HttpService {
    server.build().unwrap().into_http_service(options).unwrap()
}

/// Sends a request whose sender a middleware has identified.
pub(super) async fn send_as(service: &HttpService, principal: Option<&str>, request: Request) -> Response<HttpBody> {
    let request = request.into_http(|extensions| {
        if let Some(principal) = principal {
            extensions.insert(mcp_runtime::auth::Principal::new(principal));
        }
    });
    soon(service.clone().call(request)).await.unwrap()
}

/// Returns everything that a sender can observe about a response.
async fn observed(response: Response<HttpBody>) -> String {
    let (head, body) = response.into_parts();
    let body = soon(body.collect()).await.unwrap().to_bytes();
    format!("{} {:?} {}", head.status, head.headers, String::from_utf8_lossy(&body))
}

/// Waits for the next message of an event stream, and returns it with the id of its event.
pub(super) async fn next_event(body: &mut HttpBody) -> (Value, String) {
    loop {
        let frame = soon(body.frame()).await.expect("the stream ended").unwrap();
        let event = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        let field = |name| event.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        if !field("data:").is_empty() {
            return (serde_json::from_str(field("data:")).unwrap(), field("id:").to_owned());
        }
    }
}

/// Opens a session and returns its id.
pub(super) async fn open(service: &HttpService, opener: Option<&str>) -> String {
    let opening = initialize(VERSION).change(|message| message["params"]["capabilities"] = json!({"elicitation": {}}));
    let opened = send_as(service, opener, opening).await;
    let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let initialized = notify(&id, "notifications/initialized", json!({}));
    assert_eq!(send_as(service, opener, initialized).await.status(), 202);
    id
}

pub(super) fn in_session(id: &str, request: Request) -> Request {
    request.with("mcp-session-id", id).with("mcp-protocol-version", VERSION)
}

pub(super) fn post(id: &str, method: &str, params: Value) -> Request {
    in_session(id, Request::post(&json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params})))
}

pub(super) fn get(id: &str) -> Request {
    in_session(id, Request::new("GET")).with("accept", "text/event-stream")
}

fn delete(id: &str) -> Request {
    in_session(id, Request::new("DELETE"))
}

fn notify(id: &str, method: &str, params: Value) -> Request {
    in_session(id, Request::post(&json!({"jsonrpc": "2.0", "method": method, "params": params})))
}

fn answer(id: &str, question: &Value, action: &str) -> Request {
    let result = json!({"action": action, "content": {"sure": true}});
    in_session(id, Request::post(&json!({"jsonrpc": "2.0", "id": question, "result": result})))
}

/// Messages of every kind from other principals are rejected as if the session did not exist, and do not affect it.
#[tokio::test]
async fn a_session_exists_only_for_the_principal_that_opened_it() {
    for opener in PRINCIPALS {
        let (gate, server) = server();
        // No client over HTTP has the identity of the process.
        let server = server.with::<memo>().stdio_identity(Identity::new("ada"));
        let service = service(server, HttpOptions::default());
        check_principals(opener, &gate, &service, &service).await;
    }
}

/// Another replica, which learns of the session from the shared backend, rejects them as well.
#[tokio::test]
async fn a_session_exists_on_other_replicas_only_for_the_principal_that_opened_it() {
    for opener in PRINCIPALS {
        let backend = Arc::new(MemoryBackend::default());
        let replica =
            |server: Server| service(server.with::<memo>().backend(Arc::clone(&backend)), HttpOptions::default());
        let ((gate, first), (others, second)) = (server(), server());
        check_principals(opener, &gate, &replica(first), &replica(second)).await;
        assert_eq!(others.begun.load(super::Ordering::SeqCst), 0, "{opener:?}");
    }
}

/// A copy would take the place of a session of the sender.
#[tokio::test]
async fn replicas_keep_no_copies_of_sessions_for_other_principals() {
    for opener in PRINCIPALS {
        let backend = Arc::new(MemoryBackend::default());
        let [first, second] = [(); 2].map(|()| server().1.backend(Arc::clone(&backend)).build().unwrap());
        let copies = second.handle();
        let [first, second] = [first, second].map(|built| built.into_http_service(HttpOptions::default()).unwrap());
        let id = open(&first, opener).await;
        for other in PRINCIPALS.into_iter().filter(|other| *other != opener) {
            assert_eq!(send_as(&second, other, post(&id, "ping", json!({}))).await.status(), 404);
            assert_eq!(copies.sessions().len(), 0, "{other:?} in the session of {opener:?}");
        }
        assert_eq!(send_as(&second, opener, post(&id, "ping", json!({}))).await.status(), 200);
        assert_eq!(copies.sessions().len(), 1, "{opener:?}");
    }
}

/// Opens a session at one service, and sends messages of other principals to another service.
async fn check_principals(opener: Option<&str>, gate: &Gate, service: &HttpService, other_service: &HttpService) {
    let id = open(service, opener).await;
    let call = |name: &str| post(&id, "tools/call", json!({"name": name, "_meta": {"progressToken": 1}}));
    let mut asking = send_as(service, opener, call("asks")).await.into_body();
    let (question, _) = next_event(&mut asking).await;
    assert_eq!(question["method"], "elicitation/create");
    let reports = call("reports").change(|message| message["id"] = json!("reports"));
    let mut reporting = send_as(service, opener, reports).await.into_body();
    let (progress, event) = next_event(&mut reporting).await;
    assert_eq!(progress["method"], "notifications/progress");

    let kinds = |id: &str| {
        let error = json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": 1, "message": "no"}});
        [
            ("a request", post(id, "ping", json!({}))),
            ("a call", post(id, "tools/call", json!({"name": "waits"}))),
            ("another initialize", in_session(id, initialize(VERSION))),
            ("a subscription", post(id, "resources/subscribe", json!({"uri": "memo://one"}))),
            ("the end of a subscription", post(id, "resources/unsubscribe", json!({"uri": "memo://one"}))),
            ("a log level", post(id, "logging/setLevel", json!({"level": "debug"}))),
            ("a notification", notify(id, "notifications/initialized", json!({}))),
            ("a cancellation", notify(id, "notifications/cancelled", json!({"requestId": "reports"}))),
            ("an answer", answer(id, &question["id"], "accept")),
            ("an error for an answer", in_session(id, Request::post(&error))),
            ("not JSON", post(id, "ping", json!({})).body("{")),
            ("no version", post(id, "ping", json!({})).without("mcp-protocol-version")),
            ("the general stream", get(id)),
            ("the stream of a call", get(id).with("last-event-id", &event)),
            ("the start of a stream", get(id).with("last-event-id", "1-0")),
            ("the end", delete(id)),
        ]
    };
    for other in PRINCIPALS.into_iter().filter(|other| *other != opener) {
        for ((kind, request), (_, unknown)) in kinds(&id).into_iter().zip(kinds("AAAA")) {
            let refused = observed(send_as(other_service, other, request).await).await;
            let unknown = observed(send_as(other_service, other, unknown).await).await;
            assert!(unknown.starts_with("404 "), "{kind}: {unknown}");
            assert_eq!(refused, unknown, "{kind} of {other:?} in the session of {opener:?}");
        }
    }

    assert_eq!(send_as(service, opener, answer(&id, &question["id"], "decline")).await.status(), 202);
    assert_eq!(next_event(&mut asking).await.0["result"]["content"][0]["text"], "not sure", "{opener:?}");
    gate.open();
    assert_eq!(next_event(&mut reporting).await.0["method"], "notifications/progress", "{opener:?}");
    assert_eq!(next_event(&mut reporting).await.0["result"]["content"][0]["text"], "reported", "{opener:?}");
    assert_eq!(gate.begun.load(super::Ordering::SeqCst), 2, "{opener:?}");
    assert_eq!(send_as(service, opener, delete(&id)).await.status(), 204);
}

/// Requests of other principals do not keep a session from being evicted as the one idle longest.
#[tokio::test]
async fn requests_of_others_do_not_extend_a_session() {
    for opener in PRINCIPALS {
        for other in PRINCIPALS.into_iter().filter(|other| *other != opener) {
            let service = service(server().1, HttpOptions::default().max_sessions(2));
            let (first, second) = (open(&service, opener).await, open(&service, opener).await);
            for request in [post(&first, "ping", json!({})), get(&first), delete(&first)] {
                assert_eq!(send_as(&service, other, request).await.status(), 404);
            }
            open(&service, opener).await;
            for (id, status) in [(first, 404), (second, 200)] {
                let response = send_as(&service, opener, post(&id, "ping", json!({}))).await;
                assert_eq!(response.status(), status, "{other:?} in the session of {opener:?}");
            }
        }
    }
}
