//! A connection that sends and receives messages as raw JSON.
//!
//! `check`, `lock` and `types` cannot use the official client: it rejects entries that it cannot decode, and drops members that
//! it does not know.

use std::{
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::{
    StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{
    failure::Failure,
    http_client::{http_client, parse_headers, read_body},
    process::Process,
    revision::Revision,
    sse::EventReader,
    target::Target,
};

/// A connection to a server.
pub(crate) enum RawConnection {
    Program(ProgramConnection),
    Http(HttpConnection),
}

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The server responded with a JSON-RPC error.
    Rpc { code: i64, message: String },
    /// The program exited. Holds its last line on stderr.
    Exited(String),
    /// The response is invalid.
    InvalidResponse(String),
    /// There is no response, for this reason.
    NoResponse(String),
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rpc { code, message } => write!(f, "{message} (code {code})"),
            Self::Exited(last) if last.is_empty() => f.write_str("the server exited"),
            Self::Exited(last) => write!(f, "the server exited; its last line on stderr: {last}"),
            Self::InvalidResponse(why) | Self::NoResponse(why) => f.write_str(why),
        }
    }
}

impl RawConnection {
    /// Starts a program, or creates a client for a URL.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be started or a header is invalid.
    pub(crate) fn open(target: &Target) -> Result<Self, Failure> {
        match target {
            Target::Program { program, args, env, .. } => {
                let mut command = Command::new(program);
                command.args(args).envs(env.iter().map(|(name, value)| (name, value)));
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut process = Process::start(&mut command).map_err(|error| {
                    Failure::connection(format_args!("cannot run `{}`: {error}", program.display()))
                })?;
                let stdin = process.child.stdin.take();
                let output = process.child.stdout.take().map(BufReader::new);
                let stderr = process.child.stderr.take().map(collect_tail).unwrap_or_default();
                Ok(Self::Program(ProgramConnection { process, stdin, output, stderr, stray_lines: Vec::new() }))
            }
            Target::Url { url, headers } => Ok(Self::Http(HttpConnection::new(url, headers)?)),
        }
    }

    /// Sends a request and waits for its response. Ignores notifications and requests from the server.
    pub(crate) async fn request(&mut self, message: &Value, time: Duration) -> Result<Value, RequestError> {
        self.exchange(message.to_string(), Some(message), time).await
    }

    /// Sends text that is not a message and waits for the error response.
    pub(crate) async fn send_raw(&mut self, text: &str, time: Duration) -> Result<Value, RequestError> {
        self.exchange(text.to_owned(), None, time).await
    }

    async fn exchange(&mut self, text: String, request: Option<&Value>, time: Duration) -> Result<Value, RequestError> {
        let is_response = |message: &Value| match request {
            Some(request) => message["id"] == request["id"] && message.get("method").is_none(),
            None => message.get("error").is_some(),
        };
        let response = async {
            match self {
                Self::Program(program) => {
                    program.write(&text).await?;
                    program.receive(is_response).await
                }
                Self::Http(http) => http.post(text, request).await,
            }
        };
        within(time, response).await
    }

    /// Sends a notification.
    pub(crate) async fn notify(&mut self, message: &Value, time: Duration) -> Result<(), RequestError> {
        let sent = async {
            match self {
                Self::Program(program) => program.write(&message.to_string()).await,
                Self::Http(http) => http.send(message.to_string(), Some(message)).await.map(drop),
            }
        };
        within(time, sent).await
    }

    /// Closes a program's stdin. Returns whether it exited in time, which is always true for a URL.
    pub(crate) async fn close(&mut self, time: Duration) -> bool {
        let Self::Program(program) = self else { return true };
        program.stdin = None;
        let exited = timeout(time, program.process.child.wait()).await.is_ok();
        if !exited {
            program.process.kill();
            let _ = program.process.child.wait().await;
        }
        exited
    }

    /// Returns the lines that a program printed to stdout and that are not messages.
    pub(crate) fn stray_lines(&self) -> &[String] {
        match self {
            Self::Program(program) => &program.stray_lines,
            Self::Http(_) => &[],
        }
    }

    /// Sets the revision that HTTP requests name in their headers.
    pub(crate) fn set_revision(&mut self, revision: Revision) {
        if let Self::Http(http) = self {
            http.revision = Some(revision);
        }
    }
}

/// The maximum size of a message in bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The maximum number of stray lines that are kept, and of the characters of each.
const MAX_STRAY_LINES: usize = 100;
const MAX_STRAY_CHARS: usize = 1000;

/// The maximum size of the kept end of stderr in bytes.
const MAX_STDERR_BYTES: usize = 8192;

/// A program that exchanges lines over pipes.
pub(crate) struct ProgramConnection {
    process: Process,
    stdin: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
    /// The end of its output on stderr.
    stderr: Arc<Mutex<String>>,
    stray_lines: Vec<String>,
}

impl ProgramConnection {
    async fn write(&mut self, line: &str) -> Result<(), RequestError> {
        let written = match &mut self.stdin {
            Some(stdin) => stdin.write_all(format!("{line}\n").as_bytes()).await.is_ok() && stdin.flush().await.is_ok(),
            None => false,
        };
        if written { Ok(()) } else { Err(self.exit_error().await) }
    }

    async fn receive(&mut self, matches: impl Fn(&Value) -> bool) -> Result<Value, RequestError> {
        loop {
            let Some(line) = self.line().await else { return Err(self.exit_error().await) };
            if line.len() > MAX_MESSAGE_BYTES {
                return Err(too_large());
            }
            let message =
                serde_json::from_slice::<Value>(&line).ok().filter(|message| message.is_object() || message.is_array());
            match message {
                Some(message) if matches(&message) => return Ok(message),
                None if self.stray_lines.len() < MAX_STRAY_LINES => {
                    let text = String::from_utf8_lossy(&line);
                    self.stray_lines.push(text.chars().take(MAX_STRAY_CHARS).collect());
                }
                _ => {}
            }
        }
    }

    /// Reads a line, or the beginning of one that is too large. Returns `None` at the end of the output.
    async fn line(&mut self) -> Option<Vec<u8>> {
        let output = self.output.as_mut()?;
        let mut line = Vec::new();
        let read = output.take(MAX_MESSAGE_BYTES as u64 + 1).read_until(b'\n', &mut line).await;
        if read.ok()? == 0 {
            return None;
        }
        let text = line.strip_suffix(b"\n").map_or(line.len(), <[u8]>::len);
        line.truncate(text);
        Some(line)
    }

    async fn exit_error(&mut self) -> RequestError {
        // Output from before the exit may still be in the pipe.
        let _ = timeout(Duration::from_millis(200), self.process.child.wait()).await;
        tokio::task::yield_now().await;
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        RequestError::Exited(stderr.trim().lines().last().unwrap_or_default().to_owned())
    }
}

/// Collects the end of a program's output on stderr.
fn collect_tail(mut stderr: tokio::process::ChildStderr) -> Arc<Mutex<String>> {
    let tail = Arc::new(Mutex::new(String::new()));
    let shared = Arc::clone(&tail);
    tokio::spawn(async move {
        let mut chunk = [0; 4096];
        while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
            let mut text = shared.lock().unwrap_or_else(PoisonError::into_inner);
            text.push_str(&String::from_utf8_lossy(&chunk[..length]));
            let start = text.len().saturating_sub(MAX_STDERR_BYTES);
            if let Some(start) = (start..text.len()).find(|index| text.is_char_boundary(*index)) {
                text.drain(..start);
            }
        }
    });
    tail
}

/// An HTTP endpoint.
pub(crate) struct HttpConnection {
    client: reqwest::Client,
    url: String,
    headers: HeaderMap,
    session: Option<HeaderValue>,
    revision: Option<Revision>,
}

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

impl HttpConnection {
    fn new(url: &str, headers: &[(String, String)]) -> Result<Self, Failure> {
        let mut all = HeaderMap::new();
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        all.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        for (name, value) in parse_headers(headers)? {
            all.insert(name, value);
        }
        let client = http_client()
            .map_err(|error| Failure::connection(format_args!("cannot create an HTTP client: {error}")))?;
        Ok(Self { client, url: url.to_owned(), headers: all, session: None, revision: None })
    }

    async fn post(&mut self, body: String, message: Option<&Value>) -> Result<Value, RequestError> {
        let response = self.send(body, message).await?;
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if content_type.is_some_and(|value| value.to_ascii_lowercase().starts_with("text/event-stream")) {
            let id = message.map(|message| &message["id"]);
            return read_response_event(EventReader::new(reqwest::Body::from(response)), id).await;
        }
        let status = response.status();
        let text = read_body(response, MAX_MESSAGE_BYTES).await;
        let text = text.map_err(|error| RequestError::InvalidResponse(root_cause(&error)))?.ok_or_else(too_large)?;
        match serde_json::from_slice::<Value>(&text) {
            Ok(response) if is_http_error(status, &response) => {
                let message = response["error"]["message"].as_str().unwrap_or_default();
                Err(http_error(format_args!("{status}: {message}")))
            }
            Ok(response) if response.is_object() || response.is_array() => Ok(response),
            _ if !status.is_success() => Err(http_error(status)),
            _ => Err(RequestError::InvalidResponse(format!("HTTP {status} without a JSON-RPC message"))),
        }
    }

    async fn send(&mut self, body: String, message: Option<&Value>) -> Result<reqwest::Response, RequestError> {
        let mut headers = self.headers.clone();
        if let Some(session) = &self.session {
            headers.insert(SESSION_ID, session.clone());
        }
        if let Some(revision) = self.revision {
            let value = HeaderValue::from_str(revision.as_str()).expect("a date is a valid header value");
            headers.insert("mcp-protocol-version", value);
        }
        if let Some(message) = message.filter(|_| self.revision.is_some_and(Revision::is_stateless)) {
            add_mirrored_headers(&mut headers, message);
        }
        let sent = self.client.post(&self.url).headers(headers).body(body).send().await;
        let response = sent.map_err(|error| RequestError::NoResponse(root_cause(&error)))?;
        if let Some(session) = response.headers().get(SESSION_ID) {
            self.session = Some(session.clone());
        }
        Ok(response)
    }
}

/// Waits for a response.
async fn within<T>(time: Duration, response: impl Future<Output = Result<T, RequestError>>) -> Result<T, RequestError> {
    let late = |_| Err(RequestError::NoResponse(format!("no response within {} s", time.as_secs())));
    timeout(time, response).await.unwrap_or_else(late)
}

fn http_error(status: impl std::fmt::Display) -> RequestError {
    RequestError::NoResponse(format!("the server returned HTTP {status}"))
}

fn too_large() -> RequestError {
    RequestError::InvalidResponse(format!("the response is larger than {} MiB", MAX_MESSAGE_BYTES >> 20))
}

/// Returns whether an HTTP error concerns the client or the path rather than the JSON-RPC request in it. The response
/// to an unknown method also has status 404.
fn is_http_error(status: StatusCode, response: &Value) -> bool {
    let is_candidate = matches!(status.as_u16(), 401 | 403 | 404 | 405) || status.is_server_error();
    is_candidate
        && !matches!(response["error"]["code"].as_i64(), Some(-32601 | -32603))
        && response.get("result").is_none()
}

/// Adds the headers that repeat parts of the message, as stateless revisions require.
fn add_mirrored_headers(headers: &mut HeaderMap, message: &Value) {
    let name = message["params"]["name"].as_str().or(message["params"]["uri"].as_str());
    for (header, value) in [("mcp-method", message["method"].as_str()), ("mcp-name", name)] {
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(encode_header_value(value)).ok()) {
            headers.insert(header, value);
        }
    }
}

/// Encodes a value that a header cannot contain, or that looks like an encoded one.
fn encode_header_value(value: &str) -> String {
    let is_plain = value.trim() == value && value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let is_encoded = value.starts_with("=?base64?") && value.ends_with("?=");
    if is_plain && !is_encoded { value.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(value)) }
}

/// Reads events until one contains the response to a request, or any response if `id` is `None`.
async fn read_response_event(mut events: EventReader, id: Option<&Value>) -> Result<Value, RequestError> {
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| RequestError::InvalidResponse(root_cause(&error)))?;
        let message = event.data.and_then(|data| serde_json::from_str::<Value>(&data).ok());
        let is_response = |message: &Value| message.get("method").is_none() && id.is_none_or(|id| message["id"] == *id);
        if let Some(response) = message.filter(is_response) {
            return Ok(response);
        }
    }
    Err(RequestError::InvalidResponse("the event stream ended without a response".to_owned()))
}

/// Returns the message of the innermost cause, which is the most specific.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn finds_the_response_among_events() {
        let (id, response) = (json!(1), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        let progress = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}";
        for (text, expected) in [
            (format!("data: {response}\n\n"), Some(&response)),
            (format!("id: 7\r\nevent: message\r\ndata: {response}\r\n\r\n"), Some(&response)),
            (format!(": hello\n\n{progress}\n\ndata:{response}\n\n"), Some(&response)),
            ("data: {\"jsonrpc\": \"2.0\",\ndata: \"id\": 1, \"result\": {}}\n\n".to_owned(), Some(&response)),
            // A request of the server may have the same id.
            (
                format!("data: {}\n\ndata: {response}\n\n", json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})),
                Some(&response),
            ),
            // The event is incomplete.
            (format!("data: {response}\n"), None),
            (format!("{progress}\n\n"), None),
            (format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": 2, "result": {}})), None),
        ] {
            let events = EventReader::new(axum::body::Body::from(text.clone()));
            assert_eq!(read_response_event(events, Some(&id)).await.ok().as_ref(), expected, "{text}");
        }
    }

    #[test]
    fn names_are_encoded_in_headers() {
        for (name, expected) in [
            ("us-west1", "us-west1"),
            ("a b", "a b"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("=?base64?literal", "=?base64?literal"),
        ] {
            for member in ["name", "uri"] {
                let mut headers = HeaderMap::new();
                let message = json!({"method": "tools/call", "params": {(member): name}});
                add_mirrored_headers(&mut headers, &message);
                assert_eq!(headers["mcp-method"], "tools/call");
                assert_eq!(headers.get("mcp-name").unwrap(), expected, "{name:?}");
            }
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_request_of_a_program_is_not_the_response() {
        let script = r#"read l
            echo '{"jsonrpc":"2.0","id":1,"method":"ping"}'
            echo '{"jsonrpc":"2.0","id":2,"result":{}}'
            echo '{"jsonrpc":"2.0","id":1,"result":{"own":true}}'
            cat > /dev/null"#;
        let args = vec!["-c".to_owned(), script.to_owned()];
        let target = Target::Program { name: "sh".to_owned(), program: "sh".into(), args, env: Vec::new() };
        let mut connection = RawConnection::open(&target).unwrap();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let response = connection.request(&request, Duration::from_secs(60)).await.unwrap();
        assert_eq!(response["result"]["own"], true);
    }

    /// A program may print lines without an end, each of any length.
    #[cfg(unix)]
    #[tokio::test]
    async fn the_lines_that_are_no_messages_are_kept_up_to_a_limit() {
        let script = r#"read l
            i=0; while [ $i -lt 101 ]; do printf 'x%01000d\n' $i; i=$((i+1)); done
            echo '{"jsonrpc":"2.0","id":1,"result":{}}'
            cat > /dev/null"#;
        let args = vec!["-c".to_owned(), script.to_owned()];
        let target = Target::Program { name: "sh".to_owned(), program: "sh".into(), args, env: Vec::new() };
        let mut connection = RawConnection::open(&target).unwrap();
        connection.request(&json!({"id": 1, "method": "ping"}), Duration::from_secs(60)).await.unwrap();
        let lengths: Vec<usize> = connection.stray_lines().iter().map(String::len).collect();
        assert_eq!(lengths, [1000; 100]);
    }

    /// Starts a server that returns three headers of a request, in a body with another content type if its path is `/events`.
    async fn start_mirror() -> String {
        let mirror = |uri: axum::http::Uri, headers: HeaderMap| async move {
            let names = ["mcp-protocol-version", "mcp-method", "mcp-name"];
            let values = names.map(|name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned));
            let response = json!({"jsonrpc": "2.0", "id": 1, "result": values});
            match uri.path() {
                "/events" => ([(CONTENT_TYPE, "Text/Event-Stream")], format!("data: {response}\n\n")),
                _ => ([(CONTENT_TYPE, "application/json")], response.to_string()),
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, axum::Router::new().fallback(mirror)).into_future());
        url
    }

    #[tokio::test]
    async fn requests_name_their_revision() {
        let target = Target::Url { url: start_mirror().await, headers: Vec::new() };
        let mut connection = RawConnection::open(&target).unwrap();
        let [initialize, call, read] = [
            json!({"id": 1, "method": "initialize", "params": {}}),
            json!({"id": 1, "method": "tools/call", "params": {"name": "it"}}),
            json!({"id": 1, "method": "resources/read", "params": {"uri": "a://b"}}),
        ];
        for (revision, request, expected) in [
            (None, &initialize, json!([null, null, null])),
            (Some("2025-11-25"), &call, json!(["2025-11-25", null, null])),
            (Some("2026-07-28"), &call, json!(["2026-07-28", "tools/call", "it"])),
            (Some("2026-07-28"), &read, json!(["2026-07-28", "resources/read", "a://b"])),
        ] {
            revision.and_then(Revision::parse).into_iter().for_each(|revision| connection.set_revision(revision));
            let response = connection.request(request, Duration::from_secs(60)).await.unwrap();
            assert_eq!(response["result"], expected, "{revision:?} {request}");
        }
    }

    #[tokio::test]
    async fn media_types_are_case_insensitive() {
        let target = Target::Url { url: format!("{}/events", start_mirror().await), headers: Vec::new() };
        let mut connection = RawConnection::open(&target).unwrap();
        let response = connection.request(&json!({"id": 1, "method": "ping"}), Duration::from_secs(60)).await.unwrap();
        assert_eq!(response["id"], 1);
    }

    #[test]
    fn distinguishes_http_errors_from_json_rpc_errors() {
        let error = |code: i64| json!({"error": {"code": code, "message": "no"}});
        for (status, response, expected) in [
            (StatusCode::NOT_FOUND, error(-32600), true),
            (StatusCode::UNAUTHORIZED, error(-32001), true),
            (StatusCode::NOT_FOUND, error(-32601), false),
            (StatusCode::INTERNAL_SERVER_ERROR, error(-32000), true),
            (StatusCode::INTERNAL_SERVER_ERROR, error(-32603), false),
            (StatusCode::BAD_REQUEST, error(-32602), false),
            (StatusCode::NOT_FOUND, json!({"result": {}}), false),
            (StatusCode::OK, json!({"result": {}}), false),
        ] {
            assert_eq!(is_http_error(status, &response), expected, "{status} {response}");
        }
    }
}
