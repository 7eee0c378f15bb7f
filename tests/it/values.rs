//! Entries that a program creates: they behave as the annotated functions of the same description.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use mcp_runtime::{
    Context, Fault, Handle, Json, Level, PromptMessage, Revision, Server, ToolResult,
    auth::Scopes,
    function::{Entry, EntryKind, MethodEntry, PromptEntry, ResourceEntry, ToolEntry},
    layers::{Call, LogCalls, Next, Outcome, from_fn},
    prompt, resource, tool,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::layers::log::Log;

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

#[derive(Serialize, Deserialize, JsonSchema)]
struct Sum {
    sum: i64,
}

/// Add two numbers.
#[tool(name = "add", title = "Add", tags("math"), read_only, meta("example.com/level" = 1), icon = "https://example.com/a.png")]
async fn annotated_add(#[arg(range = 0..=9)] a: i64, b: Option<i64>) -> Result<Json<Sum>, String> {
    add(a, b)
}

fn add(a: i64, b: Option<i64>) -> Result<Json<Sum>, String> {
    let b = b.ok_or("`b` is missing")?;
    Ok(Json(Sum { sum: a + b }))
}

/// A file.
#[resource("test://{name}{?mode}", name = "file", mime = "text/plain")]
async fn annotated_file(name: String, mode: Option<String>) -> Result<String, Fault> {
    file(&name, mode)
}

fn file(name: &str, mode: Option<String>) -> Result<String, Fault> {
    match name {
        "none" => Err(Fault::resource_not_found("test://none")),
        _ => Ok(format!("{name} {mode:?}")),
    }
}

/// A note.
#[resource("test://a/note", name = "note")]
async fn annotated_note() -> String {
    "note".to_owned()
}

/// How to greet.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Style {
    Short,
    Long,
}

/// Greet.
#[prompt(name = "greet")]
async fn annotated_greet(#[arg(title = "Style")] style: Style) -> PromptMessage {
    greet(&style)
}

fn greet(style: &Style) -> PromptMessage {
    PromptMessage::user(match style {
        Style::Short => "Hi",
        Style::Long => "Good morning",
    })
}

#[derive(Deserialize)]
struct AddArguments {
    a: i64,
    b: Option<i64>,
}

#[derive(Deserialize)]
struct FileVariables {
    name: String,
    mode: Option<String>,
}

#[derive(Deserialize)]
struct GreetArguments {
    style: Style,
}

fn annotated() -> Server {
    Server::empty("values", "1.0.0")
        .with::<annotated_add>()
        .with::<annotated_file>()
        .with::<annotated_note>()
        .with::<annotated_greet>()
}

fn entries() -> Vec<Entry> {
    let sum = json!({
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 0, "maximum": 9},
            "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["a"],
        "additionalProperties": false,
    });
    let greeting = json!({
        "type": "object",
        "properties": {"style": {"type": "string", "enum": ["short", "long"], "title": "Style", "description": "How to greet."}},
        "required": ["style"],
        "additionalProperties": false,
    });
    let hints = mcp_runtime::layers::Hints { read_only: Some(true), ..Default::default() };
    vec![
        ToolEntry::new("add", sum, async |AddArguments { a, b }, _: Context| add(a, b))
            .title("Add")
            .description("Add two numbers.")
            .tags(["math"])
            .hints(hints)
            .with_meta("example.com/level", json!(1))
            .with_icon(mcp_runtime::model::Icon::new("https://example.com/a.png"))
            .into(),
        ResourceEntry::new("test://{name}{?mode}", "file", async |FileVariables { name, mode }, _: Context| {
            file(&name, mode)
        })
        .description("A file.")
        .mime_type("text/plain")
        .into(),
        ResourceEntry::new("test://a/note", "note", async |_: Map<String, Value>, _: Context| "note".to_owned())
            .description("A note.")
            .into(),
        PromptEntry::new("greet", greeting, async |GreetArguments { style }, _: Context| greet(&style))
            .description("Greet.")
            .into(),
    ]
}

fn created() -> Server {
    entries().into_iter().fold(Server::empty("values", "1.0.0"), Server::with_entry)
}

/// The lists, and the responses to valid and invalid requests.
#[tokio::test]
async fn entries_behave_as_annotated_functions() {
    let requests = [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/list", json!({})),
        ("tools/call", json!({"name": "add", "arguments": {"a": 1, "b": 2}})),
        ("tools/call", json!({"name": "add", "arguments": {"a": 1.0, "b": 2}})),
        ("tools/call", json!({"name": "add", "arguments": {"a": 1}})),
        ("tools/call", json!({"name": "add", "arguments": {"a": 10, "b": "x", "c": 1}})),
        ("tools/call", json!({"name": "add"})),
        ("resources/read", json!({"uri": "test://x?mode=r"})),
        ("resources/read", json!({"uri": "test://x"})),
        ("resources/read", json!({"uri": "test://a/note"})),
        ("resources/read", json!({"uri": "test://none"})),
        ("resources/read", json!({"uri": "test://x/y"})),
        ("prompts/get", json!({"name": "greet", "arguments": {"style": "long"}})),
        ("prompts/get", json!({"name": "greet", "arguments": {"style": "loud"}})),
        ("prompts/get", json!({"name": "greet"})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "style", "value": "s"}}),
        ),
    ];
    for revision in Revision::ALL {
        let (mut annotated, mut created) = (annotated().test_client(revision), created().test_client(revision));
        for (method, params) in &requests {
            let expected = annotated.request(method, params.clone()).await;
            let found = created.request(method, params.clone()).await;
            assert_eq!(format!("{found:#?}"), format!("{expected:#?}"), "{revision}: {method} {params}");
        }
    }
}

/// Mistakes that macros would report at compile time are reported when the entry is added.
#[test]
fn mistakes_are_reported_when_the_entry_is_added() {
    let object = || json!({"type": "object"});
    let tool = |name: &str, schema| ToolEntry::new(name.to_owned(), schema, async |_: Value, _: Context| ());
    let resource = |uri: &str| ResourceEntry::new(uri.to_owned(), "r", async |_: Value, _: Context| "");
    let prompt = |schema| PromptEntry::new("p", schema, async |_: Value, _: Context| PromptMessage::user("x"));
    let none: [&str; 0] = [];
    let method =
        |name: &str| MethodEntry::new(name.to_owned(), object(), async |_: Value, _: Context| Ok::<_, String>(()));
    let nested = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": object()}});
    let cases: [(Entry, &str); 25] = [
        (tool("a b", object()).into(), "expected only ASCII letters, digits, `_`, `.` and `-`"),
        (tool("", object()).into(), "expected at least 1 character"),
        (tool("t", json!({"type": "string"})).into(), "its `type` is not `object`"),
        (tool("t", json!(7)).into(), "its `type` is not `object`"),
        (tool("t", json!({"type": "object", "properties": {"a": {"type": "txt"}}})).into(), "txt"),
        (tool("t", json!({"type": "object", "properties": {"a": {"pattern": "("}}})).into(), "pattern"),
        (tool("t", object()).with_meta("dev.mcp/x", json!(1)).into(), "cannot be a key of `_meta`"),
        (tool("t", object()).with_meta("io.modelcontextprotocol/x", json!(1)).into(), "cannot be a key of `_meta`"),
        (
            tool("t", object()).with_icon(mcp_runtime::model::Icon::new("http://x/a.png")).into(),
            "invalid icon `http://x/a.png`",
        ),
        (tool("t", object()).with_meta("a.b/c", json!(1)).with_meta("a.b/c", json!(2)).into(), "duplicate key `a.b/c`"),
        (tool("t", object()).scopes(Scopes::all(none)).into(), "no scope is named"),
        (tool("t", object()).scopes(Scopes::any(none)).into(), "no scope is named"),
        (tool("t", object()).output_schema(json!({"type": "txt"})).into(), "the output schema of `t`"),
        (tool("t", object()).output_schema(json!(7)).into(), "the output schema of `t`"),
        (resource("test://{").into(), "`r` (tests/it/values.rs:"),
        (resource("scheme").into(), "`scheme` has no scheme"),
        (prompt(json!({"type": "object", "properties": {"a": {"type": "array"}}})).into(), "is a list"),
        (prompt(nested).into(), "is an object"),
        (method("search").into(), "expected a domain, a slash and a name"),
        (method("tools/call").into(), "expected a domain, a slash and a name"),
        (method("tasks/com.example").into(), "expected a domain, a slash and a name"),
        (method("com.example/").into(), "expected a domain, a slash and a name"),
        (method("com.example/a b").into(), "expected a domain, a slash and a name"),
        (method("./a").into(), "expected a domain, a slash and a name"),
        (method("io.modelcontextprotocol/search").into(), "expected a domain, a slash and a name"),
    ];
    for (entry, expected) in cases {
        let error = Server::empty("values", "1.0.0").with_entry(entry).build().unwrap_err();
        let [problem] = error.problems() else { panic!("expected one problem: {error}") };
        assert!(problem.contains(expected), "{problem}");
        assert!(problem.contains("values.rs:"), "{problem}");
    }
    let twice = Server::empty("values", "1.0.0").with::<annotated_add>();
    let twice = ["add", "sub", "sub"].into_iter().fold(twice, |server, name| server.with_entry(tool(name, object())));
    let error = twice.build().unwrap_err().to_string();
    assert!(error.contains("two tools are named `add`") && error.contains("`add` (tests/it/values.rs:"), "{error}");
    assert!(error.contains("two tools are named `sub`"), "{error}");
}

/// Several threads check the schemas of many entries.
#[test]
fn each_mistake_in_one_of_many_entries_is_reported() {
    let server = (0..250).fold(Server::empty("values", "1.0.0"), |server, number| {
        let kind = if [3, 240].contains(&number) { "txt" } else { "string" };
        let schema = json!({"type": "object", "properties": {"a": {"type": kind}}});
        server.with_entry(ToolEntry::new(format!("t{number}"), schema, async |_: Value, _: Context| ()))
    });
    let error = server.build().unwrap_err();
    let [first, second] = error.problems() else { panic!("expected two problems: {error}") };
    assert!(first.contains("`t3` ") && second.contains("`t240` "), "{error}");
}

/// Prompts are listed without schemas.
#[tokio::test]
async fn descriptions_of_arguments_of_prompts_contain_their_constraints() {
    for (schema, expected) in [
        (json!({"type": "integer", "minimum": 0, "maximum": 9}), Some("a whole number, at most 9")),
        (json!({"type": "integer", "minimum": 1, "default": 3}), Some("an integer, at least 1, default 3")),
        (
            json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
            Some("a number, more than 0, less than 1"),
        ),
        (
            json!({"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a"}),
            Some("minimum length 2, maximum length 4, matching \"^a\""),
        ),
        (json!({"type": "boolean", "description": "Loudly"}), Some("Loudly (`true` or `false`)")),
        (json!({"type": "string", "description": "Whom"}), Some("Whom")),
        (json!({"type": "string"}), None),
    ] {
        let schema = json!({"type": "object", "properties": {"value": schema}});
        let prompt = PromptEntry::new("p", schema, async |_: Value, _: Context| PromptMessage::user("x"));
        let mut client = Server::empty("values", "1.0.0").with_entry(prompt).test_client(Revision::V2026_07_28);
        let listed = client.request("prompts/list", json!({})).await.unwrap();
        assert_eq!(listed["prompts"][0]["arguments"][0]["description"].as_str(), expected);
    }
}

fn names(tools: &[mcp_runtime::testing::ListedEntry]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name()).collect()
}

fn constant(name: &'static str, text: &'static str) -> ToolEntry {
    ToolEntry::new(name, json!({"type": "object"}), move |_: Value, _: Context| async move { text })
}

/// Adding and removing at run time: all or nothing, with one notification, and calls in flight go on.
#[tokio::test]
async fn entries_are_added_and_replaced_at_run_time() {
    let gate = Arc::new(Semaphore::new(0));
    let waiting = Arc::clone(&gate);
    let slow = ToolEntry::new("slow", json!({"type": "object"}), move |_: Value, _: Context| {
        let gate = Arc::clone(&waiting);
        async move {
            gate.acquire().await.unwrap().forget();
            "done"
        }
    });
    let server = Server::empty("values", "1.0.0").with::<annotated_add>().with_entry(slow).build().unwrap();
    let handle: Handle = server.handle();
    let mut client = server.test_client(Revision::V2025_11_25);
    let running = client.send_request("tools/call", json!({"name": "slow"}));
    handle.add_entries([constant("one", "1"), constant("two", "2")]).unwrap();
    assert_eq!(names(&client.tools().await.unwrap()), ["add", "one", "slow", "two"]);
    assert_eq!(client.notifications().len(), 1);

    let values = |entry: &mcp_runtime::function::EntryInfo<'_>| entry.function.is_empty();
    let error = handle.replace_entries(values, [constant("add", "3"), constant("new", "4")]).unwrap_err();
    assert!(error.to_string().contains("two tools are named `add`"), "{error}");
    assert_eq!(names(&client.tools().await.unwrap()), ["add", "one", "slow", "two"], "nothing has changed");
    handle.replace_entries(values, [constant("one", "one"), constant("new", "new")]).unwrap();
    assert_eq!(names(&client.tools().await.unwrap()), ["add", "new", "one"]);
    assert_eq!(client.call("one", ()).await.unwrap().text(), "one");
    assert_eq!(client.notifications().len(), 1, "both changes are one");
    gate.add_permits(1);
    assert_eq!(client.response(running).await.unwrap()["content"][0]["text"], "done");

    assert!(handle.set_enabled(|entry| entry.name != "new"));
    assert_eq!(names(&client.tools().await.unwrap()), ["add", "one"]);
    handle.replace_entries(|entry| entry.kind == EntryKind::Tool, [] as [Entry; 0]).unwrap();
    assert!(client.tools().await.unwrap().is_empty());
}

/// An entry does not outlive its removal and its calls.
#[tokio::test]
async fn removed_entries_are_freed() {
    let server = Server::empty("values", "1.0.0").build().unwrap();
    let handle = server.handle();
    let alive = Arc::new(());
    for _ in 0..100 {
        let held = Arc::clone(&alive);
        let entry = ToolEntry::new("tool", json!({"type": "object"}), move |_: Value, _: Context| {
            let _ = &held;
            async {}
        });
        handle.replace_entries(|_| true, [entry]).unwrap();
        assert!(Arc::strong_count(&alive) <= 2, "{}", Arc::strong_count(&alive));
    }
}

/// Renaming, hiding, time limits and layers, which may tell entries apart by what they are.
#[tokio::test(start_paused = true)]
async fn rules_of_the_server_apply() {
    let (log, _guard) = Log::listen();
    let never = ToolEntry::new("never", json!({"type": "object"}), async |_: Value, _: Context| {
        std::future::pending::<()>().await;
    });
    let shout = from_fn(async |mut call: Call, next: Next| {
        call.set_arguments(Map::from_iter([("text".to_owned(), json!("HI"))]));
        next.run(call).await
    });
    let echo = ToolEntry::new(
        "echo",
        json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 2}}}),
        async |arguments: Map<String, Value>, ctx: Context| {
            format!("{} {:?}", arguments["text"], ctx.identity().map(|identity| identity.principal().to_owned()))
        },
    );
    let client = Server::empty("values", "1.0.0")
        .with_entry(never.timeout(Duration::from_secs(3)).tags(["slow"]))
        .with_entry(echo)
        .with_entry(constant("hidden", "hidden").tags(["admin"]))
        .with_entry(constant("internal", "internal"))
        .stdio_identity(mcp_runtime::auth::Identity::new("ada"))
        .prefix(|entry| entry.has_tag("slow"), "my_")
        .visible_to(|_, entry| !entry.has_tag("admin"))
        .visible_to(|_, entry| entry.name != "internal")
        .layer(LogCalls::new())
        .layer_for(|entry| entry.name == "echo", shout);
    let mut client = client.test_client(Revision::V2026_07_28);
    assert_eq!(names(&client.tools().await.unwrap()), ["echo", "my_never"]);
    assert!(client.call("hidden", ()).await.unwrap_err().message.contains("hidden"));
    assert_eq!(client.call("echo", json!({"text": "x"})).await.unwrap().text(), "\"HI\" Some(\"ada\")");
    let late = client.call("my_never", ()).await.unwrap();
    assert_eq!((late.is_error(), &*late.text()), (true, "`my_never` did not finish within 3s"));
    assert!(log.take("call finished").iter().any(|line| line.contains("my_never")));
}

/// Methods of extensions are called in every revision, with the rules of the server, and are not listed.
#[tokio::test]
async fn methods_of_extensions_are_called_by_their_names() {
    let schema = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "maxLength": 5}},
        "required": ["text"],
        "additionalProperties": false,
    });
    let search = MethodEntry::new("com.example/search", schema, async |params: Map<String, Value>, ctx: Context| {
        ctx.notify("com.example/searching", &params);
        ctx.notify("notifications/message", &params);
        match params["text"].as_str() {
            Some("none") => Err(Fault::resource_not_found("nothing")),
            Some("list") => Ok(json!([])),
            text => Ok(json!({"found": text, "resultType": "x", "_meta": {"example.com/a": 1, SERVER_INFO: "x"}})),
        }
    });
    let object = || json!({"type": "object"});
    let secret =
        MethodEntry::new("com.example/secret", object(), async |_: Value, _: Context| Ok::<_, Fault>(json!({})));
    let hidden =
        MethodEntry::new("com.example/hidden", object(), async |_: Value, _: Context| Ok::<_, Fault>(json!({})));
    let refuse = from_fn(async |call: Call, next: Next| match call.argument("text") {
        Some(text) if text == "layer" => Outcome::error(&call, format!("refused the {} {}", call.kind(), call.name())),
        _ => next.run(call).await,
    });
    let server = Server::empty("values", "1.0.0")
        .with_entry(search)
        .with_entry(secret.scopes("admin"))
        .with_entry(hidden.tags(["hidden"]))
        .prefix(|_| true, "my_")
        .visible_to(|_, entry| !entry.has_tag("hidden"))
        .layer(refuse)
        .build()
        .unwrap();
    let cases = [
        ("com.example/search", json!({"text": "a"}), Ok("a")),
        ("com.example/search", json!({"text": "a", "_meta": {"progressToken": 1}}), Ok("a")),
        ("com.example/search", json!({"text": "none"}), Err((0, "nothing"))),
        (
            "com.example/search",
            json!({"text": "list"}),
            Err((-32603, "the result of `com.example/search` is not an object")),
        ),
        ("com.example/search", json!({"text": "layer"}), Err((-32603, "refused the method com.example/search"))),
        ("com.example/search", json!({"text": "longer"}), Err((-32602, "must have at most 5 characters"))),
        ("com.example/search", json!({}), Err((-32602, "`text` is required"))),
        ("com.example/search", json!({"text": "a", "more": 1}), Err((-32602, "`more`"))),
        ("com.example/hidden", json!({}), Err((-32601, "com.example/hidden"))),
        ("com.example/none", json!({}), Err((-32601, "com.example/none"))),
    ];
    for revision in Revision::ALL {
        let mut client = server.test_client(revision);
        for (method, params, expected) in &cases {
            let found = client.request(method, params.clone()).await;
            let case = format!("{revision}: {method} {params}: {found:?}");
            match (&found, expected) {
                (Ok(result), Ok(text)) => {
                    assert_eq!(result["found"], *text, "{case}");
                    assert_eq!(result["_meta"]["example.com/a"], 1, "{case}");
                    assert_ne!(result["_meta"][SERVER_INFO], "x", "{case}");
                    assert_eq!(
                        result["resultType"],
                        if revision.is_stateless() { json!("complete") } else { Value::Null }
                    );
                }
                (Err(error), Err((code, message))) => {
                    let code = if *code == 0 { mcp_tests::expected(revision).resource_not_found } else { *code };
                    assert_eq!(error.code, code, "{case}");
                    assert!(error.message.contains(message), "{case}");
                }
                _ => panic!("{case}"),
            }
        }
        let notified = client.notifications();
        assert!(notified.iter().all(|sent| sent["method"] == "com.example/searching"), "{notified:?}");
        assert_eq!(notified[0]["params"], json!({"text": "a"}), "{revision}");
        assert!(client.tools().await.is_err(), "{revision}: a server with methods only has no tools");
    }
}

/// A method of an extension is also called for a notification, in every revision and with the rules of the server. A
/// notification has no response, however its call ends.
#[tokio::test]
async fn methods_of_extensions_are_notified() {
    let (log, _guard) = Log::listen();
    let noted = Arc::<Mutex<Vec<Value>>>::default();
    let notes = Arc::clone(&noted);
    let schema = json!({"type": "object", "properties": {"text": {"type": "string", "maxLength": 5}}});
    let note = move |params: Map<String, Value>, ctx: Context| {
        notes.lock().unwrap().push(params["text"].clone());
        async move {
            ctx.notify("com.example/noting", &params);
            match params["text"].as_str() {
                Some("none") => return Err(Fault::resource_not_found("nothing")),
                Some("panic") => panic!("a mistake"),
                Some("ask") => drop(ctx.ask(mcp_runtime::ask::ListRoots).await?),
                Some("late") => tokio::time::sleep(Duration::from_millis(1)).await,
                Some("stay") => std::future::pending().await,
                _ => {}
            }
            ctx.notify("com.example/noted", &params);
            Ok(json!({"noted": params["text"]}))
        }
    };
    let server = Server::empty("values", "1.0.0")
        .with_entry(MethodEntry::new("com.example/note", schema.clone(), note.clone()))
        .with_entry(MethodEntry::new("com.example/hidden", schema, note).tags(["hidden"]))
        .visible_to(|_, entry| !entry.has_tag("hidden"))
        .max_in_flight(1)
        .build()
        .unwrap();
    let [noting, done] = ["com.example/noting", "com.example/noted"];
    let rejected = "a notification was rejected";
    let failed = "the call of a notification failed";
    for revision in Revision::ALL {
        let mut client = server.test_client(revision);
        client.tools().await.unwrap_err();
        for (method, text, is_called, sent, logged) in [
            ("com.example/note", "a", true, &[noting, done][..], None),
            ("com.example/note", "late", true, &[noting, done], None),
            ("com.example/note", "none", true, &[noting], Some(failed)),
            ("com.example/note", "panic", true, &[noting], Some(failed)),
            ("com.example/note", "ask", true, &[noting], Some(failed)),
            ("com.example/note", "longer", false, &[], Some(failed)),
            ("com.example/hidden", "a", false, &[], None),
            ("com.example/none", "a", false, &[], None),
            ("tools/call", "a", false, &[], None),
            ("com.example/note", "stay", true, &[noting], None),
            ("com.example/note", "b", false, &[], Some(rejected)),
        ] {
            let case = format!("{revision}: {method} {text}");
            log.take("");
            let message = json!({"jsonrpc": "2.0", "method": method, "params": {"text": text}});
            let mut lines = client.send_raw(message.to_string().as_bytes());
            if text == "late" {
                lines.append(&mut client.settle().await);
            }
            let methods: Vec<_> = lines.iter().map(|line| line["method"].as_str().unwrap_or("a response")).collect();
            assert_eq!(methods, sent, "{case}: {lines:?}");
            let called = std::mem::take(&mut *noted.lock().unwrap());
            assert_eq!(called, if is_called { vec![json!(text)] } else { Vec::new() }, "{case}");
            let mut warnings = log.take("");
            warnings.retain(|line| [failed, rejected].iter().any(|message| line.starts_with(message)));
            assert_eq!(warnings.len(), usize::from(logged.is_some()), "{case}: {warnings:?}");
            assert!(warnings.iter().all(|line| logged.is_some_and(|logged| line.starts_with(logged))), "{warnings:?}");
            assert!(warnings.iter().all(|line| !line.contains("longer")), "a value of the client: {warnings:?}");
        }
    }
}

/// A notification may name its revision, as a request does. Otherwise, it is of the revision of the session.
#[tokio::test]
async fn a_notification_may_name_its_revision() {
    let seen = Arc::<Mutex<Vec<Revision>>>::default();
    let revisions = Arc::clone(&seen);
    let note = MethodEntry::new("com.example/note", json!({"type": "object"}), move |_: Value, ctx: Context| {
        revisions.lock().unwrap().push(ctx.revision());
        async { Ok::<_, Fault>(json!({})) }
    });
    let mut client = Server::empty("values", "1.0.0").with_entry(note).test_client(Revision::V2025_11_25);
    let named = |version: &str| {
        json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        })
    };
    for (meta, expected) in [
        (json!({}), Some(Revision::V2025_11_25)),
        (named("2026-07-28"), Some(Revision::V2026_07_28)),
        (named("1999-01-01"), None),
    ] {
        let message = json!({"jsonrpc": "2.0", "method": "com.example/note", "params": {"_meta": meta}});
        client.send_raw(message.to_string().as_bytes());
        let found = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(found, Vec::from_iter(expected), "{message}");
    }
}

/// A progress token and a log level are those of a request. Metadata of a notification that the protocol reserves is not
/// sent.
#[tokio::test]
async fn a_notification_requests_neither_progress_nor_log_messages() {
    let note = MethodEntry::new("com.example/note", json!({"type": "object"}), async |_: Value, ctx: Context| {
        ctx.progress(1, 2, "half");
        ctx.log(Level::Error, "noted");
        ctx.notify("com.example/noted", json!({"_meta": {"example.com/a": 1, "-/a": 1, SERVER_INFO: 1}}));
        Ok::<_, Fault>(json!({}))
    });
    let mut client = Server::empty("values", "1.0.0").with_entry(note).test_client(Revision::V2026_07_28);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/logLevel": "debug",
        "progressToken": 1,
    });
    let of_request = ["notifications/progress", "notifications/message", "com.example/noted", "a response"];
    for (id, expected) in [(None, &of_request[2..3]), (Some(1), &of_request)] {
        let mut message = json!({"jsonrpc": "2.0", "method": "com.example/note", "params": {"_meta": meta}});
        if let Some(id) = id {
            message["id"] = json!(id);
        }
        let lines = client.send_raw(message.to_string().as_bytes());
        let methods: Vec<_> = lines.iter().map(|line| line["method"].as_str().unwrap_or("a response")).collect();
        assert_eq!(methods, expected, "{lines:?}");
        let noted = lines.iter().find(|line| line["method"] == "com.example/noted").unwrap();
        assert_eq!(noted["params"], json!({"_meta": {"example.com/a": 1}}));
    }
}

/// The server ends before the call of a notification does.
#[tokio::test(start_paused = true)]
async fn a_notification_whose_call_never_ends_has_no_response() {
    let note = MethodEntry::new("com.example/note", json!({"type": "object"}), async |_: Value, _: Context| {
        std::future::pending::<Result<(), Fault>>().await
    });
    let server = Server::empty("values", "1.0.0").with_entry(note).shutdown_grace(Duration::from_secs(1));
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
        json!({"jsonrpc": "2.0", "method": "com.example/note", "params": {}}),
    ];
    let input = messages.map(|message| format!("{message}\n")).concat();
    let mut output = Vec::new();
    server.serve(input.as_bytes(), &mut output).await.unwrap();
    let lines = String::from_utf8(output).unwrap();
    assert_eq!(lines.lines().count(), 1, "{lines}");
}

/// The entry of a resource learns of each subscription, and of its end, however it ends.
#[tokio::test]
async fn subscriptions_hold_what_on_subscribe_returns() {
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let built = Arc::new(OnceLock::<Handle>::new());
    let (count, uris, own) = (Arc::new(()), Arc::clone(&seen), Arc::clone(&built));
    let guard = Arc::clone(&count);
    /// Uses the server when it is dropped, as the code of an author may.
    struct Ended {
        _count: Arc<()>,
        server: Arc<OnceLock<Handle>>,
    }
    impl Drop for Ended {
        fn drop(&mut self) {
            self.server.get().unwrap().resource_updated("test://a");
        }
    }
    let item =
        ResourceEntry::new("test://{id}", "item", async |_: Value, _: Context| "text").on_subscribe(move |uri| {
            own.get().unwrap().resource_updated(uri);
            uris.lock().unwrap().push(uri.to_owned());
            assert!(!uri.ends_with("panic"), "a mistake");
            Ended { _count: Arc::clone(&guard), server: Arc::clone(&own) }
        });
    let other = ResourceEntry::new("other://a", "other", async |_: Value, _: Context| "text");
    // The template does not serve this URI, and a client does not see the entry after it.
    let shadowing = ResourceEntry::new("test://shadowed", "shadowing", async |_: Value, _: Context| "text");
    let uris = Arc::clone(&seen);
    let hidden = ResourceEntry::new("test://hidden", "hidden", async |_: Value, _: Context| "text")
        .tags(["hidden"])
        .on_subscribe(move |_| uris.lock().unwrap().push("a hidden entry".to_owned()));
    let server = Server::empty("values", "1.0.0")
        .with_entry(item)
        .with_entry(other)
        .with_entry(shadowing)
        .with_entry(hidden)
        .visible_to(|_, entry| !entry.has_tag("hidden"))
        .build()
        .unwrap();
    built.set(server.handle()).unwrap_or_else(|_| unreachable!());
    let open = || Arc::strong_count(&count) - 2;
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_stateless()) {
        let mut clients = vec![server.test_client(revision), server.test_client(revision)];
        for (client, method, uri, expected) in [
            (0, "subscribe", "test://a", 1),
            (0, "subscribe", "test://a", 1),
            (0, "subscribe", "other://a", 1),
            (0, "subscribe", "test://shadowed", 1),
            (0, "subscribe", "test://panic", 1),
            (1, "subscribe", "test://a", 2),
            (0, "subscribe", "test://b", 3),
            (1, "subscribe", "test://hidden", 4),
            (0, "unsubscribe", "test://none", 4),
            (0, "unsubscribe", "test://a", 3),
            (0, "unsubscribe", "test://a", 3),
        ] {
            let client = &mut clients[client];
            client.request(&format!("resources/{method}"), json!({ "uri": uri })).await.unwrap();
            assert_eq!(open(), expected, "{revision}: {method} {uri}");
        }
        for left in [2, 0] {
            clients.remove(0);
            assert_eq!(open(), left, "{revision}: the end of a session");
        }
        let uris = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(uris, ["test://a", "test://panic", "test://a", "test://b", "test://hidden"], "{revision}");
    }
    let mut client = server.test_client(Revision::V2026_07_28);
    let uris = ["test://a", "test://b", "other://a", "none://", "test://shadowed", "test://hidden"];
    let filter = json!({"notifications": {"resourceSubscriptions": uris}});
    let id = client.send_request("subscriptions/listen", filter.clone());
    assert_eq!(
        (open(), &seen.lock().unwrap()[..]),
        (3, &["test://a", "test://b", "test://hidden"].map(str::to_owned)[..])
    );
    client.send_request("subscriptions/listen", filter);
    assert_eq!(open(), 6);
    client.notify("notifications/cancelled", json!({"requestId": id}));
    assert_eq!(open(), 3);
    drop(client);
    assert_eq!(open(), 0);
}

/// A mistake in the code of the author affects no request.
#[tokio::test]
async fn a_panic_at_the_end_of_a_subscription_is_logged() {
    struct Mistaken;

    impl Drop for Mistaken {
        fn drop(&mut self) {
            panic!("a mistake")
        }
    }

    let (log, _guard) = Log::listen();
    let item = ResourceEntry::new("test://{id}", "item", async |_: Value, _: Context| "text");
    let server = Server::empty("values", "1.0.0").with_entry(item.on_subscribe(|_| Mistaken));
    let _announces_changes = server.handle();
    let mut client = server.test_client(Revision::V2025_11_25);
    for method in ["resources/subscribe", "resources/unsubscribe", "resources/subscribe"] {
        client.request(method, json!({"uri": "test://a"})).await.unwrap();
    }
    drop(client);
    assert_eq!(log.take("the function of `on_subscribe` or the value that it returned has panicked").len(), 2);
}

/// The result of a type without a schema is described and checked by the schema that the entry names.
#[tokio::test]
async fn output_schemas_can_be_given() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let tool = ToolEntry::new("count", json!({"type": "object"}), async |arguments: Value, _: Context| {
        ToolResult::default().with_structured(arguments)
    });
    let mut client = Server::empty("values", "1.0.0")
        .with_entry(tool.output_schema(schema.clone()))
        .test_client(Revision::V2025_11_25);
    assert_eq!(client.tools().await.unwrap()[0].0["outputSchema"], schema);
    assert_eq!(client.call("count", json!({"n": 1})).await.unwrap().structured(), Some(&json!({"n": 1})));
    assert!(client.call("count", json!({"n": "1"})).await.is_err(), "results are checked in test clients");
}

/// The schema decides, and not the value: clients check each result against the listed schema.
#[tokio::test]
async fn an_object_is_wrapped_if_the_given_schema_allows_other_values() {
    let schema = json!({"type": ["object", "null"], "properties": {"n": {"type": "integer"}}});
    let tool = ToolEntry::new("count", json!({"type": "object"}), async |arguments: Value, _: Context| {
        ToolResult::default().with_structured(arguments)
    });
    let server = Server::empty("values", "1.0.0").with_entry(tool.output_schema(schema)).build().unwrap();
    for (revision, expected) in
        [(Revision::V2025_11_25, json!({"result": {"n": 1}})), (Revision::V2026_07_28, json!({"n": 1}))]
    {
        let mut client = server.test_client(revision);
        assert_eq!(client.call("count", json!({"n": 1})).await.unwrap().structured(), Some(&expected), "{revision}");
    }
}

/// Reloads at the same time leave the entries of one of them.
#[test]
fn replacements_at_the_same_time_do_not_mix() {
    let server = Server::empty("values", "1.0.0").build().unwrap();
    let handle = server.handle();
    std::thread::scope(|scope| {
        for names in [["a", "b"], ["c", "d"], ["a", "d"]] {
            let handle = handle.clone();
            scope.spawn(move || {
                for _ in 0..50 {
                    handle.replace_entries(|_| true, names.map(|name| constant(name, name))).unwrap();
                }
            });
        }
    });
    let mut count = 0;
    handle.set_enabled(|_| true);
    handle.replace_entries(|_| false, [] as [Entry; 0]).unwrap();
    let client = server.test_client(Revision::V2026_07_28);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut client = client;
        count += client.tools().await.unwrap().len();
    });
    assert_eq!(count, 2);
}

/// Templates match the same URIs if they differ only in names of variables that are not part of a URI.
#[tokio::test]
async fn an_optional_template_is_left_out_if_another_one_matches_the_same_uris() {
    let note = |uri: &'static str| ResourceEntry::new(uri, "note", async |_: Map<String, Value>, _: Context| "text");
    for (uri, is_added) in [("note://{name}", false), ("note://{+name}", true), ("note://all{?name}", true)] {
        let server = Server::empty("values", "1.0.0")
            .with_entry(note("note://{id}").size(4))
            .with_entry(note("note://all{?id}"));
        let mut client = server.with_entry(note(uri).optional()).test_client(Revision::V2025_11_25);
        let listed = client.request("resources/templates/list", json!({})).await.unwrap();
        let templates = listed["resourceTemplates"].as_array().unwrap();
        assert_eq!(templates.iter().any(|template| template["uriTemplate"] == uri), is_added, "{uri}");
        assert!(templates.iter().all(|template| template.get("size").is_none()), "only resources have a size");
    }
}

/// A repeated member must not hide another value from a schema that accepts what another one refuses.
#[tokio::test]
async fn repeated_members_are_refused_where_they_could_hide_a_value() {
    let path = json!({"type": "string"});
    let etc = json!({"properties": {"path": {"const": "/etc"}}, "required": ["path"]});
    for (keyword, rule) in [
        ("not", etc.clone()),
        ("if", etc.clone()),
        ("oneOf", json!([{"not": etc.clone()}, {"properties": {"path": {"const": "/tmp"}}}])),
        ("minProperties", json!(2)),
    ] {
        let mut schema = json!({"type": "object", "properties": {"path": path}});
        schema[keyword] = rule;
        schema["then"] = json!(false);
        if keyword != "if" {
            schema.as_object_mut().unwrap().shift_remove("then");
        }
        let echo = ToolEntry::new("echo", schema, async |arguments: Map<String, Value>, _: Context| {
            Value::Object(arguments).to_string()
        });
        let mut client = Server::empty("values", "1.0.0").with_entry(echo).test_client(Revision::V2025_11_25);
        client.tools().await.unwrap();
        let arguments = r#"{"path":"x","path":"/etc"}"#;
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"name":"echo","arguments":{arguments}}}}}"#
        );
        let mut lines = client.send_raw(call.as_bytes());
        if lines.is_empty() {
            lines = client.next_lines().await;
        }
        assert_eq!(lines[0]["result"]["isError"], true, "{keyword}: {}", lines[0]);
        assert!(lines[0].to_string().contains("has the member `path` twice"), "{keyword}: {}", lines[0]);
    }
}
