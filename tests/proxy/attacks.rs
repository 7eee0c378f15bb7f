//! Upstreams that lie: only their own entries suffer.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use mcp_proxy::Upstream;
use mcp_runtime::{Context, Level, Revision, Server, function::ToolEntry};
use serde_json::{Map, Value, json};

use crate::{
    eventually,
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
    let large =
        |name: &str| json!({"name": name, "description": "x".repeat(1 << 20), "inputSchema": {"type": "object"}});
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
        (
            "unsafe icons",
            with(
                "icons",
                json!([{"src": "javascript:alert(1)"}, {"src": "javascript:'data:image/'"}, {"src": "http://x/a.png"}]),
            ),
            2,
        ),
        ("many icons", with("icons", vec![json!({"src": "https://example.com/a.png"}); 100].into()), 2),
        (
            "an argument with an invalid header",
            with(
                "inputSchema",
                json!({"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "no token"}}}),
            ),
            1,
        ),
        ("keys of the protocol", with("_meta", json!({"io.modelcontextprotocol/x": 1, "dev.mcp/y": 2, "": 3})), 2),
        ("too many", Value::Array(many), 2000),
        ("too large", (0..8).map(|number| large(&format!("t{number}"))).collect(), 3),
        ("no list", json!({"a": 1}), 0),
    ];
    for (attack, tools, expected) in cases {
        for is_stateless in [false, true] {
            let tools = tools.clone();
            let reply = move |method: &str, _: &Value| lists(method, tools.clone());
            let fake = if is_stateless { fake::start_stateless(reply).await } else { fake::start(reply).await };
            let server = Upstream::http(url(&fake.address)).add_to(own(), "up").await.unwrap();
            let built = server.build().unwrap_or_else(|error| panic!("{attack}: {error}"));
            let mut client = built.test_client(Revision::V2026_07_28);
            let listed = client.tools().await.unwrap();
            assert_eq!(listed.len(), expected + 2, "{attack}: {:?}", listed.iter().take(9).collect::<Vec<_>>());
            let icons = listed.iter().map(|tool| tool["icons"].as_array().map_or(0, Vec::len)).max();
            assert_eq!(icons, Some(if attack == "many icons" { 16 } else { 0 }), "{attack}");
            let texts = format!("{:?}", listed.iter().map(|tool| &tool.0).collect::<Vec<_>>());
            assert!(!texts.contains("javascript") && !texts.contains("io.modelcontextprotocol/x"), "{attack}: {texts}");
            assert_eq!(client.call("own", ()).await.unwrap().text(), "own", "{attack}");
            assert_eq!(client.call("up_taken", ()).await.unwrap().text(), "up_taken", "{attack}");
        }
    }
}

/// Names of properties are no keywords.
#[tokio::test(flavor = "multi_thread")]
async fn schemas_of_older_drafts_are_translated_below_every_property() {
    let tuple = json!({"type": "array", "items": [{"type": "string"}], "additionalItems": false});
    let names = ["a", "items", "default", "enum", "const", "examples", "properties"];
    let mut properties: Map<String, Value> = names.iter().map(|name| ((*name).to_owned(), tuple.clone())).collect();
    // Values are no schemas.
    let value = json!({"items": ["x"], "additionalItems": 1});
    properties
        .insert("value".to_owned(), json!({"enum": [value], "const": value, "default": value, "examples": [value]}));
    properties.insert("open".to_owned(), json!({"type": "array", "items": [{"type": "string"}]}));
    let mut old = tool("old");
    old["inputSchema"] = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": properties,
    });
    let fake = fake::start(move |method, _| lists(method, json!([old]))).await;
    let server = Upstream::http(url(&fake.address)).add_to(own(), "up").await.unwrap();
    let mut client = server.test_client(Revision::V2026_07_28);
    let listed = client.tools().await.unwrap();
    let listed = listed.iter().find(|tool| tool.name() == "up_old").unwrap();
    let property = &listed["inputSchema"]["properties"]["value"];
    for found in [&property["enum"][0], &property["default"], &property["examples"][0]] {
        assert_eq!(*found, value, "{property}");
    }
    for name in names {
        for (value, is_refused) in [(json!(["x"]), false), (json!([1]), true), (json!(["x", "y"]), true)] {
            let result = client.call("up_old", json!({ name: value })).await.unwrap();
            assert_eq!(result.text().contains(&format!("`{name}")), is_refused, "{name} {value}: {}", result.text());
        }
    }
    // Further items are allowed unless a schema says otherwise.
    let result = client.call("up_old", json!({"open": ["x", 1]})).await.unwrap();
    assert!(!result.text().contains("`open"), "{}", result.text());
}

/// Keywords of drafts 4 to 7, with arguments that they accept and reject.
#[tokio::test(flavor = "multi_thread")]
async fn keywords_that_2020_12_has_changed_are_translated() {
    let cases = [
        (json!({"properties": {"n": {"minimum": 1, "exclusiveMinimum": true}}}), json!({"n": 1.5}), json!({"n": 1})),
        (json!({"properties": {"n": {"maximum": 1, "exclusiveMaximum": false}}}), json!({"n": 1}), json!({"n": 1.5})),
        (json!({"dependencies": {"a": ["b"]}}), json!({"a": 1, "b": 1}), json!({"a": 1})),
        (json!({"dependencies": {"items": ["b"]}}), json!({"items": 1, "b": 1}), json!({"items": 1})),
        (json!({"dependencies": {"a": {"required": ["b"]}}}), json!({"a": 1, "b": 1}), json!({"a": 1})),
    ];
    for (keywords, accepted, rejected) in cases {
        let mut old = tool("old");
        old["inputSchema"] = keywords.clone();
        old["inputSchema"]["$schema"] = "http://json-schema.org/draft-07/schema#".into();
        old["inputSchema"]["type"] = "object".into();
        let fake = fake::start(move |method, _| match method {
            "tools/call" => Reply::Result(json!({"content": [{"type": "text", "text": "called"}]})),
            _ => lists(method, json!([old])),
        })
        .await;
        let server = Upstream::http(url(&fake.address)).add_to(own(), "up").await.unwrap();
        let mut client = server.test_client(Revision::V2026_07_28);
        let result = client.call("up_old", accepted).await;
        assert_eq!(
            result.as_ref().map(|result| result.text()).ok().as_deref(),
            Some("called"),
            "{keywords}: {result:?}"
        );
        assert_ne!(client.call("up_old", rejected).await.unwrap().text(), "called", "{keywords}");
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

#[tokio::test(flavor = "multi_thread")]
async fn tools_with_large_schemas_are_left_out() {
    for member in ["inputSchema", "outputSchema"] {
        let fake = fake::start(move |method, _| {
            let mut large = tool("large");
            large[member] = json!({"type": "object", "description": "x".repeat(128 << 10)});
            lists(method, json!([tool("small"), large]))
        })
        .await;
        let server = Upstream::http(url(&fake.address)).add_to(own(), "up").await.unwrap();
        let tools = server.test_client(Revision::V2026_07_28).tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["own", "up_small", "up_taken"], "{member}");
    }
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
    let cases: [Attack; 29] = [
        (
            "an unknown kind of content",
            || Reply::Result(json!({"content": [{"type": "hologram"}, {"type": "text", "text": "known"}]})),
            "known",
        ),
        (
            "base64 for URLs without padding, with a line break",
            || Reply::Result(json!({"content": [{"type": "image", "data": "--\n-_", "mimeType": "image/png"}]})),
            r#""data": String("+++/")"#,
        ),
        (
            "an image that is no base64",
            || Reply::Result(json!({"content": [{"type": "image", "data": "%", "mimeType": "image/png"}]})),
            "The upstream has sent content that is invalid.",
        ),
        (
            "structured content that is null",
            || Reply::Result(json!({"content": [], "structuredContent": null})),
            r#"Object {"content": Array []}"#,
        ),
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
        (
            "the id as text",
            || Reply::Body(json!({"jsonrpc": "2.0", "id": "1", "result": {}}).to_string()),
            "did not finish within",
        ),
        (
            "responses to ids that were never sent",
            || {
                let unknown = (1000..1100).map(|id| json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}}));
                Reply::Events(unknown.collect(), json!({"content": []}))
            },
            "is unavailable: the request failed",
        ),
        (
            "two results",
            || {
                let result = |text: &str| json!({"content": [{"type": "text", "text": text}]});
                let first = json!({"jsonrpc": "2.0", "id": "own", "result": result("first")});
                Reply::Events(vec![first], result("second"))
            },
            "first",
        ),
        (
            "an error, and a result",
            || {
                let error = json!({"jsonrpc": "2.0", "id": "own", "error": {"code": -32000, "message": "refused"}});
                Reply::Events(vec![error], json!({"content": [{"type": "text", "text": "second"}]}))
            },
            "refused",
        ),
        ("a result that is text", || Reply::Result(json!("text")), "is unavailable: its response is invalid"),
        (
            "content that is no list",
            || Reply::Result(json!({"content": "text"})),
            "is unavailable: its response is invalid",
        ),
        (
            "an error flag that is text",
            || Reply::Result(json!({"content": [], "isError": "no"})),
            "is unavailable: its response is invalid",
        ),
        (
            "structured content that is no object",
            || Reply::Result(json!({"content": [], "structuredContent": 7})),
            r#""structuredContent": Object {"result": Number(7)}"#,
        ),
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
            "only pages on the user's own machine",
        ),
        (
            "no page to visit",
            || Reply::Error(json!({"code": -32042, "message": "visit", "data": {"elicitations": []}})),
            "up: visit",
        ),
        (
            "another version",
            || Reply::Error(json!({"code": -32022, "message": "version", "data": {"supported": []}})),
            "up: version",
        ),
        (
            "missing capabilities that are no object",
            || Reply::Error(json!({"code": -32021, "message": "missing", "data": {"requiredCapabilities": ["roots"]}})),
            "up: the upstream requires capabilities",
        ),
        (
            "missing capabilities that are too large",
            || {
                let required = json!({"experimental": {"x": "y".repeat(100_000)}});
                Reply::Error(json!({"code": -32021, "message": "missing", "data": {"requiredCapabilities": required}}))
            },
            "up: the upstream requires capabilities",
        ),
        (
            "a reserved code",
            || Reply::Error(json!({"code": -32050, "message": "later"})),
            "code: -32603, message: \"up: later",
        ),
        (
            "a missing resource without its URI",
            || Reply::Error(json!({"code": -32002, "message": "gone"})),
            "code: -32602, message: \"invalid params: up: gone",
        ),
        ("another header", || Reply::Error(json!({"code": -32020, "message": "header"})), "up: header"),
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
        // Only the newest revision has an error with the capabilities.
        let is_newest = attack.starts_with("missing capabilities");
        let revision = if is_newest { Revision::V2026_07_28 } else { Revision::V2025_11_25 };
        let mut client = server.test_client(revision).answering(|request| panic!("{request:?}"));
        let result = client.call("up_a", ()).await;
        let text = format!("{result:?}");
        assert!(text.contains(expected) && text.len() < 16 * 1024, "{attack}: {}", &text[..text.len().min(500)]);
        assert!(!text.contains(&fake.address) && !text.contains("secret"), "{attack}: {text}");
        assert_eq!(client.call("own", ()).await.unwrap().text(), "own", "{attack}");
    }
}

/// Lists of pages that a call requires, and how many of them the client receives.
#[tokio::test(flavor = "multi_thread")]
async fn required_pages_that_are_valid_pass() {
    let page_with = |number: usize, length: usize| {
        let url = format!("https://example.com/{number}");
        json!({"mode": "url", "url": url, "elicitationId": number.to_string(), "message": "m".repeat(length)})
    };
    let page = |number: usize| page_with(number, 1);
    let long = json!({"mode": "url", "url": format!("https://example.com/{}", "x".repeat(5000)), "message": "m"});
    let cases = [
        ("sixteen", (0..16).map(page).collect(), 16),
        ("seventeen", (0..17).map(page).collect(), 16),
        (
            "mixed",
            json!([
                5, {"mode": "form", "url": "https://example.com/9", "message": "m"}, page(0),
                {"mode": "url", "message": "m"}, long, page(1),
            ]),
            2,
        ),
        ("long messages", json!([page_with(0, 4096), page_with(9, 4097), page(1)]), 2),
        ("none", json!([5, long]), 0),
    ];
    for (case, elicitations, expected) in cases {
        let data = json!({ "elicitations": elicitations });
        let fake = fake::start(move |method, _| match method {
            "tools/call" => Reply::Error(json!({"code": -32042, "message": "visit", "data": data})),
            _ => lists(method, json!([tool("a")])),
        })
        .await;
        let server = Upstream::http(url(&fake.address)).add_to(own(), "up").await.unwrap();
        let mut client = server.test_client(Revision::V2025_11_25).answering(|request| panic!("{request:?}"));
        let error = client.call("up_a", ()).await.unwrap_err();
        let pages = error.data.as_ref().and_then(|data| data["elicitations"].as_array()).cloned().unwrap_or_default();
        assert_eq!(error.code, if expected > 0 { -32042 } else { -32603 }, "{case}: {error:?}");
        assert_eq!(pages.len(), expected, "{case}: {error:?}");
        for (number, page) in pages.iter().enumerate() {
            assert_eq!(page["url"], format!("https://example.com/{number}"), "{case}");
        }
    }
}

/// Results with questions, the number of calls until the client gets a response, and a part of that.
#[tokio::test(flavor = "multi_thread")]
async fn questions_of_a_call_are_limited() {
    let form = json!({"method": "elicitation/create", "params": {"mode": "form", "message": "m", "requestedSchema": {"type": "object", "properties": {}}}});
    let questions = |keys: Vec<String>| {
        let requests: Map<String, Value> = keys.into_iter().map(|key| (key, form.clone())).collect();
        json!({"resultType": "input_required", "inputRequests": requests, "requestState": "s"})
    };
    let done = || json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]});
    let numbered = |count: u8| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
    let cases = [
        ("sixteen at once", questions(numbered(16)), 1, 2, "done"),
        ("seventeen at once", questions(numbered(17)), 1, 1, "asks too many questions"),
        ("the longest key", questions(vec!["x".repeat(256)]), 1, 2, "done"),
        ("a long key", questions(vec!["x".repeat(257)]), 1, 1, "asks too many questions"),
        ("fifteen times", questions(numbered(1)), 15, 16, "done"),
        ("for ever", questions(numbered(1)), usize::MAX, 16, "asks too many questions"),
        ("without a question", questions(Vec::new()), usize::MAX, 16, "asks too many questions"),
    ];
    for (case, result, times, expected_calls, expected) in cases {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let done = done();
        let fake = fake::start_stateless(move |method, _| match method {
            "tools/call" if count.fetch_add(1, Ordering::Relaxed) < times => Reply::Result(result.clone()),
            "tools/call" => Reply::Result(done.clone()),
            _ => Reply::Result(
                json!({"resultType": "complete", "tools": [tool("a")], "ttlMs": 0, "cacheScope": "private"}),
            ),
        })
        .await;
        let server = Upstream::http(url(&fake.address)).add_to(own(), "up").await.unwrap();
        let client = server.test_client(Revision::V2025_11_25);
        let result = client.answering(|_| json!({"action": "accept", "content": {}})).call("up_a", ()).await;
        let text = format!("{result:?}");
        assert!(text.contains(expected), "{case}: {text}");
        assert_eq!(calls.load(Ordering::Relaxed), expected_calls, "{case}");
    }
}

/// An upstream that does not answer delays the start by its timeout, and no longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_upstream_does_not_hold_up_the_start() {
    for hanging in ["server/discover", "tools/list"] {
        let fake = fake::start(move |method, _| match method {
            _ if method == hanging => Reply::Hang,
            _ => lists(method, json!([tool("a")])),
        })
        .await;
        let upstream = Upstream::http(url(&fake.address)).timeout(Duration::from_millis(300));
        let added = tokio::time::timeout(Duration::from_secs(5), upstream.add_to(own(), "up"));
        let server = added.await.expect(hanging).unwrap();
        assert_eq!(server.test_client(Revision::V2025_11_25).call("own", ()).await.unwrap().text(), "own");
    }
}

/// Starts the fixture behind a script, which sees the first lines of its input and decides about the rest. Its input is descriptor 4,
/// and its output 3.
#[cfg(unix)]
fn hostile(rest: &str) -> Upstream {
    let script = format!("exec 3>&1 4<&0; (sed -u 8q <&4; {rest}) | {}", env!("CARGO_BIN_EXE_fixture"));
    Upstream::command("sh", ["-c", &script])
}

/// The calls of a program that reads nothing end, and what is waiting to be sent has a bound.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_read_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("echo >> {0}/starts; echo $$ > {0}/id; exec sleep 600 >/dev/null", folder.path().display());
    let server = hostile(&script).add_to(own().timeout(Duration::from_millis(100)), "up").await.unwrap();
    let server = server.build().unwrap();
    let starts = || std::fs::read_to_string(folder.path().join("starts")).unwrap_or_default().lines().count();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut most = 0;
    for _ in 0..30 {
        let calls = (0..50).map(|_| {
            let server = server.clone();
            tokio::spawn(async move {
                let mut client = server.test_client(Revision::V2025_11_25);
                client.call("up_echo", json!({"text": "x".repeat(100_000)})).await.unwrap().is_error()
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        most = most.max(tasks());
        assert_eq!(server.test_client(Revision::V2025_11_25).call("own", ()).await.unwrap().text(), "own");
    }
    // Requests to cancel, of which the last ones still have time.
    assert!(most < 3000, "{most} tasks");
    let mut client = server.test_client(Revision::V2025_11_25);
    eventually!({
        let _ = client.call("up_echo", json!({"text": "a"})).await;
        starts() > 1
    });
    drop(client);
    let id = std::fs::read_to_string(folder.path().join("id")).unwrap();
    drop(server);
    let is_running = || std::path::Path::new("/proc").join(id.trim()).join("exe").exists();
    eventually!(!is_running());
}

/// Requests whose answers the program does not read.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_program_are_limited() {
    let flood = r#"seq -f '{"jsonrpc":"2.0","id":"%.0f","method":"ping"}' 1 1000000 >&3; exec sleep 600"#;
    let server = hostile(flood).add_to(own().timeout(Duration::from_millis(500)), "up").await.unwrap();
    let mut client = server.test_client(Revision::V2025_11_25);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut most = 0;
    for _ in 0..8 {
        let _ = client.call("up_echo", json!({"text": "a"})).await.unwrap();
        most = most.max(tasks());
    }
    assert_eq!(client.call("own", ()).await.unwrap().text(), "own");
    assert!(most < 5000, "{most} tasks");
}

/// Text that controls a terminal or hides something.
const ODD: &str = "one\u{1b}[2J\u{7}\r\u{9b}31m\u{202e}\u{e0041}\ttwo";

/// A user answers what is shown.
#[tokio::test(flavor = "multi_thread")]
async fn questions_of_an_upstream_are_printable() {
    let name = json!({"type": "string", "title": ODD, "description": ODD});
    let schema = json!({"type": "object", "properties": {"name": name}});
    let question = json!({"mode": "form", "message": ODD, "requestedSchema": schema});
    let questions = json!({"question": {"method": "elicitation/create", "params": question}});
    let fake = fake::start_stateless(move |method, params| match method {
        "tools/call" if params["inputResponses"].is_null() => {
            Reply::Result(json!({"resultType": "input_required", "inputRequests": questions, "requestState": "s"}))
        }
        "tools/call" => Reply::Result(json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})),
        _ => {
            Reply::Result(json!({"resultType": "complete", "tools": [tool("a")], "ttlMs": 0, "cacheScope": "private"}))
        }
    })
    .await;
    let server = Upstream::http(url(&fake.address)).add_to(own(), "up").await.unwrap();
    let shown = Arc::<Mutex<String>>::default();
    let seen = Arc::clone(&shown);
    let mut client = server.test_client(Revision::V2025_11_25).answering(move |request| {
        *seen.lock().unwrap() = format!("{:?}", request.params);
        json!({"action": "accept", "content": {"name": "Ada"}})
    });
    assert_eq!(client.call("up_a", ()).await.unwrap().text(), "done");
    let shown = shown.lock().unwrap();
    assert_eq!((shown.matches(r"one[2J31m\ttwo").count(), shown.matches("one[2J").count()), (3, 3), "{shown}");
}

/// Text in all that clients show.
#[tokio::test(flavor = "multi_thread")]
async fn texts_of_an_upstream_are_printable() {
    let listed = json!([{
        "name": "a", "title": ODD, "description": ODD, "annotations": {"title": ODD},
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "title": ODD, "description": ODD}}},
    }]);
    let fake = fake::start(move |method, params| match method {
        "initialize" => Reply::Result(json!({
            "protocolVersion": "2025-06-18", "serverInfo": {"name": "fake", "version": "1"}, "instructions": ODD,
            "capabilities": {"tools": {}, "prompts": {}, "logging": {}},
        })),
        "prompts/list" => Reply::Result(json!({"prompts": [
            {"name": "p", "description": ODD, "arguments": [{"name": "a", "description": ODD}]}, {"name": "q"}
        ]})),
        "prompts/get" if params["name"] == "q" => Reply::Result(json!({"description": ODD, "messages": []})),
        "prompts/get" => Reply::Error(json!({"code": -32000, "message": ODD, "data": {"detail": [ODD]}})),
        "tools/call" => {
            let notification = |method: &str, params: Value| {
                json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})
            };
            let token = &params["_meta"]["progressToken"];
            Reply::Events(
                vec![
                    notification("progress", json!({"progressToken": token, "progress": 1, "message": ODD})),
                    notification("message", json!({"level": "error", "logger": ODD, "data": {"text": [ODD]}})),
                ],
                json!({"content": [{"type": "text", "text": ODD}]}),
            )
        }
        _ => lists(method, listed.clone()),
    })
    .await;
    let server = Upstream::http(url(&fake.address)).add_to(Server::empty("gateway", "1.0.0"), "").await.unwrap();
    let server = server.build().unwrap();
    let mut client = server.test_client(Revision::V2025_11_25);
    client.set_log_level(Level::Debug).await.unwrap();
    let (result, progress) = client.call_with_progress("a", ()).await.unwrap();
    assert_eq!(result.text(), ODD, "results are data");
    let logged = client.log_messages();
    assert_eq!((progress.len(), logged.len()), (1, 1));
    let texts = [
        ("tools", format!("{:?}", client.request("tools/list", json!({})).await.unwrap()), 4),
        ("prompts", format!("{:?}", client.request("prompts/list", json!({})).await.unwrap()), 2),
        ("a prompt", format!("{:?}", client.request("prompts/get", json!({"name": "q"})).await.unwrap()), 1),
        ("an error", format!("{:?}", client.request("prompts/get", json!({"name": "p"})).await.unwrap_err()), 2),
        ("progress", format!("{:?}", progress[0].message), 1),
        ("a log message", format!("{:?} {:?}", logged[0].logger, logged[0].data), 2),
    ];
    for (place, text, times) in texts {
        assert_eq!(text.matches(r"one[2J31m\ttwo").count(), times, "{place}: {text}");
        assert_eq!(text.matches("one").count(), times, "{place}: {text}");
    }
    let discovered = server.test_client(Revision::V2026_07_28).request("server/discover", json!({})).await.unwrap();
    assert_eq!(discovered["instructions"], "one[2J31m\ttwo");
}

/// Ten thousand notifications of each kind on the stream of a call, and how many messages the client receives at most.
#[tokio::test(flavor = "multi_thread")]
async fn floods_of_notifications_are_combined() {
    let cases = [
        ("tools/list_changed", json!({}), 0),
        ("resources/updated", json!({"uri": "a://b"}), 0),
        ("progress", json!({"progress": 0, "message": "m"}), 1000),
        // As those of functions.
        ("message", json!({"level": "error", "data": "m"}), 10_000),
        ("cancelled", json!({"requestId": 99}), 0),
        ("com.example/unknown", json!({}), 0),
    ];
    for (method, flood, most) in cases {
        let listed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&listed);
        let fake = fake::start(move |called, params| match called {
            "tools/list" => {
                // Each list is another one.
                let name = format!("t{}", count.fetch_add(1, Ordering::Relaxed));
                lists(called, json!([tool("a"), tool(&name)]))
            }
            "tools/call" => {
                let messages = (1..=10_000).map(|number| {
                    let mut flood = flood.clone();
                    if flood["progress"].is_number() {
                        flood["progress"] = number.into();
                        flood["progressToken"] = params["_meta"]["progressToken"].clone();
                    }
                    json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": flood})
                });
                Reply::Events(messages.collect(), json!({"content": [{"type": "text", "text": "done"}]}))
            }
            _ => lists(called, json!([])),
        })
        .await;
        let server = Upstream::http(url(&fake.address)).add_to(own(), "up").await.unwrap();
        let mut client = server.test_client(Revision::V2025_11_25);
        client.set_log_level(Level::Debug).await.unwrap();
        let begin = Instant::now();
        let (result, progress) = client.call_with_progress("up_a", ()).await.unwrap();
        assert_eq!(result.text(), "done", "{method}");
        tokio::time::sleep(Duration::from_millis(1200)).await;
        let received = progress.len() + client.log_messages().len() + client.notifications().len();
        // At the start, and then after a pause of half a second.
        let lists = 2 + begin.elapsed().as_millis() as usize / 500;
        assert!(received <= most + lists, "{method}: {received}");
        assert!(listed.load(Ordering::Relaxed) <= lists, "{method}: {listed:?} lists");
        assert_eq!(client.call("own", ()).await.unwrap().text(), "own", "{method}");
    }
}

/// Lists of tools are read by code of their own, which has the same limit.
#[tokio::test(flavor = "multi_thread")]
async fn lists_of_tools_are_no_longer_than_a_message() {
    for (limit, is_listed) in [(1 << 20, true), (1 << 16, false)] {
        let fake = fake::start(|method, _| {
            let large = json!({"name": "a", "description": "x".repeat(1 << 17), "inputSchema": {"type": "object"}});
            lists(method, json!([large]))
        })
        .await;
        let upstream = Upstream::http(url(&fake.address)).max_message_bytes(limit);
        let server = upstream.add_to(own(), "up").await.unwrap();
        let tools = server.test_client(Revision::V2026_07_28).tools().await.unwrap();
        assert_eq!(tools.iter().any(|tool| tool.name() == "up_a"), is_listed, "{limit}");
    }
}
