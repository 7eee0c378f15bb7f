//! Requests, and checks of their responses.

use std::{borrow::Cow, collections::HashMap, time::Instant};

use serde_json::{Value, json};

use crate::error::{Failure, Result};

/// The argument of `echo`.
const TEXT: &str = "The quick brown fox jumps over the lazy dog";
/// The number of articles that `search` returns.
const ARTICLES: usize = 20;

/// A kind of request, whose response can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    Echo,
    /// `echo` with a text of 1 MiB.
    BigEcho,
    Add,
    /// `search`, with nested arguments and a structured result of 3.5 KB.
    Search,
    /// `tools/list`, of this many tools.
    List(usize),
    /// `job` as a task, which finishes at once.
    Task,
}

/// The protocol revision of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Revision {
    /// 2025-11-25, with a handshake and a session.
    Session,
    /// 2026-07-28, without sessions.
    Stateless,
}

impl Revision {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Session => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }
}

impl Operation {
    pub fn method(self) -> &'static str {
        match self {
            Self::List(_) => "tools/list",
            _ => "tools/call",
        }
    }

    pub fn tool(self) -> Option<&'static str> {
        match self {
            Self::Echo | Self::BigEcho => Some("echo"),
            Self::Add => Some("add"),
            Self::Search => Some("search"),
            Self::Task => Some("job"),
            Self::List(_) => None,
        }
    }

    fn text(self) -> Cow<'static, str> {
        match self {
            Self::BigEcho => Cow::Owned("mcp ".repeat(1 << 18)),
            _ => Cow::Borrowed(TEXT),
        }
    }

    fn arguments(self) -> Value {
        match self {
            Self::Echo | Self::BigEcho => json!({ "text": self.text() }),
            Self::Add => json!({ "a": 1.5, "b": 2.25 }),
            Self::Search => json!({
                "query": "oak desk",
                "filter": {
                    "tags": ["wood", "office"],
                    "price": { "min": 10.0, "max": 500.0 },
                    "seller": "North Woodworks",
                },
                "page": { "offset": 0, "limit": ARTICLES },
            }),
            Self::Task => json!({}),
            Self::List(_) => Value::Null,
        }
    }

    /// Returns the reason why a result is wrong, or `None` if it is correct.
    fn check(self, result: &Value) -> Option<&'static str> {
        let text = || result["content"][0]["text"].as_str().unwrap_or_default();
        if result["isError"] == true {
            return Some("is an error");
        }
        match self {
            Self::Echo | Self::BigEcho => (text() != self.text()).then_some("differs from the argument"),
            Self::Add => (text().parse() != Ok(3.75)).then_some("is not the sum"),
            Self::Search => check_search(&result["structuredContent"], text()),
            Self::List(tools) => {
                (result["tools"].as_array().map_or(0, Vec::len) != tools).then_some("has the wrong number of tools")
            }
            Self::Task => (!result["task"]["taskId"].is_string()).then_some("is not a task"),
        }
    }
}

fn check_search(found: &Value, text: &str) -> Option<&'static str> {
    let items = found["items"].as_array().map_or(&[][..], Vec::as_slice);
    let wrong = |(number, item): (usize, &Value)| {
        item["id"] != 100_000 + number || item["tags"][1] != "office" || item["seller"]["name"] != "North Woodworks"
    };
    if found["total"] != 1_234 || items.len() != ARTICLES || items.iter().enumerate().any(wrong) {
        return Some("has the wrong articles");
    }
    let same = serde_json::from_str::<Value>(text).is_ok_and(|text| text == *found);
    (!same).then_some("has text that differs from the structured content")
}

/// An encoded request without its id.
pub struct Request {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Request {
    pub fn new(operation: Operation, revision: Revision) -> Self {
        match operation.tool() {
            Some(name) => {
                let mut params = json!({ "name": name, "arguments": operation.arguments() });
                if operation == Operation::Task {
                    params["task"] = json!({});
                }
                Self::of(operation.method(), params, revision)
            }
            None => Self::of(operation.method(), json!({}), revision),
        }
    }

    /// Creates a call of a tool without arguments.
    pub fn call(name: &str, revision: Revision) -> Self {
        Self::of("tools/call", json!({ "name": name, "arguments": {} }), revision)
    }

    pub fn initialize() -> Self {
        let params = json!({
            "protocolVersion": Revision::Session.as_str(),
            "capabilities": {},
            "clientInfo": { "name": "load", "version": "0" },
        });
        Self::of("initialize", params, Revision::Session)
    }

    pub fn of(method: &str, mut params: Value, revision: Revision) -> Self {
        if revision == Revision::Stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": revision.as_str(),
                "io.modelcontextprotocol/clientInfo": { "name": "load", "version": "0" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let tail = format!(r#","method":"{method}","params":{params}}}"#);
        Self { head: br#"{"jsonrpc":"2.0","id":"#.to_vec(), tail: tail.into_bytes() }
    }

    /// Appends the request with an id.
    pub fn write(&self, id: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(id.to_string().as_bytes());
        out.extend_from_slice(&self.tail);
    }
}

/// The notification that ends the handshake.
pub const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The beginning of a notification that a server sends.
pub const NOTIFICATION: &[u8] = br#"{"jsonrpc":"2.0","method":"#;

/// Checks that each response belongs to a request in flight and has the correct result.
///
/// A response is parsed only if it differs from a correct one in more than the id.
pub struct ResponseChecker {
    operation: Operation,
    waiting: HashMap<u64, Instant>,
    next: u64,
    /// The bytes before and after the id in a correct response.
    known: Option<(Vec<u8>, Vec<u8>)>,
}

impl ResponseChecker {
    pub fn new(operation: Operation) -> Self {
        Self { operation, waiting: HashMap::new(), next: 1, known: None }
    }

    /// Returns the id for a request that is sent now.
    pub fn send(&mut self) -> u64 {
        self.next += 1;
        self.waiting.insert(self.next, Instant::now());
        self.next
    }

    /// Checks a response and returns when its request was sent.
    pub fn receive(&mut self, response: &[u8]) -> Result<Instant> {
        let id = match self.as_known(response) {
            Some(id) => id,
            None => self.parse(response)?,
        };
        self.waiting.remove(&id).ok_or_else(|| Failure::new(format!("response to unknown request {id}")))
    }

    fn as_known(&self, response: &[u8]) -> Option<u64> {
        let (head, tail) = self.known.as_ref()?;
        let id = response.strip_prefix(head.as_slice())?.strip_suffix(tail.as_slice())?;
        std::str::from_utf8(id).ok()?.parse().ok()
    }

    fn parse(&mut self, response: &[u8]) -> Result<u64> {
        let wrong = |why: &str| Failure::new(format!("{why}: {}", excerpt(response)));
        let message: Value =
            serde_json::from_slice(response).map_err(|error| wrong(&format!("invalid JSON ({error})")))?;
        let id = message["id"].as_u64().ok_or_else(|| wrong("response without an id"))?;
        if message["jsonrpc"] != "2.0" || !message["result"].is_object() {
            return Err(wrong("response without a result"));
        }
        if let Some(why) = self.operation.check(&message["result"]) {
            return Err(wrong(&format!("the result of {:?} {why}", self.operation)));
        }
        let encoded = format!(r#""id":{id}"#);
        self.known = find(response, encoded.as_bytes()).map(|at| {
            let end = at + encoded.len();
            (response[..at + r#""id":"#.len()].to_vec(), response[end..].to_vec())
        });
        Ok(id)
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// Returns the beginning of a message for error messages.
pub fn excerpt(message: &[u8]) -> String {
    String::from_utf8_lossy(&message[..message.len().min(300)]).into_owned()
}
