//! Everything that a client can do wrong.

use super::*;

const UNKNOWN: &str = "invalid params: there is no such task, or no longer";

/// Requests in either revision, and the code and the words of the answer.
#[tokio::test]
async fn mistakes_are_answered() {
    for (revision, method, params, code, words) in [
        (11, "tasks/get", json!({"taskId": "unknown"}), -32602, UNKNOWN),
        (11, "tasks/result", json!({"taskId": "unknown"}), -32602, UNKNOWN),
        (11, "tasks/cancel", json!({"taskId": "unknown"}), -32602, UNKNOWN),
        (11, "tasks/get", json!({"taskId": ""}), -32602, UNKNOWN),
        (11, "tasks/get", json!({}), -32602, "invalid params: `taskId` is missing"),
        (11, "tasks/result", json!({"taskId": 7}), -32602, "invalid params: `taskId` must be a string"),
        (
            11,
            "tasks/list",
            json!({"cursor": "nonsense"}),
            -32602,
            "invalid params: `cursor` is none that this list gave: \"nonsense\"",
        ),
        (11, "tasks/list", json!({"cursor": 7}), -32602, "invalid params: `cursor` must be a string"),
        (
            11,
            "tasks/update",
            json!({"taskId": "unknown", "inputResponses": {}}),
            -32601,
            "method not found: tasks/update",
        ),
        (
            11,
            "tools/call",
            json!({"name": "greet", "arguments": {"name": "x"}, "task": {}}),
            -32601,
            "method not found: tools/call of `greet` as a task",
        ),
        (
            11,
            "tools/call",
            json!({"name": "failing_job"}),
            -32601,
            "method not found: tools/call of `failing_job` other than as a task",
        ),
        (11, "tools/call", json!({"name": "work", "task": 7}), -32602, "invalid params: `task` must be an object"),
        (
            11,
            "tools/call",
            json!({"name": "work", "task": {"ttl": 0}}),
            -32602,
            "invalid params: `task.ttl` must be a whole number of milliseconds above 0",
        ),
        (
            11,
            "tools/call",
            json!({"name": "work", "task": {"ttl": -1}}),
            -32602,
            "invalid params: `task.ttl` must be a whole number of milliseconds above 0",
        ),
        (
            11,
            "tools/call",
            json!({"name": "work", "task": {"ttl": "1"}}),
            -32602,
            "invalid params: `task.ttl` must be a whole number of milliseconds above 0",
        ),
        (11, "tools/call", json!({"name": "unknown", "task": {}}), -32602, "unknown tool: unknown"),
        (7, "tasks/get", json!({"taskId": "unknown"}), -32602, UNKNOWN),
        (7, "tasks/update", json!({"taskId": "unknown", "inputResponses": {}}), -32602, UNKNOWN),
        (7, "tasks/cancel", json!({"taskId": "unknown"}), -32602, UNKNOWN),
        (7, "tasks/get", json!({}), -32602, "invalid params: `taskId` is missing"),
        (7, "tasks/update", json!({"taskId": "unknown"}), -32602, "invalid params: `inputResponses` is missing"),
        (
            7,
            "tasks/update",
            json!({"taskId": "unknown", "inputResponses": [1]}),
            -32602,
            "invalid params: `inputResponses` must be an object",
        ),
        (6, "tasks/get", json!({"taskId": "unknown"}), -32601, "method not found: tasks/get"),
        (6, "tasks/list", json!({}), -32601, "method not found: tasks/list"),
    ] {
        let revision = match revision {
            11 => Revision::V2025_11_25,
            7 => Revision::V2026_07_28,
            _ => Revision::V2025_06_18,
        };
        let mut client = Talk::to(server(&Arc::default()), revision);
        let error = client.ask(method, params.clone()).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, words), "{revision}: {method} {params}");
    }
}

/// A client that has not declared the extension learns that before anything else.
#[tokio::test]
async fn the_extension_has_to_be_declared() {
    let needed = json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}});
    for declared in
        [json!({}), json!({"extensions": {}}), json!({"extensions": {EXTENSION: true}}), json!({"tasks": {}})]
    {
        let mut client = Talk::plain(server(&Arc::default()));
        client.capabilities = declared.clone();
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            for params in [json!({"taskId": "gate-test"}), json!({})] {
                let error = client.ask(method, params).await.unwrap_err();
                assert_eq!((error.code, error.data), (-32021, Some(needed.clone())), "{declared}: {method}");
            }
        }
    }
}

/// A server without tasks knows none of it.
#[tokio::test]
async fn nothing_is_known_of_tasks_where_there_are_none() {
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let mut client = Talk::to(Server::empty("none", "1").with::<greet>(), revision);
        for method in ["tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update"] {
            assert_eq!(client.about(method, "x").await.unwrap_err().code, -32601, "{revision}: {method}");
        }
        let result = client.call("greet", json!({"name": "World"})).await.unwrap();
        assert_eq!(text(&result), "Hello, World!", "{revision}");
    }
}

#[tokio::test]
async fn too_many_tasks_are_refused() {
    for (revision, in_all, of_one) in
        [(Revision::V2025_11_25, 9, 2), (Revision::V2025_11_25, 2, 9), (Revision::V2026_07_28, 2, 1)]
    {
        let gate = Arc::default();
        let mut client = Talk::to(server(&gate).max_tasks(in_all, of_one), revision);
        for _ in 0..2 {
            client.begin("work", json!({"label": "it"})).await;
        }
        let refused = client.call("failing_job", json!({})).await.unwrap_err();
        assert_eq!(refused.code, -32603, "{revision}");
        assert!(refused.message.starts_with("there are too many tasks: at most"), "{refused}");
        if revision == Revision::V2025_11_25 {
            let refused = client.call("work", json!({"label": "it"})).await.unwrap_err();
            assert_eq!(refused.code, -32603, "it was asked for as a task");
        }
    }
}

/// What need not be a task is a call where no more tasks can be kept, and a task again when one has ended.
#[tokio::test]
async fn without_room_a_call_stays_a_call() {
    let gate = Arc::<Gate>::default();
    let mut client = Talk::to(server(&gate).max_tasks(1, 1), Revision::V2026_07_28);
    let id = client.begin("confirm_delete", json!({"filename": "a"})).await;
    gate.open();
    assert_eq!(text(&client.call("work", json!({"label": "it"})).await.unwrap()), "it is done");
    let asked = client.call("confirm_delete", json!({"filename": "b"})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let answers = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
    let params = json!({
        "name": "confirm_delete",
        "arguments": {"filename": "b"},
        "inputResponses": answers,
        "requestState": asked["requestState"],
    });
    assert_eq!(text(&client.ask("tools/call", params).await.unwrap()), "deleted b");
    gate.open();
    let answers = json!({"user_name": {"action": "accept", "content": {"name": "Alice"}}});
    let call = json!({"name": "ask_then_work", "inputResponses": answers});
    let went_on = client.ask("tools/call", call).await.unwrap();
    assert!(went_on["resultType"] != "task" && gate.begun.load(Ordering::SeqCst) == 2, "{went_on}");
    client.about("tasks/cancel", &id).await.unwrap();
    client.begin("work", json!({"label": "it"})).await;
}
