//! Requests to the client that wait for `notifications/initialized`, or that belong to no call, over HTTP.

use std::{task::Poll, time::Duration};

use mcp_runtime::{HttpOptions, Level};
use serde_json::{Value, json};

use super::{
    client::{Endpoint, Session, soon},
    request::initialize,
};
use crate::sessions::{background_server, server};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// Opens a session of a client with roots, without sending `notifications/initialized`.
async fn session<'a>(endpoint: &'a Endpoint, version: &'static str) -> Session<'a> {
    let request = initialize(version).change(|message| message["params"]["capabilities"] = json!({"roots": {}}));
    let opened = endpoint.send(&request).await;
    Session { endpoint, version, id: opened.header("mcp-session-id").unwrap().to_owned() }
}

async fn respond(session: &Session<'_>, request: &Value, result: Value) {
    let response = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    assert_eq!(session.endpoint.send(&session.post(&response)).await.status, 202);
}

fn roots() -> Value {
    json!({"roots": [{"uri": "file:///a"}]})
}

#[tokio::test]
async fn a_question_waits_until_the_client_is_initialized() {
    let endpoint = Endpoint::start(server(), HttpOptions::default().stream_after(Duration::from_millis(1))).await;
    for version in VERSIONS {
        let session = session(&endpoint, version).await;
        // The response becomes a stream because nothing has been sent for a while.
        let mut stream = endpoint.open(&session.call(1, "roots")).await;
        session.initialized().await;
        let question = stream.message().await.unwrap();
        assert_eq!(question["method"], "roots/list", "{version}");
        respond(&session, &question, roots()).await;
        assert_eq!(stream.message().await.unwrap()["result"]["content"][0]["text"], "file:///a", "{version}");
    }
}

#[tokio::test]
async fn a_question_fails_if_the_client_is_never_initialized() {
    let server = server().ask_timeout(Duration::from_millis(5));
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    for version in VERSIONS {
        let session = session(&endpoint, version).await;
        let result = endpoint.send(&session.call(1, "roots")).await.json();
        let error = result["error"]["message"].as_str().unwrap();
        assert!(error.contains("has not sent `notifications/initialized` within 5ms"), "{version}: {error}");
    }
}

#[tokio::test]
async fn questions_outside_of_calls_are_sent_on_the_general_stream() {
    let (server, mut outcomes) = background_server();
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    for (version, has_stream) in VERSIONS.into_iter().zip([true, false, true]) {
        let session = session(&endpoint, version).await;
        session.initialized().await;
        let mut early = if has_stream { Some(endpoint.open(&session.get()).await) } else { None };
        let result = endpoint.send(&session.call(1, "asks_later")).await.json();
        assert_eq!(result["result"]["content"][0]["text"], "later", "{version}");
        // Without a stream, the question waits for one.
        let mut stream = match early.take() {
            Some(stream) => stream,
            None => endpoint.open(&session.get()).await,
        };
        let question = stream.message().await.unwrap();
        assert_eq!(question["method"], "roots/list", "{version}");
        respond(&session, &question, roots()).await;
        assert_eq!(soon(outcomes.recv()).await, Some(Ok("file:///a".to_owned())), "{version}");
    }
}

#[tokio::test]
async fn questions_outside_of_calls_need_a_stream() {
    let (server, mut outcomes) = background_server();
    let endpoint = Endpoint::start(server.ask_timeout(Duration::from_millis(5)), HttpOptions::default()).await;
    let session = session(&endpoint, "2025-11-25").await;
    session.initialized().await;
    endpoint.send(&session.call(1, "asks_later")).await;
    let error = soon(outcomes.recv()).await.unwrap().unwrap_err();
    assert!(error.contains("has not opened a stream for messages outside of calls within 5ms"), "{error}");
}

#[tokio::test]
async fn questions_outside_of_calls_fail_when_the_session_is_deleted() {
    let (server, mut outcomes) = background_server();
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    let session = session(&endpoint, "2025-11-25").await;
    session.initialized().await;
    let mut stream = endpoint.open(&session.get()).await;
    endpoint.send(&session.call(1, "asks_later")).await;
    stream.message().await.unwrap();
    assert_eq!(endpoint.send(&session.delete()).await.status, 204);
    let ended = "the session ended before the client answered".to_owned();
    assert_eq!(soon(outcomes.recv()).await, Some(Err(ended)));
}

#[tokio::test]
async fn log_messages_of_a_handle_are_sent_on_the_general_stream() {
    let server = server();
    let handle = server.handle();
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    for (count, version) in (1..).zip(VERSIONS) {
        let session = session(&endpoint, version).await;
        session.initialized().await;
        handle.log(Level::Error, "nobody reads");
        assert_eq!(handle.dropped_log_messages(), count, "{version}");
        let mut stream = endpoint.open(&session.get()).await;
        handle.log(Level::Error, "hello");
        assert_eq!(stream.message().await.unwrap()["params"]["data"], "hello", "{version}");
        // The server notices that the client no longer reads.
        let sessions = handle.sessions();
        assert!(sessions[0].is_reachable().await, "{version}");
        drop(stream);
        soon(async {
            while sessions[0].is_reachable().await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        assert_eq!(endpoint.send(&session.delete()).await.status, 204);
    }
}

#[tokio::test]
async fn only_the_session_that_was_pinged_can_respond() {
    let endpoint = Endpoint::start(server(), HttpOptions::default()).await;
    let (pinged, other) = (session(&endpoint, "2025-11-25").await, session(&endpoint, "2025-11-25").await);
    let mut stream = endpoint.open(&pinged.call(1, "pings")).await;
    let ping = stream.message().await.unwrap();
    assert_eq!(ping["method"], "ping");
    respond(&other, &ping, json!({})).await;
    // A response that counted would have completed the call before the cancellation.
    endpoint.send(&pinged.cancel(1)).await;
    let withdrawn = stream.message().await.unwrap();
    assert_eq!(
        (&withdrawn["method"], &withdrawn["params"]["requestId"]),
        (&json!("notifications/cancelled"), &ping["id"])
    );
    let mut stream = endpoint.open(&pinged.call(2, "pings")).await;
    let ping = stream.message().await.unwrap();
    respond(&pinged, &ping, json!({})).await;
    assert_eq!(stream.message().await.unwrap()["result"]["content"][0]["text"], "responsive");
}

/// Functions may keep the future of a request without polling it.
#[tokio::test]
async fn unpolled_requests_do_not_keep_the_general_stream_open() {
    let server = server();
    let handle = server.handle();
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    let session = session(&endpoint, "2025-11-25").await;
    session.initialized().await;
    let mut stream = endpoint.open(&session.get()).await;
    let sessions = handle.sessions();
    let mut question = Box::pin(sessions[0].roots());
    assert!(std::future::poll_fn(|cx| Poll::Ready(question.as_mut().poll(cx))).await.is_pending());
    assert_eq!(stream.message().await.unwrap()["method"], "roots/list");
    assert_eq!(endpoint.send(&session.delete()).await.status, 204);
    let rest = stream.messages().await;
    assert_eq!((rest.len(), &rest[0]["method"]), (1, &json!("notifications/cancelled")));
    assert_eq!(question.await.unwrap_err().to_string(), "the session ended before the client answered");
}
