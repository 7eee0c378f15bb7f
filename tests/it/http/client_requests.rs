//! Requests to the client over HTTP.

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt, Full};
use mcp_runtime::{
    Context, Fault, HttpOptions, Server,
    auth::Principal,
    backend::MemoryBackend,
    http::{HttpBody, HttpService},
    tool,
};
use serde_json::{Value, json};
use tower_service::Service;

use super::{
    Confirm,
    client::{Endpoint, Session, soon},
    request::{Request, initialize, stateless},
};
use crate::asking::server;

fn accept() -> Value {
    json!({"action": "accept", "content": {"sure": true}})
}

/// Opens a session of a client with the `elicitation` capability.
async fn session<'a>(endpoint: &'a Endpoint, version: &'static str) -> Session<'a> {
    let request = initialize(version).change(|message| message["params"]["capabilities"] = json!({"elicitation": {}}));
    let opened = endpoint.send(&request).await;
    let session = Session { endpoint, version, id: opened.header("mcp-session-id").unwrap().to_owned() };
    session.initialized().await;
    session
}

fn delete(session: &Session<'_>, id: u64) -> Request {
    let params = json!({"name": "delete", "arguments": {"path": "/a"}});
    session.post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
}

fn respond(session: &Session<'_>, question: &Value, result: Value) -> Request {
    session.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}))
}

/// Returns a call of 2026-07-28 from a client with the `elicitation` capability.
fn call(name: &str, extra: Value) -> Request {
    let mut params = json!({"name": name, "arguments": {}});
    params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    stateless("tools/call", &params).change(|message| {
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    })
}

#[tokio::test]
async fn a_client_request_is_sent_on_the_stream_of_its_call_and_answered_by_another_post() {
    let endpoint = Endpoint::start(server(), HttpOptions::default()).await;
    for version in ["2025-06-18", "2025-11-25"] {
        let session = session(&endpoint, version).await;
        let mut stream = endpoint.open(&delete(&session, 1)).await;
        let question = stream.message().await.unwrap();
        assert_eq!(question["method"], "elicitation/create", "{version}");
        let accepted = endpoint.send(&respond(&session, &question, accept())).await;
        assert_eq!((accepted.status, accepted.body.len()), (202, 0), "{version}");
        assert_eq!(stream.message().await.unwrap()["result"]["content"][0]["text"], "deleted /a");
        assert_eq!(stream.message().await, None);
    }
}

#[tokio::test]
async fn a_client_request_is_delivered_when_the_client_reconnects() {
    let endpoint = Endpoint::start(server(), HttpOptions::default()).await;
    let session = session(&endpoint, "2025-11-25").await;
    let mut stream = endpoint.open(&delete(&session, 1)).await;
    let primed = stream.event().await.unwrap().id.unwrap();
    let asked = stream.message().await.unwrap();
    drop(stream);
    let mut resumed = endpoint.open(&session.resume(&primed)).await;
    let question = resumed.message().await.unwrap();
    assert_eq!(question, asked);
    endpoint.send(&respond(&session, &question, accept())).await;
    assert_eq!(resumed.message().await.unwrap()["result"]["content"][0]["text"], "deleted /a");
}

#[tokio::test]
async fn only_the_session_that_was_asked_can_respond() {
    let endpoint = Endpoint::start(server(), HttpOptions::default()).await;
    let (asked, other) = (session(&endpoint, "2025-11-25").await, session(&endpoint, "2025-11-25").await);
    let mut stream = endpoint.open(&delete(&asked, 1)).await;
    let question = stream.message().await.unwrap();
    // Accepted, since a response has no response, but without effect.
    assert_eq!(endpoint.send(&respond(&other, &question, accept())).await.status, 202);
    assert_eq!(endpoint.send(&respond(&asked, &question, json!({"action": "decline"}))).await.status, 202);
    assert_eq!(stream.message().await.unwrap()["result"]["content"][0]["text"], "kept: declined");
}

#[tokio::test]
async fn a_response_that_is_too_long_leaves_the_call_waiting() {
    let endpoint = Endpoint::start(server(), HttpOptions::default()).await;
    let session = session(&endpoint, "2025-11-25").await;
    let mut stream = endpoint.open(&delete(&session, 1)).await;
    let question = stream.message().await.unwrap();
    let long = respond(&session, &question, json!({"action": "decline", "content": "x".repeat(5 << 20)}));
    assert_eq!(endpoint.send(&long).await.status, 413);
    endpoint.send(&respond(&session, &question, accept())).await;
    assert_eq!(stream.message().await.unwrap()["result"]["content"][0]["text"], "deleted /a");
}

#[tokio::test]
async fn a_cancelled_call_cancels_its_client_request_on_its_stream() {
    let endpoint = Endpoint::start(server(), HttpOptions::default()).await;
    let session = session(&endpoint, "2025-11-25").await;
    for id in 1..=20 {
        let mut stream = endpoint.open(&delete(&session, id)).await;
        let question = stream.message().await.unwrap();
        assert_eq!(endpoint.send(&session.cancel(id)).await.status, 202);
        let cancelled = stream.message().await.unwrap();
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], question["id"]);
        assert_eq!(stream.message().await, None);
    }
}

#[tokio::test]
async fn closing_a_session_ends_its_client_requests() {
    let endpoint = Endpoint::start(server(), HttpOptions::default()).await;
    let session = session(&endpoint, "2025-11-25").await;
    let mut stream = endpoint.open(&delete(&session, 1)).await;
    let question = stream.message().await.unwrap();
    assert_eq!(endpoint.send(&session.delete()).await.status, 204);
    let rest = stream.messages().await;
    let cancelled: Vec<_> = rest.iter().map(|message| (&message["method"], &message["params"]["requestId"])).collect();
    assert_eq!(cancelled[0], (&json!("notifications/cancelled"), &question["id"]));
    assert!(rest.len() == 2 && rest[1]["id"] == 1 && rest[1]["error"]["code"] == -32603, "{rest:?}");
    assert_eq!(endpoint.send(&respond(&session, &question, accept())).await.status, 404);
}

#[tokio::test]
async fn rounds_are_json_responses_and_missing_capabilities_are_bad_requests() {
    let endpoint = Endpoint::start(server(), HttpOptions::default()).await;
    let asked = endpoint.send(&call("delete", json!({"arguments": {"path": "/a"}}))).await;
    assert_eq!((asked.status, asked.header("content-type")), (200, Some("application/json")));
    let result = &asked.json()["result"];
    assert_eq!(result["resultType"], "input_required");
    let again = json!({
        "arguments": {"path": "/a"},
        "requestState": result["requestState"],
        "inputResponses": {"confirm": accept()},
    });
    assert_eq!(endpoint.send(&call("delete", again)).await.text(), "deleted /a");

    let without_elicitation = stateless("tools/call", &json!({"name": "delete", "arguments": {"path": "/a"}}));
    let refused = endpoint.send(&without_elicitation).await;
    assert_eq!(refused.outcome(), (400, -32021));
    assert_eq!(refused.json()["error"]["data"]["requiredCapabilities"], json!({"elicitation": {}}));
}

/// Report progress, then send a request that is too large.
#[tool]
async fn asks_too_much(ctx: &Context) -> Result<&'static str, Fault> {
    ctx.progress(1, 2, "half");
    let _ = ctx.elicit::<Confirm>("confirm", "x".repeat(2 << 20)).await?;
    Ok("asked")
}

/// Nothing waits for an answer that cannot come.
#[tokio::test]
async fn the_stream_of_a_call_whose_request_was_not_sent_ends() {
    for backend in [None, Some(MemoryBackend::default())] {
        let server = server().with::<asks_too_much>();
        let server = backend.into_iter().fold(server, Server::backend);
        let endpoint = Endpoint::start(server, HttpOptions::default()).await;
        let session = session(&endpoint, "2025-11-25").await;
        let messages = endpoint.open(&session.call(1, "asks_too_much")).await.messages().await;
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(messages[1]["error"]["message"].as_str().unwrap().contains("is too large"), "{messages:?}");
    }
}

/// Sends a request whose sender a middleware has identified.
async fn send_as(service: &mut HttpService, request: Request, principal: Option<&str>) -> Response<HttpBody> {
    let (method, path, headers, body) = request.into_parts();
    let mut builder = http::Request::builder().method(method.as_str()).uri(path);
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    let mut request = builder.body(Full::<Bytes>::from(body)).unwrap();
    if let Some(principal) = principal {
        request.extensions_mut().insert(Principal::new(principal));
    }
    service.call(request).await.unwrap()
}

async fn json_of(response: Response<HttpBody>) -> Value {
    let body = soon(response.into_body().collect()).await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{body:?}"))
}

/// An answer is of no use to another user, even if the state that carries the question is not sealed.
#[tokio::test]
async fn plain_state_is_bound_to_its_principal() {
    let mut service = server().build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    let delete = |extra: Value| {
        let mut params = json!({"arguments": {"path": "/a"}});
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        call("delete", params)
    };
    let asked = json_of(send_as(&mut service, delete(json!({})), Some("ada")).await).await;
    let again = json!({"requestState": asked["result"]["requestState"], "inputResponses": {"confirm": accept()}});
    for (principal, expected) in [(Some("eve"), "input_required"), (None, "input_required"), (Some("ada"), "complete")]
    {
        let response = json_of(send_as(&mut service, delete(again.clone()), principal).await).await;
        assert_eq!(response["result"]["resultType"], expected, "{principal:?}: {response}");
    }
}

/// One user cannot continue a call with the sealed state of another.
#[tokio::test]
async fn sealed_state_is_bound_to_its_principal() {
    let mut service = server().build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    let mut send = async |request: Request, principal: Option<&str>| -> Value {
        json_of(send_as(&mut service, request, principal).await).await
    };
    let state = send(call("order", json!({})), Some("ada")).await["result"]["requestState"].clone();
    assert!(state.is_string());
    let order = json!({"order": {"action": "accept", "content": {"name": "Ada", "size": "s", "toppings": []}}});
    let again = || call("order", json!({"requestState": state, "inputResponses": order}));
    for (principal, is_accepted) in [(Some("eve"), false), (None, false), (Some("ada"), true)] {
        let response = send(again(), principal).await;
        if is_accepted {
            assert_eq!(response["result"]["resultType"], "input_required", "{response}");
        } else {
            assert_eq!(response["error"]["code"], -32602, "{principal:?}");
        }
    }
}
