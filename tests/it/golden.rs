//! Every method in every revision: the responses are compared with golden files.
//!
//! [`UPDATE`](mcp_tests::golden::UPDATE) is the command that writes the files. Every message is also validated against
//! the official schema of the revision, if that is available.

use std::fs;

use mcp_runtime::{Content, Revision, Server, ToolResult, testing::TestClient, tool};
use mcp_tests::{golden::GoldenFiles, messages, schemas::Official, server};
use serde_json::{Value, json};

/// The member of `_meta` that makes a request stateless.
const STATELESS: &str = "io.modelcontextprotocol/protocolVersion";

const REQUESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/requests.json");

#[tokio::test]
async fn responses_match_the_golden_files() {
    let cases: Vec<Value> = serde_json::from_str(&fs::read_to_string(REQUESTS).unwrap()).unwrap();
    let mut problems = Vec::new();
    for revision in Revision::ALL {
        let official = Official::load(revision);
        // A stateless server also answers `initialize`, in the newest revision that has it.
        let by_handshake = |handshake: &Revision| *handshake <= revision && !handshake.is_stateless();
        let handshake_revision = Revision::ALL.into_iter().rfind(by_handshake).unwrap();
        let handshake = Official::load(handshake_revision);
        let mut golden = GoldenFiles::open("", revision);
        for case in &cases {
            let name = case["case"].as_str().unwrap();
            let lines = play(case, revision).await;
            for line in &lines {
                let method = case["method"].as_str();
                let (official, revision) =
                    if case["handshake"] == true { (handshake, handshake_revision) } else { (official, revision) };
                let mut found = official.map(|official| official.problems(line, method)).unwrap_or_default();
                // The server answers requests of the stateless revision in every session.
                if !case["lines"].to_string().contains(STATELESS) {
                    found.extend(messages::problems(line, revision, method));
                }
                found.iter().for_each(|problem| golden.report(name, problem));
            }
            golden.check(name, &Value::Array(lines));
        }
        problems.extend(golden.finish());
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Every schema is valid JSON Schema 2020-12, and every structured result matches the schema of its tool.
#[tokio::test]
async fn structured_results_match_their_schemas() {
    let called = [("person", json!({})), ("people", json!({})), ("maybe_person", json!({"found": true}))];
    for revision in Revision::ALL {
        let mut client = server().test_client(revision);
        let tools = client.tools().await.unwrap();
        for schema in tools.iter().flat_map(|tool| [tool.0.get("inputSchema"), tool.0.get("outputSchema")]).flatten() {
            assert!(schema.is_object() && jsonschema::draft202012::meta::is_valid(schema), "{revision}: {schema}");
        }
        for (name, arguments) in &called {
            let schema = tools.iter().find(|tool| tool["name"] == *name).unwrap().0.get("outputSchema");
            let result = client.call(name, arguments).await.unwrap();
            let is_valid =
                schema.map(|schema| jsonschema::is_valid(schema, result.structured().unwrap_or(&Value::Null)));
            assert_eq!(
                is_valid,
                mcp_tests::expected(revision).structured_content.then_some(true),
                "{revision} {name}: {result:?}"
            );
        }
    }
}

/// Plays a case with a new server: either a method with parameters, or lines. A line is raw text, or a message in the
/// form of the revision.
async fn play(case: &Value, revision: Revision) -> Vec<Value> {
    let mut client = if case["uninitialized"] == true {
        TestClient::uninitialized(server(), revision)
    } else {
        server().test_client(revision)
    };
    if let Some(method) = case["method"].as_str() {
        client.send_request(method, case["params"].clone());
        return client.settle().await;
    }
    let mut lines = Vec::new();
    for line in case["lines"].as_array().unwrap() {
        let line = match line.as_str() {
            Some(text) => text.replace("REVISION", revision.as_str()),
            None => in_form_of(revision, line.clone()).to_string(),
        };
        lines.append(&mut client.send_raw(line.as_bytes()));
    }
    lines.append(&mut client.settle().await);
    lines
}

/// Adds the members that requests of a revision must have, to a request or to each request of a batch.
fn in_form_of(revision: Revision, mut request: Value) -> Value {
    if let Value::Array(batch) = request {
        return batch.into_iter().map(|request| in_form_of(revision, request)).collect();
    }
    if revision.is_stateless() {
        request["params"]["_meta"] =
            json!({STATELESS: revision.as_str(), "io.modelcontextprotocol/clientCapabilities": {}});
    }
    request
}

/// Return a result with this structured value and these texts.
#[tool]
fn chosen(value: Value, texts: Vec<String>) -> ToolResult {
    ToolResult::new(texts.into_iter().map(Content::text)).with_structured(value)
}

/// Return a picture and a structured result.
#[tool]
fn pictured() -> ToolResult {
    ToolResult::new([mcp_runtime::Image::png([1])]).with_structured(json!({"n": 1}))
}

/// Where objects are required, other values are wrapped, whether or not the result has other content.
#[tokio::test]
async fn structured_values_are_objects_where_the_revision_requires_it() {
    for revision in Revision::ALL {
        let mut client = Server::empty("results", "1.0.0").with::<chosen>().test_client(revision);
        for value in [json!({}), json!({"result": [1]}), json!([1]), json!([]), json!("x"), json!(7), json!(true)] {
            for texts in [&[] as &[&str], &["a"], &["a", "b"]] {
                let result = client.call("chosen", json!({"value": value, "texts": texts})).await.unwrap();
                let expected = match revision {
                    Revision::V2024_11_05 | Revision::V2025_03_26 => None,
                    Revision::V2025_06_18 | Revision::V2025_11_25 if !value.is_object() => {
                        Some(json!({ "result": value }))
                    }
                    _ => Some(value.clone()),
                };
                assert_eq!(result.structured(), expected.as_ref(), "{revision} {value} {texts:?}");
                let text = if texts.is_empty() { value.to_string() } else { texts.join("\n") };
                assert_eq!(result.text(), text, "{revision} {value} {texts:?}");
            }
        }
        // Other content is no substitute for the text.
        let server = Server::empty("results", "1.0.0").with::<pictured>();
        let result = server.test_client(revision).call("pictured", ()).await.unwrap();
        let types: Vec<_> = result["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
        assert_eq!(
            (result.text().as_str(), types),
            (r#"{"n":1}"#, vec![&json!("text"), &json!("image")]),
            "{revision}"
        );
    }
}
