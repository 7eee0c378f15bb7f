use mcp_runtime::{Revision, Server, testing::TestClient};
use serde_json::{Value, json};

use super::*;

/// The revisions with tasks.
const REVISIONS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

fn client(revision: Revision) -> TestClient {
    Server::new("jobs", "0.1.0").with_state(ActiveJobs::default()).test_client(revision)
}

/// Calls a tool as a client with tasks and returns the task.
async fn start_task(client: &mut TestClient, name: &str, arguments: Value) -> Value {
    let mut params = with_capabilities(client.revision(), json!({"name": name, "arguments": arguments}));
    if client.revision() == Revision::V2025_11_25 {
        params["task"] = json!({"ttl": 60_000});
    }
    let mut result = client.request("tools/call", params).await.unwrap();
    match client.revision() {
        Revision::V2025_11_25 => result["task"].take(),
        _ => result,
    }
}

/// Declares the tasks extension in the request, which is where clients of 2026-07-28 declare it.
fn with_capabilities(revision: Revision, mut params: Value) -> Value {
    if revision.is_stateless() {
        let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}});
        params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": tasks});
    }
    params
}

/// Sends a request about a task.
async fn task_request(client: &mut TestClient, method: &str, task: &Value) -> Value {
    let params = with_capabilities(client.revision(), json!({"taskId": task["taskId"]}));
    client.request(method, params).await.unwrap()
}

/// Polls a task until it finishes.
async fn wait_for(client: &mut TestClient, task: &Value) -> Value {
    loop {
        let found = task_request(client, "tasks/get", task).await;
        if found["status"] != "working" {
            return found;
        }
        sleep(PAGE).await;
    }
}

/// Returns the result of a task.
async fn result_of(client: &mut TestClient, task: &Value) -> Value {
    let ended = wait_for(client, task).await;
    assert_eq!(ended["status"], "completed");
    match client.revision() {
        Revision::V2025_11_25 => task_request(client, "tasks/result", task).await,
        _ => ended["result"].clone(),
    }
}

async fn active(client: &mut TestClient) -> String {
    client.call("active", json!({})).await.unwrap().text()
}

#[tokio::test(start_paused = true)]
async fn a_client_without_tasks_waits_and_receives_progress() {
    for revision in Revision::ALL {
        let mut client = client(revision);
        let params = json!({
            "name": "print",
            "arguments": {"document": "poster", "pages": 3},
            "_meta": {"progressToken": "p"},
        });
        let result = client.request("tools/call", params).await.unwrap();
        assert_eq!(result["content"][0]["text"], "printed poster, 3 pages", "{revision}");
        let notifications = client.notifications();
        let progress: Vec<_> = notifications.iter().map(|message| message["params"]["progress"].clone()).collect();
        assert_eq!(progress, [1, 2, 3], "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_with_tasks_polls_for_the_result() {
    for revision in REVISIONS {
        let mut client = client(revision);
        for (name, arguments, text) in [
            ("print", json!({"document": "poster", "pages": 20}), "printed poster, 20 pages"),
            ("archive", json!({}), "archived everything"),
        ] {
            let task = start_task(&mut client, name, arguments).await;
            assert_eq!(task["status"], "working", "{revision}: {task}");
            sleep(PAGE).await;
            assert_ne!(active(&mut client).await, "none");
            let result = result_of(&mut client, &task).await;
            assert_eq!(result["content"][0]["text"], text, "{revision}");
            assert_eq!(active(&mut client).await, "none");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn cancelling_stops_the_job() {
    for revision in REVISIONS {
        let mut client = client(revision);
        let task = start_task(&mut client, "print", json!({"document": "novel", "pages": 1000})).await;
        sleep(PAGE * 3).await;
        assert_eq!(active(&mut client).await, "novel");
        task_request(&mut client, "tasks/cancel", &task).await;
        assert_eq!(wait_for(&mut client, &task).await["status"], "cancelled", "{revision}");
        sleep(PAGE).await;
        assert_eq!(active(&mut client).await, "none");

        // So does cancelling a plain call.
        let id = client
            .send_request("tools/call", json!({"name": "print", "arguments": {"document": "map", "pages": 1000}}));
        sleep(PAGE * 3).await;
        assert_eq!(active(&mut client).await, "map");
        client.notify("notifications/cancelled", json!({"requestId": id}));
        client.settle().await;
        sleep(PAGE).await;
        assert_eq!(active(&mut client).await, "none", "{revision}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_required_task_is_rejected_without_tasks() {
    for (revision, code) in [(Revision::V2025_11_25, -32601), (Revision::V2026_07_28, -32021)] {
        let error = client(revision).call("archive", json!({})).await.unwrap_err();
        assert_eq!(error.code, code, "{revision}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_user_confirms_before_the_call_becomes_a_task() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        for (answer, text) in [
            (json!({"action": "accept", "content": {"sure": true}}), "shredded diary"),
            (json!({"action": "decline"}), "kept diary"),
        ] {
            let mut client = client(revision).answering(move |_| answer.clone());
            let result = client.call("shred", json!({"document": "diary"})).await.unwrap();
            assert_eq!(result.text(), text, "{revision}");
        }
    }
    let mut client =
        client(Revision::V2026_07_28).answering(|_| json!({"action": "accept", "content": {"sure": true}}));
    let task = start_task(&mut client, "shred", json!({"document": "diary"})).await;
    assert_eq!(task["resultType"], "task");
    assert_eq!(result_of(&mut client, &task).await["content"][0]["text"], "shredded diary");
}
