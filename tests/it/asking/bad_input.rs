//! Clients whose answers are invalid, late, repeated or missing, in a revision where the call waits.

use std::time::Duration;

use mcp_runtime::{Context, Fault, Revision, Server, testing::TestClient, tool};
use serde_json::{Value, json};

use super::{Confirm, server};

const REVISION: Revision = Revision::V2025_11_25;

/// Connects a client that declares elicitation and whose answers the test sends itself.
fn connect(server: Server) -> TestClient {
    let mut client = TestClient::uninitialized(server, REVISION);
    let params = json!({"protocolVersion": REVISION.as_str(), "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1.0.0"}});
    send(&mut client, json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    client.notify("notifications/initialized", json!({}));
    client
}

fn send(client: &mut TestClient, message: Value) -> Vec<Value> {
    client.send_raw(message.to_string().as_bytes())
}

/// Sends a message, and waits for output unless some is available immediately.
async fn send_and_wait(client: &mut TestClient, message: Value) -> Vec<Value> {
    let lines = send(client, message);
    if lines.is_empty() { client.next_lines().await } else { lines }
}

fn call(id: u64, name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

/// Calls `delete` and returns the id of the request that it sends.
async fn ask(client: &mut TestClient, id: u64) -> Value {
    let lines = send_and_wait(client, call(id, "delete", json!({"path": "/a"}))).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["method"], "elicitation/create");
    lines[0]["id"].clone()
}

fn accept() -> Value {
    json!({"action": "accept", "content": {"sure": true}})
}

#[tokio::test]
async fn responses_to_unknown_requests_are_ignored() {
    let mut client = connect(server());
    let question = ask(&mut client, 1).await;
    for id in [json!(99), json!("1"), json!(-1), json!("not a number"), json!(null)] {
        let other = json!({"jsonrpc": "2.0", "id": id, "result": {"action": "decline"}});
        assert_eq!(send(&mut client, other).len(), usize::from(id.is_null()));
    }
    assert_eq!(client.in_flight(), 1);
    let answer = json!({"jsonrpc": "2.0", "id": question, "result": accept()});
    // Sent twice now, and a third time after the call has finished.
    send(&mut client, answer.clone());
    send(&mut client, answer.clone());
    let lines = client.settle().await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["result"]["content"][0]["text"], "deleted /a");
    assert_eq!(send(&mut client, answer), [] as [Value; 0]);
}

#[tokio::test]
async fn an_invalid_answer_is_a_tool_error() {
    for (answer, expected) in [
        (json!({"result": {"action": "perhaps"}}), "the client's answer to `confirm` is invalid: "),
        (json!({"result": accept_with(json!("yes"))}), "the client's answer to `confirm` is invalid: "),
        (json!({"result": 7}), "the client's answer to `confirm` is invalid: "),
        (
            json!({"error": {"code": -1, "message": "not today"}}),
            "the client answered `elicitation/create` with an error: not today",
        ),
        (json!({"error": "oh"}), "the client answered `elicitation/create` with an error: (no message)"),
        (
            json!({"error": {"code": -1, "message": "x".repeat(1 << 16)}}),
            "the client answered `elicitation/create` with an error: xxx",
        ),
    ] {
        let mut client = connect(server());
        let mut message = json!({"jsonrpc": "2.0", "id": ask(&mut client, 1).await});
        message.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        send(&mut client, message);
        let lines = client.settle().await;
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(lines[0]["result"]["isError"], true, "{answer}: {lines:?}");
        let message = lines[0]["result"]["content"][0]["text"].as_str().unwrap();
        assert!(message.starts_with(expected), "{answer}: {message}");
        assert!(message.len() < 300, "{answer}: {message}");
    }
}

fn accept_with(sure: Value) -> Value {
    json!({"action": "accept", "content": {"sure": sure}})
}

#[tokio::test]
async fn an_answer_of_ten_megabytes_is_accepted() {
    let mut client = connect(server());
    let question = ask(&mut client, 1).await;
    let mut answer = accept();
    answer["content"]["more"] = json!("x".repeat(10 << 20));
    send(&mut client, json!({"jsonrpc": "2.0", "id": question, "result": answer}));
    assert_eq!(client.settle().await[0]["result"]["content"][0]["text"], "deleted /a");
}

#[tokio::test(start_paused = true)]
async fn a_question_times_out() {
    let mut client = connect(server().ask_timeout(Duration::from_secs(3600)).timeout(Duration::from_secs(1)));
    let question = ask(&mut client, 1).await;
    // The timeout of the call is a second, which does not include the time spent waiting for the client.
    let began = tokio::time::Instant::now();
    let lines = client.settle().await;
    assert_eq!(began.elapsed().as_secs(), 3600);
    assert_eq!(lines[0]["method"], "notifications/cancelled");
    assert_eq!(lines[0]["params"]["requestId"], question);
    assert_eq!(lines[1]["result"]["isError"], true, "{lines:?}");
    assert_eq!(lines[1]["result"]["content"][0]["text"], "the client did not answer `confirm` within 3600s");
    assert_eq!(send(&mut client, json!({"jsonrpc": "2.0", "id": question, "result": accept()})), [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_call_excludes_only_the_wait_for_the_client() {
    /// Work, ask, then hang.
    #[tool(timeout = "5s")]
    async fn hangs(ctx: &Context) -> Result<(), Fault> {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let _ = ctx.elicit::<Confirm>("confirm", "Hang?").await?;
        std::future::pending().await
    }

    let mut client = connect(Server::empty("hanging", "1.0.0").with::<hangs>());
    let question = send_and_wait(&mut client, call(1, "hangs", json!({}))).await[0]["id"].clone();
    let began = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(100)).await;
    send(&mut client, json!({"jsonrpc": "2.0", "id": question, "result": accept()}));
    let lines = client.settle().await;
    assert_eq!(lines[0]["result"]["isError"], true);
    assert_eq!(began.elapsed().as_secs(), 103);
}

/// The wait for one answer contains the wait for the other.
#[tokio::test(start_paused = true)]
async fn questions_that_overlap_extend_the_timeout_of_a_call_once() {
    /// Ask, ask again after a while, then hang.
    #[tool(timeout = "5s")]
    async fn overlaps(ctx: &Context) -> Result<(), Fault> {
        let later = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            ctx.elicit::<Confirm>("second", "And this?").await
        };
        let _ = tokio::join!(ctx.elicit::<Confirm>("first", "Hang?"), later);
        std::future::pending().await
    }

    let mut client = connect(Server::empty("hanging", "1.0.0").with::<overlaps>());
    let began = tokio::time::Instant::now();
    let first = send_and_wait(&mut client, call(1, "overlaps", json!({}))).await[0]["id"].clone();
    let second = client.next_lines().await[0]["id"].clone();
    for question in [first, second] {
        tokio::time::sleep(Duration::from_secs(35)).await;
        send(&mut client, json!({"jsonrpc": "2.0", "id": question, "result": accept()}));
    }
    let lines = client.settle().await;
    assert_eq!(lines[0]["result"]["isError"], true);
    assert_eq!(began.elapsed().as_secs(), 105);
}

#[tokio::test]
async fn cancelling_a_call_cancels_its_question() {
    let mut client = connect(server());
    let question = ask(&mut client, 1).await;
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let lines = send_and_wait(&mut client, cancelled).await;
    assert_eq!(lines[0]["method"], "notifications/cancelled");
    assert_eq!(lines[0]["params"]["requestId"], question);
    assert_eq!(send(&mut client, json!({"jsonrpc": "2.0", "id": question, "result": accept()})), [] as [Value; 0]);
    assert_eq!(client.in_flight(), 0);
}

#[tokio::test]
async fn thousands_of_questions_can_be_in_flight_up_to_the_limit() {
    const MANY: u64 = 3_000;
    let mut client = connect(server().max_in_flight(MANY as usize));
    let mut questions = Vec::new();
    for id in 1..=MANY {
        questions.append(&mut send(&mut client, call(id, "delete", json!({"path": format!("/{id}")}))));
    }
    while questions.len() < MANY as usize {
        questions.append(&mut client.next_lines().await);
    }
    assert_eq!(client.in_flight(), MANY as usize);
    let refused = send(&mut client, call(MANY + 1, "delete", json!({"path": "/"})));
    assert!(refused[0]["error"]["message"].as_str().unwrap().contains("too many requests in flight"));
    // Answered in reverse order.
    for question in questions.iter().rev() {
        send(&mut client, json!({"jsonrpc": "2.0", "id": question["id"], "result": accept()}));
    }
    let lines = client.settle().await;
    let mut answered: Vec<_> = lines
        .iter()
        .map(|line| {
            let id = line["id"].as_u64().unwrap();
            assert_eq!(line["result"]["content"][0]["text"], format!("deleted /{id}"));
            id
        })
        .collect();
    answered.sort_unstable();
    assert!(answered.into_iter().eq(1..=MANY));
}

#[tokio::test]
async fn the_pending_questions_of_a_session_are_limited() {
    use mcp_runtime::ask::Elicitation;

    /// Ask a hundred questions at once.
    #[tool]
    async fn hundred(ctx: &Context) -> Result<usize, Fault> {
        let questions =
            (0..100).map(|number| Elicitation::<Confirm>::new(number.to_string(), "Yes?")).collect::<Vec<_>>();
        ctx.ask_all(questions).await.map(|answers| answers.len())
    }

    let mut client = connect(Server::empty("curious", "1.0.0").with::<hundred>().max_in_flight(50));
    let mut lines = send(&mut client, call(1, "hundred", json!({})));
    lines.append(&mut client.settle().await);
    let error = lines.iter().find_map(|line| line["error"]["message"].as_str()).unwrap();
    assert_eq!(error, "too many requests are waiting for the client's response: the limit is 50");
    // The questions that were sent are cancelled.
    let asked = lines.iter().filter(|line| line["method"] == "elicitation/create").count();
    let cancelled = lines.iter().filter(|line| line["method"] == "notifications/cancelled").count();
    assert_eq!((asked, cancelled), (50, 50));
}

#[tokio::test]
async fn a_spawned_task_does_not_wait_beyond_the_end_of_its_call() {
    use std::sync::Arc;

    use tokio::sync::Mutex;

    type Outcome = Arc<Mutex<Option<tokio::task::JoinHandle<Result<bool, Fault>>>>>;

    /// Spawn a task that asks.
    #[tool]
    async fn spawns_task(ctx: &Context, outcome: &Outcome) -> String {
        let ctx = ctx.clone();
        let task = tokio::spawn(async move { Ok(ctx.elicit::<Confirm>("confirm", "Continue?").await?.is_accepted()) });
        tokio::task::yield_now().await;
        *outcome.lock().await = Some(task);
        "done".to_owned()
    }

    for revision in mcp_tests::revisions(|expected| expected.elicitation) {
        let outcome = Outcome::default();
        let server = Server::empty("spawning", "1.0.0").with::<spawns_task>().with_state(Arc::clone(&outcome));
        let mut client = server.test_client(revision).answering(|_| json!(null));
        let id = client.send_request("tools/call", json!({"name": "spawns_task"}));
        // The call ends with the result of the function, or with the question of the spawned task.
        client.response(id).await.unwrap();
        if let Some(task) = outcome.lock().await.take() {
            assert!(task.await.unwrap().is_err());
        }
    }
}

#[tokio::test]
async fn a_question_above_the_size_limit_is_neither_sent_nor_cancelled() {
    let mut client = connect(server());
    let lines = send_and_wait(&mut client, call(1, "delete", json!({"path": "x".repeat(2 << 20)}))).await;
    assert_eq!(lines.len(), 1, "{} lines", lines.len());
    let message = lines[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("is too large"), "{message}");
}

/// This holds even for a client that sends a call before it has received the response to `initialize`.
#[tokio::test]
async fn the_response_to_initialize_precedes_all_questions() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, duplex, split};

    let (near, far) = duplex(1 << 16);
    let server = server().build().unwrap();
    let (reader, writer) = split(far);
    let serving = tokio::spawn(async move { server.serve(reader, writer).await });
    let (reader, mut writer) = split(near);
    let initialize = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let call = json!({"name": "delete", "arguments": {"path": "a"}});
    let sent: String = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
    ]
    .map(|message| format!("{message}\n"))
    .concat();
    tokio::time::sleep(Duration::from_millis(20)).await;
    writer.write_all(sent.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(reader).lines();
    let first: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    let second: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!((&first["id"], &second["method"]), (&json!(1), &json!("elicitation/create")));
    serving.abort();
}
