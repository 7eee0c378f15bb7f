//! Renaming functions: `Server::prefix` and `Server::rename`.

use mcp_runtime::{
    Context, Handle, Revision, Server,
    function::{EarlierArguments, ToolEntry},
    layers::LogCalls,
    prompt, resource,
    testing::TestClient,
    tool, tools,
};
use serde_json::{Value, json};

use crate::layers::log::Log;

mod git {
    use super::*;

    /// Search the history.
    #[tool(tags("read"))]
    pub(super) fn search(query: &str) -> String {
        query.to_owned()
    }

    /// Fails.
    #[tool]
    pub(super) fn fails() -> Result<(), std::fmt::Error> {
        Err(std::fmt::Error)
    }

    /// Panics after waiting.
    #[tool]
    pub(super) async fn panics() {
        tokio::task::yield_now().await;
        panic!("a secret")
    }

    /// A file.
    #[resource("git://{path}")]
    pub(super) fn file(path: String) -> Result<String, String> {
        Err(path)
    }

    /// Review a branch.
    #[prompt]
    pub(super) fn review(#[arg(complete = branches)] branch: &str) -> String {
        branch.to_owned()
    }

    fn branches(_: &str, _: &EarlierArguments) -> Vec<String> {
        vec!["main".to_owned()]
    }

    /// Search again.
    #[tool(task)]
    pub(super) async fn long_search() -> String {
        "found".to_owned()
    }
}

mod web {
    use super::*;

    /// Search the web.
    #[tool(tags("read"))]
    pub(super) fn search(query: &str) -> String {
        query.to_uppercase()
    }

    /// Review a page.
    #[prompt]
    pub(super) fn review() -> &'static str {
        "page"
    }
}

struct Notes;

#[tools]
impl Notes {
    /// Add a note.
    #[tool]
    fn add() {}

    /// Delete all notes.
    #[tool]
    fn clear() {}
}

fn server() -> Server {
    Server::new("names", "1.0.0").only(|entry| entry.module.contains("::names")).with_state(Notes)
}

fn renamed() -> Server {
    server().prefix(|entry| entry.module.ends_with("::git"), "git_")
}

#[test]
fn errors_about_clashes_name_the_remedy() {
    let error = server().check().unwrap_err();
    let problems = error.problems();
    assert_eq!(problems.len(), 2, "{error}");
    for (problem, start) in
        problems.iter().zip(["two tools are named `search`: `search` (", "two prompts are named `review`: "])
    {
        assert!(problem.starts_with(start), "{problem}");
        let remedy = "\nhelp: rename one of them with `name = \"…\"`, `Server::rename` or `Server::prefix`, or leave it out with \
             `Server::only`; `Handle::replace_entries` replaces entries of a running server";
        assert!(problem.ends_with(remedy), "{problem}");
    }
    renamed().check().unwrap();
}

async fn tool_names(server: Server) -> Vec<String> {
    let tools = server.test_client(Revision::V2025_11_25).tools().await.unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn functions_are_selected_by_crate_module_type_and_function() {
    let git = || Server::empty("names", "1.0.0").with::<git::search>().with::<Notes>().with_state(Notes);
    for (server, expected) in [
        (git().prefix(|entry| entry.package == "mcp-tests", "x-"), &["x-add", "x-clear", "x-search"][..]),
        (git().prefix(|entry| entry.package == "toolbox", "x-"), &["add", "clear", "search"]),
        (git().prefix(|entry| entry.module.ends_with("::git"), "x-"), &["add", "clear", "x-search"]),
        (git().prefix(|entry| entry.is::<Notes>(), "x-"), &["search", "x-add", "x-clear"]),
        (git().prefix(|entry| entry.is::<git::search>(), "x-"), &["add", "clear", "x-search"]),
        (git().prefix(|entry| entry.is::<web::search>(), "x-"), &["add", "clear", "search"]),
        (git().rename(|entry| entry.function == "Notes::clear", "forget"), &["add", "forget", "search"]),
        (git().rename(|entry| entry.has_tag("read"), "find"), &["add", "clear", "find"]),
        // Rules apply in their order, and see the names that earlier ones gave.
        (
            git().rename(|entry| entry.name == "add", "put").prefix(|entry| entry.name == "put", "x-"),
            &["clear", "search", "x-put"],
        ),
        (git().prefix(|_| true, "x-").rename(|entry| entry.name == "add", "put"), &["x-add", "x-clear", "x-search"]),
        (git().prefix(|_| true, "a.").prefix(|_| true, "b."), &["b.a.add", "b.a.clear", "b.a.search"]),
        // Rules apply to functions that are added later, and `only` sees the names in the annotations.
        (
            git()
                .prefix(|_| true, "x-")
                .only(|entry| entry.name == "search")
                .with::<web::search>()
                .only(|entry| entry.module.ends_with("::web")),
            &["x-search"],
        ),
        (git().only(|entry| entry.function != "Notes::clear"), &["add", "search"]),
    ] {
        assert_eq!(tool_names(server).await, expected);
    }
}

async fn completions(client: &mut TestClient, name: &str) -> Result<Vec<String>, i64> {
    let completed = client.complete(json!({"type": "ref/prompt", "name": name}), "branch", "").await;
    completed.map_err(|error| error.code)
}

#[tokio::test]
async fn new_names_are_used_everywhere() {
    let (log, _guard) = Log::listen();
    for layered in [false, true] {
        let server = if layered { renamed().layer(LogCalls::new()) } else { renamed() };
        let mut client = server.test_client(Revision::V2025_11_25);
        assert_eq!(client.call("git_search", json!({"query": "a"})).await.unwrap().text(), "a");
        assert_eq!(client.call("search", json!({"query": "a"})).await.unwrap().text(), "A");
        let invalid = client.call("git_search", ()).await.unwrap().text();
        assert!(invalid.starts_with("invalid arguments for `git_search`"), "{invalid}");
        let panicked = client.call("git_panics", ()).await.unwrap_err();
        assert_eq!(panicked.message, "`git_panics` failed: internal error");
        let failed = client.read("git://a").await.unwrap_err();
        assert_eq!(failed.message, "`git_file` failed");
        let logged = log.take("function ");
        for start in ["function panicked name=\"git_panics\"", "function failed name=\"git_file\""] {
            assert_eq!(logged.iter().filter(|line| line.starts_with(start)).count(), 1, "{logged:?}");
        }

        assert!(client.prompt("git_review", json!({"branch": "main"})).await.is_ok());
        assert_eq!(completions(&mut client, "git_review").await, Ok(vec!["main".to_owned()]));
        assert_eq!(completions(&mut client, "git_unknown").await, Err(-32602));
        assert_eq!(client.call("git_unknown", ()).await.unwrap_err().code, -32602);

        let created = client.request("tools/call", json!({"name": "git_long_search", "task": {}})).await.unwrap();
        let task = json!({"taskId": created["task"]["taskId"]});
        let result = client.request("tasks/result", task).await.unwrap();
        assert_eq!(result["content"][0]["text"], "found");
    }
    let client_sees = renamed().visible_to(|_, entry| !entry.name.starts_with("git_"));
    assert_eq!(tool_names(client_sees).await, ["add", "clear", "search"]);
}

/// `Handle` uses the same rules.
#[tokio::test]
async fn functions_added_by_a_handle_are_renamed() {
    let server = Server::empty("names", "1.0.0").with::<git::search>();
    let server = server.prefix(|entry| entry.is::<web::search>(), "web_");
    let handle: Handle = server.handle();
    let mut client = server.test_client(Revision::V2025_11_25);
    handle.add::<web::search>().unwrap();
    let names = client.tools().await.unwrap().iter().map(|tool| tool["name"].clone()).collect::<Vec<Value>>();
    assert_eq!(names, ["search", "web_search"]);
    assert!(handle.set_enabled(|entry| entry.name == "web_search"));
    assert_eq!(client.tools().await.unwrap().len(), 1);
    assert!(handle.remove::<web::search>());
}

#[tokio::test]
async fn lock_files_contain_the_new_names() {
    let lock = renamed().build().unwrap();
    let tools = lock.test_client(Revision::V2026_07_28).tools().await.unwrap();
    let tools = tools.into_iter().map(|tool| tool.0).collect();
    let listing = mcp_runtime_lock::Listing { tools, ..Default::default() };
    let lock = mcp_runtime_lock::Lock::of(&listing).to_json();
    assert!(lock.contains("git_search") && lock.contains("git_long_search"), "{lock}");
}

#[test]
fn invalid_names_and_unused_rules_are_reported() {
    let one = || Server::empty("names", "1.0.0").with::<git::search>();
    // No function in the source has this name.
    let clock = ToolEntry::new("clock", json!({"type": "object"}), async |_: Value, _: Context| "noon");
    let with_value = Server::empty("names", "1.0.0").with_entry(clock);
    let (log, _guard) = Log::listen();
    for (server, expected) in [
        (one().prefix(|_| true, "git/"), "`search` cannot be renamed to `git/search` ("),
        (one().rename(|_| true, ""), "`search` cannot be renamed to `` ("),
        (one().prefix(|_| true, "x".repeat(128)), "`search` cannot be renamed to `xxx"),
        (one().rename(|_| true, "find").prefix(|_| true, "git/"), "`search` cannot be renamed to `git/find` ("),
        (with_value.prefix(|_| true, "git/"), "`clock` cannot be renamed to `git/clock` ("),
    ] {
        let error = server.check().unwrap_err();
        assert_eq!(error.problems().len(), 1, "{error}");
        let problem = &error.problems()[0];
        assert!(problem.starts_with(expected) && problem.contains(file!()), "{problem}");
    }
    log.take("");
    one().prefix(|entry| entry.package == "tolbox", "x").check().unwrap();
    let warnings = log.take("`Server::rename` or `Server::prefix` selects no function");
    assert!(warnings.len() == 1 && warnings[0].contains(file!()), "{warnings:?}");
    one().prefix(|entry| entry.package == "mcp-tests", "x").check().unwrap();
    assert_eq!(log.take("`Server::rename`"), Vec::<String>::new());
}
