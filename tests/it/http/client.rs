//! A small HTTP/1.1 client that can also misbehave.

use std::{net::SocketAddr, time::Duration};

use mcp_runtime::{
    BuiltServer, HttpOptions, Server,
    http::{self, Listener, ListenerOptions},
};
use memchr::memmem;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

use super::request::{Request, initialize};

/// Awaits a future with a generous timeout.
pub(super) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("timed out")
}

pub(super) async fn until(condition: impl Fn() -> bool) {
    soon(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// The options of an endpoint and its listener.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    pub(super) endpoint: HttpOptions,
    pub(super) listener: ListenerOptions,
}

impl From<HttpOptions> for Options {
    fn from(endpoint: HttpOptions) -> Self {
        Self { endpoint, ..Self::default() }
    }
}

impl From<ListenerOptions> for Options {
    fn from(listener: ListenerOptions) -> Self {
        Self { listener, ..Self::default() }
    }
}

impl From<(HttpOptions, ListenerOptions)> for Options {
    fn from((endpoint, listener): (HttpOptions, ListenerOptions)) -> Self {
        Self { endpoint, listener }
    }
}

/// A running server.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<std::io::Result<()>>,
}

impl Endpoint {
    pub(super) async fn start(server: Server, options: impl Into<Options>) -> Self {
        Self::serve(server.build().unwrap(), options).await
    }

    pub(super) async fn serve(server: BuiltServer, options: impl Into<Options>) -> Self {
        Self::serve_on(TcpListener::bind(("127.0.0.1", 0)).await.unwrap(), server, options)
    }

    /// Serves on a listener of a TCP address.
    pub(super) fn serve_on(listener: impl Into<Listener>, server: BuiltServer, options: impl Into<Options>) -> Self {
        let Options { endpoint, listener: options } = options.into();
        let (stop, stopped) = oneshot::channel::<()>();
        let listener = listener.into();
        let address = listener.address().unwrap().socket_addr().unwrap();
        let serving = http::serve(listener, server.into_http_service(endpoint).unwrap())
            .options(options)
            .with_graceful_shutdown(async { drop(stopped.await) });
        Self { address, stop: Some(stop), running: tokio::spawn(serving.into_future()) }
    }

    pub(super) async fn connect(&self) -> Connection {
        Connection::to(self.address).await
    }

    /// Sends a request on a new connection.
    pub(super) async fn open(&self, request: &Request) -> Response {
        self.connect().await.open(request).await
    }

    pub(super) async fn send(&self, request: &Request) -> FullResponse {
        self.open(request).await.full().await.0
    }

    /// Opens a session of a protocol version.
    pub(super) async fn session(&self, version: &'static str) -> Session<'_> {
        let opened = self.send(&initialize(version)).await;
        assert_eq!(opened.json()["result"]["protocolVersion"], version);
        let session = Session { endpoint: self, version, id: opened.header("mcp-session-id").unwrap().to_owned() };
        session.initialized().await;
        session
    }

    /// Stops the server without waiting for it.
    pub(super) fn stop(&mut self) {
        drop(self.stop.take());
    }

    pub(super) fn has_ended(&self) -> bool {
        self.running.is_finished()
    }

    /// Stops the server and waits until it has ended.
    pub(super) async fn stopped(mut self) {
        self.stop();
        soon(self.running).await.unwrap().unwrap();
    }
}

/// A session from the client's point of view.
#[derive(Debug)]
pub(super) struct Session<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) version: &'static str,
    pub(super) id: String,
}

impl Session<'_> {
    pub(super) fn wrap(&self, request: Request) -> Request {
        request.with("mcp-session-id", &self.id).with("mcp-protocol-version", self.version)
    }

    pub(super) fn post(&self, message: &Value) -> Request {
        self.wrap(Request::post(message))
    }

    pub(super) fn call(&self, id: u64, name: &str) -> Request {
        let params = json!({"name": name, "_meta": {"progressToken": id}});
        self.post(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
    }

    pub(super) fn ping(&self) -> Request {
        self.post(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"}))
    }

    /// Sends `notifications/initialized`.
    pub(super) async fn initialized(&self) {
        let initialized = self.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert_eq!(self.endpoint.send(&initialized).await.status, 202);
    }

    pub(super) fn cancel(&self, id: u64) -> Request {
        self.post(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
    }

    pub(super) fn get(&self) -> Request {
        self.wrap(Request::new("GET")).with("accept", "text/event-stream")
    }

    /// Resumes a stream after an event.
    pub(super) fn resume(&self, event: &str) -> Request {
        self.get().with("last-event-id", event)
    }

    pub(super) fn delete(&self) -> Request {
        self.wrap(Request::new("DELETE"))
    }

    pub(super) async fn is_alive(&self) -> bool {
        match self.endpoint.send(&self.ping()).await.status {
            200 => true,
            404 => false,
            other => panic!("{other}"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Connection(pub(super) BufReader<TcpStream>);

impl Connection {
    pub(super) async fn to(address: SocketAddr) -> Self {
        Self::through(TcpSocket::new_v4().unwrap(), address).await
    }

    /// Connects a socket. It receives little ahead of its reader, so that a test needs less data to fill the buffers
    /// between a server and a client that does not read.
    pub(super) async fn through(socket: TcpSocket, address: SocketAddr) -> Self {
        socket.set_recv_buffer_size(64 << 10).unwrap();
        Self(BufReader::new(soon(socket.connect(address)).await.unwrap()))
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) {
        soon(self.0.get_mut().write_all(bytes)).await.unwrap();
    }

    pub(super) async fn open(mut self, request: &Request) -> Response {
        self.write(&request.bytes()).await;
        self.response().await
    }

    /// Sends a request, and returns the connection with the response.
    pub(super) async fn send(self, request: &Request) -> (FullResponse, Self) {
        self.open(request).await.full().await
    }

    /// Reads the head of a response.
    pub(super) async fn response(mut self) -> Response {
        let line = self.line().await;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status: {line:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Response { status, headers, unread: Vec::new(), connection: self }
    }

    /// Waits until the server closes the connection, and discards its output.
    pub(super) async fn closed(mut self) {
        let _ = soon(self.0.read_to_end(&mut Vec::new())).await;
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        soon(self.0.read_line(&mut line)).await.unwrap();
        line.trim_end().to_owned()
    }
}

/// A response whose body has not been read yet.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    unread: Vec<u8>,
    connection: Connection,
}

/// An event of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) retry: Option<u64>,
    pub(super) data: String,
    pub(super) is_comment: bool,
}

impl Event {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Reads the next event. Returns `None` at the end of the stream, which must be complete.
    pub(super) async fn event(&mut self) -> Option<Event> {
        assert_eq!(self.header("content-type"), Some("text/event-stream"), "{self:?}");
        let mut searched = 0;
        loop {
            if let Some(end) = memmem::find(&self.unread[searched..], b"\n\n") {
                let event: Vec<_> = self.unread.drain(..searched + end + 2).collect();
                return Some(read_event(&String::from_utf8(event).unwrap()));
            }
            searched = self.unread.len().saturating_sub(1);
            let chunk = self.chunk().await;
            if chunk.is_empty() {
                assert!(self.unread.is_empty(), "incomplete event: {:?}", self.unread);
                return None;
            }
            self.unread.extend(chunk);
        }
    }

    /// Reads the next message of the stream, and skips events without a message. Keep-alive comments do not extend the
    /// time limit.
    pub(super) async fn message(&mut self) -> Option<Value> {
        soon(async {
            while let Some(event) = self.event().await {
                if !event.data.is_empty() {
                    return Some(event.json());
                }
            }
            None
        })
        .await
    }

    /// Reads every message up to the end of the stream.
    pub(super) async fn messages(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(message) = self.message().await {
            messages.push(message);
        }
        messages
    }

    /// Reads the rest of the body.
    pub(super) async fn full(mut self) -> (FullResponse, Connection) {
        let mut body = std::mem::take(&mut self.unread);
        match self.header("content-length").map(|length| length.parse().unwrap()) {
            Some(length) => {
                body.resize(length, 0);
                soon(self.connection.0.read_exact(&mut body)).await.unwrap();
            }
            None if self.header("transfer-encoding").is_none() => {}
            None => soon(self.rest(&mut body)).await,
        }
        (FullResponse { status: self.status, headers: self.headers, body }, self.connection)
    }

    /// Reads the remaining chunks of the body.
    async fn rest(&mut self, body: &mut Vec<u8>) {
        loop {
            let chunk = self.chunk().await;
            if chunk.is_empty() {
                return;
            }
            body.extend(chunk);
        }
    }

    async fn chunk(&mut self) -> Vec<u8> {
        if self.header("transfer-encoding") != Some("chunked") {
            assert_eq!(self.header("content-length"), Some("0"), "{self:?}");
            return Vec::new();
        }
        let size = self.connection.line().await;
        let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("invalid chunk size: {size:?}"));
        let mut chunk = vec![0; size + 2];
        soon(self.connection.0.read_exact(&mut chunk)).await.unwrap();
        chunk.truncate(size);
        chunk
    }
}

fn read_event(text: &str) -> Event {
    let mut event = Event::default();
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match name {
            "" => event.is_comment = true,
            "id" => event.id = Some(value),
            "event" => event.name = Some(value),
            "retry" => event.retry = Some(value.parse().unwrap()),
            "data" => event.data.push_str(&value),
            other => panic!("unknown field {other:?}"),
        }
    }
    event
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let value = values.next();
    assert_eq!(values.next(), None, "duplicate `{name}`");
    value
}

/// A complete response.
#[derive(Debug)]
pub(super) struct FullResponse {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl FullResponse {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    pub(super) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{:?}", String::from_utf8_lossy(&self.body)))
    }

    /// Returns the status and the error code, which is 0 for a result.
    pub(super) fn outcome(&self) -> (u16, i64) {
        let code = if self.body.is_empty() { 0 } else { self.json()["error"]["code"].as_i64().unwrap_or_default() };
        (self.status, code)
    }

    pub(super) fn text(&self) -> String {
        self.json()["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

/// Sends the head of a POST, and waits until the server asks for the body.
pub(super) async fn send_head(endpoint: &Endpoint, request: &Request) -> Connection {
    let mut connection = endpoint.connect().await;
    connection.write(request.head().as_bytes()).await;
    let mut interim = [0; 25];
    soon(connection.0.read_exact(&mut interim)).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    connection
}

/// Sends the body of a POST, and returns the response.
pub(super) async fn send_body(mut connection: Connection, request: &Request) -> FullResponse {
    connection.write(&request.bytes()[request.head().len()..]).await;
    connection.response().await.full().await.0
}
