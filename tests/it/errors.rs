//! Errors as clients and models read them: in the terms of the protocol, and of bounded size.

use std::{
    io,
    net::IpAddr,
    num::{NonZeroI8, NonZeroU32},
};

use mcp_runtime::{Revision, Server, prompt, resource, testing::TestClient, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// The words with which serde and serde_json describe errors.
const SERDE: [&str; 12] = [
    "invalid type",
    "invalid value",
    "invalid length",
    "missing field",
    "unknown field",
    "unknown variant",
    "duplicate field",
    "did not match any variant",
    "at line ",
    "floating point `",
    "expected i64",
    "expected u",
];

/// JSON that does not fit nearly every parameter.
const ILL_TYPED: [&str; 14] = [
    "null",
    "true",
    "-1",
    "1.5",
    "1e30",
    "1e999",
    "18446744073709551616",
    "\"\"",
    "\"x\"",
    "\"\\ud800\"",
    "[]",
    "[[{}]]",
    "{}",
    "{\"a\":[1]}",
];

/// An even number.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "i64")]
#[schemars(with = "i64")]
#[expect(dead_code, reason = "it is only printed")]
struct Even(i64);

impl TryFrom<i64> for Even {
    type Error = &'static str;

    fn try_from(number: i64) -> Result<Self, &'static str> {
        if number % 2 == 0 { Ok(Self(number)) } else { Err("the number is odd") }
    }
}

/// One of two forms.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is only printed")]
enum Form {
    Short(i8),
    Long { number: i64 },
}

/// A hue, of which the schema lists more than serde accepts.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(with = "String")]
enum Hue {
    Red,
    Green,
}

/// A nested value.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(with = "serde_json::Map<String, serde_json::Value>")]
struct Nested {
    #[serde(default)]
    numbers: Vec<i64>,
    name: Option<Name>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    first: String,
}

/// Every type of which the schema accepts more values than serde.
#[tool]
#[expect(clippy::too_many_arguments, reason = "each argument has another type")]
fn strict(
    number: Option<i64>,
    natural: Option<u64>,
    huge: Option<u128>,
    nonzero: Option<NonZeroU32>,
    signed: Option<NonZeroI8>,
    float: Option<f64>,
    character: Option<char>,
    address: Option<IpAddr>,
    even: Option<Even>,
    form: Option<Form>,
    hue: Option<Hue>,
    nested: Option<Nested>,
    pair: Option<(i64, String)>,
) -> String {
    let all = (number, natural, huge, nonzero, signed, float, character, address, even);
    let nested = nested.map(|Nested { numbers, name }| (numbers, name.map(|name| name.first)));
    format!("{all:?} {form:?} {hue:?} {nested:?} {pair:?}")
}

#[derive(Debug, Deserialize, JsonSchema)]
#[expect(dead_code, reason = "it is only printed")]
struct Flat {
    number: i64,
    even: Even,
}

/// A flattened argument.
#[tool]
fn flat(#[arg(flatten)] all: Flat) -> String {
    format!("{all:?}")
}

/// Numbers for a prompt.
#[prompt]
fn numbers(number: i64, huge: Option<u128>, even: Option<Even>) -> String {
    format!("{number} {huge:?} {even:?}")
}

/// A note.
#[resource("notes://note/{id}{?even}")]
fn note(id: i64, even: Option<Even>) -> String {
    format!("{id} {even:?}")
}

fn server() -> Server {
    Server::empty("strict", "1.0.0").with::<strict>().with::<flat>().with::<numbers>().with::<note>()
}

/// Asserts that a message does not contain the words of serde.
fn assert_own_words(message: &Value, context: &dyn std::fmt::Display) {
    let text = message.to_string();
    // Only the text counts that is not an excerpt of the request.
    let found = SERDE.into_iter().find(|words| text.contains(words));
    assert_eq!(found, None, "{context}: {text}");
}

/// Returns every copy of a JSON value in which one of its parts is replaced with ill-typed JSON.
fn mutations(value: &Value) -> Vec<String> {
    let mut all: Vec<String> = ILL_TYPED.map(str::to_owned).into();
    let join = |items: Vec<String>| items.join(",");
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                for mutated in mutations(member) {
                    let write = |(other, value): (&String, &Value)| {
                        let value = if other == name { mutated.clone() } else { value.to_string() };
                        format!("{}:{value}", json!(other))
                    };
                    all.push(format!("{{{}}}", join(members.iter().map(write).collect())));
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                for mutated in mutations(item) {
                    let write = |(other, value): (usize, &Value)| {
                        if other == index { mutated.clone() } else { value.to_string() }
                    };
                    all.push(format!("[{}]", join(items.iter().enumerate().map(write).collect())));
                }
            }
        }
        _ => {}
    }
    all
}

/// Returns a valid request for each method, with every parameter that the method knows.
fn requests() -> Vec<(&'static str, Value)> {
    let call = |name: &str, arguments: Value| {
        let meta = json!({"progressToken": 1, "io.modelcontextprotocol/logLevel": "info",
            "io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"}, "traceparent": "00"});
        (
            "tools/call",
            json!({"name": name, "arguments": arguments, "_meta": meta, "task": {"ttl": 1000},
            "inputResponses": {"confirm": {"action": "accept", "content": {"sure": true}}}, "requestState": "{}"}),
        )
    };
    let reference = |kind: &str, name: &str, value: &str| {
        json!({"ref": {"type": kind, name: value}, "argument": {"name": "id", "value": "1"},
            "context": {"arguments": {"country": "France"}}})
    };
    let arguments = json!({"number": 1, "natural": 1, "huge": 1, "nonzero": 1, "signed": 1, "float": 1,
        "character": "a", "address": "::1", "even": 2, "form": {"number": 1}, "hue": "Red", "pair": [1, "a"],
        "nested": {"numbers": [1], "name": {"first": "Ada"}}});
    vec![
        call("strict", arguments),
        call("flat", json!({"number": 1, "even": 2})),
        call("add", json!({"a": 1, "b": 2})),
        call(
            "constrained",
            json!({"style": "casual", "count": 5, "word": "abc", "tags": ["x"], "point": {"x": 1, "y": 2}}),
        ),
        call("delete", json!({"path": "/a"})),
        ("prompts/get", json!({"name": "numbers", "arguments": {"number": "1", "huge": "1", "even": "2"}})),
        ("prompts/get", json!({"name": "review", "arguments": {"code": "1", "style": "formal", "lines": "3"}})),
        ("resources/read", json!({"uri": "notes://note/1?even=2"})),
        ("resources/read", json!({"uri": "notes://note/1?even=3"})),
        ("resources/read", json!({"uri": "notes://note/9223372036854775808"})),
        ("resources/subscribe", json!({"uri": "test://static"})),
        ("resources/unsubscribe", json!({"uri": "test://static"})),
        ("completion/complete", reference("ref/resource", "uri", "test://item/{id}")),
        ("completion/complete", reference("ref/prompt", "name", "travel")),
        ("logging/setLevel", json!({"level": "info"})),
        ("tools/list", json!({"cursor": "MQ"})),
        ("prompts/list", json!({"cursor": "MQ"})),
        ("resources/list", json!({"cursor": "MQ"})),
        ("resources/templates/list", json!({"cursor": "MQ"})),
        ("tasks/get", json!({"taskId": "x"})),
        ("tasks/list", json!({"cursor": "dGFzazox"})),
        ("tasks/result", json!({"taskId": "x"})),
        ("tasks/cancel", json!({"taskId": "x"})),
        ("tasks/update", json!({"taskId": "x", "inputResponses": {"a": {"action": "accept"}}})),
        ("subscriptions/listen", json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["a"]}})),
        (
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {"listChanged": true}},
            "clientInfo": {"name": "a", "version": "1"}}),
        ),
        ("server/discover", json!({})),
        ("ping", json!({})),
        ("nowhere", json!({})),
    ]
}

/// Returns a request as text, with the members that the revision requires.
fn request(revision: Revision, id: usize, method: &str, params: &str) -> String {
    let meta = format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{revision}","io.modelcontextprotocol/clientCapabilities":{{}}}}"#
    );
    let params = match params.strip_prefix('{').filter(|_| revision.is_stateless()) {
        Some("}") => format!("{{{meta}}}"),
        // The last of two members counts.
        Some(rest) if !rest.contains("_meta") => format!("{{{meta},{rest}"),
        _ => params.to_owned(),
    };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

#[tokio::test]
async fn no_answer_contains_the_words_of_serde() {
    for revision in Revision::ALL {
        for server in [server, mcp_tests::server, crate::asking::server] {
            let mut client = server().test_client(revision);
            let mut sent = 0;
            for (method, params) in requests() {
                for params in mutations(&params) {
                    sent += 1;
                    let line = request(revision, sent, method, &params);
                    let mut lines = client.send_raw(line.as_bytes());
                    if client.in_flight() > 0 {
                        lines.append(&mut client.settle().await);
                    }
                    lines.iter().for_each(|answer| assert_own_words(answer, &line));
                }
            }
            assert!(sent > 1000, "{sent} requests");
        }
    }
}

/// Returns the text of a tool result with `isError`.
fn tool_error(line: &Value) -> &str {
    assert_eq!(line["result"]["isError"], true, "{line}");
    line["result"]["content"][0]["text"].as_str().unwrap()
}

#[tokio::test]
async fn values_that_fit_the_schema_but_not_the_type_are_explained_with_the_name_of_the_argument() {
    let cases = [
        (
            r#"{"number":9223372036854775808}"#,
            "`number`: 9223372036854775808 must be an integer from -9223372036854775808 to 9223372036854775807",
        ),
        (r#"{"number":1e20}"#, "`number`: 100000000000000000000 must be an integer from -9223372036854775808"),
        (
            r#"{"natural":18446744073709551616}"#,
            "`natural`: 18446744073709551616 must be an integer from 0 to 18446744073709551615",
        ),
        (
            r#"{"huge":340282366920938463463374607431768211456}"#,
            "`huge`: 340282366920938463463374607431768211456 is out of range",
        ),
        (r#"{"float":1e999}"#, "`float`: 1e999 is out of range"),
        (r#"{"address":"localhost"}"#, "`address`: \"localhost\" is not accepted: invalid IP address syntax"),
        (r#"{"even":3}"#, "`even`: 3 is not accepted: the number is odd"),
        (r#"{"hue":"Blue"}"#, "`hue`: \"Blue\" must be `Red` or `Green`"),
        (r#"{"nested":{"numbers":[1,true]}}"#, "`nested.numbers[1]`: true must be an integer from"),
        (r#"{"nested":{"name":{}}}"#, "`nested.name`: {} needs the member `first`"),
        (
            r#"{"nested":{"name":{"first":"a","last":"b"}}}"#,
            "`nested.name.last`: \"b\" is not a member, expected `first`",
        ),
        (
            r#"{"nested":{"name":{"first":"a","first":"b"}}}"#,
            "`nested.name`: {\"first\":\"a\",\"first\":\"b\"} has the member `first` twice",
        ),
        (r#"{"pair":[9223372036854775808,"a"]}"#, "`pair[0]`: 9223372036854775808 must be an integer from"),
    ];
    for revision in Revision::ALL {
        let mut client = server().test_client(revision);
        for (arguments, expected) in cases {
            let params = format!(r#"{{"name":"strict","arguments":{arguments}}}"#);
            let lines = client.send_raw(request(revision, 1, "tools/call", &params).as_bytes());
            let text = tool_error(&lines[0]);
            assert!(text.starts_with(&format!("invalid arguments for `strict`:\n- {expected}")), "{revision}: {text}");
        }
        let flat = r#"{"name":"flat","arguments":{"number":9223372036854775808,"even":2}}"#;
        let lines = client.send_raw(request(revision, 1, "tools/call", flat).as_bytes());
        let text = tool_error(&lines[0]);
        assert!(text.contains("- `number`: 9223372036854775808 must be an integer from"), "{text}");
        let prompt = r#"{"name":"numbers","arguments":{"number":"9223372036854775808"}}"#;
        let lines = client.send_raw(request(revision, 1, "prompts/get", prompt).as_bytes());
        let text = lines[0]["error"]["message"].as_str().unwrap();
        assert!(text.contains("- `number`: 9223372036854775808 must be an integer from"), "{text}");
    }
}

#[tokio::test]
async fn variables_of_a_template_that_do_not_fit_name_no_resource() {
    for revision in Revision::ALL {
        let code = mcp_tests::expected(revision).resource_not_found;
        let mut client = server().test_client(revision);
        for uri in ["notes://note/x", "notes://note/9223372036854775808", "notes://note/1?even=3", "notes://note/1.5"] {
            let error = client.read(uri).await.unwrap_err();
            assert_eq!((error.code, error.message), (code, format!("resource not found: {uri}")));
            assert_eq!(error.data, Some(json!({"uri": uri})));
        }
        assert_eq!(client.read("notes://note/1?even=2").await.unwrap()[0]["text"], "1 Some(Even(2))");
    }
}

/// Read a file that a client may not know.
#[resource("files:///{name}")]
fn file(name: &str) -> io::Result<&'static str> {
    match name {
        "a" => Ok("found"),
        "b" => Err(io::ErrorKind::NotFound.into()),
        _ => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

#[tokio::test]
async fn files_that_do_not_exist_are_no_resources() {
    for revision in Revision::ALL {
        let not_found = mcp_tests::expected(revision).resource_not_found;
        let mut client = Server::empty("files", "1.0.0").with::<file>().test_client(revision);
        for (uri, expected) in [("files:///a", None), ("files:///b", Some(not_found)), ("files:///c", Some(-32603))] {
            assert_eq!(client.read(uri).await.err().map(|error| error.code), expected, "{revision} {uri}");
        }
    }
}

/// Describe a parcel.
#[prompt]
fn parcel(size: u8, weight: u8, count: Option<u8>, title: Option<String>) -> String {
    format!("{size} {weight} {count:?} {title:?}")
}

/// Describe a letter.
#[prompt]
fn letter(pages: Option<u8>) -> String {
    format!("{pages:?}")
}

/// As forms send them.
#[tokio::test]
async fn empty_strings_are_absent_unless_the_argument_is_text_or_required() {
    let server = Server::empty("parcels", "1.0.0").with::<parcel>().with::<letter>();
    let mut client = server.test_client(Revision::V2025_11_25);
    let arguments = json!({"size": "5", "weight": "1", "count": "", "title": ""});
    assert_eq!(client.prompt("parcel", arguments).await.unwrap().text(), r#"5 1 None Some("")"#);
    assert_eq!(client.prompt("letter", json!({"pages": ""})).await.unwrap().text(), "None");
    let error = client.prompt("parcel", json!({"size": "", "weight": "1"})).await.unwrap_err();
    assert!(error.message.contains(r#"`size`: "" must be an integer"#), "{error}");
}

/// An argument without values is completed, but one that does not exist is an error.
#[tokio::test]
async fn unknown_arguments_cannot_be_completed() {
    let prompt = |name: &str| json!({"type": "ref/prompt", "name": name});
    let template = |uri: &str| json!({"type": "ref/resource", "uri": uri});
    for revision in Revision::ALL {
        let mut client = mcp_tests::server().test_client(revision);
        for (reference, name, expected) in [
            (prompt("travel"), "colour", "invalid params: `travel` has no argument `colour`"),
            (prompt("conversation"), "x", "invalid params: `conversation` has no argument `x`"),
            (template("test://item/{id}"), "words", "invalid params: `test://item/{id}` has no argument `words`"),
            (prompt("nothing"), "x", "unknown prompt: nothing"),
            (template("test://nowhere/{x}"), "x", "invalid params: unknown resource template: test://nowhere/{x}"),
        ] {
            let params = json!({"ref": reference, "argument": {"name": name, "value": ""}});
            let error = client.request("completion/complete", params).await.unwrap_err();
            assert_eq!((error.code, &*error.message), (-32602, expected), "{revision}");
        }
    }
}

/// The arguments that the user has already filled in are an object of strings.
#[tokio::test]
async fn the_context_of_a_completion_is_checked() {
    let reference = json!({"type": "ref/resource", "uri": "test://item/{id}"});
    for revision in Revision::ALL {
        let mut client = mcp_tests::server().test_client(revision);
        for (context, expected) in [
            (json!(null), None),
            (json!({}), None),
            (json!({"arguments": null}), None),
            (json!({"arguments": {"a": "x"}}), None),
            (json!(7), Some("invalid params: `context` must be an object")),
            (json!({"arguments": 7}), Some("invalid params: `context.arguments` must be an object")),
            (json!({"arguments": ["a"]}), Some("invalid params: `context.arguments` must be an object")),
            (json!({"arguments": {"a": 7}}), Some("invalid params: `context.arguments.a` must be a string")),
        ] {
            let params = json!({"ref": reference, "argument": {"name": "id", "value": ""}, "context": context});
            let error = client.request("completion/complete", params).await.err();
            assert_eq!(error.as_ref().map(|error| &*error.message), expected, "{revision}: {context}");
        }
    }
}

/// The maximum size of an error that contains an excerpt of its request.
const MAX_ERROR_BYTES: usize = 4096;

#[tokio::test]
async fn errors_repeat_only_excerpts_of_the_request() {
    let long = "x".repeat(1 << 16);
    let nested = (0..60).fold(json!(true), |inner, _| json!({ (&long[..300]): [inner] }));
    for revision in Revision::ALL {
        let reference =
            |kind: &str, name: &str| json!({"ref": {"type": kind, name: long}, "argument": {"name": "x", "value": ""}});
        let call = |arguments: Value| json!({"name": "strict", "arguments": arguments});
        for (method, params) in [
            (&*long, json!({})),
            ("tools/call", json!({"name": long})),
            ("tools/call", json!({"name": "strict", "arguments": long})),
            ("tools/call", json!({"name": "strict", "arguments": {(&*long): 1}})),
            ("tools/call", call(json!({"hue": long}))),
            ("tools/call", call(json!({"address": long}))),
            ("tools/call", call(json!({"nested": {"name": {"first": "a", (&*long): 1}}}))),
            ("tools/call", call(json!({"nested": {(&*long): 1, "numbers": nested}}))),
            ("tools/call", json!({"name": "flat", "arguments": {"number": long, "even": 1}})),
            ("prompts/get", json!({"name": long})),
            ("prompts/get", json!({"name": "numbers", "arguments": {(&*long): 1}})),
            ("prompts/get", json!({"name": "numbers", "arguments": {"number": [long]}})),
            ("prompts/get", json!({"name": "numbers", "arguments": {"number": long}})),
            ("resources/read", json!({"uri": long})),
            ("resources/read", json!({"uri": format!("notes://note/{long}")})),
            ("resources/subscribe", json!({"uri": long})),
            ("completion/complete", reference("ref/prompt", "name")),
            ("completion/complete", reference("ref/resource", "uri")),
            ("completion/complete", reference(&long, "name")),
            ("logging/setLevel", json!({"level": long})),
            ("tools/list", json!({"cursor": long})),
            ("resources/list", json!({"cursor": long})),
            ("tasks/get", json!({"taskId": long})),
            ("subscriptions/listen", json!({"notifications": {(&*long): true, "toolsListChanged": long}})),
        ] {
            let mut client = server().test_client(revision);
            client.send_request(method, params);
            for line in client.settle().await {
                let size = line.to_string().len();
                assert!(size < MAX_ERROR_BYTES, "{revision} {method:.40}: {size} bytes: {:.4096}", line.to_string());
            }
        }
    }
}

#[tokio::test]
async fn ids_and_progress_tokens_have_a_maximum_size() {
    const LIMIT: usize = 1024;
    let mut client = TestClient::uninitialized(mcp_tests::server(), Revision::V2025_11_25);
    let ping = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let text = |length: usize| format!("\"{}\"", "i".repeat(length - 2));
    let lines = client.send_raw(ping(&text(LIMIT)).as_bytes());
    assert_eq!(lines[0]["result"], json!({}));
    for id in [text(LIMIT + 1), "9".repeat(LIMIT + 1)] {
        let lines = client.send_raw(ping(&id).as_bytes());
        let error = json!({"code": -32600, "message": "invalid request: `id` must have at most 1024 bytes"});
        assert_eq!(lines, [json!({"jsonrpc": "2.0", "error": error})]);
    }
    for revision in Revision::ALL {
        let mut client = mcp_tests::server().test_client(revision);
        for (length, is_accepted) in [(LIMIT, true), (LIMIT + 1, false)] {
            let token = "t".repeat(length - 2);
            client.send_request("tools/call", json!({"name": "progress", "_meta": {"progressToken": token}}));
            let lines = client.settle().await;
            let last = lines.last().unwrap();
            if is_accepted {
                assert_eq!(lines[0]["params"]["progressToken"], token, "{revision}");
                assert_eq!(last["result"]["content"][0]["text"], "done");
            } else {
                assert_eq!(last["error"]["code"], -32602, "{revision}: {last:.300}");
                let message = "invalid params: `_meta.progressToken` must have at most 1024 bytes";
                assert_eq!(last["error"]["message"], message);
            }
        }
        // Values that are no tokens ask for nothing.
        for token in [json!(null), json!(true), json!([1]), json!({"a": 1})] {
            client.send_request("tools/call", json!({"name": "progress", "_meta": {"progressToken": token}}));
            let lines = client.settle().await;
            assert_eq!(lines.len(), 1, "{revision}: {lines:?}");
            assert_eq!(lines[0]["result"]["content"][0]["text"], "done", "{revision}");
        }
    }
}
