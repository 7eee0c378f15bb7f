//! An upstream that sends what a test tells it to.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

pub(crate) enum Reply {
    Result(Value),
    Error(Value),
    /// A body that is not wrapped.
    Body(String),
    /// A status line and headers, without a body.
    Head(String),
    Hang,
    /// A result that is sent once the signal has a permit.
    Late(Arc<Semaphore>, Value),
    /// A stream of messages, and a result at its end. The id `"own"` becomes the id of the request.
    Events(Vec<Value>, Value),
    /// Messages on a stream that stays open.
    Open(Vec<Value>),
    /// The acknowledgement of a subscription, whose stream stays open.
    Subscribed,
    /// The reply to a GET request: a stream that opens once the signal has a permit, and stays open.
    Stream(Arc<Semaphore>),
    /// The reply to a GET request: a stream that ends as soon as the signal has a permit, and that the client soon opens again.
    Ended(Arc<Semaphore>),
    /// The same, with an event from which the client resumes the stream.
    Resumable(Arc<Semaphore>),
}

pub(crate) struct Fake {
    pub(crate) address: String,
    /// The heads of the requests.
    pub(crate) heads: Arc<Mutex<Vec<String>>>,
    /// The methods of the messages.
    pub(crate) methods: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// Returns how often a method was called.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.methods.lock().unwrap().iter().filter(|called| *called == method).count()
    }
}

/// Starts an upstream of 2026-07-28.
pub(crate) async fn start_stateless(reply: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Fake {
    start(move |method, params| match method {
        "server/discover" => discovered(json!({"tools": {}})),
        "subscriptions/listen" => Reply::Error(json!({"code": -32601, "message": "none"})),
        _ => reply(method, params),
    })
    .await
}

/// Returns the reply to `server/discover`.
pub(crate) fn discovered(capabilities: Value) -> Reply {
    Reply::Result(json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "ttlMs": 0,
        "cacheScope": "private",
    }))
}

/// Starts an upstream of 2025-06-18, unless `reply` has a result for a handshake.
pub(crate) async fn start(reply: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Fake {
    start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), reply)
}

pub(crate) fn start_on(listener: TcpListener, reply: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Fake {
    let address = listener.local_addr().unwrap().to_string();
    let (heads, methods) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Vec<String>>>::default());
    let (seen, reply) = ((Arc::clone(&heads), Arc::clone(&methods)), Arc::new(reply));
    tokio::spawn(async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            tokio::spawn(serve(client, seen.clone(), Arc::clone(&reply)));
        }
    });
    Fake { address, heads, methods }
}

type Seen = (Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<String>>>);

async fn serve<F: Fn(&str, &Value) -> Reply>(mut client: TcpStream, (heads, methods): Seen, reply: Arc<F>) {
    let mut buffer = Vec::new();
    loop {
        let (head, request) = loop {
            if let Some(end) = buffer.windows(4).position(|part| part == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
                let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
                let length: usize = length.unwrap_or(0);
                if buffer.len() >= end + 4 + length {
                    let request: Value = serde_json::from_slice(&buffer[end + 4..end + 4 + length]).unwrap_or_default();
                    buffer.drain(..end + 4 + length);
                    break (head, request);
                }
            }
            if client.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        };
        heads.lock().unwrap().push(head);
        methods.lock().unwrap().extend(request["method"].as_str().map(str::to_owned));
        let wrapped =
            |member: &str, value: Value| json!({"jsonrpc": "2.0", "id": request["id"], member: value}).to_string();
        let body = match (request["method"].as_str(), request["id"].is_null()) {
            (Some(method @ "server/discover"), _) => match reply(method, &request["params"]) {
                Reply::Result(result) if !result["supportedVersions"].is_null() => Reply::Result(result),
                other @ (Reply::Error(_) | Reply::Hang) => other,
                _ => Reply::Head("400 Bad Request\r\n".to_owned()),
            },
            (None, _) => match reply("GET", &Value::Null) {
                stream @ (Reply::Stream(_) | Reply::Ended(_) | Reply::Resumable(_)) => stream,
                _ => Reply::Head("405 Method Not Allowed\r\n".to_owned()),
            },
            (_, true) => Reply::Head("202 Accepted\r\n".to_owned()),
            (Some(method @ "initialize"), _) => match reply(method, &request["params"]) {
                Reply::Result(result) if !result["protocolVersion"].is_null() => Reply::Result(result),
                _ => Reply::Result(json!({
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}, "resources": {"subscribe": true}, "prompts": {}},
                    "serverInfo": {"name": "fake", "version": "1"},
                })),
            },
            (Some(method), _) => reply(method, &request["params"]),
        };
        let mut response = match body {
            Reply::Hang => std::future::pending().await,
            Reply::Late(signal, result) => {
                signal.acquire().await.unwrap().forget();
                with_body(&wrapped("result", result))
            }
            Reply::Stream(signal) => {
                signal.acquire().await.unwrap().forget();
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_owned()
            }
            Reply::Ended(ref signal) | Reply::Resumable(ref signal) => {
                signal.acquire().await.unwrap().forget();
                let id = if matches!(body, Reply::Resumable(_)) { "id: 1\n" } else { "" };
                let body = format!("{id}retry: 50\ndata: end\n\n");
                let head = format!("content-type: text/event-stream\r\ncontent-length: {}", body.len());
                format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}")
            }
            Reply::Open(messages) => {
                let body: String = messages.iter().map(|message| format!("data: {message}\n\n")).collect();
                format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{body}")
            }
            Reply::Subscribed => {
                let acknowledged = json!({
                    "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                    "params": {
                        "_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]},
                        "notifications": request["params"]["notifications"],
                    },
                });
                format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {acknowledged}\n\n")
            }
            Reply::Events(messages, result) => {
                let mut body = String::new();
                for mut message in
                    messages.into_iter().chain([json!({"jsonrpc": "2.0", "id": "own", "result": result})])
                {
                    if message["id"] == "own" {
                        message["id"] = request["id"].clone();
                    }
                    body += &format!("data: {message}\n\n");
                }
                let head = format!("content-type: text/event-stream\r\ncontent-length: {}", body.len());
                format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}")
            }
            Reply::Head(head) => format!("HTTP/1.1 {head}content-length: 0\r\n\r\n"),
            Reply::Body(body) => with_body(&body),
            Reply::Result(result) => with_body(&wrapped("result", result)),
            Reply::Error(error) => with_body(&wrapped("error", error)),
        };
        if request["method"] == "initialize"
            && matches!(reply("GET", &Value::Null), Reply::Stream(_) | Reply::Ended(_) | Reply::Resumable(_))
        {
            // Only sessions have such a stream.
            response = response.replacen("\r\n", "\r\nmcp-session-id: 1\r\n", 1);
        }
        if client.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn with_body(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Returns the reply to a request for a list.
pub(crate) fn lists(method: &str, tools: Value) -> Reply {
    Reply::Result(match method {
        "tools/list" => json!({ "tools": tools }),
        "resources/list" => json!({ "resources": [] }),
        "resources/templates/list" => json!({ "resourceTemplates": [] }),
        "prompts/list" => json!({ "prompts": [] }),
        _ => json!({}),
    })
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}
