//! Tasks: experimental in 2025-11-25, an extension in 2026-07-28, unsupported elsewhere.
//!
//! Every message of the server is also validated against the official schema of its revision, if the schema is
//! available.

mod bad_input;
mod ends;
mod extension;
mod listen;
mod replicas;
mod session;
pub(crate) mod shared;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{
    Context, Elicit, Fault, Revision, Server, ToolResult,
    ask::{Answer, Elicitation},
    testing::{RpcError, ServerRequest, TestClient},
    tool,
};
use mcp_tests::schemas::Official;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::sleep};

pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Blocks functions until a test lets them continue, and counts them.
#[derive(Debug)]
pub(crate) struct Gate {
    permits: Semaphore,
    /// The number of functions that have reached the gate.
    entered: AtomicUsize,
    /// The number of functions that were dropped while they waited.
    dropped: AtomicUsize,
}

impl Default for Gate {
    fn default() -> Self {
        Self { permits: Semaphore::new(0), entered: AtomicUsize::new(0), dropped: AtomicUsize::new(0) }
    }
}

impl Gate {
    pub(crate) async fn pass(&self) {
        self.entered.fetch_add(1, Ordering::SeqCst);
        let drop_counter = DropCounter(self);
        self.permits.acquire().await.unwrap().forget();
        std::mem::forget(drop_counter);
    }

    pub(crate) fn open(&self) {
        self.permits.add_permits(1);
    }

    fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }
}

struct DropCounter<'a>(&'a Gate);

impl Drop for DropCounter<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Debug, Elicit)]
struct Confirm {
    confirm: bool,
}

#[derive(Debug, Elicit)]
struct Name {
    name: String,
}

/// Greet someone, without waiting.
#[tool]
fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

/// Work until the gate opens.
#[tool(task)]
async fn work(gate: &Arc<Gate>, label: String) -> String {
    gate.pass().await;
    format!("{label} is done")
}

/// Fail, always as a task.
#[tool(task = "required")]
async fn failing_job(gate: &Arc<Gate>) -> Result<String, String> {
    gate.pass().await;
    Err("the job failed".to_owned())
}

/// Fail with more than one text.
#[tool(task)]
async fn explains_failure() -> ToolResult {
    let mut result = ToolResult::new(["the disk is full", "remove files"]);
    result.is_error = true;
    result
}

/// Fail with a value.
#[tool(task)]
async fn fails_with_data() -> ToolResult {
    let mut result = ToolResult::default().with_structured(json!({"missing": "disk"}));
    result.is_error = true;
    result
}

/// Fail with a protocol error.
#[tool(task)]
async fn protocol_error_job() -> Result<String, Fault> {
    Err(Fault::Custom { code: 42, message: "no such job".to_owned(), data: Some(json!({"job": 7})) })
}

/// Return a long text.
#[tool(task)]
async fn long_text(gate: &Arc<Gate>, length: usize) -> String {
    gate.pass().await;
    "x".repeat(length)
}

/// Delete a file after confirmation.
#[tool(task)]
async fn confirm_delete(ctx: &Context, filename: String) -> Result<String, Fault> {
    Ok(match ctx.elicit::<Confirm>("confirm", format!("Delete {filename}?")).await? {
        Answer::Accept(Confirm { confirm: true }) => format!("deleted {filename}"),
        _ => "kept".to_owned(),
    })
}

/// Ask two questions at once, and one of them again.
#[tool(task)]
async fn multi_input(ctx: &Context) -> Result<String, Fault> {
    let questions = (Elicitation::<Name>::new("name", "Who?"), Elicitation::<Confirm>::new("confirm", "Sure?"));
    let (name, _) = ctx.ask_all(questions).await?;
    let again = ctx.elicit::<Name>("name", "Who else?").await?;
    let names = [name, again].map(|answer| answer.accepted().map_or_else(String::new, |form| form.name));
    Ok(names.join(" and "))
}

/// Ask a question, and another one once the gate opens.
#[tool(task)]
async fn asks_twice(gate: &Arc<Gate>, ctx: &Context) -> Result<String, Fault> {
    let second = async {
        gate.pass().await;
        ctx.elicit::<Confirm>("confirm", "Sure?").await
    };
    let (name, confirm) = tokio::try_join!(ctx.elicit::<Name>("name", "Who?"), second)?;
    let name = name.accepted().map_or_else(String::new, |form| form.name);
    Ok(format!("{name}: {}", confirm.accepted().is_some_and(|form| form.confirm)))
}

/// Ask before and after the call becomes a task.
#[tool(task = "deferred")]
async fn ask_then_work(gate: &Arc<Gate>, ctx: &Context) -> Result<String, Fault> {
    let name = ctx.elicit::<Name>("user_name", "Who are you?").await?;
    let Answer::Accept(Name { name }) = name else { return Ok("nobody".to_owned()) };
    ctx.become_task().await;
    ctx.become_task().await;
    ctx.progress(1, 2, "half");
    gate.pass().await;
    match ctx.elicit::<Confirm>("user_name", "Sure?").await? {
        Answer::Accept(Confirm { confirm: true }) => Ok(format!("worked for {name}")),
        _ => Ok("stopped".to_owned()),
    }
}

/// Report progress.
#[tool(task)]
async fn progress(gate: &Arc<Gate>, ctx: &Context) {
    ctx.progress(1, 3, "the first third");
    gate.pass().await;
    sleep(Duration::from_millis(10)).await;
    ctx.progress(2, 3, "é".repeat(2000));
    ctx.info("logged");
    gate.pass().await;
}

/// Return structured content, several content items and `_meta`.
#[tool(task)]
async fn report() -> ToolResult {
    tokio::task::yield_now().await;
    ToolResult::new(["three", "lines"]).with_structured(json!({"lines": 3})).with_meta("example.com/a", 1)
}

/// Panic.
#[tool(task)]
async fn panics() -> String {
    tokio::task::yield_now().await;
    panic!("the secret is 42")
}

/// Panic with a value whose destructor panics.
#[tool(task)]
async fn panics_twice() {
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the destructor of a panic")
        }
    }

    tokio::task::yield_now().await;
    std::panic::panic_any(Bomb)
}

/// Exceed the timeout.
#[tool(task, timeout = "20ms")]
async fn impatient(gate: &Arc<Gate>) {
    gate.pass().await;
}

/// Block a thread.
#[tool(task, blocking)]
fn block(label: String) -> String {
    std::thread::sleep(Duration::from_millis(5));
    label
}

pub(crate) fn server(gate: &Arc<Gate>) -> Server {
    Server::empty("tasks", "1.0.0")
        .with::<greet>()
        .with::<work>()
        .with::<failing_job>()
        .with::<explains_failure>()
        .with::<fails_with_data>()
        .with::<protocol_error_job>()
        .with::<long_text>()
        .with::<confirm_delete>()
        .with::<multi_input>()
        .with::<ask_then_work>()
        .with::<progress>()
        .with::<report>()
        .with::<panics>()
        .with::<panics_twice>()
        .with::<impatient>()
        .with::<block>()
        .with_state(Arc::clone(gate))
}

/// A client that validates everything it receives.
struct ValidatingClient {
    client: TestClient,
    official: Option<&'static Official>,
    /// The capabilities that the client declares in 2026-07-28.
    capabilities: Value,
}

impl ValidatingClient {
    fn connect(server: Server, revision: Revision) -> Self {
        let capabilities = json!({"elicitation": {"form": {}}, "extensions": {EXTENSION: {}}});
        Self { client: server.test_client(revision), official: Official::load(revision), capabilities }
    }

    /// Connects a client that does not declare the extension.
    fn without_extension(server: Server) -> Self {
        Self { capabilities: json!({"elicitation": {}}), ..Self::connect(server, Revision::V2026_07_28) }
    }

    /// Connects a client with a session that answers questions.
    fn answering(server: Server, answer: impl FnMut(&ServerRequest) -> Value + Send + 'static) -> Self {
        let Self { client, official, capabilities } = Self::connect(server, Revision::V2025_11_25);
        Self { client: client.answering(answer), official, capabilities }
    }

    fn is_stateless(&self) -> bool {
        self.client.revision().is_stateless()
    }

    fn send(&mut self, method: &str, mut params: Value) -> u64 {
        if self.is_stateless() {
            params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": self.capabilities});
        }
        self.client.send_request(method, params)
    }

    async fn answer(&mut self, id: u64, method: &str) -> Result<Value, RpcError> {
        let answer = tokio::time::timeout(Duration::from_secs(10), self.client.response(id)).await.expect(method);
        let message = match &answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(RpcError { code, message, data }) => {
                let mut error = json!({"code": code, "message": message});
                if let Some(data) = data {
                    error["data"] = data.clone();
                }
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        let problems = self.official.map(|official| official.problems(&message, Some(method)));
        assert_eq!(problems.unwrap_or_default(), Vec::<String>::new(), "{message:#}");
        answer
    }

    async fn request(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let id = self.send(method, params);
        self.answer(id, method).await
    }

    /// Calls a tool, as a task if the client has to request it.
    async fn call(&mut self, name: &str, arguments: Value) -> Result<Value, RpcError> {
        let mut params = json!({"name": name, "arguments": arguments});
        if !self.is_stateless() {
            params["task"] = json!({});
        }
        self.request("tools/call", params).await
    }

    /// Calls a tool that becomes a task and returns the task id.
    async fn start_task(&mut self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments).await.unwrap();
        let task = if self.is_stateless() { &result } else { &result["task"] };
        assert_eq!(task["status"], "working", "{result}");
        task["taskId"].as_str().unwrap().to_owned()
    }

    /// Sends a request about one task.
    async fn task_request(&mut self, method: &str, task: &str) -> Result<Value, RpcError> {
        self.request(method, json!({"taskId": task})).await
    }

    /// Polls a task until it has a status.
    async fn wait_for_status(&mut self, task: &str, status: &str) -> Value {
        for _ in 0..2000 {
            let found = self.task_request("tasks/get", task).await.unwrap();
            if found["status"] == status {
                return found;
            }
            sleep(Duration::from_millis(1)).await;
        }
        panic!("the task never becomes {status}: {:?}", self.task_request("tasks/get", task).await);
    }

    /// Waits until at least `count` notifications and requests have arrived, and validates them.
    async fn wait_for_notifications(&mut self, count: usize) -> Vec<Value> {
        let mut received = Vec::new();
        for _ in 0..2000 {
            received.append(&mut self.notifications());
            if received.len() >= count {
                return received;
            }
            sleep(Duration::from_millis(1)).await;
        }
        panic!("{count} notifications never arrive: {received:#?}");
    }

    /// Runs another task from start to end. The server has completed all earlier work by then.
    async fn run_another_task(&mut self) {
        let id = self.start_task("block", json!({"label": "another"})).await;
        self.wait_for_status(&id, "completed").await;
    }

    /// Takes and validates the notifications that have arrived.
    fn notifications(&mut self) -> Vec<Value> {
        let notifications = self.client.notifications();
        // The official schemas do not include the extension.
        for message in notifications.iter().filter(|message| message["method"] != "notifications/tasks") {
            let problems = self.official.map(|official| official.problems(message, None));
            assert_eq!(problems.unwrap_or_default(), Vec::<String>::new(), "{message:#}");
        }
        notifications
    }
}

/// Returns the text content of a result.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

async fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("the condition never holds");
}

#[tokio::test]
async fn calls_are_plain_for_clients_without_tasks() {
    for revision in Revision::ALL {
        let gate = Arc::<Gate>::default();
        let mut client = ValidatingClient::connect(server(&gate), revision);
        client.capabilities = json!({"elicitation": {}});
        gate.open();
        gate.open();
        let params = json!({"name": "work", "arguments": {"label": "it"}});
        let result = client.request("tools/call", params).await.unwrap();
        assert_eq!(text(&result), "it is done", "{revision}");
        assert!(result.get("taskId").is_none() && result.get("task").is_none(), "{revision}");
        let required = client.request("tools/call", json!({"name": "failing_job"})).await;
        if client.is_stateless() {
            let error = required.unwrap_err();
            let needed = json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}});
            assert_eq!((error.code, error.data), (-32021, Some(needed)));
        } else if mcp_tests::expected(revision).session_tasks {
            assert_eq!(required.unwrap_err().code, -32601);
        } else {
            assert_eq!(required.unwrap()["isError"], true);
        }
    }
}

#[tokio::test]
async fn the_result_of_a_task_is_the_result_of_the_call() {
    for revision in mcp_tests::revisions(|expected| expected.tasks) {
        let gate = Arc::<Gate>::default();
        let mut plain = ValidatingClient::connect(server(&gate), revision);
        plain.capabilities = json!({});
        let expected = plain.request("tools/call", json!({"name": "report"})).await.unwrap();
        assert_eq!(
            (&expected["structuredContent"], &expected["_meta"]["example.com/a"]),
            (&json!({"lines": 3}), &json!(1))
        );
        let mut client = ValidatingClient::connect(server(&gate), revision);
        let id = client.start_task("report", json!({})).await;
        let task = client.wait_for_status(&id, "completed").await;
        let mut result = if revision.is_stateless() {
            task["result"].clone()
        } else {
            client.task_request("tasks/result", &id).await.unwrap()
        };
        result["_meta"].as_object_mut().unwrap().shift_remove(RELATED);
        assert_eq!(result, expected, "{revision}");
    }
}

#[tokio::test]
async fn the_capability_is_declared_if_a_tool_supports_tasks() {
    for (revision, method, pointer) in [
        (Revision::V2025_06_18, "initialize", None),
        (Revision::V2025_11_25, "initialize", Some("/capabilities/tasks")),
        (Revision::V2026_07_28, "server/discover", Some("/capabilities/extensions/io.modelcontextprotocol~1tasks")),
    ] {
        let gate = Arc::default();
        for (server, has_tasks) in [(server(&gate), true), (Server::empty("none", "1").with::<greet>(), false)] {
            let mut client = TestClient::uninitialized(server, revision);
            let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
            let id = client.send_request(method, params);
            let description = client.response(id).await.unwrap();
            let found = pointer.and_then(|pointer| description.pointer(pointer));
            assert_eq!(found.is_some(), has_tasks && pointer.is_some(), "{revision}: {description}");
            let is_session = !revision.is_stateless() && pointer.is_some();
            assert_eq!(description["capabilities"].get("tasks").is_some(), is_session && has_tasks, "{revision}");
            if let (true, Some(found)) = (is_session, found) {
                assert_eq!(*found, json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}));
            }
        }
        let mut client = ValidatingClient::connect(server(&gate), revision);
        let listed = client.request("tools/list", json!({})).await.unwrap();
        let support = |name: &str| {
            let tool = listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
            tool["execution"]["taskSupport"].as_str().map(str::to_owned)
        };
        for (name, expected) in [
            ("greet", None),
            ("work", Some("optional")),
            ("failing_job", Some("required")),
            ("ask_then_work", Some("optional")),
        ] {
            let expected = expected.filter(|_| !revision.is_stateless() && pointer.is_some());
            assert_eq!(support(name).as_deref(), expected, "{revision}: {name}");
        }
    }
}

/// Clients of both eras create, read and cancel tasks of one server.
#[tokio::test]
async fn one_server_has_tasks_of_both_eras() {
    let gate = Arc::<Gate>::default();
    let built = server(&gate).build().unwrap();
    let connect = |revision| ValidatingClient {
        client: built.test_client(revision),
        ..ValidatingClient::connect(server(&gate), revision)
    };
    let mut clients: Vec<_> = mcp_tests::revisions(|expected| expected.tasks).into_iter().map(connect).collect();
    let mut tasks = Vec::new();
    for client in &mut clients {
        let label = json!({"label": "it"});
        tasks.push([client.start_task("work", label.clone()).await, client.start_task("work", label).await]);
    }
    for (client, [kept, cancelled]) in clients.iter_mut().zip(&tasks) {
        for task in [kept, cancelled] {
            assert_eq!(client.task_request("tasks/get", task).await.unwrap()["status"], "working");
        }
        client.task_request("tasks/cancel", cancelled).await.unwrap();
        client.wait_for_status(cancelled, "cancelled").await;
    }
    wait_until(|| gate.dropped() == 2).await;
    tasks.iter().for_each(|_| gate.open());
    for (client, [kept, _]) in clients.iter_mut().zip(&tasks) {
        client.wait_for_status(kept, "completed").await;
    }
}
