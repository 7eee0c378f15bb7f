//! The beginning and the end of sessions: deletion, expiry and eviction.

use std::{
    sync::{Arc, OnceLock, atomic::Ordering},
    time::Duration,
};

use http::Response;
use mcp_runtime::{
    Context, HttpOptions, Server,
    function::ResourceEntry,
    http::{HttpBody, HttpService},
};
use serde_json::{Value, json};
use tower_service::Service as _;

use super::{VERSIONS, ping};
use crate::http::{
    client::{Session, send_body, send_head, soon},
    request::{Request, initialize},
    serve, serve_with,
};

#[tokio::test]
async fn a_session_is_opened_used_and_ended() {
    let (_, endpoint) = serve().await;
    for version in VERSIONS {
        let session = endpoint.session(version).await;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let accepted = endpoint.send(&session.post(&initialized)).await;
        assert_eq!((accepted.status, accepted.body.len()), (202, 0), "{version}");
        let called = endpoint.send(&session.call(1, "whoami")).await;
        assert_eq!(called.text(), r#"None Some("127.0.0.1") Some("test")"#);
        assert_eq!(called.header("mcp-session-id"), None);

        let ended = endpoint.send(&session.delete()).await;
        assert_eq!((ended.status, ended.body.len()), (204, 0), "{version}");
        for request in [session.ping(), session.get(), session.delete(), session.call(2, "quick")] {
            assert_eq!(endpoint.send(&request).await.outcome(), (404, -32600), "{version} {request:?}");
        }
    }
}

/// Ids have at least 128 random bits, in visible ASCII.
#[tokio::test]
async fn ids_cannot_be_guessed() {
    let (_, endpoint) = serve().await;
    let mut ids = Vec::new();
    for _ in 0..100 {
        ids.push(endpoint.session("2025-11-25").await.id);
    }
    mcp_tests::assert_unguessable(&ids);
}

#[tokio::test]
async fn a_session_expires_unless_it_has_a_call_or_a_stream() {
    let idle = Duration::from_millis(500);
    let (gate, endpoint) = serve_with(HttpOptions::default().session_idle(idle)).await;
    let (calling, listening, abandoned, disconnected) = (
        endpoint.session("2025-11-25").await,
        endpoint.session("2025-11-25").await,
        endpoint.session("2025-11-25").await,
        endpoint.session("2025-11-25").await,
    );
    let mut call = endpoint.open(&calling.call(1, "reports")).await;
    assert!(call.message().await.is_some());
    let listener = endpoint.open(&listening.get()).await;
    // The call continues after its client has disconnected.
    let mut connection = endpoint.connect().await;
    connection.write(&disconnected.call(1, "waits").bytes()).await;
    gate.has_begun(2).await;
    drop(connection);

    tokio::time::sleep(idle * 2).await;
    assert!(!abandoned.is_alive().await);
    assert!(disconnected.is_alive().await);
    assert!(listening.is_alive().await);
    assert!(calling.is_alive().await);
    gate.open();
    gate.open();
    assert_eq!(call.messages().await.len(), 2);
    drop(listener);
    tokio::time::sleep(idle * 2).await;
    for session in [&calling, &listening, &disconnected] {
        assert!(!session.is_alive().await);
    }
}

#[tokio::test]
async fn an_idle_session_is_evicted_when_there_are_too_many() {
    let (gate, endpoint) = serve_with(HttpOptions::default().max_sessions(2)).await;
    let (first, second) = (endpoint.session("2025-11-25").await, endpoint.session("2025-11-25").await);
    assert!(first.is_alive().await);
    let third = endpoint.session("2025-11-25").await;
    assert!(!second.is_alive().await);
    assert!(first.is_alive().await && third.is_alive().await);

    let listening = endpoint.open(&first.get()).await;
    let mut call = endpoint.open(&third.call(1, "reports")).await;
    assert!(call.message().await.is_some());
    let refused = endpoint.send(&initialize("2025-11-25")).await;
    assert_eq!((refused.outcome(), refused.header("retry-after")), ((503, -32603), Some("1")));
    assert_eq!(refused.header("mcp-session-id"), None);
    gate.open();
    assert_eq!(call.messages().await.len(), 2);
    endpoint.session("2025-11-25").await;
    drop(listening);
}

/// What `on_subscribe` returned is dropped while other requests can use the sessions, however a session ends.
#[tokio::test]
async fn guards_of_subscriptions_may_use_the_service() {
    /// Closes the sessions of the service when it is dropped.
    struct Closing(Arc<OnceLock<HttpService>>);
    impl Drop for Closing {
        fn drop(&mut self) {
            self.0.get().unwrap().close();
        }
    }
    async fn send(service: &HttpService, request: Request) -> Response<HttpBody> {
        soon(service.clone().call(request.into_http(|_| {}))).await.unwrap()
    }
    let (long, short) = (Duration::from_secs(600), Duration::from_millis(1));
    for (case, max_sessions, idle, opens_another, expected) in [
        ("eviction", 1, long, true, 200),
        ("removal of expired sessions", 1, short, true, 200),
        ("use of an expired session", 2, short, false, 404),
    ] {
        let service = Arc::new(OnceLock::new());
        let own = Arc::downgrade(&service);
        let item = ResourceEntry::new("test://a", "item", async |_: Value, _: Context| "text")
            .on_subscribe(move |_| Closing(own.upgrade().unwrap()));
        let server = Server::empty("guards", "1.0.0").with_entry(item).build().unwrap();
        // Subscriptions exist only if the server can change.
        server.handle();
        let options = HttpOptions::default().max_sessions(max_sessions).session_idle(idle).max_peer_share(1.0);
        service.set(server.into_http_service(options).unwrap()).unwrap();
        let service = service.get().unwrap();
        let in_session = |id: &str, message: &Value| Request::post(message).with("mcp-session-id", id);
        let subscribe =
            json!({"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "test://a"}});
        let id = loop {
            let opened = send(service, initialize("2025-11-25")).await;
            let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
            drop(opened);
            // The session may have expired.
            if send(service, in_session(&id, &subscribe)).await.status() == 200 {
                break id;
            }
            assert_eq!(idle, short, "{case}");
        };
        tokio::time::sleep(50 * short).await;
        let next = if opens_another { initialize("2025-11-25") } else { in_session(&id, &ping(1)) };
        assert_eq!(send(service, next).await.status(), expected, "{case}");
    }
}

#[tokio::test]
async fn a_session_is_not_evicted_while_the_body_of_its_request_is_received() {
    let (_, endpoint) = serve_with(HttpOptions::default().max_sessions(1)).await;
    let session = endpoint.session("2025-11-25").await;
    let request = session.call(1, "quick").with("expect", "100-continue");
    let connection = send_head(&endpoint, &request).await;
    assert_eq!(endpoint.send(&initialize("2025-11-25")).await.status, 503);
    assert_eq!(send_body(connection, &request).await.status, 200);
    assert!(session.is_alive().await);
}

/// Nothing runs for a session that has ended while the body of the message was received.
#[tokio::test]
async fn a_body_that_arrives_after_the_end_of_its_session_is_refused() {
    let (gate, endpoint) = serve().await;
    let legacy = |session: &Session<'_>| session.call(1, "waits").without("mcp-protocol-version");
    for (kind, build) in [
        ("a call", (|session| session.call(1, "waits")) as fn(&Session<'_>) -> Request),
        ("a call without a version", legacy),
        ("a request", |session| session.ping()),
        ("a cancellation", |session| session.cancel(1)),
        ("a batch", |session| session.post(&json!([ping(1)]))),
        ("not JSON", |session| session.ping().body("{")),
    ] {
        let session = endpoint.session("2025-03-26").await;
        let request = build(&session).with("expect", "100-continue");
        let connection = send_head(&endpoint, &request).await;
        assert_eq!(endpoint.send(&session.delete()).await.status, 204);
        let unknown = endpoint.send(&session.ping()).await;
        let refused = send_body(connection, &request).await;
        assert_eq!((refused.outcome(), &refused.body), ((404, -32600), &unknown.body), "{kind}");
    }
    assert_eq!(gate.begun.load(Ordering::SeqCst), 0);
}
