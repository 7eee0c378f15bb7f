//! The extension of 2026-07-28.

use super::*;

const NEW: Revision = Revision::V2026_07_28;

fn talk(gate: &Arc<Gate>) -> Talk {
    Talk::to(server(gate), NEW)
}

/// The names of an object's members.
fn members(object: &Value) -> Vec<&str> {
    let mut names: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

async fn update(client: &mut Talk, task: &str, answers: Value) {
    let ack = client.ask("tasks/update", json!({"taskId": task, "inputResponses": answers})).await.unwrap();
    assert_eq!(members(&ack), ["_meta", "resultType"]);
    assert_eq!(ack["resultType"], "complete");
}

/// Waits until a task asks exactly these things.
async fn until_asked(client: &mut Talk, task: &str, keys: &[&str]) -> Value {
    for _ in 0..2000 {
        let found = client.about("tasks/get", task).await.unwrap();
        if found["status"] == "input_required" && members(&found["inputRequests"]) == keys {
            return found;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("{keys:?} is never asked");
}

#[tokio::test]
async fn a_task_is_made_asked_for_and_done() {
    let gate = Arc::default();
    let mut client = talk(&gate);
    let created = client.call("work", json!({"label": "it"})).await.unwrap();
    let fields = ["_meta", "createdAt", "lastUpdatedAt", "pollIntervalMs", "resultType", "status", "taskId", "ttlMs"];
    assert_eq!(members(&created), fields);
    assert_eq!(created["resultType"], "task");
    assert_eq!((&created["ttlMs"], &created["pollIntervalMs"]), (&json!(3_600_000), &json!(1000)));
    assert!(created["createdAt"].as_str().is_some_and(|time| time.len() == 24 && time.ends_with('Z')));
    let id = created["taskId"].as_str().unwrap();
    assert!(id.len() >= 32, "{id}");
    let working = client.about("tasks/get", id).await.unwrap();
    assert_eq!(members(&working), fields);
    assert_eq!((&working["status"], &working["resultType"]), (&json!("working"), &json!("complete")));
    gate.open();
    let done = client.until(id, "completed").await;
    assert_eq!(text(&done["result"]), "it is done");
    assert_eq!(done["result"]["resultType"], "complete");
    assert!(done["result"]["_meta"].get(RELATED).is_none() && done.get("error").is_none());
    sleep(Duration::from_millis(20)).await;
    assert_eq!(client.about("tasks/get", id).await.unwrap(), done);
}

/// How each way to end looks.
#[tokio::test]
async fn a_task_ends_as_its_call_would_have() {
    for (tool, status, expected) in [
        ("failing_job", "completed", json!({"isError": true, "text": "the job failed"})),
        ("impatient", "completed", json!({"isError": true, "text": "`impatient` did not finish within 20ms"})),
        ("protocol_error_job", "failed", json!({"code": 42, "message": "no such job", "data": {"job": 7}})),
        ("panics", "failed", json!({"code": -32603, "message": "`panics` failed: internal error"})),
    ] {
        let gate = Arc::<Gate>::default();
        if tool != "impatient" {
            gate.open();
        }
        let mut client = talk(&gate);
        let id = client.begin(tool, json!({})).await;
        let ended = client.until(&id, status).await;
        match status {
            "failed" => {
                assert_eq!(ended["error"], expected, "{tool}");
                assert_eq!(ended["statusMessage"], expected["message"], "{tool}");
                assert!(ended.get("result").is_none(), "{tool}");
            }
            _ => {
                assert_eq!(ended["result"]["isError"], true, "{tool}");
                assert_eq!(text(&ended["result"]), expected["text"], "{tool}");
                assert!(ended.get("error").is_none(), "{tool}");
            }
        }
    }
}

#[tokio::test]
async fn a_blocking_function_is_a_task_as_well() {
    let mut client = talk(&Arc::default());
    let id = client.begin("block", json!({"label": "it"})).await;
    assert_eq!(text(&client.until(&id, "completed").await["result"]), "it");
}

#[tokio::test]
async fn a_task_asks_in_its_record() {
    let mut client = talk(&Arc::default());
    let id = client.begin("confirm_delete", json!({"filename": "a.txt"})).await;
    let parked = client.until(&id, "input_required").await;
    let request = &parked["inputRequests"]["confirm"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "Delete a.txt?");
    update(&mut client, &id, json!({"unknown-key": {"ignored": true}})).await;
    assert_eq!(client.until(&id, "input_required").await["inputRequests"], parked["inputRequests"]);
    update(&mut client, &id, json!({"confirm": {"action": "accept", "content": {"confirm": true}}})).await;
    assert_eq!(text(&client.until(&id, "completed").await["result"]), "deleted a.txt");
    // It has ended, and nothing is asked any more.
    update(&mut client, &id, json!({"confirm": {"action": "decline"}})).await;
    assert_eq!(text(&client.until(&id, "completed").await["result"]), "deleted a.txt");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_asked_for_again() {
    for (wrong, status) in [(1, "completed"), (9, "completed"), (10, "failed")] {
        let mut client = talk(&Arc::default());
        let id = client.begin("confirm_delete", json!({"filename": "a"})).await;
        let key = |count: usize| if count == 1 { "confirm".to_owned() } else { format!("confirm-{count}") };
        for count in 1..=wrong {
            until_asked(&mut client, &id, &[&key(count)]).await;
            let wrong = [json!(7), json!({"action": "accept", "content": {"confirm": "perhaps"}})][count % 2].take();
            update(&mut client, &id, json!({key(count): wrong})).await;
        }
        if status == "completed" {
            until_asked(&mut client, &id, &[&key(wrong + 1)]).await;
            let answers = json!({key(wrong + 1): {"action": "accept", "content": {"confirm": true}}});
            update(&mut client, &id, answers).await;
        }
        let ended = client.until(&id, status).await;
        assert!(status == "completed" || ended["error"]["code"] == -32603, "{ended}");
    }
}

#[tokio::test]
async fn answers_come_one_by_one_and_no_key_is_used_twice() {
    let accept = |name: &str| json!({"action": "accept", "content": {"name": name, "confirm": true}});
    let mut client = talk(&Arc::default());
    let id = client.begin("multi_input", json!({})).await;
    until_asked(&mut client, &id, &["confirm", "name"]).await;
    update(&mut client, &id, json!({"name": accept("Ada")})).await;
    let parked = client.about("tasks/get", &id).await.unwrap();
    assert_eq!((&parked["status"], members(&parked["inputRequests"])), (&json!("input_required"), vec!["confirm"]));
    update(&mut client, &id, json!({"name": accept("Eve")})).await;
    update(&mut client, &id, json!({"confirm": accept("")})).await;
    until_asked(&mut client, &id, &["name-2"]).await;
    update(&mut client, &id, json!({"name": accept("Eve"), "name-2": accept("Bob")})).await;
    assert_eq!(text(&client.until(&id, "completed").await["result"]), "Ada and Bob");
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_not_asked() {
    let mut client = talk(&Arc::default());
    client.capabilities = json!({"extensions": {EXTENSION: {}}});
    let id = client.begin("confirm_delete", json!({"filename": "a"})).await;
    assert_eq!(client.until(&id, "failed").await["error"]["code"], -32021);
}

/// Round by round first, then a task, which asks on its own.
#[tokio::test]
async fn a_call_becomes_a_task_when_it_says_so() {
    let gate = Arc::default();
    let mut client = talk(&gate);
    let asked = client.ask("tools/call", json!({"name": "ask_then_work"})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(members(&asked["inputRequests"]), ["user_name"]);
    assert!(asked.get("taskId").is_none());
    let answers = json!({"user_name": {"action": "accept", "content": {"name": "Alice"}}});
    let again = json!({"name": "ask_then_work", "inputResponses": answers, "requestState": asked["requestState"]});
    let created = client.ask("tools/call", again).await.unwrap();
    assert_eq!(created["resultType"], "task", "{created}");
    assert!(created.get("requestState").is_none() && created.get("inputRequests").is_none());
    let id = created["taskId"].as_str().unwrap();
    for _ in 0..2000 {
        if client.about("tasks/get", id).await.unwrap()["statusMessage"] == "half" {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(client.until(id, "working").await["statusMessage"], "half");
    gate.open();
    until_asked(&mut client, id, &["user_name"]).await;
    update(&mut client, id, json!({"user_name": {"action": "accept", "content": {"confirm": true}}})).await;
    assert_eq!(text(&client.until(id, "completed").await["result"]), "worked for Alice");
    assert_eq!(gate.dropped(), 0);
}

#[tokio::test]
async fn a_call_that_ends_before_it_becomes_a_task_is_a_call() {
    let mut client = talk(&Arc::default());
    let declined = json!({"name": "ask_then_work", "inputResponses": {"user_name": {"action": "decline"}}});
    let result = client.ask("tools/call", declined).await.unwrap();
    assert_eq!((&result["resultType"], text(&result)), (&json!("complete"), "nobody"));
}

/// A client without tasks gets the same function as a plain call.
#[tokio::test]
async fn becoming_a_task_does_nothing_where_there_are_none() {
    let gate = Arc::<Gate>::default();
    let mut client = Talk::plain(server(&gate));
    gate.open();
    let answers = json!({"user_name": {"action": "accept", "content": {"name": "Alice"}}});
    let asked = client.ask("tools/call", json!({"name": "ask_then_work", "inputResponses": answers})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert_eq!(asked["inputRequests"]["user_name"]["params"]["message"], "Sure?");
}

#[tokio::test]
async fn a_cancelled_task_is_dropped_and_cancelled_again_without_harm() {
    let gate = Arc::<Gate>::default();
    let mut client = talk(&gate);
    let id = client.begin("work", json!({"label": "it"})).await;
    until(|| gate.begun.load(Ordering::SeqCst) == 1).await;
    for _ in 0..2 {
        let ack = client.about("tasks/cancel", &id).await.unwrap();
        assert_eq!(members(&ack), ["_meta", "resultType"]);
        assert_eq!(client.about("tasks/get", &id).await.unwrap()["status"], "cancelled");
    }
    until(|| gate.dropped() == 1).await;
    gate.open();
    sleep(Duration::from_millis(10)).await;
    assert_eq!(client.about("tasks/get", &id).await.unwrap()["status"], "cancelled");
    // One that has ended stays what it is.
    let id = client.begin("protocol_error_job", json!({})).await;
    client.until(&id, "failed").await;
    client.about("tasks/cancel", &id).await.unwrap();
    assert_eq!(client.about("tasks/get", &id).await.unwrap()["status"], "failed");
}

/// Bad arguments are for the model at once; there is nothing to wait for.
#[tokio::test]
async fn bad_arguments_make_no_task() {
    let mut client = talk(&Arc::default());
    let result = client.call("work", json!({"label": 7})).await.unwrap();
    assert_eq!((&result["resultType"], &result["isError"]), (&json!("complete"), &json!(true)));
}

/// What was said of tasks in 2025-11-25 means nothing here.
#[tokio::test]
async fn the_older_words_are_unknown() {
    let gate = Arc::default();
    let mut client = talk(&gate);
    let hinted = json!({"name": "greet", "arguments": {"name": "World"}, "task": {"ttl": 60000, "pollInterval": 100}});
    let result = client.ask("tools/call", hinted).await.unwrap();
    assert_eq!((&result["resultType"], text(&result)), (&json!("complete"), "Hello, World!"));
    let id = client.begin("work", json!({"label": "it"})).await;
    for method in ["tasks/result", "tasks/list", "tasks/delete"] {
        assert_eq!(client.about(method, &id).await.unwrap_err().code, -32601, "{method}");
    }
}

#[tokio::test]
async fn nothing_is_sent_beside_a_task_but_its_message_is_told() {
    let gate = Arc::<Gate>::default();
    let mut client = talk(&gate);
    let meta = json!({"progressToken": 7, "io.modelcontextprotocol/logLevel": "debug",
        "io.modelcontextprotocol/clientCapabilities": client.capabilities});
    let created = client.client.request("tools/call", json!({"name": "progress", "_meta": meta})).await.unwrap();
    let id = created["taskId"].as_str().unwrap();
    for _ in 0..2000 {
        if client.about("tasks/get", id).await.unwrap()["statusMessage"] == "the first third" {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    gate.open();
    until(|| gate.begun.load(Ordering::SeqCst) == 2).await;
    sleep(Duration::from_millis(200)).await;
    let told = client.until(id, "working").await["statusMessage"].as_str().unwrap().to_owned();
    assert_eq!((told.len(), told.chars().next()), (1024, Some('é')));
    gate.open();
    client.until(id, "completed").await;
    assert_eq!(client.notifications(), Vec::<Value>::new());
}
