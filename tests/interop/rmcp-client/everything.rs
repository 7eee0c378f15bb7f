//! The checks for `examples/everything`: the same as in `everything.mjs` and `everything.py`.

#![expect(deprecated, reason = "2026-07-28 deprecates logging, roots and subscriptions to single resources")]

use std::{collections::BTreeSet, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rmcp::{
    RoleClient, ServiceError,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientRequest, GetPromptRequestParams,
        GetTaskParams, JsonObject, LoggingLevel, ProgressToken, ReadResourceRequestParams, Request, Root,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
    },
    service::{PeerRequestOptions, RequestHandle, RunningService},
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    checks::Checks,
    user::{User, Watcher},
};

const WATCHED: &str = "test://watched-resource";
const DEADLINE: Duration = Duration::from_secs(10);
const PNG: &[u8] = include_bytes!("../../../examples/everything/media/pixel.png");
const WAV: &[u8] = include_bytes!("../../../examples/everything/media/silence.wav");

/// A connection. `level` is sent with each call in revisions in which the server does not store the log level.
struct Client<'a> {
    service: &'a RunningService<RoleClient, User>,
    is_stateless: bool,
    level: Option<LoggingLevel>,
}

/// Runs all checks except for those of the features in `without`. Returns their number.
///
/// # Errors
///
/// Returns a description of the first check that fails.
pub(crate) async fn run(
    service: &RunningService<RoleClient, User>,
    revision: &str,
    without: &BTreeSet<String>,
) -> Result<usize, String> {
    let mut t = Checks::default();
    let negotiated = service.peer_info().map(|info| info.protocol_version.to_string());
    t.equal(negotiated.as_deref(), Some(revision), "the negotiated revision")?;
    let mut client = Client { service, is_stateless: revision >= "2026-07-28", level: None };
    let has = |feature: &str| !without.contains(feature);
    if has("binary") {
        binary(&mut t, &client, revision).await?;
    }
    if has("progress") {
        progress(&mut t, &client, revision).await?;
    }
    if has("logging") {
        logging(&mut t, &mut client, DEADLINE).await?;
    }
    if has("immediate-log-level") {
        logging(&mut t, &mut client, Duration::ZERO).await?;
    }
    if has("subscriptions") {
        subscriptions(&mut t, &client).await?;
    }
    // A server keeps in its memory which functions are enabled.
    if has("process-memory") {
        list_changes(&mut t, &client, true).await?;
    }
    if has("cancellation") {
        cancellation(&mut t, &client).await?;
    }
    if has("roots") {
        roots(&mut t, &client).await?;
    }
    if has("root-changes") && revision < "2026-07-28" {
        root_changes(&mut t, &client).await?;
    }
    if has("task-extension") && revision >= "2026-07-28" {
        tasks(&mut t, &client).await?;
    }
    Ok(t.count())
}

async fn binary(t: &mut Checks, client: &Client<'_>, revision: &str) -> Result<(), String> {
    let image = client.call("test_image_content").await?["content"][0].take();
    t.equal((&image["type"], &image["mimeType"]), (&json!("image"), &json!("image/png")), "the type of an image")?;
    t.equal(bytes(&image["data"]).as_slice(), PNG, "the bytes of an image")?;
    let audio = client.call("test_audio_content").await?["content"][0].take();
    if revision >= "2025-03-26" {
        t.equal((&audio["type"], &audio["mimeType"]), (&json!("audio"), &json!("audio/wav")), "the type of audio")?;
        t.equal(bytes(&audio["data"]).as_slice(), WAV, "the bytes of audio")?;
    } else {
        t.equal(&audio["type"], &json!("resource"), "audio is an embedded resource before 2025-03-26")?;
        t.equal(bytes(&audio["resource"]["blob"]).as_slice(), WAV, "the bytes of audio")?;
    }
    let read = json(client.service.read_resource(ReadResourceRequestParams::new("test://static-binary")).await)?;
    let blob = &read["contents"][0];
    t.equal((&blob["mimeType"], &blob["text"]), (&json!("image/png"), &Value::Null), "the type of a resource")?;
    t.equal(bytes(&blob["blob"]).as_slice(), PNG, "the bytes of a resource")?;
    let prompt = json(client.service.get_prompt(GetPromptRequestParams::new("test_prompt_with_image")).await)?;
    t.equal(bytes(&prompt["messages"][0]["content"]["data"]).as_slice(), PNG, "the bytes of an image in a prompt")
}

async fn progress(t: &mut Checks, client: &Client<'_>, revision: &str) -> Result<(), String> {
    let message = |done| (revision >= "2025-03-26").then(|| format!("Completed step {done} of 100"));
    let expected = [0, 50, 100].map(|done| (f64::from(done), Some(100.0), message(done)));
    // The progress tokens of two concurrent calls differ, or one would receive the updates of the other.
    let first = client.start("test_tool_with_progress").await?;
    let second = client.start("test_tool_with_progress").await?;
    for handle in [first, second] {
        let token = handle.progress_token.clone();
        let result = json(handle.await_response().await)?;
        t.equal(&result["content"][0]["text"], &json!("The work is done."), "the result of a call with progress")?;
        until(|| client.updates(&token).len() >= expected.len()).await;
        t.equal(client.updates(&token).as_slice(), expected.as_slice(), "the progress of a call")?;
    }
    Ok(())
}

/// Checks which messages calls send. A process that was not asked to set the level may use it only after `deadline`.
async fn logging(t: &mut Checks, client: &mut Client<'_>, deadline: Duration) -> Result<(), String> {
    let all = ["debug", "info", "warning", "error"];
    for (level, levels) in [(LoggingLevel::Warning, &all[2..]), (LoggingLevel::Debug, &all[..])] {
        let message = |level: &&str| json!({"level": level, "data": format!("{level} message")});
        let expected: Vec<_> = levels.iter().map(message).collect();
        client.set_level(level).await?;
        let start = Instant::now();
        let mut found = client.logged().await?;
        while found != expected && start.elapsed() < deadline {
            found = client.logged().await?;
        }
        t.equal(found.as_slice(), expected.as_slice(), "messages at a level")?;
    }
    client.set_level(LoggingLevel::Emergency).await
}

async fn subscriptions(t: &mut Checks, client: &Client<'_>) -> Result<(), String> {
    let filter = SubscriptionFilter::builder().resource_subscriptions([WATCHED]).build();
    let mut watcher = client.watch(filter).await?;
    if !client.is_stateless {
        json(client.service.subscribe(SubscribeRequestParams::new(WATCHED)).await)?;
    }
    for _ in 0..2 {
        let result = client.call("test_trigger_resource_change").await?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let number: String = text.chars().filter(char::is_ascii_digit).collect();
        let expected = format!("notifications/resources/updated {WATCHED}");
        t.equal(next_change(&mut watcher, &expected).await?, expected, "an update")?;
        let read = json(client.service.read_resource(ReadResourceRequestParams::new(WATCHED)).await)?;
        let expected = json!(format!("The resource was updated {number} times."));
        t.equal(&read["contents"][0]["text"], &expected, "the updated resource")?;
    }
    watcher.close().await?;
    if !client.is_stateless {
        json(client.service.unsubscribe(UnsubscribeRequestParams::new(WATCHED)).await)?;
    }
    client.call("test_trigger_resource_change").await?;
    // Notifications arrive in order: an update would precede the change of the list.
    list_changes(t, client, false).await
}

/// Returns the next notification. Skips changes of lists other than the expected one, of which replicas may notify a
/// client once too often when its stream opens.
async fn next_change(watcher: &mut Watcher<'_>, expected: &str) -> Result<String, String> {
    loop {
        let found = watcher.next(DEADLINE).await?;
        if found == expected || !found.ends_with("/list_changed") {
            return Ok(found);
        }
    }
}

/// Enables and disables functions. With `are_listed`, checks the lists as well.
async fn list_changes(t: &mut Checks, client: &Client<'_>, are_listed: bool) -> Result<(), String> {
    let filter =
        SubscriptionFilter::builder().tools_list_changed().prompts_list_changed().resources_list_changed().build();
    let mut watcher = client.watch(filter).await?;
    for (trigger, list) in [
        ("test_trigger_tool_change", "tools"),
        ("test_trigger_prompt_change", "prompts"),
        ("test_trigger_resource_list_change", "resources"),
    ] {
        for is_listed in [true, false] {
            client.call(trigger).await?;
            let expected = format!("notifications/{list}/list_changed");
            t.equal(next_change(&mut watcher, &expected).await?, expected, "the change of a list")?;
            if !are_listed {
                continue;
            }
            let (entries, name) = match list {
                "tools" => (json(client.service.list_all_tools().await)?, "optional_tool"),
                "prompts" => (json(client.service.list_all_prompts().await)?, "optional_prompt"),
                _ => (json(client.service.list_all_resources().await)?, "test://optional-resource"),
            };
            let found = entries.to_string().contains(&format!("\"{name}\""));
            t.equal(found, is_listed, &format!("{name} in the list after its change"))?;
        }
    }
    watcher.close().await
}

async fn cancellation(t: &mut Checks, client: &Client<'_>) -> Result<(), String> {
    t.equal(client.running_calls().await?, json!("0"), "no call is running")?;
    let handle = client.start("test_cancellation").await?;
    let token = handle.progress_token.clone();
    until(|| !client.updates(&token).is_empty()).await;
    t.equal(client.updates(&token).len(), 1, "a call starts")?;
    t.equal(client.running_calls().await?, json!("1"), "the call is running")?;
    json(handle.cancel(Some("the user cancelled the call".to_owned())).await)?;
    let stopped = timeout(DEADLINE, async {
        while client.running_calls().await? != "0" {}
        Ok::<_, String>(())
    });
    t.ok(stopped.await.is_ok(), "the cancelled call has stopped", &"it is running")?;
    t.equal(client.running_calls().await?, json!("0"), "a call after the cancelled call")
}

async fn roots(t: &mut Checks, client: &Client<'_>) -> Result<(), String> {
    client.service.service().state().roots = vec![Root::new("file:///interop/one").with_name("One")];
    t.equal(client.listed_roots().await?, json!("1 root: One"), "the roots of the client")
}

async fn root_changes(t: &mut Checks, client: &Client<'_>) -> Result<(), String> {
    let two = Root::new("file:///interop/two").with_name("Two");
    for (roots, expected) in [(vec![two], "1 root: Two"), (vec![], "0 roots: ")] {
        client.service.service().state().roots = roots;
        json(client.service.notify_roots_list_changed().await)?;
        // Over HTTP, the next call may overtake the notification, and the server keeps the roots until then.
        let changed = async {
            while client.listed_roots().await? != expected {}
            Ok::<_, String>(())
        };
        timeout(DEADLINE, changed).await.unwrap_or(Ok(()))?;
        t.equal(client.listed_roots().await?, json!(expected), "the roots after a change")?;
    }
    Ok(())
}

async fn tasks(t: &mut Checks, client: &Client<'_>) -> Result<(), String> {
    let done = client.start_task(json!({"seconds": 0.1, "label": "A task"})).await?;
    let completed = timeout(DEADLINE, async {
        loop {
            let task = client.task(&done).await?;
            if task["status"] != "working" {
                return Ok::<_, String>(task);
            }
            sleep(Duration::from_millis(20)).await;
        }
    });
    let task = completed.await.map_err(|_| "the task did not end")??;
    t.equal(&task["status"], &json!("completed"), "the status of a completed task")?;
    t.equal(&task["result"]["content"][0]["text"], &json!("A task took 0.1 s"), "the result of a task")?;
    let running = client.start_task(json!({"seconds": 60})).await?;
    t.equal(&client.task(&running).await?["status"], &json!("working"), "the status of a running task")?;
    json(client.service.cancel_task(CancelTaskParams::new(running.clone())).await)?;
    t.equal(&client.task(&running).await?["status"], &json!("cancelled"), "the status of a cancelled task")
}

impl Client<'_> {
    fn params(&self, tool: &'static str) -> CallToolRequestParams {
        let mut params = CallToolRequestParams::new(tool);
        if let Some(level) = self.level {
            params.meta.get_or_insert_default().set_log_level(level);
        }
        params
    }

    async fn call(&self, tool: &'static str) -> Result<Value, String> {
        let result = json(self.service.call_tool(self.params(tool)).await)?;
        if result["isError"] == true { Err(format!("{tool} failed: {result}")) } else { Ok(result) }
    }

    async fn start(&self, tool: &'static str) -> Result<RequestHandle<RoleClient>, String> {
        let request = ClientRequest::CallToolRequest(Request::new(self.params(tool)));
        let handle = self.service.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        handle.map_err(|error| format!("starting {tool}: {error}"))
    }

    /// Returns the progress of the call with a token.
    fn updates(&self, token: &ProgressToken) -> Vec<(f64, Option<f64>, Option<String>)> {
        let state = self.service.service().state();
        let updates = state.progress.iter().filter(|update| update.progress_token == *token);
        updates.map(|update| (update.progress, update.total, update.message.clone())).collect()
    }

    /// Returns the log messages of a call that logs at several levels, `error` last.
    async fn logged(&self) -> Result<Vec<Value>, String> {
        let messages = || self.service.service().state().messages.clone();
        self.service.service().state().messages.clear();
        self.call("test_log_levels").await?;
        until(|| messages().last().is_some_and(|last| last["level"] == "error")).await;
        Ok(messages())
    }

    async fn running_calls(&self) -> Result<Value, String> {
        Ok(self.call("test_running_calls").await?["content"][0]["text"].take())
    }

    async fn listed_roots(&self) -> Result<Value, String> {
        Ok(self.call("test_input_required_result_list_roots").await?["content"][0]["text"].take())
    }

    async fn set_level(&mut self, level: LoggingLevel) -> Result<(), String> {
        if self.is_stateless {
            self.level = Some(level);
            return Ok(());
        }
        json(self.service.set_level(SetLevelRequestParams::new(level)).await).map(drop)
    }

    /// Watches for changes. Before 2026-07-28, the server sends them without a filter.
    async fn watch(&self, filter: SubscriptionFilter) -> Result<Watcher<'_>, String> {
        if !self.is_stateless {
            return Ok(Watcher::Handler(self.service.service()));
        }
        let subscription = self.service.listen(filter).await.map_err(|error| format!("listening: {error}"))?;
        Ok(Watcher::Subscription(Box::new(subscription)))
    }

    async fn start_task(&self, arguments: Value) -> Result<String, String> {
        let arguments: JsonObject = serde_json::from_value(arguments).map_err(|error| error.to_string())?;
        let params = CallToolRequestParams::new("slow_compute").with_arguments(arguments);
        match self.service.call_tool_once(params).await {
            Ok(CallToolResponse::Task(created)) => Ok(created.task.task_id),
            other => Err(format!("expected a task, found {other:?}")),
        }
    }

    async fn task(&self, id: &str) -> Result<Value, String> {
        json(self.service.get_task(GetTaskParams::new(id)).await)
    }
}

/// Waits until a condition is true, but no longer than the deadline: the check that follows describes what is missing.
async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(DEADLINE, wait).await.ok();
}

fn bytes(base64: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(base64.as_str().unwrap_or_default()).unwrap_or_default()
}

fn json<T: Serialize>(result: Result<T, ServiceError>) -> Result<Value, String> {
    let value = result.map_err(|error| error.to_string())?;
    serde_json::to_value(value).map_err(|error| error.to_string())
}
