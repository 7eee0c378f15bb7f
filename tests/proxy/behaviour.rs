//! An upstream behind the proxy behaves as the upstream itself, with other names.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use mcp_runtime::{
    BuiltServer, Completions, Context, Elicit, Fault, Handle, Json, Level, PromptMessage, ResourceLink, Revision,
    Server, ToolResult,
    ask::{Answer, SampleRequest},
    function::{EarlierArguments, ToolEntry},
    model::{Audio, Image, Resource},
    prompt, resource,
    testing::ServerRequest,
    tool,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{eventually, gateway, legacy, serve, url};

/// Repeat a text.
#[tool(title = "Echo", read_only, meta("example.com/level" = 1), icon = "https://example.com/a.png")]
fn echo(text: String, #[arg(range = 0..=9)] times: Option<u8>) -> String {
    text.repeat(times.unwrap_or(1).into())
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

/// Add numbers.
#[tool]
fn add(a: i64, b: i64) -> Json<Sum> {
    Json(Sum { sum: a + b })
}

/// Fail.
#[tool]
fn fail(protocol: bool) -> Result<(), Fault> {
    Err(if protocol { Fault::custom(-32050, "refused") } else { Fault::MissingCapability { required: json!({}) } })
}

/// Return an error that the model reads.
#[tool]
fn refuse() -> Result<(), String> {
    Err("no".to_owned())
}

/// Return all kinds of content.
#[tool]
fn everything() -> ToolResult {
    let link = ResourceLink::new("notes://7", "note").with_title("Note").with_size(3).with_meta("example.com/x", 1);
    ToolResult::new([
        mcp_runtime::Content::text("text").with_meta("example.com/a", "b"),
        Image::png(*b"png").into(),
        Audio::wav(*b"wav").into(),
        link.into(),
        ResourceLink::new("https://example.com/page", "page").into(),
        Resource::text("notes://8", "eight").with_mime_type("text/plain").into(),
        Resource::blob("notes://9", *b"nine").into(),
    ])
    .with_meta("example.com/result", true)
}

/// Report progress and log messages.
#[tool]
async fn work(ctx: &Context) -> &'static str {
    for step in 1..=3 {
        ctx.progress(step, 3, format!("step {step}"));
        ctx.log_as("work", Level::Warning, format!("step {step}"));
        tokio::time::sleep(std::time::Duration::from_millis(15)).await;
    }
    "done"
}

/// A form.
#[derive(Elicit)]
struct Name {
    name: String,
}

/// Ask for a name, and then a model.
#[tool]
async fn ask(ctx: &Context) -> Result<String, Fault> {
    let Answer::Accept(Name { name }) = ctx.elicit::<Name>("name", "Your name?").await? else {
        return Ok("declined".to_owned());
    };
    let greeting = ctx.ask(SampleRequest::new(format!("Greet {name}"))).await?;
    let roots = ctx.roots().await?;
    Ok(format!("{} {}", greeting.text(), roots.len()))
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Wait for ever.
#[tool]
async fn wait(running: &AtomicUsize, handle: &Handle) {
    let _ = handle;
    running.fetch_add(1, Ordering::SeqCst);
    let counter = Arc::new(AtomicUsize::new(1));
    let _running = Running(Arc::clone(&counter));
    let _guard = Leaving(running);
    std::future::pending::<()>().await;
}

struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A note.
#[resource("notes://{id}", name = "note", mime = "text/plain")]
fn note(#[arg(complete = ids)] id: u32) -> Option<String> {
    (id < 10).then(|| format!("note {id}"))
}

fn ids(start: &str, earlier: &EarlierArguments) -> Completions {
    let _ = earlier;
    Completions::new((0..10).map(|id: u32| id.to_string()).filter(|id| id.starts_with(start)))
}

/// All notes.
#[resource("notes://all/list", name = "notes")]
fn notes() -> &'static str {
    "all"
}

/// Greet.
#[prompt]
fn greet(#[arg(complete = styles)] style: String, name: Option<String>) -> PromptMessage {
    PromptMessage::user(format!("{style} {name:?}"))
}

fn styles(start: &str, earlier: &EarlierArguments) -> Vec<String> {
    vec![format!("{start}!{}", earlier.get("name").unwrap_or_default())]
}

fn upstream() -> (BuiltServer, Arc<AtomicUsize>) {
    let running = Arc::<AtomicUsize>::default();
    let server = Server::empty("upstream", "1.0.0")
        .with::<echo>()
        .with::<add>()
        .with::<fail>()
        .with::<refuse>()
        .with::<everything>()
        .with::<work>()
        .with::<ask>()
        .with::<wait>()
        .with::<note>()
        .with::<notes>()
        .with::<greet>()
        .with_shared(Arc::clone(&running));
    (server.build().unwrap(), running)
}

/// Returns a value with the prefixed names of the gateway.
fn prefixed(params: &Value) -> Value {
    let mut params = params.clone();
    for pointer in ["/name", "/ref/name"] {
        if let Some(name) = params.pointer_mut(pointer) {
            *name = format!("up_{}", name.as_str().unwrap()).into();
        }
    }
    for pointer in ["/uri", "/ref/uri"] {
        if let Some(uri) = params.pointer_mut(pointer) {
            *uri = format!("up+{}", uri.as_str().unwrap()).into();
        }
    }
    params
}

/// Both kinds of upstreams, in front of clients of all revisions.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxied_server_responds_as_the_server_itself() {
    let requests = [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/list", json!({})),
        ("tools/call", json!({"name": "echo", "arguments": {"text": "a"}})),
        ("tools/call", json!({"name": "echo", "arguments": {"text": "a", "times": 10}})),
        ("tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}})),
        ("tools/call", json!({"name": "fail", "arguments": {"protocol": true}})),
        ("tools/call", json!({"name": "refuse"})),
        ("tools/call", json!({"name": "everything"})),
        ("tools/call", json!({"name": "none"})),
        ("resources/read", json!({"uri": "notes://7"})),
        ("resources/read", json!({"uri": "notes://70"})),
        ("resources/read", json!({"uri": "notes://all/list"})),
        ("resources/read", json!({"uri": "other://1"})),
        ("prompts/get", json!({"name": "greet", "arguments": {"style": "s", "name": "n"}})),
        ("prompts/get", json!({"name": "greet"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "style", "value": "s"}, "context": {"arguments": {"name": "n"}}}),
        ),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "notes://{id}"}, "argument": {"name": "id", "value": "7"}}),
        ),
    ];
    let (server, _) = upstream();
    let modern = serve(&server).await;
    for address in [legacy(modern.clone()).await, modern] {
        let gateway = gateway(&address).await.build().unwrap();
        for revision in Revision::ALL {
            let (mut direct, mut proxied) = (server.test_client(revision), gateway.test_client(revision));
            for (method, params) in &requests {
                let expected =
                    format!("{:#?}", direct.request(method, params.clone()).await).replace("upstream", "gateway");
                let found = proxied.request(method, prefixed(params)).await;
                let found = format!("{found:#?}").replace("up_", "").replace("up+", "");
                assert_eq!(found, expected, "{revision}: {method} {params}");
            }
        }
    }
}

fn answers(request: &ServerRequest) -> Value {
    match &*request.method {
        "elicitation/create" => {
            assert_eq!(request.message(), "up: Your name?", "the upstream is named");
            json!({"action": "accept", "content": {"name": "Ada"}})
        }
        "sampling/createMessage" => {
            let text = format!("{}!", request.params["messages"][0]["content"]["text"].as_str().unwrap_or("?"));
            json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": "m"})
        }
        "roots/list" => json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]}),
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_progress_and_log_messages_pass() {
    let (server, _) = upstream();
    let modern = serve(&server).await;
    for address in [legacy(modern.clone()).await, modern] {
        // Log messages pass on connections that belong to one principal.
        let upstream = mcp_proxy::Upstream::http(url(&address))
            .headers_for(|_| async { Ok::<_, std::convert::Infallible>(http::HeaderMap::new()) });
        let gateway = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
        for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
            let identity = mcp_runtime::auth::Identity::new("ada");
            let mut client = gateway.test_client(revision).answering(answers).with_extension(identity);
            let result = client.call("up_ask", ()).await.unwrap();
            assert_eq!(result.text(), "Greet Ada! 2", "{address} {revision}: {result:?}");
            client.set_log_level(Level::Info).await.unwrap();
            let (result, progress) = client.call_with_progress("up_work", ()).await.unwrap();
            assert_eq!(result.text(), "done");
            let steps: Vec<_> = progress.iter().map(|update| (update.progress, update.message.as_deref())).collect();
            assert_eq!(steps, [(1., Some("step 1")), (2., Some("step 2")), (3., Some("step 3"))], "{revision}");
            let logged: Vec<_> =
                client.log_messages().into_iter().map(|message| (message.logger, message.data)).collect();
            let expected: Vec<_> =
                (1..=3).map(|step| (Some("work".to_owned()), json!(format!("step {step}")))).collect();
            assert_eq!(logged, expected, "{revision}");
        }
        // A client that supports nothing.
        let mut client = gateway.test_client(Revision::V2024_11_05);
        assert!(client.call("up_ask", ()).await.unwrap().is_error());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_calls_are_cancelled_at_the_upstream() {
    let (server, running) = upstream();
    let modern = serve(&server).await;
    for address in [legacy(modern.clone()).await, modern] {
        let mut client = gateway(&address).await.test_client(Revision::V2025_11_25);
        let id = client.send_request("tools/call", json!({"name": "up_wait"}));
        eventually!(running.load(Ordering::SeqCst) == 1);
        client.notify("notifications/cancelled", json!({"requestId": id}));
        eventually!(running.load(Ordering::SeqCst) == 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_lists_and_resources_pass() {
    let (server, _) = upstream();
    let handle = server.handle();
    let modern = serve(&server).await;
    for (number, address) in [legacy(modern.clone()).await, modern].into_iter().enumerate() {
        let gateway = gateway(&address).await;
        let mut client = gateway.test_client(Revision::V2025_11_25);
        client.tools().await.unwrap();
        let name = format!("new_{number}");
        let entry =
            ToolEntry::new(name.clone(), json!({"type": "object"}), async |_: Map<String, Value>, _: Context| "new");
        handle.add_entries([entry.description("New.")]).unwrap();
        let name = format!("up_{name}");
        eventually!(client.tools().await.unwrap().iter().any(|tool| tool.name() == name));
        assert_eq!(client.call(&name, ()).await.unwrap().text(), "new");
        assert!(client.notifications().iter().any(|message| message["method"] == "notifications/tools/list_changed"));

        client.subscribe("up+notes://7").await.unwrap();
        eventually!({
            handle.resource_updated("notes://7");
            client.updated_resources().contains(&"up+notes://7".to_owned())
        });
    }
}
