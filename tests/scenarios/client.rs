//! A client of any revision over any transport.

use mcp_runtime::Revision;
use mcp_tests::schemas::Official;
use serde_json::{Value, json};

/// Exchanges messages with the server.
pub(crate) trait Transport {
    /// Sends a message. If it is a request, waits for the response, or for the first notification of a subscription.
    ///
    /// Passes every other message from the server to `on_message`, and sends the response that it returns.
    fn exchange(
        &mut self,
        message: &Value,
        revision: Revision,
        on_message: &mut dyn FnMut(Value) -> Option<Value>,
    ) -> Result<Option<Value>, String>;

    /// Reads messages outside of requests, up to a notification with this method.
    fn wait_for(&mut self, method: &str, on_message: &mut dyn FnMut(Value) -> Option<Value>) -> Result<Value, String>;

    /// Closes the connection. Returns an error if the server does not handle this correctly.
    fn close(&mut self) -> Result<(), String>;
}

/// A client that records and validates the messages it receives.
pub(crate) struct Client {
    transport: Box<dyn Transport>,
    pub(crate) revision: Revision,
    official: Option<&'static Official>,
    next_id: u64,
    /// The result of `initialize`, or of `server/discover`.
    pub(crate) server_info: Value,
    /// The received notifications, oldest first.
    pub(crate) notifications: Vec<Value>,
    /// The received requests, oldest first.
    pub(crate) questions: Vec<Value>,
    problems: Vec<String>,
}

/// The error object of a response.
#[derive(Debug)]
pub(crate) struct RpcError(pub(crate) Value);

impl RpcError {
    pub(crate) fn code(&self) -> i64 {
        self.0["code"].as_i64().unwrap_or_default()
    }
}

impl Client {
    /// Connects, and opens a session if the revision has sessions.
    pub(crate) fn connect(transport: Box<dyn Transport>, revision: Revision) -> Self {
        let mut client = Self {
            transport,
            revision,
            official: Official::load(revision),
            next_id: 1,
            server_info: Value::Null,
            notifications: Vec::new(),
            questions: Vec::new(),
            problems: Vec::new(),
        };
        let response = if client.is_stateless() {
            client.request("server/discover", json!({}))
        } else {
            let client_info = json!({"name": "scenarios", "version": "1.0.0"});
            let params = json!({
                "protocolVersion": revision.as_str(),
                "capabilities": capabilities(),
                "clientInfo": client_info,
            });
            client.request("initialize", params)
        };
        match response {
            Ok(result) => client.server_info = result,
            Err(error) => client.problems.push(format!("the connection is rejected: {error:?}")),
        }
        if !client.is_stateless() {
            client.notify("notifications/initialized", json!({}));
        }
        client
    }

    pub(crate) fn is_stateless(&self) -> bool {
        self.revision.is_stateless()
    }

    /// Sends a request and answers the questions of the server. In 2026-07-28, retries the request until it completes.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let mut round = params.clone();
        for _ in 0..10 {
            let result = self.request_once(method, round)?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            let requests = result["inputRequests"].as_object().into_iter().flatten();
            self.questions.extend(requests.map(|(_, question)| question.clone()));
            round = next_round(&params, &result);
        }
        Err(RpcError(json!({"message": "the request did not complete in ten rounds"})))
    }

    /// Opens a subscription and returns the acknowledgement.
    pub(crate) fn listen(&mut self, filter: &Value) -> Result<Value, String> {
        let message = self.message("subscriptions/listen", json!({ "notifications": filter }));
        self.exchange(&message)?;
        let first = self.notifications.pop().ok_or("no acknowledgement received")?;
        if first["method"] != "notifications/subscriptions/acknowledged" {
            return Err(format!("expected an acknowledgement, received {first}"));
        }
        Ok(first["params"].clone())
    }

    fn message(&mut self, method: &str, mut params: Value) -> Value {
        if self.is_stateless() {
            let mut meta = json!({
                "io.modelcontextprotocol/protocolVersion": self.revision.as_str(),
                "io.modelcontextprotocol/clientInfo": {"name": "scenarios", "version": "1.0.0"},
                "io.modelcontextprotocol/clientCapabilities": capabilities(),
            });
            extend(&mut meta, &params["_meta"]);
            params["_meta"] = meta;
        }
        let id = self.next_id;
        self.next_id += 1;
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// Sends a request once and returns its result, which may be `input_required`.
    pub(crate) fn request_once(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let message = self.message(method, params);
        let response = match self.exchange(&message) {
            Ok(Some(response)) => response,
            Ok(None) => return Err(RpcError(json!({"message": "no response received"}))),
            Err(why) => return Err(RpcError(json!({ "message": why }))),
        };
        self.validate(&response, Some(method));
        match response.get("error") {
            Some(error) => Err(RpcError(error.clone())),
            None => Ok(response["result"].clone()),
        }
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Err(why) = self.exchange(&message) {
            self.problems.push(why);
        }
    }

    /// Waits for a notification outside of requests.
    pub(crate) fn wait_for(&mut self, method: &str) -> Result<Value, String> {
        if let Some(at) = self.notifications.iter().position(|message| message["method"] == method) {
            return Ok(self.notifications.remove(at));
        }
        let mut others = Vec::new();
        let found = self.transport.wait_for(method, &mut |message| {
            others.push(message);
            None
        });
        for message in others {
            self.validate(&message, None);
            self.notifications.push(message);
        }
        let found = found?;
        self.validate(&found, None);
        Ok(found)
    }

    /// Closes the connection, and returns every problem found.
    pub(crate) fn end(mut self) -> Vec<String> {
        let closed = self.transport.close();
        self.problems.extend(closed.err());
        self.problems
    }

    fn exchange(&mut self, message: &Value) -> Result<Option<Value>, String> {
        let (mut notifications, mut requests) = (Vec::new(), Vec::new());
        let result = self.transport.exchange(message, self.revision, &mut |message| {
            if message.get("id").is_none() {
                notifications.push(message);
                return None;
            }
            let result = answer(&message);
            let response = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            requests.push(message);
            Some(response)
        });
        for message in notifications.iter().chain(&requests) {
            self.validate(message, None);
        }
        self.notifications.append(&mut notifications);
        self.questions.append(&mut requests);
        result
    }

    fn validate(&mut self, message: &Value, method: Option<&str>) {
        let Some(official) = self.official else { return };
        self.problems.extend(official.problems(message, method).into_iter().map(|why| format!("{why}: {message}")));
    }
}

/// Returns the parameters that continue a request whose result was `input_required`.
pub(crate) fn next_round(params: &Value, result: &Value) -> Value {
    let requests = result["inputRequests"].as_object().into_iter().flatten();
    let answers: serde_json::Map<_, _> = requests.map(|(key, request)| (key.clone(), answer(request))).collect();
    let mut params = params.clone();
    params["inputResponses"] = answers.into();
    if let Some(state) = result.get("requestState") {
        params["requestState"] = state.clone();
    }
    params
}

/// Returns the capabilities that the client declares, in an encoding that is valid in every revision.
fn capabilities() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {"listChanged": true}})
}

/// Answers a request as a client with a cooperative user and model.
fn answer(request: &Value) -> Value {
    match request["method"].as_str() {
        Some("sampling/createMessage") => json!({
            "role": "assistant",
            "content": {"type": "text", "text": "This is a test response from the client"},
            "model": "test-model",
            "stopReason": "endTurn",
        }),
        Some("roots/list") => json!({"roots": [{"uri": "file:///test/root", "name": "Test Root"}]}),
        _ => json!({"action": "accept", "content": fill_in(&request["params"]["requestedSchema"]["properties"])}),
    }
}

/// Fills in a form with valid values.
fn fill_in(properties: &Value) -> Value {
    let filled = properties.as_object().into_iter().flatten().map(|(name, schema)| {
        let first = |choices: &Value, member: &str| match member {
            "" => choices[0].clone(),
            member => choices[0][member].clone(),
        };
        let value = match (schema["type"].as_str(), schema) {
            (Some("boolean"), _) => json!(true),
            (Some("integer" | "number"), _) => schema.get("minimum").cloned().unwrap_or(json!(1)),
            (Some("array"), _) if schema["items"].get("enum").is_some() => json!([first(&schema["items"]["enum"], "")]),
            (Some("array"), _) => json!([first(&schema["items"]["anyOf"], "const")]),
            (_, schema) if schema.get("enum").is_some() => first(&schema["enum"], ""),
            (_, schema) if schema.get("oneOf").is_some() => first(&schema["oneOf"], "const"),
            (_, schema) if schema["format"] == "email" => json!("test@example.com"),
            _ => json!("Alice"),
        };
        (name.clone(), value)
    });
    Value::Object(filled.collect())
}

fn extend(object: &mut Value, more: &Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
}
