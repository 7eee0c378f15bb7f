use mcp_runtime::{Revision, Server, TestClient};
use serde_json::{Value, json};

use super::*;

/// The revisions in which a client can have tasks.
const REVISIONS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

fn client(revision: Revision) -> TestClient {
    Server::new("jobs", "0.1.0").with_state(Desk::default()).test_client(revision)
}

/// Calls a tool as a client that wants a task, each revision in its own way, and gives the task.
async fn begin(client: &mut TestClient, name: &str, arguments: Value) -> Value {
    let mut params = as_one_with_tasks(client.revision(), json!({"name": name, "arguments": arguments}));
    if client.revision() == Revision::V2025_11_25 {
        params["task"] = json!({"ttl": 60_000});
    }
    let mut result = client.request("tools/call", params).await.unwrap();
    match client.revision() {
        Revision::V2025_11_25 => result["task"].take(),
        _ => result,
    }
}

/// In 2026-07-28 a client says with each request what it can have.
fn as_one_with_tasks(revision: Revision, mut params: Value) -> Value {
    if revision == Revision::V2026_07_28 {
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}});
        params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": tasks});
    }
    params
}

async fn ask(client: &mut TestClient, method: &str, task: &Value) -> Value {
    let params = as_one_with_tasks(client.revision(), json!({"taskId": task["taskId"]}));
    client.request(method, params).await.unwrap()
}

/// Asks again and again until a task has ended.
async fn wait_for(client: &mut TestClient, task: &Value) -> Value {
    loop {
        let found = ask(client, "tasks/get", task).await;
        if found["status"] != "working" {
            return found;
        }
        sleep(PAGE).await;
    }
}

/// What a task that has ended came to.
async fn result_of(client: &mut TestClient, task: &Value) -> Value {
    let ended = wait_for(client, task).await;
    assert_eq!(ended["status"], "completed");
    match client.revision() {
        Revision::V2025_11_25 => ask(client, "tasks/result", task).await,
        _ => ended["result"].clone(),
    }
}

async fn at_work(client: &mut TestClient) -> String {
    client.call("at_work", json!({})).await.unwrap().text()
}

#[tokio::test(start_paused = true)]
async fn a_client_without_tasks_waits_and_sees_the_progress() {
    for revision in Revision::ALL {
        let mut client = client(revision);
        let params = json!({
            "name": "print",
            "arguments": {"document": "poster", "pages": 3},
            "_meta": {"progressToken": "p"},
        });
        let result = client.request("tools/call", params).await.unwrap();
        assert_eq!(result["content"][0]["text"], "poster is printed, 3 pages", "{revision}");
        let progress: Vec<_> = client.notifications().iter().map(|told| told["params"]["progress"].clone()).collect();
        assert_eq!(progress, [1, 2, 3], "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_with_tasks_asks_later() {
    for revision in REVISIONS {
        let mut client = client(revision);
        for (name, arguments, text) in [
            ("print", json!({"document": "poster", "pages": 20}), "poster is printed, 20 pages"),
            ("archive", json!({}), "everything is archived"),
        ] {
            let task = begin(&mut client, name, arguments).await;
            assert_eq!(task["status"], "working", "{revision}: {task}");
            sleep(PAGE).await;
            assert_ne!(at_work(&mut client).await, "nothing");
            let result = result_of(&mut client, &task).await;
            assert_eq!(result["content"][0]["text"], text, "{revision}");
            assert_eq!(at_work(&mut client).await, "nothing");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_cancelled_stops() {
    for revision in REVISIONS {
        let mut client = client(revision);
        let task = begin(&mut client, "print", json!({"document": "novel", "pages": 1000})).await;
        sleep(PAGE * 3).await;
        assert_eq!(at_work(&mut client).await, "novel");
        ask(&mut client, "tasks/cancel", &task).await;
        assert_eq!(wait_for(&mut client, &task).await["status"], "cancelled", "{revision}");
        sleep(PAGE).await;
        assert_eq!(at_work(&mut client).await, "nothing");

        // A call that is waited for stops as well.
        let id = client
            .send_request("tools/call", json!({"name": "print", "arguments": {"document": "map", "pages": 1000}}));
        sleep(PAGE * 3).await;
        assert_eq!(at_work(&mut client).await, "map");
        client.notify("notifications/cancelled", json!({"requestId": id}));
        client.settle().await;
        sleep(PAGE).await;
        assert_eq!(at_work(&mut client).await, "nothing", "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_to_wait_for_is_refused_without_tasks() {
    for (revision, code) in [(Revision::V2025_11_25, -32601), (Revision::V2026_07_28, -32021)] {
        let refused = client(revision).call("archive", json!({})).await.unwrap_err();
        assert_eq!(refused.code, code, "{revision}: {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_user_is_asked_before_the_work_is_a_task() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        for (answer, told) in [
            (json!({"action": "accept", "content": {"sure": true}}), "diary is shredded"),
            (json!({"action": "decline"}), "diary is kept"),
        ] {
            let mut client = client(revision).answering(move |_| answer.clone());
            let result = client.call("shred", json!({"document": "diary"})).await.unwrap();
            assert_eq!(result.text(), told, "{revision}");
        }
    }
    let mut client =
        client(Revision::V2026_07_28).answering(|_| json!({"action": "accept", "content": {"sure": true}}));
    let task = begin(&mut client, "shred", json!({"document": "diary"})).await;
    assert_eq!(task["resultType"], "task");
    assert_eq!(result_of(&mut client, &task).await["content"][0]["text"], "diary is shredded");
}
