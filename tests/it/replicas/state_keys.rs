//! Request states that any process can open, without a configured key.

use std::{sync::Arc, time::Duration};

use mcp_runtime::{
    Context, Elicit, Fault, Revision, Server, StateKey,
    ask::Answer,
    backend::{RecordCondition, Records},
    testing::{RpcError, TestClient},
    tool,
};
use mcp_tests::backend::{Health, UnreliableBackend};
use serde_json::{Value, json};

use super::{Replica, replicas};

const RECORD: &str = "mcp/1/state-keys";
const KEYS: [&str; 3] = ["first", "second", "third"];

#[derive(Debug, Elicit)]
struct Sure {
    sure: bool,
}

/// Ask three times, one question after the other.
#[tool]
async fn ask(ctx: &Context) -> Result<String, Fault> {
    let number = ctx.once("number", async { 7 }).await?;
    let mut answers = Vec::new();
    for key in KEYS {
        answers.push(matches!(ctx.elicit::<Sure>(key, key).await?, Answer::Accept(Sure { sure: true })));
    }
    Ok(format!("{number} {answers:?}"))
}

/// Ask once, and do not wait long for the answer.
#[tool]
async fn ask_briefly(ctx: &Context) -> Result<String, Fault> {
    ctx.once("number", async { 7 }).await?;
    match tokio::time::timeout(Duration::from_millis(500), ctx.elicit::<Sure>("first", "first")).await {
        Ok(answer) => Ok(format!("{:?}", answer?)),
        Err(_) => Ok("no answer".to_owned()),
    }
}

/// Ask from another task, which does not wait long for the answer.
#[tool]
async fn ask_elsewhere(ctx: &Context) -> Result<String, Fault> {
    ctx.once("number", async { 7 }).await?;
    let ctx = ctx.clone();
    let asking =
        async move { tokio::time::timeout(Duration::from_millis(500), ctx.elicit::<Sure>("first", "first")).await };
    Ok(if tokio::spawn(asking).await.unwrap().is_ok() { "answered" } else { "no answer" }.to_owned())
}

fn server() -> Server {
    Server::empty("asking", "1.0.0").with::<ask>().with::<ask_briefly>().with::<ask_elsewhere>()
}

fn client(replica: &Replica) -> TestClient {
    replica.server.test_client(Revision::V2026_07_28)
}

/// Sends one round of the call, in which the client answers what it was asked.
async fn round(client: &mut TestClient, before: &Value) -> Result<Value, RpcError> {
    let mut params = json!({"name": "ask", "arguments": {},
        "_meta": {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}});
    if let Some(requests) = before["inputRequests"].as_object() {
        let answer = json!({"action": "accept", "content": {"sure": true}});
        params["inputResponses"] = requests.keys().map(|key| (key.clone(), answer.clone())).collect();
        params["requestState"] = before["requestState"].clone();
    }
    client.request("tools/call", params).await
}

/// Waits until a replica has read the keys.
async fn sealed(client: &mut TestClient) -> Value {
    for _ in 0..100 {
        match round(client, &Value::Null).await {
            Ok(result) => return result,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    panic!("the keys are not read");
}

fn is_retryable(error: &RpcError) -> bool {
    error.message.contains("retry") && !error.message.contains("without it")
}

#[tokio::test(start_paused = true)]
async fn every_round_may_go_to_another_process() {
    let replicas = replicas::<3>(server);
    let mut clients = replicas.each_ref().map(client);
    for client in &mut clients {
        sealed(client).await;
    }
    let mut result = Value::Null;
    for round_number in 0..=KEYS.len() {
        result = round(&mut clients[round_number % 3], &result).await.unwrap();
    }
    assert_eq!(result["content"][0]["text"], "7 [true, true, true]");
}

#[tokio::test(start_paused = true)]
async fn the_first_call_waits_for_the_keys() {
    for replica in replicas::<2>(server) {
        round(&mut client(&replica), &Value::Null).await.unwrap();
    }
}

/// The function cannot continue before the client has answered, whatever it waits for, unless another task has withdrawn
/// the question.
#[tokio::test(start_paused = true)]
async fn a_function_does_not_run_while_its_call_waits_for_the_keys() {
    for (tool, is_withdrawn) in [("ask_briefly", false), ("ask_elsewhere", true)] {
        let [replica] = replicas::<1>(server);
        replica.backend.set_health(Health::Hanging);
        let mut client = client(&replica);
        let capabilities = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
        let params = json!({"name": tool, "arguments": {}, "_meta": capabilities});
        let call = client.request("tools/call", params);
        match tokio::time::timeout(Duration::from_secs(60), call).await.expect("a response") {
            Ok(result) => assert!(is_withdrawn && result["content"][0]["text"] == "no answer", "{tool} {result}"),
            Err(error) => assert!(!is_withdrawn && is_retryable(&error), "{tool} {error:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_configured_key_takes_the_place_of_the_shared_ones() {
    let key = |byte| move || server().state_keys([StateKey::new([byte; 32])]);
    let [mut first, mut second] = replicas::<2>(key(1)).each_ref().map(client);
    let [mut foreign] = replicas::<1>(key(2)).each_ref().map(client);
    let result = round(&mut first, &Value::Null).await.unwrap();
    assert!(round(&mut second, &result).await.is_ok());
    assert!(!is_retryable(&round(&mut foreign, &result).await.unwrap_err()));
}

#[tokio::test(start_paused = true)]
async fn calls_fail_until_the_keys_were_read_and_go_on_without_the_backend() {
    for health in [Health::Failing, Health::Hanging] {
        let replicas = replicas::<2>(server);
        let mut clients = replicas.each_ref().map(client);
        replicas[0].backend.set_health(health);
        let opened = sealed(&mut clients[1]).await;
        for _ in 0..3 {
            let error = round(&mut clients[0], &Value::Null).await.unwrap_err();
            assert!(is_retryable(&error), "{health:?} {error:?}");
            assert!(is_retryable(&round(&mut clients[0], &opened).await.unwrap_err()), "{health:?}");
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        replicas[0].backend.set_health(Health::Up);
        sealed(&mut clients[0]).await;
        replicas[0].backend.set_health(health);
        tokio::time::sleep(Duration::from_secs(300)).await;
        assert!(round(&mut clients[0], &opened).await.is_ok(), "{health:?}");
    }
}

/// As if the backend had lost the record, and a new process had written another one.
#[tokio::test(start_paused = true)]
async fn a_key_that_a_process_does_not_know_is_read() {
    let [first, second] = replicas::<2>(server);
    let mut clients = [&first, &second].map(client);
    let mut results = Vec::new();
    for client in &mut clients {
        results.push(sealed(client).await);
    }
    // Nothing is about to be read.
    tokio::time::sleep(Duration::from_secs(10)).await;
    first.backend.reliable().delete(RECORD, RecordCondition::Always).await.unwrap();
    let third = server().backend(std::sync::Arc::new(first.backend.other_process())).build().unwrap();
    let mut third = third.test_client(Revision::V2026_07_28);
    let result = sealed(&mut third).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let error = round(&mut clients[0], &result).await.unwrap_err();
    assert!(is_retryable(&error), "{error:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(round(&mut clients[0], &result).await.is_ok());
    // The first process has put its own key back.
    assert!(round(&mut third, &results[0]).await.is_err_and(|error| is_retryable(&error)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(round(&mut third, &results[0]).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn invented_keys_do_not_flood_the_backend() {
    // The lease is not renewed during the test.
    let [replica] = replicas::<1>(|| server().lease(Duration::from_secs(600)));
    let mut client = client(&replica);
    let result = sealed(&mut client).await;
    let before = replica.backend.operations();
    for number in 0..1000 {
        let mut forged = result.clone();
        let state = result["requestState"].as_str().unwrap();
        // The id of the key follows the first byte.
        forged["requestState"] = format!("{}{number:04}{}", &state[..2], &state[6..]).into();
        assert!(round(&mut client, &forged).await.is_err());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let reads = replica.backend.operations() - before;
    assert!((1..=5).contains(&reads), "{reads} reads in 10 seconds");
    assert!(round(&mut client, &result).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_malformed_is_kept() {
    let [replica] = replicas::<1>(server);
    let reliable = replica.backend.reliable();
    reliable.set(RECORD, RecordCondition::Always, b"?".to_vec(), Duration::from_secs(3600)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let error = round(&mut client(&replica), &Value::Null).await.unwrap_err();
    assert!(is_retryable(&error), "{error:?}");
    assert_eq!(*reliable.get(RECORD).await.unwrap().unwrap().value, *b"?");
}

/// The clocks of the replicas differ from that of the backend, which decides when a key is due.
#[tokio::test(start_paused = true)]
async fn keys_are_dated_by_the_clock_of_the_backend() {
    let backend = Arc::new(UnreliableBackend::default());
    backend.set_clock_back(Duration::from_secs(3600));
    let server = server().backend(Arc::clone(&backend)).build().unwrap();
    sealed(&mut server.test_client(Revision::V2026_07_28)).await;
    let record = backend.reliable().get(RECORD).await.unwrap().unwrap();
    let record: Value = serde_json::from_slice(&record.value).unwrap();
    let created = record["keys"][0]["created"].as_u64().unwrap();
    assert!(created <= backend.now().await.unwrap().as_unix_millis(), "{record}");
}
