//! Tasks over HTTP: they outlive the request that created them, and belong to its principal.

use std::{net::SocketAddr, sync::Arc};

use http_body_util::BodyExt;
use mcp_runtime::{HttpOptions, TaskLimits, auth::Principal, backend::MemoryBackend, http::HttpService};
use serde_json::{Value, json};
use tower_service::Service;

use super::{
    client::{Endpoint, Session, soon},
    request::{Request, initialize, stateless},
};
use crate::{
    layers::log::Log,
    tasks::{EXTENSION, Gate, server, shared::failing_backend},
};

/// Returns a request of a client with the task extension.
fn request(method: &str, params: Value) -> Request {
    let task = params["taskId"].as_str().map(str::to_owned);
    let request = stateless(method, &params).change(|message| {
        let declared = json!({"elicitation": {}, "extensions": {EXTENSION: {}}});
        message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = declared;
    });
    match task {
        Some(task) => request.with("Mcp-Name", &task),
        None => request,
    }
}

fn work() -> Request {
    request("tools/call", json!({"name": "work", "arguments": {"label": "it"}}))
}

fn about(method: &str, task: &Value) -> Request {
    request(method, json!({"taskId": task}))
}

/// Polls a task until it has a status.
async fn wait_for_status(endpoint: &Endpoint, task: &Value, status: &str) -> Value {
    for _ in 0..2000 {
        let found = endpoint.send(&about("tasks/get", task)).await.json();
        if found["result"]["status"] == status {
            return found["result"].clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("the task never becomes {status}");
}

#[tokio::test]
async fn a_task_outlives_its_request() {
    let gate = Arc::<Gate>::default();
    let endpoint = Endpoint::start(server(&gate), HttpOptions::default()).await;
    let created = endpoint.send(&work()).await;
    assert_eq!((created.status, created.header("content-type")), (200, Some("application/json")));
    let task = created.json()["result"]["taskId"].clone();
    assert_eq!(wait_for_status(&endpoint, &task, "working").await["resultType"], "complete");
    gate.open();
    assert_eq!(wait_for_status(&endpoint, &task, "completed").await["result"]["content"][0]["text"], "it is done");
}

/// The client reads the result at another process.
#[tokio::test]
async fn shutdown_waits_for_running_tasks() {
    let (gate, backend) = (Arc::<Gate>::default(), Arc::new(MemoryBackend::default()));
    let start = async || Endpoint::start(server(&gate).backend(Arc::clone(&backend)), HttpOptions::default()).await;
    let (mut ending, other) = (start().await, start().await);
    let task = ending.send(&work()).await.json()["result"]["taskId"].clone();
    wait_for_status(&ending, &task, "working").await;
    ending.stop();
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert!(!ending.has_ended());
    gate.open();
    ending.stopped().await;
    let found = other.send(&about("tasks/get", &task)).await.json();
    assert_eq!(found["result"]["status"], "completed", "{found}");
}

/// The calls would be cancelled as soon as the tasks have ended.
#[tokio::test]
async fn no_call_begins_while_a_shutdown_waits_for_tasks() {
    let gate = Arc::<Gate>::default();
    let mut service = server(&gate).build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    let created = send_as(&mut service, None, work()).await.1;
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let ending = service.clone();
    let shutdown = tokio::spawn(async move { ending.graceful_shutdown(std::time::Duration::from_secs(600)).await });
    let greet = || request("tools/call", json!({"name": "greet", "arguments": {"name": "Ada"}}));
    for is_over in [false, true] {
        // Until the shutdown has begun, or is over.
        for round in 0.. {
            if shutdown.is_finished() == is_over && !send_as(&mut service, None, greet()).await.1["error"].is_null() {
                break;
            }
            assert!(round < 10_000, "calls are still accepted");
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        for _ in 0..20 {
            let refused = send_as(&mut service, None, greet()).await.1;
            assert_eq!(refused["error"]["message"], "the server is shutting down", "{refused}");
            tokio::task::yield_now().await;
        }
        gate.open();
    }
}

/// The other processes notice at once, since the ended one has given its lease up.
#[tokio::test]
async fn a_task_that_outlives_the_grace_period_fails() {
    let (gate, backend) = (Arc::<Gate>::default(), Arc::new(MemoryBackend::default()));
    let start = async || {
        let server = server(&gate).backend(Arc::clone(&backend)).lease(std::time::Duration::from_secs(600));
        let server = server.shutdown_grace(std::time::Duration::from_millis(50));
        Endpoint::start(server, HttpOptions::default()).await
    };
    let (ending, other) = (start().await, start().await);
    let task = ending.send(&work()).await.json()["result"]["taskId"].clone();
    wait_for_status(&ending, &task, "working").await;
    ending.stopped().await;
    wait_for_status(&other, &task, "failed").await;
}

/// Headers mirror the task's id. Clients without the extension are rejected.
#[tokio::test]
async fn requests_are_checked() {
    let endpoint = Endpoint::start(server(&Arc::default()), HttpOptions::default()).await;
    let task = endpoint.send(&work()).await.json()["result"]["taskId"].clone();
    let answers = json!({"taskId": task, "inputResponses": {}});
    for (what, request, expected) in [
        ("get", about("tasks/get", &task), (200, 0)),
        ("get with another name header", about("tasks/get", &task).with("Mcp-Name", "other"), (400, -32020)),
        ("get without a name header", about("tasks/get", &task).without("Mcp-Name"), (400, -32020)),
        ("cancel with another name header", about("tasks/cancel", &task).with("Mcp-Name", "other"), (400, -32020)),
        (
            "update with another name header",
            request("tasks/update", answers.clone()).with("Mcp-Name", "other"),
            (400, -32020),
        ),
        ("update", request("tasks/update", answers), (200, 0)),
        ("a call with another method header", work().with("Mcp-Method", "tasks/get"), (400, -32020)),
        ("an unknown task", about("tasks/get", &json!("gate-test")), (200, -32602)),
        ("a client without the extension", stateless("tasks/get", &json!({})), (400, -32021)),
        ("cancel", about("tasks/cancel", &task), (200, 0)),
    ] {
        assert_eq!(endpoint.send(&request).await.outcome(), expected, "{what}");
    }
}

/// A stateless call sends a request to the client and becomes a task, which outlives its response.
#[tokio::test]
async fn a_deferred_task_outlives_its_request() {
    let gate = Arc::<Gate>::default();
    let endpoint = Endpoint::start(server(&gate), HttpOptions::default()).await;
    let answers = json!({"user_name": {"action": "accept", "content": {"name": "Alice"}}});
    let call = request("tools/call", json!({"name": "ask_then_work", "inputResponses": answers}));
    let created = endpoint.send(&call).await.json();
    assert_eq!(created["result"]["resultType"], "task", "{created}");
    let task = created["result"]["taskId"].clone();
    gate.open();
    wait_for_status(&endpoint, &task, "input_required").await;
    let answers = json!({"user_name": {"action": "accept", "content": {"confirm": true}}});
    let update = request("tasks/update", json!({"taskId": task, "inputResponses": answers}));
    assert_eq!(endpoint.send(&update).await.outcome(), (200, 0));
    let text = &wait_for_status(&endpoint, &task, "completed").await["result"]["content"][0]["text"];
    assert_eq!(text, "worked for Alice");
}

/// Sends a request in a session and returns the result.
async fn request_in(session: &Session<'_>, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    session.endpoint.send(&session.post(&message)).await.json()["result"].clone()
}

/// The client request is sent on the stream of the request that waits for the result.
#[tokio::test]
async fn a_session_receives_requests_while_it_waits_for_the_result() {
    let endpoint = Endpoint::start(server(&Arc::default()), HttpOptions::default()).await;
    let capable = initialize("2025-11-25").change(|message| {
        message["params"]["capabilities"] = json!({"elicitation": {}});
    });
    let id = endpoint.send(&capable).await.header("mcp-session-id").unwrap().to_owned();
    let session = Session { endpoint: &endpoint, version: "2025-11-25", id };
    session.initialized().await;
    let call = json!({"name": "confirm_delete", "arguments": {"filename": "a"}, "task": {}});
    let task = request_in(&session, "tools/call", call).await["task"]["taskId"].clone();
    // After the first stream is lost, the client request is sent again on the next one.
    for is_last in [false, true] {
        let id = 2 + u64::from(is_last);
        let wait = json!({"jsonrpc": "2.0", "id": id, "method": "tasks/result", "params": {"taskId": task}});
        let mut stream = endpoint.open(&session.post(&wait)).await;
        let asked = loop {
            let message = stream.message().await.unwrap();
            if message["method"] == "elicitation/create" {
                break message;
            }
        };
        assert_eq!(asked["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task);
        if !is_last {
            drop(stream);
            continue;
        }
        let response = json!({"jsonrpc": "2.0", "id": asked["id"],
            "result": {"action": "accept", "content": {"confirm": true}}});
        assert_eq!(endpoint.send(&session.post(&response)).await.status, 202);
        let result = stream.message().await.unwrap();
        assert_eq!(result["result"]["content"][0]["text"], "deleted a");
    }
    let listed: Vec<_> = request_in(&session, "tasks/list", json!({})).await["tasks"].as_array().unwrap().clone();
    assert_eq!((listed.len(), &listed[0]["status"]), (1, &json!("completed")));
}

/// A client that waits for many results, and reads none, could otherwise use any amount of memory.
#[tokio::test]
async fn waiting_for_a_result_counts_as_a_call() {
    let gate = Arc::<Gate>::default();
    let endpoint = Endpoint::start(server(&gate), HttpOptions::default().max_in_flight(1)).await;
    let session = endpoint.session("2025-11-25").await;
    let call = json!({"name": "work", "arguments": {"label": "it"}, "task": {}});
    let task = request_in(&session, "tools/call", call).await["task"]["taskId"].clone();
    let wait = |id: u64| {
        let params = json!({"taskId": task});
        session.post(&json!({"jsonrpc": "2.0", "id": id, "method": "tasks/result", "params": params}))
    };
    drop(endpoint.open(&wait(2)).await);
    assert_eq!(endpoint.send(&wait(3)).await.outcome(), (503, -32603));
    // Other requests about the task need no permit.
    assert_eq!(request_in(&session, "tasks/get", json!({"taskId": task})).await["status"], "working");
    assert_eq!(endpoint.send(&session.cancel(2)).await.status, 202);
    gate.open();
    assert_eq!(endpoint.send(&wait(3)).await.text(), "it is done");
}

/// The whole id of a session gives access to it.
#[tokio::test]
async fn the_log_contains_only_the_beginnings_of_the_ids_of_sessions() {
    let endpoint = Endpoint::start(server(&Arc::default()), HttpOptions::default()).await;
    let session = endpoint.session("2025-11-25").await;
    let (log, _guard) = Log::listen();
    let call = json!({"name": "work", "arguments": {"label": "it"}, "task": {}});
    let task = request_in(&session, "tools/call", call).await["task"]["taskId"].clone();
    request_in(&session, "tasks/get", json!({"taskId": task})).await;
    let (lines, short) = (log.take(""), format!("session={:?}", &session.id[..8]));
    for message in ["task created", "task request answered"] {
        let is_logged = lines.iter().any(|line| line.starts_with(message) && line.contains(&short));
        assert!(is_logged, "{message}: {lines:?}");
    }
    assert!(lines.iter().all(|line| !line.contains(&session.id)), "{lines:?}");
}

/// Sends a request with a principal, and returns the session that it opened, and the message of the response.
async fn send_as(service: &mut HttpService, principal: Option<&str>, request: Request) -> (Option<String>, Value) {
    let request = request.into_http(|extensions| {
        if let Some(principal) = principal {
            extensions.insert(Principal::new(principal));
        }
    });
    let response = soon(service.call(request)).await.unwrap();
    let session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let body = soon(response.into_body().collect()).await.unwrap().to_bytes();
    (session, serde_json::from_slice(&body).unwrap())
}

/// Without principals, tasks belong to their session, on all servers.
#[tokio::test]
async fn any_server_takes_requests_about_the_tasks_of_a_session() {
    let backend = Arc::new(MemoryBackend::default());
    let start = || Endpoint::start(server(&Arc::default()).backend(Arc::clone(&backend)), HttpOptions::default());
    let endpoints = [start().await, start().await];
    let capable = initialize("2025-11-25").change(|message| {
        message["params"]["capabilities"] = json!({"elicitation": {}});
    });
    for (here, there) in [(&endpoints[0], &endpoints[1]), (&endpoints[1], &endpoints[0])] {
        let id = here.send(&capable).await.header("mcp-session-id").unwrap().to_owned();
        let at = |endpoint| Session { endpoint, version: "2025-11-25", id: id.clone() };
        let (session, elsewhere) = (at(here), at(there));
        session.initialized().await;
        let call = json!({"name": "confirm_delete", "arguments": {"filename": "a"}, "task": {}});
        let task = request_in(&session, "tools/call", call).await["task"]["taskId"].clone();
        assert_eq!(request_in(&elsewhere, "tasks/get", json!({"taskId": task})).await["taskId"], task);
        assert_eq!(request_in(&elsewhere, "tasks/list", json!({})).await["tasks"][0]["taskId"], task);
        // The question comes from one server, and the answer goes to the other.
        let wait = json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": {"taskId": task}});
        let mut stream = there.open(&elsewhere.post(&wait)).await;
        let asked = loop {
            let message = stream.message().await.unwrap();
            if message["method"] == "elicitation/create" {
                break message;
            }
        };
        let answer = json!({"jsonrpc": "2.0", "id": asked["id"],
            "result": {"action": "accept", "content": {"confirm": true}}});
        assert_eq!(here.send(&session.post(&answer)).await.status, 202);
        assert_eq!(stream.message().await.unwrap()["result"]["content"][0]["text"], "deleted a");
        let work = json!({"name": "work", "arguments": {"label": "it"}, "task": {}});
        let task = request_in(&session, "tools/call", work).await["task"]["taskId"].clone();
        let stranger = there.session("2025-11-25").await;
        assert_eq!(request_in(&stranger, "tasks/cancel", json!({"taskId": task})).await, Value::Null);
        assert_eq!(request_in(&elsewhere, "tasks/cancel", json!({"taskId": task})).await["status"], "cancelled");
        assert_eq!(request_in(&session, "tasks/get", json!({"taskId": task})).await["status"], "cancelled");
    }
}

/// Clients retry what fails because of the backend.
#[tokio::test]
async fn a_failing_backend_makes_requests_about_tasks_unavailable() {
    let backend = failing_backend(|key, _| key.starts_with("mcp/1/task"));
    let endpoint = Endpoint::start(server(&Arc::default()).backend(backend), HttpOptions::default()).await;
    let session = endpoint.session("2025-11-25").await;
    let task = json!(format!("{}00000000000", "x".repeat(32)));
    let in_session = |method: &str, params: Value| {
        session.post(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    };
    let call = json!({"name": "work", "arguments": {"label": "it"}, "task": {}});
    for (what, request) in [
        ("creating", request("tools/call", json!({"name": "failing_job"}))),
        ("reading", about("tasks/get", &task)),
        ("cancelling", about("tasks/cancel", &task)),
        ("creating in a session", in_session("tools/call", call)),
        ("reading in a session", in_session("tasks/get", json!({"taskId": task}))),
        ("waiting in a session", in_session("tasks/result", json!({"taskId": task}))),
        ("listing in a session", in_session("tasks/list", json!({}))),
    ] {
        let response = endpoint.send(&request).await;
        assert_eq!((response.outcome(), response.header("retry-after")), ((503, -32603), Some("1")), "{what}");
    }
    // Calls that need no task go on.
    let greet = json!({"name": "greet", "arguments": {"name": "Ada"}});
    assert_eq!(endpoint.send(&stateless("tools/call", &greet)).await.status, 200);
    assert_eq!(endpoint.send(&in_session("tools/call", greet)).await.status, 200);
}

/// An anonymous client could otherwise use the tasks of all clients by opening more sessions.
#[tokio::test]
async fn the_sessions_of_one_address_share_the_limit_of_tasks() {
    let server = server(&Arc::default()).max_tasks(TaskLimits::default().total(9).per_peer(2));
    let options = HttpOptions::default().peer_addr(|request| request.extensions.get().copied());
    let mut service = server.build().unwrap().into_http_service(options).unwrap();
    let mut send = async |principal: Option<&str>, host: u8, request: Request| {
        let request = request.into_http(|extensions| {
            extensions.insert(SocketAddr::from(([192, 0, 2, host], 1)));
            if let Some(principal) = principal {
                extensions.insert(Principal::new(principal));
            }
        });
        let response = soon(service.call(request)).await.unwrap();
        let session = response.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        let body = soon(response.into_body().collect()).await.unwrap().to_bytes();
        (session, serde_json::from_slice::<Value>(&body).unwrap())
    };
    for (principal, host, is_accepted) in [
        (None, 1, true),
        (None, 1, true),
        (None, 1, false),
        (None, 2, true),
        (None, 1, false),
        // Principals have limits of their own, from whichever address.
        (Some("ada"), 1, true),
        (Some("ada"), 2, true),
        (Some("ada"), 3, false),
        (Some("bob"), 1, true),
    ] {
        let session = send(principal, host, initialize("2025-11-25")).await.0.unwrap();
        let call = json!({"name": "work", "arguments": {"label": "it"}, "task": {}});
        let call = Request::post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}))
            .with("mcp-session-id", &session)
            .with("mcp-protocol-version", "2025-11-25");
        let response = send(principal, host, call).await.1;
        assert_eq!(response.get("result").is_some(), is_accepted, "{principal:?} from {host}: {response}");
    }
    // Without sessions, likewise.
    for (host, is_accepted) in [(2, true), (2, false), (1, false), (4, true)] {
        let response = send(None, host, request("tools/call", json!({"name": "failing_job"}))).await.1;
        assert_eq!(response["result"]["resultType"] == "task", is_accepted, "from {host}: {response}");
    }
}

/// To other principals, a task does not exist.
#[tokio::test]
async fn tasks_belong_to_their_principal() {
    let mut service = server(&Arc::default()).build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    for owner in [Some("ada"), None] {
        let task = send_as(&mut service, owner, work()).await.1["result"]["taskId"].clone();
        for principal in [Some("ada"), Some("bob"), Some(""), None] {
            for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
                let request = about(method, &task).change(|message| message["params"]["inputResponses"] = json!({}));
                let (_, response) = send_as(&mut service, principal, request).await;
                let expected = if principal == owner { Value::Null } else { json!(-32602) };
                assert_eq!(response["error"]["code"], expected, "{method} of {owner:?}'s task by {principal:?}");
            }
        }
    }
}

/// The result of a task is stored in the encoding of the revision that requested it, so the other one does not see it.
#[tokio::test]
async fn a_principal_sees_each_task_in_its_own_revision_only() {
    let mut service = server(&Arc::default()).build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    let stateless = send_as(&mut service, Some("ada"), work()).await.1["result"]["taskId"].clone();
    let session = send_as(&mut service, Some("ada"), initialize("2025-11-25")).await.0.unwrap();
    let in_session = |method: &str, params: Value| {
        Request::post(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
            .with("mcp-session-id", &session)
            .with("mcp-protocol-version", "2025-11-25")
    };
    let call = in_session("tools/call", json!({"name": "work", "arguments": {"label": "it"}, "task": {}}));
    let created = send_as(&mut service, Some("ada"), call).await.1["result"]["task"]["taskId"].clone();
    for (request, is_found) in [
        (about("tasks/get", &stateless), true),
        (about("tasks/get", &created), false),
        (about("tasks/cancel", &created), false),
        (in_session("tasks/get", json!({"taskId": created})), true),
        (in_session("tasks/get", json!({"taskId": stateless})), false),
        (in_session("tasks/result", json!({"taskId": stateless})), false),
        (in_session("tasks/cancel", json!({"taskId": stateless})), false),
    ] {
        let context = format!("{request:?}");
        let response = send_as(&mut service, Some("ada"), request).await.1;
        assert_eq!(response["error"]["code"], if is_found { Value::Null } else { json!(-32602) }, "{context}");
    }
    let listed = send_as(&mut service, Some("ada"), in_session("tasks/list", json!({}))).await.1;
    let listed = listed["result"]["tasks"].as_array().unwrap();
    assert_eq!(listed.iter().map(|task| &task["taskId"]).collect::<Vec<_>>(), [&created]);
}

/// In 2025-11-25, a task belongs to the principal of its session, or to the session if there is no principal.
#[tokio::test]
async fn tasks_of_sessions_belong_to_their_principal() {
    let mut service = server(&Arc::default()).build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    for owner in [Some("ada"), None] {
        let mut sessions = Vec::new();
        for principal in [owner, Some("ada"), Some("bob"), Some(""), None] {
            let (id, _) = send_as(&mut service, principal, initialize("2025-11-25")).await;
            sessions.push((principal, id.unwrap()));
        }
        let in_session = |id: &str, method: &str, params: Value| {
            Request::post(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
                .with("mcp-session-id", id)
                .with("mcp-protocol-version", "2025-11-25")
        };
        let call = json!({"name": "work", "arguments": {"label": "it"}, "task": {}});
        let created = send_as(&mut service, owner, in_session(&sessions[0].1, "tools/call", call)).await.1;
        let task = created["result"]["task"]["taskId"].clone();
        for (position, (principal, id)) in sessions.iter().enumerate().rev() {
            let is_owner = position == 0 || (owner.is_some() && *principal == owner);
            let context = format!("the task of {owner:?} in session {position} of {principal:?}");
            let listed = send_as(&mut service, *principal, in_session(id, "tasks/list", json!({}))).await.1;
            let listed = listed["result"]["tasks"].as_array().unwrap();
            assert_eq!(listed.iter().any(|listed| listed["taskId"] == task), is_owner, "{context}");
            let methods = if is_owner { &["tasks/get"][..] } else { &["tasks/get", "tasks/result", "tasks/cancel"] };
            for method in methods {
                let request = in_session(id, method, json!({"taskId": task}));
                let code = send_as(&mut service, *principal, request).await.1["error"]["code"].clone();
                assert_eq!(code, if is_owner { Value::Null } else { json!(-32602) }, "{method}: {context}");
            }
        }
    }
}
