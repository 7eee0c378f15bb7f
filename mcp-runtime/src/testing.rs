//! A client for an author's tests: no process, no port, no socket.

use std::{fmt, future::poll_fn, sync::Arc, time::Instant};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    Revision, Server,
    engine::Connection,
    revision::{Feature, dialect_of},
};

/// A client that talks to a server in memory, in one protocol revision.
///
/// Every message goes through the server's own engine, byte for byte as a real client would send it. A call that has to
/// wait needs a tokio runtime, such as `#[tokio::test]` gives.
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
    /// What the server sent and nobody has looked at.
    unread: Vec<u8>,
    notifications: Vec<Value>,
    answers: Option<Answers>,
}

/// Answers what the server asks.
struct Answers(Box<dyn FnMut(&Asked) -> Value + Send>);

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}

/// Something that the server asks of its client.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Asked {
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// Its parameters.
    pub params: Value,
    /// The key of the question; only revision 2026-07-28 tells it to clients.
    pub key: Option<String>,
}

impl Asked {
    /// What the user is told.
    pub fn message(&self) -> &str {
        self.params["message"].as_str().unwrap_or_default()
    }
}

/// The most rounds of one request, for a function that asks the same for ever.
const ROUNDS: usize = 100;

/// The error object of a JSON-RPC error response.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// What went wrong.
    pub message: String,
    /// More about it.
    pub data: Option<Value>,
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}

/// The result of `tools/call`, as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct CallResult(pub Value);

impl CallResult {
    /// The text content, pieces joined by line breaks.
    pub fn text(&self) -> String {
        let content = self.0["content"].as_array().into_iter().flatten();
        content.filter_map(|item| item["text"].as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The structured content.
    pub fn structured(&self) -> Option<&Value> {
        self.0.get("structuredContent")
    }

    /// Whether the tool says that it failed.
    pub fn is_error(&self) -> bool {
        self.0["isError"] == true
    }
}

impl Server {
    /// Connects a client in memory.
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be built, with every reason.
    pub fn test_client(self, revision: Revision) -> TestClient {
        self.build().unwrap_or_else(|error| panic!("{error}")).test_client(revision)
    }
}

impl TestClient {
    /// Connects a client that has said nothing yet, not even `initialize`, for [`send_raw`](Self::send_raw).
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be built, with every reason.
    pub fn silent(server: Server, revision: Revision) -> Self {
        let server = server.build().unwrap_or_else(|error| panic!("{error}"));
        Self::new(Connection::new(Arc::clone(server.engine())), revision)
    }

    fn new(connection: Connection, revision: Revision) -> Self {
        Self { connection, revision, next_id: 1, unread: Vec::new(), notifications: Vec::new(), answers: None }
    }

    /// Connects anew as a client that can be asked, and that answers what the server asks with what `answer` makes of it: the
    /// result object of the request.
    ///
    /// The same closure serves every revision: where there are no requests of the server's, [`request`](Self::request) and
    /// what builds on it call again with the answers until the call is done.
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
    ///     let mut client = client.answering(|asked| {
    ///         assert_eq!(asked.message(), "Delete /tmp/a?");
    ///         json!({"action": "accept", "content": {"sure": true}})
    ///     });
    ///     let result = client.call("delete", json!({"path": "/tmp/a"})).await.unwrap();
    ///     assert_eq!(result.text(), "deleted /tmp/a");
    /// }
    /// # });
    /// ```
    #[must_use]
    pub fn answering(self, answer: impl FnMut(&Asked) -> Value + Send + 'static) -> Self {
        let mut client = Self::new(Connection::new(self.connection.shared_engine()), self.revision);
        client.answers = Some(Answers(Box::new(answer)));
        client.initialize();
        client
    }

    pub(crate) fn connect(connection: Connection, revision: Revision) -> Self {
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

    /// What the client declares: that it can be asked, if somebody answers.
    fn capabilities(&self) -> Value {
        match self.answers {
            None => json!({}),
            Some(_) => json!({
                "elicitation": {"form": {}, "url": {}},
                "sampling": {"tools": {}, "context": {}},
                "roots": {},
            }),
        }
    }

    /// Calls a tool.
    ///
    /// # Errors
    ///
    /// The server's JSON-RPC error. A tool that failed is a result, see [`CallResult::is_error`].
    pub async fn call(&mut self, name: &str, arguments: impl Serialize) -> Result<CallResult, RpcError> {
        let arguments = object(arguments);
        self.request("tools/call", json!({"name": name, "arguments": arguments})).await.map(CallResult)
    }

    /// Reads a resource and gives its contents.
    ///
    /// # Errors
    ///
    /// The server's JSON-RPC error.
    pub async fn read(&mut self, uri: &str) -> Result<Vec<Value>, RpcError> {
        let mut result = self.request("resources/read", json!({"uri": uri})).await?;
        Ok(serde_json::from_value(result["contents"].take()).unwrap_or_default())
    }

    /// Gets a prompt and gives its result.
    ///
    /// # Errors
    ///
    /// The server's JSON-RPC error.
    pub async fn prompt(&mut self, name: &str, arguments: impl Serialize) -> Result<Value, RpcError> {
        let arguments = object(arguments);
        self.request("prompts/get", json!({"name": name, "arguments": arguments})).await
    }

    /// Completes an argument; `reference` is such as `{"type": "ref/prompt", "name": "review"}`.
    ///
    /// # Errors
    ///
    /// The server's JSON-RPC error.
    pub async fn complete(&mut self, reference: Value, argument: &str, value: &str) -> Result<Vec<String>, RpcError> {
        let params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        let mut result = self.request("completion/complete", params).await?;
        Ok(serde_json::from_value(result["completion"]["values"].take()).unwrap_or_default())
    }

    /// Lists the tools, all pages of them.
    ///
    /// # Errors
    ///
    /// The server's JSON-RPC error.
    pub async fn tools(&mut self) -> Result<Vec<Value>, RpcError> {
        self.list("tools/list", "tools").await
    }

    /// Lists entries of any kind, all pages of them.
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

    /// Sends any request, and waits for its answer. What the revision wants of every request is added to `params`.
    ///
    /// # Errors
    ///
    /// The server's JSON-RPC error.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let mut id = self.send_request(method, params.clone());
        for _ in 0..ROUNDS {
            let result = self.answer(id).await?;
            if result["resultType"] != "input_required" || self.answers.is_none() {
                return Ok(result);
            }
            let mut again = params.clone();
            again["inputResponses"] = self.input_responses(&result["inputRequests"]);
            if let Some(state) = result.get("requestState") {
                again["requestState"] = state.clone();
            }
            id = self.send_request(method, again);
        }
        panic!("`{method}` asked {ROUNDS} times and is not done");
    }

    /// Answers the questions that a request ended with.
    fn input_responses(&mut self, requests: &Value) -> Value {
        let Some(Answers(answer)) = &mut self.answers else { return json!({}) };
        let answered = requests.as_object().into_iter().flatten().map(|(key, request)| {
            let method = request["method"].as_str().unwrap_or_default().to_owned();
            let asked = Asked { method, params: request["params"].clone(), key: Some(key.clone()) };
            (key.clone(), answer(&asked))
        });
        Value::Object(answered.collect())
    }

    /// Sends a request without waiting, and gives its id.
    pub fn send_request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = self.request_message(id, method, params);
        self.send(&request);
        id
    }

    /// Waits for the answer to a request that was sent.
    ///
    /// # Errors
    ///
    /// The server's JSON-RPC error.
    ///
    /// # Panics
    ///
    /// Panics if no answer can come, because the request was cancelled or never sent.
    pub async fn answer(&mut self, id: u64) -> Result<Value, RpcError> {
        loop {
            let is_over = self.in_flight() == 0;
            if let Some(response) = self.take_response(id) {
                return read_response(response);
            }
            if self.answer_requests() {
                continue;
            }
            assert!(!is_over, "no request {id} is in flight: it was cancelled, answered before, or never sent");
            self.wait().await;
        }
    }

    /// Answers the requests of the server that came, if there is somebody to answer; false if there were none.
    fn answer_requests(&mut self) -> bool {
        let Some(mut answers) = self.answers.take() else { return false };
        let (requests, notifications) = std::mem::take(&mut self.notifications)
            .into_iter()
            .partition(|message: &Value| message.get("id").is_some());
        self.notifications = notifications;
        let any = !requests.is_empty();
        for request in requests {
            let method = request["method"].as_str().unwrap_or_default().to_owned();
            let asked = Asked { method, params: request["params"].clone(), key: None };
            let result = (answers.0)(&asked);
            self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
        }
        self.answers = Some(answers);
        any
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Takes the notifications that came so far, and the requests of the server that nobody [answers](Self::answering).
    pub fn notifications(&mut self) -> Vec<Value> {
        let lines = self.lines();
        self.sort(lines);
        std::mem::take(&mut self.notifications)
    }

    /// Sends bytes as they are, as one message, and gives the lines that came back at once.
    pub fn send_raw(&mut self, message: &[u8]) -> Vec<Value> {
        self.connection.receive(message, Instant::now(), &mut self.unread);
        self.lines()
    }

    /// Waits until the server has sent something more, and gives the lines.
    pub async fn next_lines(&mut self) -> Vec<Value> {
        self.wait().await;
        self.lines()
    }

    /// Waits until every request is answered, and gives all lines that came.
    pub async fn settle(&mut self) -> Vec<Value> {
        let mut lines = self.lines();
        while self.in_flight() > 0 {
            self.wait().await;
            lines.append(&mut self.lines());
        }
        lines
    }

    /// The number of requests that wait for their answer.
    pub fn in_flight(&self) -> usize {
        self.connection.in_flight()
    }

    /// The revision that this client speaks.
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

    async fn wait(&mut self) {
        poll_fn(|cx| self.connection.poll_output(cx)).await;
    }

    fn lines(&mut self) -> Vec<Value> {
        let mut lines = Vec::new();
        self.connection.drain(&mut lines);
        lines.append(&mut self.unread);
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Takes the response to a request out of what came; the notifications stay for later.
    fn take_response(&mut self, id: u64) -> Option<Value> {
        let mut lines = self.lines();
        let at = lines.iter().position(|line| line["id"] == id && line.get("method").is_none());
        let response = at.map(|at| lines.remove(at));
        self.sort(lines);
        response
    }

    /// Puts aside notifications; responses that nobody waits for yet stay unread.
    fn sort(&mut self, lines: Vec<Value>) {
        for line in lines {
            match line.get("method") {
                Some(_) => self.notifications.push(line),
                None => {
                    self.unread.extend_from_slice(line.to_string().as_bytes());
                    self.unread.push(b'\n');
                }
            }
        }
    }
}

fn object(arguments: impl Serialize) -> Value {
    match serde_json::to_value(arguments) {
        Ok(Value::Null) => Value::Object(Map::new()),
        Ok(value) => value,
        Err(error) => panic!("the arguments cannot be serialised: {error}"),
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
