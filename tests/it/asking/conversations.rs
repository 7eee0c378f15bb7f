//! Conversations with scripted clients of every revision, compared with golden files.

use mcp_runtime::{Revision, testing::TestClient};
use mcp_tests::{golden::GoldenFiles, messages, schemas::Official};
use serde_json::{Value, json};

use super::server;

/// A call, and the client's answers in the order of the questions.
struct Case {
    name: &'static str,
    method: &'static str,
    params: Value,
    /// The capabilities that the client declares.
    capabilities: Value,
    answers: Vec<Value>,
}

fn cases() -> Vec<Case> {
    let all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}});
    let tool = |name: &'static str, tool: &str, arguments: Value, answers: &[Value]| Case {
        name,
        method: "tools/call",
        params: json!({"name": tool, "arguments": arguments}),
        capabilities: all.clone(),
        answers: answers.to_vec(),
    };
    let accept = |content: Value| json!({"action": "accept", "content": content});
    let path = json!({"path": "/a"});
    let pizza = json!({"name": "Ada", "email": "ada@example.com", "size": "l", "toppings": ["basil"]});
    // Revisions without multiple choice ask for each choice separately.
    let older_pizza =
        json!({"name": "Ada", "email": "ada@example.com", "count": 1, "size": "l", "toppings.basil": true});
    let mut both = older_pizza.clone();
    both["toppings"] = pizza["toppings"].clone();
    let sampled = json!({
        "role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "test-model", "stopReason": "endTurn"
    });
    let directories = json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]});
    let declaring = |mut case: Case, capabilities: Value| {
        case.capabilities = capabilities;
        case
    };
    vec![
        tool("accepted", "delete", path.clone(), &[accept(json!({"sure": true}))]),
        tool("accepted_but_not_sure", "delete", path.clone(), &[accept(json!({"sure": false}))]),
        tool("declined", "delete", path.clone(), &[json!({"action": "decline"})]),
        tool("cancelled_by_the_user", "delete", path.clone(), &[json!({"action": "cancel"})]),
        tool(
            "invalid_answer",
            "delete",
            path.clone(),
            &[accept(json!({"sure": "yes"})), accept(json!({"sure": true}))],
        ),
        tool("step_by_step", "order", json!({}), &[accept(both.clone()), accept(json!({"sure": true}))]),
        tool("step_by_step_and_declined", "order", json!({}), &[accept(both.clone()), json!({"action": "decline"})]),
        tool("sampled", "sample", json!({}), std::slice::from_ref(&sampled)),
        tool("roots", "roots", json!({}), std::slice::from_ref(&directories)),
        tool("url_mode", "log_in", json!({}), &[json!({"action": "accept"})]),
        tool("several_at_once", "everything", json!({}), &[accept(json!({"name": "Ada"})), sampled, directories]),
        tool(
            "two_questions_under_one_key",
            "same_key",
            json!({}),
            &[accept(json!({"sure": true})), accept(json!({"sure": false}))],
        ),
        Case {
            name: "for_a_prompt",
            method: "prompts/get",
            params: json!({"name": "review"}),
            capabilities: all.clone(),
            answers: vec![accept(json!({"name": "Ada"}))],
        },
        Case {
            name: "for_a_resource",
            method: "resources/read",
            params: json!({"uri": "vault://pin"}),
            capabilities: all.clone(),
            answers: vec![accept(json!({"sure": true}))],
        },
        declaring(tool("no_elicitation", "delete", path.clone(), &[]), json!({})),
        declaring(tool("form_mode_only", "delete", path, &[accept(json!({"sure": true}))]), json!({"elicitation": {}})),
        declaring(tool("url_mode_only", "delete", json!({"path": "/a"}), &[]), json!({"elicitation": {"url": {}}})),
        declaring(tool("no_url_mode", "log_in", json!({}), &[]), json!({"elicitation": {"form": {}}})),
        declaring(tool("no_sampling", "sample", json!({}), &[]), json!({"elicitation": {}})),
        declaring(tool("no_roots", "roots", json!({}), &[]), json!({"elicitation": {}})),
    ]
}

#[tokio::test]
async fn conversations_match_the_golden_files() {
    let mut problems = Vec::new();
    for revision in Revision::ALL {
        let official = Official::load(revision);
        let mut golden = GoldenFiles::open("conversations", revision);
        for case in cases() {
            let (name, method) = (case.name, case.method);
            let transcript = converse(case, revision).await;
            for message in transcript.iter().filter_map(|line| line.get("server")) {
                let found = official.map(|official| official.problems(message, Some(method)));
                let found = found.into_iter().flatten().chain(messages::problems(message, revision, Some(method)));
                found.for_each(|problem| golden.report(name, &problem));
            }
            golden.check(name, &masked(Value::Array(transcript)));
        }
        problems.extend(golden.finish());
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Replaces values that differ in every run.
fn masked(mut transcript: Value) -> Value {
    let messages = transcript.as_array_mut().into_iter().flatten().flat_map(|line| line.as_object_mut()).flatten();
    for (_, message) in messages {
        for state in ["/result/requestState", "/params/requestState"] {
            if let Some(state) = message.pointer_mut(state) {
                *state = json!("(opaque)");
            }
        }
        if let Some(id) = message.pointer_mut("/params/elicitationId") {
            *id = json!("(unique)");
        }
    }
    transcript
}

/// Runs a case and returns the messages of both sides.
async fn converse(case: Case, revision: Revision) -> Vec<Value> {
    let Case { method, params, capabilities, mut answers, .. } = case;
    let stateless = revision.is_stateless();
    let mut client = TestClient::uninitialized(server(), revision);
    if !stateless {
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": capabilities,
            "clientInfo": {"name": "scripted", "version": "1.0.0"}});
        client.send_raw(message(0, "initialize", params).to_string().as_bytes());
        client.notify("notifications/initialized", json!({}));
    }
    let request = |id: u64, mut params: Value| {
        if stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": revision.as_str(),
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            });
        }
        message(id, method, params)
    };
    let mut transcript = Vec::new();
    let mut to_send = vec![request(1, params.clone())];
    let mut calls = 1;
    loop {
        let mut lines = Vec::new();
        for message in to_send.drain(..) {
            lines.extend(client.send_raw(message.to_string().as_bytes()));
            transcript.push(json!({"client": message}));
        }
        if lines.is_empty() {
            lines = client.next_lines().await;
        }
        for line in lines {
            transcript.push(json!({"server": line}));
            if line.get("method").is_some() && line.get("id").is_some() {
                to_send.push(json!({"jsonrpc": "2.0", "id": line["id"], "result": next(&mut answers)}));
            } else if line["result"]["resultType"] == "input_required" {
                let asked = line["result"]["inputRequests"].as_object().unwrap();
                let mut again = params.clone();
                again["inputResponses"] = answer_round(asked, &mut answers);
                again["requestState"] = line["result"]["requestState"].clone();
                calls += 1;
                to_send.push(request(calls, again));
            }
        }
        if to_send.is_empty() && client.in_flight() == 0 {
            return transcript;
        }
    }
}

/// Answers all questions of a round. The order of an object's members is not significant, so the methods decide which
/// question receives which answer.
fn answer_round(asked: &serde_json::Map<String, Value>, answers: &mut Vec<Value>) -> Value {
    let mut keys: Vec<_> = asked.keys().collect();
    let rank = |key: &str| {
        ["elicitation/create", "sampling/createMessage", "roots/list"]
            .iter()
            .position(|method| asked[key]["method"] == **method)
    };
    keys.sort_by_key(|key| rank(key));
    keys.into_iter().map(|key| (key.clone(), next(answers))).collect::<serde_json::Map<_, _>>().into()
}

fn next(answers: &mut Vec<Value>) -> Value {
    assert!(!answers.is_empty(), "the server asked more questions than the case has answers");
    answers.remove(0)
}

fn message(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}
