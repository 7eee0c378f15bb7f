//! `cargo mcp dev --http`.

use std::collections::VecDeque;

use axum::{
    body::Body,
    http::{HeaderMap, Request, Response},
};
use http_body_util::BodyExt;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rmcp::{ServiceExt, transport::StreamableHttpClientTransport};
use serde_json::{Value, json};

use super::{
    project::{BROKEN, DevProcess, EXTRA_TOOL, Project, TIMEOUT, stateless, text, wait_until_exited},
    stdio::ToolListWatcher,
};

/// An HTTP client of one proxy.
struct HttpClient {
    client: Client<HttpConnector, Body>,
    url: String,
    headers: Vec<(&'static str, String)>,
}

/// Reads the messages of a response one by one.
struct Messages {
    body: Body,
    bytes: Vec<u8>,
    messages: VecDeque<Value>,
}

impl HttpClient {
    fn new(dev: &mut DevProcess) -> Self {
        let line = dev.wait_for_line("listening on ");
        let url = line.split("listening on ").nth(1).expect("a URL").to_owned();
        let headers = vec![
            ("accept", "application/json, text/event-stream".to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        Self { client: Client::builder(TokioExecutor::new()).build_http(), url, headers }
    }

    async fn send(&self, method: &str, body: String, extra_headers: &[(&str, &str)]) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(&self.url);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        for (name, value) in extra_headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).expect("a request");
        let response = tokio::time::timeout(TIMEOUT, self.client.request(request))
            .await
            .expect("a response within the time limit");
        response.expect("a response").map(Body::new)
    }

    /// Sends a request and waits for the response.
    async fn request(&self, message: &Value, extra_headers: &[(&str, &str)]) -> (HeaderMap, Value) {
        let response = self.send("POST", message.to_string(), extra_headers).await;
        let headers = response.headers().clone();
        let mut messages = Messages::of(response);
        loop {
            let message = messages.next().await;
            if message.get("method").is_none() {
                return (headers, message);
            }
        }
    }

    async fn call(&self, id: u32, tool: &str, arguments: Value) -> Value {
        self.request(&call(id, tool, arguments), &[]).await.1
    }

    /// Calls a tool without a session.
    async fn call_stateless(&self, id: u32, tool: &str, arguments: Value) -> Value {
        let params = stateless(json!({"name": tool, "arguments": arguments}));
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        self.request(&message, &[("mcp-method", "tools/call"), ("mcp-name", tool)]).await.1
    }

    /// Opens a session.
    async fn initialize(&mut self, revision: &str) -> Value {
        let params =
            json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let (headers, response) = self.request(&initialize, &[]).await;
        self.headers.push(("mcp-session-id", headers["mcp-session-id"].to_str().expect("an id").to_owned()));
        self.headers.push(("mcp-protocol-version", revision.to_owned()));
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
        assert_eq!(self.send("POST", initialized, &[]).await.status(), 202);
        response
    }
}

impl Messages {
    fn of(response: Response<Body>) -> Self {
        Self { body: response.into_body(), bytes: Vec::new(), messages: VecDeque::new() }
    }

    /// Waits for the next event of a stream, or for the whole body of a JSON response.
    async fn next(&mut self) -> Value {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return message;
            }
            let frame =
                tokio::time::timeout(TIMEOUT, self.body.frame()).await.expect("a response within the time limit");
            match frame {
                Some(frame) => self.bytes.extend(frame.expect("a frame").into_data().expect("data")),
                None => {
                    let whole = std::mem::take(&mut self.bytes);
                    self.messages.push_back(serde_json::from_slice(&whole).expect("a message"));
                }
            }
            while let Some(end) = self.bytes.windows(2).position(|bytes| bytes == b"\n\n") {
                let event: Vec<u8> = self.bytes.drain(..end + 2).collect();
                let event = String::from_utf8(event).expect("text");
                let data = event.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty());
                self.messages.extend(data.map(|data| serde_json::from_str(data).expect("a message")));
            }
        }
    }

    /// Waits for a notification. Skips other messages.
    async fn notification(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] == method {
                return message;
            }
        }
    }
}

fn call(id: u32, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

#[tokio::test]
async fn an_http_session_survives_rebuilds_build_failures_and_crashes() {
    let project = Project::new("dev-http-session", "");
    let mut dev = project.start(&["--http", "127.0.0.1:0", "--grace", "300"]);
    let mut http = HttpClient::new(&mut dev);
    let response = http.initialize("2025-06-18").await;
    assert_eq!(response["result"]["capabilities"], json!({"tools": {"listChanged": true}}));
    let stream = http.send("GET", String::new(), &[]).await;
    assert_eq!(stream.status(), 200);
    let mut stream = Messages::of(stream);
    assert_eq!(text(&http.call(1, "greet", json!({"name": "Ada"})).await), "Hello, Ada!");
    let first = text(&http.call(2, "process", json!({})).await);
    // A call stays in flight on the old server while the new one takes over.
    let wait = call(3, "wait", json!({"file": project.file("marker")}));
    let pending = http.request(&wait, &[]);
    let changes = async {
        assert_eq!(text(&http.call(30, "greet", json!({"name": "Ada"})).await), "Hello, Ada!");
        project.write_source(EXTRA_TOOL);
        stream.notification("notifications/tools/list_changed").await;
        assert_eq!(text(&http.call(4, "fresh", json!({})).await), "fresh");
        project.write_file("marker", "");
    };
    let ((_, response), ()) = tokio::join!(pending, changes);
    assert_eq!(text(&response), "found");
    assert_ne!(text(&http.call(5, "process", json!({})).await), first);
    project.write_source(BROKEN);
    dev.wait_for_line("dev: build failed; still serving the last successful build");
    assert_eq!(text(&http.call(6, "fresh", json!({})).await), "fresh");
    project.write_source("");
    stream.notification("notifications/tools/list_changed").await;
    let response = http.call(7, "die", json!({})).await;
    assert_eq!(response["id"], 7);
    let why = response["error"]["message"].as_str().unwrap_or_default();
    assert!(why.starts_with("the server exited while processing this request (signal: 6"), "{response}");
    assert_eq!(text(&http.call(8, "greet", json!({"name": "Bob"})).await), "Hello, Bob!");
    // The GET stream that was opened first is still open.
    project.write_source(EXTRA_TOOL);
    stream.notification("notifications/tools/list_changed").await;
    assert_eq!(http.send("DELETE", String::new(), &[]).await.status(), 204);
    assert_eq!(http.send("POST", call(9, "greet", json!({"name": "Eve"})).to_string(), &[]).await.status(), 404);
}

#[tokio::test]
async fn stateless_requests_and_listen_streams_survive_rebuilds() {
    let project = Project::new("dev-http-stateless", "");
    let mut dev = project.start(&["--http", "127.0.0.1:0", "--grace", "0"]);
    let mut http = HttpClient::new(&mut dev);
    http.headers.push(("mcp-protocol-version", "2026-07-28".to_owned()));
    assert_eq!(text(&http.call_stateless(1, "greet", json!({"name": "Ada"})).await), "Hello, Ada!");
    let params = stateless(json!({"notifications": {"toolsListChanged": true, "promptsListChanged": false}}));
    let listen = json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params});
    let mut listening =
        Messages::of(http.send("POST", listen.to_string(), &[("mcp-method", "subscriptions/listen")]).await);
    let acknowledged = listening.notification("notifications/subscriptions/acknowledged").await;
    assert_eq!(acknowledged["params"]["notifications"], json!({"toolsListChanged": true}));
    let pending = http.call_stateless(2, "wait", json!({"file": project.file("never")}));
    let changes = async {
        assert_eq!(text(&http.call_stateless(3, "greet", json!({"name": "Ada"})).await), "Hello, Ada!");
        project.write_source(EXTRA_TOOL);
        let changed = listening.notification("notifications/tools/list_changed").await;
        assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
    };
    let (response, ()) = tokio::join!(pending, changes);
    let why = "the server was rebuilt and the request did not finish within the grace period; send it again";
    assert_eq!(response["error"], json!({"code": -32603, "message": why}));
    assert_eq!(text(&http.call_stateless(4, "fresh", json!({})).await), "fresh");
    let response = http.call_stateless(5, "die", json!({})).await;
    assert_eq!((&response["id"], &response["error"]["code"]), (&json!(5), &json!(-32603)), "{response}");
    assert_eq!(text(&http.call_stateless(6, "fresh", json!({})).await), "fresh");
    project.write_source("");
    listening.notification("notifications/tools/list_changed").await;
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        let response = http.send("POST", call(7, "greet", json!({})).to_string(), &[(name, value)]).await;
        assert_eq!(response.status(), 403, "{name}");
    }
}

/// Reads a response up to the first event id.
async fn event_id(response: &mut Response<Body>) -> String {
    let mut text = String::new();
    loop {
        let frame = tokio::time::timeout(TIMEOUT, response.body_mut().frame())
            .await
            .expect("a response within the time limit")
            .expect("an event");
        text.push_str(std::str::from_utf8(&frame.expect("a frame").into_data().expect("data")).expect("text"));
        if let Some(id) = text.lines().find_map(|line| line.strip_prefix("id: ")) {
            return id.to_owned();
        }
    }
}

#[tokio::test]
async fn resumed_streams_continue_on_the_same_server_and_fail_after_a_rebuild() {
    let project = Project::new("dev-http-resumed", "");
    let mut dev = project.start(&["--http", "127.0.0.1:0"]);
    let mut http = HttpClient::new(&mut dev);
    http.initialize("2025-11-25").await;
    let wait = call(1, "wait", json!({"file": project.file("marker")})).to_string();
    let mut broken = http.send("POST", wait, &[]).await;
    let last = event_id(&mut broken).await;
    drop(broken);
    // The server still runs, so it resumes the stream.
    let mut resumed = Messages::of(http.send("GET", String::new(), &[("last-event-id", &last)]).await);
    project.write_file("marker", "");
    assert_eq!(text(&resumed.next().await), "found");
    let wait = call(2, "wait", json!({"file": project.file("never")})).to_string();
    let mut broken = http.send("POST", wait, &[]).await;
    let last = event_id(&mut broken).await;
    drop(broken);
    project.write_source(EXTRA_TOOL);
    dev.wait_for_line("reloaded");
    let resumed = http.send("GET", String::new(), &[("last-event-id", &last)]).await;
    assert_eq!(resumed.status(), 200);
    let mut resumed = Messages::of(resumed);
    loop {
        let message = resumed.next().await;
        if message["id"] == 2 {
            let why = "the server was rebuilt or exited before it responded";
            assert_eq!(message["error"], json!({"code": -32603, "message": why}));
            break;
        }
    }
}

#[tokio::test]
async fn the_server_exits_with_the_proxy_after_sigterm_and_sigkill() {
    use rustix::process::{Pid, Signal, kill_process};

    let project = Project::new("dev-http-signals", "");
    for signal in [Signal::TERM, Signal::KILL] {
        let mut dev = project.start(&["--http", "127.0.0.1:0"]);
        let mut http = HttpClient::new(&mut dev);
        http.initialize("2025-11-25").await;
        let server = text(&http.call(1, "process", json!({})).await);
        let wait = call(2, "wait", json!({"file": project.file("never")}));
        let pending = http.request(&wait, &[]);
        let send_signal = async {
            if signal == Signal::TERM {
                // A response to a later request shows that the first call has started.
                http.call(3, "greet", json!({"name": "Ada"})).await;
            }
            let process = Pid::from_raw(i32::try_from(dev.id()).expect("a process id")).expect("a process");
            kill_process(process, signal).expect("found");
        };
        if signal == Signal::TERM {
            let ((_, response), ()) = tokio::join!(pending, send_signal);
            assert_eq!(response["error"]["message"], "`cargo mcp dev` was stopped");
        } else {
            send_signal.await;
        }
        wait_until_exited(&server);
    }
}

#[tokio::test]
async fn the_official_client_over_http_sees_a_new_tool() {
    let project = Project::new("dev-http-official", "");
    let mut dev = project.start(&["--http", "127.0.0.1:0"]);
    let url = HttpClient::new(&mut dev).url;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let watcher = ToolListWatcher::default();
    let client = watcher.clone().serve(StreamableHttpClientTransport::from_uri(url)).await.expect("a handshake");
    assert_eq!(client.list_all_tools().await.expect("tools").len(), 4);
    project.write_source(EXTRA_TOOL);
    tokio::time::timeout(TIMEOUT, watcher.0.notified()).await.expect("a notification within the time limit");
    assert_eq!(client.list_all_tools().await.expect("tools").len(), 5);
    client.cancel().await.expect("the client shuts down");
}
