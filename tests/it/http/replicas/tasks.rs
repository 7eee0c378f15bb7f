//! The tasks of a session, whose function, requests and stream are at different replicas.

use std::time::Duration;

use mcp_runtime::{
    Context, Elicit, Fault, HttpOptions, Server,
    ask::Answer,
    backend::{Records as _, Timestamp},
    tool,
};
use mcp_tests::backend::{Health, UnreliableBackend};
use serde_json::{Value, json};

use super::{
    Cluster,
    sessions::{open, request, until_method},
};
use crate::http::client::{Endpoint, Session};

#[derive(Elicit)]
struct Confirm {
    confirm: bool,
}

/// Delete something after confirmation, as a task.
#[tool(task)]
async fn confirm_delete(ctx: &Context) -> Result<&'static str, Fault> {
    Ok(match ctx.elicit::<Confirm>("confirm", "Delete it?").await? {
        Answer::Accept(Confirm { confirm: true }) => "deleted",
        _ => "kept",
    })
}

/// Return a text, as a task.
#[tool(task)]
async fn small() -> &'static str {
    tokio::time::sleep(Duration::from_millis(5)).await;
    "small"
}

async fn send(endpoint: &Endpoint, session: &Session<'_>, method: &str, params: &Value) -> Value {
    endpoint.send(&session.post(&request(1, method, params))).await.json()["result"].clone()
}

async fn start_task(endpoint: &Endpoint, session: &Session<'_>) -> Value {
    let call = json!({"name": "confirm_delete", "arguments": {}, "task": {}});
    json!({"taskId": send(endpoint, session, "tools/call", &call).await["task"]["taskId"]})
}

#[tokio::test]
async fn changes_of_a_task_reach_the_stream_of_the_session_at_another_replica() {
    let cluster = Cluster::start_with(2, HttpOptions::default, |server| server.with::<confirm_delete>()).await;
    for (running, reading) in [(0, 1), (1, 0), (0, 0)] {
        let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
        session.initialized().await;
        let mut stream = cluster.at(reading).open(&session.get()).await;
        let task = start_task(cluster.at(running), &session).await;
        let changed = until_method(&mut stream, "notifications/tasks/status").await;
        assert_eq!(changed["params"]["status"], "input_required");
        assert_eq!(send(cluster.at(reading), &session, "tasks/cancel", &task).await["status"], "cancelled");
        let changed = until_method(&mut stream, "notifications/tasks/status").await;
        assert_eq!(
            (&changed["params"]["status"], &changed["params"]["taskId"]),
            (&json!("cancelled"), &task["taskId"])
        );
    }
}

/// The replica that runs a task may not have heard yet that another one has cancelled it.
#[tokio::test]
async fn a_cancelled_task_is_cancelled_at_every_replica_at_once() {
    let cluster = Cluster::start_with(2, HttpOptions::default, |server| server.with::<confirm_delete>()).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    session.initialized().await;
    let task = start_task(cluster.at(0), &session).await;
    assert_eq!(send(cluster.at(1), &session, "tasks/get", &task).await["taskId"], task["taskId"]);
    cluster.set_backend(1, Health::Mute);
    assert_eq!(send(cluster.at(1), &session, "tasks/cancel", &task).await["status"], "cancelled");
    assert_eq!(send(cluster.at(0), &session, "tasks/get", &task).await["status"], "cancelled");
}

/// The client waits for the result at two replicas. The one that has asked is killed, then the other one asks.
#[tokio::test]
async fn a_question_of_a_task_survives_the_replica_that_has_sent_it() {
    let mut cluster = Cluster::start_with(3, HttpOptions::default, |server| server.with::<confirm_delete>()).await;
    let opened = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    opened.initialized().await;
    let task = start_task(cluster.at(0), &opened).await;
    let wait = |id: u64| opened.post(&request(id, "tasks/result", &task));
    let (first, second) = (wait(2), wait(3));
    let mut waiting = cluster.at(1).open(&first).await;
    until_method(&mut waiting, "elicitation/create").await;
    let mut lost = cluster.at(2).open(&second).await;
    until_method(&mut lost, "elicitation/create").await;
    until_method(&mut waiting, "notifications/cancelled").await;
    let id = opened.id.clone();
    cluster.kill(2);
    let question = until_method(&mut waiting, "elicitation/create").await;
    let session = Session { endpoint: cluster.at(0), version: "2025-11-25", id };
    let answer = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"action": "accept", "content": {"confirm": true}}});
    assert_eq!(cluster.at(0).send(&session.post(&answer)).await.status, 202);
    assert_eq!(waiting.message().await.unwrap()["result"]["content"][0]["text"], "deleted");
}

/// A task is created, read while it runs, and ends with one operation each, and one more tells its session of the end. A
/// task that has ended here is not read again.
#[tokio::test]
async fn a_small_task_needs_few_operations_of_the_backend() {
    const TASKS: usize = 16;
    // The lease is not renewed during the test.
    let configure = |server: Server| server.with::<small>().lease(Duration::from_secs(600));
    let cluster = Cluster::start_with(1, HttpOptions::default, configure).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    session.initialized().await;
    let mut counts = Vec::new();
    for _ in 0..TASKS {
        let before = cluster.operations(0);
        let created = send(cluster.at(0), &session, "tools/call", &json!({"name": "small", "task": {}})).await;
        let task = json!({"taskId": created["task"]["taskId"]});
        let result = send(cluster.at(0), &session, "tasks/result", &task).await;
        assert_eq!(result["content"][0]["text"], "small");
        assert_eq!(send(cluster.at(0), &session, "tasks/get", &task).await["status"], "completed");
        counts.push(cluster.operations(0) - before);
    }
    counts.sort_unstable();
    assert!(counts[TASKS / 2] <= 4, "{counts:?}");
    assert_eq!(cluster.backend().count("mcp/1/task").await, Ok(TASKS));
}

/// The clocks of the replicas differ from that of the backend, which decides.
#[tokio::test]
async fn tasks_live_by_the_clock_of_the_backend() {
    let shared = UnreliableBackend::default();
    shared.set_clock_back(Duration::from_secs(3600));
    let configure = |server: Server| server.with::<small>();
    let cluster = Cluster::start_sharing(&shared, 1, 2, HttpOptions::default, configure).await;
    let session = open(cluster.at(0), "2025-11-25", json!({})).await;
    let call = json!({"name": "small", "arguments": {}, "task": {"ttl": 60_000}});
    let task = send(cluster.at(0), &session, "tools/call", &call).await["task"].clone();
    let id = json!({"taskId": task["taskId"]});
    assert_eq!(send(cluster.at(1), &session, "tasks/result", &id).await["content"][0]["text"], "small");
    let task = send(cluster.at(1), &session, "tasks/get", &id).await;
    // The replicas know the clock of the backend to within the time of a request.
    let now = cluster.now().await.as_unix_millis();
    let near = [now - 60_000, now + 60_000].map(|at| Timestamp::from_unix_millis(at).to_string());
    for time in ["createdAt", "lastUpdatedAt"] {
        let at = task[time].as_str().unwrap();
        assert!(*near[0] <= *at && *at <= *near[1], "{time} is {at}, expected {near:?}");
    }
}
