//! Web pages that the user must visit first, over HTTP.

use mcp_runtime::HttpOptions;
use serde_json::{Value, json};

use super::{
    client::{Endpoint, Session, soon},
    request::initialize,
};
use crate::asking::url_server;

/// Opens a session of a client that supports elicitation by URL.
async fn session(endpoint: &Endpoint) -> Session<'_> {
    let capabilities = json!({"elicitation": {"url": {}}});
    let request = initialize("2025-11-25").change(|message| message["params"]["capabilities"] = capabilities);
    let opened = endpoint.send(&request).await;
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    let session = Session { endpoint, version: "2025-11-25", id };
    session.initialized().await;
    session
}

/// Calls a tool that sends the user to a web page. Returns the id of the elicitation.
async fn visit(session: &Session<'_>, tool: &str) -> Value {
    if tool == "files" {
        let response = session.endpoint.send(&session.call(1, tool)).await;
        assert_eq!(response.outcome(), (200, -32042));
        return response.json()["error"]["data"]["elicitations"][0]["elicitationId"].take();
    }
    let mut stream = session.endpoint.open(&session.call(1, tool)).await;
    let mut question = stream.message().await.unwrap();
    let accepted = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
    assert_eq!(session.endpoint.send(&session.post(&accepted)).await.status, 202);
    assert_eq!(stream.message().await.unwrap()["result"]["content"][0]["text"], "open");
    question["params"]["elicitationId"].take()
}

#[tokio::test]
async fn completion_is_sent_on_the_general_stream_of_the_session_that_was_asked() {
    let (server, _, mut completions) = url_server();
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    for tool in ["connect", "files"] {
        for has_stream in [true, false] {
            let (asked, other) = (session(&endpoint).await, session(&endpoint).await);
            let mut others = endpoint.open(&other.get()).await;
            let mut early = if has_stream { Some(endpoint.open(&asked.get()).await) } else { None };
            let id = visit(&asked, tool).await;
            let completion = soon(completions.recv()).await.unwrap();
            assert!(completion.complete(), "{tool}");
            let mut stream = match early.take() {
                Some(stream) => stream,
                None => endpoint.open(&asked.get()).await,
            };
            let expected = |id: &Value| {
                json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete",
                    "params": {"elicitationId": id}})
            };
            assert_eq!(stream.message().await.unwrap(), expected(&id), "{tool}");
            // The first message of the other session is about its own elicitation.
            let id = visit(&other, tool).await;
            assert!(soon(completions.recv()).await.unwrap().complete(), "{tool}");
            assert_eq!(others.message().await.unwrap(), expected(&id), "{tool}");
            // Nothing else was sent.
            assert_eq!(endpoint.send(&asked.delete()).await.status, 204);
            assert_eq!(stream.messages().await, [] as [Value; 0], "{tool}");
        }
    }
}

#[tokio::test]
async fn completion_is_not_sent_after_the_session_was_deleted() {
    let (server, _, mut completions) = url_server();
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    for tool in ["connect", "files"] {
        let session = session(&endpoint).await;
        visit(&session, tool).await;
        let completion = soon(completions.recv()).await.unwrap();
        assert_eq!(endpoint.send(&session.delete()).await.status, 204);
        assert!(!completion.complete(), "{tool}");
    }
}
