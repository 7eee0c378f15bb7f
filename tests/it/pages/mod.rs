//! Pages of MCP Apps.

use mcp_runtime::{Fault, Json, Revision, Server, function::ToolEntry, resource, testing::TestClient, tool, ui};
use mcp_tests::{golden::GoldenFiles, messages, schemas::Official};
use serde_json::{Map, Value, json};

const EXTENSION: &str = "io.modelcontextprotocol/ui";
const BRIDGE: &str = include_str!("../../../mcp-runtime/src/ui/bridge.js");

/// The notes that the pages show.
struct Notes(Vec<&'static str>);

/// A board of all notes.
#[ui(
    "ui://notes/board",
    title = "Board",
    file = "assets/board.html",
    connect = ["https://api.example.com", "wss://live.example.com"],
    resources = ["https://cdn.example.com"],
    frames = ["https://frames.example.com"],
    base_uris = ["https://cdn.example.com"],
    permissions = [clipboard_write, camera],
    domain = "notes-example-com.example.net",
    prefers_border = true,
    ttl = "5m",
    meta("example.com/order" = 1)
)]
fn board();

/// A list without a policy.
#[ui("ui://notes/list")]
fn list(notes: &Notes) -> Result<String, Fault> {
    if notes.0.is_empty() {
        return Err(Fault::internal("no notes"));
    }
    let script = "<script src=\"mcp-runtime:bridge\"></script>";
    Ok(format!("<!doctype html><title>{}</title>{script}", notes.0.join(", ")))
}

/// Show all notes.
#[tool(read_only, ui = board, meta("example.com/beta" = true))]
fn show(notes: &Notes) -> Json<Vec<&'static str>> {
    Json(notes.0.clone())
}

/// Show all notes to the model only.
#[tool(ui = list, visibility = [model])]
fn list_notes(notes: &Notes) -> String {
    notes.0.join(", ")
}

/// Move a note on the board.
#[tool(ui = board, visibility = [app])]
async fn move_note(from: usize, to: usize) -> String {
    format!("moved {from} to {to}")
}

/// Forget the order of the notes.
#[tool(visibility = [app])]
fn reset() {}

/// Count the notes, for the model and the page.
#[tool(visibility = [app, model])]
fn count(notes: &Notes) -> usize {
    notes.0.len()
}

fn server(notes: &[&'static str]) -> Server {
    Server::empty("pages", "1.0.0")
        .with::<board>()
        .with::<list>()
        .with::<show>()
        .with::<list_notes>()
        .with::<move_note>()
        .with::<reset>()
        .with::<count>()
        .with_state(Notes(notes.to_vec()))
}

/// The requests of a client whose capabilities are these, and the responses.
fn play(revision: Revision, server: Server, capabilities: &Value, requests: &[(&str, Value)]) -> Vec<Value> {
    let mut client = TestClient::uninitialized(server, revision);
    let mut lines = Vec::new();
    let begin = json!({"protocolVersion": revision.as_str(), "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "1.0.0"}});
    let first = if revision.is_stateless() { ("server/discover", json!({})) } else { ("initialize", begin) };
    for (id, (method, params)) in [first].iter().chain(requests).enumerate() {
        let mut params = params.clone();
        if revision.is_stateless() {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": revision.as_str(),
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            });
        }
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        lines.append(&mut client.send_raw(request.to_string().as_bytes()));
    }
    lines
}

fn with_pages() -> Value {
    json!({"extensions": {EXTENSION: {"mimeTypes": ["text/html;profile=mcp-app"]}}})
}

/// The text of pages is compared in other tests.
fn without_text(mut response: Value) -> Value {
    if let Some(text) = response.pointer_mut("/result/contents/0/text") {
        *text = "…".into();
    }
    response
}

#[test]
fn conversations_match_the_golden_files() {
    let requests = [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/read", json!({"uri": "ui://notes/board"})),
        ("resources/read", json!({"uri": "ui://notes/list"})),
        ("tools/call", json!({"name": "show", "arguments": {}})),
    ];
    let mut problems = Vec::new();
    for revision in Revision::ALL {
        let mut golden = GoldenFiles::open("pages", revision);
        for (case, capabilities) in [("with_extension", with_pages()), ("without_extension", json!({}))] {
            let lines = play(revision, server(&["Milk"]), &capabilities, &requests);
            assert_eq!(lines.len(), 1 + requests.len(), "{revision} {case}");
            let methods = [if revision.is_stateless() { "server/discover" } else { "initialize" }];
            let methods = methods.into_iter().chain(requests.iter().map(|(method, _)| *method));
            for (line, method) in lines.iter().zip(methods) {
                let official = Official::load(revision).map(|official| official.problems(line, Some(method)));
                let found = official.into_iter().flatten().chain(messages::problems(line, revision, Some(method)));
                found.for_each(|problem| golden.report(case, &problem));
            }
            golden.check(case, &lines.into_iter().map(without_text).collect());
        }
        problems.extend(golden.finish());
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// The names of the listed tools.
fn listed(revision: Revision, capabilities: &Value) -> Vec<String> {
    let lines = play(revision, server(&[]), capabilities, &[("tools/list", json!({}))]);
    let tools = lines[1]["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tools_of_the_page_are_listed_only_for_clients_with_pages() {
    for revision in Revision::ALL {
        for (settings, is_shown) in [
            (json!({"mimeTypes": ["text/html;profile=mcp-app"]}), true),
            (json!({"mimeTypes": ["text/plain", "text/html;profile=mcp-app"], "more": 1}), true),
            (json!({"mimeTypes": ["text/html"]}), false),
            (json!({"mimeTypes": []}), false),
            (json!({"mimeTypes": "text/html;profile=mcp-app"}), false),
            (json!({}), false),
            (json!(true), false),
        ] {
            // Earlier revisions have no `_meta` of tools, from which a client could learn that it hides them.
            let expected: &[&str] = if is_shown && revision.as_str() >= "2025-06-18" {
                &["count", "list_notes", "move_note", "reset", "show"]
            } else {
                &["count", "list_notes", "show"]
            };
            let capabilities = json!({"extensions": {EXTENSION: settings}});
            assert_eq!(listed(revision, &capabilities), expected, "{revision} {settings}");
        }
        assert_eq!(listed(revision, &json!({"extensions": {"com.example/ui": {}}})).len(), 3, "{revision}");
    }
}

/// The list differs between clients, so a shared cache must not store it.
#[test]
fn lists_that_hide_tools_are_private() {
    let lines = play(Revision::V2026_07_28, server(&[]), &json!({}), &[("tools/list", json!({}))]);
    assert_eq!(lines[1]["result"]["cacheScope"], "private");
    let plain = Server::empty("pages", "1.0.0").with::<count>().with_state(Notes(Vec::new()));
    let lines = play(Revision::V2026_07_28, plain, &json!({}), &[("tools/list", json!({}))]);
    assert_eq!(lines[1]["result"]["cacheScope"], "public");
}

/// Visibility is advice for hosts, and no access control.
#[tokio::test]
async fn tools_of_the_page_can_be_called() {
    for revision in Revision::ALL {
        let mut client = server(&[]).test_client(revision);
        assert_eq!(client.call("move_note", json!({"from": 1, "to": 2})).await.unwrap().text(), "moved 1 to 2");
    }
}

#[tokio::test]
async fn a_page_is_one_text() {
    let mut client = server(&["Milk", "Tea"]).test_client(Revision::V2025_11_25);
    let read = client.read("ui://notes/board").await.unwrap();
    let html = read.text();
    let image = "data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciPjxjaXJjbGUgcj0iMSIvPjwvc3ZnPg==";
    for expected in [
        "<title>Board & <b></title>",
        &format!("<link rel=\"icon\" href=\"{image}\">\n\n<style media=\"screen\">"),
        &format!(
            "more.css\"); /* url(missing.png) */ h1 {{ background: url(\"{image}\") }} h1::after {{ content: \"url(no.png)\" }}\n</style>"
        ),
        "<link rel=\"stylesheet\" href=\"https://cdn.example.com/theme.css\">",
        &format!("<style>body {{ background: url(\"{image}\") }}</style>"),
        &format!(
            "<script>{BRIDGE}</script>\n\n<script type=\"module\">import \"https://cdn.example.com/library.js\"; const"
        ),
        &format!("<body style=\"background: url(&quot;{image}&quot;)\">"),
        &format!("<img alt=\"&quot;a&quot;\" src=\"{image}\">"),
        "<script>document.title = \"\\x3c/script>\\x3c!--\";\n// fetch(\"https://comment.example\")\n</script></body>",
    ] {
        assert!(html.contains(expected), "{expected}\nis missing in\n{html}");
    }
    let list = client.read("ui://notes/list").await.unwrap();
    assert_eq!(list.text(), format!("<!doctype html><title>Milk, Tea</title><script>{BRIDGE}</script>"));
    let error = server(&[]).test_client(Revision::V2025_11_25).read("ui://notes/list").await.unwrap_err();
    assert_eq!((error.code, &*error.message), (-32603, "no notes"));
}

/// Show a resource that is no page.
#[tool(meta("ui" = { "resourceUri": "notes://plain" }))]
fn show_resource() -> &'static str {
    "text"
}

/// Text.
#[resource("notes://plain", mime = "text/html;profile=mcp-app")]
fn plain() -> &'static str {
    "text"
}

#[test]
fn mistakes_are_reported_when_the_server_is_built() {
    let empty = || Server::empty("bad", "1.0.0").with_state(Notes(Vec::new()));
    let missing = |tool: &str, page: &str| {
        let problem =
            format!("has the page `{page}`, which is not registered\nhelp: add its function with `Server::with`");
        (format!("`{tool}` ({}:", file!()), problem)
    };
    for (server, (source, expected)) in [
        (empty().with::<show>(), missing("show", "ui://notes/board")),
        (server(&[]).only(|entry| entry.name != "board"), missing("move_note", "ui://notes/board")),
        (empty().with::<show_resource>().with::<plain>(), missing("show_resource", "notes://plain")),
        (
            empty().with_mcp_extension(EXTENSION, json!({})),
            (format!("the extension `{EXTENSION}`"), "is declared by the server itself".to_owned()),
        ),
    ] {
        let problems = server.check().unwrap_err().problems().join("\n");
        assert!(problems.contains(&source) && problems.contains(&expected), "{source} {expected}\n{problems}");
    }
}

/// The entries of an upstream server may have any `_meta`.
#[test]
fn pages_of_entries_from_values_are_not_checked() {
    let text = |_: Map<String, Value>, _| async { "text" };
    for ui in [json!({"resourceUri": "ui://upstream/page"}), json!({"visibility": "app"}), json!(7)] {
        let tool = ToolEntry::new("shown", json!({"type": "object"}), text).with_meta("ui", ui.clone());
        let lines = play(
            Revision::V2026_07_28,
            Server::empty("proxy", "1.0.0").with_entry(tool),
            &json!({}),
            &[("tools/list", json!({}))],
        );
        assert_eq!(lines[1]["result"]["tools"][0]["_meta"]["ui"], ui);
    }
}
