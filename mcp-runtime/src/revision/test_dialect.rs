//! An invented revision that uses every member of a dialect, so that the members that no published revision uses are
//! tested. It exists only in unit tests, where it is the newest revision.

use std::time::Instant;

use serde_json::{Value, json};

use super::{
    dialect::{Dialect, ErrorCodes, Method},
    table::{Feature, Revision},
    v2026_07_28::DIALECT as PREVIOUS,
};
use crate::{
    Context, Level, Server,
    engine::{Connection, RequestIds},
    error::Fault,
    handler::entry::MethodEntry,
    jsonrpc::write,
    testing::TestClient,
};

pub(super) const DIALECT: Dialect = Dialect {
    revision: Revision::VTest,
    features: PREVIOUS.features.without(&[Feature::RichForms]).and(&[Feature::Batching, Feature::LogLevel]),
    codes: ErrorCodes { method_not_found: -32099, ..PREVIOUS.codes },
    lists: &["tools", "resources"],
    methods: &[Method {
        name: "test/echo",
        respond: |params, result| {
            result.raw("params", params.ok_or_else(|| Fault::invalid_params("`params` is missing"))?.text().as_bytes());
            Ok(())
        },
    }],
    result_members: &[("servedBy", |out, _, server| write::string(out, &server.name))],
    meta_members: &[("metaMember", |out, _, _| out.extend_from_slice(b"[2]"))],
};

/// Log a line.
#[crate::tool(read_only)]
fn log_line(ctx: &Context) {
    ctx.info("a line");
}

#[derive(crate::Elicit)]
struct Confirm {
    sure: bool,
}

/// Ask for consent in the chat.
#[crate::prompt]
fn consent() -> &'static str {
    "Do you agree?"
}

/// Ask for consent.
#[crate::tool]
async fn ask(ctx: &Context) -> Result<bool, Fault> {
    Ok(ctx.elicit::<Confirm>("confirm", "Sure?").await?.accepted().is_some_and(|form| form.sure))
}

fn server() -> Server {
    let server = Server::empty("test", "1.0.0").with::<log_line>().with::<consent>();
    let _announces_changes = server.handle();
    server
}

fn client(revision: Revision) -> TestClient {
    server().test_client(revision)
}

/// Returns the acknowledgement and the result of a `subscriptions/listen` request that the server has ended.
fn ended_listener(revision: Revision) -> [Value; 2] {
    let mut connection = Connection::new(server().build().unwrap().engine().clone());
    let params = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true}, "_meta": meta(revision.as_str())});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}).to_string();
    let mut out = Vec::new();
    connection.receive(request.as_bytes(), Instant::now(), &mut RequestIds::default(), &mut out);
    connection.in_flight().end_listeners();
    connection.outbox().drain(&mut out);
    let lines: Vec<Value> = serde_json::Deserializer::from_slice(&out).into_iter().map(Result::unwrap).collect();
    [lines[0]["params"]["notifications"].clone(), lines[1]["result"].clone()]
}

fn meta(version: &str) -> Value {
    json!({"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {}})
}

fn discover(id: u32, version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "server/discover", "params": {"_meta": meta(version)}})
}

#[tokio::test]
async fn every_result_has_the_members_of_its_dialect() {
    for revision in [Revision::V2026_07_28, Revision::VTest] {
        let mut client = client(revision);
        let results = [
            client.request("server/discover", json!({})).await.unwrap(),
            client.request("tools/list", json!({})).await.unwrap(),
            client.request("tools/call", json!({"name": "log_line"})).await.unwrap(),
            ended_listener(revision)[1].clone(),
        ];
        let expected =
            if revision == Revision::VTest { (json!("test"), json!([2])) } else { (Value::Null, Value::Null) };
        for result in results {
            assert_eq!(result["resultType"], "complete");
            let has_server_info = result["_meta"]["io.modelcontextprotocol/serverInfo"].is_object();
            assert_eq!(has_server_info, revision != Revision::VTest, "{result}");
            assert_eq!((result["servedBy"].clone(), result["_meta"]["metaMember"].clone()), expected, "{result}");
        }
    }
}

/// Parsing would hide a member that occurs twice.
#[tokio::test]
async fn methods_of_authors_do_not_repeat_members_of_their_dialect() {
    let respond = async |_: Value, _: Context| Ok::<_, Fault>(json!({"servedBy": "a", "_meta": {"metaMember": "b"}}));
    let method = MethodEntry::new("example.com/method", json!({"type": "object"}), respond);
    let server = Server::empty("test", "1.0.0").with_entry(method).build().unwrap();
    let mut connection = Connection::new(server.engine().clone());
    let params = json!({"_meta": meta("9999-12-31")});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "example.com/method", "params": params}).to_string();
    let mut out = Vec::new();
    connection.receive(request.as_bytes(), Instant::now(), &mut RequestIds::default(), &mut out);
    connection.outbox().drain(&mut out);
    let response = String::from_utf8(out).unwrap();
    for (name, member) in [("servedBy", r#""servedBy":"test""#), ("metaMember", r#""metaMember":[2]"#)] {
        assert_eq!((response.matches(name).count(), response.contains(member)), (1, true), "{response}");
    }
}

#[tokio::test]
async fn a_method_and_an_error_code_exist_only_in_their_dialect() {
    let result = client(Revision::VTest).request("test/echo", json!({"a": 1})).await.unwrap();
    assert_eq!((&result["params"]["a"], &result["servedBy"]), (&json!(1), &json!("test")));
    for (revision, method, code) in [
        (Revision::VTest, "test/other", -32099),
        (Revision::V2026_07_28, "test/echo", -32601),
        (Revision::V2025_11_25, "test/echo", -32601),
    ] {
        let error = client(revision).request(method, json!({})).await.unwrap_err();
        assert_eq!(error.code, code, "{method} in {revision}");
    }
    for (method, is_known) in [("test/echo", true), ("test/other", false)] {
        assert_eq!(super::method_name(method), is_known.then_some(method), "{method} in telemetry");
    }
}

#[tokio::test]
async fn changes_are_announced_only_to_lists_that_the_dialect_has() {
    for (revision, acknowledged) in [
        (Revision::V2026_07_28, json!({"toolsListChanged": true, "promptsListChanged": true})),
        (Revision::VTest, json!({"toolsListChanged": true})),
    ] {
        let discovered = client(revision).request("server/discover", json!({})).await.unwrap();
        let is_announced = !discovered["capabilities"]["prompts"]["listChanged"].is_null();
        let expected = (acknowledged["promptsListChanged"].is_boolean(), acknowledged);
        assert_eq!((is_announced, ended_listener(revision)[0].clone()), expected, "{revision}");
    }
}

#[tokio::test]
async fn batches_are_accepted_only_in_the_dialects_that_have_them() {
    for (versions, is_accepted) in [
        (["9999-12-31", "9999-12-31"], true),
        (["2026-07-28", "2026-07-28"], false),
        (["9999-12-31", "2026-07-28"], false),
        (["9999-12-31", "2000-01-01"], true),
        // A request without a version is of a revision with sessions.
        (["9999-12-31", ""], false),
    ] {
        let mut batch = json!([discover(1, versions[0]), discover(2, versions[1])]);
        if versions[1].is_empty() {
            batch[1] = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
        }
        let batch = batch.to_string();
        let responses = client(Revision::VTest).send_raw(batch.as_bytes());
        if is_accepted {
            assert_eq!(responses[0].as_array().unwrap().len(), 2, "{versions:?}");
        } else {
            let message = "invalid request: protocol version 2026-07-28 does not support batches";
            assert_eq!(responses[0]["error"]["message"], message, "{versions:?}");
        }
    }
}

#[tokio::test]
async fn a_stateless_connection_has_a_log_level_in_dialects_that_set_it() {
    let log = async |client: &mut TestClient| {
        client.call("log_line", json!({})).await.unwrap();
        client.log_messages().len()
    };
    for (level, expected) in [(Level::Info, 1), (Level::Error, 0)] {
        let mut client = client(Revision::VTest);
        client.request("logging/setLevel", json!({"level": level.as_str()})).await.unwrap();
        assert_eq!(log(&mut client).await, expected, "{level}");
        let discovered = client.request("server/discover", json!({})).await.unwrap();
        assert!(discovered["capabilities"]["logging"].is_object());
    }
    let mut client = client(Revision::V2026_07_28);
    client.request("logging/setLevel", json!({"level": "info"})).await.unwrap_err();
    assert_eq!(log(&mut client).await, 0);
}

#[tokio::test]
async fn forms_are_encoded_as_the_dialect_has_them() {
    for (revision, is_rich) in [(Revision::V2026_07_28, true), (Revision::VTest, false)] {
        let server = Server::empty("test", "1.0.0").with::<ask>();
        let mut client = server.test_client(revision).answering(move |request| {
            assert_eq!(request.params.get("mode").is_some(), is_rich, "{request:?}");
            json!({"action": "accept", "content": {"sure": true}})
        });
        assert_eq!(client.call("ask", json!({})).await.unwrap().text(), "true");
    }
}
