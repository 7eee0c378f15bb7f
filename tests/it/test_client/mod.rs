//! The methods of `TestClient`, in every revision that has what they use.

mod over_http;

use std::time::Duration;

use mcp_runtime::{
    Context, Elicit, Fault, Level, Revision, Server, SessionRates,
    ask::{Answer, Capability},
    auth::{Identity, Principal},
    function::{EarlierArguments, TaskStatus},
    layers::Rate,
    prompt, resource,
    testing::{GetPromptResult, ListedEntry, ReadResult, TestClient},
    tool,
};
use serde_json::{Value, json};

/// Report progress and log, at several levels.
#[tool]
fn report(ctx: &Context, words: Vec<String>) -> usize {
    for (done, word) in words.iter().enumerate() {
        ctx.progress(done + 1, words.len(), word);
    }
    ctx.debug("counted");
    ctx.log_as("counter", Level::Error, json!({"words": words.len()}));
    words.len()
}

/// Plan a trip.
#[prompt]
fn trip(country: &str, #[arg(complete = cities)] city: &str) -> String {
    format!("{city} in {country}")
}

/// Describe a city.
#[resource("city://{country}/{city}", complete(city = cities))]
fn city(country: String, city: String) -> String {
    format!("{city} in {country}")
}

/// The menu.
#[resource("menu://today")]
fn menu() -> &'static str {
    "soup"
}

fn cities(text: &str, earlier: &EarlierArguments) -> Vec<&'static str> {
    let all = if earlier.get("country") == Some("Austria") { vec!["Graz", "Wien"] } else { vec!["Bern", "Genf"] };
    all.into_iter().filter(|city| city.starts_with(text)).collect()
}

#[derive(Elicit)]
struct Name {
    name: String,
}

/// Greet the user.
#[tool(task)]
async fn greet(ctx: &Context) -> Result<String, Fault> {
    match ctx.elicit::<Name>("name", "Who are you?").await? {
        Answer::Accept(Name { name }) => Ok(format!("Hello, {name}!")),
        Answer::Decline | Answer::Cancel => Err(Fault::invalid_params("a stranger")),
    }
}

/// Never end.
#[tool(task)]
async fn wait() {
    std::future::pending().await
}

fn server() -> Server {
    let server = Server::empty("test", "1.0.0").with::<report>().with::<trip>().with::<city>().with::<menu>();
    server.with::<greet>().with::<wait>()
}

#[tokio::test]
async fn progress_is_returned_with_the_result() {
    for revision in Revision::ALL {
        let mut client = server().test_client(revision);
        // Each call has progress of its own.
        for (words, expected) in [
            (json!(["a"]), vec![(1.0, Some(1.0), "a")]),
            (json!(["a", "b"]), vec![(1.0, Some(2.0), "a"), (2.0, Some(2.0), "b")]),
            (json!([]), vec![]),
        ] {
            let (result, updates) = client.call_with_progress("report", json!({"words": words})).await.unwrap();
            assert_eq!(result.text(), words.as_array().unwrap().len().to_string());
            let has_message = mcp_tests::expected(revision).progress_messages;
            let expected: Vec<_> = expected
                .into_iter()
                .map(|(done, total, message)| (done, total, has_message.then(|| message.to_owned())))
                .collect();
            let updates: Vec<_> =
                updates.into_iter().map(|update| (update.progress, update.total, update.message)).collect();
            assert_eq!(updates, expected, "{revision}");
        }
        let error = client.call_with_progress("missing", ()).await.unwrap_err();
        assert_eq!(error.code, -32602, "{revision}");
    }
}

/// A client that begins to answer requests connects again.
#[tokio::test]
async fn the_messages_of_an_earlier_connection_are_discarded() {
    for revision in Revision::ALL {
        let mut client = server().test_client(revision);
        let params = json!({"name": "report", "arguments": {"words": ["a"]}, "_meta": {"progressToken": 1}});
        client.request("tools/call", params).await.unwrap();
        assert_eq!(client.answering(|_| json!(null)).notifications(), [] as [Value; 0], "{revision}");
    }
}

#[test]
fn results_are_read_by_name() {
    let contents = json!([{"uri": "a:b", "mimeType": "text/plain", "text": "a"}, {"blob": "AQI="}, {"text": "c"}]);
    let read = ReadResult(json!({"contents": contents}));
    assert_eq!((read.text().as_str(), read.bytes(), read.mime_type()), ("a\nc", Some(vec![1, 2]), Some("text/plain")));
    let messages = json!([{"content": {"text": "a"}}, {"content": {"type": "image"}}, {"content": {"text": "c"}}]);
    let prompt = GetPromptResult(json!({"description": "Prompt.", "messages": messages}));
    assert_eq!((prompt.text().as_str(), prompt.description()), ("a\nc", Some("Prompt.")));
    let entry = ListedEntry(json!({"name": "one", "title": "One", "description": "First.", "uriTemplate": "a:{b}"}));
    assert_eq!((entry.name(), entry.title(), entry.description()), ("one", Some("One"), Some("First.")));
    assert_eq!(entry.uri(), Some("a:{b}"));
}

#[tokio::test]
async fn arguments_of_prompts_and_templates_are_completed() {
    for revision in Revision::ALL {
        let mut client = server().test_client(revision);
        let austria: &[_] = &[("country", "Austria")];
        for (text, earlier, expected) in [
            ("", &[][..], &["Bern", "Genf"][..]),
            ("G", &[], &["Genf"]),
            ("x", &[], &[]),
            ("", austria, &["Graz", "Wien"]),
            ("W", austria, &["Wien"]),
        ] {
            let prompt = client.complete_prompt("trip", "city", text, earlier).await.unwrap();
            assert_eq!(prompt, expected, "{revision} {text:?} {earlier:?}");
            let template = client.complete_resource("city://{country}/{city}", "city", text, earlier).await.unwrap();
            assert_eq!(template, expected, "{revision} {text:?} {earlier:?}");
        }
        assert_eq!(client.complete_prompt("missing", "city", "", &[]).await.unwrap_err().code, -32602);
        assert!(client.complete_resource("city://{missing}", "city", "", &[]).await.is_err());
    }
}

#[tokio::test]
async fn booleans_are_completed() {
    /// Decide.
    #[prompt]
    fn decide(sure: bool) -> String {
        sure.to_string()
    }

    for revision in Revision::ALL {
        let mut client = Server::empty("test", "1.0.0").with::<decide>().test_client(revision);
        for (text, expected) in [("", &["false", "true"][..]), ("T", &["true"]), ("x", &[])] {
            let values = client.complete_prompt("decide", "sure", text, &[]).await.unwrap();
            assert_eq!(values, expected, "{revision} {text:?}");
        }
    }
}

#[tokio::test]
async fn log_messages_have_the_requested_level() {
    for revision in Revision::ALL {
        for (level, expected) in [
            (Level::Debug, vec![(Level::Debug, None, json!("counted")), error_message()]),
            (Level::Info, vec![error_message()]),
            (Level::Critical, vec![]),
        ] {
            let mut client = server().test_client(revision);
            client.set_log_level(level).await.unwrap();
            client.call("report", json!({"words": ["a"]})).await.unwrap();
            let messages =
                client.log_messages().into_iter().map(|message| (message.level, message.logger, message.data));
            assert_eq!(messages.collect::<Vec<_>>(), expected, "{revision} {level:?}");
            assert_eq!(client.log_messages(), []);
        }
    }
}

fn error_message() -> (Level, Option<String>, Value) {
    (Level::Error, Some("counter".to_owned()), json!({"words": 1}))
}

#[tokio::test]
async fn changes_of_subscribed_resources_arrive() {
    for revision in Revision::ALL {
        let server = server();
        let handle = server.handle();
        let mut client = server.test_client(revision);
        client.subscribe("menu://today").await.unwrap();
        client.subscribe("city://Austria/Wien").await.unwrap();
        for (changed, expected) in [
            (vec![], vec![]),
            (vec!["menu://today"], vec!["menu://today"]),
            (vec!["city://Austria/Graz"], vec![]),
            (vec!["city://Austria/Wien", "city://Austria/Wien"], vec!["city://Austria/Wien"]),
        ] {
            for uri in &changed {
                handle.resource_updated(uri);
            }
            assert_eq!(client.updated_resources(), expected, "{revision} {changed:?}");
        }
        assert!(client.subscribe("menu://tomorrow").await.is_err(), "{revision}");
    }
}

#[tokio::test]
async fn tasks_are_answered_cancelled_and_expected_to_exist() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let client = server().test_client(revision);
        let mut client = client.answering(|request| {
            assert_eq!((&*request.method, request.message()), ("elicitation/create", "Who are you?"));
            json!({"action": "accept", "content": {"name": "Ada"}})
        });
        let (greeting, waiting) =
            (client.start_task("greet", ()).await.unwrap(), client.start_task("wait", ()).await.unwrap());
        assert_ne!(greeting.id(), waiting.id());
        assert_eq!(greeting.result(&mut client).await.unwrap().text(), "Hello, Ada!", "{revision}");
        assert_eq!(greeting.status(&mut client).await.unwrap(), TaskStatus::Completed);
        assert_eq!(waiting.status(&mut client).await.unwrap(), TaskStatus::Working);
        waiting.cancel(&mut client).await.unwrap();
        assert_eq!(waiting.status(&mut client).await.unwrap(), TaskStatus::Cancelled);
        assert!(waiting.result(&mut client).await.is_err(), "{revision}");
        // The tool cannot be a task.
        let refused = client.start_task("missing", ()).await.unwrap_err();
        assert_eq!(refused.code, -32602, "{revision}");
    }
}

/// Sleep for ten minutes.
#[tool(task)]
async fn sleep() -> &'static str {
    tokio::time::sleep(Duration::from_secs(600)).await;
    "awake"
}

/// The server limits the rate of requests about tasks, and says how often a client should poll.
#[tokio::test(start_paused = true)]
async fn the_result_of_a_long_task_arrives() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        for rates in
            [SessionRates::default(), SessionRates::default().task_requests(Rate::new(10, Duration::from_secs(5)))]
        {
            let server = Server::empty("test", "1.0.0").with::<sleep>().session_rates(rates);
            let mut client = server.test_client(revision);
            let task = client.start_task("sleep", ()).await.unwrap();
            assert_eq!(task.result(&mut client).await.unwrap().text(), "awake", "{revision}");
        }
    }
}

#[tokio::test]
async fn a_failed_task_has_the_error_of_the_call() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let mut client = server().test_client(revision).answering(|_| json!({"action": "decline"}));
        let task = client.start_task("greet", ()).await.unwrap();
        let error = task.result(&mut client).await.unwrap_err();
        assert_eq!((error.code, &*error.message), (-32602, "invalid params: a stranger"), "{revision}");
    }
}

#[tokio::test]
#[should_panic(expected = "the server wrote nothing for 10ms, with 1 requests in flight")]
async fn a_server_that_never_answers_fails_the_test() {
    let mut client = server().test_client(Revision::V2025_11_25).max_wait(Duration::from_millis(10));
    drop(client.call("wait", ()).await);
}

#[tokio::test]
#[should_panic(expected = "the call of `report` did not become a task")]
async fn a_call_that_does_not_become_a_task_fails_the_test() {
    let mut client: TestClient = server().test_client(Revision::V2026_07_28);
    drop(client.start_task("report", json!({"words": []})).await);
}

/// Delete all notes.
#[tool(scopes("notes:write"))]
fn clear() {}

/// Delete a note, with another scope if it is shared.
#[tool]
fn delete(ctx: &Context, is_shared: bool) -> Result<(), Fault> {
    if is_shared { ctx.require_scopes("notes:share") } else { Ok(()) }
}

#[tokio::test]
async fn only_the_local_user_needs_no_scopes() {
    let server = Server::empty("notes", "1.0.0").with::<clear>().with::<delete>().build().unwrap();
    let identity = |scopes: &[&str]| Identity::new(Principal::new("Ada")).with_scopes(scopes.iter().copied());
    for revision in Revision::ALL {
        let client = || server.test_client(revision);
        for (mut client, may_clear, may_share) in [
            (client(), true, true),
            (client().anonymous(), false, false),
            (client().with_extension(identity(&["notes:write", "notes:share"])).anonymous(), false, false),
            (client().anonymous().with_extension(identity(&["notes:write"])), true, false),
            (client().with_extension(identity(&["notes:share"])), false, true),
        ] {
            let cleared = client.call("clear", ()).await;
            assert_eq!(cleared.is_ok(), may_clear, "{revision}: {cleared:?}");
            let deleted = client.call("delete", json!({"is_shared": true})).await;
            assert_eq!(deleted.is_ok(), may_share, "{revision}: {deleted:?}");
            assert!(client.call("delete", json!({"is_shared": false})).await.is_ok(), "{revision}");
        }
    }
}

/// A unit test calls a function with a context of its own.
#[tokio::test]
async fn functions_with_a_context_are_called_directly() {
    let ctx = Context::for_test();
    assert_eq!(report(&ctx, vec!["a".to_owned()]), 1);
    assert!(matches!(greet(&ctx).await, Err(Fault::MissingCapability { .. })));
    assert!(!ctx.supports(Capability::Elicitation));
    assert_eq!(delete(&ctx, true), Ok(()));
    assert_eq!(ctx.once("key", async { 1 }).await, Ok(1));
    assert_eq!(ctx.once("key", async { 2 }).await, Ok(1));
    assert_eq!((ctx.principal(), ctx.is_cancelled(), ctx.name()), (None, false, "test"));
    assert!(ctx.session().is_err());
}
