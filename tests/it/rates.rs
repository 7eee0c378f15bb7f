//! The rates of log messages, completions and requests about tasks.

use std::time::Duration;

use mcp_runtime::{Context, Level, Revision, Server, SessionRates, layers::Rate, prompt, schemars::JsonSchema, tool};
use serde::Deserialize;
use serde_json::json;

use crate::layers::log::Log;

/// Send log messages.
#[tool(task = "optional")]
async fn report(ctx: &Context, messages: u32) {
    for number in 1..=messages {
        ctx.log(Level::Error, number);
    }
}

/// The tone of a greeting.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Tone {
    Formal,
    Friendly,
}

/// Greet somebody.
#[prompt]
fn greet(tone: Tone) -> String {
    format!("{tone:?}")
}

/// Return a number later.
#[tool(task = "optional")]
async fn later() -> u32 {
    7
}

/// Allows two messages of each kind. The budget is not replenished during a test.
pub(crate) fn two_each() -> SessionRates {
    let two = Rate::new(2, Duration::from_secs(7200));
    SessionRates::default().log_messages(two).completions(two).task_requests(two)
}

pub(crate) fn server(rates: SessionRates) -> Server {
    Server::empty("rates", "1.0.0").with::<report>().with::<greet>().with::<later>().session_rates(rates)
}

#[tokio::test]
async fn log_messages_over_the_rate_are_dropped() {
    let (log, _guard) = Log::listen();
    for revision in Revision::ALL {
        for (rates, messages, expected) in [
            (two_each(), 2, 2),
            (two_each(), 5, 2),
            (two_each().log_messages(None), 50, 50),
            (SessionRates::default(), 1000, 1000),
        ] {
            let mut client = server(rates).test_client(revision);
            let meta = json!({"io.modelcontextprotocol/logLevel": "error"});
            let params = json!({"name": "report", "arguments": {"messages": messages}, "_meta": meta});
            client.request("tools/call", params).await.unwrap();
            let sent = client.notifications().len();
            assert_eq!(sent, expected, "of {messages} in {revision}");
            let warnings = log.take("dropping log messages: their rate exceeds the limit of the session");
            assert_eq!(warnings.len(), usize::from(expected < messages), "of {messages} in {revision}");
        }
    }
}

/// A message that belongs to no call counts as well.
#[tokio::test]
async fn log_messages_of_the_handle_count_towards_the_rate_of_each_session() {
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_stateless()) {
        let built = server(two_each()).build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        client.request("ping", json!({})).await.unwrap();
        for number in 0..5 {
            handle.log(Level::Error, number);
        }
        assert_eq!((client.notifications().len(), handle.dropped_log_messages()), (2, 3), "{revision}");
    }
}

/// A task sends them to the session that has created it.
#[tokio::test]
async fn log_messages_of_tasks_count_towards_the_rate_of_their_session() {
    let mut client = server(two_each()).test_client(Revision::V2025_11_25);
    let params = json!({"name": "report", "arguments": {"messages": 5}, "task": {}});
    let created = client.request("tools/call", params).await.unwrap();
    client.request("tasks/result", json!({"taskId": created["task"]["taskId"]})).await.unwrap();
    let notifications = client.notifications();
    let sent = notifications.iter().filter(|message| message["method"] == "notifications/message").count();
    assert_eq!(sent, 2, "{notifications:?}");
}

#[tokio::test]
async fn completions_over_the_rate_are_rejected() {
    for revision in Revision::ALL {
        let mut client = server(two_each()).test_client(revision);
        let reference = json!({"type": "ref/prompt", "name": "greet"});
        for _ in 0..2 {
            assert_eq!(client.complete(reference.clone(), "tone", "form").await.unwrap(), ["formal"], "{revision}");
        }
        let error = client.complete(reference, "tone", "form").await.unwrap_err();
        assert!(error.message.starts_with("too many completion requests: retry in "), "{revision}: {error:?}");
        let other = client.prompt("greet", json!({"tone": "formal"})).await;
        assert!(other.is_ok(), "{revision}: {other:?}");
    }
}

#[tokio::test]
async fn task_requests_over_the_rate_are_rejected() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let mut client = server(two_each()).test_client(revision);
        let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
        let params = json!({"taskId": "unknown", "_meta": meta});
        for expected in ["task not found", "task not found", "too many requests about tasks: retry in "] {
            let error = client.request("tasks/get", params.clone()).await.unwrap_err();
            assert!(error.message.contains(expected), "{revision}: {error:?}");
        }
    }
}

#[tokio::test]
async fn sessions_have_rates_of_their_own() {
    let server = server(two_each()).build().unwrap();
    let reference = json!({"type": "ref/prompt", "name": "greet"});
    for _ in 0..3 {
        let mut client = server.test_client(Revision::V2025_11_25);
        for _ in 0..2 {
            client.complete(reference.clone(), "tone", "").await.unwrap();
        }
        client.complete(reference.clone(), "tone", "").await.unwrap_err();
    }
}
