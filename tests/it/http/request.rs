//! Building requests, valid and invalid ones.

use serde_json::{Value, json};

pub(super) fn initialize(version: &str) -> Request {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
    Request::post(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
}

/// Returns a request of 2026-07-28 with its headers.
pub(super) fn stateless(method: &str, params: &Value) -> Request {
    let mut params = params.clone();
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params["_meta"]["progressToken"] = json!(1);
    let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
    let request = Request::post(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        .with("MCP-Protocol-Version", "2026-07-28")
        .with("Mcp-Method", method);
    match name {
        Some(name) => request.with("Mcp-Name", &name),
        None => request,
    }
}

pub(super) fn call(name: &str) -> Request {
    stateless("tools/call", &json!({"name": name}))
}

#[derive(Debug, Clone)]
pub(super) struct Request {
    method: String,
    pub(super) path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(super) fn new(method: &str) -> Self {
        let host = ("host".to_owned(), "localhost".to_owned());
        Self { method: method.to_owned(), path: "/mcp".to_owned(), headers: vec![host], body: Vec::new() }
    }

    pub(super) fn post(message: &Value) -> Self {
        Self::new("POST")
            .with("content-type", "application/json")
            .with("accept", "application/json, text/event-stream")
            .body(message.to_string())
    }

    pub(super) fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    pub(super) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        let length = self.body.len().to_string();
        self.with("content-length", &length)
    }

    /// Sends the body without its length, if the request is converted by `into_http`.
    pub(super) fn without_length(self) -> Self {
        self.without("content-length").with("transfer-encoding", "chunked")
    }

    /// Changes the JSON body.
    pub(super) fn change(self, change: impl FnOnce(&mut Value)) -> Self {
        let mut message = serde_json::from_slice(&self.body).unwrap();
        change(&mut message);
        self.body(message.to_string())
    }

    /// Sets a header, and removes others with this name.
    pub(super) fn with(self, name: &str, value: &str) -> Self {
        self.without(name).and(name, value)
    }

    /// Adds a header, and keeps others with this name.
    pub(super) fn and(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Returns the method, path, headers and body.
    pub(super) fn into_parts(self) -> (String, String, Vec<(String, String)>, Vec<u8>) {
        (self.method, self.path, self.headers, self.body)
    }

    pub(super) fn head(&self) -> String {
        let lines: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{} {} HTTP/1.1\r\n{lines}\r\n", self.method, self.path)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        [self.head().as_bytes(), &self.body].concat()
    }
}
