//! The experimental tasks of 2025-11-25.

use std::sync::Mutex;

use super::*;

const REVISION: Revision = Revision::V2025_11_25;

fn connect(gate: &Arc<Gate>) -> ValidatingClient {
    ValidatingClient::connect(server(gate), REVISION)
}

fn related(id: &str) -> Value {
    json!({ "taskId": id })
}

#[tokio::test]
async fn a_task_is_created_polled_and_completed() {
    let gate = Arc::default();
    let mut client = connect(&gate);
    let params = json!({"name": "work", "arguments": {"label": "it"}, "task": {"ttl": 60000}});
    let created = client.request("tools/call", params).await.unwrap();
    let task = &created["task"];
    let members: Vec<_> = task.as_object().unwrap().keys().collect();
    assert_eq!(members, ["taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"]);
    assert_eq!(
        (&task["ttl"], &task["pollInterval"], &task["status"]),
        (&json!(60000), &json!(1000), &json!("working"))
    );
    let id = task["taskId"].as_str().unwrap();
    // Each base64url character carries 6 bits.
    assert!(id.len() * 6 >= 128, "{id}");
    assert_eq!(client.task_request("tasks/get", id).await.unwrap(), *task);
    // `_meta` does not select the task.
    let with_other_meta = json!({"taskId": id, "_meta": {RELATED: related("another")}});
    assert_eq!(client.request("tasks/get", with_other_meta).await.unwrap(), *task);
    gate.open();
    client.wait_for_status(id, "completed").await;
    let result = client.task_request("tasks/result", id).await.unwrap();
    assert_eq!(text(&result), "it is done");
    assert_eq!(result["_meta"][RELATED], related(id));
    assert_eq!(client.task_request("tasks/result", id).await.unwrap(), result);
}

#[tokio::test]
async fn tasks_result_waits_for_the_result() {
    let gate = Arc::default();
    let mut client = connect(&gate);
    let id = client.start_task("work", json!({"label": "it"})).await;
    let waiting: Vec<_> = (0..2).map(|_| client.send("tasks/result", json!({"taskId": id}))).collect();
    client.run_another_task().await;
    assert_eq!(client.task_request("tasks/get", &id).await.unwrap()["status"], "working");
    assert_eq!(client.client.in_flight(), 2);
    gate.open();
    for request in waiting {
        assert_eq!(text(&client.answer(request, "tasks/result").await.unwrap()), "it is done");
    }
}

#[tokio::test]
async fn failures_appear_in_the_status_and_in_the_result() {
    for (tool, arguments, message, expected) in [
        ("failing_job", json!({}), "the job failed", Ok("the job failed")),
        ("work", json!({"label": 7}), "invalid arguments for `work`", Ok("invalid arguments for `work`")),
        (
            "impatient",
            json!({}),
            "`impatient` did not finish within 20ms",
            Ok("`impatient` did not finish within 20ms"),
        ),
        ("explains_failure", json!({}), "the disk is full", Ok("the disk is full")),
        ("fails_with_data", json!({}), r#"{"missing":"disk"}"#, Ok(r#"{"missing":"disk"}"#)),
        ("protocol_error_job", json!({}), "no such job", Err(42)),
        ("panics", json!({}), "`panics` failed: internal error", Err(-32603)),
    ] {
        let gate = Arc::<Gate>::default();
        if tool != "impatient" {
            gate.open();
        }
        let mut client = connect(&gate);
        let id = client.start_task(tool, arguments).await;
        let failed = client.wait_for_status(&id, "failed").await;
        assert!(failed["statusMessage"].as_str().unwrap().starts_with(message), "{tool}: {failed}");
        match (client.task_request("tasks/result", &id).await, expected) {
            (Ok(result), Ok(expected)) => {
                assert_eq!((&result["isError"], &result["_meta"][RELATED]), (&json!(true), &related(&id)), "{tool}");
                assert!(text(&result).starts_with(expected), "{tool}: {result}");
            }
            (Err(error), Err(code)) => {
                let data = (tool == "protocol_error_job").then(|| json!({"job": 7}));
                assert_eq!((error.code, error.message.as_str(), error.data), (code, message, data), "{tool}");
            }
            (other, _) => panic!("{tool}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn cancelling_drops_the_function_for_good() {
    let gate = Arc::<Gate>::default();
    let mut client = connect(&gate);
    let id = client.start_task("work", json!({"label": "it"})).await;
    wait_until(|| gate.entered() == 1).await;
    let waiting = client.send("tasks/result", json!({"taskId": id}));
    let cancelled = client.task_request("tasks/cancel", &id).await.unwrap();
    assert_eq!((&cancelled["taskId"], &cancelled["status"]), (&json!(id), &json!("cancelled")));
    assert_eq!(cancelled.get("_meta"), None);
    wait_until(|| gate.dropped() == 1).await;
    assert_eq!(client.answer(waiting, "tasks/result").await.unwrap_err().code, -32602);
    let again = client.task_request("tasks/cancel", &id).await.unwrap_err();
    assert_eq!(again.code, -32602);
    client.run_another_task().await;
    assert_eq!(client.task_request("tasks/get", &id).await.unwrap()["status"], "cancelled");
    let id = client.start_task("protocol_error_job", json!({})).await;
    client.wait_for_status(&id, "failed").await;
    assert_eq!(client.task_request("tasks/cancel", &id).await.unwrap_err().code, -32602);
}

#[tokio::test]
async fn questions_are_sent_on_the_stream_of_tasks_result() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let mut client = ValidatingClient::answering(server(&Arc::default()), move |asked| {
        seen.lock().unwrap().push(asked.params.clone());
        json!({"action": "accept", "content": {"confirm": true, "name": format!("N{}", seen.lock().unwrap().len())}})
    });
    let id = client.start_task("confirm_delete", json!({"filename": "a.txt"})).await;
    client.wait_for_status(&id, "input_required").await;
    assert_eq!(*asked.lock().unwrap(), Vec::<Value>::new());
    let result = client.task_request("tasks/result", &id).await.unwrap();
    assert_eq!(text(&result), "deleted a.txt");
    let params = std::mem::take(&mut *asked.lock().unwrap());
    assert_eq!((&params[0]["message"], &params[0]["_meta"][RELATED]), (&json!("Delete a.txt?"), &related(&id)));
    let id = client.start_task("multi_input", json!({})).await;
    let result = client.task_request("tasks/result", &id).await.unwrap();
    assert_eq!(text(&result), "N1 and N3");
    assert_eq!(asked.lock().unwrap().len(), 3);
}

/// The newer of two requests asks, because the stream of the older one may be lost. If the newer one is cancelled, the
/// older one asks again.
#[tokio::test]
async fn one_request_at_a_time_asks_a_question() {
    let server = server(&Arc::default());
    let mut client = ValidatingClient::connect(server, REVISION);
    let capable = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": REVISION.as_str(),
        "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}}});
    client.client = TestClient::uninitialized(super::server(&Arc::default()), REVISION);
    client.client.send_raw(capable.to_string().as_bytes());
    client.client.notify("notifications/initialized", json!({}));
    let id = client.start_task("confirm_delete", json!({"filename": "a"})).await;
    client.wait_for_status(&id, "input_required").await;
    client.notifications();
    let methods = |messages: &[Value]| messages.iter().map(|message| message["method"].clone()).collect::<Vec<_>>();
    let first = client.send("tasks/result", json!({"taskId": id}));
    let asked = client.wait_for_notifications(1).await;
    assert_eq!(methods(&asked), ["elicitation/create"]);
    assert_eq!(asked[0]["params"]["_meta"][RELATED], related(&id));
    let second = client.send("tasks/result", json!({"taskId": id}));
    let mut received = methods(&client.wait_for_notifications(2).await);
    received.sort_unstable_by_key(ToString::to_string);
    assert_eq!(received, ["elicitation/create", "notifications/cancelled"]);
    client.task_request("tasks/get", &id).await.unwrap();
    assert_eq!(client.notifications(), Vec::<Value>::new());
    client.client.notify("notifications/cancelled", json!({"requestId": second}));
    let received = client.wait_for_notifications(2).await;
    assert_eq!(methods(&received), ["notifications/cancelled", "elicitation/create"]);
    assert!(received.iter().all(|message| message["params"]["_meta"][RELATED] == related(&id)), "{received:?}");
    let declined = json!({"jsonrpc": "2.0", "id": received[1]["id"], "result": {"action": "decline"}});
    client.client.send_raw(declined.to_string().as_bytes());
    assert_eq!(text(&client.answer(first, "tasks/result").await.unwrap()), "kept");
}

#[tokio::test]
async fn a_pending_question_is_not_repeated_with_the_next_one() {
    let gate = Arc::<Gate>::default();
    let mut client = ValidatingClient::connect(server(&gate), REVISION);
    let server = server(&gate).with::<asks_twice>();
    client.client = server.test_client(REVISION).answering(|_| Value::Null);
    let id = client.start_task("asks_twice", json!({})).await;
    client.wait_for_status(&id, "input_required").await;
    client.notifications();
    client.send("tasks/result", json!({"taskId": id}));
    let mut received = client.wait_for_notifications(1).await;
    gate.open();
    received.append(&mut client.wait_for_notifications(1).await);
    client.task_request("tasks/get", &id).await.unwrap();
    received.append(&mut client.notifications());
    let messages: Vec<_> = received.iter().map(|it| it["params"]["message"].as_str().unwrap_or_default()).collect();
    assert_eq!(messages, ["Who?", "Sure?"], "{received:?}");
}

#[tokio::test]
async fn an_error_response_of_the_client_fails_the_task() {
    let mut client = connect(&Arc::default());
    client.client = TestClient::uninitialized(server(&Arc::default()), REVISION);
    let capable = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": REVISION.as_str(),
        "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}}});
    client.client.send_raw(capable.to_string().as_bytes());
    client.client.notify("notifications/initialized", json!({}));
    let id = client.start_task("confirm_delete", json!({"filename": "a"})).await;
    client.wait_for_status(&id, "input_required").await;
    client.notifications();
    let waiting = client.send("tasks/result", json!({"taskId": id}));
    let asked = client.wait_for_notifications(1).await;
    let error = json!({"jsonrpc": "2.0", "id": asked[0]["id"], "error": {"code": -1, "message": "not available"}});
    client.client.send_raw(error.to_string().as_bytes());
    let failed = client.answer(waiting, "tasks/result").await.unwrap();
    assert_eq!(failed["isError"], true, "{failed}");
    assert!(text(&failed).ends_with("not available"), "{failed}");
}

#[tokio::test]
async fn questions_of_tasks_wait_until_the_client_is_initialized() {
    let mut client = connect(&Arc::default());
    client.client = TestClient::uninitialized(server(&Arc::default()), REVISION);
    let capable = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": REVISION.as_str(),
        "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}}});
    client.client.send_raw(capable.to_string().as_bytes());
    let id = client.start_task("confirm_delete", json!({"filename": "a"})).await;
    client.wait_for_status(&id, "input_required").await;
    client.notifications();
    client.send("tasks/result", json!({"taskId": id}));
    // A question would precede the response to this later request.
    client.wait_for_status(&id, "input_required").await;
    assert_eq!(client.notifications(), [] as [Value; 0]);
    client.client.notify("notifications/initialized", json!({}));
    let asked = client.client.next_lines().await;
    assert_eq!(asked[0]["method"], "elicitation/create", "{asked:?}");
}

#[tokio::test]
async fn clients_are_notified_of_every_status_change() {
    let mut client = ValidatingClient::answering(server(&Arc::default()), |_| json!({"action": "decline"}));
    let id = client.start_task("confirm_delete", json!({"filename": "a"})).await;
    client.wait_for_status(&id, "input_required").await;
    client.task_request("tasks/result", &id).await.unwrap();
    let notifications = client.notifications();
    let statuses: Vec<_> = notifications.iter().map(|message| message["params"]["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["input_required", "working", "completed"]);
    for message in &notifications {
        assert_eq!(
            (&message["method"], &message["params"]["taskId"]),
            (&json!("notifications/tasks/status"), &json!(id))
        );
        assert!(message["params"].get("_meta").is_none());
    }
}

#[tokio::test]
async fn progress_and_log_messages_name_their_task() {
    let gate = Arc::<Gate>::default();
    let mut client = connect(&gate);
    gate.open();
    gate.open();
    let params = json!({"name": "progress", "task": {}, "_meta": {"progressToken": 7}});
    let created = client.request("tools/call", params).await.unwrap();
    let id = created["task"]["taskId"].as_str().unwrap();
    client.task_request("tasks/result", id).await.unwrap();
    let notifications = client.notifications();
    let of = |method: &str| notifications.iter().filter(|message| message["method"] == method).collect::<Vec<_>>();
    let (progress, log) = (of("notifications/progress"), of("notifications/message"));
    assert_eq!((progress.len(), log.len()), (2, 1), "{notifications:#?}");
    assert!(progress.iter().all(|message| message["params"]["progressToken"] == 7), "{notifications:#?}");
    for message in progress.into_iter().chain(log) {
        assert_eq!(message["params"]["_meta"][RELATED], related(id), "{message}");
    }
}

#[tokio::test]
async fn no_notifications_follow_the_end_of_the_task() {
    /// Spawn work that reports progress after the end.
    #[tool(task)]
    async fn reports_too_late(gate: &Arc<Gate>, ctx: &Context) {
        ctx.progress(1, 3, "");
        let (gate, ctx) = (Arc::clone(gate), ctx.clone());
        tokio::spawn(async move {
            ctx.ended().await;
            ctx.progress(3, 3, "too late");
            gate.open();
        });
    }

    let gate = Arc::<Gate>::default();
    let mut client = ValidatingClient::connect(server(&gate).with::<reports_too_late>(), REVISION);
    let params = json!({"name": "reports_too_late", "task": {}, "_meta": {"progressToken": 7}});
    let created = client.request("tools/call", params).await.unwrap();
    client.wait_for_status(created["task"]["taskId"].as_str().unwrap(), "completed").await;
    wait_until(|| gate.permits.available_permits() == 1).await;
    let notifications = client.notifications();
    let steps: Vec<_> = notifications.iter().filter_map(|message| message["params"]["progress"].as_u64()).collect();
    assert_eq!(steps, [1]);
}

#[tokio::test]
async fn a_deferred_task_starts_at_once_if_the_client_requests_it() {
    let gate = Arc::<Gate>::default();
    let mut client = ValidatingClient::answering(server(&gate), |request| match request.message() {
        "Sure?" => json!({"action": "accept", "content": {"confirm": true}}),
        _ => json!({"action": "accept", "content": {"name": "Alice"}}),
    });
    gate.open();
    let id = client.start_task("ask_then_work", json!({})).await;
    assert_eq!(text(&client.task_request("tasks/result", &id).await.unwrap()), "worked for Alice");
    gate.open();
    let result = client.request("tools/call", json!({"name": "ask_then_work"})).await.unwrap();
    assert_eq!(text(&result), "worked for Alice");
}

#[tokio::test]
async fn a_function_learns_whether_its_call_is_a_task() {
    /// Return whether the call is a task.
    #[tool(task = "deferred")]
    async fn is_task(ctx: &Context) -> bool {
        ctx.become_task().await
    }

    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let mut client = ValidatingClient::connect(Server::empty("tasks", "1.0.0").with::<is_task>(), revision);
        let id = client.start_task("is_task", json!({})).await;
        let task = client.wait_for_status(&id, "completed").await;
        let result = if revision.is_stateless() {
            task["result"].clone()
        } else {
            client.task_request("tasks/result", &id).await.unwrap()
        };
        assert_eq!(text(&result), "true", "{revision}");
        client.capabilities = json!({});
        let plain = client.request("tools/call", json!({"name": "is_task"})).await.unwrap();
        assert_eq!(text(&plain), "false", "{revision}");
    }
}

/// A full last page has no cursor.
#[tokio::test]
async fn tasks_are_listed_in_pages() {
    for expected in [vec![0], vec![1], vec![2], vec![2, 2], vec![2, 2, 1]] {
        let gate = Arc::default();
        let mut client = ValidatingClient::connect(server(&gate).page_size(2), REVISION);
        let mut created = Vec::new();
        for _ in 0..expected.iter().sum() {
            created.push(client.start_task("work", json!({"label": "it"})).await);
            sleep(Duration::from_millis(2)).await;
        }
        let (mut listed, mut sizes, mut params) = (Vec::new(), Vec::new(), json!({}));
        loop {
            let page = client.request("tasks/list", params).await.unwrap();
            let tasks = page["tasks"].as_array().unwrap();
            assert_eq!(page.get("_meta"), None);
            sizes.push(tasks.len());
            listed.extend(tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()));
            match page.get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => break,
            }
        }
        assert_eq!((sizes, listed), (expected, created));
    }
}

#[tokio::test]
async fn a_session_sees_only_its_own_tasks() {
    let gate = Arc::default();
    let server = server(&gate).build().unwrap();
    let mut first = ValidatingClient { client: server.test_client(REVISION), official: None, capabilities: json!({}) };
    let id = first.start_task("work", json!({"label": "it"})).await;
    let mut second = ValidatingClient { client: server.test_client(REVISION), official: None, capabilities: json!({}) };
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(second.task_request(method, &id).await.unwrap_err().code, -32602, "{method}");
    }
    assert_eq!(second.request("tasks/list", json!({})).await.unwrap()["tasks"], json!([]));
    assert_eq!(first.request("tasks/list", json!({})).await.unwrap()["tasks"][0]["taskId"], json!(id));
}
