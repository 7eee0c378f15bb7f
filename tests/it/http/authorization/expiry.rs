//! Streams whose credentials expire.

use std::time::Duration;

use http_body_util::BodyExt as _;
use mcp_runtime::{HttpOptions, Server, http::HttpBody};
use serde_json::json;

use super::{Protected, Request, call, soon, stateless, waits, with_token};
use crate::http::request::initialize;

/// Reads a stream to its end.
async fn read(body: HttpBody) -> String {
    String::from_utf8(soon(body.collect()).await.unwrap().to_bytes().to_vec()).unwrap()
}

fn protected(grace: Option<Duration>) -> Protected {
    let options = HttpOptions::default().stream_after(Duration::ZERO).expired_stream_grace(grace);
    Protected::with(|server| server, options)
}

#[tokio::test]
async fn streams_end_when_the_credentials_expire() {
    let server = protected(Some(Duration::from_millis(20)));
    // The call is cancelled, since no other request can reach it.
    let response = server.open(with_token(call("waits"), "brief")).await;
    let text = read(response.into_body()).await;
    assert!(text.contains("waiting") && !text.contains("\"result\""), "{text}");
    // A subscription is answered.
    let listen = stateless("subscriptions/listen", &json!({"notifications": {"toolsListChanged": true}}));
    let text = read(server.open(with_token(listen, "brief")).await.into_body()).await;
    assert!(text.contains("acknowledged") && text.contains("\"result\""), "{text}");
    // The stream of a session ends, but the session does not.
    let opened = server.send(with_token(initialize("2025-11-25"), "brief")).await;
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    let in_session = |request: Request| request.with("mcp-session-id", &id).with("mcp-protocol-version", "2025-11-25");
    let get = in_session(Request::new("GET")).with("accept", "text/event-stream");
    let text = read(server.open(with_token(get, "brief")).await.into_body()).await;
    // The client can resume it.
    let last = text.trim_end().rsplit("\n\n").next().unwrap();
    assert!(last.starts_with("retry: 1000\nid: "), "{text}");
    let ping = in_session(Request::post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})));
    assert_eq!(server.open(with_token(ping, "brief")).await.status(), 200);
}

/// An authenticator may accept credentials for a while after their expiry.
#[tokio::test]
async fn the_grace_period_starts_at_the_expiry() {
    let server = protected(Some(Duration::from_secs(3602)));
    let text = read(server.open(with_token(call("waits"), "late")).await.into_body()).await;
    assert!(text.contains("waiting") && !text.contains("\"result\""), "{text}");
}

#[tokio::test]
async fn streams_may_outlive_the_credentials() {
    for grace in [None, Some(Duration::from_secs(300))] {
        let server = protected(grace);
        let response = server.open(with_token(call("waits"), "brief")).await;
        let mut body = response.into_body();
        let first = soon(body.frame()).await.unwrap().unwrap().into_data().unwrap();
        assert!(String::from_utf8_lossy(&first).contains("waiting"));
        // The credentials have expired when the call ends.
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.journal.permits.add_permits(1);
        let text = read(body).await;
        assert!(text.contains("\"result\""), "{text}");
    }
}

/// The subscription is answered after the changes that precede the expiry.
#[tokio::test]
async fn a_slow_reader_receives_the_end_of_its_subscription() {
    let mut handle = None;
    let keep_handle = |server: Server| {
        handle = Some(server.handle());
        server
    };
    let options = HttpOptions::default().expired_stream_grace(Some(Duration::from_millis(20)));
    let server = Protected::with(keep_handle, options);
    let filter = json!({"toolsListChanged": true, "resourcesListChanged": true});
    let listen = stateless("subscriptions/listen", &json!({"notifications": filter}));
    let mut body = server.open(with_token(listen, "short")).await.into_body();
    let first = soon(body.frame()).await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("acknowledged"));
    let handle = handle.unwrap();
    handle.resource_list_changed();
    handle.disable::<waits>();
    // The credentials have expired when the client reads on.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let text = read(body).await;
    for part in ["resources/list_changed", "tools/list_changed", "\"result\""] {
        assert!(text.contains(part), "{text}");
    }
}
