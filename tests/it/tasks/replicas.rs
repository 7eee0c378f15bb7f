//! Tasks of servers that share a backend: who asks their questions, what other releases store, and servers that are
//! killed.

use mcp_runtime::{
    ask::{IncludeContext, SampleRequest, ToolChoice},
    auth::Principal,
    backend::{MemoryBackend, RecordCondition, Records},
};

use super::*;

const SESSION: Revision = Revision::V2025_11_25;
const LEASE: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const LOST: &str = "the task was lost, because the process that ran it has ended: its function may have run";

fn start(backend: &Arc<MemoryBackend>, gate: &Arc<Gate>) -> Server {
    server(gate).backend(Arc::clone(backend)).lease(LEASE)
}

/// Connects a client of one principal to a new server.
fn connect(backend: &Arc<MemoryBackend>, gate: &Arc<Gate>, revision: Revision) -> ValidatingClient {
    let mut client = ValidatingClient::connect(start(backend, gate), revision);
    client.client = client.client.with_extension(Principal::new("ada"));
    client
}

/// Connects a client whose tasks may ask.
fn connect_to_be_asked(backend: &Arc<MemoryBackend>, gate: &Arc<Gate>) -> ValidatingClient {
    let mut client = connect(backend, gate, SESSION);
    client.client = client.client.answering(|_| panic!("only requests for the result are asked"));
    client
}

/// Connects a client that declares that it can be asked, and leaves the answers to the test.
fn connect_answering(backend: &Arc<MemoryBackend>, gate: &Arc<Gate>) -> ValidatingClient {
    connect_declaring(backend, gate, &json!({"elicitation": {}}))
}

fn connect_declaring(backend: &Arc<MemoryBackend>, gate: &Arc<Gate>, capabilities: &Value) -> ValidatingClient {
    let mut client = connect(backend, gate, SESSION);
    client.client = TestClient::uninitialized(start(backend, gate), SESSION).with_extension(Principal::new("ada"));
    let capable = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": SESSION.as_str(), "capabilities": capabilities,
        "clientInfo": {"name": "t", "version": "1"}}});
    client.client.send_raw(capable.to_string().as_bytes());
    client.client.notify("notifications/initialized", json!({}));
    client
}

/// Waits for a message with this method. Drops earlier ones.
async fn until_method(client: &mut ValidatingClient, method: &str) -> Value {
    for _ in 0..1000 {
        let received = client.wait_for_notifications(1).await;
        if let Some(found) = received.into_iter().find(|message| message["method"] == method) {
            return found;
        }
    }
    panic!("{method} never arrives");
}

fn answer(client: &mut ValidatingClient, question: &Value, content: &Value) {
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": content}});
    client.client.send_raw(answer.to_string().as_bytes());
}

/// Several servers hold requests for the result of one task. As within one server, the newest request sends the
/// questions.
#[tokio::test]
async fn one_server_at_a_time_asks_a_question() {
    let (backend, gate) = (Arc::<MemoryBackend>::default(), Arc::<Gate>::default());
    gate.open();
    let mut creator = connect_to_be_asked(&backend, &gate);
    let [mut older, mut newer] = [(); 2].map(|()| connect_answering(&backend, &gate));
    let id = creator.start_task("ask_then_work", json!({})).await;
    let first = older.send("tasks/result", json!({"taskId": id}));
    until_method(&mut older, "elicitation/create").await;
    let before = older.task_request("tasks/get", &id).await.unwrap();
    let second = newer.send("tasks/result", json!({"taskId": id}));
    until_method(&mut newer, "elicitation/create").await;
    until_method(&mut older, "notifications/cancelled").await;
    assert_eq!(older.task_request("tasks/get", &id).await.unwrap(), before, "clients do not see who asks");
    // After the cancellation of the newest request, the other one sends the questions.
    newer.client.notify("notifications/cancelled", json!({"requestId": second}));
    let question = until_method(&mut older, "elicitation/create").await;
    let third = newer.send("tasks/result", json!({"taskId": id}));
    let repeated = until_method(&mut newer, "elicitation/create").await;
    assert_eq!(question["params"]["message"], repeated["params"]["message"]);
    until_method(&mut older, "notifications/cancelled").await;
    answer(&mut newer, &repeated, &json!({"name": "Alice"}));
    // The next question is sent once.
    let question = until_method(&mut newer, "elicitation/create").await;
    assert_eq!(question["params"]["message"], "Sure?");
    answer(&mut newer, &question, &json!({"confirm": true}));
    assert_eq!(text(&newer.answer(third, "tasks/result").await.unwrap()), "worked for Alice");
    assert_eq!(text(&older.answer(first, "tasks/result").await.unwrap()), "worked for Alice");
    let asked: Vec<_> = [older.notifications(), newer.notifications()].concat();
    assert!(asked.iter().all(|message| message["method"] != "elicitation/create"), "{asked:?}");
}

/// The newest request cannot ask, because its session has not declared that it can be asked.
#[tokio::test]
async fn a_session_without_the_capability_is_not_asked() {
    let (backend, gate) = (Arc::<MemoryBackend>::default(), Arc::<Gate>::default());
    gate.open();
    let mut creator = connect_to_be_asked(&backend, &gate);
    let (mut capable, mut incapable) = (connect_answering(&backend, &gate), connect(&backend, &gate, SESSION));
    let id = creator.start_task("ask_then_work", json!({})).await;
    let first = capable.send("tasks/result", json!({"taskId": id}));
    let name = until_method(&mut capable, "elicitation/create").await;
    incapable.task_request("tasks/get", &id).await.unwrap();
    let second = incapable.send("tasks/result", json!({"taskId": id}));
    for _ in 0..10 {
        assert_eq!(incapable.task_request("tasks/get", &id).await.unwrap()["status"], "input_required");
    }
    assert_eq!(capable.notifications(), Vec::<Value>::new());
    answer(&mut capable, &name, &json!({"name": "Alice"}));
    let sure = until_method(&mut capable, "elicitation/create").await;
    answer(&mut capable, &sure, &json!({"confirm": true}));
    assert_eq!(text(&capable.answer(first, "tasks/result").await.unwrap()), "worked for Alice");
    assert_eq!(text(&incapable.answer(second, "tasks/result").await.unwrap()), "worked for Alice");
    let asked: Vec<_> = [capable.notifications(), incapable.notifications()].concat();
    assert!(asked.iter().all(|message| message["method"] != "elicitation/create"), "{asked:?}");
    // The function learns whether the session that has created the task can be asked.
    let refused = incapable.start_task("confirm_delete", json!({"filename": "a"})).await;
    let task = incapable.task_request("tasks/result", &refused).await;
    let call = incapable.request("tools/call", json!({"name": "confirm_delete", "arguments": {"filename": "a"}})).await;
    for result in [task.unwrap(), call.unwrap()] {
        assert_eq!(result["isError"], true);
        assert_eq!(text(&result), "the client has not declared the capability `elicitation`");
    }
}

/// The newest request has asked a question, and cannot ask the next one.
#[tokio::test]
async fn an_older_request_asks_what_the_newest_one_cannot() {
    /// Ask the user, then the model.
    #[tool(task)]
    async fn asks_user_and_model(ctx: &Context) -> Result<String, Fault> {
        let _ = ctx.elicit::<Confirm>("confirm", "Sure?").await?;
        let request = SampleRequest::new("Which?").tool_choice(ToolChoice::None);
        Ok(ctx.sample(request.include_context(IncludeContext::ThisServer)).await?.text())
    }

    let (backend, gate) = (Arc::<MemoryBackend>::default(), Arc::<Gate>::default());
    let mut creator = connect_to_be_asked(&backend, &gate);
    let server = start(&backend, &gate).with::<asks_user_and_model>();
    let client = server.test_client(SESSION).with_extension(Principal::new("ada"));
    creator.client = client.answering(|_| panic!("only requests for the result are asked"));
    let capable = json!({"elicitation": {}, "sampling": {"tools": {}, "context": {}}});
    let mut older = connect_declaring(&backend, &gate, &capable);
    // One of the two capabilities is not enough.
    let mut newer = connect_declaring(&backend, &gate, &json!({"elicitation": {}, "sampling": {"tools": {}}}));
    let id = creator.start_task("asks_user_and_model", json!({})).await;
    let first = older.send("tasks/result", json!({"taskId": id}));
    until_method(&mut older, "elicitation/create").await;
    let second = newer.send("tasks/result", json!({"taskId": id}));
    let question = until_method(&mut newer, "elicitation/create").await;
    answer(&mut newer, &question, &json!({"confirm": true}));
    let question = until_method(&mut older, "sampling/createMessage").await;
    let sampled = json!({"role": "assistant", "content": {"type": "text", "text": "this"}, "model": "m"});
    let response = json!({"jsonrpc": "2.0", "id": question["id"], "result": sampled});
    older.client.send_raw(response.to_string().as_bytes());
    for (client, request) in [(&mut older, first), (&mut newer, second)] {
        assert_eq!(text(&client.answer(request, "tasks/result").await.unwrap()), "this");
    }
}

/// A runtime that was shut down runs nothing, like a process that was killed.
fn in_process_that_is_killed<T: Send + 'static>(run: impl Future<Output = T> + Send + 'static) -> T {
    let process = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(run)
    });
    process.join().unwrap()
}

#[tokio::test]
async fn another_server_asks_if_the_one_that_has_asked_was_killed() {
    let (backend, gate) = (Arc::<MemoryBackend>::default(), Arc::<Gate>::default());
    let mut creator = connect_to_be_asked(&backend, &gate);
    let id = creator.start_task("confirm_delete", json!({"filename": "a"})).await;
    let mut client = connect_answering(&backend, &gate);
    let waits = client.send("tasks/result", json!({"taskId": id}));
    until_method(&mut client, "elicitation/create").await;
    let (shared, task) = (Arc::clone(&backend), id.clone());
    let _killed = in_process_that_is_killed(async move {
        let mut killed = connect_answering(&shared, &Arc::default());
        killed.send("tasks/result", json!({"taskId": task}));
        until_method(&mut killed, "elicitation/create").await;
        killed
    });
    until_method(&mut client, "notifications/cancelled").await;
    let question = until_method(&mut client, "elicitation/create").await;
    answer(&mut client, &question, &json!({"confirm": true}));
    assert_eq!(text(&client.answer(waits, "tasks/result").await.unwrap()), "deleted a");
}

/// The lease of the killed server expires before its tasks are read, so that each request is the first to notice.
#[tokio::test]
async fn every_request_about_a_task_notices_that_its_server_was_killed() {
    for revision in [SESSION, Revision::V2026_07_28] {
        let backend = Arc::<MemoryBackend>::default();
        let shared = Arc::clone(&backend);
        let (_killed, tasks) = in_process_that_is_killed(async move {
            let mut client = connect(&shared, &Arc::default(), revision);
            let mut tasks = Vec::new();
            for _ in 0..6 {
                tasks.push(client.start_task("work", json!({"label": "it"})).await);
            }
            (client, tasks)
        });
        wait_until_gone(&backend).await;
        let mut client = connect(&backend, &Arc::default(), revision);
        let [get, cancel, result, update, ..] = &tasks[..] else { panic!("six tasks") };
        let failed = client.task_request("tasks/get", get).await.unwrap();
        assert_eq!((&failed["status"], &failed["statusMessage"]), (&json!("failed"), &json!(LOST)), "{revision}");
        let cancelled = client.task_request("tasks/cancel", cancel).await;
        if client.is_stateless() {
            assert_eq!(cancelled.unwrap()["resultType"], "complete");
            let answers = json!({"taskId": update, "inputResponses": {"confirm": {"action": "decline"}}});
            assert_eq!(client.request("tasks/update", answers).await.unwrap()["resultType"], "complete");
        } else {
            assert_eq!(cancelled.unwrap_err().code, -32602);
            let error = client.task_request("tasks/result", result).await.unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (-32603, LOST));
            let listed = client.request("tasks/list", json!({})).await.unwrap();
            let listed = listed["tasks"].as_array().unwrap();
            assert_eq!(listed.len(), 6);
            assert!(
                listed.iter().all(|task| task["status"] == "failed" && task["statusMessage"] == LOST),
                "{listed:?}"
            );
        }
        for task in &tasks {
            let state = client.task_request("tasks/get", task).await.unwrap();
            let is_unnoticed = client.is_stateless() && task == result;
            assert!(state["status"] == "failed" || is_unnoticed, "{revision}: {state}");
        }
    }
}

/// A server that has lost its lease takes another one, under which its tasks go on.
#[tokio::test]
async fn a_task_outlives_the_lease_of_its_server() {
    for revision in [SESSION, Revision::V2026_07_28] {
        let (backend, gate) = (Arc::<MemoryBackend>::default(), Arc::<Gate>::default());
        let mut here = connect(&backend, &gate, revision);
        let id = here.start_task("work", json!({"label": "it"})).await;
        wait_until(|| gate.entered() == 1).await;
        let [lost] = &slots(&backend).await[..] else { panic!("not one task") };
        assert!(backend.delete(lost, RecordCondition::Always).await.unwrap());
        for _ in 0..5000 {
            if slots(&backend).await != [lost.as_str()] {
                break;
            }
            sleep(Duration::from_millis(1)).await;
        }
        let mut there = connect(&backend, &gate, revision);
        let state = there.task_request("tasks/get", &id).await.unwrap();
        assert_eq!(state["status"], "working", "{revision}: {state}");
        gate.open();
        here.wait_for_status(&id, "completed").await;
    }
}

/// Waits until no server has a lease.
async fn wait_until_gone(backend: &MemoryBackend) {
    for _ in 0..2000 {
        let mut alive = 0;
        for record in slots(backend).await {
            alive += usize::from(backend.get(&record).await.unwrap().is_some());
        }
        if alive == 0 {
            return;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("the lease never passes");
}

/// Returns the leases of the servers that run the tasks.
async fn slots(backend: &MemoryBackend) -> Vec<String> {
    let tasks = backend.list("mcp/1/task", None, 9).await.unwrap();
    let state = |value: &[u8]| serde_json::from_slice::<Value>(value).unwrap();
    tasks
        .iter()
        .map(|(_, task)| format!("mcp/1/replica/{}", state(&task.value)["runner"].as_u64().unwrap() >> 32))
        .collect()
}

/// Changes the record of the only task.
async fn edit(backend: &MemoryBackend, change: impl FnOnce(&mut Value)) {
    let [(name, record)] = &backend.list("mcp/1/task", None, 9).await.unwrap()[..] else { panic!("not one task") };
    let mut state = serde_json::from_slice(&record.value).unwrap();
    change(&mut state);
    let (key, condition) = (format!("mcp/1/task:{name}"), RecordCondition::Version(record.version));
    assert!(backend.set(&key, condition, serde_json::to_vec(&state).unwrap(), HOUR).await.unwrap().is_some());
}

async fn state(backend: &MemoryBackend) -> Value {
    serde_json::from_slice(&backend.list("mcp/1/task", None, 9).await.unwrap()[0].1.value).unwrap()
}

/// Servers of two releases share a backend while one replaces the other.
#[tokio::test]
async fn what_a_newer_release_has_stored_is_kept() {
    let backend = Arc::<MemoryBackend>::default();
    let mut client = connect(&backend, &Arc::default(), Revision::V2026_07_28);
    let id = client.start_task("multi_input", json!({})).await;
    client.wait_for_status(&id, "input_required").await;
    edit(&backend, |state| {
        state["newer"] = json!({"a": [1]});
        for input in state["inputs"].as_array_mut().unwrap() {
            input["newer"] = json!("b");
        }
    })
    .await;
    let answers = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
    client.request("tasks/update", json!({"taskId": id, "inputResponses": answers})).await.unwrap();
    for _ in 0..2000 {
        if state(&backend).await["inputs"].as_array().unwrap().len() == 1 {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    let stored = state(&backend).await;
    assert_eq!((&stored["inputs"][0]["newer"], stored["inputs"].get(1)), (&json!("b"), None), "{stored}");
    for name in ["name", "name-2"] {
        while client.wait_for_status(&id, "input_required").await["inputRequests"].get(name).is_none() {
            sleep(Duration::from_millis(1)).await;
        }
        let answers = json!({name: {"action": "accept", "content": {"name": "Alice"}}});
        client.request("tasks/update", json!({"taskId": id, "inputResponses": answers})).await.unwrap();
    }
    client.wait_for_status(&id, "completed").await;
    assert_eq!(state(&backend).await["newer"], json!({"a": [1]}));
}

#[tokio::test]
async fn a_task_that_cannot_be_read_is_not_unknown() {
    for (change, revision) in [("form", SESSION), ("status", SESSION), ("form", Revision::V2026_07_28)] {
        let backend = Arc::<MemoryBackend>::default();
        let [mut running, mut client] = [(); 2].map(|()| connect(&backend, &Arc::default(), revision));
        let id = running.start_task("work", json!({"label": "it"})).await;
        edit(&backend, |state| state[change] = json!(7)).await;
        let methods = if client.is_stateless() { ["tasks/get", "tasks/cancel"] } else { ["tasks/get", "tasks/result"] };
        for method in methods {
            let error = client.task_request(method, &id).await.unwrap_err();
            let message = "the task exists, but this release of the server cannot read it: retry later";
            assert_eq!((error.code, error.message.as_str()), (-32603, message), "{method} after {change}");
        }
        if !client.is_stateless() {
            let other = client.start_task("work", json!({"label": "it"})).await;
            let listed = client.request("tasks/list", json!({})).await.unwrap();
            assert_eq!((&listed["tasks"][0]["taskId"], listed["tasks"].get(1)), (&json!(other), None));
        }
    }
}
