//! Web pages that the user must visit first, and reports that the interaction there is complete.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_runtime::{
    Context, Fault, Revision, Server,
    ask::{UrlCompletion, UrlElicitation},
    prompt, resource,
    testing::TestClient,
    tool,
};
use mcp_tests::schemas::Official;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::sessions::Client;

/// The state that the web pages and the functions share.
#[derive(Debug, Clone)]
pub(crate) struct Pages {
    is_connected: Arc<AtomicBool>,
    completions: mpsc::UnboundedSender<UrlCompletion>,
}

impl Pages {
    /// Returns the page to connect an account.
    fn connect(&self) -> UrlElicitation {
        let page = UrlElicitation::new("connect", "https://example.com/connect", "Connect your account.");
        let (page, completion) = page.with_completion();
        // A test that does not complete anything has dropped the receiver.
        let _ = self.completions.send(completion);
        page
    }

    async fn read(&self, ctx: &Context) -> Result<&'static str, Fault> {
        if self.is_connected.load(Ordering::Relaxed) {
            return Ok("connected");
        }
        let pay = UrlElicitation::new("pay", "https://example.com/pay", "Pay.");
        Err(ctx.url_elicitation_required([self.connect(), pay]).await)
    }
}

/// List files.
#[tool]
async fn files(ctx: &Context, pages: &Pages) -> Result<&'static str, Fault> {
    pages.read(ctx).await
}

/// List files, and return any error.
#[tool]
async fn files_or_error(ctx: &Context, pages: &Pages) -> Result<&'static str, Box<dyn Error + Send + Sync>> {
    Ok(pages.read(ctx).await?)
}

/// List files, and return the message of an error.
#[tool]
async fn files_or_message(ctx: &Context, pages: &Pages) -> Result<&'static str, String> {
    pages.read(ctx).await.map_err(|fault| fault.to_string())
}

/// The files.
#[resource("files://all")]
async fn all_files(ctx: &Context, pages: &Pages) -> Result<&'static str, Fault> {
    pages.read(ctx).await
}

/// Describe the files.
#[prompt]
async fn describe(ctx: &Context, pages: &Pages) -> Result<&'static str, Fault> {
    pages.read(ctx).await
}

/// Ask the user to connect the account.
#[tool]
async fn connect(ctx: &Context, pages: &Pages) -> Result<&'static str, Fault> {
    let page = pages.connect();
    Ok(if ctx.ask(page).await?.is_accepted() { "open" } else { "closed" })
}

/// Require a page that is not served over `https`.
#[tool]
async fn insecure(ctx: &Context) -> Result<&'static str, Fault> {
    Err(ctx.url_elicitation_required([UrlElicitation::new("a", "http://example.com", "")]).await)
}

/// Require no page.
#[tool]
async fn no_page(ctx: &Context) -> Result<&'static str, Fault> {
    Err(ctx.url_elicitation_required([]).await)
}

/// Returns a server, whether the account is connected, and the completion of each page that was created.
pub(crate) fn url_server() -> (Server, Arc<AtomicBool>, mpsc::UnboundedReceiver<UrlCompletion>) {
    let (completions, receiver) = mpsc::unbounded_channel();
    let is_connected = Arc::<AtomicBool>::default();
    let server = Server::empty("urls", "1.0.0")
        .with::<files>()
        .with::<files_or_error>()
        .with::<files_or_message>()
        .with::<all_files>()
        .with::<describe>()
        .with::<connect>()
        .with::<insecure>()
        .with::<no_page>()
        .with_state(Pages { is_connected: Arc::clone(&is_connected), completions });
    (server, is_connected, receiver)
}

/// The requests whose functions need the pages.
fn requests() -> [(&'static str, Value); 5] {
    [
        ("tools/call", json!({"name": "files", "arguments": {}})),
        ("tools/call", json!({"name": "files_or_error", "arguments": {}})),
        ("tools/call", json!({"name": "files_or_message", "arguments": {}})),
        ("resources/read", json!({"uri": "files://all"})),
        ("prompts/get", json!({"name": "describe"})),
    ]
}

fn open(server: Server, revision: Revision, capabilities: &Value) -> Client {
    let mut client = Client::open(server, revision, capabilities);
    client.notify("notifications/initialized");
    client
}

/// Sends a request of 2026-07-28.
fn stateless(client: &mut TestClient, capabilities: &Value, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": Revision::V2026_07_28.as_str(),
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let mut lines = client.send_raw(request.to_string().as_bytes());
    assert_eq!(lines.len(), 1, "{lines:?}");
    if let Some(official) = Official::load(Revision::V2026_07_28) {
        assert_eq!(official.problems(&lines[0], Some(method)), [] as [String; 0], "{}", lines[0]);
    }
    lines.remove(0)
}

#[tokio::test]
async fn required_pages_are_an_error_in_the_revision_that_defines_it() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        for (modes, has_url) in [(json!({}), false), (json!({"form": {}}), false), (json!({"url": {}}), true)] {
            for (method, params) in requests() {
                let case = format!("{revision} {modes} {method} {params}");
                let mut client = open(url_server().0, revision, &json!({"elicitation": modes}));
                client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
                let response = client.next().await;
                if let Some(official) = Official::load(revision) {
                    assert_eq!(official.problems(&response, None), [] as [String; 0], "{case}: {response}");
                }
                let error = &response["error"];
                if !mcp_tests::expected(revision).url_elicitation || !has_url {
                    let message = "the client has not declared the capability `elicitation.url`";
                    if method == "tools/call" {
                        assert_eq!(response["result"]["isError"], true, "{case}: {response}");
                        assert_eq!(response["result"]["content"][0]["text"], message, "{case}");
                        continue;
                    }
                    assert_eq!((&error["code"], &error["data"]), (&json!(-32600), &Value::Null), "{case}: {response}");
                    assert_eq!(error["message"], message, "{case}");
                    continue;
                }
                assert_eq!(error["code"], -32042, "{case}: {response}");
                assert_eq!(error["message"], "the user must visit a web page first", "{case}");
                let id = |index: usize| &error["data"]["elicitations"][index]["elicitationId"];
                let page = |index, url, message| json!({"mode": "url", "elicitationId": id(index), "url": url, "message": message});
                let expected = [
                    page(0, "https://example.com/connect", "Connect your account."),
                    page(1, "https://example.com/pay", "Pay."),
                ];
                assert_eq!(error["data"], json!({"elicitations": expected}), "{case}");
                assert!(id(0).is_string() && id(1).is_string() && id(0) != id(1), "{case}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn required_pages_are_questions_in_the_stateless_revision() {
    let url = json!({"elicitation": {"url": {}}});
    for (method, params) in requests() {
        let (server, is_connected, _completions) = url_server();
        let mut client = TestClient::uninitialized(server, Revision::V2026_07_28);
        let missing = stateless(&mut client, &json!({"elicitation": {}}), method, params.clone());
        assert_eq!(missing["error"]["code"], -32021, "{missing}");
        assert_eq!(missing["error"]["data"]["requiredCapabilities"], url, "{missing}");
        let asked = stateless(&mut client, &url, method, params.clone())["result"].take();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let page = |url, message| {
            let params = json!({"mode": "url", "url": url, "message": message});
            json!({"method": "elicitation/create", "params": params})
        };
        let expected = json!({
            "connect": page("https://example.com/connect", "Connect your account."),
            "pay": page("https://example.com/pay", "Pay."),
        });
        assert_eq!(asked["inputRequests"], expected);
        for (action, connected, message) in [
            ("accept", false, Some("the interaction on a web page that the call requires is not complete")),
            ("decline", false, Some("the user has not agreed to open a web page that the call requires")),
            ("accept", true, None),
        ] {
            is_connected.store(connected, Ordering::Relaxed);
            let mut again = params.clone();
            again["requestState"] = asked["requestState"].clone();
            again["inputResponses"] = json!({"connect": {"action": action}, "pay": {"action": "accept"}});
            let response = stateless(&mut client, &url, method, again);
            let case = format!("{method} {params} {action}: {response}");
            match message {
                Some(message) if method == "tools/call" => {
                    assert_eq!(response["result"]["isError"], true, "{case}");
                    assert_eq!(response["result"]["content"][0]["text"], message, "{case}");
                }
                Some(message) => {
                    let error = &response["error"];
                    assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!(message)), "{case}");
                }
                None => assert_eq!(response["result"]["resultType"], "complete", "{case}"),
            }
        }
    }
}

#[tokio::test]
async fn required_pages_are_validated() {
    let https = "the user cannot open `http://example.com`, expected `https`, because only pages on the user's own \
                 machine may use `http`";
    let none = "`url_elicitation_required` was called without a page, expected at least one";
    let url = json!({"elicitation": {"url": {}}});
    for (tool, message) in [("insecure", https), ("no_page", none)] {
        let mut client = open(url_server().0, Revision::V2025_11_25, &url);
        client.call(1, tool);
        let response = client.next().await;
        let expected = json!({"code": -32603, "message": message});
        assert_eq!(response["error"], expected, "{tool}");
        let mut client = TestClient::uninitialized(url_server().0, Revision::V2026_07_28);
        let response = stateless(&mut client, &url, "tools/call", json!({"name": tool, "arguments": {}}));
        assert_eq!(response["error"], expected, "{tool}");
    }
}

#[tokio::test]
async fn completion_is_reported_once_to_the_session_that_was_asked() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        for tool in ["connect", "files"] {
            let (server, _, mut completions) = url_server();
            let mut client = open(server, revision, &json!({"elicitation": {"url": {}}}));
            client.call(1, tool);
            let asked = client.next().await;
            let completion = completions.recv().await.unwrap();
            if !mcp_tests::expected(revision).url_elicitation {
                assert_eq!(asked["result"]["isError"], true, "{revision} {tool}: {asked}");
                assert!(!completion.complete(), "{revision} {tool}");
                client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
                assert_eq!(client.next().await["id"], 2, "{revision} {tool}");
                continue;
            }
            let id = if tool == "connect" {
                client.respond(&asked, &json!({"action": "accept"}));
                assert_eq!(client.text(1).await, "open");
                &asked["params"]["elicitationId"]
            } else {
                &asked["error"]["data"]["elicitations"][0]["elicitationId"]
            };
            assert!(id.is_string(), "{asked}");
            // The page completes the interaction after the call has ended.
            assert!(completion.complete(), "{tool}");
            let complete = client.request("notifications/elicitation/complete").await;
            assert_eq!(complete["params"], json!({"elicitationId": id}), "{tool}");
            client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
            assert_eq!(client.next().await["id"], 2, "{tool}");
        }
    }
}

#[tokio::test]
async fn completion_is_not_reported_without_a_session() {
    let url = json!({"elicitation": {"url": {}}});
    for tool in ["connect", "files"] {
        let (server, _, mut completions) = url_server();
        let mut client = open(server, Revision::V2025_11_25, &url);
        client.call(1, tool);
        client.next().await;
        drop(client);
        assert!(!completions.recv().await.unwrap().complete(), "the session of {tool} has ended");

        let (server, _, mut completions) = url_server();
        let mut client = TestClient::uninitialized(server, Revision::V2026_07_28);
        let asked = stateless(&mut client, &url, "tools/call", json!({"name": tool, "arguments": {}}));
        assert_eq!(asked["result"]["resultType"], "input_required", "{tool}");
        assert!(!completions.recv().await.unwrap().complete(), "{tool} in a revision without sessions");
    }
}

#[tokio::test]
async fn completion_is_not_reported_to_a_client_that_was_never_asked() {
    let (server, _, mut completions) = url_server();
    let mut client = open(server, Revision::V2025_11_25, &json!({"elicitation": {}}));
    for (id, tool) in [(1, "connect"), (2, "files")] {
        client.call(id, tool);
        let message = "the client has not declared the capability `elicitation.url`";
        assert_eq!(client.text(id).await, message, "{tool}");
        assert!(!completions.recv().await.unwrap().complete(), "{tool}");
    }
    client.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "ping"}));
    assert_eq!(client.next().await["id"], 3);
}
