//! The rates of requests without a session.

use std::net::SocketAddr;

use http_body_util::BodyExt;
use mcp_runtime::{HttpOptions, auth::Principal};
use serde_json::{Value, json};
use tower_service::Service;

use crate::{
    http::{
        client::{Endpoint, soon},
        request::stateless,
    },
    rates::{server, two_each},
    tasks::EXTENSION,
};

/// Peers have two requests of each kind, which are not replenished.
#[tokio::test]
async fn requests_without_a_session_count_for_their_peer() {
    let completion = stateless(
        "completion/complete",
        &json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "tone", "value": "form"}}),
    );
    let task = stateless("tasks/get", &json!({"taskId": "unknown"})).with("Mcp-Name", "unknown").change(|message| {
        let declared = json!({"extensions": {EXTENSION: {}}});
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared;
    });
    let options = HttpOptions::default().peer_addr(|request| request.extensions.get().copied());
    let mut service = server(two_each()).build().unwrap().into_http_service(options).unwrap();
    for (request, excess) in [(completion, "too many completion requests"), (task, "too many requests about tasks")] {
        for (principal, host, is_accepted) in [
            (None, 1, true),
            (None, 1, true),
            (None, 1, false),
            (None, 2, true),
            // Principals have budgets of their own, from whichever address.
            (Some("ada"), 1, true),
            (Some("ada"), 2, true),
            (Some("ada"), 3, false),
            (Some("bob"), 1, true),
            (None, 1, false),
        ] {
            let request = request.clone().into_http(|extensions| {
                extensions.insert(SocketAddr::from(([192, 0, 2, host], 1)));
                if let Some(principal) = principal {
                    extensions.insert(Principal::new(principal));
                }
            });
            let response = soon(service.call(request)).await.unwrap();
            let body = soon(response.into_body().collect()).await.unwrap().to_bytes();
            let body = serde_json::from_slice::<Value>(&body).unwrap();
            let message = body["error"]["message"].as_str().unwrap_or_default();
            assert_eq!(!message.starts_with(excess), is_accepted, "{principal:?} from {host}: {body}");
        }
    }
}

/// Clients behind one address share no budget if they have sessions.
#[tokio::test]
async fn requests_of_a_session_count_for_it() {
    let endpoint = Endpoint::start(server(two_each()), HttpOptions::default()).await;
    let reference = json!({"type": "ref/prompt", "name": "greet"});
    let params = json!({"ref": reference, "argument": {"name": "tone", "value": "form"}});
    for number in 0..2 {
        let session = endpoint.session("2025-11-25").await;
        for (id, is_accepted) in [(1, true), (2, true), (3, false)] {
            let message = json!({"jsonrpc": "2.0", "id": id, "method": "completion/complete", "params": params});
            let reply = endpoint.send(&session.post(&message)).await.json();
            assert_eq!(reply["error"].is_null(), is_accepted, "session {number}: {reply}");
        }
    }
}
