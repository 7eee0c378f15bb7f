//! The front on stdin and stdout.

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient, ServiceExt, model::CallToolRequestParams, service::NotificationContext,
    transport::TokioChildProcess,
};
use serde_json::json;
use tokio::sync::Notify;

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
    dev.said("dev: restarted: + tool fresh");
    assert_eq!(dev.called("fresh", &json!({})), "fresh");
    assert_ne!(dev.called("process", &json!({})), first);
    project.put("there", "");
    assert_eq!(text(&dev.answer(waiting)), "it is there");
    is_gone(&first);
    // What does not compile leaves the last build where it is.
    project.write(BROKEN);
    dev.said("mismatched types");
    dev.said("dev: the build failed; the last good one goes on serving");
    assert_eq!(dev.called("fresh", &json!({})), "fresh");
    project.write("");
    dev.notification("notifications/tools/list_changed");
    dev.said("dev: restarted: - tool fresh");
    // A server that ends takes its call with it, and is there for the next one.
    let dies = dev.call("die", &json!({}));
    let answer = dev.answer(dies);
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let why = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(why.starts_with("the server ended while it worked on this request: signal: 6"), "{why}");
    assert_eq!(dev.called("greet", &json!({"name": "Bob"})), "Hello, Bob!");
    dev.said("dev: started again: the same lists");
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
    let why = "the server was rebuilt, and this request took longer than the old one had left; send it again";
    assert_eq!(answer["error"], json!({"code": -32603, "message": why}));
    dev.end();
}

#[test]
fn a_client_waits_for_the_first_build_that_goes_well() {
    let project = Project::new("dev-first", BROKEN);
    let mut dev = project.start(&[]);
    let ping = dev.request("ping", &json!({}));
    assert_eq!(dev.answer(ping)["result"], json!({}));
    dev.said("dev: the build failed; clients wait until it is mended");
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

#[cfg(unix)]
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
