//! Tasks: the experimental ones of 2025-11-25, the extension of 2026-07-28, and everybody who has neither.
//!
//! Every message of the server's is validated against the revision's official schema as well, where that can be found.

mod bad_input;
mod ends;
mod extension;
mod listen;
mod session;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_runtime::{Answer, Context, Elicit, Elicitation, Fault, Revision, RpcError, Server, TestClient, tool};
use mcp_tests::schemas::Official;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::sleep};

pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// What holds functions up, and what they leave behind.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Functions wait here until a test lets them go on.
    opens: Semaphore,
    begun: AtomicUsize,
    dropped: AtomicUsize,
}

impl Default for Gate {
    fn default() -> Self {
        Self { opens: Semaphore::new(0), begun: AtomicUsize::new(0), dropped: AtomicUsize::new(0) }
    }
}

impl Gate {
    pub(crate) async fn pass(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let trace = Trace(self);
        self.opens.acquire().await.unwrap().forget();
        std::mem::forget(trace);
    }

    pub(crate) fn open(&self) {
        self.opens.add_permits(1);
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }
}

struct Trace<'a>(&'a Gate);

impl Drop for Trace<'_> {
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

/// Greet somebody, at once.
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

/// Work a moment, and always as a task; it fails.
#[tool(task = "required")]
async fn failing_job(gate: &Arc<Gate>) -> Result<String, String> {
    gate.pass().await;
    Err("the job failed".to_owned())
}

/// End with a protocol error.
#[tool(task)]
async fn protocol_error_job() -> Result<String, Fault> {
    Err(Fault::Custom { code: 42, message: "no such job".to_owned(), data: Some(json!({"job": 7})) })
}

/// Make a text.
#[tool(task)]
async fn long_text(gate: &Arc<Gate>, length: usize) -> String {
    gate.pass().await;
    "x".repeat(length)
}

/// Delete a file, if that is confirmed.
#[tool(task)]
async fn confirm_delete(ctx: &Context, filename: String) -> Result<String, Fault> {
    Ok(match ctx.elicit::<Confirm>("confirm", format!("Delete {filename}?")).await? {
        Answer::Accept(Confirm { confirm: true }) => format!("deleted {filename}"),
        _ => "kept".to_owned(),
    })
}

/// Ask two things at once, and one of them again.
#[tool(task)]
async fn multi_input(ctx: &Context) -> Result<String, Fault> {
    let questions = (Elicitation::<Name>::new("name", "Who?"), Elicitation::<Confirm>::new("confirm", "Sure?"));
    let (name, _) = ctx.ask_all(questions).await?;
    let again = ctx.elicit::<Name>("name", "Who else?").await?;
    let names = [name, again].map(|answer| answer.accepted().map_or_else(String::new, |form| form.name));
    Ok(names.join(" and "))
}

/// Ask before there is a task, and in it.
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

/// Say how far it is.
#[tool(task)]
async fn progress(gate: &Arc<Gate>, ctx: &Context) {
    ctx.progress(1, 3, "the first third");
    gate.pass().await;
    sleep(Duration::from_millis(10)).await;
    ctx.progress(2, 3, "é".repeat(2000));
    ctx.info("logged");
    gate.pass().await;
}

/// Break.
#[tool(task)]
async fn panics() -> String {
    tokio::task::yield_now().await;
    panic!("the secret is 42")
}

/// Take too long.
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
        .with::<protocol_error_job>()
        .with::<long_text>()
        .with::<confirm_delete>()
        .with::<multi_input>()
        .with::<ask_then_work>()
        .with::<progress>()
        .with::<panics>()
        .with::<impatient>()
        .with::<block>()
        .with_state(Arc::clone(gate))
}

/// A client with a validator beside it.
struct Talk {
    client: TestClient,
    official: Option<Official>,
    /// What the client declares in 2026-07-28.
    capabilities: Value,
}

impl Talk {
    fn to(server: Server, revision: Revision) -> Self {
        let capabilities = json!({"elicitation": {"form": {}}, "extensions": {EXTENSION: {}}});
        Self { client: server.test_client(revision), official: Official::load(revision), capabilities }
    }

    /// As a client without the extension.
    fn plain(server: Server) -> Self {
        Self { capabilities: json!({"elicitation": {}}), ..Self::to(server, Revision::V2026_07_28) }
    }

    /// As a client of a session that answers what it is asked.
    fn answering(server: Server, answer: impl FnMut(&mcp_runtime::Asked) -> Value + Send + 'static) -> Self {
        let Self { client, official, capabilities } = Self::to(server, Revision::V2025_11_25);
        Self { client: client.answering(answer), official, capabilities }
    }

    fn is_stateless(&self) -> bool {
        self.client.revision() == Revision::V2026_07_28
    }

    fn send(&mut self, method: &str, mut params: Value) -> u64 {
        if self.is_stateless() {
            params["_meta"] = json!({"io.modelcontextprotocol/clientCapabilities": self.capabilities});
        }
        self.client.send_request(method, params)
    }

    async fn answer(&mut self, id: u64, method: &str) -> Result<Value, RpcError> {
        let answer = tokio::time::timeout(Duration::from_secs(10), self.client.answer(id)).await.expect(method);
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
        let problems = self.official.as_mut().map(|official| official.problems(&message, Some(method)));
        assert_eq!(problems.unwrap_or_default(), Vec::<String>::new(), "{message:#}");
        answer
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let id = self.send(method, params);
        self.answer(id, method).await
    }

    /// Calls a tool, as a task where the client has to say so.
    async fn call(&mut self, name: &str, arguments: Value) -> Result<Value, RpcError> {
        let mut params = json!({"name": name, "arguments": arguments});
        if !self.is_stateless() {
            params["task"] = json!({});
        }
        self.ask("tools/call", params).await
    }

    /// Calls a tool that becomes a task, and gives its id.
    async fn begin(&mut self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments).await.unwrap();
        let task = if self.is_stateless() { &result } else { &result["task"] };
        assert_eq!(task["status"], "working", "{result}");
        task["taskId"].as_str().unwrap().to_owned()
    }

    async fn about(&mut self, method: &str, task: &str) -> Result<Value, RpcError> {
        self.ask(method, json!({"taskId": task})).await
    }

    /// Asks for a task until it has a status.
    async fn until(&mut self, task: &str, status: &str) -> Value {
        for _ in 0..2000 {
            let found = self.about("tasks/get", task).await.unwrap();
            if found["status"] == status {
                return found;
            }
            sleep(Duration::from_millis(1)).await;
        }
        panic!("the task is never {status}: {:?}", self.about("tasks/get", task).await);
    }

    /// The notifications that came, validated.
    fn notifications(&mut self) -> Vec<Value> {
        let came = self.client.notifications();
        for message in &came {
            let problems = self.official.as_mut().map(|official| official.problems(message, None));
            assert_eq!(problems.unwrap_or_default(), Vec::<String>::new(), "{message:#}");
        }
        came
    }
}

/// What the text content of a result says.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

async fn until(condition: impl Fn() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(1)).await;
    }
    panic!("it never happens");
}

/// What every tool is for a client that has no tasks.
#[tokio::test]
async fn without_tasks_a_call_is_a_call() {
    for revision in Revision::ALL {
        let gate = Arc::<Gate>::default();
        let mut client = match revision {
            Revision::V2026_07_28 => Talk::plain(server(&gate)),
            _ => Talk::to(server(&gate), revision),
        };
        gate.open();
        gate.open();
        let params = json!({"name": "work", "arguments": {"label": "it"}});
        let result = client.ask("tools/call", params).await.unwrap();
        assert_eq!(text(&result), "it is done", "{revision}");
        assert!(result.get("taskId").is_none() && result.get("task").is_none(), "{revision}");
        let required = client.ask("tools/call", json!({"name": "failing_job"})).await;
        match revision {
            Revision::V2026_07_28 => {
                let error = required.unwrap_err();
                let needed = json!({"requiredCapabilities": {"extensions": {EXTENSION: {}}}});
                assert_eq!((error.code, error.data), (-32021, Some(needed)));
            }
            Revision::V2025_11_25 => assert_eq!(required.unwrap_err().code, -32601),
            _ => assert_eq!(required.unwrap()["isError"], true),
        }
    }
}

/// Who is told of tasks, and where.
#[tokio::test]
async fn tasks_are_declared_where_a_tool_can_be_one() {
    for (revision, method, pointer) in [
        (Revision::V2025_06_18, "initialize", None),
        (Revision::V2025_11_25, "initialize", Some("/capabilities/tasks")),
        (Revision::V2026_07_28, "server/discover", Some("/capabilities/extensions/io.modelcontextprotocol~1tasks")),
    ] {
        let gate = Arc::default();
        for (server, has_tasks) in [(server(&gate), true), (Server::empty("none", "1").with::<greet>(), false)] {
            let mut client = TestClient::silent(server, revision);
            let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
            let id = client.send_request(method, params);
            let introduced = client.answer(id).await.unwrap();
            let found = pointer.and_then(|pointer| introduced.pointer(pointer));
            assert_eq!(found.is_some(), has_tasks && pointer.is_some(), "{revision}: {introduced}");
            let is_session = revision == Revision::V2025_11_25;
            assert_eq!(introduced["capabilities"].get("tasks").is_some(), is_session && has_tasks, "{revision}");
            if let (true, Some(found)) = (is_session, found) {
                assert_eq!(*found, json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}));
            }
        }
        let mut client = Talk::to(server(&gate), revision);
        let listed = client.ask("tools/list", json!({})).await.unwrap();
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
            let expected = expected.filter(|_| revision == Revision::V2025_11_25);
            assert_eq!(support(name).as_deref(), expected, "{revision}: {name}");
        }
    }
}
