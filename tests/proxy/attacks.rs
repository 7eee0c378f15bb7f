//! Upstreams that lie: only their own entries suffer.

use std::time::{Duration, Instant};

use mcp_proxy::Upstream;
use mcp_runtime::{Context, Revision, Server, function::ToolEntry};
use serde_json::{Map, Value, json};

use crate::{
    fake::{self, Reply, lists, tool},
    url,
};

fn own() -> Server {
    let own = |text: &'static str| {
        ToolEntry::new(text, json!({"type": "object"}), move |_: Map<String, Value>, _: Context| async move { text })
    };
    Server::empty("gateway", "1.0.0")
        .with_entry(own("own").description("Own."))
        .with_entry(own("up_taken").description("Own."))
}

/// Lists, and the names that clients see beside `own` and `up_taken`.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_entries_are_left_out() {
    let good = || tool("good");
    let with = |member: &str, value: Value| {
        let mut tool = tool("odd");
        tool[member] = value;
        json!([tool, good()])
    };
    let many = (0..5000).map(|number| tool(&format!("t{number}"))).collect::<Vec<_>>();
    let cases: Vec<(&str, Value, usize)> = vec![
        ("control characters", json!([tool("a\u{1b}[2J"), tool("a\nb"), tool("a\u{202e}b"), good()]), 1),
        ("spaces, and no name", json!([tool("a b"), tool(""), good()]), 1),
        ("a long name", json!([tool(&"x".repeat(200)), good()]), 1),
        ("equal names", json!([good(), good(), good()]), 1),
        ("the name of an own tool", json!([tool("taken"), good()]), 1),
        ("no schema", json!([{"name": "odd"}, good()]), 1),
        ("a schema that is no object", with("inputSchema", json!(7)), 1),
        ("a schema of a list", with("inputSchema", json!({"type": "array"})), 1),
        (
            "a schema that does not compile",
            with("inputSchema", json!({"type": "object", "properties": {"a": {"pattern": "("}}})),
            1,
        ),
        (
            "a schema with an unknown reference",
            with("inputSchema", json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}})),
            1,
        ),
        (
            "an output schema that does not compile",
            with("outputSchema", json!({"type": "object", "properties": {"a": {"type": "txt"}}})),
            1,
        ),
        ("members of the wrong types", json!([5, null, [], {"name": 7}, good()]), 1),
        (
            "a schema of draft 7",
            with(
                "inputSchema",
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}, "b": {"$ref": "#/definitions/b"}}, "definitions": {"b": {"type": "string"}}}),
            ),
            2,
        ),
        ("unsafe icons", with("icons", json!([{"src": "javascript:alert(1)"}, {"src": "http://x/a.png"}])), 2),
        ("keys of the protocol", with("_meta", json!({"io.modelcontextprotocol/x": 1, "dev.mcp/y": 2, "": 3})), 2),
        ("too many", Value::Array(many), 2000),
        ("no list", json!({"a": 1}), 0),
    ];
    for (attack, tools, expected) in cases {
        let fake = fake::start(move |method, _| lists(method, tools.clone())).await;
        let server = Upstream::http(url(&fake.address)).add_to(own(), "up").await.unwrap();
        let built = server.build().unwrap_or_else(|error| panic!("{attack}: {error}"));
        let mut client = built.test_client(Revision::V2026_07_28);
        let listed = client.tools().await.unwrap();
        assert_eq!(listed.len(), expected + 2, "{attack}: {:?}", listed.iter().take(9).collect::<Vec<_>>());
        let texts = format!("{:?}", listed.iter().map(|tool| &tool.0).collect::<Vec<_>>());
        assert!(!texts.contains("javascript") && !texts.contains("io.modelcontextprotocol/x"), "{attack}: {texts}");
        assert_eq!(client.call("own", ()).await.unwrap().text(), "own", "{attack}");
        assert_eq!(client.call("up_taken", ()).await.unwrap().text(), "up_taken", "{attack}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_never_end_are_cut() {
    let fake = fake::start(|method, params| match method {
        "tools/list" => {
            let page = params["cursor"].as_str().map_or(0, |cursor| cursor.parse::<u32>().unwrap_or_default());
            Reply::Result(json!({"tools": [tool(&format!("t{page}"))], "nextCursor": (page + 1).to_string()}))
        }
        _ => lists(method, json!([])),
    })
    .await;
    let server = Upstream::http(url(&fake.address)).add_to(own(), "up").await.unwrap();
    assert_eq!(server.test_client(Revision::V2026_07_28).tools().await.unwrap().len(), 102);
}

/// Resources of the upstream exist below its prefix only.
#[tokio::test(flavor = "multi_thread")]
async fn templates_match_nothing_of_another_server() {
    let fake = fake::start(|method, params| match method {
        "resources/templates/list" => Reply::Result(json!({"resourceTemplates": [
            {"name": "all", "uriTemplate": "{+any}"}, {"name": "web", "uriTemplate": "https://{+any}"}, {"name": "odd", "uriTemplate": "a://{"}
        ]})),
        "resources/read" => Reply::Result(json!({"contents": [{"uri": params["uri"], "text": "upstream"}]})),
        _ => lists(method, json!([])),
    })
    .await;
    let server = Upstream::http(url(&fake.address)).add_to(own(), "up").await.unwrap();
    let mut client = server.test_client(Revision::V2026_07_28);
    assert!(client.read("https://example.com").await.is_err());
    assert!(client.read("other+https://example.com").await.is_err());
    let read = client.read("up+https://example.com").await.unwrap();
    assert_eq!(read.contents()[0], json!({"uri": "up+https://example.com", "text": "upstream"}));
}

/// Responses to calls, and a part of what the client receives.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_responses_fail_their_call() {
    type Attack = (&'static str, fn() -> Reply, &'static str);
    let cases: [Attack; 12] = [
        (
            "too large",
            || Reply::Result(json!({"content": [{"type": "text", "text": "x".repeat(2 << 20)}]})),
            "is unavailable",
        ),
        ("no JSON", || Reply::Body("<html>".to_owned()), "is unavailable"),
        (
            "another id",
            || Reply::Body(json!({"jsonrpc": "2.0", "id": 99, "result": {}}).to_string()),
            "did not finish within",
        ),
        ("another result", || Reply::Result(json!({"tools": []})), "is unavailable: its response is invalid"),
        ("no answer", || Reply::Hang, "did not finish within"),
        (
            "a redirect",
            || Reply::Head("307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\n".to_owned()),
            "is unavailable",
        ),
        (
            "rejected credentials",
            || Reply::Head("401 Unauthorized\r\nwww-authenticate: Bearer\r\n".to_owned()),
            "is unavailable",
        ),
        (
            "a large error",
            || Reply::Error(json!({"code": -32000, "message": "x".repeat(100_000), "data": "y".repeat(100_000)})),
            "xxxx",
        ),
        (
            "a page to visit",
            || {
                let elicitation =
                    json!({"mode": "url", "url": "http://evil.example", "elicitationId": "1", "message": "m"});
                Reply::Error(json!({"code": -32042, "message": "visit", "data": {"elicitations": [elicitation]}}))
            },
            "up: visit",
        ),
        (
            "another version",
            || Reply::Error(json!({"code": -32022, "message": "version", "data": {"supported": []}})),
            "up: version",
        ),
        (
            "missing capabilities that are no object",
            || Reply::Error(json!({"code": -32021, "message": "missing", "data": "text"})),
            "",
        ),
        (
            "content that is no content",
            || {
                Reply::Result(
                    json!({"content": [{"type": "image", "data": "%", "mimeType": "a"}, {"type": "text", "text": "rest"}]}),
                )
            },
            "rest",
        ),
    ];
    for (attack, reply, expected) in cases {
        let fake = fake::start(move |method, _| match method {
            "tools/call" => reply(),
            _ => lists(method, json!([tool("a")])),
        })
        .await;
        let upstream = Upstream::http(url(&fake.address))
            .max_message_bytes(1 << 20)
            .header("authorization", "secret-of-the-gateway");
        let server = upstream.add_to(own().timeout(Duration::from_secs(2)), "up").await.unwrap();
        let mut client = server.test_client(Revision::V2025_11_25);
        let result = client.call("up_a", ()).await;
        let text = format!("{result:?}");
        assert!(text.contains(expected) && text.len() < 16 * 1024, "{attack}: {}", &text[..text.len().min(500)]);
        assert!(!text.contains(&fake.address) && !text.contains("secret"), "{attack}: {text}");
        assert_eq!(client.call("own", ()).await.unwrap().text(), "own", "{attack}");
    }
}

/// An upstream that does not answer delays the start by its timeout, and no longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_upstream_does_not_hold_up_the_start() {
    let fake = fake::start(|_, _| Reply::Hang).await;
    let start = Instant::now();
    let upstream = Upstream::http(url(&fake.address)).timeout(Duration::from_millis(300));
    let server = upstream.add_to(own(), "up").await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(server.test_client(Revision::V2025_11_25).call("own", ()).await.unwrap().text(), "own");
}
