//! Clients that answer wrongly, late, twice or never, where the server waits for them.

use std::time::Duration;

use mcp_runtime::{Context, Fault, Revision, Server, TestClient, tool};
use serde_json::{Value, json};

use super::{Confirm, server};

const REVISION: Revision = Revision::V2025_11_25;

/// Connects a client that can be asked, and answers by hand.
fn connect(server: Server) -> TestClient {
    let mut client = TestClient::silent(server, REVISION);
    let params = json!({"protocolVersion": REVISION.as_str(), "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "by hand", "version": "1.0.0"}});
    send(&mut client, json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
    client
}

fn send(client: &mut TestClient, message: Value) -> Vec<Value> {
    client.send_raw(message.to_string().as_bytes())
}

/// Sends a message, and waits for something to come back if it was not there at once.
async fn send_and_wait(client: &mut TestClient, message: Value) -> Vec<Value> {
    let lines = send(client, message);
    if lines.is_empty() { client.next_lines().await } else { lines }
}

fn call(id: u64, name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

/// Calls `delete` and gives the id of the question that it asks.
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
async fn answers_to_nothing_are_ignored() {
    let mut client = connect(server());
    let question = ask(&mut client, 1).await;
    for id in [json!(99), json!("1"), json!(-1), json!("no number"), json!(null)] {
        assert_eq!(
            send(&mut client, json!({"jsonrpc": "2.0", "id": id, "result": accept()})).len(),
            usize::from(id.is_null())
        );
    }
    assert_eq!(client.in_flight(), 1);
    let answer = json!({"jsonrpc": "2.0", "id": question, "result": accept()});
    // Twice, and once more when the call has its result.
    send(&mut client, answer.clone());
    send(&mut client, answer.clone());
    let lines = client.settle().await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["result"]["content"][0]["text"], "deleted /a");
    assert_eq!(send(&mut client, answer), [] as [Value; 0]);
}

#[tokio::test]
async fn bad_answers_end_the_call_with_an_error() {
    for (answer, why) in [
        (json!({"result": {"action": "perhaps"}}), "the client's answer to `confirm` is invalid: "),
        (json!({"result": accept_with(json!("yes"))}), "the client's answer to `confirm` is invalid: "),
        (json!({"result": 7}), "the client's answer to `confirm` is invalid: "),
        (
            json!({"error": {"code": -1, "message": "not today"}}),
            "the client answered `elicitation/create` with an error: not today",
        ),
        (json!({"error": "oh"}), "the client answered `elicitation/create` with an error: an error"),
    ] {
        let mut client = connect(server());
        let mut message = json!({"jsonrpc": "2.0", "id": ask(&mut client, 1).await});
        message.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
        send(&mut client, message);
        let lines = client.settle().await;
        assert_eq!(lines.len(), 1, "{lines:?}");
        let message = lines[0]["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(why), "{answer}: {message}");
    }
}

fn accept_with(sure: Value) -> Value {
    json!({"action": "accept", "content": {"sure": sure}})
}

#[tokio::test]
async fn an_answer_of_ten_megabytes_is_read_like_any_other() {
    let mut client = connect(server());
    let question = ask(&mut client, 1).await;
    let mut answer = accept();
    answer["content"]["more"] = json!("x".repeat(10 << 20));
    send(&mut client, json!({"jsonrpc": "2.0", "id": question, "result": answer}));
    assert_eq!(client.settle().await[0]["result"]["content"][0]["text"], "deleted /a");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_answers_is_given_up() {
    let mut client = connect(server().ask_timeout(Duration::from_secs(3600)).timeout(Duration::from_secs(1)));
    let question = ask(&mut client, 1).await;
    // The call may take a second, but waiting for a person does not count.
    let began = tokio::time::Instant::now();
    let lines = client.settle().await;
    assert_eq!(began.elapsed().as_secs(), 3600);
    assert_eq!(lines[0]["method"], "notifications/cancelled");
    assert_eq!(lines[0]["params"]["requestId"], question);
    assert_eq!(lines[1]["error"]["message"], "the client did not answer `confirm` within 3600s");
    assert_eq!(send(&mut client, json!({"jsonrpc": "2.0", "id": question, "result": accept()})), [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_time_that_a_function_takes_itself_still_counts() {
    /// Ask, then hang.
    #[tool(timeout = "5s")]
    async fn hangs(ctx: &Context) -> Result<(), Fault> {
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
    assert_eq!(began.elapsed().as_secs(), 105);
}

#[tokio::test]
async fn a_call_that_is_cancelled_takes_its_question_back() {
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
async fn ten_thousand_questions_are_in_flight_and_no_more_than_allowed() {
    const MANY: u64 = 10_000;
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
    // Last come, first served.
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
async fn one_call_may_not_ask_without_end() {
    use mcp_runtime::Elicitation;

    /// Ask a hundred things at once.
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
    assert_eq!(error, "too many questions wait for the client, at most 50 may");
    // Those that were asked are taken back.
    let asked = lines.iter().filter(|line| line["method"] == "elicitation/create").count();
    let taken_back = lines.iter().filter(|line| line["method"] == "notifications/cancelled").count();
    assert_eq!((asked, taken_back), (50, 50));
}

#[tokio::test]
async fn work_beside_a_call_is_not_left_waiting_for_an_answer() {
    use std::sync::Arc;

    use tokio::sync::Mutex;

    type Outcome = Arc<Mutex<Option<tokio::task::JoinHandle<Result<bool, Fault>>>>>;

    /// Leave a task behind that asks.
    #[tool]
    async fn leaves_a_task(ctx: &Context, outcome: &Outcome) -> String {
        let ctx = ctx.clone();
        let task =
            tokio::spawn(async move { Ok(ctx.elicit::<Confirm>("confirm", "Still there?").await?.is_accepted()) });
        tokio::task::yield_now().await;
        *outcome.lock().await = Some(task);
        "done".to_owned()
    }

    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let outcome = Outcome::default();
        let server = Server::empty("beside", "1.0.0").with::<leaves_a_task>().with_state(Arc::clone(&outcome));
        let mut client = server.test_client(revision).answering(|_| json!(null));
        let id = client.send_request("tools/call", json!({"name": "leaves_a_task"}));
        // Of a function that has its result, or one that ends with the question of its task: one answer either way.
        client.answer(id).await.unwrap();
        if let Some(task) = outcome.lock().await.take() {
            assert!(task.await.unwrap().is_err());
        }
    }
}

#[tokio::test]
async fn a_question_that_is_too_large_is_refused_and_never_taken_back() {
    let mut client = connect(server());
    let lines = send_and_wait(&mut client, call(1, "delete", json!({"path": "x".repeat(2 << 20)}))).await;
    assert_eq!(lines.len(), 1, "{} lines", lines.len());
    let why = lines[0]["error"]["message"].as_str().unwrap();
    assert!(why.contains("is too large"), "{why}");
}

/// A client that does not wait for the answer to `initialize` finds it before what the function asks.
#[tokio::test]
async fn the_greeting_is_answered_before_anything_is_asked() {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, duplex, split};

    let (near, far) = duplex(1 << 16);
    let server = server().build().unwrap();
    let (reader, writer) = split(far);
    let serving = tokio::spawn(async move { server.serve(reader, writer).await });
    let (reader, mut writer) = split(near);
    let greeting = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let call = json!({"name": "delete", "arguments": {"path": "a"}});
    let mut sent = String::new();
    for (id, method, params) in [(1, "initialize", greeting), (2, "tools/call", call)] {
        sent += &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        sent.push('\n');
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    writer.write_all(sent.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(reader).lines();
    let first: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    let second: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!((&first["id"], &second["method"]), (&json!(1), &json!("elicitation/create")));
    serving.abort();
}
