//! The extension of 2026-07-28.

use super::*;

const REVISION: Revision = Revision::V2026_07_28;

fn connect(gate: &Arc<Gate>) -> ValidatingClient {
    ValidatingClient::connect(server(gate), REVISION)
}

/// Returns the sorted member names of an object.
fn members(object: &Value) -> Vec<&str> {
    let mut names: Vec<_> = object.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

async fn update(client: &mut ValidatingClient, task: &str, answers: Value) {
    let ack = client.request("tasks/update", json!({"taskId": task, "inputResponses": answers})).await.unwrap();
    assert_eq!(members(&ack), ["_meta", "resultType"]);
    assert_eq!(ack["resultType"], "complete");
}

/// Polls a task until its pending inputs have exactly these keys.
async fn wait_for_inputs(client: &mut ValidatingClient, task: &str, keys: &[&str]) -> Value {
    for _ in 0..2000 {
        let found = client.task_request("tasks/get", task).await.unwrap();
        if found["status"] == "input_required" && members(&found["inputRequests"]) == keys {
            return found;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("the task never asks for {keys:?}");
}

#[tokio::test]
async fn a_task_is_created_polled_and_completed() {
    let gate = Arc::default();
    let mut client = connect(&gate);
    let created = client.call("work", json!({"label": "it"})).await.unwrap();
    let fields = ["_meta", "createdAt", "lastUpdatedAt", "pollIntervalMs", "resultType", "status", "taskId", "ttlMs"];
    assert_eq!(members(&created), fields);
    assert_eq!(created["resultType"], "task");
    assert_eq!((&created["ttlMs"], &created["pollIntervalMs"]), (&json!(3_600_000), &json!(1000)));
    assert!(created["createdAt"].as_str().is_some_and(|time| time.len() == 24 && time.ends_with('Z')));
    let id = created["taskId"].as_str().unwrap();
    assert!(id.len() >= 32, "{id}");
    let working = client.task_request("tasks/get", id).await.unwrap();
    assert_eq!(members(&working), fields);
    assert_eq!((&working["status"], &working["resultType"]), (&json!("working"), &json!("complete")));
    gate.open();
    let done = client.wait_for_status(id, "completed").await;
    assert_eq!(text(&done["result"]), "it is done");
    assert_eq!(done["result"]["resultType"], "complete");
    assert!(done["result"]["_meta"].get(RELATED).is_none() && done.get("error").is_none());
    client.run_another_task().await;
    assert_eq!(client.task_request("tasks/get", id).await.unwrap(), done);
}

#[tokio::test]
async fn failures_appear_as_result_or_error() {
    for (tool, status, expected) in [
        ("failing_job", "completed", json!({"isError": true, "text": "the job failed"})),
        ("impatient", "completed", json!({"isError": true, "text": "`impatient` did not finish within 20ms"})),
        ("protocol_error_job", "failed", json!({"code": 42, "message": "no such job", "data": {"job": 7}})),
        ("panics", "failed", json!({"code": -32603, "message": "`panics` failed: internal error"})),
        ("panics_twice", "failed", json!({"code": -32603, "message": "`panics_twice` failed: internal error"})),
    ] {
        let gate = Arc::<Gate>::default();
        if tool != "impatient" {
            gate.open();
        }
        let mut client = connect(&gate);
        let id = client.start_task(tool, json!({})).await;
        let ended = client.wait_for_status(&id, status).await;
        if status == "failed" {
            assert_eq!(ended["error"], expected, "{tool}");
            assert_eq!(ended["statusMessage"], expected["message"], "{tool}");
            assert!(ended.get("result").is_none(), "{tool}");
        } else {
            assert_eq!(ended["result"]["isError"], true, "{tool}");
            assert_eq!(text(&ended["result"]), expected["text"], "{tool}");
            assert!(ended.get("error").is_none(), "{tool}");
        }
    }
}

#[tokio::test]
async fn a_failure_without_text_has_no_status_message() {
    /// Fail without a reason.
    #[tool(task)]
    async fn fails_silently() -> ToolResult {
        let mut result = ToolResult::default();
        result.is_error = true;
        result
    }

    let mut client = ValidatingClient::connect(Server::empty("tasks", "1.0.0").with::<fails_silently>(), REVISION);
    let id = client.start_task("fails_silently", json!({})).await;
    let ended = client.wait_for_status(&id, "completed").await;
    assert_eq!((&ended["result"]["isError"], ended.get("statusMessage")), (&json!(true), None));
}

/// No task is created for a function that cannot be called.
#[tokio::test]
async fn a_call_that_must_be_a_task_fails_if_its_arguments_are_invalid() {
    /// Count, always as a task.
    #[tool(task = "required")]
    async fn counts(to: u8) -> u8 {
        to
    }

    let mut client = ValidatingClient::connect(server(&Arc::default()).with::<counts>(), REVISION);
    let refused = client.call("counts", json!({"to": "ten"})).await.unwrap();
    assert_eq!((&refused["resultType"], &refused["isError"]), (&json!("complete"), &json!(true)), "{refused}");
    assert!(text(&refused).starts_with("invalid arguments for `counts`"), "{refused}");
}

#[tokio::test]
async fn blocking_functions_run_as_tasks() {
    let mut client = connect(&Arc::default());
    let id = client.start_task("block", json!({"label": "it"})).await;
    assert_eq!(text(&client.wait_for_status(&id, "completed").await["result"]), "it");
}

#[tokio::test]
async fn tasks_get_returns_the_questions_of_a_task() {
    let mut client = connect(&Arc::default());
    let id = client.start_task("confirm_delete", json!({"filename": "a.txt"})).await;
    let waiting = client.wait_for_status(&id, "input_required").await;
    let request = &waiting["inputRequests"]["confirm"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "Delete a.txt?");
    update(&mut client, &id, json!({"unknown-key": {"ignored": true}})).await;
    assert_eq!(client.wait_for_status(&id, "input_required").await["inputRequests"], waiting["inputRequests"]);
    update(&mut client, &id, json!({"confirm": {"action": "accept", "content": {"confirm": true}}})).await;
    assert_eq!(text(&client.wait_for_status(&id, "completed").await["result"]), "deleted a.txt");
    // A finished task ignores responses.
    update(&mut client, &id, json!({"confirm": {"action": "decline"}})).await;
    assert_eq!(text(&client.wait_for_status(&id, "completed").await["result"]), "deleted a.txt");
}

#[tokio::test]
async fn invalid_answers_are_asked_for_again() {
    for (wrong, succeeds) in [(1, true), (2, true), (3, false)] {
        let mut client = connect(&Arc::default());
        let id = client.start_task("confirm_delete", json!({"filename": "a"})).await;
        let key = |count: usize| if count == 1 { "confirm".to_owned() } else { format!("confirm-{count}") };
        for count in 1..=wrong {
            wait_for_inputs(&mut client, &id, &[&key(count)]).await;
            let waiting = client.task_request("tasks/get", &id).await.unwrap();
            let message = waiting["inputRequests"][key(count)]["params"]["message"].as_str().unwrap();
            let reasons = message.matches("The last answer was not accepted: ").count();
            assert_eq!(reasons, usize::from(count > 1), "{message}");
            let wrong = [json!(7), json!({"action": "accept", "content": {"confirm": "perhaps"}})][count % 2].take();
            update(&mut client, &id, json!({key(count): wrong})).await;
        }
        if succeeds {
            wait_for_inputs(&mut client, &id, &[&key(wrong + 1)]).await;
            let answers = json!({key(wrong + 1): {"action": "accept", "content": {"confirm": true}}});
            update(&mut client, &id, answers).await;
        }
        let ended = client.wait_for_status(&id, "completed").await;
        assert_eq!(ended["result"]["isError"] == true, !succeeds, "{ended}");
    }
}

#[tokio::test]
async fn a_task_can_ask_while_another_question_is_pending() {
    let accept = |content: Value| json!({"action": "accept", "content": content});
    let gate = Arc::<Gate>::default();
    let mut client = ValidatingClient::connect(server(&gate).with::<asks_twice>(), REVISION);
    let id = client.start_task("asks_twice", json!({})).await;
    wait_for_inputs(&mut client, &id, &["name"]).await;
    gate.open();
    wait_for_inputs(&mut client, &id, &["confirm", "name"]).await;
    let answers = json!({"name": accept(json!({"name": "Ada"})), "confirm": accept(json!({"confirm": true}))});
    update(&mut client, &id, answers).await;
    assert_eq!(text(&client.wait_for_status(&id, "completed").await["result"]), "Ada: true");
}

#[tokio::test]
async fn answers_can_arrive_separately_and_no_key_is_reused() {
    let accept = |name: &str| json!({"action": "accept", "content": {"name": name, "confirm": true}});
    let mut client = connect(&Arc::default());
    let id = client.start_task("multi_input", json!({})).await;
    wait_for_inputs(&mut client, &id, &["confirm", "name"]).await;
    update(&mut client, &id, json!({"name": accept("Ada")})).await;
    let waiting = client.task_request("tasks/get", &id).await.unwrap();
    assert_eq!((&waiting["status"], members(&waiting["inputRequests"])), (&json!("input_required"), vec!["confirm"]));
    update(&mut client, &id, json!({"name": accept("Eve")})).await;
    update(&mut client, &id, json!({"confirm": accept("")})).await;
    wait_for_inputs(&mut client, &id, &["name-2"]).await;
    update(&mut client, &id, json!({"name": accept("Eve"), "name-2": accept("Bob")})).await;
    assert_eq!(text(&client.wait_for_status(&id, "completed").await["result"]), "Ada and Bob");
}

#[tokio::test]
async fn a_missing_capability_fails_the_task() {
    let mut client = connect(&Arc::default());
    client.capabilities = json!({"extensions": {EXTENSION: {}}});
    let id = client.start_task("confirm_delete", json!({"filename": "a"})).await;
    assert_eq!(client.wait_for_status(&id, "failed").await["error"]["code"], -32021);
}

#[tokio::test]
async fn a_deferred_call_asks_in_rounds_first_and_then_as_a_task() {
    let gate = Arc::default();
    let mut client = connect(&gate);
    let asked = client.request("tools/call", json!({"name": "ask_then_work"})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(members(&asked["inputRequests"]), ["user_name"]);
    assert!(asked.get("taskId").is_none());
    let answers = json!({"user_name": {"action": "accept", "content": {"name": "Alice"}}});
    let again = json!({"name": "ask_then_work", "inputResponses": answers, "requestState": asked["requestState"]});
    let created = client.request("tools/call", again).await.unwrap();
    assert_eq!(created["resultType"], "task", "{created}");
    assert!(created.get("requestState").is_none() && created.get("inputRequests").is_none());
    let id = created["taskId"].as_str().unwrap();
    for _ in 0..2000 {
        if client.task_request("tasks/get", id).await.unwrap()["statusMessage"] == "half" {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(client.wait_for_status(id, "working").await["statusMessage"], "half");
    gate.open();
    wait_for_inputs(&mut client, id, &["user_name"]).await;
    update(&mut client, id, json!({"user_name": {"action": "accept", "content": {"confirm": true}}})).await;
    assert_eq!(text(&client.wait_for_status(id, "completed").await["result"]), "worked for Alice");
    assert_eq!(gate.dropped(), 0);
}

#[tokio::test]
async fn a_deferred_call_may_finish_without_becoming_a_task() {
    let mut client = connect(&Arc::default());
    let declined = json!({"name": "ask_then_work", "inputResponses": {"user_name": {"action": "decline"}}});
    let result = client.request("tools/call", declined).await.unwrap();
    assert_eq!((&result["resultType"], text(&result)), (&json!("complete"), "nobody"));
}

#[tokio::test]
async fn a_task_continues_with_the_values_of_its_call() {
    /// Compute a value before and after the call becomes a task.
    #[tool(task = "deferred")]
    async fn compute(ctx: &Context) -> Result<String, Fault> {
        let first: String = ctx.once("value", async { "first".to_owned() }).await?;
        ctx.become_task().await;
        let second: String = ctx.once("value", async { "second".to_owned() }).await?;
        Ok(format!("{first} {second}"))
    }

    let mut client = ValidatingClient::connect(Server::empty("tasks", "1.0.0").with::<compute>(), REVISION);
    let created = client.request("tools/call", json!({"name": "compute"})).await.unwrap();
    let completed = client.wait_for_status(created["taskId"].as_str().unwrap(), "completed").await;
    assert_eq!(text(&completed["result"]), "first first");
}

#[tokio::test]
async fn become_task_does_nothing_without_the_extension() {
    let gate = Arc::<Gate>::default();
    let mut client = ValidatingClient::without_extension(server(&gate));
    gate.open();
    let answers = json!({"user_name": {"action": "accept", "content": {"name": "Alice"}}});
    let asked =
        client.request("tools/call", json!({"name": "ask_then_work", "inputResponses": answers})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert_eq!(asked["inputRequests"]["user_name"]["params"]["message"], "Sure?");
}

#[tokio::test]
async fn cancelling_drops_the_function_and_is_idempotent() {
    let gate = Arc::<Gate>::default();
    let mut client = connect(&gate);
    let id = client.start_task("work", json!({"label": "it"})).await;
    wait_until(|| gate.entered() == 1).await;
    for _ in 0..2 {
        let ack = client.task_request("tasks/cancel", &id).await.unwrap();
        assert_eq!(members(&ack), ["_meta", "resultType"]);
        let task = client.task_request("tasks/get", &id).await.unwrap();
        let expected = ("cancelled", "the client cancelled the task");
        assert_eq!((task["status"].as_str(), task["statusMessage"].as_str()), (Some(expected.0), Some(expected.1)));
    }
    wait_until(|| gate.dropped() == 1).await;
    client.run_another_task().await;
    assert_eq!(client.task_request("tasks/get", &id).await.unwrap()["status"], "cancelled");
    // Cancelling a finished task changes nothing.
    let id = client.start_task("protocol_error_job", json!({})).await;
    client.wait_for_status(&id, "failed").await;
    client.task_request("tasks/cancel", &id).await.unwrap();
    assert_eq!(client.task_request("tasks/get", &id).await.unwrap()["status"], "failed");
}

#[tokio::test]
async fn invalid_arguments_are_answered_without_a_task() {
    let mut client = connect(&Arc::default());
    let result = client.call("work", json!({"label": 7})).await.unwrap();
    assert_eq!((&result["resultType"], &result["isError"]), (&json!("complete"), &json!(true)));
}

#[tokio::test]
async fn parameters_and_methods_of_2025_11_25_are_unknown() {
    let gate = Arc::default();
    let mut client = connect(&gate);
    let params = json!({"name": "greet", "arguments": {"name": "World"}, "task": {"ttl": 60000, "pollInterval": 100}});
    let result = client.request("tools/call", params).await.unwrap();
    assert_eq!((&result["resultType"], text(&result)), (&json!("complete"), "Hello, World!"));
    let id = client.start_task("work", json!({"label": "it"})).await;
    for method in ["tasks/result", "tasks/list", "tasks/delete"] {
        assert_eq!(client.task_request(method, &id).await.unwrap_err().code, -32601, "{method}");
    }
}

#[tokio::test]
async fn progress_becomes_the_status_message_instead_of_a_notification() {
    let gate = Arc::<Gate>::default();
    let mut client = connect(&gate);
    let meta = json!({"progressToken": 7, "io.modelcontextprotocol/logLevel": "debug",
        "io.modelcontextprotocol/clientCapabilities": client.capabilities});
    let created = client.client.request("tools/call", json!({"name": "progress", "_meta": meta})).await.unwrap();
    let id = created["taskId"].as_str().unwrap();
    for _ in 0..2000 {
        if client.task_request("tasks/get", id).await.unwrap()["statusMessage"] == "the first third" {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    gate.open();
    wait_until(|| gate.entered() == 2).await;
    sleep(Duration::from_millis(200)).await;
    let message = client.wait_for_status(id, "working").await["statusMessage"].as_str().unwrap().to_owned();
    assert_eq!((message.len(), message.chars().next()), (1024, Some('é')));
    gate.open();
    let completed = client.wait_for_status(id, "completed").await;
    assert_eq!(completed.get("statusMessage"), None, "the message describes the work: {completed}");
    assert_eq!(client.notifications(), Vec::<Value>::new());
}
