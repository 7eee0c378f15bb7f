//! Sessions that replicas share: each of their messages may reach any replica.

mod answers;
mod failures;
mod lifetime;
mod messages;

use std::time::Duration;

use serde_json::{Value, json};

use crate::http::{
    client::{Endpoint, Response, Session, soon},
    request::{Request, initialize},
};

/// Opens a session of a client with these capabilities, without `notifications/initialized`.
pub(super) async fn open<'a>(endpoint: &'a Endpoint, version: &'static str, capabilities: Value) -> Session<'a> {
    let opening = initialize(version).change(|message| message["params"]["capabilities"] = capabilities);
    let opened = endpoint.send(&opening).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    Session { endpoint, version, id: opened.header("mcp-session-id").unwrap().to_owned() }
}

pub(super) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Reads messages until one has this method.
pub(super) async fn until_method(response: &mut Response, method: &str) -> Value {
    loop {
        let message = response.message().await.expect("the stream ended");
        if message["method"] == method {
            return message;
        }
    }
}

/// Sends a request until a replica has heard of what another one has changed.
pub(super) async fn until_status(endpoint: &Endpoint, request: &Request, status: u16) {
    soon(async {
        while endpoint.send(request).await.status != status {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
