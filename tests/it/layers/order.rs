//! The order of layers, and responses that layers do not change.

use std::sync::Arc;

use mcp_runtime::{
    Revision,
    function::EntryKind,
    layers::{Call, Next, from_fn},
};
use serde_json::{Value, json};

use super::{Events, Watch, server, text};

#[tokio::test]
async fn the_first_layer_is_the_outermost() {
    for revision in Revision::ALL {
        let events = Events::default();
        let (_, server) = server();
        let watch = |name| Watch(name, events.clone());
        let server = server.layer(watch("a")).layer_for(|entry| entry.kind == EntryKind::Tool, watch("b"));
        let mut client = server.layer(Arc::new(watch("c"))).test_client(revision);
        assert_eq!(text(&mut client, "double", json!({"number": 2})).await, "4");
        let seen = [
            r#"a > Tool double {"number":2}"#,
            r#"b > Tool double {"number":2}"#,
            r#"c > Tool double {"number":2}"#,
            "c < double success",
            "b < double success",
            "a < double success",
        ];
        assert_eq!(events.take(), seen);
        assert_eq!(client.read("pages://7").await.unwrap()[0]["text"], "page 7");
        let seen = [
            r#"a > Resource pages://7 {"number":7}"#,
            r#"c > Resource pages://7 {"number":7}"#,
            "c < page success",
            "a < page success",
        ];
        assert_eq!(events.take(), seen);
        client.prompt("greeting", json!({"name": "Ada", "times": "3"})).await.unwrap();
        let seen = [
            r#"a > Prompt greeting {"name":"Ada","times":3}"#,
            r#"c > Prompt greeting {"name":"Ada","times":3}"#,
            "c < greeting success",
            "a < greeting success",
        ];
        assert_eq!(events.take(), seen);
    }
}

/// Responses are byte-for-byte the same with and without layers.
#[tokio::test]
async fn a_pass_through_layer_does_not_change_responses() {
    let requests = [
        ("tools/call", json!({"name": "double", "arguments": {"number": 2}})),
        ("tools/call", json!({"name": "double", "arguments": {"number": 200}})),
        ("tools/call", json!({"name": "double", "arguments": {"number": 2.0}})),
        ("tools/call", json!({"name": "double"})),
        ("tools/call", json!({"name": "later", "arguments": {"number": 2}})),
        ("tools/call", json!({"name": "later", "arguments": {"numbr": 2}})),
        ("tools/call", json!({"name": "aside", "arguments": {"number": 2}})),
        ("tools/call", json!({"name": "aside", "arguments": {"number": "two"}})),
        ("tools/call", json!({"name": "fails"})),
        ("tools/call", json!({"name": "refuses"})),
        ("tools/call", json!({"name": "faults"})),
        ("tools/call", json!({"name": "panics"})),
        ("tools/call", json!({"name": "not_long"})),
        ("tools/call", json!({"name": "whoami"})),
        ("tools/call", json!({"name": "nothing"})),
        ("resources/read", json!({"uri": "pages://7"})),
        ("resources/read", json!({"uri": "pages://0"})),
        ("resources/read", json!({"uri": "pages://seven"})),
        ("prompts/get", json!({"name": "greeting", "arguments": {"name": "Ada", "times": "3"}})),
        ("prompts/get", json!({"name": "greeting", "arguments": {"name": "Ada"}})),
        ("tools/list", json!({})),
    ];
    for revision in Revision::ALL {
        let mut bare = server().1.test_client(revision);
        let layer = || from_fn(|call: Call, next: Next| async move { next.run(call).await });
        let mut layered = server().1.layer(layer()).layer(layer()).test_client(revision);
        for (method, params) in &requests {
            let expected = bare.request(method, params.clone()).await;
            assert_eq!(layered.request(method, params.clone()).await, expected, "{method} {params} in {revision}");
        }
    }
}

/// A call that is ready immediately is answered immediately, even with layers.
#[tokio::test]
async fn layers_that_do_not_wait_do_not_spawn_a_task() {
    let (_, server) = server();
    let mut client = server.layer(Watch("a", Events::default())).test_client(Revision::V2025_11_25);
    let call = |name: &str| {
        let params = json!({"name": name, "arguments": {"number": 1}});
        json!({"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params}).to_string()
    };
    assert_eq!(client.send_raw(call("double").as_bytes()).len(), 1);
    assert_eq!(client.in_flight(), 0);
    assert_eq!(client.send_raw(call("later").as_bytes()).len(), 0);
    assert_eq!(client.in_flight(), 1);
    assert_eq!(client.settle().await.len(), 1);
}

/// Layers around the calls of a batch do not split its response.
#[tokio::test]
async fn a_batch_gets_a_single_response() {
    let (_, server) = server();
    let events = Events::default();
    let mut client = server.layer(Watch("a", events.clone())).test_client(Revision::V2025_03_26);
    let call = |id: u32, name: &str| {
        let arguments = if name == "panics" { json!({}) } else { json!({"number": id}) };
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let batch = Value::Array(vec![call(1, "double"), call(2, "later"), call(3, "aside"), call(4, "panics")]);
    assert_eq!(client.send_raw(batch.to_string().as_bytes()), Vec::<Value>::new());
    let answers = client.settle().await;
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].as_array().unwrap().len(), 4);
    let mut events = events.take();
    events.sort();
    let seen = [
        "a < aside success",
        "a < double success",
        "a < later success",
        "a < panics fault",
        r#"a > Tool aside {"number":3}"#,
        r#"a > Tool double {"number":1}"#,
        r#"a > Tool later {"number":2}"#,
        "a > Tool panics {}",
    ];
    assert_eq!(events, seen);
}
