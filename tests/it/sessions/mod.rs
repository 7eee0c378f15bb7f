//! Sessions of 2024-11-05 to 2025-11-25: requests of the server before the client is
//! initialized and outside of calls, and changes of roots.

mod background;
mod liveness;
mod logging;
mod root_changes;

use std::{collections::VecDeque, time::Duration};

use mcp_runtime::{Context, Fault, Revision, Server, testing::TestClient, tool};
use mcp_tests::schemas::Official;
use serde_json::{Value, json};

pub(crate) use background::{asking_later, background_server};
pub(crate) use liveness::pinging_server;

/// Look at the roots.
#[tool]
async fn roots(ctx: &Context) -> Result<String, Fault> {
    let roots = ctx.roots().await?;
    Ok(roots.iter().map(|root| root.uri.as_str()).collect::<Vec<_>>().join(", "))
}

/// Ping the client.
#[tool]
async fn pings(ctx: &Context) -> Result<&'static str, Fault> {
    ctx.ping().await.map(|_| "responsive")
}

pub(crate) fn server() -> Server {
    Server::empty("sessions", "1.0.0").with::<roots>().with::<pings>()
}

/// A client that sends its messages explicitly, including those of the handshake.
#[derive(Debug)]
pub(crate) struct Client {
    inner: TestClient,
    unread: VecDeque<Value>,
    official: Option<&'static Official>,
}

impl Client {
    /// Opens a session, without sending `notifications/initialized`.
    pub(crate) fn open(server: Server, revision: Revision, capabilities: &Value) -> Self {
        let inner = TestClient::uninitialized(server, revision);
        let mut client = Self { inner, unread: VecDeque::new(), official: Official::load(revision) };
        let params = json!({
            "protocolVersion": revision.as_str(),
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        client.send(&json!({"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params}));
        assert_eq!(client.unread.pop_front().unwrap()["id"], "open");
        client
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let lines = self.inner.send_raw(message.to_string().as_bytes());
        self.unread.extend(lines);
    }

    pub(crate) fn notify(&mut self, method: &str) {
        self.send(&json!({"jsonrpc": "2.0", "method": method}));
    }

    pub(crate) fn call(&mut self, id: u64, name: &str) {
        let params = json!({"name": name, "arguments": {}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    pub(crate) fn respond(&mut self, request: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Returns the next message of the server.
    pub(crate) async fn next(&mut self) -> Value {
        while self.unread.is_empty() {
            let lines = tokio::time::timeout(Duration::from_secs(60), self.inner.next_lines()).await.unwrap();
            self.unread.extend(lines);
        }
        self.unread.pop_front().unwrap()
    }

    /// Returns the next message, which must be a valid request.
    pub(crate) async fn request(&mut self, method: &str) -> Value {
        let request = self.next().await;
        assert_eq!(request["method"], method, "{request}");
        if let Some(official) = &mut self.official {
            assert_eq!(official.problems(&request, None), [] as [String; 0], "{request}");
        }
        request
    }

    /// Returns the text of the next message, which must be the result of a call.
    pub(crate) async fn text(&mut self, id: u64) -> String {
        let response = self.next().await;
        assert_eq!(response["id"], id, "{response}");
        response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
    }

    /// Returns the message of the next response, which must be an error.
    pub(crate) async fn error(&mut self, id: u64) -> String {
        let response = self.next().await;
        assert_eq!(response["id"], id, "{response}");
        response["error"]["message"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
    }

    /// Returns the messages that have arrived.
    pub(crate) fn take_unread(&mut self) -> Vec<Value> {
        self.unread.drain(..).collect()
    }
}

/// The error cannot be encoded in that version, and that of the session has no error for it.
#[tokio::test]
async fn an_unsupported_version_of_a_request_is_refused_as_in_the_newest_revision() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let mut client = server().test_client(revision);
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2000-01-01"});
        let error = client.request("tools/list", json!({"_meta": meta})).await.unwrap_err();
        assert_eq!((error.code, &error.data.unwrap()["requested"]), (-32022, &json!("2000-01-01")), "{revision}");
    }
}

#[tokio::test]
async fn a_question_waits_until_the_client_is_initialized() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let mut client = Client::open(server(), revision, &json!({"roots": {}}));
        // The function has asked by the time its call is pending.
        client.call(1, "roots");
        assert_eq!(client.take_unread(), [] as [Value; 0], "{revision}");
        client.notify("notifications/initialized");
        let question = client.request("roots/list").await;
        client.respond(&question, &json!({"roots": [{"uri": "file:///a"}]}));
        assert_eq!(client.text(1).await, "file:///a", "{revision}");
    }
}

#[tokio::test]
async fn a_question_fails_if_the_client_is_never_initialized() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let server = server().ask_timeout(Duration::from_millis(5));
        let mut client = Client::open(server, revision, &json!({"roots": {}}));
        client.call(1, "roots");
        let error = client.error(1).await;
        assert!(error.contains("has not sent `notifications/initialized` within 5ms"), "{revision}: {error}");
        client.notify("notifications/initialized");
        assert_eq!(client.take_unread(), [] as [Value; 0], "{revision}");
    }
}

#[tokio::test]
async fn a_waiting_question_of_a_cancelled_call_is_never_sent() {
    let mut client = Client::open(server(), Revision::V2025_11_25, &json!({"roots": {}}));
    client.call(1, "roots");
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    client.notify("notifications/initialized");
    client.call(2, "roots");
    assert_eq!(client.request("roots/list").await["id"], 1);
    assert_eq!(client.take_unread(), [] as [Value; 0]);
}

#[tokio::test]
async fn a_ping_does_not_wait_until_the_client_is_initialized() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let mut client = Client::open(server(), revision, &json!({}));
        client.call(1, "pings");
        let ping = client.request("ping").await;
        client.respond(&ping, &json!({}));
        assert_eq!(client.text(1).await, "responsive", "{revision}");
    }
}

#[tokio::test]
async fn an_error_response_answers_a_ping() {
    let mut client = Client::open(server(), Revision::V2025_06_18, &json!({}));
    client.call(1, "pings");
    let ping = client.request("ping").await;
    client.send(&json!({"jsonrpc": "2.0", "id": ping["id"], "error": {"code": -32601, "message": "what?"}}));
    assert_eq!(client.text(1).await, "responsive");
}

#[tokio::test(start_paused = true)]
async fn a_ping_that_is_not_answered_fails_and_is_cancelled() {
    let mut client = Client::open(server(), Revision::V2025_11_25, &json!({}));
    client.call(1, "pings");
    let ping = client.request("ping").await;
    let cancelled = client.next().await;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &ping["id"])
    );
    assert_eq!(client.error(1).await, "the client did not answer `ping` within 30s");
}

#[tokio::test]
async fn revisions_without_ping_refuse_to_send_one() {
    let mut client = server().test_client(Revision::V2026_07_28);
    let error = client.call("pings", ()).await.unwrap_err();
    assert_eq!(error.message, "the client's protocol revision has no `ping`");
}
