//! The number of calls in flight, and the size of their arguments.

use std::time::Duration;

use mcp_runtime::{
    Context, Fault, HttpOptions, ResourceLink, Server,
    function::MethodEntry,
    layers::{Call, Next, from_fn},
    prompt, resource, tool,
};
use serde_json::{Value, json};

use crate::http::{
    client::{Endpoint, Session},
    request::{call, initialize, stateless},
    serve_with, server,
};

#[tokio::test]
async fn calls_in_flight_are_limited() {
    let (gate, endpoint) = serve_with(HttpOptions::default().max_in_flight(2)).await;
    let session = endpoint.session("2025-11-25").await;
    let mut streamed = endpoint.open(&session.call(1, "reports")).await;
    assert!(streamed.message().await.is_some());
    let waiting = call("waits");
    let others = async {
        gate.has_begun(2).await;
        for request in [call("quick"), session.call(2, "quick")] {
            let refused = endpoint.send(&request).await;
            assert_eq!((refused.outcome(), refused.header("retry-after")), ((503, -32603), Some("1")));
        }
        // Other requests do not count as calls.
        for request in [stateless("tools/list", &json!({})), session.ping(), initialize("2025-11-25")] {
            assert_eq!(endpoint.send(&request).await.outcome(), (200, 0));
        }
        let listening = endpoint.open(&session.get()).await;
        assert_eq!(listening.status, 200);
        gate.open();
        gate.open();
    };
    let (response, ()) = tokio::join!(endpoint.send(&waiting), others);
    assert_eq!(response.text(), "waited");
    assert_eq!(streamed.messages().await.len(), 2);
    assert_eq!(endpoint.send(&call("quick")).await.text(), "quick");
}

/// A function may have limits of its own.
#[tokio::test]
async fn a_function_may_refuse_a_call_like_the_server() {
    /// Refuse at once.
    #[tool]
    fn refuses() -> Result<(), Fault> {
        Err(Fault::overloaded("no printer is free"))
    }

    /// Refuse after a while.
    #[tool]
    async fn refuses_later() -> Result<(), Fault> {
        tokio::task::yield_now().await;
        Err(Fault::overloaded("no printer is free"))
    }

    let server = Server::empty("printer", "1.0.0").with::<refuses>().with::<refuses_later>();
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    let session = endpoint.session("2025-11-25").await;
    for name in ["refuses", "refuses_later"] {
        for request in [call(name), session.call(1, name)] {
            let refused = endpoint.send(&request).await;
            assert_eq!((refused.outcome(), refused.header("retry-after")), ((503, -32603), Some("1")), "{name}");
            assert_eq!(refused.json()["error"]["message"], "no printer is free", "{name}");
        }
    }
}

/// Otherwise calls that wait for their clients would never end.
#[tokio::test]
async fn responses_and_cancellations_are_accepted_at_the_limit_of_calls() {
    let (gate, endpoint) = serve_with(HttpOptions::default().max_in_flight(1)).await;
    let opening =
        initialize("2025-11-25").change(|message| message["params"]["capabilities"] = json!({"elicitation": {}}));
    let opened = endpoint.send(&opening).await;
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    let session = Session { endpoint: &endpoint, version: "2025-11-25", id };
    session.initialized().await;

    let mut asking = endpoint.open(&session.call(1, "asks")).await;
    let question = asking.message().await.unwrap();
    assert_eq!(question["method"], "elicitation/create");
    for request in [session.call(2, "quick"), call("quick")] {
        assert_eq!(endpoint.send(&request).await.outcome(), (503, -32603));
    }
    let result = json!({"action": "accept", "content": {"sure": true}});
    let response = session.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
    assert_eq!(endpoint.send(&response).await.status, 202);
    assert_eq!(asking.messages().await[0]["result"]["content"][0]["text"], "sure");

    let mut asking = endpoint.open(&session.call(1, "asks")).await;
    let question = asking.message().await.unwrap();
    assert_eq!(endpoint.send(&call("quick")).await.outcome(), (503, -32603));
    assert_eq!(endpoint.send(&session.cancel(1)).await.status, 202);
    gate.has_dropped(2).await;
    // The call has no response, and its client request is cancelled.
    let rest = asking.messages().await;
    let cancelled: Vec<_> = rest.iter().map(|message| (&message["method"], &message["params"]["requestId"])).collect();
    assert_eq!(cancelled, [(&json!("notifications/cancelled"), &question["id"])]);
    assert_eq!(endpoint.send(&call("quick")).await.text(), "quick");
}

/// Calls of disconnected clients count as well.
#[tokio::test]
async fn calls_of_a_session_are_limited() {
    let (gate, server) = server();
    let endpoint = Endpoint::start(server.max_in_flight(1), HttpOptions::default()).await;
    let session = endpoint.session("2025-11-25").await;
    let mut connection = endpoint.connect().await;
    connection.write(&session.call(1, "waits").bytes()).await;
    gate.has_begun(1).await;
    drop(connection);
    let refused = endpoint.send(&session.call(2, "quick")).await;
    assert_eq!((refused.outcome(), refused.header("retry-after")), ((503, -32603), Some("1")));
    assert_eq!(refused.json()["id"], 2);
    assert!(session.is_alive().await);
    assert_eq!(endpoint.send(&endpoint.session("2025-11-25").await.call(2, "quick")).await.text(), "quick");
    assert_eq!(endpoint.send(&session.cancel(1)).await.status, 202);
    assert_eq!(endpoint.send(&session.call(2, "quick")).await.text(), "quick");
}

/// The limits of the transport and of a session hold for everything that runs a function.
#[tokio::test]
async fn every_kind_of_call_is_refused_at_the_limit_of_calls() {
    async fn ids(_: &str) -> Vec<String> {
        Vec::new()
    }
    async fn items() -> Vec<ResourceLink> {
        Vec::new()
    }
    /// A template.
    #[resource("items://{id}", list = items, complete(id = ids))]
    fn item(id: String) -> String {
        id
    }
    /// Greet.
    #[prompt]
    fn greeting() -> &'static str {
        "hello"
    }

    for is_of_session in [false, true] {
        let (gate, server) = server();
        let pass = from_fn(async |call: Call, next: Next| next.run(call).await);
        let server = server.with::<item>().with::<greeting>().layer_for(|entry| entry.name == "long", pass);
        let (server, options) = if is_of_session {
            (server.max_in_flight(1), HttpOptions::default())
        } else {
            (server, HttpOptions::default().max_in_flight(1))
        };
        let endpoint = Endpoint::start(server, options).await;
        let session = endpoint.session("2025-11-25").await;
        let template = json!({"type": "ref/resource", "uri": "items://{id}"});
        for is_refused in [true, false] {
            let mut busy = endpoint.open(&session.call(1, "reports")).await;
            assert!(busy.message().await.is_some());
            if !is_refused {
                gate.open();
                busy.messages().await;
            }
            for (method, params) in [
                ("tools/call", json!({"name": "quick"})),
                ("tools/call", json!({"name": "whoami"})),
                ("tools/call", json!({"name": "long", "arguments": {"length": 1}})),
                ("resources/read", json!({"uri": "items://1"})),
                ("resources/list", json!({})),
                ("prompts/get", json!({"name": "greeting"})),
                ("completion/complete", json!({"ref": template, "argument": {"name": "id", "value": ""}})),
            ] {
                let message = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
                let outcome = endpoint.send(&session.post(&message)).await.outcome();
                let expected = if is_refused { (503, -32603) } else { (200, 0) };
                assert_eq!(outcome, expected, "{message}, of a session: {is_of_session}");
            }
            if is_refused {
                gate.open();
                busy.messages().await;
            }
        }
    }
}

/// The only response to rejected notifications is a status.
#[tokio::test]
async fn notifications_beyond_the_limit_are_refused_alone_and_in_batches() {
    let note = MethodEntry::new("com.example/note", json!({"type": "object"}), async |_: Value, _: Context| {
        std::future::pending::<Result<(), Fault>>().await
    });
    let (_, server) = server();
    let endpoint = Endpoint::start(server.with_entry(note).max_in_flight(1), HttpOptions::default()).await;
    let session = endpoint.session("2025-03-26").await;
    let note = json!({"jsonrpc": "2.0", "method": "com.example/note"});
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (message, status) in [
        (note.clone(), 202),
        (note.clone(), 503),
        (json!([note]), 503),
        (json!([note, initialized]), 503),
        (json!([initialized]), 202),
        // The status belongs to the response.
        (json!([note, ping]), 200),
    ] {
        assert_eq!(endpoint.send(&session.post(&message)).await.status, status, "{message}");
    }
}

/// Functions hold their arguments for as long as they run.
#[tokio::test]
async fn the_arguments_of_calls_in_flight_are_limited() {
    const LENGTH: usize = 100_000;
    let options =
        HttpOptions::default().max_body_bytes(2 * LENGTH).max_total_body_bytes(10 * LENGTH).max_peer_share(1.0);
    let (gate, endpoint) = serve_with(options.stream_after(Duration::ZERO)).await;
    let padded = |id: u64| {
        let params = json!({"name": "waits", "_meta": {"padding": "x".repeat(LENGTH)}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let session = endpoint.session("2025-11-25").await;
    let mut calls = Vec::new();
    let refused = loop {
        let response = endpoint.open(&session.post(&padded(calls.len() as u64))).await;
        if response.status != 200 {
            break response.status;
        }
        // The function runs even if its response is never read.
        calls.push(response);
        assert!(calls.len() < 100, "no call is refused");
    };
    assert_eq!((refused, calls.len()), (503, 10));
    assert_eq!(endpoint.send(&session.call(99, "quick")).await.status, 200);
    for number in 0..calls.len() {
        assert_eq!(endpoint.send(&session.cancel(number as u64)).await.status, 202);
    }
    gate.has_dropped(calls.len()).await;
    assert_eq!(endpoint.open(&session.post(&padded(100))).await.status, 200);
}
