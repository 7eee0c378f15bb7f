//! A client of any revision over any wire.

use std::{cell::RefCell, rc::Rc};

use mcp_runtime::Revision;
use mcp_tests::schemas::Official;
use serde_json::{Value, json};

/// Brings messages to the server, and back what it says.
pub(crate) trait Wire {
    /// Sends a message. Where it is a request, waits for its response, or of one that listens for the first notification; whatever
    /// else the server says meanwhile is `heard`, and what that gives is sent as the client's own answer.
    fn exchange(
        &mut self,
        message: &Value,
        revision: Revision,
        heard: &mut dyn FnMut(Value) -> Option<Value>,
    ) -> Result<Option<Value>, String>;

    /// Reads what comes on the wire by itself, up to a notification of a method.
    fn wait_for(&mut self, method: &str, heard: &mut dyn FnMut(Value) -> Option<Value>) -> Result<Value, String>;

    /// Ends the connection, and says what is wrong with the way the server takes it.
    fn close(&mut self) -> Result<(), String>;
}

/// One client, and everything that it was told.
pub(crate) struct Client {
    wire: Box<dyn Wire>,
    pub(crate) revision: Revision,
    official: Rc<RefCell<Option<Official>>>,
    next_id: u64,
    /// The result of `initialize`, or of `server/discover`.
    pub(crate) introduction: Value,
    /// The notifications that came, oldest first.
    pub(crate) heard: Vec<Value>,
    /// The requests of the server that came.
    pub(crate) asked: Vec<Value>,
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
    /// Connects, and opens a session where the revision has them.
    pub(crate) fn connect(wire: Box<dyn Wire>, revision: Revision, official: Rc<RefCell<Option<Official>>>) -> Self {
        let mut client = Self {
            wire,
            revision,
            official,
            next_id: 1,
            introduction: Value::Null,
            heard: Vec::new(),
            asked: Vec::new(),
            problems: Vec::new(),
        };
        let introduced = if client.is_stateless() {
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
        match introduced {
            Ok(introduction) => client.introduction = introduction,
            Err(error) => client.problems.push(format!("it is not introduced: {error:?}")),
        }
        if !client.is_stateless() {
            client.notify("notifications/initialized", json!({}));
        }
        client
    }

    pub(crate) fn is_stateless(&self) -> bool {
        self.revision.is_stateless()
    }

    /// Sends a request, answers what is asked meanwhile, and in 2026-07-28 calls again until it is done.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let mut round = params.clone();
        for _ in 0..10 {
            let result = self.request_once(method, round)?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            let requests = result["inputRequests"].as_object().into_iter().flatten();
            self.asked.extend(requests.map(|(_, asked)| asked.clone()));
            round = go_on(&params, &result);
        }
        Err(RpcError(json!({"message": "it asked ten times"})))
    }

    /// Listens for changes, and gives the acknowledgement.
    pub(crate) fn listen(&mut self, filter: &Value) -> Result<Value, String> {
        let message = self.message("subscriptions/listen", json!({ "notifications": filter }));
        self.exchange(&message)?;
        let first = self.heard.pop().ok_or("nothing came")?;
        if first["method"] != "notifications/subscriptions/acknowledged" {
            return Err(format!("the first message is {first}"));
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

    /// Sends a request, and gives its result whatever that is.
    pub(crate) fn request_once(&mut self, method: &str, params: Value) -> Result<Value, RpcError> {
        let message = self.message(method, params);
        let response = match self.exchange(&message) {
            Ok(Some(response)) => response,
            Ok(None) => return Err(RpcError(json!({"message": "there is no answer"}))),
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

    /// Waits for a notification that comes by itself.
    pub(crate) fn wait_for(&mut self, method: &str) -> Result<Value, String> {
        if let Some(at) = self.heard.iter().position(|told| told["method"] == method) {
            return Ok(self.heard.remove(at));
        }
        let (mut heard, wire) = (Vec::new(), &mut self.wire);
        let found = wire.wait_for(method, &mut |message| {
            heard.push(message);
            None
        });
        for message in heard {
            self.validate(&message, None);
            self.heard.push(message);
        }
        let found = found?;
        self.validate(&found, None);
        Ok(found)
    }

    /// Ends the connection, and gives everything that was wrong with what came.
    pub(crate) fn end(mut self) -> Vec<String> {
        let closed = self.wire.close();
        self.problems.extend(closed.err());
        self.problems
    }

    fn exchange(&mut self, message: &Value) -> Result<Option<Value>, String> {
        let (mut notifications, mut requests) = (Vec::new(), Vec::new());
        let result = self.wire.exchange(message, self.revision, &mut |message| {
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
        self.heard.append(&mut notifications);
        self.asked.append(&mut requests);
        result
    }

    fn validate(&mut self, message: &Value, method: Option<&str>) {
        let mut official = self.official.borrow_mut();
        let Some(official) = official.as_mut() else { return };
        self.problems.extend(official.problems(message, method).into_iter().map(|why| format!("{why}: {message}")));
    }
}

/// The parameters of the next round of a request that ended with questions.
pub(crate) fn go_on(params: &Value, result: &Value) -> Value {
    let requests = result["inputRequests"].as_object().into_iter().flatten();
    let answers: serde_json::Map<_, _> = requests.map(|(key, request)| (key.clone(), answer(request))).collect();
    let mut params = params.clone();
    params["inputResponses"] = answers.into();
    if let Some(state) = result.get("requestState") {
        params["requestState"] = state.clone();
    }
    params
}

/// What the client can be asked, in the words of every revision.
fn capabilities() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {"listChanged": true}})
}

/// What a friendly user, model or client says.
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

/// Fills in a form with what fits.
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
