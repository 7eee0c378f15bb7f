//! An HTTP/1.1 client that can also misbehave.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

/// The maximum time to wait for a response or an event.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client: an address of its own, which makes it a peer of its own, and perhaps a session.
#[derive(Debug, Clone)]
pub struct Client {
    server: SocketAddr,
    from: IpAddr,
    pub version: &'static str,
    pub session: Option<String>,
}

/// A connection of a client.
#[derive(Debug)]
pub struct Connection(pub BufReader<TcpStream>);

/// The head of a response.
#[derive(Debug)]
pub struct Head {
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Client {
    pub fn new(server: SocketAddr, number: u8, version: &'static str) -> Self {
        Self { server, from: Ipv4Addr::new(127, 0, 1, number).into(), version, session: None }
    }

    pub async fn connect(&self) -> io::Result<Connection> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(self.from, 0))?;
        Ok(Connection(BufReader::new(socket.connect(self.server).await?)))
    }

    /// Builds a request: its head and its body.
    pub fn request(&self, method: &str, headers: &str, body: &[u8]) -> Vec<u8> {
        let mut head = format!("{method} /mcp HTTP/1.1\r\nHost: localhost\r\n");
        if let Some(session) = &self.session {
            head += &format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {}\r\n", self.version);
        }
        head += headers;
        if method == "POST" {
            head += "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        [head.as_bytes(), b"\r\n", body].concat()
    }

    /// Builds a POST with a message.
    pub fn post(&self, message: &Value) -> Vec<u8> {
        if self.version != STATELESS {
            return self.request("POST", "", message.to_string().as_bytes());
        }
        let mut message = message.clone();
        message["params"]["_meta"] = meta();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let mut headers = format!("MCP-Protocol-Version: {STATELESS}\r\nMcp-Method: {method}\r\n");
        if let Some(name) = message["params"]["name"].as_str().or(message["params"]["uri"].as_str()) {
            headers += &format!("Mcp-Name: {name}\r\n");
        }
        self.request("POST", &headers, message.to_string().as_bytes())
    }

    /// Sends a POST on a new connection, and returns the status and the messages of the response.
    pub async fn send(&self, message: &Value) -> io::Result<(Head, Vec<Value>)> {
        let mut connection = self.connect().await?;
        connection.write(&self.post(message)).await?;
        connection.response().await
    }

    /// Opens a session.
    pub async fn open(&mut self) -> io::Result<bool> {
        self.session = None;
        let (head, messages) = self.send(&initialize(self.version)).await?;
        let is_open = head.status == 200 && messages.iter().any(|message| message.get("result").is_some());
        if self.version == STATELESS || !is_open {
            return Ok(is_open);
        }
        self.session = head.header("mcp-session-id").map(str::to_owned);
        let (head, _) = self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
        Ok(head.status == 202)
    }

    /// Sends a request without a body, and returns the head of the response.
    pub async fn bodiless(&self, method: &str, headers: &str) -> io::Result<(Head, Connection)> {
        let mut connection = self.connect().await?;
        connection.write(&self.request(method, headers, b"")).await?;
        let head = connection.head().await?;
        Ok((head, connection))
    }
}

impl Connection {
    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes).await
    }

    /// Reads the head of a response.
    pub async fn head(&mut self) -> io::Result<Head> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {first:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else { return Ok(Head { status, headers }) };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// Reads a response to its end.
    pub async fn response(&mut self) -> io::Result<(Head, Vec<Value>)> {
        let head = self.head().await?;
        let mut body = Vec::new();
        if let Some(length) = head.header("content-length").and_then(|length| length.parse().ok()) {
            body.resize(length, 0);
            timeout(PATIENCE, self.0.read_exact(&mut body)).await??;
        } else if head.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk().await? {
                body.extend(chunk);
            }
        }
        let messages = match head.header("content-type") {
            Some("text/event-stream") => events(&body),
            _ => serde_json::from_slice(&body).into_iter().collect(),
        };
        Ok((head, messages))
    }

    /// Reads a chunk of a body. Returns `None` at its end.
    pub async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = self.line().await?;
        let size = usize::from_str_radix(&size, 16).map_err(|_| io::Error::other(format!("no size: {size:?}")))?;
        let mut chunk = vec![0; size + 2];
        timeout(PATIENCE, self.0.read_exact(&mut chunk)).await??;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.0.read_line(&mut line)).await??;
        if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(line.trim_end().to_owned()) }
    }
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The revision without sessions.
pub const STATELESS: &str = "2026-07-28";

/// Returns the messages of complete events.
pub fn events(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(text);
    text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
}

pub fn initialize(version: &str) -> Value {
    let method = if version == STATELESS { "server/discover" } else { "initialize" };
    let client = json!({"name": "soak", "version": "1"});
    let params = json!({"protocolVersion": version, "capabilities": capabilities(), "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": "init", "method": method, "params": params})
}

pub fn call(id: u64, name: &str, arguments: &Value) -> Value {
    let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// Returns the `_meta` of a request of the stateless revision.
pub fn meta() -> Value {
    json!({
        "progressToken": 1,
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": capabilities(),
        "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
        "io.modelcontextprotocol/logLevel": "error",
    })
}

fn capabilities() -> Value {
    json!({"elicitation": {}, "sampling": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}
