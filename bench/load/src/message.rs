//! What is asked, and what must come back.

use std::{borrow::Cow, collections::HashMap, time::Instant};

use serde_json::{Value, json};

use crate::error::{Failure, Result};

/// What is said to `echo`.
const TEXT: &str = "The quick brown fox jumps over the lazy dog";
/// How many articles `search` is asked for.
const ARTICLES: usize = 20;

/// What a server is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    Echo,
    /// `echo` with a text of 1 MiB.
    BigEcho,
    Add,
    /// `search`, with nested arguments and a structured result of 3.5 KB.
    Search,
    /// `tools/list`, of this many tools.
    List(usize),
}

/// How a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Era {
    /// 2025-11-25: a handshake and a session.
    Session,
    /// 2026-07-28: each request stands alone.
    Stateless,
}

impl Era {
    pub fn revision(self) -> &'static str {
        match self {
            Self::Session => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }
}

impl Task {
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
            Self::List(_) => Value::Null,
        }
    }

    /// Says what is wrong with a result.
    fn judge(self, result: &Value) -> Option<&'static str> {
        let text = || result["content"][0]["text"].as_str().unwrap_or_default();
        if result["isError"] == true {
            return Some("is an error");
        }
        match self {
            Self::Echo | Self::BigEcho => (text() != self.text()).then_some("is not what was said"),
            Self::Add => (text().parse() != Ok(3.75)).then_some("is not the sum"),
            Self::Search => judge_search(&result["structuredContent"], text()),
            Self::List(tools) => {
                (result["tools"].as_array().map_or(0, Vec::len) != tools).then_some("has another number of tools")
            }
        }
    }
}

fn judge_search(found: &Value, text: &str) -> Option<&'static str> {
    let items = found["items"].as_array().map_or(&[][..], Vec::as_slice);
    let wrong = |(number, item): (usize, &Value)| {
        item["id"] != 100_000 + number || item["tags"][1] != "office" || item["seller"]["name"] != "North Woodworks"
    };
    if found["total"] != 1_234 || items.len() != ARTICLES || items.iter().enumerate().any(wrong) {
        return Some("is not what was searched for");
    }
    let same = serde_json::from_str::<Value>(text).is_ok_and(|text| text == *found);
    (!same).then_some("says something else as text")
}

/// A request with room for its id.
pub struct Request {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Request {
    pub fn new(task: Task, era: Era) -> Self {
        match task.tool() {
            Some(name) => Self::of(task.method(), json!({ "name": name, "arguments": task.arguments() }), era),
            None => Self::of(task.method(), json!({}), era),
        }
    }

    /// A call of a tool without arguments.
    pub fn call(name: &str, era: Era) -> Self {
        Self::of("tools/call", json!({ "name": name, "arguments": {} }), era)
    }

    pub fn initialize() -> Self {
        let params = json!({
            "protocolVersion": Era::Session.revision(),
            "capabilities": {},
            "clientInfo": { "name": "load", "version": "0" },
        });
        Self::of("initialize", params, Era::Session)
    }

    fn of(method: &str, mut params: Value, era: Era) -> Self {
        if era == Era::Stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": era.revision(),
                "io.modelcontextprotocol/clientInfo": { "name": "load", "version": "0" },
                "io.modelcontextprotocol/clientCapabilities": {},
            });
        }
        let tail = format!(r#","method":"{method}","params":{params}}}"#);
        Self { head: br#"{"jsonrpc":"2.0","id":"#.to_vec(), tail: tail.into_bytes() }
    }

    /// Appends the request.
    pub fn write(&self, id: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        out.extend_from_slice(id.to_string().as_bytes());
        out.extend_from_slice(&self.tail);
    }
}

/// The notification that ends a handshake.
pub const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Checks answers: each to a request that waits for it, each with the right result.
///
/// An answer is taken apart only if it differs from one that was right in more than the id.
pub struct Checker {
    task: Task,
    waiting: HashMap<u64, Instant>,
    next: u64,
    known: Option<(Vec<u8>, Vec<u8>)>,
}

impl Checker {
    pub fn new(task: Task) -> Self {
        Self { task, waiting: HashMap::new(), next: 1, known: None }
    }

    /// Gives the id of a request that is sent now.
    pub fn send(&mut self) -> u64 {
        self.next += 1;
        self.waiting.insert(self.next, Instant::now());
        self.next
    }

    /// Takes an answer, and tells when its request was sent.
    pub fn receive(&mut self, answer: &[u8]) -> Result<Instant> {
        let id = match self.as_known(answer) {
            Some(id) => id,
            None => self.take_apart(answer)?,
        };
        self.waiting.remove(&id).ok_or_else(|| Failure::new(format!("{id} was answered, but is not in flight")))
    }

    fn as_known(&self, answer: &[u8]) -> Option<u64> {
        let (head, tail) = self.known.as_ref()?;
        let id = answer.strip_prefix(head.as_slice())?.strip_suffix(tail.as_slice())?;
        std::str::from_utf8(id).ok()?.parse().ok()
    }

    fn take_apart(&mut self, answer: &[u8]) -> Result<u64> {
        let wrong = |why: &str| Failure::new(format!("{why}: {}", excerpt(answer)));
        let message: Value = serde_json::from_slice(answer).map_err(|error| wrong(&format!("no JSON ({error})")))?;
        let id = message["id"].as_u64().ok_or_else(|| wrong("an answer without id"))?;
        if message["jsonrpc"] != "2.0" || !message["result"].is_object() {
            return Err(wrong("no result"));
        }
        if let Some(why) = self.task.judge(&message["result"]) {
            return Err(wrong(&format!("the result of {:?} {why}", self.task)));
        }
        let spelled = format!(r#""id":{id}"#);
        self.known = find(answer, spelled.as_bytes()).map(|at| {
            let end = at + spelled.len();
            (answer[..at + r#""id":"#.len()].to_vec(), answer[end..].to_vec())
        });
        Ok(id)
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

/// The beginning of a message, for a person.
pub fn excerpt(message: &[u8]) -> String {
    String::from_utf8_lossy(&message[..message.len().min(300)]).into_owned()
}
