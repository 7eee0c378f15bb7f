//! JSON that functions pass on verbatim, over HTTP: every message is one line of an event, or the whole body.

use mcp_runtime::{HttpOptions, http::ListenerOptions};
use serde_json::{Value, json};

use super::{
    client::{Endpoint, Response},
    request::{Request, initialize, stateless},
};
use crate::lines::{LINE_BREAKS, TOOLS, VICTIM, expected, server, value_of};

/// Reads events up to the response with id 1. Returns the messages before it, and its result.
async fn read(stream: &mut Response) -> (Vec<Value>, Value) {
    let mut others = Vec::new();
    loop {
        let event = stream.event().await.expect("the stream ended");
        assert!(!event.data.contains(['\r', '\n']), "{event:?}");
        if event.data.is_empty() {
            continue;
        }
        let message = event.json();
        assert_ne!(message["id"], VICTIM, "forged");
        if message["id"] == 1 {
            return (others, message["result"].clone());
        }
        others.push(message["params"]["data"].clone());
    }
}

fn params(name: &str, line_break: &str) -> Value {
    json!({"name": name, "arguments": {"line_break": line_break},
        "_meta": {"io.modelcontextprotocol/logLevel": "debug"}})
}

fn call(name: &str, line_break: &str) -> Request {
    let params = params(name, line_break);
    Request::post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
}

#[tokio::test]
async fn json_of_functions_is_one_event_or_one_body() {
    let endpoint = Endpoint::start(server(), HttpOptions::default()).await;
    for version in ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        for (line_break, name) in LINE_BREAKS.into_iter().flat_map(|each| TOOLS.map(|name| (each, name))) {
            let request = if version == "2026-07-28" {
                stateless("tools/call", &params(name, line_break))
            } else {
                endpoint.session(version).await.wrap(call(name, line_break))
            };
            let mut response = endpoint.open(&request).await;
            let is_stream = name == "fetch_with_log";
            let content_type = if is_stream { "text/event-stream" } else { "application/json" };
            assert_eq!(response.header("content-type"), Some(content_type), "{version} {name} {line_break:?}");
            let result = if is_stream {
                let (logged, result) = read(&mut response).await;
                assert_eq!(logged, [expected(), expected()["body"].clone()], "{version} {line_break:?}");
                result
            } else {
                response.full().await.0.json()["result"].clone()
            };
            assert_eq!(value_of(&result), expected(), "{version} {name} {line_break:?}");
        }
    }
}

#[tokio::test]
async fn json_of_functions_is_one_event_of_the_legacy_transport() {
    let endpoint = Endpoint::start(server(), ListenerOptions::default().legacy_sse(true)).await;
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let mut stream = endpoint.open(&Request::new("GET").path("/sse").with("accept", "text/event-stream")).await;
        let path = stream.event().await.unwrap().data;
        assert_eq!(endpoint.send(&initialize(version).path(&path)).await.status, 202);
        assert_eq!(stream.event().await.unwrap().json()["result"]["protocolVersion"], version);
        for (line_break, name) in LINE_BREAKS.into_iter().flat_map(|each| TOOLS.map(|name| (each, name))) {
            assert_eq!(endpoint.send(&call(name, line_break).path(&path)).await.status, 202);
            let (logged, result) = read(&mut stream).await;
            assert_eq!(logged.len(), if name == "fetch_with_log" { 2 } else { 0 }, "{version} {name}");
            assert_eq!(value_of(&result), expected(), "{version} {name} {line_break:?}");
        }
    }
}
