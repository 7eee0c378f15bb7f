//! The background work of a replica for all of its sessions does not delay their clients.

use std::{sync::Arc, time::Duration};

use http::Response;
use http_body_util::BodyExt as _;
use mcp_runtime::{
    HttpOptions,
    http::{HttpBody, HttpService},
};
use mcp_tests::backend::{Health, UnreliableBackend};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower_service::Service as _;

use crate::http::{
    request::{Request, initialize},
    server,
};

const SESSIONS: usize = 1000;
const ROUND_TRIP: Duration = Duration::from_millis(10);

async fn open(replica: &HttpService, request: Request) -> Response<HttpBody> {
    replica.clone().call(request.into_http(|_| {})).await.unwrap()
}

async fn opened(replica: &HttpService) -> String {
    let opening = initialize("2025-11-25").change(|message| {
        message["params"]["capabilities"] = json!({"elicitation": {}});
    });
    open(replica, opening).await.headers()["mcp-session-id"].to_str().unwrap().to_owned()
}

/// Reads an event stream up to the first message that satisfies a condition.
async fn until(body: &mut HttpBody, found: impl Fn(&Value) -> bool) -> Value {
    let mut text = String::new();
    loop {
        let frame = body.frame().await.expect("the stream ended").unwrap();
        text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let mut messages =
            complete.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        if let Some(message) = messages.find(|message| found(message)) {
            return message;
        }
    }
}

/// Renewing many sessions takes many round trips. The client that has answered must not wait for them.
#[tokio::test(start_paused = true)]
async fn an_answer_does_not_wait_until_all_sessions_are_renewed() {
    let shared = UnreliableBackend::default();
    let [(asking, backend), (other, _)] = [(); 2].map(|()| {
        let backend = Arc::new(shared.other_process());
        let server = server().1.backend(Arc::clone(&backend)).build().unwrap();
        (server.into_http_service(HttpOptions::default().session_idle(ROUND_TRIP * 800)).unwrap(), backend)
    });
    let session = opened(&asking).await;
    let of_session =
        |request: Request| request.with("mcp-session-id", &session).with("mcp-protocol-version", "2025-11-25");
    let post = |message: Value| of_session(Request::post(&message));
    open(&asking, post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "asks"}});
    let mut call = open(&asking, post(call)).await.into_body();
    let question = until(&mut call, |message| message["method"] == "elicitation/create").await;
    for _ in 0..SESSIONS {
        opened(&asking).await;
    }
    backend.set_health(Health::Slow(ROUND_TRIP));
    let before = backend.operations();
    while backend.operations() < before + 10 {
        sleep(ROUND_TRIP / 10).await;
    }
    let (before, begun) = (backend.operations(), Instant::now());
    let accept = json!({"action": "accept", "content": {"sure": true}});
    let answer = post(json!({"jsonrpc": "2.0", "id": question["id"], "result": accept}));
    assert_eq!(open(&other, answer).await.status(), 202);
    let response = until(&mut call, |message| message["id"] == 1).await;
    assert_eq!(response["result"]["content"][0]["text"], "sure");
    let waited = begun.elapsed();
    assert!(waited < ROUND_TRIP * 20, "the answer was delivered after {waited:?}");
    assert!(backend.operations() - before < SESSIONS, "the sessions were renewed before");
}
