//! Streams of sessions: opening, losing and resuming them.
//!
//! See [Resumability](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery).

use std::time::Duration;

use mcp_runtime::{Context, Fault, HttpOptions, function::MethodEntry, http::ListenerOptions};
use serde_json::{Value, json};

use super::{
    client::{Endpoint, Response, Session},
    request::stateless,
    serve, serve_each, serve_with, server,
};

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

/// Reads up to the first message, and returns the id of its event.
async fn first_id(response: &mut Response) -> String {
    loop {
        let event = response.event().await.unwrap();
        if !event.data.is_empty() {
            return event.id.unwrap();
        }
    }
}

/// Resumes a stream after an event, and returns the messages up to its end. Each must be a later event of this stream.
async fn resumed(session: &Session<'_>, after: &str) -> Vec<Value> {
    let mut response = session.endpoint.open(&session.resume(after)).await;
    assert_eq!(response.status, 200);
    rest_of(&mut response, after).await
}

async fn rest_of(response: &mut Response, after: &str) -> Vec<Value> {
    let position = |id: &str| {
        let (stream, number) = id.split_once('-').unwrap();
        (stream.to_owned(), number.parse::<u64>().unwrap())
    };
    let (stream, mut last) = position(after);
    let mut messages = Vec::new();
    while let Some(event) = response.event().await {
        if event.data.is_empty() {
            continue;
        }
        let (of, number) = position(event.id.as_deref().unwrap());
        assert!(of == stream && number > last, "{event:?} after {after}");
        last = number;
        messages.push(event.json());
    }
    messages
}

/// Asserts that these are the messages of a call of `reports` after its first one.
fn assert_rest_of_report(messages: &[Value], call: u64) {
    let [progress, response] = messages else { panic!("{messages:#?}") };
    let params = &progress["params"];
    assert_eq!((&params["progressToken"], &params["progress"]), (&json!(call), &json!(2)), "{progress}");
    assert_eq!((&response["id"], text(response)), (&json!(call), "reported"), "{response}");
}

#[tokio::test]
async fn events_have_unique_ids_and_streams_of_2025_11_25_start_with_an_empty_event() {
    for (gate, endpoint) in serve_each(HttpOptions::default()).await {
        for version in VERSIONS {
            let session = endpoint.session(version).await;
            let mut response = endpoint.open(&session.call(1, "reports")).await;
            assert_eq!(response.header("x-accel-buffering"), Some("no"));
            let mut ids = Vec::new();
            if version == "2025-11-25" {
                let primer = response.event().await.unwrap();
                assert_eq!((primer.data.as_str(), primer.retry), ("", None));
                ids.push(primer.id.unwrap());
            }
            gate.open();
            while let Some(event) = response.event().await {
                assert!(!event.data.is_empty());
                ids.push(event.id.unwrap());
            }
            assert_eq!(ids.len(), if version == "2025-11-25" { 4 } else { 3 }, "{ids:?}");
            // Ids differ between streams.
            let mut second = endpoint.open(&session.call(1, "reports_at_once")).await;
            while let Some(event) = second.event().await {
                let id = event.id.unwrap();
                assert!(!ids.contains(&id), "{id}");
                ids.push(id);
            }
        }
    }
}

#[tokio::test]
async fn a_result_is_delivered_after_the_client_reconnects() {
    for (gate, endpoint) in serve_each(HttpOptions::default()).await {
        for (calls, version) in VERSIONS.into_iter().enumerate() {
            let session = endpoint.session(version).await;
            let mut lost = endpoint.open(&session.call(1, "reports")).await;
            let id = first_id(&mut lost).await;
            drop(lost);
            gate.open();
            gate.has_dropped(calls + 1).await;
            // Another stream of the session, whose events are not replayed.
            let mut other = endpoint.open(&session.call(2, "reports_at_once")).await;
            let other_id = first_id(&mut other).await;
            drop(other);
            let messages = resumed(&session, &id).await;
            assert_rest_of_report(&messages, 1);
            // It is delivered again as long as the log contains it.
            assert_eq!(resumed(&session, &id).await, messages);
            let others = resumed(&session, &other_id).await;
            assert_eq!((others.len(), &others[0]["id"], text(&others[0])), (1, &json!(2), "reported at once"));
        }
    }
}

#[tokio::test]
async fn a_stream_is_resumed_during_the_call() {
    // Nothing but the second response tells the first one that it has been replaced.
    for (gate, endpoint) in serve_each(HttpOptions::default().keep_alive(Duration::from_secs(3600))).await {
        let session = endpoint.session("2025-11-25").await;
        let mut lost = endpoint.open(&session.call(1, "reports")).await;
        let id = first_id(&mut lost).await;
        // The first response ends, so that no message is sent twice.
        let mut resumed_stream = endpoint.open(&session.resume(&id)).await;
        assert_eq!(lost.messages().await, Vec::<Value>::new());
        gate.open();
        assert_rest_of_report(&rest_of(&mut resumed_stream, &id).await, 1);
    }
}

/// The next event may be far off, and the client may lose this connection, too. Some clients remember only ids that have
/// arrived on the connection. Clients of older revisions do not expect an event without a message.
#[tokio::test]
async fn a_resumed_stream_of_2025_11_25_starts_with_the_id_that_it_was_resumed_from() {
    for (gate, endpoint) in serve_each(HttpOptions::default()).await {
        for version in VERSIONS {
            let session = endpoint.session(version).await;
            let id = first_id(&mut endpoint.open(&session.call(1, "reports")).await).await;
            gate.open();
            for _ in 0..2 {
                let mut stream = endpoint.open(&session.resume(&id)).await;
                if version == "2025-11-25" {
                    let primer = stream.event().await.unwrap();
                    assert_eq!((primer.data.as_str(), primer.id.as_ref(), primer.retry), ("", Some(&id), None));
                }
                let event = stream.event().await.unwrap();
                assert_eq!(event.json()["params"]["progress"], 2, "{version} {event:?}");
            }
        }
    }
}

#[tokio::test]
async fn events_belong_to_their_session() {
    for (gate, endpoint) in serve_each(HttpOptions::default()).await {
        let (session, other) = (endpoint.session("2025-11-25").await, endpoint.session("2025-11-25").await);
        let mut response = endpoint.open(&session.call(1, "reports")).await;
        let id = first_id(&mut response).await;
        gate.open();
        let mut last = id.clone();
        while let Some(event) = response.event().await {
            last = event.id.unwrap();
        }
        let stream = id.split('-').next().unwrap();
        for wrong in ["", "x", "-", "1", "99-1", "18446744073709551616-1", "1-x", "ü", &format!("{stream}-99")] {
            assert_eq!(endpoint.send(&session.resume(wrong)).await.outcome(), (400, -32600), "{wrong:?}");
        }
        assert_eq!(endpoint.send(&other.resume(&id)).await.outcome(), (400, -32600));
        assert_eq!(endpoint.send(&session.resume(&id).without("mcp-session-id")).await.status, 405);
        assert_eq!(endpoint.send(&session.resume(&id).with("mcp-session-id", "gone")).await.status, 404);
        // A client that has received everything is told not to reconnect.
        assert_eq!(endpoint.send(&session.resume(&last)).await.outcome(), (204, 0));
    }
}

/// Each message is sent on one stream only.
#[tokio::test]
async fn streams_do_not_mix() {
    for (gate, endpoint) in serve_each(HttpOptions::default()).await {
        let session = endpoint.session("2025-11-25").await;
        let mut general = endpoint.open(&session.get()).await;
        let mut first = endpoint.open(&session.call(1, "reports")).await;
        let mut second = endpoint.open(&session.call(2, "reports")).await;
        gate.has_begun(2).await;
        gate.open();
        gate.open();
        for (id, response) in [(1, &mut first), (2, &mut second)] {
            let messages = response.messages().await;
            let tokens: Vec<_> =
                messages.iter().filter_map(|message| message["params"]["progressToken"].as_u64()).collect();
            assert_eq!((tokens, messages[2]["id"].as_u64()), (vec![id, id], Some(id)));
        }
        assert_eq!(endpoint.send(&session.delete()).await.status, 204);
        assert_eq!(general.messages().await, Vec::<Value>::new());
    }
}

/// Each stream for messages that belong to no request receives a change once, and no other stream does.
#[tokio::test]
async fn a_change_is_sent_on_one_stream_of_each_client() {
    let (gate, server) = super::server();
    let server = server.build().unwrap();
    let (handle, endpoint) = (server.handle(), Endpoint::serve(server, HttpOptions::default()).await);
    let (session, other) = (endpoint.session("2025-11-25").await, endpoint.session("2025-06-18").await);
    for session in [&session, &other] {
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(endpoint.send(&session.post(&initialized)).await.status, 202);
    }
    let mut replaced = endpoint.open(&session.get()).await;
    let mut general = endpoint.open(&session.get()).await;
    let mut of_other = endpoint.open(&other.get()).await;
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let mut listener = endpoint.open(&stateless("subscriptions/listen", &filter)).await;
    assert_eq!(listener.message().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    let mut calls = [
        endpoint.open(&session.call(1, "reports")).await,
        endpoint.open(&session.call(2, "reports")).await,
        endpoint.open(&super::request::call("reports")).await,
    ];
    gate.has_begun(calls.len()).await;

    handle.remove::<super::quick>();
    let changed = "notifications/tools/list_changed";
    for stream in [&mut general, &mut of_other, &mut listener] {
        assert_eq!(stream.message().await.unwrap()["method"], changed);
    }
    for stream in &mut calls {
        gate.open();
        let methods: Vec<_> = stream.messages().await.iter().map(|message| message["method"].clone()).collect();
        assert_eq!(methods, [json!("notifications/progress"), json!("notifications/progress"), Value::Null]);
    }
    // The streams end without another message.
    for session in [&session, &other] {
        assert_eq!(endpoint.send(&session.delete()).await.status, 204);
    }
    for stream in [&mut general, &mut of_other, &mut replaced] {
        assert_eq!(stream.messages().await, Vec::<Value>::new());
    }
    let ((), rest) = tokio::join!(endpoint.stopped(), listener.messages());
    assert_eq!((rest.len(), rest[0].get("method")), (1, None), "{rest:?}");
}

/// `Duration::MAX` must not overflow.
#[tokio::test]
async fn periods_may_have_any_length() {
    let listener = ListenerOptions::default().header_timeout(Duration::MAX);
    let (_, endpoint) = serve_with((HttpOptions::default().keep_alive(Duration::MAX), listener)).await;
    let session = endpoint.session("2025-11-25").await;
    let stream = endpoint.open(&session.get()).await;
    assert_eq!(stream.status, 200);
    assert_eq!(endpoint.send(&session.ping()).await.status, 200);
}

/// The first one stays open as long as the second one, since its client would open it again, and end the second one.
#[tokio::test]
async fn a_second_get_replaces_the_first() {
    for (_, endpoint) in serve_each(HttpOptions::default().keep_alive(Duration::from_millis(10))).await {
        let session = endpoint.session("2025-11-25").await;
        let mut first = endpoint.open(&session.get()).await;
        assert_eq!(first.event().await.unwrap().data, "");
        let mut second = endpoint.open(&session.get()).await;
        assert_eq!(second.event().await.unwrap().data, "");
        for _ in 0..3 {
            assert!(second.event().await.unwrap().is_comment);
            assert!(first.event().await.expect("the first stream ended").is_comment);
        }
        // Closing a stream that was replaced does not affect the others.
        let mut third = endpoint.open(&session.get()).await;
        assert_eq!(third.event().await.unwrap().data, "");
        drop(first);
        for _ in 0..3 {
            assert!(third.event().await.unwrap().is_comment);
            assert!(second.event().await.expect("the second stream ended").is_comment);
        }
        drop(third);
        assert_eq!(second.messages().await, Vec::<Value>::new());
    }
}

/// After `ctx.close_sse_stream` the response ends, and the client reconnects.
#[tokio::test]
async fn a_function_closes_its_stream() {
    for (gate, endpoint) in serve_each(HttpOptions::default()).await {
        let session = endpoint.session("2025-11-25").await;
        let mut response = endpoint.open(&session.call(1, "closes_stream")).await;
        let primer = response.event().await.unwrap();
        assert_eq!((primer.data.as_str(), primer.retry), ("", None));
        let last = response.event().await.unwrap();
        assert_eq!((last.data.as_str(), last.retry), ("", Some(7)));
        assert_eq!(response.event().await, None);

        let mut again = endpoint.open(&session.resume(&last.id.unwrap())).await;
        gate.open();
        let messages = again.messages().await;
        assert_eq!((messages.len(), text(&messages[0])), (1, "reconnected"));
    }
}

/// Clients of other revisions cannot reconnect.
#[tokio::test]
async fn a_function_cannot_close_the_stream_of_an_older_client() {
    for (gate, endpoint) in serve_each(HttpOptions::default()).await {
        let mut requests = vec![super::request::call("closes_stream")];
        for version in ["2025-03-26", "2025-06-18"] {
            requests.push(endpoint.session(version).await.call(1, "closes_stream"));
        }
        for (earlier, request) in requests.iter().enumerate() {
            let complete = async {
                gate.has_begun(earlier + 1).await;
                gate.open();
            };
            assert_eq!(tokio::join!(endpoint.send(request), complete).0.text(), "reconnected");
        }
    }
}

/// The response to a long call becomes a stream, which can be resumed.
#[tokio::test]
async fn a_long_call_can_be_resumed() {
    for (gate, endpoint) in serve_each(HttpOptions::default().stream_after(Duration::ZERO)).await {
        let session = endpoint.session("2025-11-25").await;
        let mut lost = endpoint.open(&session.call(1, "waits")).await;
        let id = lost.event().await.unwrap().id.unwrap();
        drop(lost);
        gate.open();
        gate.has_dropped(1).await;
        let messages = resumed(&session, &id).await;
        assert_eq!((messages.len(), text(&messages[0])), (1, "waited"));
    }
}

/// A client that reads receives every message of a burst. The log keeps the last ones.
#[tokio::test]
async fn the_event_log_is_limited() {
    for (_, endpoint) in serve_each(HttpOptions::default()).await {
        let session = endpoint.session("2025-11-25").await;
        let mut response = endpoint.open(&session.call(1, "floods")).await;
        let first = first_id(&mut response).await;
        let rest = response.messages().await;
        assert_eq!((rest.len(), text(&rest[1999])), (2000, "flooded"));
        let kept = resumed(&session, &first).await;
        assert!(kept.len() < 500, "{} messages are kept", kept.len());
        assert_eq!(kept.last(), rest.last());
    }
}

/// Old streams in memory are evicted, except those of calls in flight.
#[tokio::test]
async fn the_streams_of_a_session_are_limited() {
    let (gate, endpoint) = serve().await;
    let session = endpoint.session("2025-11-25").await;
    let mut in_flight = endpoint.open(&session.call(1, "reports")).await;
    let id = first_id(&mut in_flight).await;
    drop(in_flight);
    let mut evicted = endpoint.open(&session.call(2, "reports_at_once")).await;
    let evicted = first_id(&mut evicted).await;
    for _ in 0..40 {
        assert_eq!(endpoint.open(&session.call(2, "reports_at_once")).await.messages().await.len(), 2);
    }
    assert_eq!(endpoint.send(&session.resume(&evicted)).await.outcome(), (400, -32600));
    gate.open();
    assert_rest_of_report(&resumed(&session, &id).await, 1);
}

#[tokio::test]
async fn a_session_sets_its_log_level() {
    let (_, endpoint) = serve().await;
    let session = endpoint.session("2025-06-18").await;
    let set = json!({"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "emergency"}});
    assert_eq!(endpoint.send(&session.post(&set)).await.outcome(), (200, 0));
    assert_eq!(endpoint.send(&session.call(2, "floods")).await.text(), "flooded");
}

/// The response to a notification was sent before its function runs.
#[tokio::test]
async fn messages_of_a_notification_are_sent_on_the_general_stream() {
    let note = MethodEntry::new("com.example/note", json!({"type": "object"}), async |_: Value, ctx: Context| {
        ctx.error("noted");
        Ok::<_, Fault>(json!({}))
    });
    let endpoint = Endpoint::start(server().1.with_entry(note), HttpOptions::default()).await;
    let session = endpoint.session("2025-11-25").await;
    let mut stream = endpoint.open(&session.get()).await;
    let message = json!({"jsonrpc": "2.0", "method": "com.example/note"});
    assert_eq!(endpoint.send(&session.post(&message)).await.status, 202);
    assert_eq!(stream.message().await.unwrap()["params"]["data"], "noted");
}
