//! Log messages that belong to no call.

use mcp_runtime::{Level, ResourceLink, backend::MemoryBackend, prompt, resource};

use super::*;
use crate::layers::log::Log;

fn texts(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["params"]["data"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_handle_logs_to_every_session_at_its_level() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let built = Server::empty("logs", "1.0.0").build().unwrap();
        let handle = built.handle();
        let (mut all, mut few) = (built.test_client(revision), built.test_client(revision));
        let mut stateless = built.test_client(Revision::V2026_07_28);
        all.request("logging/setLevel", json!({"level": "debug"})).await.unwrap();
        few.request("logging/setLevel", json!({"level": "error"})).await.unwrap();
        for (level, text) in [(Level::Debug, "a"), (Level::Info, "b"), (Level::Error, "c")] {
            handle.log_as("index", level, text);
        }
        let messages = all.notifications();
        assert_eq!(texts(&messages), ["a", "b", "c"], "{revision}");
        let params = json!({"level": "debug", "logger": "index", "data": "a"});
        let first = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
        assert_eq!(messages[0], first);
        assert_eq!(texts(&few.notifications()), ["c"], "{revision}");
        assert_eq!(stateless.notifications(), [] as [Value; 0]);
        assert_eq!(handle.dropped_log_messages(), 0);
    }
}

/// Log at several levels.
#[tool]
fn logs_at_several_levels(ctx: &Context) {
    ctx.debug("a");
    ctx.info("b");
    ctx.warning("c");
    ctx.error("d");
}

#[tokio::test]
async fn functions_log_at_the_level_of_the_method() {
    let mut client = Server::empty("logs", "1.0.0").with::<logs_at_several_levels>().test_client(Revision::V2025_11_25);
    client.request("logging/setLevel", json!({"level": "debug"})).await.unwrap();
    client.call("logs_at_several_levels", ()).await.unwrap();
    let messages = client.notifications();
    let found: Vec<_> = messages.iter().map(|message| message["params"].clone()).collect();
    let expected = [("debug", "a"), ("info", "b"), ("warning", "c"), ("error", "d")];
    assert_eq!(found, expected.map(|(level, text)| json!({"level": level, "data": text})));
}

#[tokio::test]
async fn messages_are_dropped_and_counted_if_the_client_does_not_read() {
    let built = Server::empty("logs", "1.0.0").build().unwrap();
    let handle = built.handle();
    let (mut slow, mut fast) = (built.test_client(Revision::V2025_11_25), built.test_client(Revision::V2025_11_25));
    let long = "x".repeat(300 << 10);
    let (log, _guard) = Log::listen();
    let (stats, name) = (built.stats(), "mcp.server.notifications.dropped");
    let count = || stats.read().iter().find(|stat| stat.name == name).unwrap().value;
    let before = count();
    for _ in 0..6 {
        handle.log(Level::Error, &long);
        assert_eq!(fast.notifications().len(), 1);
    }
    assert_eq!(handle.dropped_log_messages(), 3);
    // Other tests of the process count as well.
    assert!(count() >= before + 3);
    assert_eq!(log.take("dropping notifications: the client reads too slowly").len(), 1);
    assert_eq!(slow.notifications().len(), 3);
    handle.log(Level::Error, "again");
    assert_eq!(texts(&slow.notifications()), ["again"]);
}

/// Nothing is sent to other processes before the test waits.
#[tokio::test]
async fn messages_to_other_processes_are_dropped_and_counted_if_too_many_wait() {
    let built = Server::empty("logs", "1.0.0").backend(MemoryBackend::default()).build().unwrap();
    let handle = built.handle();
    for (messages, dropped) in [(256, 0), (4, 4)] {
        for _ in 0..messages {
            handle.log(Level::Error, "hello");
        }
        assert_eq!(handle.dropped_log_messages(), dropped);
    }
}

#[tokio::test]
async fn no_message_precedes_initialized() {
    let server = server();
    let handle = server.handle();
    let mut client = Client::open(server, Revision::V2025_11_25, &json!({}));
    handle.log(Level::Error, "early");
    client.notify("notifications/initialized");
    handle.log(Level::Error, "late");
    assert_eq!(client.next().await["params"]["data"], "late");
}

#[tokio::test]
async fn sessions_to_which_logging_was_not_declared_receive_no_messages() {
    let built = Server::empty("logs", "1.0.0").build().unwrap();
    let mut early = built.test_client(Revision::V2025_11_25);
    let handle = built.handle();
    let mut late = built.test_client(Revision::V2025_11_25);
    handle.log(Level::Error, "hello");
    assert_eq!(early.notifications(), [] as [Value; 0]);
    assert_eq!(texts(&late.notifications()), ["hello"]);
}

#[tokio::test]
async fn servers_with_a_handle_declare_logging() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let mut client = TestClient::uninitialized(Server::empty("logs", "1.0.0"), revision);
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let result = client.request("initialize", params.clone()).await.unwrap();
        assert_eq!(result["capabilities"].get("logging"), None, "{revision}");
        let server = Server::empty("logs", "1.0.0");
        let _handle = server.handle();
        let mut client = TestClient::uninitialized(server, revision);
        let result = client.request("initialize", params).await.unwrap();
        assert_eq!(result["capabilities"]["logging"], json!({}), "{revision}");
    }
}

/// List the items, and log.
fn logged_list(ctx: &Context) -> Vec<ResourceLink> {
    ctx.warning("listing");
    Vec::new()
}

/// An item.
#[resource("test://item/{id}", list = logged_list)]
fn item(id: u32) -> String {
    id.to_string()
}

/// Complete, and log.
fn logged_completion(ctx: &Context, _value: &str) -> Vec<String> {
    ctx.warning("completing");
    Vec::new()
}

/// Greet.
#[prompt]
fn greeting(#[arg(complete = logged_completion)] name: String) -> String {
    name
}

#[tokio::test]
async fn servers_whose_list_or_completion_logs_declare_logging() {
    for server in [Server::empty("logs", "1.0.0").with::<item>(), Server::empty("logs", "1.0.0").with::<greeting>()] {
        let mut client = TestClient::uninitialized(server, Revision::V2025_11_25);
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        let result = client.request("initialize", params).await.unwrap();
        assert_eq!(result["capabilities"]["logging"], json!({}));
    }
}

/// A handle logs to sessions only.
#[tokio::test]
async fn servers_with_a_handle_declare_no_logging_to_clients_without_a_session() {
    let server = Server::empty("logs", "1.0.0");
    let _handle = server.handle();
    let mut client = server.test_client(Revision::V2026_07_28);
    let result = client.request("server/discover", json!({})).await.unwrap();
    assert_eq!(result["capabilities"].get("logging"), None);
}
