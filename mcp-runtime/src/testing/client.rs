use std::{sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    CallResult, LogMessage, ProgressUpdate, RpcError, ServerRequest, TestTask, notification, question::Responder,
    result::read_response, wire::Wire,
};
use crate::{
    engine::Connection,
    model::Level,
    revision::{Feature, Revision, dialect_of},
    server::{BuiltServer, Server},
};

/// The maximum number of rounds of one request, in case a function never stops asking questions.
const MAX_ROUNDS: usize = 100;
/// The extension of tasks, which a client declares.
const TASKS: &str = "io.modelcontextprotocol/tasks";

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
    wire: Wire,
    revision: Revision,
    next_id: u64,
    /// The minimum level of log messages, in revisions in which each request names it.
    log_level: Option<Level>,
    responder: Option<Responder>,
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
        Self { wire: Wire::new(connection), revision, next_id: 1, log_level: None, responder: None }
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
        let mut client = Self::new(Connection::new(self.wire.connection.shared_engine()), self.revision);
        client.responder = Some(Responder(Box::new(answer)));
        client.wire.max_wait = self.wire.max_wait;
        client.log_level = self.log_level;
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
            self.wire.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": self.revision.as_str(),
                "capabilities": self.capabilities(),
                "clientInfo": {"name": "test-client", "version": "1.0.0"},
            }}));
            self.wire.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
            self.wire.clear();
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
    /// ```
    /// use mcp_runtime::{Revision, Server, resource};
    ///
    /// /// The time.
    /// #[resource("clock://{zone}")]
    /// fn time(zone: String) -> Option<&'static str> {
    ///     (zone == "utc").then_some("12:00")
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("clock", "1.0.0").with::<time>().test_client(Revision::V2026_07_28);
    /// assert_eq!(client.read("clock://utc").await.unwrap()[0]["text"], "12:00");
    /// assert!(client.read("clock://moon").await.is_err());
    /// # });
    /// ```
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
    /// ```
    /// use mcp_runtime::{Revision, Server, prompt};
    ///
    /// /// Greet a person.
    /// #[prompt]
    /// fn greet(name: String) -> String {
    ///     format!("Greet {name}.")
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("texts", "1.0.0").with::<greet>().test_client(Revision::V2026_07_28);
    /// let prompt = client.prompt("greet", serde_json::json!({"name": "Ada"})).await.unwrap();
    /// assert_eq!(prompt["messages"][0]["content"]["text"], "Greet Ada.");
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn prompt(&mut self, name: &str, arguments: impl Serialize) -> Result<Value, RpcError> {
        let arguments = object(arguments);
        self.request("prompts/get", json!({"name": name, "arguments": arguments})).await
    }

    /// Calls a tool and returns its result with the progress that it reported.
    ///
    /// ```
    /// use mcp_runtime::{Context, Revision, Server, tool};
    ///
    /// /// Bake bread.
    /// #[tool]
    /// async fn bake(ctx: &Context) -> &'static str {
    ///     ctx.progress(1, 2, "kneaded");
    ///     ctx.progress(2, 2, "baked");
    ///     "bread"
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("bakery", "1.0.0").with::<bake>().test_client(Revision::V2026_07_28);
    /// let (result, updates) = client.call_with_progress("bake", ()).await.unwrap();
    /// assert_eq!(result.text(), "bread");
    /// assert_eq!(updates[1].message.as_deref(), Some("baked"));
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn call_with_progress(
        &mut self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<(CallResult, Vec<ProgressUpdate>), RpcError> {
        let (arguments, token) = (object(arguments), self.next_id);
        let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": token}});
        let result = self.request("tools/call", params).await.map(CallResult)?;
        Ok((result, self.wire.take_matching(|notification| ProgressUpdate::read(notification, token))))
    }

    /// Calls a tool as a task, in the revisions that have tasks: 2025-11-25 and 2026-07-28.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    ///
    /// # Panics
    ///
    /// Panics if the call did not become a task.
    pub async fn start_task(&mut self, name: &str, arguments: impl Serialize) -> Result<TestTask, RpcError> {
        let mut params = json!({"name": name, "arguments": object(arguments)});
        if !self.revision.is_stateless() {
            params["task"] = json!({});
        }
        let result = self.task_request("tools/call", params).await?;
        Ok(TestTask::read(&result).unwrap_or_else(|| panic!("the call of `{name}` did not become a task: {result}")))
    }

    /// Completes an argument and returns the suggested values. `reference` is the `ref` of the request, such as
    /// `{"type": "ref/prompt", "name": "review"}`. [`complete_prompt`](Self::complete_prompt) and
    /// [`complete_resource`](Self::complete_resource) need no JSON.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, prompt};
    ///
    /// /// Write in a language.
    /// #[prompt]
    /// fn write(#[arg(complete = languages)] language: String) -> String {
    ///     language
    /// }
    ///
    /// fn languages() -> [&'static str; 2] {
    ///     ["French", "German"]
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("texts", "1.0.0").with::<write>().test_client(Revision::V2026_07_28);
    /// let prompt = serde_json::json!({"type": "ref/prompt", "name": "write"});
    /// assert_eq!(client.complete(prompt, "language", "").await.unwrap(), ["French", "German"]);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn complete(&mut self, reference: Value, argument: &str, value: &str) -> Result<Vec<String>, RpcError> {
        self.complete_with(reference, argument, value, &[]).await
    }

    /// Completes an argument of a prompt and returns the suggested values. `earlier` are the arguments that the user has
    /// already filled in, by name.
    ///
    /// ```
    /// use mcp_runtime::{EarlierArguments, Revision, Server, prompt};
    ///
    /// fn cities(_: &str, earlier: &EarlierArguments) -> Vec<&'static str> {
    ///     if earlier.get("country") == Some("Austria") { vec!["Graz", "Wien"] } else { vec!["Bern"] }
    /// }
    ///
    /// /// Plan a trip.
    /// #[prompt]
    /// fn trip(country: &str, #[arg(complete = cities)] city: &str) -> String {
    ///     format!("Plan a trip to {city} in {country}.")
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("trips", "1.0.0").with::<trip>().test_client(Revision::V2026_07_28);
    /// let cities = client.complete_prompt("trip", "city", "", &[("country", "Austria")]).await.unwrap();
    /// assert_eq!(cities, ["Graz", "Wien"]);
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn complete_prompt(
        &mut self,
        name: &str,
        argument: &str,
        value: &str,
        earlier: &[(&str, &str)],
    ) -> Result<Vec<String>, RpcError> {
        self.complete_with(json!({"type": "ref/prompt", "name": name}), argument, value, earlier).await
    }

    /// Completes a variable of a resource template and returns the suggested values. `earlier` are the variables that
    /// the user has already filled in, by name.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server.
    pub async fn complete_resource(
        &mut self,
        template: &str,
        variable: &str,
        value: &str,
        earlier: &[(&str, &str)],
    ) -> Result<Vec<String>, RpcError> {
        self.complete_with(json!({"type": "ref/resource", "uri": template}), variable, value, earlier).await
    }

    async fn complete_with(
        &mut self,
        reference: Value,
        argument: &str,
        value: &str,
        earlier: &[(&str, &str)],
    ) -> Result<Vec<String>, RpcError> {
        let mut params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        if !earlier.is_empty() {
            let earlier: Map<String, Value> =
                earlier.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
            params["context"] = json!({"arguments": earlier});
        }
        let mut result = self.request("completion/complete", params).await?;
        Ok(serde_json::from_value(result["completion"]["values"].take()).unwrap_or_default())
    }

    /// Requests log messages of this level and above, which [`log_messages`](Self::log_messages) returns.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server, for instance if no function can log.
    pub async fn set_log_level(&mut self, level: Level) -> Result<(), RpcError> {
        if self.revision.is_stateless() {
            self.log_level = Some(level);
            return Ok(());
        }
        self.request("logging/setLevel", json!({"level": level.as_str()})).await.map(drop)
    }

    /// Takes the log messages that have arrived.
    ///
    /// ```
    /// use mcp_runtime::{Context, Level, Revision, Server, tool};
    ///
    /// /// Log.
    /// #[tool]
    /// fn logs(ctx: &Context) {
    ///     ctx.log(Level::Debug, "not requested");
    ///     ctx.log(Level::Warning, "almost full");
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// for revision in Revision::ALL {
    ///     let mut client = Server::empty("log", "1.0.0").with::<logs>().test_client(revision);
    ///     client.set_log_level(Level::Info).await.unwrap();
    ///     client.call("logs", ()).await.unwrap();
    ///     let messages = client.log_messages();
    ///     assert_eq!(messages.len(), 1);
    ///     assert_eq!((messages[0].level, &messages[0].data), (Level::Warning, &"almost full".into()));
    /// }
    /// # });
    /// ```
    pub fn log_messages(&mut self) -> Vec<LogMessage> {
        self.wire.take_matching(LogMessage::read)
    }

    /// Subscribes to the changes of a resource, which [`updated_resources`](Self::updated_resources) returns.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, resource};
    ///
    /// /// The menu of today.
    /// #[resource("menu://today")]
    /// fn menu() -> &'static str {
    ///     "soup"
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// for revision in Revision::ALL {
    ///     let server = Server::empty("kitchen", "1.0.0").with::<menu>();
    ///     let kitchen = server.handle();
    ///     let mut client = server.test_client(revision);
    ///     client.subscribe("menu://today").await.unwrap();
    ///     kitchen.resource_updated("menu://today");
    ///     assert_eq!(client.updated_resources(), ["menu://today"]);
    /// }
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server. In 2026-07-28, a server does not acknowledge the subscription to a
    /// resource that it does not have, which is reported as error -32602.
    pub async fn subscribe(&mut self, uri: &str) -> Result<(), RpcError> {
        if !self.revision.is_stateless() {
            return self.request("resources/subscribe", json!({"uri": uri})).await.map(drop);
        }
        let id = self.send_request("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [uri]}}));
        if let Some(response) = self.wire.take_response(id) {
            return read_response(response).map(drop);
        }
        let acknowledged = self.wire.take_matching(|notification| {
            let is_acknowledged = notification["method"] == "notifications/subscriptions/acknowledged";
            is_acknowledged.then(|| notification["params"]["notifications"]["resourceSubscriptions"][0] == uri)
        });
        if acknowledged.contains(&true) {
            return Ok(());
        }
        let message = format!("the server did not acknowledge the subscription to `{uri}`");
        Err(RpcError { code: -32602, message, data: None })
    }

    /// Takes the URIs of the resources that have changed, as far as the notifications have arrived.
    pub fn updated_resources(&mut self) -> Vec<String> {
        self.wire.take_matching(notification::updated_resource)
    }

    /// Lists the tools of all pages.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, tool};
    ///
    /// /// Do nothing.
    /// #[tool(read_only)]
    /// fn rest() {}
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let mut client = Server::empty("empty", "1.0.0").with::<rest>().test_client(Revision::V2025_11_25);
    /// assert_eq!(client.tools().await.unwrap()[0]["annotations"]["readOnlyHint"], true);
    /// # });
    /// ```
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
            let result = self.answer(id).await?;
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

    /// Sends a request about tasks, for which the client declares the extension.
    pub(super) async fn task_request(&mut self, method: &str, mut params: Value) -> Result<Value, RpcError> {
        if self.revision.is_stateless() {
            let mut capabilities = self.capabilities();
            capabilities["extensions"][TASKS] = json!({});
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        }
        self.request(method, params).await
    }

    /// Answers questions. Returns `None` if nobody answers them.
    pub(super) fn input_responses(&mut self, requests: &Value) -> Option<Value> {
        self.responder.as_mut().map(|responder| responder.input_responses(requests))
    }

    /// Returns the maximum time to wait for the server.
    pub(super) fn wait_limit(&self) -> Duration {
        self.wire.max_wait
    }

    /// Sends a request and returns its id without waiting for the response.
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
    pub async fn answer(&mut self, id: u64) -> Result<Value, RpcError> {
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
        self.wire.connection.in_flight()
    }

    /// Returns the protocol revision of this client.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Sends a message and returns the lines that the server wrote, unchanged, once no request is in flight.
    pub(crate) async fn exchange(&mut self, message: &str) -> String {
        self.wire.send_bytes(message.as_bytes());
        let mut output = self.wire.output();
        while self.in_flight() > 0 {
            self.wire.wait().await;
            output.append(&mut self.wire.output());
        }
        String::from_utf8_lossy(&output).into_owned()
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

fn object(arguments: impl Serialize) -> Value {
    match serde_json::to_value(arguments) {
        Ok(Value::Null) => Value::Object(Map::new()),
        Ok(value) => value,
        Err(error) => panic!("cannot serialize the arguments: {error}"),
    }
}
