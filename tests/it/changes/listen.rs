//! `subscriptions/listen` of 2026-07-28, with the in-memory client and over byte streams.

use std::time::Duration;

use mcp_runtime::{BuiltServer, Handle};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::*;

const REVISION: Revision = Revision::V2026_07_28;

fn built() -> (BuiltServer, Handle) {
    let built = server().build().unwrap();
    let handle = built.handle();
    (built, handle)
}

#[tokio::test]
async fn notifications_contain_the_subscription_id() {
    let (built, handle) = built();
    let mut client = built.test_client(REVISION);
    let (id, acknowledged) =
        listen(&mut client, json!({"toolsListChanged": true, "resourceSubscriptions": ["test://fixed"]}));
    assert_eq!(acknowledged, json!({"toolsListChanged": true, "resourceSubscriptions": ["test://fixed"]}));
    handle.resource_updated("test://fixed");
    handle.set_enabled(|_| false);
    let notifications = client.notifications();
    check(REVISION, &notifications);
    let meta = json!({ ID: id });
    assert_eq!(
        notifications,
        [
            json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"_meta": meta, "uri": "test://fixed"}}),
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}}),
        ]
    );
}

/// Unsupported notifications and unknown resources are omitted from the acknowledgement.
#[tokio::test]
async fn the_supported_part_of_a_filter_is_acknowledged() {
    for (wanted, acknowledged) in [
        (json!({}), json!({})),
        (json!({"toolsListChanged": false, "other": 1}), json!({})),
        (json!({"toolsListChanged": true}), json!({"toolsListChanged": true})),
        (json!({"promptsListChanged": true}), json!({})),
        (json!({"resourcesListChanged": true}), json!({"resourcesListChanged": true})),
        (json!({"resourceSubscriptions": []}), json!({"resourceSubscriptions": []})),
        (
            json!({"resourceSubscriptions": ["test://item/1", "test://never", "test://item/1", "", "test://other"]}),
            json!({"resourceSubscriptions": ["test://item/1"]}),
        ),
    ] {
        let built = empty().with::<permanent>().with::<item>().with_disabled::<other>().build().unwrap();
        let _handle = built.handle();
        let mut client = built.test_client(REVISION);
        assert_eq!(listen(&mut client, wanted.clone()).1, acknowledged, "{wanted}");
    }
    let built = empty().with::<permanent>().build().unwrap();
    let _handle = built.handle();
    let filter = json!({"resourcesListChanged": true, "resourceSubscriptions": ["test://item/1"]});
    assert_eq!(listen(&mut built.test_client(REVISION), filter).1, json!({}));
}

/// Each notification names the subscription that requested it.
#[tokio::test]
async fn each_subscription_receives_only_what_it_requested() {
    let (built, handle) = built();
    let mut client = built.test_client(REVISION);
    let (tools, _) = listen(&mut client, json!({"toolsListChanged": true}));
    let (prompts, _) =
        listen(&mut client, json!({"promptsListChanged": true, "resourceSubscriptions": ["test://fixed"]}));
    let (both, _) = listen(&mut client, json!({"toolsListChanged": true, "resourceSubscriptions": ["test://fixed"]}));
    listen(&mut client, json!({}));
    handle.add::<optional>().unwrap();
    handle.resource_updated("test://fixed");
    handle.remove::<ask>();
    handle.remove::<item>();
    let mut received: Vec<_> = client
        .notifications()
        .iter()
        .map(|message| {
            (
                message["params"]["_meta"][ID].as_u64().unwrap(),
                method(message).trim_start_matches("notifications/").to_owned(),
            )
        })
        .collect();
    received.sort();
    let expected = [
        (tools, "tools/list_changed"),
        (prompts, "prompts/list_changed"),
        (prompts, "resources/updated"),
        (both, "resources/updated"),
        (both, "tools/list_changed"),
    ];
    assert_eq!(received, expected.map(|(id, method)| (id, method.to_owned())));
}

#[tokio::test]
async fn invalid_filters_are_rejected() {
    let (built, _handle) = built();
    let mut client = built.test_client(REVISION);
    let many: Vec<_> = (0..1025).map(|id| format!("test://item/{id}")).collect();
    let long: Vec<_> = (0..3).map(|id| format!("test://item/{id}{}", "x".repeat(100_000))).collect();
    for params in [
        json!({}),
        json!({"notifications": null}),
        json!({"notifications": []}),
        json!({"notifications": true}),
        json!({"notifications": {"toolsListChanged": "true"}}),
        json!({"notifications": {"toolsListChanged": null}}),
        json!({"notifications": {"promptsListChanged": 1}}),
        json!({"notifications": {"resourcesListChanged": {}}}),
        json!({"notifications": {"resourceSubscriptions": "test://fixed"}}),
        json!({"notifications": {"resourceSubscriptions": ["test://fixed", 1]}}),
        json!({"notifications": {"resourceSubscriptions": [null]}}),
        json!({"notifications": {"resourceSubscriptions": {}}}),
        json!({"notifications": {"resourceSubscriptions": many}}),
        json!({"notifications": {"resourceSubscriptions": long}}),
    ] {
        let text: String = params.to_string().chars().take(100).collect();
        assert_eq!(code(&mut client, "subscriptions/listen", params).await, -32602, "{text}");
    }
    assert_eq!(client.notifications(), Vec::<Value>::new());
}

/// An id keeps its JSON text, and cannot be reused while its subscription is open.
#[tokio::test]
async fn subscription_ids_are_returned_unchanged() {
    let (built, handle) = built();
    let mut client = built.test_client(REVISION);
    let listen = |id: &str| {
        let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"subscriptions/listen","params":{{"_meta":{meta},"notifications":{{"toolsListChanged":true}}}}}}"#
        )
    };
    let ids = ["1", "-7", "123456789012345678", r#""a \"quoted\" id""#, r#""1""#, r#""""#];
    for id in ids {
        let sent = client.send_raw(listen(id).as_bytes());
        assert_eq!(sent[0]["params"]["_meta"][ID].to_string(), id);
        let refused = client.send_raw(listen(id).as_bytes());
        assert_eq!((refused[0]["error"]["code"].as_i64(), refused.len()), (Some(-32600), 1), "{id}");
    }
    handle.add::<optional>().unwrap();
    let received: Vec<_> =
        client.notifications().iter().map(|message| message["params"]["_meta"][ID].to_string()).collect();
    assert_eq!(received, ids);
    let refused = client.send_raw(listen(&format!("\"{}\"", "x".repeat(1024))).as_bytes());
    assert_eq!((refused[0]["error"]["code"].as_i64(), refused.len()), (Some(-32600), 1));
}

#[tokio::test]
async fn a_cancelled_subscription_ends_without_a_response() {
    let (built, handle) = built();
    let mut client = built.test_client(REVISION);
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://fixed"]});
    let (first, _) = listen(&mut client, filter.clone());
    let (second, _) = listen(&mut client, filter);
    // The update is pending, but is not sent after the cancellation.
    handle.resource_updated("test://fixed");
    client.notify("notifications/cancelled", json!({"requestId": first}));
    client.notify("notifications/cancelled", json!({"requestId": first}));
    handle.add::<optional>().unwrap();
    let notifications = client.settle().await;
    let ids: Vec<_> = notifications.iter().map(|message| message["params"]["_meta"][ID].as_u64()).collect();
    assert_eq!(ids, [Some(second), Some(second)], "{notifications:?}");
    // A subscription does not count as a call.
    assert_eq!(client.in_flight(), 0);
}

#[tokio::test]
async fn the_subscriptions_of_a_connection_are_limited() {
    let server = server().max_in_flight(1);
    let handle = server.handle();
    let built = server.build().unwrap();
    let mut client = built.test_client(REVISION);
    let (first, _) = listen(&mut client, json!({"toolsListChanged": true}));
    for _ in 1..1024 {
        client.send_request("subscriptions/listen", json!({"notifications": {}}));
    }
    assert_eq!(client.notifications().len(), 1023);
    let refused = client.request("subscriptions/listen", json!({"notifications": {}})).await.unwrap_err();
    assert_eq!(refused.code, -32603);
    assert!(refused.message.contains("the limit is 1024"), "{refused}");
    assert_eq!(client.call("permanent", ()).await.unwrap().text(), "permanent result");
    client.notify("notifications/cancelled", json!({"requestId": first}));
    listen(&mut client, json!({}));
    handle.add::<optional>().unwrap();
    assert_eq!(client.notifications(), Vec::<Value>::new());
}

/// A client of a server over an in-memory byte stream.
struct Streams {
    lines: BufReader<ReadHalf<DuplexStream>>,
    writer: WriteHalf<DuplexStream>,
    served: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Streams {
    fn open(built: &BuiltServer) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(theirs);
        let built = built.clone();
        let served = tokio::spawn(async move { built.serve(reader, writer).await });
        let (reader, writer) = tokio::io::split(ours);
        Self { lines: BufReader::new(reader), writer, served }
    }

    async fn send(&mut self, id: &str, method: &str, mut params: Value) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = tokio::time::timeout(Duration::from_secs(60), self.lines.read_line(&mut line));
        (read.await.expect("a line within the timeout").unwrap() > 0).then(|| serde_json::from_str(&line).unwrap())
    }
}

/// At the end of input, pending notifications are sent, then the responses, without waiting for calls in flight.
#[tokio::test]
async fn subscriptions_end_with_a_response_at_the_end_of_input() {
    let gate = std::sync::Arc::new(Semaphore::new(0));
    let server = server().with::<slow>().with_shared(std::sync::Arc::clone(&gate));
    let handle = server.handle();
    let mut client = Streams::open(&server.build().unwrap());
    client.send("listen", "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
    assert_eq!(method(&client.line().await.unwrap()), "notifications/subscriptions/acknowledged");
    client.send("call", "tools/call", json!({"name": "slow"})).await;
    handle.add::<optional>().unwrap();
    assert_eq!(method(&client.line().await.unwrap()), "notifications/tools/list_changed");
    client.send("second", "subscriptions/listen", json!({"notifications": {}})).await;
    assert_eq!(client.line().await.unwrap()["params"]["_meta"][ID], "second");

    client.writer.shutdown().await.unwrap();
    let mut answers = [client.line().await.unwrap(), client.line().await.unwrap()];
    answers.sort_by_key(|answer| answer["id"].as_str().unwrap().to_owned());
    for (answer, id) in answers.iter().zip(["listen", "second"]) {
        let meta = json!({ID: id, "io.modelcontextprotocol/serverInfo": {"name": "changes", "version": "1.0.0"}});
        let result = json!({"resultType": "complete", "_meta": meta});
        assert_eq!(answer, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
        if let Some(official) = Official::load(REVISION) {
            assert_eq!(official.problems(answer, Some("subscriptions/listen")), Vec::<String>::new());
        }
    }
    // The call in flight is answered last.
    gate.add_permits(1);
    assert_eq!(client.line().await.unwrap()["id"], "call");
    assert_eq!(client.line().await, None);
    client.served.await.unwrap().unwrap();
}

/// The end of input may follow the request immediately.
#[tokio::test]
async fn a_subscription_request_may_be_the_last_message() {
    let (built, _handle) = built();
    let mut client = Streams::open(&built);
    client.send("listen", "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})).await;
    client.writer.shutdown().await.unwrap();
    assert_eq!(method(&client.line().await.unwrap()), "notifications/subscriptions/acknowledged");
    assert_eq!(client.line().await.unwrap()["result"]["resultType"], "complete");
    assert_eq!(client.line().await, None);
    client.served.await.unwrap().unwrap();
}

/// The session receives its own notification, and the subscription of 2026-07-28 one with its id.
#[tokio::test]
async fn a_session_may_also_send_subscription_requests() {
    let (built, handle) = built();
    let mut client = built.test_client(Revision::V2025_03_26);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let request = json!({"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen",
        "params": {"_meta": meta, "notifications": {"promptsListChanged": true}}});
    let refused = client.send_raw(json!([request]).to_string().as_bytes());
    assert_eq!(refused[0][0]["error"]["code"], -32600, "{refused:?}");
    client.send_raw(request.to_string().as_bytes());
    handle.remove::<ask>();
    let received: Vec<_> =
        client.notifications().iter().map(|message| message["params"]["_meta"][ID].as_u64()).collect();
    assert_eq!(received, [None, Some(9)]);
}
