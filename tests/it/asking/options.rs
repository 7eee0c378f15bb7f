//! Timeouts and progress of single questions.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_runtime::{
    Context, Fault, Revision, Server,
    ask::{Ask, ClientProgress, Elicitation, ListRoots, SampleRequest},
    testing::TestClient,
    tool,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::Confirm;

type Reports = Arc<Mutex<Vec<ClientProgress>>>;

/// Sample, with every option.
#[tool]
async fn sample(ctx: &Context, reports: &Reports) -> Result<String, Fault> {
    let reports = Arc::clone(reports);
    let request = SampleRequest::new("Hello")
        .key("greeting")
        .timeout(Duration::from_secs(10))
        .extend_on_progress(Duration::from_secs(25))
        .on_progress(move |report| reports.lock().unwrap().push(report));
    Ok(ctx.ask(request).await?.text())
}

/// Ask with a short timeout, and continue without the answer.
#[tool]
async fn impatient(ctx: &Context) -> Result<String, Fault> {
    // The last one counts.
    let roots = ListRoots.timeout(Duration::from_secs(60)).timeout(Duration::from_secs(5));
    match ctx.ask(roots).await {
        Err(Fault::AnswerTimeout { key, timeout, .. }) => Ok(format!("no {key} within {timeout:?}")),
        other => Ok(format!("{other:?}")),
    }
}

/// Ask with a timeout that exceeds its maximum.
#[tool]
async fn hasty(ctx: &Context) -> Result<String, Fault> {
    let roots = ListRoots.timeout(Duration::from_secs(60)).extend_on_progress(Duration::from_secs(5));
    match ctx.ask(roots).await {
        Err(Fault::AnswerTimeout { key, timeout, .. }) => Ok(format!("no {key} within {timeout:?}")),
        other => Ok(format!("{other:?}")),
    }
}

/// Ask for confirmation and pass the progress on.
#[tool]
async fn confirm(ctx: &Context, reports: &Reports) -> Result<String, Fault> {
    let reports = Arc::clone(reports);
    let question = Elicitation::<Confirm>::new("confirm", "Sure?");
    let answer = ctx.ask(question.on_progress(move |report| reports.lock().unwrap().push(report))).await?;
    Ok(answer.is_accepted().to_string())
}

fn server(reports: &Reports) -> Server {
    Server::empty("options", "1.0.0")
        .with::<sample>()
        .with::<impatient>()
        .with::<hasty>()
        .with::<confirm>()
        .with_state(Arc::clone(reports))
}

/// Connects a client whose answers the test sends itself.
fn connect(reports: &Reports, revision: Revision) -> TestClient {
    let mut client = TestClient::uninitialized(server(reports), revision);
    let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    let params = json!({"protocolVersion": revision.as_str(), "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "1.0.0"}});
    send(&mut client, json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    send(&mut client, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client
}

fn send(client: &mut TestClient, message: Value) -> Vec<Value> {
    client.send_raw(message.to_string().as_bytes())
}

/// Calls a tool and returns the request that it sends.
async fn ask(client: &mut TestClient, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {}});
    let mut lines = send(client, json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    if lines.is_empty() {
        lines = client.next_lines().await;
    }
    assert_eq!(lines.len(), 1, "{lines:?}");
    lines.remove(0)
}

fn report(client: &mut TestClient, params: Value) {
    let lines = send(client, json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
    assert_eq!(lines, [] as [Value; 0]);
}

fn sampled() -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": "Hi"}, "model": "m"})
}

/// Waits for the end of the call, which takes at most an hour of simulated time.
async fn settle(client: &mut TestClient) -> Vec<Value> {
    timeout(Duration::from_secs(3600), client.settle()).await.expect("the call never ends")
}

#[tokio::test(start_paused = true)]
async fn a_question_has_a_timeout_of_its_own() {
    let revisions = mcp_tests::revisions(|expected| expected.sessions);
    for (revision, tool) in revisions.into_iter().flat_map(|revision| [(revision, "impatient"), (revision, "hasty")]) {
        let mut client = connect(&Reports::default(), revision);
        let question = ask(&mut client, tool).await;
        assert_eq!(question["method"], "roots/list", "{revision}");
        // Progress extends the timeout of one of the tools.
        assert_eq!(question["params"]["_meta"]["progressToken"].is_null(), tool == "impatient", "{question}");
        let began = Instant::now();
        let lines = settle(&mut client).await;
        assert_eq!(began.elapsed().as_secs(), 5, "{revision}");
        assert_eq!(lines[0]["method"], "notifications/cancelled", "{revision}");
        assert_eq!(lines[0]["params"]["requestId"], question["id"], "{revision}");
        assert_eq!(lines[1]["result"]["content"][0]["text"], "no roots within 5s", "{revision}");
        let late = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}});
        assert_eq!(send(&mut client, late), [] as [Value; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn progress_extends_a_timeout_up_to_its_maximum() {
    for (interval, expected) in [(11, 10), (8, 25), (4, 25)] {
        let mut client = connect(&Reports::default(), Revision::V2025_11_25);
        let token = ask(&mut client, "sample").await["params"]["_meta"]["progressToken"].clone();
        let began = Instant::now();
        let mut lines = Vec::new();
        for step in 1..100 {
            if let Ok(ended) = timeout(Duration::from_secs(interval), client.settle()).await {
                lines = ended;
                break;
            }
            report(&mut client, json!({"progressToken": token, "progress": step}));
        }
        assert_eq!(began.elapsed().as_secs(), expected, "every {interval} s");
        let message = lines.last().unwrap()["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(message, format!("the client did not answer `greeting` within {expected}s"));
    }
}

#[tokio::test(start_paused = true)]
async fn progress_that_does_not_increase_extends_nothing() {
    let reports = Reports::default();
    let mut client = connect(&reports, Revision::V2025_11_25);
    let token = ask(&mut client, "sample").await["params"]["_meta"]["progressToken"].clone();
    let began = Instant::now();
    for progress in [json!(5), json!(5), json!(4), json!(4.5), json!("6"), json!(null)] {
        report(&mut client, json!({"progressToken": token, "progress": progress}));
        sleep(Duration::from_secs(1)).await;
    }
    let infinite = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": "infinite"}});
    let infinite = infinite.to_string().replace(r#""infinite""#, "1e999");
    assert_eq!(client.send_raw(infinite.as_bytes()), [] as [Value; 0]);
    settle(&mut client).await;
    // Only the first report counts, which arrived at once.
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!(reports.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn progress_is_passed_to_the_function_that_asked_for_it() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let reports = Reports::default();
        let mut client = connect(&reports, revision);
        let question = ask(&mut client, "sample").await;
        let token = question["params"]["_meta"]["progressToken"].clone();
        assert!(token.is_u64() || token.is_string(), "{question}");
        report(&mut client, json!({"progressToken": token, "progress": 0.5, "total": 2, "message": "é".repeat(1000)}));
        while reports.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        // Tokens that belong to no request, or are not tokens at all.
        for unknown in [json!(99), json!("x"), json!(null), json!({}), json!(-1)] {
            report(&mut client, json!({"progressToken": unknown, "progress": 1}));
        }
        report(&mut client, json!({"progress": 1}));
        // The last report precedes the answer and is not lost.
        report(&mut client, json!({"progressToken": token, "progress": 2}));
        send(&mut client, json!({"jsonrpc": "2.0", "id": question["id"], "result": sampled()}));
        report(&mut client, json!({"progressToken": token, "progress": 3}));
        let lines = settle(&mut client).await;
        assert_eq!(lines[0]["result"]["content"][0]["text"], "Hi", "{revision}");
        let seen = std::mem::take(&mut *reports.lock().unwrap());
        let amounts: Vec<_> = seen.iter().map(|report| (report.progress, report.total)).collect();
        assert_eq!(amounts, [(0.5, Some(2.0)), (2.0, None)], "{revision}");
        assert_eq!(seen[0].message.as_deref(), Some(&*"é".repeat(512)));
        report(&mut client, json!({"progressToken": token, "progress": 4}));
        assert_eq!(reports.lock().unwrap().len(), 0);
    }
}

#[tokio::test]
async fn progress_never_reaches_another_session() {
    let reports = Reports::default();
    let server = server(&reports).build().unwrap();
    let mut clients = [0, 1].map(|_| server.test_client(Revision::V2025_11_25).answering(|_| json!(null)));
    // Both sessions ask their first question, so that their tokens are equal.
    let mut tokens = Vec::new();
    for client in &mut clients {
        let params = json!({"name": "confirm", "arguments": {}});
        client.send_request("tools/call", params);
        let question = client.notifications().remove(0);
        tokens.push(question["params"]["_meta"]["progressToken"].clone());
    }
    assert_eq!(tokens[0], tokens[1]);
    report(&mut clients[0], json!({"progressToken": tokens[0], "progress": 1}));
    while reports.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(reports.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn questions_without_options_request_no_progress() {
    for (tool, revision, wants_progress) in [
        ("impatient", Revision::V2025_11_25, false),
        ("sample", Revision::V2024_11_05, true),
        ("confirm", Revision::V2025_06_18, true),
    ] {
        let question = ask(&mut connect(&Reports::default(), revision), tool).await;
        assert_eq!(question["params"].get("_meta").is_some(), wants_progress, "{question}");
    }
}

#[tokio::test]
async fn questions_of_a_round_request_no_progress() {
    let mut client = server(&Reports::default()).test_client(Revision::V2026_07_28);
    let capabilities = json!({"io.modelcontextprotocol/clientCapabilities": {"sampling": {}}});
    let params = json!({"name": "sample", "arguments": {}, "_meta": capabilities});
    let asked = client.request("tools/call", params).await.unwrap();
    assert_eq!(asked["inputRequests"]["greeting"]["method"], "sampling/createMessage");
    assert_eq!(asked["inputRequests"]["greeting"]["params"].get("_meta"), None);
}
