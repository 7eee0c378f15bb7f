use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

#[cfg(feature = "http")]
use super::request_source::TestRequestSource;
use super::result::{Responder, RpcError, ServerRequest, read_response};
use crate::{
    engine::{Connection, RequestIds},
    model::Level,
    revision::{Feature, Revision, dialect_of},
    server::{BuiltServer, Server},
};

/// The maximum number of rounds of one request, in case a function never stops asking questions.
const MAX_ROUNDS: usize = 100;
/// The id of the `initialize` request with which a connection begins. Other requests have larger ids.
pub(super) const HANDSHAKE_ID: u64 = 0;

/// A client that talks to a server in memory, in one protocol revision.
///
/// Every message passes through the server's engine, byte for byte as a real client would send it. Calling an async
/// function that waits requires a tokio runtime, as in `#[tokio::test]`. With the feature `http`, a client can also be
/// connected [to an HTTP service](Self::over_http), with everything that is in front of the server.
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
    pub(super) wire: Wire,
    pub(super) revision: Revision,
    pub(super) next_id: u64,
    /// The minimum level of log messages, in revisions in which each request names it.
    pub(super) log_level: Option<Level>,
    responder: Option<Responder>,
    /// Whether each new connection begins with `initialize`, in revisions that have it.
    initializes: bool,
    /// The HTTP request with which messages seem to arrive.
    #[cfg(feature = "http")]
    source: Option<Arc<TestRequestSource>>,
}

impl Server {
    /// Builds the server and connects a client to it in memory.
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be built, and lists every problem.
    pub fn test_client(self, revision: Revision) -> TestClient {
        self.build_for_test().test_client(revision)
    }

    /// Builds the server such that it checks results in release builds, too, unless the author has decided otherwise.
    fn build_for_test(mut self) -> BuiltServer {
        self.profile.checks_results.get_or_insert(true);
        self.build().unwrap_or_else(|error| panic!("{error}"))
    }
}

impl BuiltServer {
    /// Connects a client to the server in memory.
    pub fn test_client(&self, revision: Revision) -> TestClient {
        TestClient::connect(Connection::over_stdio(Arc::clone(self.engine())), revision)
    }
}

impl TestClient {
    /// Connects a client that has not sent anything yet, not even `initialize`, for use with
    /// [`send_raw`](Self::send_raw). A connection that [`answering`](Self::answering) or
    /// [`with_extension`](Self::with_extension) opens for this client begins without `initialize`, too.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, testing::TestClient};
    ///
    /// let mut client = TestClient::uninitialized(Server::empty("empty", "1.0.0"), Revision::V2025_11_25);
    /// let responses = client.send_raw(br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    /// assert!(responses[0]["error"]["code"].is_i64());
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the server cannot be built, and lists every problem.
    pub fn uninitialized(server: Server, revision: Revision) -> Self {
        Self::new(Connection::over_stdio(Arc::clone(server.build_for_test().engine())), revision)
    }

    fn new(transport: impl Transport + 'static, revision: Revision) -> Self {
        Self {
            wire: Wire::new(transport),
            revision,
            next_id: 1,
            log_level: None,
            responder: None,
            initializes: false,
            #[cfg(feature = "http")]
            source: None,
        }
    }

    /// Sets the time to wait for output of the server, in real time even if the clock of the runtime is paused.
    /// Defaults to one minute.
    #[must_use]
    pub fn max_wait(mut self, limit: Duration) -> Self {
        self.wire.max_wait = limit;
        self
    }

    /// Opens a new connection that declares every client capability and answers the server's requests with the results
    /// that `answer` returns.
    ///
    /// The same closure serves every revision. In 2026-07-28, where a call ends with its questions,
    /// [`request`](Self::request) and the methods based on it repeat the call with the answers until it completes.
    ///
    /// ```
    /// use mcp_runtime::{Context, Elicit, Fault, Revision, Server, ask::Answer, tool};
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
    pub fn answering(mut self, answer: impl FnMut(&ServerRequest) -> Value + Send + 'static) -> Self {
        self.responder = Some(Responder(Box::new(answer)));
        self.reconnected()
    }

    /// Opens a new connection with the options of this client.
    pub(super) fn reconnected(mut self) -> Self {
        self.wire.reconnect();
        self.next_id = 1;
        #[cfg(feature = "http")]
        if let Some(source) = &self.source {
            self.wire.transport.set_head(source);
        }
        self.initialize();
        self
    }

    /// Returns the HTTP request with which the messages of the next connection seem to arrive.
    #[cfg(feature = "http")]
    pub(super) fn source_mut(&mut self) -> &mut TestRequestSource {
        Arc::make_mut(self.source.get_or_insert_default())
    }

    pub(super) fn connect(transport: impl Transport + 'static, revision: Revision) -> Self {
        let mut client = Self::new(transport, revision);
        client.initializes = true;
        client.initialize();
        client
    }

    fn initialize(&mut self) {
        if self.initializes && dialect_of(self.revision).has(Feature::Handshake) {
            self.wire.send(&json!({"jsonrpc": "2.0", "id": HANDSHAKE_ID, "method": "initialize", "params": {
                "protocolVersion": self.revision.as_str(),
                "capabilities": self.capabilities(),
                "clientInfo": {"name": "test-client", "version": "1.0.0"},
            }}));
            self.wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
            self.wire.unread.clear();
        }
    }

    /// Returns the capabilities to declare: all of them if there is a responder.
    pub(super) fn capabilities(&self) -> Value {
        if self.responder.is_none() {
            return json!({});
        }
        json!({
            "elicitation": {"form": {}, "url": {}},
            "sampling": {"tools": {}, "context": {}},
            "roots": {},
        })
    }

    /// Returns the protocol revision of this client.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Sends a request and waits for its response. Adds the `_meta` members that the revision requires to `params`.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, tool};
    ///
    /// /// Do nothing.
    /// #[tool]
    /// fn rest() {}
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("empty", "1.0.0").with::<rest>().test_client(Revision::V2025_11_25);
    /// let page = client.request("tools/list", serde_json::json!({})).await.unwrap();
    /// assert_eq!(page["tools"][0]["name"], "rest");
    /// # });
    /// ```
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
            let result = self.response(id).await?;
            if result["resultType"] != "input_required" || self.responder.is_none() {
                return Ok(result);
            }
            let mut again = params.clone();
            again["inputResponses"] = self.input_responses(&result["inputRequests"]).unwrap_or_default();
            if let Some(state) = result.get("requestState") {
                again["requestState"] = state.clone();
            }
            id = self.send_request(method, again);
        }
        panic!("`{method}` still requires input after {MAX_ROUNDS} rounds");
    }

    /// Answers questions. Returns `None` if there is no handler for them.
    pub(super) fn input_responses(&mut self, requests: &Value) -> Option<Value> {
        self.responder.as_mut().map(|responder| responder.input_responses(requests))
    }

    /// Sends a request and returns its id without waiting for the response.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, tool};
    /// use serde_json::json;
    ///
    /// /// Wait forever.
    /// #[tool]
    /// async fn wait() {
    ///     std::future::pending().await
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let mut client = Server::empty("clock", "1.0.0").with::<wait>().test_client(Revision::V2025_11_25);
    /// let id = client.send_request("tools/call", json!({"name": "wait"}));
    /// assert_eq!(client.in_flight(), 1);
    /// client.notify("notifications/cancelled", json!({"requestId": id}));
    /// assert_eq!(client.in_flight(), 0);
    /// # });
    /// ```
    pub fn send_request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = self.request_message(id, method, params);
        self.wire.send(&request);
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
    pub async fn response(&mut self, id: u64) -> Result<Value, RpcError> {
        loop {
            let is_idle = self.in_flight() == 0;
            if let Some(response) = self.wire.take_response(id) {
                return read_response(response);
            }
            if self.answer_requests() {
                continue;
            }
            assert!(!is_idle, "request {id} is not in flight: it was cancelled, already answered, or never sent");
            self.wire.wait().await;
        }
    }

    /// Answers the requests of the server that have arrived. Returns `false` if there were none or there is no
    /// responder.
    fn answer_requests(&mut self) -> bool {
        let Some(responder) = &mut self.responder else { return false };
        let requests = self.wire.take_requests();
        for request in &requests {
            let response = responder.response(request);
            self.wire.send(&response);
        }
        !requests.is_empty()
    }

    fn request_message(&self, id: u64, method: &str, mut params: Value) -> Value {
        if dialect_of(self.revision).has(Feature::RequestMeta) {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision.as_str(),
                "io.modelcontextprotocol/clientInfo": {"name": "test-client", "version": "1.0.0"},
                "io.modelcontextprotocol/clientCapabilities": self.capabilities(),
            });
            let own = params.get_mut("_meta").map(Value::take);
            params["_meta"] = meta;
            if let Some(level) = self.log_level {
                params["_meta"]["io.modelcontextprotocol/logLevel"] = level.as_str().into();
            }
            for (key, value) in own.as_ref().and_then(Value::as_object).into_iter().flatten() {
                params["_meta"][key] = value.clone();
            }
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }
}

/// Messages of any kind, and what has arrived.
impl TestClient {
    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        self.wire.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Takes the notifications that have arrived, and the requests of the server unless a closure
    /// [answers](Self::answering) them.
    pub fn notifications(&mut self) -> Vec<Value> {
        self.wire.take_notifications()
    }

    /// Sends bytes unchanged as one message and returns the lines that the server has written so far.
    pub fn send_raw(&mut self, message: &[u8]) -> Vec<Value> {
        self.wire.send_bytes(message);
        self.wire.lines()
    }

    /// Waits until the server writes, then returns the lines.
    pub async fn next_lines(&mut self) -> Vec<Value> {
        self.wire.wait().await;
        self.wire.lines()
    }

    /// Waits until no request is in flight, then returns all lines that the server wrote.
    pub async fn settle(&mut self) -> Vec<Value> {
        let mut lines = self.wire.lines();
        while self.in_flight() > 0 {
            self.wire.wait().await;
            lines.append(&mut self.wire.lines());
        }
        lines
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.wire.transport.in_flight()
    }
}

/// The connection of a test client, and the messages that it has not taken yet.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) transport: Box<dyn Transport>,
    /// The lines that were received but not yet taken.
    unread: Vec<u8>,
    /// The notifications, and the requests of the server.
    notifications: Vec<Value>,
    pub(super) max_wait: Duration,
}

impl Wire {
    fn new(transport: impl Transport + 'static) -> Self {
        let (unread, notifications) = Default::default();
        Self { transport: Box::new(transport), unread, notifications, max_wait: Duration::from_secs(60) }
    }

    /// Opens a new connection.
    fn reconnect(&mut self) {
        self.transport.reconnect();
        self.unread.clear();
        self.notifications.clear();
    }

    fn send(&mut self, message: &Value) {
        self.send_bytes(message.to_string().as_bytes());
    }

    fn send_bytes(&mut self, message: &[u8]) {
        self.transport.send(message, &mut self.unread);
    }

    /// Waits until the server writes.
    async fn wait(&mut self) {
        let began = Instant::now();
        // Output that is available already requires no timer of the runtime.
        if poll_fn(|cx| Poll::Ready(self.transport.poll_output(cx).is_ready())).await {
            return;
        }
        while tokio::time::timeout(self.max_wait, poll_fn(|cx| self.transport.poll_output(cx))).await.is_err() {
            // A paused clock runs ahead of real time while the runtime is idle.
            assert!(
                began.elapsed() < self.max_wait,
                "the server wrote nothing for {:?}, with {} requests in flight",
                self.max_wait,
                self.transport.in_flight(),
            );
        }
    }

    /// Takes the lines that have arrived.
    fn lines(&mut self) -> Vec<Value> {
        let mut output = Vec::new();
        self.transport.drain(&mut output);
        output.append(&mut self.unread);
        output.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Takes the response to a request and keeps everything else.
    pub(super) fn take_response(&mut self, id: u64) -> Option<Value> {
        let mut lines = self.lines();
        let at = lines.iter().position(|line| line["id"] == id && line.get("method").is_none());
        let response = at.map(|at| lines.remove(at));
        self.store(lines);
        response
    }

    /// Takes all notifications and requests that have arrived.
    fn take_notifications(&mut self) -> Vec<Value> {
        let lines = self.lines();
        self.store(lines);
        std::mem::take(&mut self.notifications)
    }

    /// Takes the notifications that `read` accepts and keeps everything else.
    pub(super) fn take_matching<T>(&mut self, mut read: impl FnMut(&Value) -> Option<T>) -> Vec<T> {
        let mut taken = Vec::new();
        let mut others = self.take_notifications();
        others.retain(|notification| read(notification).map(|found| taken.push(found)).is_none());
        self.notifications = others;
        taken
    }

    /// Takes the requests of the server that have arrived, and keeps everything else.
    fn take_requests(&mut self) -> Vec<Value> {
        self.notifications.extract_if(.., |message| message.get("id").is_some()).collect()
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

/// The way of the messages of a test client to the server and back.
pub(super) trait Transport: fmt::Debug + Send {
    /// Sends a message. Writes the output that is available at once to `out`, as lines.
    fn send(&mut self, message: &[u8], out: &mut Vec<u8>);

    /// Becomes ready when there is something to [`drain`](Self::drain).
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<()>;

    /// Moves the lines that have arrived into a buffer.
    fn drain(&mut self, into: &mut Vec<u8>);

    /// Returns the number of requests without a response.
    fn in_flight(&self) -> usize;

    /// Opens a new connection, without the previous one's session and messages.
    fn reconnect(&mut self);

    /// Sets the headers and the extensions of the requests that carry messages.
    #[cfg(feature = "http")]
    fn set_head(&mut self, head: &Arc<TestRequestSource>);

    /// Returns the head of the last HTTP response to a request of the client.
    #[cfg(feature = "http")]
    fn last_response(&self) -> Option<&http::Response<()>> {
        None
    }
}

/// In memory, without a transport.
impl Transport for Connection {
    fn send(&mut self, message: &[u8], out: &mut Vec<u8>) {
        // The clock of the runtime, which tests can pause, decides about the rates of a session.
        let now = tokio::time::Instant::now().into_std();
        self.receive(message, now, &mut RequestIds::default(), out);
    }

    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.outbox().poll_output(cx)
    }

    fn drain(&mut self, into: &mut Vec<u8>) {
        self.outbox().drain(into);
    }

    fn in_flight(&self) -> usize {
        self.outbox().call_count()
    }

    fn reconnect(&mut self) {
        *self = Self::over_stdio(Arc::clone(self.engine()));
    }

    #[cfg(feature = "http")]
    fn set_head(&mut self, head: &Arc<TestRequestSource>) {
        self.set_source(Arc::clone(head) as _);
    }
}
