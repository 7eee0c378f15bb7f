//! The experimental tasks of 2025-11-25.

use std::sync::Mutex;

use super::*;

const OLD: Revision = Revision::V2025_11_25;

fn talk(gate: &Arc<Gate>) -> Talk {
    Talk::to(server(gate), OLD)
}

fn related(id: &str) -> Value {
    json!({ "taskId": id })
}

#[tokio::test]
async fn a_task_is_made_asked_for_and_done() {
    let gate = Arc::default();
    let mut client = talk(&gate);
    let params = json!({"name": "work", "arguments": {"label": "it"}, "task": {"ttl": 60000}});
    let created = client.ask("tools/call", params).await.unwrap();
    let task = &created["task"];
    let members: Vec<_> = task.as_object().unwrap().keys().collect();
    assert_eq!(members, ["createdAt", "lastUpdatedAt", "pollInterval", "status", "taskId", "ttl"]);
    assert_eq!(
        (&task["ttl"], &task["pollInterval"], &task["status"]),
        (&json!(60000), &json!(1000), &json!("working"))
    );
    let id = task["taskId"].as_str().unwrap();
    // Of base64url, 6 bits a character: nobody guesses it.
    assert!(id.len() * 6 >= 128, "{id}");
    assert_eq!(client.about("tasks/get", id).await.unwrap(), *task);
    // Which task is meant stands in one place only.
    let elsewhere = json!({"taskId": id, "_meta": {RELATED: related("another")}});
    assert_eq!(client.ask("tasks/get", elsewhere).await.unwrap(), *task);
    gate.open();
    client.until(id, "completed").await;
    let result = client.about("tasks/result", id).await.unwrap();
    assert_eq!(text(&result), "it is done");
    assert_eq!(result["_meta"][RELATED], related(id));
    assert_eq!(client.about("tasks/result", id).await.unwrap(), result);
}

#[tokio::test]
async fn a_result_is_waited_for() {
    let gate = Arc::default();
    let mut client = talk(&gate);
    let id = client.begin("work", json!({"label": "it"})).await;
    let waiting: Vec<_> = (0..2).map(|_| client.send("tasks/result", json!({"taskId": id}))).collect();
    sleep(Duration::from_millis(20)).await;
    assert_eq!(client.client.in_flight(), 2);
    assert_eq!(client.about("tasks/get", &id).await.unwrap()["status"], "working");
    gate.open();
    for request in waiting {
        assert_eq!(text(&client.answer(request, "tasks/result").await.unwrap()), "it is done");
    }
}

/// How each way to end looks: as a status, and as the result.
#[tokio::test]
async fn a_task_ends_as_its_call_would_have() {
    for (tool, arguments, message, expected) in [
        ("failing_job", json!({}), "the job failed", Ok("the job failed")),
        ("work", json!({"label": 7}), "invalid arguments for `work`", Ok("invalid arguments for `work`")),
        (
            "impatient",
            json!({}),
            "`impatient` did not finish within 20ms",
            Ok("`impatient` did not finish within 20ms"),
        ),
        ("protocol_error_job", json!({}), "no such job", Err(42)),
        ("panics", json!({}), "`panics` failed: internal error", Err(-32603)),
    ] {
        let gate = Arc::<Gate>::default();
        if tool != "impatient" {
            gate.open();
        }
        let mut client = talk(&gate);
        let id = client.begin(tool, arguments).await;
        let failed = client.until(&id, "failed").await;
        assert!(failed["statusMessage"].as_str().unwrap().starts_with(message), "{tool}: {failed}");
        match (client.about("tasks/result", &id).await, expected) {
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
async fn a_cancelled_task_is_dropped_and_stays_cancelled() {
    let gate = Arc::<Gate>::default();
    let mut client = talk(&gate);
    let id = client.begin("work", json!({"label": "it"})).await;
    until(|| gate.begun.load(Ordering::SeqCst) == 1).await;
    let waiting = client.send("tasks/result", json!({"taskId": id}));
    let cancelled = client.about("tasks/cancel", &id).await.unwrap();
    assert_eq!((&cancelled["taskId"], &cancelled["status"]), (&json!(id), &json!("cancelled")));
    until(|| gate.dropped() == 1).await;
    assert_eq!(client.answer(waiting, "tasks/result").await.unwrap_err().code, -32602);
    let again = client.about("tasks/cancel", &id).await.unwrap_err();
    assert_eq!(again.code, -32602);
    gate.open();
    sleep(Duration::from_millis(10)).await;
    assert_eq!(client.about("tasks/get", &id).await.unwrap()["status"], "cancelled");
    let id = client.begin("protocol_error_job", json!({})).await;
    client.until(&id, "failed").await;
    assert_eq!(client.about("tasks/cancel", &id).await.unwrap_err().code, -32602);
}

#[tokio::test]
async fn a_task_asks_on_the_stream_of_whoever_waits_for_it() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let mut client = Talk::answering(server(&Arc::default()), move |asked| {
        seen.lock().unwrap().push(asked.params.clone());
        json!({"action": "accept", "content": {"confirm": true, "name": format!("N{}", seen.lock().unwrap().len())}})
    });
    let id = client.begin("confirm_delete", json!({"filename": "a.txt"})).await;
    client.until(&id, "input_required").await;
    assert_eq!(*asked.lock().unwrap(), Vec::<Value>::new());
    let result = client.about("tasks/result", &id).await.unwrap();
    assert_eq!(text(&result), "deleted a.txt");
    let params = std::mem::take(&mut *asked.lock().unwrap());
    assert_eq!((&params[0]["message"], &params[0]["_meta"][RELATED]), (&json!("Delete a.txt?"), &related(&id)));
    let id = client.begin("multi_input", json!({})).await;
    let result = client.about("tasks/result", &id).await.unwrap();
    assert_eq!(text(&result), "N1 and N3");
    assert_eq!(asked.lock().unwrap().len(), 3);
}

/// Of two requests that wait, the newer one asks, since the other's stream may be lost; if it is cancelled, the older one asks again.
#[tokio::test]
async fn a_question_is_asked_by_one_request_at_a_time() {
    let server = server(&Arc::default());
    let mut client = Talk::to(server, OLD);
    let capable = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": OLD.as_str(),
        "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}}});
    client.client = TestClient::silent(super::server(&Arc::default()), OLD);
    client.client.send_raw(capable.to_string().as_bytes());
    let id = client.begin("confirm_delete", json!({"filename": "a"})).await;
    client.until(&id, "input_required").await;
    client.notifications();
    let methods = |came: &[Value]| came.iter().map(|message| message["method"].clone()).collect::<Vec<_>>();
    let first = client.send("tasks/result", json!({"taskId": id}));
    sleep(Duration::from_millis(20)).await;
    let asked = client.notifications();
    assert_eq!(methods(&asked), ["elicitation/create"]);
    assert_eq!(asked[0]["params"]["_meta"][RELATED], related(&id));
    let second = client.send("tasks/result", json!({"taskId": id}));
    sleep(Duration::from_millis(20)).await;
    let mut came = methods(&client.notifications());
    came.sort_unstable_by_key(ToString::to_string);
    assert_eq!(came, ["elicitation/create", "notifications/cancelled"]);
    client.client.notify("notifications/cancelled", json!({"requestId": second}));
    sleep(Duration::from_millis(20)).await;
    let came = client.notifications();
    assert_eq!(methods(&came), ["notifications/cancelled", "elicitation/create"]);
    assert!(came.iter().all(|message| message["params"]["_meta"][RELATED] == related(&id)), "{came:?}");
    let declined = json!({"jsonrpc": "2.0", "id": came[1]["id"], "result": {"action": "decline"}});
    client.client.send_raw(declined.to_string().as_bytes());
    assert_eq!(text(&client.answer(first, "tasks/result").await.unwrap()), "kept");
}

#[tokio::test]
async fn an_error_of_the_client_fails_the_task() {
    let mut client = talk(&Arc::default());
    client.client = TestClient::silent(server(&Arc::default()), OLD);
    let capable = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": OLD.as_str(),
        "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t", "version": "1"}}});
    client.client.send_raw(capable.to_string().as_bytes());
    let id = client.begin("confirm_delete", json!({"filename": "a"})).await;
    client.until(&id, "input_required").await;
    client.notifications();
    let waiting = client.send("tasks/result", json!({"taskId": id}));
    sleep(Duration::from_millis(10)).await;
    let asked = client.notifications();
    let error = json!({"jsonrpc": "2.0", "id": asked[0]["id"], "error": {"code": -1, "message": "nobody is here"}});
    client.client.send_raw(error.to_string().as_bytes());
    let failed = client.answer(waiting, "tasks/result").await.unwrap_err();
    assert!(failed.message.ends_with("nobody is here"), "{failed}");
}

#[tokio::test]
async fn every_change_of_the_status_is_told() {
    let mut client = Talk::answering(server(&Arc::default()), |_| json!({"action": "decline"}));
    let id = client.begin("confirm_delete", json!({"filename": "a"})).await;
    client.until(&id, "input_required").await;
    client.about("tasks/result", &id).await.unwrap();
    let told = client.notifications();
    let statuses: Vec<_> = told.iter().map(|message| message["params"]["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["input_required", "working", "completed"]);
    for message in &told {
        assert_eq!(
            (&message["method"], &message["params"]["taskId"]),
            (&json!("notifications/tasks/status"), &json!(id))
        );
        assert!(message["params"].get("_meta").is_none());
    }
}

#[tokio::test]
async fn progress_and_log_say_whose_they_are() {
    let gate = Arc::<Gate>::default();
    let mut client = talk(&gate);
    gate.open();
    gate.open();
    let params = json!({"name": "progress", "task": {}, "_meta": {"progressToken": 7}});
    let created = client.ask("tools/call", params).await.unwrap();
    let id = created["task"]["taskId"].as_str().unwrap();
    client.about("tasks/result", id).await.unwrap();
    let told = client.notifications();
    let of = |method: &str| told.iter().filter(|message| message["method"] == method).collect::<Vec<_>>();
    let (progress, log) = (of("notifications/progress"), of("notifications/message"));
    assert_eq!((progress.len(), log.len()), (2, 1), "{told:#?}");
    assert!(progress.iter().all(|message| message["params"]["progressToken"] == 7), "{told:#?}");
    for message in progress.into_iter().chain(log) {
        assert_eq!(message["params"]["_meta"][RELATED], related(id), "{message}");
    }
}

#[tokio::test]
async fn nothing_is_told_of_a_task_that_is_over() {
    /// Leave work behind that tells more than there is to tell.
    #[tool(task)]
    async fn tells_too_late(gate: &Arc<Gate>, ctx: &Context) {
        ctx.progress(1, 3, "");
        let (gate, ctx) = (Arc::clone(gate), ctx.clone());
        tokio::spawn(async move {
            ctx.ended().await;
            ctx.progress(3, 3, "too late");
            gate.open();
        });
    }

    let gate = Arc::<Gate>::default();
    let mut client = Talk::to(server(&gate).with::<tells_too_late>(), OLD);
    let params = json!({"name": "tells_too_late", "task": {}, "_meta": {"progressToken": 7}});
    let created = client.ask("tools/call", params).await.unwrap();
    client.until(created["task"]["taskId"].as_str().unwrap(), "completed").await;
    until(|| gate.opens.available_permits() == 1).await;
    let told = client.notifications();
    let steps: Vec<_> = told.iter().filter_map(|message| message["params"]["progress"].as_u64()).collect();
    assert_eq!(steps, [1]);
}

/// A client that wants the task at once gets it at once, and is asked in it.
#[tokio::test]
async fn a_deferred_task_begins_at_once_where_the_client_asks_for_it() {
    let gate = Arc::<Gate>::default();
    let mut client = Talk::answering(server(&gate), |asked| match asked.message() {
        "Sure?" => json!({"action": "accept", "content": {"confirm": true}}),
        _ => json!({"action": "accept", "content": {"name": "Alice"}}),
    });
    gate.open();
    let id = client.begin("ask_then_work", json!({})).await;
    assert_eq!(text(&client.about("tasks/result", &id).await.unwrap()), "worked for Alice");
    gate.open();
    let result = client.ask("tools/call", json!({"name": "ask_then_work"})).await.unwrap();
    assert_eq!(text(&result), "worked for Alice");
}

#[tokio::test]
async fn tasks_are_listed_page_by_page() {
    let gate = Arc::default();
    let mut client = Talk::to(server(&gate).page_size(2), OLD);
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(client.begin("work", json!({"label": "it"})).await);
        sleep(Duration::from_millis(2)).await;
    }
    let (mut listed, mut sizes, mut params) = (Vec::new(), Vec::new(), json!({}));
    loop {
        let page = client.ask("tasks/list", params).await.unwrap();
        let tasks = page["tasks"].as_array().unwrap();
        sizes.push(tasks.len());
        listed.extend(tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()));
        match page.get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => break,
        }
    }
    assert_eq!((sizes, listed), (vec![2, 2, 1], made));
}

/// A session knows the tasks of its own.
#[tokio::test]
async fn tasks_belong_to_their_session() {
    let gate = Arc::default();
    let server = server(&gate).build().unwrap();
    let mut first = Talk { client: server.test_client(OLD), official: None, capabilities: json!({}) };
    let id = first.begin("work", json!({"label": "it"})).await;
    let mut second = Talk { client: server.test_client(OLD), official: None, capabilities: json!({}) };
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        assert_eq!(second.about(method, &id).await.unwrap_err().code, -32602, "{method}");
    }
    assert_eq!(second.ask("tasks/list", json!({})).await.unwrap()["tasks"], json!([]));
    assert_eq!(first.ask("tasks/list", json!({})).await.unwrap()["tasks"][0]["taskId"], json!(id));
}
