//! The server as a listening process, and the two HTTP transports.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio as Pipe},
};

use mcp_runtime::Revision;
use serde_json::Value;

use crate::{TIMEOUT, client::Transport};

/// A server process that listens for HTTP requests.
pub(crate) struct HttpServer {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl HttpServer {
    pub(crate) fn start(program: &Path) -> Self {
        let mut process = Command::new(program)
            .args(["--http", "127.0.0.1:0", "--legacy-sse"])
            .env("RUST_LOG", "error")
            .stdin(Pipe::null())
            .stderr(Pipe::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains(" listens on http://")).unwrap();
        let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
        // The log must be read, or the server would block when the pipe is full.
        std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
        Self { process, address }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A response whose body has not been read yet.
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<Body>,
}

/// A body with a known length, or a chunked one.
enum Body {
    Length(std::io::Take<BufReader<TcpStream>>),
    Chunked { stream: BufReader<TcpStream>, left: usize, is_complete: bool },
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Length(stream) => stream.read(into),
            Self::Chunked { is_complete: true, .. } => Ok(0),
            Self::Chunked { stream, left, is_complete } => {
                if *left == 0 {
                    let mut size = String::new();
                    stream.read_line(&mut size)?;
                    *left = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
                    if *left == 0 {
                        *is_complete = true;
                        return Ok(0);
                    }
                }
                let most = into.len().min(*left);
                let read = stream.read(&mut into[..most])?;
                *left -= read;
                if *left == 0 {
                    stream.read_line(&mut String::new())?;
                }
                Ok(read)
            }
        }
    }
}

fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Response, String> {
    let describe = |error: std::io::Error| format!("{method} {path}: {error}");
    let mut stream = TcpStream::connect(address).map_err(describe)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(describe)?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).map_err(describe)?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).map_err(describe)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(format!("no status: {line:?}"))?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        stream.read_line(&mut line).map_err(describe)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let is_chunked = headers.iter().any(|(name, _)| name == "transfer-encoding");
    let body = if is_chunked {
        Body::Chunked { stream, left: 0, is_complete: false }
    } else {
        Body::Length(stream.take(length.unwrap_or(0)))
    };
    Ok(Response { status, headers, body: BufReader::new(body) })
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reads the next event with data, and returns its name and data. Returns `None` at the end of the stream.
    fn event(&mut self) -> Result<Option<(String, String)>, String> {
        let (mut name, mut data) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.body.read_line(&mut line).map_err(|error| format!("cannot read the stream: {error}"))? == 0 {
                return Ok(None);
            }
            match line.trim_end().split_once(": ") {
                Some(("event", value)) => value.clone_into(&mut name),
                Some(("data", value)) => data.push_str(value),
                _ if line.trim().is_empty() && !data.is_empty() => return Ok(Some((name, data))),
                _ => {}
            }
        }
    }

    fn message(&mut self) -> Result<Option<Value>, String> {
        let Some((_, data)) = self.event()? else { return Ok(None) };
        serde_json::from_str(&data).map(Some).map_err(|error| format!("{error}: {data}"))
    }
}

fn is_request(message: &Value) -> bool {
    message.get("method").is_some() && message.get("id").is_some()
}

/// Streamable HTTP, with sessions or stateless requests.
pub(crate) struct Streamable {
    address: SocketAddr,
    session: Option<String>,
    /// The general stream of a session, or the stream of a subscription.
    stream: Option<Response>,
}

impl Streamable {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, session: None, stream: None }
    }

    fn post(&self, message: &Value, revision: Revision) -> Result<Response, String> {
        let mut headers = vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
        let method = message["method"].as_str().unwrap_or_default();
        let subject = ["name", "uri"].iter().find_map(|name| message["params"][name].as_str());
        if revision.is_stateless() {
            headers.extend([("mcp-protocol-version", revision.as_str()), ("mcp-method", method)]);
            if let (Some(subject), "tools/call" | "prompts/get" | "resources/read") = (subject, method) {
                headers.push(("mcp-name", subject));
            }
        } else if let Some(session) = &self.session {
            headers.extend([("mcp-session-id", session.as_str()), ("mcp-protocol-version", revision.as_str())]);
        }
        send(self.address, "POST", "/mcp", &headers, &message.to_string())
    }
}

impl Transport for Streamable {
    fn exchange(
        &mut self,
        message: &Value,
        revision: Revision,
        on_message: &mut dyn FnMut(Value) -> Option<Value>,
    ) -> Result<Option<Value>, String> {
        let mut response = self.post(message, revision)?;
        if !is_request(message) {
            return match response.status {
                202 => Ok(None),
                status => Err(format!("a message other than a request was answered with {status}")),
            };
        }
        if let Some(session) = response.header("mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        if response.header("content-type") == Some("application/json") {
            let mut body = String::new();
            response.body.read_to_string(&mut body).map_err(|error| error.to_string())?;
            return serde_json::from_str(&body).map(Some).map_err(|error| format!("{error}: {body}"));
        }
        if message["method"] == "subscriptions/listen" {
            let first = response.message()?;
            self.stream = Some(response);
            if let Some(first) = first {
                on_message(first);
            }
            return Ok(None);
        }
        while let Some(incoming) = response.message()? {
            if incoming.get("method").is_none() && incoming["id"] == message["id"] {
                return match response.message()? {
                    None => Ok(Some(incoming)),
                    Some(more) => Err(format!("unexpected message after the response: {more}")),
                };
            }
            if let Some(answer) = on_message(incoming) {
                let accepted = self.post(&answer, revision)?;
                if accepted.status != 202 {
                    return Err(format!("a response was answered with {}", accepted.status));
                }
            }
        }
        Ok(None)
    }

    fn wait_for(&mut self, method: &str, on_message: &mut dyn FnMut(Value) -> Option<Value>) -> Result<Value, String> {
        if self.stream.is_none() {
            let session = self.session.as_deref().ok_or("no session is open")?;
            let headers = [("accept", "text/event-stream"), ("mcp-session-id", session)];
            self.stream = Some(send(self.address, "GET", "/mcp", &headers, "")?);
        }
        let stream = self.stream.as_mut().ok_or("no stream is open")?;
        while let Some(incoming) = stream.message()? {
            if incoming["method"] == method {
                return Ok(incoming);
            }
            on_message(incoming);
        }
        Err("the stream ended".to_owned())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(session) = &self.session else { return Ok(()) };
        let headers = [("mcp-session-id", session.as_str())];
        match send(self.address, "DELETE", "/mcp", &headers, "")?.status {
            200..300 => Ok(()),
            status => Err(format!("the request to end the session was answered with {status}")),
        }
    }
}

/// The transport of 2024-11-05: a stream for the messages of the server, and a path for those of the client.
pub(crate) struct Legacy {
    address: SocketAddr,
    stream: Response,
    path: String,
}

impl Legacy {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let mut stream = send(address, "GET", "/sse", &[("accept", "text/event-stream")], "").unwrap();
        let (name, path) = stream.event().unwrap().unwrap();
        assert_eq!(name, "endpoint");
        Self { address, stream, path }
    }

    fn post(&self, message: &Value) -> Result<(), String> {
        let headers = [("content-type", "application/json")];
        match send(self.address, "POST", &self.path, &headers, &message.to_string())?.status {
            202 => Ok(()),
            status => Err(format!("a message was answered with {status}")),
        }
    }
}

impl Transport for Legacy {
    fn exchange(
        &mut self,
        message: &Value,
        _: Revision,
        on_message: &mut dyn FnMut(Value) -> Option<Value>,
    ) -> Result<Option<Value>, String> {
        self.post(message)?;
        if !is_request(message) {
            return Ok(None);
        }
        while let Some(incoming) = self.stream.message()? {
            if incoming.get("method").is_none() && incoming["id"] == message["id"] {
                return Ok(Some(incoming));
            }
            if let Some(answer) = on_message(incoming) {
                self.post(&answer)?;
            }
        }
        Ok(None)
    }

    fn wait_for(&mut self, method: &str, on_message: &mut dyn FnMut(Value) -> Option<Value>) -> Result<Value, String> {
        while let Some(incoming) = self.stream.message()? {
            if incoming["method"] == method {
                return Ok(incoming);
            }
            on_message(incoming);
        }
        Err("the stream ended".to_owned())
    }

    fn close(&mut self) -> Result<(), String> {
        Ok(())
    }
}
