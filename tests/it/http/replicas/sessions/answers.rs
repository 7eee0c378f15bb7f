//! Answers to questions of another replica.

use std::time::Duration;

use mcp_runtime::{
    Context, Elicit, Fault, HttpOptions,
    ask::{Ask, ClientProgress, Elicitation},
    backend::{RecordCondition, Records as _},
    tool,
};
use serde_json::json;
use tokio::sync::mpsc;

use super::{notification, open, until_method};
use crate::http::{client::soon, replicas::Cluster};

#[derive(Debug, Elicit)]
struct Confirm {
    sure: bool,
}

#[derive(Debug, Clone)]
struct Reports(mpsc::UnboundedSender<ClientProgress>);

/// Ask for confirmation, and pass on how far the client is.
#[tool]
async fn asks_patiently(ctx: &Context, reports: &Reports) -> Result<bool, Fault> {
    let Reports(reports) = reports.clone();
    let question = Elicitation::<Confirm>::new("confirm", "Sure?");
    let answer = ctx.ask(question.on_progress(move |report| drop(reports.send(report)))).await?;
    Ok(answer.accepted().is_some_and(|Confirm { sure }| sure))
}

/// The answer, and progress before it, reach the call wherever it runs.
#[tokio::test]
async fn answers_reach_the_replica_that_asked() {
    let cluster = Cluster::start(3).await;
    for version in ["2025-06-18", "2025-11-25"] {
        for answering in 0..3 {
            let session = open(cluster.at(0), version, json!({"elicitation": {}})).await;
            session.initialized().await;
            let mut call = cluster.at(1).open(&session.call(1, "asks")).await;
            let question = until_method(&mut call, "elicitation/create").await;
            let id = &question["id"];
            assert!(id.as_u64().is_some_and(|id| id < 1 << 53), "{question}");
            let progress = notification("notifications/progress", &json!({"progressToken": id, "progress": 1}));
            assert_eq!(cluster.at(answering).send(&session.post(&progress)).await.status, 202);
            let content = json!({"action": "accept", "content": {"sure": true}});
            let answer = session.post(&json!({"jsonrpc": "2.0", "id": id, "result": content}));
            // A second answer has no effect.
            for _ in 0..2 {
                assert_eq!(cluster.at(answering).send(&answer).await.status, 202);
            }
            let messages = call.messages().await;
            assert_eq!(messages.len(), 1, "{version} {answering} {messages:?}");
            assert_eq!(messages[0]["result"]["content"][0]["text"], "sure", "{version} {answering}");
        }
    }
}

/// All answers reach their calls, although the replica that asked has deleted none of them yet.
#[tokio::test]
async fn many_answers_at_a_time_reach_the_replica_that_asked() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    session.initialized().await;
    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    for number in 0..100 {
        let mut call = cluster.at(0).open(&session.call(number, "asks")).await;
        let id = until_method(&mut call, "elicitation/create").await["id"].clone();
        let result = json!({"action": "accept", "content": {"sure": true}});
        answers.push(session.post(&json!({"jsonrpc": "2.0", "id": id, "result": result})));
        calls.push(call);
    }
    let mut connections = Vec::new();
    for answer in &answers {
        let mut connection = cluster.at(1).connect().await;
        connection.write(&answer.bytes()).await;
        connections.push(connection);
    }
    for connection in connections {
        assert_eq!(connection.response().await.full().await.0.status, 202);
    }
    for mut call in calls {
        assert_eq!(call.messages().await[0]["result"]["content"][0]["text"], "sure");
    }
}

/// The answer of one session never reaches the question of another.
#[tokio::test]
async fn answers_reach_questions_of_their_own_session_only() {
    let cluster = Cluster::start(2).await;
    let version = "2025-11-25";
    let victim = open(cluster.at(0), version, json!({"elicitation": {}})).await;
    victim.initialized().await;
    let other = open(cluster.at(1), version, json!({"elicitation": {}})).await;
    other.initialized().await;
    let mut call = cluster.at(0).open(&victim.call(1, "asks")).await;
    let question = until_method(&mut call, "elicitation/create").await;
    let decline = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    let accept = json!({"action": "accept", "content": {"sure": true}});
    let accept = json!({"jsonrpc": "2.0", "id": question["id"], "result": accept});
    for replica in 0..2 {
        assert_eq!(cluster.at(replica).send(&other.post(&decline)).await.status, 202);
    }
    assert_eq!(cluster.at(1).send(&victim.post(&accept)).await.status, 202);
    assert_eq!(call.messages().await[0]["result"]["content"][0]["text"], "sure");
}

/// A client that makes up answers occupies neither the replica that has asked nor the backend.
#[tokio::test]
async fn answers_that_nobody_waits_for_are_bounded() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-03-26", json!({"roots": {}, "sampling": {}, "elicitation": {}})).await;
    session.initialized().await;
    let other = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    other.initialized().await;
    let mut call = cluster.at(0).open(&other.call(1, "asks")).await;
    let question = until_method(&mut call, "elicitation/create").await["id"].as_u64().unwrap();
    let answer = |id: u64, length: usize| json!({"jsonrpc": "2.0", "id": id, "result": {"x": "x".repeat(length)}});
    // The question of a replica that is gone.
    let gone = question ^ (1 << 40);
    for (length, count, max_stored) in [(0, 100, 64), (32 << 10, 20, 16)] {
        let mut refused = 0;
        for number in 0..count {
            let answered = cluster.at(1).send(&session.post(&answer(gone + number, length))).await;
            assert!(matches!(answered.status, 202 | 503), "{answered:?}");
            assert_eq!(answered.header("retry-after").is_some(), answered.status == 503);
            refused += usize::from(answered.status == 503);
        }
        // A small one is sent, even if it is not stored.
        assert_eq!(refused > 0, length > 0, "{refused} answers of {length} bytes were refused");
        let group = format!("mcp/1/answers/{}", session.id);
        let stored = cluster.backend().list(&group, None, 1000).await.unwrap();
        for (name, _) in &stored {
            cluster.backend().delete(&format!("{group}:{name}"), RecordCondition::Always).await.unwrap();
        }
        assert_eq!(stored.len(), max_stored, "no replica takes them");
    }
    // A replica deletes answers to questions that it has not asked.
    for number in 0..20 {
        let answered = cluster.at(1).send(&session.post(&answer(question + 1000 + number, 32 << 10))).await;
        assert_eq!(answered.status, 202, "{number}");
        let deleted = async || {
            while cluster.backend().count(&format!("mcp/1/answers/{}", session.id)).await.unwrap() > 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        soon(deleted()).await;
    }
    // Other sessions are not affected.
    let accept = json!({"action": "accept", "content": {"sure": true}});
    let accept = json!({"jsonrpc": "2.0", "id": question, "result": accept});
    assert_eq!(cluster.at(1).send(&other.post(&accept)).await.status, 202);
    assert_eq!(call.messages().await[0]["result"]["content"][0]["text"], "sure");
    // The client repeats it, as if it had not received the status.
    assert_eq!(cluster.at(1).send(&other.post(&accept)).await.status, 202);
    let deleted = async || {
        while cluster.backend().count(&format!("mcp/1/answers/{}", other.id)).await.unwrap() > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    soon(deleted()).await;
}

/// Large answers are left in the backend, where the replica that has asked takes them.
#[tokio::test]
async fn an_answer_that_is_too_long_for_another_replica_fails_its_question() {
    let cluster = Cluster::start(2).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    session.initialized().await;
    for (call, padding, expected) in [(1, 32 << 10, "sure"), (2, 1 << 20, "too long for another replica")] {
        let mut stream = cluster.at(0).open(&session.call(call, "asks")).await;
        let id = until_method(&mut stream, "elicitation/create").await["id"].clone();
        let content = json!({"sure": true, "padding": "x".repeat(padding)});
        let result = json!({"action": "accept", "content": content});
        let answer = session.post(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        assert_eq!(cluster.at(1).send(&answer).await.status, 202);
        let message = &stream.messages().await[0];
        assert!(message.to_string().contains(expected), "{message}");
        if call == 1 {
            let stored = cluster.backend().list(&format!("mcp/1/answers/{}", session.id), None, 10).await.unwrap();
            assert_eq!(stored.len(), 0, "what was taken leaves room for others");
        }
    }
}

/// Opening a session: its record and its share of the peer's sessions. Nothing is stored for `initialized`. An
/// answer at another replica: its record and its announcement, which contains the answer. The replica that asked only
/// deletes the record.
#[tokio::test]
async fn sessions_and_answers_need_few_operations_of_the_backend() {
    // The lease is not renewed during the test.
    let cluster = Cluster::start_with(2, HttpOptions::default, |server| server.lease(Duration::from_secs(600))).await;
    for round in 0..3 {
        let before = cluster.operations(0);
        let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
        session.initialized().await;
        let opened = cluster.operations(0) - before;
        // The other replica reads the session.
        assert_eq!(cluster.at(1).send(&session.call(1, "small")).await.status, 200);
        let mut call = cluster.at(0).open(&session.call(2, "asks")).await;
        let id = until_method(&mut call, "elicitation/create").await["id"].clone();
        let before = cluster.operations(1);
        let result = json!({"action": "accept", "content": {"sure": true}});
        let answer = session.post(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
        assert_eq!(cluster.at(1).send(&answer).await.status, 202);
        assert_eq!(call.messages().await[0]["result"]["content"][0]["text"], "sure");
        let answered = cluster.operations(1) - before;
        // The first round includes joining.
        assert!(round == 0 || (opened, answered) == (2, 2), "{opened} and {answered} operations");
        let answers = format!("mcp/1/answers/{}", session.id);
        while cluster.backend().count(&answers).await.unwrap() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// The progress of a client keeps a question from timing out.
#[tokio::test]
async fn progress_reaches_the_replica_that_asked() {
    let (sender, mut reports) = mpsc::unbounded_channel();
    let configure = |server: mcp_runtime::Server| server.with::<asks_patiently>().with_state(Reports(sender.clone()));
    let cluster = Cluster::start_with(2, HttpOptions::default, configure).await;
    let session = open(cluster.at(0), "2025-11-25", json!({"elicitation": {}})).await;
    session.initialized().await;
    for answering in 0..2 {
        let mut call = cluster.at(0).open(&session.call(1, "asks_patiently")).await;
        let question = until_method(&mut call, "elicitation/create").await;
        let token = &question["params"]["_meta"]["progressToken"];
        let params = json!({"progressToken": token, "progress": 1, "total": 2, "message": "half"});
        let progress = session.post(&notification("notifications/progress", &params));
        assert_eq!(cluster.at(answering).send(&progress).await.status, 202);
        let report = soon(reports.recv()).await.unwrap();
        assert_eq!((report.progress, report.total, report.message.as_deref()), (1.0, Some(2.0), Some("half")));
        let result = json!({"action": "accept", "content": {"sure": true}});
        let answer = session.post(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}));
        assert_eq!(cluster.at(answering).send(&answer).await.status, 202);
        assert_eq!(call.messages().await.last().unwrap()["result"]["content"][0]["text"], "true");
    }
}
