//! An upstream behind the proxy behaves as the upstream itself, with other names.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_proxy::Upstream;
use mcp_runtime::{
    BuiltServer, Completions, Context, Elicit, Fault, Handle, Json, Level, PromptMessage, ResourceLink, Revision,
    Server, ToolResult,
    ask::{Answer, SampleRequest},
    auth::Identity,
    function::{EarlierArguments, ResourceEntry},
    model::{Annotations, Audio, Icon, Image, PromptResult, Resource, ResourceResult, Role},
    prompt, resource,
    telemetry::{Telemetry, TraceCarrier},
    testing::ServerRequest,
    tool,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tracing::Span;

use crate::{
    eventually,
    fake::{self, Reply, lists},
    gateway, of_each_revision, url,
};

/// Repeat a text.
#[tool(
    title = "Echo",
    read_only,
    destructive = false,
    idempotent,
    open_world = false,
    meta("example.com/level" = 1),
    icon("https://example.com/a.svg", mime = "image/svg+xml", sizes("any", "48x48"), theme = dark)
)]
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
    Err(if protocol { Fault::custom(-31050, "refused") } else { Fault::MissingCapability { required: json!({}) } })
}

/// Return an error that the model reads.
#[tool]
fn refuse() -> Result<(), String> {
    Err("no".to_owned())
}

/// Return all kinds of content.
#[tool]
fn everything() -> ToolResult {
    let annotations = Annotations::default().for_audience([Role::Assistant]).with_priority(0.5);
    let annotations = annotations.with_last_modified("2026-01-12T15:00:58Z");
    let link = ResourceLink::new("notes://7", "note").with_title("Note").with_size(3).with_meta("example.com/x", 1);
    let link = link.with_description("A note.").with_mime_type("text/plain").with_annotations(annotations);
    ToolResult::new([
        mcp_runtime::Content::text("text").with_meta("example.com/a", "b"),
        Image::png(*b"png").into(),
        Audio::wav(*b"wav").into(),
        link.with_icon(Icon::new("https://example.com/a.svg")).into(),
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
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    "done"
}

/// A form.
#[derive(Elicit)]
pub(crate) struct Name {
    pub(crate) name: String,
}

/// Ask for a name unless it is known, and then a model.
#[tool]
async fn ask(ctx: &Context, known: Option<String>) -> Result<String, Fault> {
    let name = match known {
        Some(name) => name,
        None => match ctx.elicit::<Name>("name", "Your name?").await? {
            Answer::Accept(Name { name }) => name,
            _ => return Ok("declined".to_owned()),
        },
    };
    let greeting = ctx.ask(SampleRequest::new(format!("Greet {name}"))).await?;
    let roots = ctx.roots().await?;
    Ok(format!("{} {}", greeting.text(), roots.len()))
}

/// Wait for ever. With the handle, the server declares that its lists and resources change.
#[tool]
pub(crate) async fn wait(running: &AtomicUsize, _: &Handle) {
    running.fetch_add(1, Ordering::SeqCst);
    let _guard = Leaving(running);
    std::future::pending::<()>().await;
}

pub(crate) struct Leaving<'a>(pub(crate) &'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Return the revision of the request.
#[tool]
fn spoken(ctx: &Context) -> &'static str {
    ctx.revision().as_str()
}

/// Return the trace of the request.
#[tool]
fn traced(ctx: &Context) -> String {
    ["traceparent", "tracestate", "baggage"].map(|key| ctx.meta(key).unwrap_or_default().to_string()).join(" ")
}

/// A note.
#[resource(
    "notes://{id}",
    name = "note",
    title = "Note",
    mime = "text/plain",
    meta("example.com/level" = 2),
    icon("https://example.com/b.svg", theme = light)
)]
pub(crate) fn note(#[arg(complete = ids)] id: u32) -> Option<String> {
    (id < 10).then(|| format!("note {id}"))
}

fn ids(start: &str, earlier: &EarlierArguments) -> Completions {
    let _ = earlier;
    Completions::new((0..10).map(|id: u32| id.to_string()).filter(|id| id.starts_with(start)))
}

/// All notes.
#[resource("notes://all/list", name = "notes")]
fn notes() -> ResourceResult {
    ResourceResult::new([Resource::text("notes://all/list", "all")]).with_meta("example.com/result", true)
}

/// Greet.
#[prompt(title = "Greeting", meta("example.com/level" = 3), icon("https://example.com/c.svg", sizes("any")))]
pub(crate) fn greet(#[arg(complete = styles)] style: String, name: Option<String>) -> PromptResult {
    let result = PromptResult::new([PromptMessage::user(format!("{style} {name:?}"))]);
    result.with_description(format!("Greet with {style}")).with_meta("example.com/result", true)
}

fn styles(start: &str, earlier: &EarlierArguments) -> Completions {
    Completions::new([format!("{start}!{}", earlier.get("name").unwrap_or_default())]).with_total(None)
}

pub(crate) fn upstream() -> (BuiltServer, Arc<AtomicUsize>) {
    let running = Arc::<AtomicUsize>::default();
    let sized = ResourceEntry::new("notes://sized", "sized", async |_: Value, _: Context| "abc").size(3);
    let server = Server::empty("upstream", "1.0.0")
        .with::<echo>()
        .with::<add>()
        .with::<fail>()
        .with::<refuse>()
        .with::<everything>()
        .with::<work>()
        .with::<ask>()
        .with::<wait>()
        .with::<spoken>()
        .with::<traced>()
        .with::<note>()
        .with::<notes>()
        .with::<greet>()
        .with_entry(sized)
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

/// Upstreams of all revisions, for clients of the same one and of older ones. Newer clients get what the upstream has.
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
    for (spoken, address) in of_each_revision(&server).await {
        let gateway = gateway(&address).await.build().unwrap();
        for revision in Revision::ALL {
            let negotiated = gateway.test_client(revision).call("up_spoken", ()).await.unwrap();
            assert_eq!(negotiated.text(), spoken.as_str());
            let (mut direct, mut proxied) = (server.test_client(revision.min(spoken)), gateway.test_client(revision));
            for (method, params) in &requests {
                let expected = direct.request(method, params.clone()).await;
                let found = proxied.request(method, prefixed(params)).await;
                if revision > spoken {
                    assert_eq!(found.is_ok(), expected.is_ok(), "{spoken} for {revision}: {method} {params} {found:?}");
                    continue;
                }
                let expected = format!("{expected:#?}").replace("upstream", "gateway");
                let found = format!("{found:#?}").replace("up_", "").replace("up+", "");
                assert_eq!(found, expected, "{spoken} for {revision}: {method} {params}");
            }
        }
    }
}

/// URIs in results, and their form at the gateway. Clients load web pages themselves.
#[tokio::test(flavor = "multi_thread")]
async fn uris_in_results_have_the_prefix() {
    let uris = [
        ("notes://7", "up+notes://7"),
        ("notes://7?from=https://example.com", "up+notes://7?from=https://example.com"),
        ("notes://7?from=http://example.com", "up+notes://7?from=http://example.com"),
        ("ui://chart", "ui://up+chart"),
        ("https://example.com/a", "https://example.com/a"),
        ("http://example.com/a", "http://example.com/a"),
    ];
    let fake = fake::start(move |method, _| match method {
        "tools/call" => {
            let links = uris.map(|(uri, _)| json!({"type": "resource_link", "uri": uri, "name": "a"}));
            let resources = uris.map(|(uri, _)| json!({"type": "resource", "resource": {"uri": uri, "text": "a"}}));
            let content = [links, resources].concat();
            Reply::Result(json!({ "content": content }))
        }
        _ => lists(method, json!([fake::tool("a")])),
    })
    .await;
    let result = gateway(&fake.address).await.test_client(Revision::V2025_11_25).call("up_a", ()).await.unwrap();
    for (index, (_, expected)) in uris.iter().enumerate() {
        let (link, resource) = (&result["content"][index], &result["content"][uris.len() + index]);
        assert_eq!((&link["uri"], &resource["resource"]["uri"]), (&json!(expected), &json!(expected)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uris_of_missing_resources_have_the_prefix() {
    let (server, _) = upstream();
    for (spoken, address) in of_each_revision(&server).await {
        let gateway = gateway(&address).await.build().unwrap();
        for revision in Revision::ALL {
            let error = gateway.test_client(revision).read("up+notes://70").await.unwrap_err();
            let uri = error.data.as_ref().map(|data| &data["uri"]);
            assert_eq!(uri, Some(&json!("up+notes://70")), "{spoken} for {revision}: {error:?}");
        }
    }
}

/// Completions of an upstream, whose number it may leave out, and the client's.
#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_completions_passes() {
    for (given, expected) in [
        (json!({"values": ["a"]}), json!({"values": ["a"], "total": 1, "hasMore": false})),
        (json!({"values": ["a"], "hasMore": true}), json!({"values": ["a"], "hasMore": true})),
        (json!({"values": ["a"], "total": 7}), json!({"values": ["a"], "total": 7, "hasMore": true})),
    ] {
        let fake = fake::start(move |method, params| match method {
            "initialize" => Reply::Result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"prompts": {}, "completions": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            })),
            "prompts/list" => Reply::Result(json!({"prompts": [{"name": "greet", "arguments": [{"name": "style"}]}]})),
            "completion/complete" if params["context"].is_null() => Reply::Result(json!({ "completion": given })),
            _ => lists(method, json!([])),
        })
        .await;
        let mut client = gateway(&fake.address).await.test_client(Revision::V2025_11_25);
        let reference = json!({"type": "ref/prompt", "name": "up_greet"});
        let params = json!({"ref": reference, "argument": {"name": "style", "value": ""}});
        let result = client.request("completion/complete", params).await.unwrap();
        assert_eq!(result["completion"], expected);
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
    for (spoken, address) in of_each_revision(&server).await {
        // Forms exist since 2025-06-18, and messages of progress since 2025-03-26.
        let known = if spoken < Revision::V2025_06_18 { json!({"known": "Ada"}) } else { json!({}) };
        let message = |step: &'static str| (spoken > Revision::V2024_11_05).then_some(step);
        // Log messages pass on connections that belong to one principal.
        let upstream = Upstream::http(url(&address))
            .headers_for(|_| async { Ok::<_, std::convert::Infallible>(http::HeaderMap::new()) });
        let gateway = upstream.add_to(Server::empty("gateway", "1.0.0"), "up").await.unwrap().build().unwrap();
        for revision in mcp_tests::revisions(|expected| expected.elicitation) {
            let identity = Identity::new("ada");
            let mut client = gateway.test_client(revision).answering(answers).with_extension(identity);
            let result = client.call("up_ask", known.clone()).await.unwrap();
            assert_eq!(result.text(), "Greet Ada! 2", "{spoken} for {revision}: {result:?}");
            client.set_log_level(Level::Info).await.unwrap();
            let (result, progress) = client.call_with_progress("up_work", ()).await.unwrap();
            assert_eq!(result.text(), "done");
            let steps: Vec<_> = progress.iter().map(|update| (update.progress, update.message.as_deref())).collect();
            let expected = [(1., message("step 1")), (2., message("step 2")), (3., message("step 3"))];
            assert_eq!((steps.first(), steps.last()), (expected.first(), expected.last()), "{spoken} for {revision}");
            // Steps that reach the gateway together are combined.
            let are_expected =
                steps.iter().all(|step| expected.contains(step)) && steps.is_sorted_by_key(|step| step.0);
            assert!(are_expected, "{spoken} for {revision}: {steps:?}");
            let logged: Vec<_> =
                client.log_messages().into_iter().map(|message| (message.logger, message.data)).collect();
            let expected: Vec<_> =
                (1..=3).map(|step| (Some("work".to_owned()), json!(format!("step {step}")))).collect();
            assert_eq!(logged, expected, "{spoken} for {revision}");
        }
        // A client that supports nothing.
        let mut client = gateway.test_client(Revision::V2024_11_05);
        assert!(client.call("up_ask", ()).await.unwrap().is_error());
    }
}

/// Report a name, beside another call.
#[tool]
async fn meet(ctx: &Context, both: &Barrier, name: String) {
    both.wait().await;
    ctx.progress(1, 1, name);
    both.wait().await;
}

/// Progress names its call with a token, which no other call has at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn progress_reaches_its_own_call() {
    let server = Server::empty("upstream", "1.0.0").with::<meet>().with_state(Barrier::new(2));
    for (spoken, address) in of_each_revision(&server.build().unwrap()).await {
        if spoken == Revision::V2024_11_05 {
            continue; // without messages
        }
        let gateway = gateway(&address).await.build().unwrap();
        let meet = async |name: &'static str| {
            let mut client = gateway.test_client(Revision::V2025_11_25);
            let (_, progress) = client.call_with_progress("up_meet", json!({ "name": name })).await.unwrap();
            let names: Vec<_> = progress.into_iter().map(|update| update.message).collect();
            assert_eq!(names, [Some(name.to_owned())], "{spoken}");
        };
        tokio::join!(meet("ada"), meet("bob"));
    }
}

/// `_meta` contains the capabilities of the client and its minimum log level.
#[tokio::test(flavor = "multi_thread")]
async fn a_stateless_upstream_knows_the_client_of_a_call() {
    let fake = fake::start_stateless(|method, params| match method {
        "tools/call" => {
            let meta = ["clientCapabilities", "logLevel"]
                .map(|key| &params["_meta"][format!("io.modelcontextprotocol/{key}")]);
            let text = json!(meta).to_string();
            Reply::Result(json!({"resultType": "complete", "content": [{"type": "text", "text": text}]}))
        }
        _ => Reply::Result(json!({
            "resultType": "complete", "tools": [fake::tool("a")], "ttlMs": 0, "cacheScope": "private",
        })),
    })
    .await;
    let server = gateway(&fake.address).await.build().unwrap();
    let all = json!({
        "roots": {}, "elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}},
    });
    for (has_all, expected) in [(false, json!([{}, "warning"])), (true, json!([all, "warning"]))] {
        let client = server.test_client(Revision::V2025_11_25);
        let mut client = if has_all { client.answering(|request| panic!("{request:?}")) } else { client };
        client.set_log_level(Level::Warning).await.unwrap();
        let text = client.call("up_a", ()).await.unwrap().text();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_calls_are_cancelled_at_the_upstream() {
    let (server, running) = upstream();
    for (spoken, address) in of_each_revision(&server).await {
        let mut client = gateway(&address).await.test_client(Revision::V2025_11_25);
        let id = client.send_request("tools/call", json!({"name": "up_wait"}));
        eventually!(running.load(Ordering::SeqCst) == 1);
        client.notify("notifications/cancelled", json!({"requestId": id}));
        eventually!(running.load(Ordering::SeqCst) == 0);
        let impatient = gateway(&address).await.timeout(Duration::from_secs(2));
        let mut client = impatient.test_client(Revision::V2025_11_25);
        let id = client.send_request("tools/call", json!({"name": "up_wait"}));
        // The message that cancels a call does not overtake it.
        eventually!(running.load(Ordering::SeqCst) == 1);
        let result = client.response(id).await.unwrap();
        assert!(result.to_string().contains("did not finish within"), "{spoken}: {result}");
        eventually!(running.load(Ordering::SeqCst) == 0);
    }
}

/// Hosts find the page of a tool below the prefix. The page itself calls tools by the names of the upstream, which exist only without
/// a prefix.
#[tokio::test(flavor = "multi_thread")]
async fn pages_pass() {
    const UI: &str = "io.modelcontextprotocol/ui";
    let declared = Arc::<Mutex<Value>>::default();
    let seen = Arc::clone(&declared);
    let fake = fake::start(move |method, params| {
        let page = |value: Value| json!({"resources": [value.clone()], "contents": [value]});
        let mut page = page(json!({
            "uri": "ui://chart/page.html", "name": "page", "mimeType": "text/html;profile=mcp-app", "text": "<p>",
            "_meta": {"ui": {"csp": {"connectDomains": ["https://example.com"]}}},
        }));
        Reply::Result(match method {
            "initialize" => {
                *seen.lock().unwrap() = params["capabilities"]["extensions"][UI].clone();
                return Reply::Hang;
            }
            "tools/list" => json!({"tools": [{
                "name": "chart", "inputSchema": {"type": "object"},
                "_meta": {"ui": {"resourceUri": "ui://chart/page.html", "visibility": ["model", "app"]}, "ui/resourceUri": "ui://chart/page.html"},
            }]}),
            "tools/call" => json!({"content": [{"type": "text", "text": params["name"]}]}),
            "resources/list" => json!({"resources": page["resources"].take()}),
            "resources/read" => {
                assert_eq!(params["uri"], "ui://chart/page.html");
                json!({"contents": page["contents"].take()})
            }
            _ => return lists(method, json!([])),
        })
    })
    .await;
    for (prefix, uri, names) in [
        ("", "ui://chart/page.html", [("chart", true), ("up_chart", false)]),
        ("up", "ui://up+chart/page.html", [("chart", false), ("up_chart", true)]),
    ] {
        let server =
            Upstream::http(url(&fake.address)).add_to(Server::empty("gateway", "1.0.0"), prefix).await.unwrap();
        assert_eq!(declared.lock().unwrap()["mimeTypes"], json!(["text/html;profile=mcp-app"]));
        let mut client = server.test_client(Revision::V2026_07_28);
        let meta = client.request("tools/list", json!({})).await.unwrap()["tools"][0]["_meta"].clone();
        let ui = json!({"resourceUri": uri, "visibility": ["model", "app"]});
        assert_eq!(meta, json!({"ui": ui, "ui/resourceUri": uri}));
        let page = client.request("resources/list", json!({})).await.unwrap()["resources"][0].clone();
        assert_eq!((&page["uri"], &page["mimeType"]), (&json!(uri), &json!("text/html;profile=mcp-app")));
        let read = client.read(uri).await.unwrap();
        let csp = &read.contents()[0]["_meta"]["ui"]["csp"];
        assert_eq!((read.text().as_str(), &csp["connectDomains"][0]), ("<p>", &json!("https://example.com")));
        assert_eq!(read.contents()[0]["uri"], uri);
        let discovered = client.request("server/discover", json!({})).await.unwrap();
        assert!(discovered["capabilities"]["extensions"][UI].is_object(), "{discovered}");
        for (name, exists) in names {
            assert_eq!(client.call(name, ()).await.is_ok_and(|it| it.text() == "chart"), exists, "{prefix}: {name}");
        }
    }
}

/// Without a prefix, the server stands for the upstream.
#[tokio::test(flavor = "multi_thread")]
async fn instructions_pass_without_a_prefix() {
    let upstream = Server::empty("upstream", "1.0.0").with::<echo>().instructions("theirs");
    for (_, address) in of_each_revision(&upstream.build().unwrap()).await {
        for (prefix, own, expected) in
            [("", None, json!("theirs")), ("", Some("ours"), json!("ours")), ("up", None, Value::Null)]
        {
            let server = Server::empty("gateway", "1.0.0");
            let server = own.into_iter().fold(server, Server::instructions);
            let server = Upstream::http(url(&address)).add_to(server, prefix).await.unwrap();
            let discovered = server.test_client(Revision::V2026_07_28).request("server/discover", json!({})).await;
            assert_eq!(discovered.unwrap()["instructions"], expected, "{prefix:?} {own:?}");
        }
    }
}

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Telemetry whose spans have one context.
struct Traced;

impl Telemetry for Traced {
    fn inject(&self, _: &Span) -> TraceCarrier<'static> {
        TraceCarrier { traceparent: Some(TRACE.into()), baggage: Some("a=1".into()), ..TraceCarrier::default() }
    }
}

/// The upstream is called by the gateway, and not by its client. Baggage may say what is not for upstreams.
#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_continues_the_trace_of_the_gateway() {
    let (server, _) = upstream();
    let client_trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (_, address) in of_each_revision(&server).await {
        for (has_telemetry, expected) in
            [(true, format!("\"{TRACE}\" null null")), (false, format!("\"{client_trace}\" \"a=1\" null"))]
        {
            let gateway = gateway(&address).await;
            let gateway = if has_telemetry { gateway.telemetry(Traced) } else { gateway };
            let mut client = gateway.test_client(Revision::V2025_11_25);
            let meta = json!({"traceparent": client_trace, "tracestate": "a=1", "baggage": "user=ada"});
            let params = json!({"name": "up_traced", "arguments": {}, "_meta": meta});
            let result = client.request("tools/call", params).await.unwrap();
            assert_eq!(result["content"][0]["text"], expected, "{address}");
        }
    }
}
