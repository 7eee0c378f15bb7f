//! 2026-07-28: stateless requests.
//!
//! See [Streamable HTTP](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http).

use std::time::Duration;

use mcp_runtime::{Context, Fault, HttpOptions, Revision, Server, function::MethodEntry, testing::TestClient};
use serde_json::{Value, json};

use super::{
    client::{Endpoint, soon},
    request::{Request, call, initialize, stateless},
    serve, serve_with,
};
use crate::layers::log::Log;

const MISMATCH: (u16, i64) = (400, -32020);

fn meta(message: &mut Value) -> &mut serde_json::Map<String, Value> {
    message["params"]["_meta"].as_object_mut().unwrap()
}

#[tokio::test]
async fn a_request_is_answered_with_json() {
    let (_, endpoint) = serve().await;
    let response = endpoint.send(&call("quick")).await;
    assert_eq!((response.status, response.text().as_str()), (200, "quick"));
    assert_eq!(response.header("mcp-session-id"), None);
    assert_eq!(response.json()["result"]["resultType"], "complete");
    let discovered = endpoint.send(&stateless("server/discover", &json!({}))).await;
    assert_eq!(discovered.json()["result"]["supportedVersions"][0], Revision::LATEST.as_str());
}

/// Each row changes a valid request.
#[tokio::test]
async fn requests_are_checked() {
    let (_, endpoint) = serve().await;
    let good = || call("quick");
    let version = |version: &'static str| {
        move |message: &mut Value| {
            meta(message).insert("io.modelcontextprotocol/protocolVersion".to_owned(), json!(version));
        }
    };
    let without = |key: &'static str| {
        move |message: &mut Value| {
            meta(message).remove(&format!("io.modelcontextprotocol/{key}"));
        }
    };
    let method = |name: &str| stateless(name, &json!({}));
    for (name, request, expected) in [
        ("good", good(), (200, 0)),
        ("no version header", good().without("mcp-protocol-version"), MISMATCH),
        ("another version header", good().with("mcp-protocol-version", "2025-11-25"), MISMATCH),
        ("two version headers", good().and("mcp-protocol-version", "2026-07-28"), MISMATCH),
        ("no method header", good().without("mcp-method"), MISMATCH),
        ("another method header", good().with("mcp-method", "tools/list"), MISMATCH),
        ("a method header in capitals", good().with("mcp-method", "TOOLS/CALL"), MISMATCH),
        ("no name header", good().without("mcp-name"), MISMATCH),
        ("another name header", good().with("mcp-name", "waits"), MISMATCH),
        ("a name header in base64", good().with("mcp-name", "=?base64?cXVpY2s=?="), (200, 0)),
        ("a name header in bad base64", good().with("mcp-name", "=?base64?cXVp!?="), MISMATCH),
        ("a name header that is not ASCII", good().with("mcp-name", "quück"), MISMATCH),
        (
            "a prompt without a name header",
            stateless("prompts/get", &json!({"name": "none"})).without("mcp-name"),
            MISMATCH,
        ),
        (
            "a prompt with another name header",
            stateless("prompts/get", &json!({"name": "none"})).with("mcp-name", "quick"),
            MISMATCH,
        ),
        // An unrelated member does not name the subject of the request.
        ("a list with a name", stateless("tools/list", &json!({"name": "stray"})).without("mcp-name"), (200, 0)),
        // Headers are checked before versions.
        ("an unknown version in the body only", good().change(version("2099-01-01")), MISMATCH),
        ("an unknown version in the header only", good().with("mcp-protocol-version", "2099-01-01"), MISMATCH),
        (
            "an unknown version",
            good().change(version("2099-01-01")).with("mcp-protocol-version", "2099-01-01"),
            (400, -32022),
        ),
        (
            "an unknown version and a session",
            good()
                .change(version("2099-01-01"))
                .with("mcp-protocol-version", "2099-01-01")
                .with("mcp-session-id", "AAAA"),
            (400, -32022),
        ),
        (
            "an unknown version in the header only, and a session",
            good().with("mcp-protocol-version", "2099-01-01").with("mcp-session-id", "AAAA"),
            MISMATCH,
        ),
        (
            "an unknown version without a method header",
            good().change(version("2099-01-01")).with("mcp-protocol-version", "2099-01-01").without("mcp-method"),
            MISMATCH,
        ),
        (
            "a version with sessions",
            good().change(version("2025-11-25")).with("mcp-protocol-version", "2025-11-25"),
            (400, -32022),
        ),
        (
            "no `_meta`",
            good().change(|message| drop(message["params"].as_object_mut().unwrap().remove("_meta"))),
            (400, -32602),
        ),
        ("no version", good().change(without("protocolVersion")), (400, -32602)),
        ("no capabilities", good().change(without("clientCapabilities")), (400, -32602)),
        ("an unknown method", method("tools/frobnicate"), (404, -32601)),
        ("a removed method, ping", method("ping"), (404, -32601)),
        ("a removed method, initialize", method("initialize"), (404, -32601)),
        ("a removed method, logging/setLevel", method("logging/setLevel"), (404, -32601)),
        ("an unknown tool", call("nothing"), (200, -32602)),
        (
            "initialize without `_meta`",
            initialize("2025-11-25").with("mcp-protocol-version", "2026-07-28"),
            (400, -32602),
        ),
        (
            "initialize of an unknown version",
            initialize("2025-11-25").with("mcp-protocol-version", "2099-01-01"),
            (400, -32022),
        ),
        ("a batch", good().body("[]"), (400, -32600)),
        ("a response", good().body(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), (400, -32600)),
        (
            "an error response",
            good().body(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}"#),
            (400, -32600),
        ),
        ("invalid JSON", good().body("{"), (400, -32700)),
        ("invalid UTF-8", good().body(b"\xff".to_vec()), (400, -32700)),
        ("an empty body", good().body(""), (400, -32700)),
        ("not a message", good().body("{}"), (400, -32600)),
    ] {
        let response = endpoint.send(&request).await;
        assert_eq!(response.outcome(), expected, "{name}: {response:?}");
        assert_eq!(response.header("mcp-session-id"), None, "{name}");
    }
    let unknown = good().change(version("2099-01-01")).with("mcp-protocol-version", "2099-01-01");
    let refused = endpoint.send(&unknown).await.json();
    assert_eq!(refused["error"]["data"]["requested"], "2099-01-01");
    assert_eq!(refused["error"]["data"]["supported"][0], Revision::LATEST.as_str());
    assert_eq!(refused["id"], 1);
}

/// Its messages have no recipient, so none is kept.
#[tokio::test]
async fn the_call_of_a_notification_fills_no_buffer() {
    let (log, _guard) = Log::listen();
    let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let flood = MethodEntry::new("com.example/flood", json!({"type": "object"}), move |_: Value, ctx: Context| {
        let sender = sender.clone();
        async move {
            for _ in 0..3 {
                ctx.notify("com.example/flooded", json!({"text": "x".repeat(1 << 19)}));
            }
            sender.send(()).unwrap();
            Ok::<_, Fault>(json!({}))
        }
    });
    let server = Server::empty("flooding", "1.0.0").with_entry(flood).build().unwrap();
    let service = server.into_http_service(HttpOptions::default()).unwrap();
    let mut client = TestClient::over_http(service, "/", Revision::V2026_07_28);
    client.notify("com.example/flood", json!({}));
    while ended.try_recv().is_err() {
        tokio::time::timeout(Duration::from_millis(5), client.next_lines()).await.ok();
    }
    assert_eq!(log.take("dropping notifications"), [""; 0]);
}

#[tokio::test]
async fn headers_that_mirror_arguments_are_checked() {
    let (_, endpoint) = serve().await;
    let request = |arguments: Value, headers: &[(&str, &str)]| {
        let request = stateless("tools/call", &json!({"name": "routed", "arguments": arguments}));
        headers.iter().fold(request, |request, (name, value)| request.with(name, value))
    };
    let region = ("Mcp-Param-Region", "us-west1");
    let west = || json!({"region": "us-west1"});
    for (arguments, headers, expected) in [
        (west(), &[region][..], (200, 0)),
        (west(), &[("mcp-param-REGION", "=?base64?dXMtd2VzdDE=?=")], (200, 0)),
        (json!({"region": "zürich\n"}), &[("Mcp-Param-Region", "=?base64?esO8cmljaAo=?=")], (200, 0)),
        (json!({"region": "zürich"}), &[("Mcp-Param-Region", "zürich")], MISMATCH),
        (west(), &[], MISMATCH),
        (west(), &[("Mcp-Param-Region", "us-east1")], MISMATCH),
        (west(), &[("Mcp-Param-Region", "=?base64?!?=")], MISMATCH),
        (west(), &[region, ("Mcp-Param-Count", "1")], MISMATCH),
        (west(), &[region, ("Mcp-Param-Unknown", "1")], (200, 0)),
        (json!({"region": "us-west1", "count": 42}), &[region, ("Mcp-Param-Count", "42.0")], (200, 0)),
        (json!({"region": "us-west1", "count": 42}), &[region, ("Mcp-Param-Count", "43")], MISMATCH),
        (json!({"region": "us-west1", "count": 42}), &[region], MISMATCH),
        (json!({"region": "us-west1", "count": null}), &[region], (200, 0)),
        (json!({"region": "us-west1", "dry": true}), &[region, ("Mcp-Param-Dry", "true")], (200, 0)),
        (json!({"region": "us-west1", "dry": true}), &[region, ("Mcp-Param-Dry", "True")], MISMATCH),
    ] {
        let response = endpoint.send(&request(arguments.clone(), headers)).await;
        assert_eq!(response.outcome(), expected, "{arguments} {headers:?}: {response:?}");
    }
    let listed = endpoint.send(&stateless("tools/list", &json!({}))).await.json();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let routed = tools.iter().find(|tool| tool["name"] == "routed").unwrap();
    assert_eq!(routed["inputSchema"]["properties"]["region"]["x-mcp-header"], "Region");
}

#[tokio::test]
async fn only_post_is_allowed() {
    let (_, endpoint) = serve().await;
    let session = endpoint.session("2025-11-25").await;
    for method in ["GET", "DELETE"] {
        let request = Request::new(method).with("mcp-protocol-version", "2026-07-28");
        for request in [request.clone(), request.with("mcp-session-id", &session.id)] {
            let response = endpoint.send(&request).await;
            assert_eq!((response.status, response.header("allow")), (405, Some("POST")), "{request:?}");
        }
    }
    assert_eq!(endpoint.send(&session.ping()).await.outcome(), (200, 0), "the session has not ended");
}

#[tokio::test]
async fn notifications_are_accepted() {
    let (_, endpoint) = serve().await;
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/anything"});
    let accepted = endpoint.send(&Request::post(&notification).with("mcp-protocol-version", "2026-07-28")).await;
    assert_eq!((accepted.status, accepted.body.as_slice()), (202, &b""[..]));
    let unknown = endpoint.send(&Request::post(&notification).with("mcp-protocol-version", "2099-01-01")).await;
    assert_eq!((unknown.status, &unknown.json()["id"]), (400, &Value::Null));
}

/// The client learns only from the status that the call of a notification was rejected.
#[tokio::test]
async fn rejected_notifications_have_an_error_status() {
    let entry = |name: &'static str| {
        MethodEntry::new(name, json!({"type": "object"}), async |_: Value, _: Context| Ok::<_, Fault>(json!({})))
    };
    let server = Server::empty("notes", "1.0.0")
        .with_entry(entry("com.example/note"))
        .with_entry(entry("com.example/hidden").tags(["hidden"]))
        .visible_to(|_, entry| !entry.has_tag("hidden"));
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    let without_id = |message: &mut Value| drop(message.as_object_mut().unwrap().remove("id"));
    let other_version = |message: &mut Value| {
        meta(message).insert("io.modelcontextprotocol/protocolVersion".to_owned(), json!("2099-01-01"));
    };
    let note = || stateless("com.example/note", &json!({})).change(without_id);
    for (case, request, status) in [
        ("valid", note(), 202),
        ("unknown method", stateless("com.example/unknown", &json!({})).change(without_id), 202),
        ("hidden method", stateless("com.example/hidden", &json!({})).change(without_id), 202),
        (
            "hidden method of another version",
            stateless("com.example/hidden", &json!({})).change(without_id).change(other_version),
            202,
        ),
        ("other version", note().change(other_version), 400),
        (
            "no capabilities",
            note().change(|message| drop(meta(message).remove("io.modelcontextprotocol/clientCapabilities"))),
            400,
        ),
    ] {
        let response = endpoint.send(&request).await;
        assert_eq!(response.status, status, "{case}: {response:?}");
        assert!(status == 202 || response.json()["error"]["code"] == -32600, "{case}: {response:?}");
    }
}

/// Subscription streams do not carry the log of calls.
#[tokio::test]
async fn the_log_of_a_call_is_on_its_own_stream() {
    let (_, server) = super::server();
    let server = server.build().unwrap();
    let (handle, endpoint) = (server.handle(), super::Endpoint::serve(server, HttpOptions::default()).await);
    let mut listener =
        endpoint.open(&stateless("subscriptions/listen", &json!({"notifications": {"toolsListChanged": true}}))).await;
    assert_eq!(listener.message().await.unwrap()["method"], "notifications/subscriptions/acknowledged");
    let with_log = call("floods").change(|message| {
        meta(message).insert("io.modelcontextprotocol/logLevel".to_owned(), json!("error"));
    });
    let messages = endpoint.open(&with_log).await.messages().await;
    assert_eq!(messages[0]["method"], "notifications/message");
    assert_eq!(endpoint.send(&call("floods")).await.text(), "flooded", "a call without a log level has no log");
    handle.remove::<super::quick>();
    assert_eq!(listener.message().await.unwrap()["method"], "notifications/tools/list_changed");
}

/// Stateless requests ignore `Mcp-Session-Id` and `Last-Event-ID`.
#[tokio::test]
async fn sessions_are_ignored() {
    let (_, endpoint) = serve().await;
    let response = endpoint.send(&call("quick").with("mcp-session-id", "gone").with("last-event-id", "1-1")).await;
    assert_eq!((response.status, response.header("mcp-session-id")), (200, None));
}

#[tokio::test]
async fn messages_before_the_result_are_streamed() {
    let (gate, endpoint) = serve().await;
    for (tool, steps, text) in [("reports", 2, "reported"), ("reports_at_once", 1, "reported at once")] {
        let mut response = endpoint.open(&call(tool)).await;
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        assert_eq!(response.header("x-accel-buffering"), Some("no"));
        assert_eq!(response.header("cache-control"), Some("no-cache, no-transform"));
        let first = response.event().await.unwrap();
        assert_eq!((first.id.as_deref(), first.json()["method"].as_str()), (None, Some("notifications/progress")));
        gate.open();
        let rest = response.messages().await;
        assert_eq!(rest.len(), steps, "{rest:?}");
        assert_eq!(rest[steps - 1]["result"]["content"][0]["text"], text);
    }
}

#[tokio::test]
async fn a_call_without_notifications_is_answered_with_json() {
    let (gate, endpoint) = serve().await;
    let request = call("waits");
    let release = async {
        gate.has_begun(1).await;
        gate.open();
    };
    let (response, ()) = tokio::join!(endpoint.send(&request), release);
    assert_eq!(response.text(), "waited");
}

#[tokio::test]
async fn a_long_call_is_kept_alive() {
    use std::time::Duration;
    for interval in [Duration::ZERO, Duration::from_millis(5)] {
        let options = HttpOptions::default().stream_after(Duration::ZERO).keep_alive(interval);
        let (gate, endpoint) = serve_with(options).await;
        let mut response = endpoint.open(&call("waits")).await;
        assert!(response.event().await.unwrap().is_comment);
        assert!(response.event().await.unwrap().is_comment);
        gate.open();
        assert_eq!(response.message().await.unwrap()["result"]["content"][0]["text"], "waited");
        assert!(response.messages().await.is_empty());
    }
}

/// This applies to JSON responses and to streams.
#[tokio::test]
async fn a_disconnected_client_cancels_its_call() {
    let (gate, endpoint) = serve().await;
    let mut connection = endpoint.connect().await;
    connection.write(&call("waits").bytes()).await;
    gate.has_begun(1).await;
    drop(connection);
    gate.has_dropped(1).await;

    let mut response = endpoint.open(&call("reports")).await;
    assert!(response.message().await.is_some());
    drop(response);
    gate.has_dropped(2).await;
    assert_eq!(endpoint.send(&call("quick")).await.status, 200);
}

#[tokio::test]
async fn a_function_can_read_its_http_request() {
    let (_, endpoint) = serve().await;
    let response = endpoint.send(&call("whoami").with("X-Asked-By", "me")).await;
    assert_eq!(response.text(), r#"Some("me") Some("127.0.0.1") None"#);
}

#[tokio::test]
async fn connections_are_kept() {
    let (_, endpoint) = serve().await;
    let mut connection = endpoint.connect().await;
    for _ in 0..3 {
        let (response, kept) = connection.send(&call("quick")).await;
        assert_eq!(response.text(), "quick");
        connection = kept;
    }
    // Two requests at once.
    connection.write(&[call("quick").bytes(), call("nothing").bytes()].concat()).await;
    let (first, connection) = soon(connection.response()).await.full().await;
    let (second, _) = soon(connection.response()).await.full().await;
    assert_eq!((first.text().as_str(), second.outcome()), ("quick", (200, -32602)));
}
