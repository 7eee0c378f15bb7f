//! Invalid requests and exceeded limits.

use mcp_runtime::{
    Revision::{V2025_06_18, V2025_11_25, V2026_07_28},
    TaskLimits,
};

use super::*;

const UNKNOWN: &str = "invalid params: task not found or expired";

#[tokio::test]
async fn invalid_requests_are_rejected() {
    for (revision, method, params, code, message) in [
        (V2025_11_25, "tasks/get", json!({"taskId": "unknown"}), -32602, UNKNOWN),
        (V2025_11_25, "tasks/result", json!({"taskId": "unknown"}), -32602, UNKNOWN),
        (V2025_11_25, "tasks/cancel", json!({"taskId": "unknown"}), -32602, UNKNOWN),
        (V2025_11_25, "tasks/get", json!({"taskId": ""}), -32602, UNKNOWN),
        (V2025_11_25, "tasks/get", json!({}), -32602, "invalid params: `taskId` is missing"),
        (V2025_11_25, "tasks/result", json!({"taskId": 7}), -32602, "invalid params: `taskId` must be a string"),
        (
            V2025_11_25,
            "tasks/list",
            json!({"cursor": "nonsense"}),
            -32602,
            "invalid params: `cursor` was not returned by this list: \"nonsense\"",
        ),
        (V2025_11_25, "tasks/list", json!({"cursor": 7}), -32602, "invalid params: `cursor` must be a string"),
        (
            V2025_11_25,
            "tasks/update",
            json!({"taskId": "unknown", "inputResponses": {}}),
            -32601,
            "method not found: tasks/update",
        ),
        (
            V2025_11_25,
            "tools/call",
            json!({"name": "greet", "arguments": {"name": "x"}, "task": {}}),
            -32601,
            "method not found: tools/call as a task: `greet` does not support tasks",
        ),
        (
            V2025_11_25,
            "tools/call",
            json!({"name": "failing_job"}),
            -32601,
            "method not found: tools/call without `task`: `failing_job` can only run as a task",
        ),
        (
            V2025_11_25,
            "tools/call",
            json!({"name": "work", "task": 7}),
            -32602,
            "invalid params: `task` must be an object",
        ),
        (
            V2025_11_25,
            "tools/call",
            json!({"name": "work", "task": {"ttl": 0}}),
            -32602,
            "invalid params: `task.ttl` must be a positive whole number of milliseconds",
        ),
        (
            V2025_11_25,
            "tools/call",
            json!({"name": "work", "task": {"ttl": -1}}),
            -32602,
            "invalid params: `task.ttl` must be a positive whole number of milliseconds",
        ),
        (
            V2025_11_25,
            "tools/call",
            json!({"name": "work", "task": {"ttl": "1"}}),
            -32602,
            "invalid params: `task.ttl` must be a positive whole number of milliseconds",
        ),
        (V2025_11_25, "tools/call", json!({"name": "unknown", "task": {}}), -32602, "unknown tool: unknown"),
        (V2026_07_28, "tasks/get", json!({"taskId": "unknown"}), -32602, UNKNOWN),
        (V2026_07_28, "tasks/update", json!({"taskId": "unknown", "inputResponses": {}}), -32602, UNKNOWN),
        (V2026_07_28, "tasks/cancel", json!({"taskId": "unknown"}), -32602, UNKNOWN),
        (V2026_07_28, "tasks/get", json!({}), -32602, "invalid params: `taskId` is missing"),
        (
            V2026_07_28,
            "tasks/update",
            json!({"taskId": "unknown"}),
            -32602,
            "invalid params: `inputResponses` is missing",
        ),
        (
            V2026_07_28,
            "tasks/update",
            json!({"taskId": "unknown", "inputResponses": [1]}),
            -32602,
            "invalid params: `inputResponses` must be an object",
        ),
        (V2025_06_18, "tasks/get", json!({"taskId": "unknown"}), -32601, "method not found: tasks/get"),
        (V2025_06_18, "tasks/list", json!({}), -32601, "method not found: tasks/list"),
        (V2025_06_18, "tasks/result", json!({"taskId": "unknown"}), -32601, "method not found: tasks/result"),
        (V2025_06_18, "tasks/cancel", json!({"taskId": "unknown"}), -32601, "method not found: tasks/cancel"),
    ] {
        let mut client = ValidatingClient::connect(server(&Arc::default()), revision);
        let error = client.request(method, params.clone()).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message), "{revision}: {method} {params}");
    }
}

/// The missing declaration is reported before any other error.
#[tokio::test]
async fn the_extension_must_be_declared() {
    let needed = json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}});
    for declared in
        [json!({}), json!({"extensions": {}}), json!({"extensions": {EXTENSION: true}}), json!({"tasks": {}})]
    {
        let mut client = ValidatingClient::without_extension(server(&Arc::default()));
        client.capabilities = declared.clone();
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            for params in [json!({"taskId": "gate-test"}), json!({})] {
                let error = client.request(method, params).await.unwrap_err();
                assert_eq!((error.code, error.data), (-32021, Some(needed.clone())), "{declared}: {method}");
            }
        }
    }
}

#[tokio::test]
async fn task_methods_are_unknown_without_task_tools() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let mut client = ValidatingClient::connect(Server::empty("none", "1").with::<greet>(), revision);
        for method in ["tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update"] {
            assert_eq!(client.task_request(method, "x").await.unwrap_err().code, -32601, "{revision}: {method}");
        }
        let result = client.call("greet", json!({"name": "World"})).await.unwrap();
        assert_eq!(text(&result), "Hello, World!", "{revision}");
    }
}

#[tokio::test]
async fn tasks_above_the_limit_are_rejected() {
    let of_client = |limit: usize| {
        let start = format!("too many tasks: the limit is {limit} of one client, finished ones included: retry in ");
        move |message: &str, elapsed: Duration| {
            let seconds = message.strip_prefix(&start).and_then(|rest| rest.strip_suffix(" seconds")?.parse().ok());
            // Not before the first task has expired.
            seconds.is_some_and(|seconds: f64| (3600.0 - elapsed.as_secs_f64()..=3601.0).contains(&seconds))
        }
    };
    let of_all = |message: &str, _: Duration| message == "too many tasks: the limit is 2 of all clients: retry later";
    let limits = TaskLimits::default();
    for (revision, limits, count, is_expected) in [
        (V2025_11_25, limits.total(9).per_peer(2), 2, &of_client(2) as &dyn Fn(&str, Duration) -> bool),
        (V2025_11_25, limits.total(2).per_peer(9), 2, &of_all),
        (V2026_07_28, limits.total(2).per_peer(1), 2, &of_all),
        (V2025_11_25, limits, 128, &of_client(128)),
    ] {
        let gate = Arc::default();
        let mut client = ValidatingClient::connect(server(&gate).max_tasks(limits), revision);
        let began = std::time::Instant::now();
        for _ in 0..count {
            client.start_task("work", json!({"label": "it"})).await;
        }
        let rejected = client.call("failing_job", json!({})).await.unwrap_err();
        assert_eq!(rejected.code, -32603, "{revision}");
        assert!(is_expected(&rejected.message, began.elapsed()), "{rejected}");
        if mcp_tests::expected(revision).session_tasks {
            let rejected = client.call("work", json!({"label": "it"})).await.unwrap_err();
            assert_eq!(rejected.code, -32603, "the client requested a task");
        }
    }
}

/// Requests for results wait for as long as their tasks exist.
#[tokio::test]
async fn requests_about_tasks_are_limited_like_calls() {
    let mut client = ValidatingClient::connect(server(&Arc::default()).max_in_flight(2), V2025_11_25);
    let id = client.start_task("work", json!({"label": "it"})).await;
    for _ in 0..2 {
        client.send("tasks/result", json!({"taskId": id}));
    }
    for method in ["tasks/result", "tasks/get", "tasks/cancel"] {
        let error = client.task_request(method, &id).await.unwrap_err();
        assert_eq!((error.code, &*error.message), (-32603, "too many requests in flight: the limit is 2"), "{method}");
    }
}

/// Functions hold their arguments until they end, however many tasks a client may create.
#[tokio::test]
async fn the_arguments_of_unfinished_tasks_are_bounded() {
    let mut client = ValidatingClient::connect(server(&Arc::default()), V2025_11_25);
    let (large, small) = (json!({"label": "x".repeat(12 << 20)}), json!({"label": "x"}));
    let id = client.start_task("work", large.clone()).await;
    client.start_task("work", large.clone()).await;
    let rejected = client.call("work", large.clone()).await.unwrap_err();
    assert_eq!((rejected.code, &*rejected.message), (-32603, "the arguments of unfinished tasks are too large"));
    client.start_task("work", small).await;
    client.task_request("tasks/cancel", &id).await.unwrap();
    // The function is dropped soon after the response.
    while client.call("work", large.clone()).await.is_err() {
        tokio::task::yield_now().await;
    }
}

/// One client cannot fill the memory with results.
#[tokio::test]
async fn a_task_fails_whose_result_is_too_large_to_be_kept() {
    for revision in [V2025_11_25, V2026_07_28] {
        let gate = Arc::<Gate>::default();
        gate.open();
        let mut client = ValidatingClient::connect(server(&gate), revision);
        client.client = client.client.with_extension(mcp_runtime::auth::Principal::new("ada"));
        let id = client.start_task("long_text", json!({"length": 33 << 20})).await;
        let failed = client.wait_for_status(&id, "failed").await;
        let message = failed["statusMessage"].as_str().unwrap();
        assert!(message.starts_with("the result of the task is too large to be kept"), "{revision}: {message}");
    }
}

/// Nothing tells the clients of a stateless server without principals apart, so they share the memory of all clients.
#[tokio::test]
async fn clients_without_a_name_share_the_memory_of_all_clients() {
    let gate = Arc::<Gate>::default();
    gate.open();
    let mut client = ValidatingClient::connect(server(&gate), V2026_07_28);
    let id = client.start_task("long_text", json!({"length": 33 << 20})).await;
    assert_eq!(text(&client.wait_for_status(&id, "completed").await["result"]).len(), 33 << 20);
}

/// A call with optional task support runs as a plain call while the limit is reached.
#[tokio::test]
async fn calls_above_the_task_limit_run_as_plain_calls() {
    let gate = Arc::<Gate>::default();
    let mut client = ValidatingClient::connect(
        server(&gate).max_tasks(TaskLimits::default().total(1).per_peer(1)),
        Revision::V2026_07_28,
    );
    client.start_task("confirm_delete", json!({"filename": "a"})).await;
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
    assert_eq!(text(&client.request("tools/call", params).await.unwrap()), "deleted b");
    gate.open();
    let answers = json!({"user_name": {"action": "accept", "content": {"name": "Alice"}}});
    let call = json!({"name": "ask_then_work", "inputResponses": answers});
    let result = client.request("tools/call", call).await.unwrap();
    assert!(result["resultType"] != "task" && gate.entered() == 2, "{result}");
}
