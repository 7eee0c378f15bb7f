//! `cargo mcp dev` on stdin and stdout.

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient, ServiceExt, model::CallToolRequestParams, service::NotificationContext,
    transport::TokioChildProcess,
};
use serde_json::json;
use tokio::sync::Notify;

use crate::common::{CommandOutput, cargo_mcp};

use super::project::{BROKEN, DevProcess, EXTRA_TOOL, Project, TIMEOUT, stateless, text, wait_until_exited};

#[test]
fn a_stdio_session_survives_rebuilds_build_failures_and_crashes() {
    let project = Project::new("dev-session", "");
    let mut dev = project.start(&["--grace", "300"]);
    let response = dev.initialize("2025-06-18");
    assert_eq!(response["result"]["capabilities"], json!({"tools": {"listChanged": true}}));
    assert_eq!(response["result"]["serverInfo"]["name"], "dev-session");
    assert_eq!(dev.wait_for_line("serving"), "dev: serving: 4 tools");
    assert_eq!(dev.call_text("greet", &json!({"name": "Ada"})), "Hello, Ada!");
    let first = dev.call_text("process", &json!({}));
    let pending = dev.call("wait", &json!({"file": project.file("marker")}));
    // The build with another tool serves the same connection while a call is in flight on the old server.
    project.write_source(EXTRA_TOOL);
    dev.notification("notifications/tools/list_changed");
    dev.wait_for_line("dev: reloaded: + tool fresh");
    assert_eq!(dev.call_text("fresh", &json!({})), "fresh");
    assert_ne!(dev.call_text("process", &json!({})), first);
    project.write_file("marker", "");
    assert_eq!(text(&dev.response(pending)), "found");
    wait_until_exited(&first);
    // Source that does not compile leaves the last build running.
    project.write_source(BROKEN);
    dev.wait_for_line("mismatched types");
    dev.wait_for_line("dev: build failed; still serving the last successful build");
    assert_eq!(dev.call_text("fresh", &json!({})), "fresh");
    project.write_source("");
    dev.notification("notifications/tools/list_changed");
    dev.wait_for_line("dev: reloaded: - tool fresh");
    // A crash fails the call in flight, and the next call restarts the server.
    let call = dev.call("die", &json!({}));
    let response = dev.response(call);
    assert_eq!(response["error"]["code"], -32603, "{response}");
    let why = response["error"]["message"].as_str().unwrap_or_default();
    assert!(why.starts_with("the server exited while processing this request (signal: 6"), "{why}");
    assert_eq!(dev.call_text("greet", &json!({"name": "Bob"})), "Hello, Bob!");
    dev.wait_for_line("dev: restarted: lists unchanged");
    let last = dev.call_text("process", &json!({}));
    dev.end();
    wait_until_exited(&last);
}

#[test]
fn a_changed_page_is_served_without_a_restart() {
    let page = "#[mcp_runtime::ui(\"ui://test/page\", file = \"page.html\")]\nfn page();\n\n\
                /// Show the page.\n#[tool(ui = page)]\nfn shown() -> &'static str {\n    \"shown\"\n}\n\n\
                /// Only for the page.\n#[tool(visibility = [app])]\nfn hidden() {}\n";
    let project = Project::new("dev-page", page);
    let write = |text: &str| project.write_file("src/page.html", &format!("<!doctype html><title>{text}</title>"));
    write("one");
    let _ = std::fs::remove_file(project.file("mcp.d.ts"));
    let mut dev = project.start(&["--types", "mcp.d.ts"]);
    dev.initialize("2025-11-25");
    let read = |dev: &mut DevProcess| {
        let id = dev.request("resources/read", &json!({"uri": "ui://test/page"}));
        dev.response(id)["result"]["contents"][0]["text"].clone()
    };
    assert_eq!(read(&mut dev), "<!doctype html><title>one</title>");
    dev.wait_for_line("wrote `mcp.d.ts`");
    let types = std::fs::read_to_string(project.file("mcp.d.ts")).expect("a file");
    assert!(types.contains("hidden") && types.contains("function app("), "{types}");
    let server = dev.call_text("process", &json!({}));
    write("two");
    dev.wait_for_line("executable unchanged");
    assert_eq!(read(&mut dev), "<!doctype html><title>two</title>");
    write("three</title><img src='https://a.example/'><title>");
    assert_eq!(
        read(&mut dev),
        "<!doctype html><pre>page.html:1: the policy of the page forbids `https://a.example/`\n\
         help: add `resources = [\"https://a.example\"]`</pre>"
    );
    assert_eq!(dev.call_text("process", &json!({})), server);
    dev.end();

    // Other builds contain the page.
    write("four");
    let program = String::from_utf8_lossy(&project.build()).into_owned();
    assert!(program.contains("<title>four</title>") && !program.contains("page.html"));
}

#[test]
fn a_call_that_exceeds_the_grace_period_fails() {
    let project = Project::new("dev-grace", "");
    let mut dev = project.start(&["--grace", "0", "--start-timeout", "600"]);
    dev.initialize("2025-11-25");
    let pending = dev.call("wait", &json!({"file": project.file("never")}));
    dev.wait_for_line("serving");
    assert_eq!(dev.call_text("greet", &json!({"name": "Ada"})), "Hello, Ada!");
    project.write_source(EXTRA_TOOL);
    let response = dev.response(pending);
    let why = "the server was rebuilt and the request did not finish within the grace period; send it again";
    assert_eq!(response["error"], json!({"code": -32603, "message": why}));
    dev.end();
}

#[test]
fn requests_wait_for_the_first_successful_build() {
    let project = Project::new("dev-first", BROKEN);
    let mut dev = project.start(&[]);
    let ping = dev.request("ping", &json!({}));
    assert_eq!(dev.response(ping)["result"], json!({}));
    dev.wait_for_line("dev: build failed; clients wait until a build succeeds");
    let params =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    let initialize = dev.request("initialize", &params);
    let ping = dev.request("ping", &json!({}));
    assert_eq!(dev.response(ping)["result"], json!({}));
    project.write_source("");
    assert_eq!(dev.response(initialize)["result"]["protocolVersion"], "2025-06-18");
    dev.end();
}

#[test]
fn stateless_subscriptions_survive_rebuilds() {
    let project = Project::new("dev-stateless", "");
    let mut dev = project.start(&[]);
    let discover = dev.request("server/discover", &stateless(json!({})));
    assert_eq!(dev.response(discover)["result"]["capabilities"], json!({"tools": {"listChanged": true}}));
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let listen = dev.request("subscriptions/listen", &stateless(filter.clone()));
    let acknowledged = dev.notification("notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], filter["notifications"]);
    for (extra, tools) in [(EXTRA_TOOL, 5), ("", 4)] {
        project.write_source(extra);
        let changed = dev.notification("notifications/tools/list_changed");
        assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);
        let list = dev.request("tools/list", &stateless(json!({})));
        assert_eq!(dev.response(list)["result"]["tools"].as_array().map(Vec::len), Some(tools));
    }
    let call = dev.request("tools/call", &stateless(json!({"name": "die", "arguments": {}})));
    assert_eq!(dev.response(call)["error"]["code"], -32603);
    let call = dev.request("tools/call", &stateless(json!({"name": "greet", "arguments": {"name": "Ada"}})));
    assert_eq!(text(&dev.response(call)), "Hello, Ada!");
    // At shutdown, the listen request is answered too.
    dev.end();
}

#[test]
fn signals_end_the_proxy_and_the_server() {
    use rustix::process::{Pid, Signal, kill_process};

    let project = Project::new("dev-signals", "");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut dev = project.start(&["--quiet"]);
        dev.initialize("2025-06-18");
        let server = dev.call_text("process", &json!({}));
        let pending = dev.call("wait", &json!({"file": project.file("never")}));
        // A response to a later request shows that the first call has started.
        dev.call_text("greet", &json!({"name": "Ada"}));
        let process = Pid::from_raw(i32::try_from(dev.id()).expect("a process id")).expect("a process");
        kill_process(process, signal).expect("the process is running");
        assert_eq!(dev.response(pending)["error"]["message"], "`cargo mcp dev` was stopped");
        assert_eq!(dev.exit_code(), Some(0));
        wait_until_exited(&server);
    }
}

#[test]
fn servers_without_the_runtime_are_served_on_stdio_only() {
    let project = Project::without_runtime("dev-without-runtime");
    let mut dev = project.start(&[]);
    let response = dev.initialize("2025-06-18");
    assert_eq!(response["result"]["capabilities"], json!({"tools": {"listChanged": true}}));
    let id = dev.request("anything", &json!({}));
    assert_eq!(dev.response(id)["result"], json!({"word": "one"}));
    project.write_source_without_runtime("two");
    dev.notification("notifications/tools/list_changed");
    let id = dev.request("anything", &json!({}));
    assert_eq!(dev.response(id)["result"], json!({"word": "two"}));
    dev.end();
    let output = cargo_mcp(&["dev", "--http", "127.0.0.1:0"])
        .current_dir(project.file(""))
        .output()
        .expect("the command starts");
    let why = "error: `--http` requires a server built with `mcp-runtime`, but `dev-without-runtime` does not depend on it\n\
               help: omit `--http`: stdin and stdout work with any server\n";
    assert_eq!(CommandOutput::from(output).expect_failure(2), why);
}

#[test]
fn a_closed_stdout_ends_the_proxy() {
    let project = Project::new("dev-unread", "");
    let mut process = project
        .command(&["--quiet"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    drop(process.stdout.take());
    let mut stdin = process.stdin.take().expect("a pipe");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    std::io::Write::write_all(&mut stdin, format!("{ping}\n").as_bytes()).expect("stdin is open");
    assert!(process.wait().expect("the process exits").success());
    drop(stdin);
}

#[test]
fn path_dependencies_watched_files_and_new_directories_trigger_builds() {
    let project = Project::new("dev-watched", "");
    // A path dependency outside the server's directory, and a file that only the source includes.
    let library = project.file("../dev-watched-library");
    std::fs::create_dir_all(library.join("src")).expect("a directory");
    let write_file = |name: &str, text: &str| std::fs::write(library.join(name), text).expect("a file");
    write_file(
        "Cargo.toml",
        "[package]\nname = \"dev-watched-library\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n",
    );
    write_file("src/lib.rs", "pub const WORD: &str = \"one\";\n");
    write_file("page.txt", "page one");
    let manifest = std::fs::read_to_string(project.file("Cargo.toml")).expect("a manifest");
    let dependency = "[dependencies]\ndev-watched-library = { path = \"../dev-watched-library\" }\n";
    project.write_file("Cargo.toml", &manifest.replace("[dependencies]\n", dependency));
    project.write_source(
        "/// Words.\n#[tool]\nfn words() -> String {\n    let page = include_str!(\"../../dev-watched-library/page.txt\");\n    \
         format!(\"{} {page}\", dev_watched_library::WORD)\n}\n",
    );
    let mut dev = project.start(&["--watch", "../dev-watched-library/page.txt"]);
    dev.initialize("2025-11-25");
    assert_eq!(dev.call_text("words", &json!({})), "one page one");
    write_file("src/lib.rs", "pub const WORD: &str = \"two\";\n");
    assert_eq!(dev.wait_for_line("reloaded"), "dev: reloaded: lists unchanged");
    assert_eq!(dev.call_text("words", &json!({})), "two page one");
    write_file("page.txt", "page two");
    dev.wait_for_line("reloaded");
    assert_eq!(dev.call_text("words", &json!({})), "two page two");
    // A directory that did not exist at startup.
    let process = dev.call_text("process", &json!({}));
    std::fs::create_dir_all(project.file("assets")).expect("a directory");
    dev.wait_for_line("executable unchanged");
    project.write_file("assets/new.txt", "new");
    dev.wait_for_line("executable unchanged");
    assert_eq!(dev.call_text("process", &json!({})), process, "the server keeps running");
    std::fs::remove_dir_all(project.file("assets")).expect("the process is running");
    dev.end();
}

#[test]
fn polling_detects_changes() {
    let project = Project::new("dev-poll", "");
    let mut dev = project.start(&["--poll"]);
    dev.initialize("2025-06-18");
    project.write_source(EXTRA_TOOL);
    dev.notification("notifications/tools/list_changed");
    dev.end();
}

#[test]
fn invalid_options_are_reported() {
    let project = Project::new("dev-usage", "");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    for (args, code, message) in [
        (
            &["dev-usage", "--watch", "nowhere"][..],
            2,
            "error: cannot watch `nowhere`: No such file or directory (os error 2)\nhelp: `--watch` requires an existing file or directory\n",
        ),
        (&["dev-usag"], 2, "error: no package `dev-usag` in this workspace\nhelp: did you mean `dev-usage`?\n"),
        (
            &["dev-usage", "--http", &taken],
            3,
            &format!(
                "error: cannot listen on `{taken}`: Address already in use (os error 98)\nhelp: `--http 127.0.0.1:0` picks a free port\n"
            ),
        ),
    ] {
        let mut command = cargo_mcp(&["dev"]);
        command.args(args).current_dir(project.file(""));
        let done: CommandOutput = command.output().expect("the command starts").into();
        assert_eq!(done.expect_failure(code), message, "{args:?}");
    }
}

/// Notifies a test when the official client receives `notifications/tools/list_changed`.
#[derive(Clone, Default)]
pub(super) struct ToolListWatcher(pub(super) Arc<Notify>);

impl ClientHandler for ToolListWatcher {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn the_official_client_sees_a_new_tool() {
    let project = Project::new("dev-official", "");
    let watcher = ToolListWatcher::default();
    let transport =
        TokioChildProcess::new(tokio::process::Command::from(project.command(&[]))).expect("the command starts");
    let client = watcher.clone().serve(transport).await.expect("a handshake");
    assert_eq!(client.list_all_tools().await.expect("tools").len(), 4);
    project.write_source(EXTRA_TOOL);
    tokio::time::timeout(TIMEOUT, watcher.0.notified()).await.expect("a notification within the time limit");
    assert_eq!(client.list_all_tools().await.expect("tools").len(), 5);
    let result = client.call_tool(CallToolRequestParams::new("fresh")).await.expect("a result");
    assert_eq!(serde_json::to_value(result).expect("JSON")["content"][0]["text"], "fresh");
    client.cancel().await.expect("the client shuts down");
}
