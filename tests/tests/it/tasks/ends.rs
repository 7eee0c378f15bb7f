//! What ends a task, and what does not.

use mcp_runtime::{MemoryTasks, Stored, TaskRecord, TaskRoom, TaskStore, TaskStoreError};

use super::*;

const BOTH: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

#[tokio::test]
async fn a_task_whose_time_is_over_is_gone() {
    for revision in BOTH {
        let gate = Arc::<Gate>::default();
        let mut client = Talk::to(server(&gate).task_ttl(Duration::from_millis(50)), revision);
        let id = client.begin("work", json!({"label": "it"})).await;
        let waiting = (revision == Revision::V2025_11_25).then(|| client.send("tasks/result", json!({"taskId": id})));
        until(|| gate.dropped() == 1).await;
        sleep(Duration::from_millis(5)).await;
        assert_eq!(client.about("tasks/get", &id).await.unwrap_err().code, -32602, "{revision}");
        if let Some(waiting) = waiting {
            assert_eq!(client.answer(waiting, "tasks/result").await.unwrap_err().code, -32602);
        }
    }
}

#[tokio::test]
async fn a_client_may_have_a_task_kept_so_long_and_no_longer() {
    for (asked, expected) in [(Some(1500), 1500), (Some(86_400_000), 2000), (None, 1000)] {
        let server = server(&Arc::default()).task_ttl(Duration::from_secs(1)).max_task_ttl(Duration::from_secs(2));
        let mut client = Talk::to(server, Revision::V2025_11_25);
        let params = json!({"name": "work", "arguments": {"label": "it"}, "task": {"ttl": asked}});
        let created = client.ask("tools/call", params).await.unwrap();
        assert_eq!(created["task"]["ttl"], expected);
    }
}

#[tokio::test]
async fn a_task_ends_with_its_server() {
    for revision in BOTH {
        let gate = Arc::<Gate>::default();
        let server = server(&gate).build().unwrap();
        let mut client = Talk {
            client: server.test_client(revision),
            official: None,
            capabilities: json!({"extensions": {EXTENSION: {}}}),
        };
        client.begin("work", json!({"label": "it"})).await;
        until(|| gate.begun.load(Ordering::SeqCst) == 1).await;
        drop(client);
        sleep(Duration::from_millis(10)).await;
        assert_eq!(gate.dropped(), 0, "{revision}: the connection alone ended it");
        drop(server);
        until(|| gate.dropped() == 1).await;
    }
}

/// The call that made a task can be cancelled as little as the connection.
#[tokio::test]
async fn cancelling_the_call_does_not_cancel_its_task() {
    let gate = Arc::<Gate>::default();
    let mut client = Talk::to(server(&gate), Revision::V2026_07_28);
    let id = client.begin("work", json!({"label": "it"})).await;
    for request in 1..5 {
        client.client.notify("notifications/cancelled", json!({"requestId": request}));
    }
    gate.open();
    assert_eq!(text(&client.until(&id, "completed").await["result"]), "it is done");
}

/// A store that is elsewhere: every answer takes a while, as one over a network does.
#[derive(Debug, Clone, Default)]
struct Distant(Arc<MemoryTasks>);

impl Distant {
    fn after_a_while<'a, T: Send + 'a>(&self, answer: Stored<'a, T>) -> Stored<'a, T> {
        Box::pin(async move {
            sleep(Duration::from_millis(1)).await;
            answer.await
        })
    }
}

impl TaskStore for Distant {
    fn insert(&self, task: TaskRecord, room: TaskRoom) -> Stored<'_, bool> {
        // As text, which is how it travels.
        let task = serde_json::from_str(&serde_json::to_string(&task).unwrap()).unwrap();
        self.after_a_while(self.0.insert(task, room))
    }

    fn load<'a>(&'a self, id: &'a str) -> Stored<'a, Option<TaskRecord>> {
        self.after_a_while(self.0.load(id))
    }

    fn replace(&self, task: TaskRecord) -> Stored<'_, bool> {
        let task = serde_json::from_str(&serde_json::to_string(&task).unwrap()).unwrap();
        self.after_a_while(self.0.replace(task))
    }

    fn page<'a>(&'a self, owner: &'a str, after: Option<(u64, &'a str)>, most: usize) -> Stored<'a, Vec<TaskRecord>> {
        self.after_a_while(self.0.page(owner, after, most))
    }

    fn changed<'a>(&'a self, id: &'a str, version: u64) -> Stored<'a, ()> {
        self.after_a_while(self.0.changed(id, version))
    }
}

/// Two servers with one store: the function runs in one, the client asks the other.
#[tokio::test]
async fn servers_share_their_tasks_by_a_store() {
    let store = Distant::default();
    let gate = Arc::<Gate>::default();
    let new = || Talk::to(server(&gate).task_store(store.clone()), Revision::V2026_07_28);
    let (mut here, mut there) = (new(), new());
    let id = here.begin("confirm_delete", json!({"filename": "a"})).await;
    there.until(&id, "input_required").await;
    let answers = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
    there.ask("tasks/update", json!({"taskId": id, "inputResponses": answers})).await.unwrap();
    assert_eq!(text(&there.until(&id, "completed").await["result"]), "deleted a");
    assert_eq!(text(&here.until(&id, "completed").await["result"]), "deleted a");
    let id = here.begin("work", json!({"label": "it"})).await;
    until(|| gate.begun.load(Ordering::SeqCst) == 1).await;
    there.about("tasks/cancel", &id).await.unwrap();
    until(|| gate.dropped() == 1).await;
    assert_eq!(here.about("tasks/get", &id).await.unwrap()["status"], "cancelled");
}

/// A store that fails to tell of changes and to make them, so often.
#[derive(Debug, Clone)]
struct Flaky(Arc<MemoryTasks>, Arc<AtomicUsize>);

impl Flaky {
    fn unless_it_fails<'a, T: Send + 'a>(&self, answer: Stored<'a, T>) -> Stored<'a, T> {
        let fails = self.1.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if fails { broken() } else { answer }
    }
}

impl TaskStore for Flaky {
    fn insert(&self, task: TaskRecord, room: TaskRoom) -> Stored<'_, bool> {
        self.0.insert(task, room)
    }

    fn load<'a>(&'a self, id: &'a str) -> Stored<'a, Option<TaskRecord>> {
        self.0.load(id)
    }

    fn replace(&self, task: TaskRecord) -> Stored<'_, bool> {
        self.unless_it_fails(self.0.replace(task))
    }

    fn page<'a>(&'a self, owner: &'a str, after: Option<(u64, &'a str)>, most: usize) -> Stored<'a, Vec<TaskRecord>> {
        self.0.page(owner, after, most)
    }

    fn changed<'a>(&'a self, id: &'a str, version: u64) -> Stored<'a, ()> {
        self.unless_it_fails(self.0.changed(id, version))
    }
}

#[tokio::test]
async fn a_task_that_a_store_ended_has_failed() {
    for failures in [1, 2] {
        let gate = Arc::<Gate>::default();
        let store = Flaky(Arc::default(), Arc::new(AtomicUsize::new(failures)));
        let mut client = Talk::to(server(&gate).task_store(store), Revision::V2026_07_28);
        let id = client.begin("work", json!({"label": "it"})).await;
        let failed = client.until(&id, "failed").await;
        assert_eq!(failed["error"], json!({"code": -32603, "message": "the tasks cannot be reached"}), "{failures}");
        assert_eq!(gate.dropped(), gate.begun.load(Ordering::SeqCst));
    }
}

/// A store that can do nothing.
#[derive(Debug)]
struct Broken;

fn broken<'a, T: Send + 'a>() -> Stored<'a, T> {
    Box::pin(std::future::ready(Err(TaskStoreError::new("the secret address does not answer"))))
}

impl TaskStore for Broken {
    fn insert(&self, _: TaskRecord, _: TaskRoom) -> Stored<'_, bool> {
        broken()
    }

    fn load<'a>(&'a self, _: &'a str) -> Stored<'a, Option<TaskRecord>> {
        broken()
    }

    fn replace(&self, _: TaskRecord) -> Stored<'_, bool> {
        broken()
    }

    fn page<'a>(&'a self, _: &'a str, _: Option<(u64, &'a str)>, _: usize) -> Stored<'a, Vec<TaskRecord>> {
        broken()
    }

    fn changed<'a>(&'a self, _: &'a str, _: u64) -> Stored<'a, ()> {
        broken()
    }
}

#[tokio::test]
async fn a_store_that_fails_is_told_without_its_reasons() {
    let mut client = Talk::to(server(&Arc::default()).task_store(Broken), Revision::V2025_11_25);
    let call = json!({"name": "work", "arguments": {"label": "it"}, "task": {}});
    for (method, params) in [
        ("tools/call", call),
        ("tasks/get", json!({"taskId": "x"})),
        ("tasks/result", json!({"taskId": "x"})),
        ("tasks/cancel", json!({"taskId": "x"})),
        ("tasks/list", json!({})),
    ] {
        let error = client.ask(method, params).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (-32603, "the tasks cannot be reached"), "{method}");
    }
}

/// Layers stand around the function of a task as around any other, also around one that becomes a task in its midst.
#[tokio::test]
async fn layers_stand_around_tasks() {
    let gate = Arc::<Gate>::default();
    let ended = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&ended);
    let counted = mcp_runtime::layers::from_fn(move |call, next| {
        let ended = Arc::clone(&counter);
        async move {
            let outcome = next.run(call).await;
            ended.fetch_add(1, Ordering::SeqCst);
            outcome
        }
    });
    let mut client = Talk::to(server(&gate).layer(counted), Revision::V2026_07_28);
    let id = client.begin("work", json!({"label": "it"})).await;
    until(|| gate.begun.load(Ordering::SeqCst) == 1).await;
    assert_eq!(ended.load(Ordering::SeqCst), 0);
    gate.open();
    assert_eq!(text(&client.until(&id, "completed").await["result"]), "it is done");
    assert_eq!(ended.load(Ordering::SeqCst), 1);
    let answers = json!({"user_name": {"action": "accept", "content": {"name": "Alice"}}});
    let call = json!({"name": "ask_then_work", "inputResponses": answers});
    let created = client.ask("tools/call", call).await.unwrap();
    let id = created["taskId"].as_str().unwrap();
    assert_eq!(
        (client.until(id, "working").await["status"].as_str(), ended.load(Ordering::SeqCst)),
        (Some("working"), 1)
    );
    gate.open();
    client.until(id, "input_required").await;
    let answers = json!({"user_name": {"action": "accept", "content": {"confirm": true}}});
    client.ask("tasks/update", json!({"taskId": id, "inputResponses": answers})).await.unwrap();
    assert_eq!(text(&client.until(id, "completed").await["result"]), "worked for Alice");
    assert_eq!(ended.load(Ordering::SeqCst), 2);
    // A function that is dropped takes its layers with it.
    let id = client.begin("work", json!({"label": "it"})).await;
    until(|| gate.begun.load(Ordering::SeqCst) == 3).await;
    client.about("tasks/cancel", &id).await.unwrap();
    until(|| gate.dropped() == 1).await;
    assert_eq!(ended.load(Ordering::SeqCst), 2);
    let id = client.begin("panics", json!({})).await;
    assert_eq!(client.until(&id, "failed").await["error"]["message"], "`panics` failed: internal error");
}
