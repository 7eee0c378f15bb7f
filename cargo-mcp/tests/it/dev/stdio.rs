//! The front on stdin and stdout.

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient, ServiceExt, model::CallToolRequestParams, service::NotificationContext,
    transport::TokioChildProcess,
};
use serde_json::json;
use tokio::sync::Notify;

use crate::common::{Done, cargo_mcp};

use super::project::{BROKEN, FRESH, LONG, Project, is_gone, stateless, text};

#[test]
fn a_session_goes_on_over_builds_failures_and_crashes() {
    let project = Project::new("dev-session", "");
    let mut dev = project.start(&["--grace", "300"]);
    let answer = dev.initialize("2025-06-18");
    assert_eq!(answer["result"]["capabilities"], json!({"tools": {"listChanged": true}}));
    assert_eq!(answer["result"]["serverInfo"]["name"], "dev-session");
    assert_eq!(dev.said("serving"), "dev: serving: 4 tools");
    assert_eq!(dev.called("greet", &json!({"name": "Ada"})), "Hello, Ada!");
    let first = dev.called("process", &json!({}));
    let waiting = dev.call("wait", &json!({"file": project.file("there")}));
    // A tool more: on the same connection, while a call is in flight on the old server.
    project.write(FRESH);
    dev.notification("notifications/tools/list_changed");
    dev.said("dev: reloaded: + tool fresh");
    assert_eq!(dev.called("fresh", &json!({})), "fresh");
    assert_ne!(dev.called("process", &json!({})), first);
    project.put("there", "");
    assert_eq!(text(&dev.answer(waiting)), "it is there");
    is_gone(&first);
    // What does not compile leaves the last build where it is.
    project.write(BROKEN);
    dev.said("mismatched types");
    dev.said("dev: build failed; still serving the last successful build");
    assert_eq!(dev.called("fresh", &json!({})), "fresh");
    project.write("");
    dev.notification("notifications/tools/list_changed");
    dev.said("dev: reloaded: - tool fresh");
    // A server that ends takes its call with it, and is there for the next one.
    let dies = dev.call("die", &json!({}));
    let answer = dev.answer(dies);
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.starts_with("the server exited while processing this request (signal: 6"), "{why}");
    assert_eq!(dev.called("greet", &json!({"name": "Bob"})), "Hello, Bob!");
    dev.said("dev: restarted: lists unchanged");
    let last = dev.called("process", &json!({}));
    dev.end();
    is_gone(&last);
}

#[test]
fn a_call_that_takes_too_long_is_answered_all_the_same() {
    let project = Project::new("dev-grace", "");
    let mut dev = project.start(&["--grace", "0"]);
    dev.initialize("2025-11-25");
    let waiting = dev.call("wait", &json!({"file": project.file("never")}));
    dev.said("serving");
    assert_eq!(dev.called("greet", &json!({"name": "Ada"})), "Hello, Ada!");
    project.write(FRESH);
    let answer = dev.answer(waiting);
    let why = "the server was rebuilt and the request did not finish within the grace period; send it again";
    assert_eq!(answer["error"], json!({"code": -32603, "message": why}));
    dev.end();
}

#[test]
fn a_client_waits_for_the_first_build_that_goes_well() {
    let project = Project::new("dev-first", BROKEN);
    let mut dev = project.start(&[]);
    let ping = dev.request("ping", &json!({}));
    assert_eq!(dev.answer(ping)["result"], json!({}));
    dev.said("dev: build failed; clients wait until a build succeeds");
    let params =
        json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    let initialize = dev.request("initialize", &params);
    let ping = dev.request("ping", &json!({}));
    assert_eq!(dev.answer(ping)["result"], json!({}));
    project.write("");
    assert_eq!(dev.answer(initialize)["result"]["protocolVersion"], "2025-06-18");
    dev.end();
}

#[test]
fn stateless_clients_listen_over_builds() {
    let project = Project::new("dev-stateless", "");
    let mut dev = project.start(&[]);
    let discover = dev.request("server/discover", &stateless(json!({})));
    assert_eq!(dev.answer(discover)["result"]["capabilities"], json!({"tools": {"listChanged": true}}));
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let listen = dev.request("subscriptions/listen", &stateless(filter.clone()));
    let acknowledged = dev.notification("notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], filter["notifications"]);
    for (more, tools) in [(FRESH, 5), ("", 4)] {
        project.write(more);
        let changed = dev.notification("notifications/tools/list_changed");
        assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], listen);
        let list = dev.request("tools/list", &stateless(json!({})));
        assert_eq!(dev.answer(list)["result"]["tools"].as_array().map(Vec::len), Some(tools));
    }
    let dies = dev.request("tools/call", &stateless(json!({"name": "die", "arguments": {}})));
    assert_eq!(dev.answer(dies)["error"]["code"], -32603);
    let greets = dev.request("tools/call", &stateless(json!({"name": "greet", "arguments": {"name": "Ada"}})));
    assert_eq!(text(&dev.answer(greets)), "Hello, Ada!");
    // At the end, the request that listens has its answer too.
    dev.end();
}

#[test]
fn signals_end_everything() {
    use rustix::process::{Pid, Signal, kill_process};

    let project = Project::new("dev-signals", "");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut dev = project.start(&["--quiet"]);
        dev.initialize("2025-06-18");
        let server = dev.called("process", &json!({}));
        let waiting = dev.call("wait", &json!({"file": project.file("never")}));
        // What is answered came after it.
        dev.called("greet", &json!({"name": "Ada"}));
        let process = Pid::from_raw(i32::try_from(dev.id()).expect("a process's number")).expect("a process");
        kill_process(process, signal).expect("it is there");
        assert_eq!(dev.answer(waiting)["error"]["message"], "`cargo mcp dev` was stopped");
        assert_eq!(dev.ended(), Some(0));
        is_gone(&server);
    }
}

#[test]
fn servers_by_hand_are_served_too() {
    let project = Project::by_hand("dev-by-hand");
    let mut dev = project.start(&[]);
    let answer = dev.initialize("2025-06-18");
    assert_eq!(answer["result"]["capabilities"], json!({"tools": {"listChanged": true}}));
    let id = dev.request("anything", &json!({}));
    assert_eq!(dev.answer(id)["result"], json!({"word": "one"}));
    project.write_by_hand("two");
    dev.notification("notifications/tools/list_changed");
    let id = dev.request("anything", &json!({}));
    assert_eq!(dev.answer(id)["result"], json!({"word": "two"}));
    dev.end();
    let refused =
        cargo_mcp(&["dev", "--http", "127.0.0.1:0"]).current_dir(project.file("")).output().expect("it starts");
    let why = "error: `--http` requires a server built with `mcp-runtime`, but `dev-by-hand` does not depend on it\n\
               help: omit `--http`: stdin and stdout work with any server\n";
    assert_eq!(Done::from(refused).failed(2), why);
}

#[test]
fn a_client_that_reads_no_more_ends_it() {
    let project = Project::new("dev-unread", "");
    let mut process = project
        .command(&["--quiet"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(process.stdout.take());
    let mut stdin = process.stdin.take().expect("a pipe");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    std::io::Write::write_all(&mut stdin, format!("{ping}\n").as_bytes()).expect("it reads");
    assert!(process.wait().expect("it ends").success());
    drop(stdin);
}

#[test]
fn everything_that_the_program_is_made_of_is_watched() {
    let project = Project::new("dev-watched", "");
    // A package by path outside of the server's, and a file that only the program knows.
    let library = project.file("../dev-watched-library");
    std::fs::create_dir_all(library.join("src")).expect("a directory");
    let put = |name: &str, text: &str| std::fs::write(library.join(name), text).expect("a file");
    put(
        "Cargo.toml",
        "[package]\nname = \"dev-watched-library\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n",
    );
    put("src/lib.rs", "pub const WORD: &str = \"one\";\n");
    put("page.txt", "page one");
    let manifest = std::fs::read_to_string(project.file("Cargo.toml")).expect("a manifest");
    let dependency = "[dependencies]\ndev-watched-library = { path = \"../dev-watched-library\" }\n";
    project.put("Cargo.toml", &manifest.replace("[dependencies]\n", dependency));
    project.write(
        "/// Words.\n#[tool]\nfn words() -> String {\n    let page = include_str!(\"../../dev-watched-library/page.txt\");\n    \
         format!(\"{} {page}\", dev_watched_library::WORD)\n}\n",
    );
    let mut dev = project.start(&["--watch", "../dev-watched-library/page.txt"]);
    dev.initialize("2025-11-25");
    assert_eq!(dev.called("words", &json!({})), "one page one");
    put("src/lib.rs", "pub const WORD: &str = \"two\";\n");
    assert_eq!(dev.said("reloaded"), "dev: reloaded: lists unchanged");
    assert_eq!(dev.called("words", &json!({})), "two page one");
    put("page.txt", "page two");
    dev.said("reloaded");
    assert_eq!(dev.called("words", &json!({})), "two page two");
    // A directory that was not there when it began.
    let process = dev.called("process", &json!({}));
    std::fs::create_dir_all(project.file("assets")).expect("a directory");
    dev.said("executable unchanged");
    project.put("assets/new.txt", "new");
    dev.said("executable unchanged");
    assert_eq!(dev.called("process", &json!({})), process, "the server keeps running");
    std::fs::remove_dir_all(project.file("assets")).expect("it is there");
    dev.end();
}

#[test]
fn sources_can_be_looked_at_instead() {
    let project = Project::new("dev-poll", "");
    let mut dev = project.start(&["--poll"]);
    dev.initialize("2025-06-18");
    project.write(FRESH);
    dev.notification("notifications/tools/list_changed");
    dev.end();
}

#[test]
fn what_is_wrong_with_the_command_line_is_told() {
    let project = Project::new("dev-usage", "");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    for (words, code, message) in [
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
        command.args(words).current_dir(project.file(""));
        let done: Done = command.output().expect("it starts").into();
        assert_eq!(done.failed(code), message, "{words:?}");
    }
}

/// What the official client tells of changed tools.
#[derive(Clone, Default)]
pub(super) struct Told(pub(super) Arc<Notify>);

impl ClientHandler for Told {
    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.0.notify_one();
    }
}

#[tokio::test]
async fn the_official_client_sees_a_new_tool() {
    let project = Project::new("dev-official", "");
    let told = Told::default();
    let transport = TokioChildProcess::new(tokio::process::Command::from(project.command(&[]))).expect("it starts");
    let client = told.clone().serve(transport).await.expect("a handshake");
    assert_eq!(client.list_all_tools().await.expect("tools").len(), 4);
    project.write(FRESH);
    tokio::time::timeout(LONG, told.0.notified()).await.expect("it is told");
    assert_eq!(client.list_all_tools().await.expect("tools").len(), 5);
    let result = client.call_tool(CallToolRequestParams::new("fresh")).await.expect("a result");
    assert_eq!(serde_json::to_value(result).expect("JSON")["content"][0]["text"], "fresh");
    client.cancel().await.expect("it ends");
}
