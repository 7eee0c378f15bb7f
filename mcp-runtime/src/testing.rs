//! A client for tests that talks to a server in memory, without a process or a socket.

use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    engine::Connection,
    revision::{Feature, Revision, dialect_of},
    server::{BuiltServer, Server},
};

/// A client that talks to a server in memory, in one protocol revision.
///
/// Every message passes through the server's engine, byte for byte as a real client would send it. Calling an async
/// function that waits requires a tokio runtime, as in `#[tokio::test]`.
///
/// A test of a server that never answers fails instead of hanging: a method that waits panics if the server writes
/// nothing for a minute, or for the time set with [`max_wait`](Self::max_wait).
///
/// ```
/// use mcp_runtime::{Revision, Server, tool};
/// use serde_json::json;
///
/// /// Add two numbers.
/// #[tool]
/// fn add(a: f64, b: f64) -> f64 {
///     a + b
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut client = Server::empty("adder", "1.0.0").with::<add>().test_client(Revision::V2025_11_25);
/// let sum = client.call("add", json!({"a": 1, "b": 2})).await.unwrap();
/// assert_eq!(sum.text(), "3");
/// # });
/// ```
#[derive(Debug)]
pub struct TestClient {
    connection: Connection,
    revision: Revision,
    next_id: u64,
    /// The lines that were received but not yet taken.
    unread: Vec<u8>,
    notifications: Vec<Value>,
    responder: Option<Responder>,
    max_wait: Duration,
}

/// The closure that answers the requests of the server.
struct Responder(Box<dyn FnMut(&ServerRequest) -> Value + Send>);

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Responder")
    }
}

/// A request that the server sends to its client.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerRequest {
    /// The method: `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The parameters.
    pub params: Value,
    /// The key of the question. Only revision 2026-07-28 sends it to clients.
    pub key: Option<String>,
}

impl ServerRequest {
    /// Returns the message that an elicitation shows to the user.
    pub fn message(&self) -> &str {
        self.params["message"].as_str().unwrap_or_default()
    }
}

/// The maximum number of rounds of one request, in case a function never stops asking questions.
const MAX_ROUNDS: usize = 100;

/// The error object of a JSON-RPC error response.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// The error code.
    pub code: i64,
    /// A description of the error.
    pub message: String,
    /// Additional information about the error.
    pub data: Option<Value>,
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

/// The result of `tools/call`, as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult(pub Value);

impl CallResult {
    /// Returns the text content, with line breaks between its items.
    pub fn text(&self) -> String {
        let content = self.0["content"].as_array().into_iter().flatten();
        content.filter_map(|item| item["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// Returns the structured content.
    pub fn structured(&self) -> Option<&Value> {
        self.0.get("structuredContent")
    }

    /// Returns whether the result is a tool error.
    pub fn is_error(&self) -> bool {
        self.0["isError"] == true
    }
}

impl Server {
    /// Builds the server and connects a client to it in memory.
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be built, and lists every problem.
    pub fn test_client(self, revision: Revision) -> TestClient {
        self.build().unwrap_or_else(|error| panic!("{error}")).test_client(revision)
    }
}

impl BuiltServer {
    /// Connects a client to the server in memory.
    pub fn test_client(&self, revision: Revision) -> TestClient {
        TestClient::connect(Connection::new(Arc::clone(self.engine())), revision)
    }
}

impl TestClient {
    /// Connects a client that has not sent anything yet, not even `initialize`, for use with
    /// [`send_raw`](Self::send_raw).
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be built, and lists every problem.
    pub fn uninitialized(server: Server, revision: Revision) -> Self {
        let server = server.build().unwrap_or_else(|error| panic!("{error}"));
        Self::new(Connection::new(Arc::clone(server.engine())), revision)
    }

    fn new(connection: Connection, revision: Revision) -> Self {
        Self {
            connection,
            revision,
            next_id: 1,
            unread: Vec::new(),
            notifications: Vec::new(),
            responder: None,
            max_wait: Duration::from_secs(60),
        }
    }

    /// Sets the time to wait for output of the server, in real time even if the clock of the runtime is paused.
    /// Defaults to one minute.
    #[must_use]
    pub fn max_wait(mut self, limit: Duration) -> Self {
        self.max_wait = limit;
        self
    }

    /// Opens a new connection that declares every client capability and answers the server's requests with the results
    /// that `answer` returns.
    ///
    /// The same closure serves every revision. In 2026-07-28, where a call ends with its questions,
    /// [`request`](Self::request) and the methods based on it repeat the call with the answers until it completes.
    ///
    /// ```
    /// use mcp_runtime::{Answer, Context, Elicit, Fault, Revision, Server, tool};
    /// use serde_json::json;
    ///
    /// #[derive(Elicit)]
    /// struct Confirm {
    ///     sure: bool,
    /// }
    ///
    /// /// Delete a file.
    /// #[tool]
    /// async fn delete(ctx: &Context, path: String) -> Result<String, Fault> {
    ///     match ctx.elicit::<Confirm>("confirm", format!("Delete {path}?")).await? {
    ///         Answer::Accept(Confirm { sure: true }) => Ok(format!("deleted {path}")),
    ///         _ => Ok("nothing was deleted".to_owned()),
    ///     }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
    ///     let client = Server::empty("files", "1.0.0").with::<delete>().test_client(revision);
    ///     let mut client = client.answering(|request| {
    ///         assert_eq!(request.message(), "Delete /tmp/a?");
    ///         json!({"action": "accept", "content": {"sure": true}})
    ///     });
    ///     let result = client.call("delete", json!({"path": "/tmp/a"})).await.unwrap();
    ///     assert_eq!(result.text(), "deleted /tmp/a");
    /// }
    /// # });
    /// ```
    #[must_use]
    pub fn answering(self, answer: impl FnMut(&ServerRequest) -> Value + Send + 'static) -> Self {
        let mut client = Self::new(Connection::new(self.connection.shared_engine()), self.revision);
        client.responder = Some(Responder(Box::new(answer)));
        client.max_wait = self.max_wait;
        client.initialize();
        client
    }

    fn connect(connection: Connection, revision: Revision) -> Self {
        let mut client = Self::new(connection, revision);
        client.initialize();
        client
    }

    fn initialize(&mut self) {
        if dialect_of(self.revision).has(Feature::Handshake) {
            self.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": self.revision.as_str(),
                "capabilities": self.capabilities(),
                "clientInfo": {"name": "test-client", "version": "1.0.0"},
            }}));
            self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
            self.unread.clear();
        }
    }

    /// Returns the capabilities to declare: all of them if there is a responder.
    fn capabilities(&self) -> Value {
        if self.responder.is_none() {
            return json!({});
        }
        json!({
            "elicitation": {"form": {}, "url": {}},
            "sampling": {"tools": {}, "context": {}},
            "roots": {},
        })
    }

    /// Calls a tool.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server. A tool error is a result, see [`CallResult::is_error`].
    pub async fn call(&mut self, name: &str, arguments: impl Serialize) -> Result<CallResult, RpcError> {
        let arguments = object(arguments);
        self.request("tools/call", json!({"name": name, "arguments": arguments})).await.map(CallResult)
    }

    /// Reads a resource and returns its contents.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn read(&mut self, uri: &str) -> Result<Vec<Value>, RpcError> {
        let mut result = self.request("resources/read", json!({"uri": uri})).await?;
        Ok(serde_json::from_value(result["contents"].take()).unwrap_or_default())
    }

    /// Gets a prompt and returns the result.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn prompt(&mut self, name: &str, arguments: impl Serialize) -> Result<Value, RpcError> {
        let arguments = object(arguments);
        self.request("prompts/get", json!({"name": name, "arguments": arguments})).await
    }

    /// Completes an argument and returns the suggested values. `reference` is the `ref` of the request, such as
    /// `{"type": "ref/prompt", "name": "review"}`.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn complete(&mut self, reference: Value, argument: &str, value: &str) -> Result<Vec<String>, RpcError> {
        let params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        let mut result = self.request("completion/complete", params).await?;
        Ok(serde_json::from_value(result["completion"]["values"].take()).unwrap_or_default())
    }

    /// Lists the tools of all pages.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn tools(&mut self) -> Result<Vec<Value>, RpcError> {
        self.list("tools/list", "tools").await
    }

    /// Lists the entries of all pages, for any list method.
    pub(crate) async fn list(&mut self, method: &str, member: &str) -> Result<Vec<Value>, RpcError> {
        let mut items = Vec::new();
        let mut params = json!({});
        loop {
            let mut page = self.request(method, params).await?;
            items.extend(page[member].as_array_mut().map(std::mem::take).unwrap_or_default());
            match page["nextCursor"].take() {
                Value::String(cursor) => params = json!({ "cursor": cursor }),
                _ => return Ok(items),
            }
        }
    }

    /// Sends a request and waits for its response. Adds the `_meta` members that the revision requires to `params`.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    ///
    /// # Panics
    ///
    /// Panics if the server still requires input after 100 rounds.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let mut id = self.send_request(method, params.clone());
        for _ in 0..MAX_ROUNDS {
            let result = self.answer(id).await?;
            if result["resultType"] != "input_required" || self.responder.is_none() {
                return Ok(result);
            }
            let mut again = params.clone();
            again["inputResponses"] = self.input_responses(&result["inputRequests"]);
            if let Some(state) = result.get("requestState") {
                again["requestState"] = state.clone();
            }
            id = self.send_request(method, again);
        }
        panic!("`{method}` still requires input after {MAX_ROUNDS} rounds");
    }

    /// Answers the questions that a round ended with.
    fn input_responses(&mut self, requests: &Value) -> Value {
        let Some(Responder(answer)) = &mut self.responder else { return json!({}) };
        let answered = requests.as_object().into_iter().flatten().map(|(key, request)| {
            let method = request["method"].as_str().unwrap_or_default().to_owned();
            let request = ServerRequest { method, params: request["params"].clone(), key: Some(key.clone()) };
            (key.clone(), answer(&request))
        });
        Value::Object(answered.collect())
    }

    /// Sends a request and returns its id without waiting for the response.
    pub fn send_request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = self.request_message(id, method, params);
        self.send(&request);
        id
    }

    /// Waits for the response to a request that was sent with [`send_request`](Self::send_request).
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    ///
    /// # Panics
    ///
    /// Panics if no response can arrive because the request was cancelled, already answered, or never sent.
    pub async fn answer(&mut self, id: u64) -> Result<Value, RpcError> {
        loop {
            let is_idle = self.in_flight() == 0;
            if let Some(response) = self.take_response(id) {
                return read_response(response);
            }
            if self.answer_requests() {
                continue;
            }
            assert!(!is_idle, "request {id} is not in flight: it was cancelled, already answered, or never sent");
            self.wait().await;
        }
    }

    /// Answers the requests of the server that have arrived. Returns `false` if there were none or there is no
    /// responder.
    fn answer_requests(&mut self) -> bool {
        let Some(mut responder) = self.responder.take() else { return false };
        let (requests, notifications) = std::mem::take(&mut self.notifications)
            .into_iter()
            .partition(|message: &Value| message.get("id").is_some());
        self.notifications = notifications;
        let any = !requests.is_empty();
        for request in requests {
            let method = request["method"].as_str().unwrap_or_default().to_owned();
            let server_request = ServerRequest { method, params: request["params"].clone(), key: None };
            let result = (responder.0)(&server_request);
            self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
        }
        self.responder = Some(responder);
        any
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Takes the notifications that have arrived, and the requests of the server unless a closure
    /// [answers](Self::answering) them.
    pub fn notifications(&mut self) -> Vec<Value> {
        let lines = self.lines();
        self.store(lines);
        std::mem::take(&mut self.notifications)
    }

    /// Sends bytes unchanged as one message and returns the lines that the server has written so far.
    pub fn send_raw(&mut self, message: &[u8]) -> Vec<Value> {
        self.connection.receive(message, Instant::now(), &mut self.unread);
        self.lines()
    }

    /// Waits until the server writes, then returns the lines.
    pub async fn next_lines(&mut self) -> Vec<Value> {
        self.wait().await;
        self.lines()
    }

    /// Waits until no request is in flight, then returns all lines that the server wrote.
    pub async fn settle(&mut self) -> Vec<Value> {
        let mut lines = self.lines();
        while self.in_flight() > 0 {
            self.wait().await;
            lines.append(&mut self.lines());
        }
        lines
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.connection.in_flight()
    }

    /// Returns the protocol revision of this client.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn request_message(&self, id: u64, method: &str, mut params: Value) -> Value {
        if dialect_of(self.revision).has(Feature::RequestMeta) {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision.as_str(),
                "io.modelcontextprotocol/clientInfo": {"name": "test-client", "version": "1.0.0"},
                "io.modelcontextprotocol/clientCapabilities": self.capabilities(),
            });
            let own = params.get_mut("_meta").map(Value::take);
            params["_meta"] = meta;
            for (key, value) in own.as_ref().and_then(Value::as_object).into_iter().flatten() {
                params["_meta"][key] = value.clone();
            }
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    fn send(&mut self, message: &Value) {
        let line = message.to_string();
        self.connection.receive(line.as_bytes(), Instant::now(), &mut self.unread);
    }

    /// Waits until the server writes.
    async fn wait(&mut self) {
        let began = Instant::now();
        // Output that is available already requires no timer of the runtime.
        if poll_fn(|cx| Poll::Ready(self.connection.poll_output(cx).is_ready())).await {
            return;
        }
        while tokio::time::timeout(self.max_wait, poll_fn(|cx| self.connection.poll_output(cx))).await.is_err() {
            // A paused clock runs ahead of real time while the runtime is idle.
            assert!(
                began.elapsed() < self.max_wait,
                "the server wrote nothing for {:?}, with {} requests in flight",
                self.max_wait,
                self.in_flight(),
            );
        }
    }

    /// Sends a message and returns the lines that the server wrote, unchanged, once no request is in flight.
    pub(crate) async fn exchange(&mut self, message: &str) -> String {
        self.connection.receive(message.as_bytes(), Instant::now(), &mut self.unread);
        let mut output = self.output();
        while self.in_flight() > 0 {
            self.wait().await;
            output.append(&mut self.output());
        }
        String::from_utf8_lossy(&output).into_owned()
    }

    fn output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        self.connection.drain(&mut output);
        output.append(&mut self.unread);
        output
    }

    fn lines(&mut self) -> Vec<Value> {
        let output = self.output();
        output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Takes the response to a request from the received lines and keeps everything else.
    fn take_response(&mut self, id: u64) -> Option<Value> {
        let mut lines = self.lines();
        let at = lines.iter().position(|line| line["id"] == id && line.get("method").is_none());
        let response = at.map(|at| lines.remove(at));
        self.store(lines);
        response
    }

    /// Stores notifications and requests; responses stay unread until they are waited for.
    fn store(&mut self, lines: Vec<Value>) {
        for line in lines {
            if line.get("method").is_some() {
                self.notifications.push(line);
            } else {
                self.unread.extend_from_slice(line.to_string().as_bytes());
                self.unread.push(b'\n');
            }
        }
    }
}

fn object(arguments: impl Serialize) -> Value {
    match serde_json::to_value(arguments) {
        Ok(Value::Null) => Value::Object(Map::new()),
        Ok(value) => value,
        Err(error) => panic!("cannot serialize the arguments: {error}"),
    }
}

fn read_response(mut response: Value) -> Result<Value, RpcError> {
    match response.get_mut("error") {
        None => Ok(response["result"].take()),
        Some(error) => Err(RpcError {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error.get_mut("data").map(Value::take),
        }),
    }
}
