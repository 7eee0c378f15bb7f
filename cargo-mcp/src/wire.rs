//! Messages to a server as they travel, for what looks at how a server answers and not only at what.
//!
//! The official client, which everything else here uses, forgives and forgets: an entry that it cannot read is an error, and a member that
//! it does not know is gone.

use std::{
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{
    StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{failure::Failure, revision::Revision, target::Target};

/// A connection that knows nothing of the protocol but where a message ends.
pub(crate) enum Wire {
    Program(Program),
    Http(Http),
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The server has gone; what it said last on stderr.
    Gone(String),
    /// There is nobody at the address.
    Unreachable(String),
    /// HTTP refused, with nothing of the protocol.
    Refused(String),
    /// Nothing came in time.
    Silent(Duration),
    /// Something came, and it is no answer.
    Unreadable(String),
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone(last) if last.is_empty() => f.write_str("the server has gone"),
            Self::Gone(last) => write!(f, "the server has gone; its last words: {last}"),
            Self::Unreachable(why) => f.write_str(why),
            Self::Refused(status) => write!(f, "it answers HTTP {status}"),
            Self::Silent(time) => write!(f, "no answer came within {} s", time.as_secs()),
            Self::Unreadable(why) => f.write_str(why),
        }
    }
}

impl Wire {
    /// Starts a program, or makes ready for a URL.
    ///
    /// # Errors
    ///
    /// The program cannot be started, or a header is none.
    pub(crate) fn open(target: &Target) -> Result<Self, Failure> {
        match target {
            Target::Program { program, args, env, .. } => {
                let mut command = Command::new(program);
                command.args(args).envs(env.iter().map(|(name, value)| (name, value)));
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
                let mut child = command.spawn().map_err(|error| {
                    Failure::connection(format_args!("`{}` cannot be started: {error}", program.display()))
                })?;
                let stdin = child.stdin.take();
                let output = child.stdout.take().map(|stdout| BufReader::new(stdout).lines());
                let last_words = child.stderr.take().map(listen).unwrap_or_default();
                Ok(Self::Program(Program { child, stdin, output, last_words, noise: Vec::new() }))
            }
            Target::Url { url, headers } => Ok(Self::Http(Http::new(url, headers)?)),
        }
    }

    /// Sends a request and waits for its answer; what comes before is for others.
    pub(crate) async fn request(&mut self, message: &Value, time: Duration) -> Result<Value, Lost> {
        let answer = async {
            match self {
                Self::Program(program) => {
                    program.write(&message.to_string()).await?;
                    program.answer(|answer| answer["id"] == message["id"] && answer.get("method").is_none()).await
                }
                Self::Http(http) => http.post(message.to_string(), Some(message)).await,
            }
        };
        timeout(time, answer).await.unwrap_or(Err(Lost::Silent(time)))
    }

    /// Sends a notification.
    pub(crate) async fn notify(&mut self, message: &Value, time: Duration) -> Result<(), Lost> {
        let sent = async {
            match self {
                Self::Program(program) => program.write(&message.to_string()).await,
                Self::Http(http) => http.send(message.to_string(), Some(message)).await.map(drop),
            }
        };
        timeout(time, sent).await.unwrap_or(Err(Lost::Silent(time)))
    }

    /// Sends what is no message, and waits for what is said of it.
    pub(crate) async fn send_raw(&mut self, text: &str, time: Duration) -> Result<Value, Lost> {
        let answer = async {
            match self {
                Self::Program(program) => {
                    program.write(text).await?;
                    program.answer(|answer| answer.get("error").is_some()).await
                }
                Self::Http(http) => http.post(text.to_owned(), None).await,
            }
        };
        timeout(time, answer).await.unwrap_or(Err(Lost::Silent(time)))
    }

    /// Ends the input of a program, and says whether it ended for that in time; true for what is not ours to end.
    pub(crate) async fn close(&mut self, time: Duration) -> bool {
        let Self::Program(program) = self else { return true };
        program.stdin = None;
        let ended = timeout(time, program.child.wait()).await.is_ok();
        if !ended {
            let _ = program.child.kill().await;
        }
        ended
    }

    /// What a program printed to stdout that was no message.
    pub(crate) fn noise(&self) -> &[String] {
        match self {
            Self::Program(program) => &program.noise,
            Self::Http(_) => &[],
        }
    }

    /// Speaks in a revision from now on, for HTTP.
    pub(crate) fn speaks(&mut self, revision: Revision) {
        if let Self::Http(http) = self {
            http.revision = Some(revision);
        }
    }
}

/// The most lines that are kept of what is no message.
const LOUDEST: usize = 100;

/// A program at the other end of two pipes.
pub(crate) struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    output: Option<Lines<BufReader<ChildStdout>>>,
    last_words: Arc<Mutex<String>>,
    noise: Vec<String>,
}

impl Program {
    async fn write(&mut self, line: &str) -> Result<(), Lost> {
        let written = match &mut self.stdin {
            Some(stdin) => stdin.write_all(format!("{line}\n").as_bytes()).await.is_ok() && stdin.flush().await.is_ok(),
            None => false,
        };
        if written { Ok(()) } else { Err(self.gone().await) }
    }

    async fn answer(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<Value, Lost> {
        loop {
            let line = match &mut self.output {
                Some(output) => output.next_line().await,
                None => Ok(None),
            };
            let Ok(Some(line)) = line else { return Err(self.gone().await) };
            let message =
                serde_json::from_str::<Value>(&line).ok().filter(|message| message.is_object() || message.is_array());
            match message {
                Some(message) if is_it(&message) => return Ok(message),
                None if self.noise.len() < LOUDEST => self.noise.push(line),
                _ => {}
            }
        }
    }

    async fn gone(&mut self) -> Lost {
        // What it wrote before it went may still be on the way.
        let _ = timeout(Duration::from_millis(200), self.child.wait()).await;
        tokio::task::yield_now().await;
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        Lost::Gone(words.trim().lines().last().unwrap_or_default().to_owned())
    }
}

/// Keeps the end of what a program writes to stderr.
fn listen(mut stderr: tokio::process::ChildStderr) -> Arc<Mutex<String>> {
    let kept = Arc::new(Mutex::new(String::new()));
    let keeper = Arc::clone(&kept);
    tokio::spawn(async move {
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = stderr.read(&mut piece).await {
            let mut words = keeper.lock().unwrap_or_else(PoisonError::into_inner);
            words.push_str(&String::from_utf8_lossy(&piece[..length]));
            let from = words.len().saturating_sub(8192);
            if let Some(from) = (from..words.len()).find(|at| words.is_char_boundary(*at)) {
                words.drain(..from);
            }
        }
    });
    kept
}

/// An HTTP endpoint.
pub(crate) struct Http {
    client: reqwest::Client,
    url: String,
    headers: HeaderMap,
    session: Option<HeaderValue>,
    revision: Option<Revision>,
}

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

impl Http {
    fn new(url: &str, headers: &[(String, String)]) -> Result<Self, Failure> {
        // The only provider that is compiled in; a second installation is refused, and no harm.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut all = HeaderMap::new();
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        all.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        for (name, value) in headers {
            let wrong = |error: &dyn std::fmt::Display| Failure::usage(format_args!("the header `{name}`: {error}"));
            let key: HeaderName = name.parse().map_err(|error| wrong(&error))?;
            all.insert(key, value.parse().map_err(|error| wrong(&error))?);
        }
        let client = reqwest::Client::builder().build();
        let client = client.map_err(|error| Failure::connection(format_args!("no HTTP client: {error}")))?;
        Ok(Self { client, url: url.to_owned(), headers: all, session: None, revision: None })
    }

    async fn post(&mut self, body: String, message: Option<&Value>) -> Result<Value, Lost> {
        let mut response = self.send(body, message).await?;
        let status = response.status();
        let is_stream = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        let id = message.map(|message| &message["id"]);
        let mut text = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| Lost::Unreadable(chain(&error)))? {
            text.extend_from_slice(&piece);
            if is_stream && let Some(answer) = event(&text, id) {
                return Ok(answer);
            }
        }
        match serde_json::from_slice::<Value>(&text) {
            Ok(answer) if is_refused(status, &answer) => {
                Err(Lost::Refused(format!("{status}: {}", answer["error"]["message"].as_str().unwrap_or_default())))
            }
            Ok(answer) if answer.is_object() || answer.is_array() => Ok(answer),
            _ if is_stream => Err(Lost::Unreadable("the stream of events ended without an answer".to_owned())),
            _ if !status.is_success() => Err(Lost::Refused(status.to_string())),
            _ => Err(Lost::Unreadable(format!("HTTP {status} without a JSON-RPC message"))),
        }
    }

    async fn send(&mut self, body: String, message: Option<&Value>) -> Result<reqwest::Response, Lost> {
        let mut headers = self.headers.clone();
        if let Some(session) = &self.session {
            headers.insert(SESSION, session.clone());
        }
        if let Some(revision) = self.revision {
            headers.insert("mcp-protocol-version", HeaderValue::from_static(revision.as_str()));
        }
        if let Some(message) = message.filter(|_| self.revision.is_some_and(|revision| revision.is_stateless())) {
            mirror(&mut headers, message);
        }
        let sent = self.client.post(&self.url).headers(headers).body(body).send().await;
        let response = sent.map_err(|error| Lost::Unreachable(chain(&error)))?;
        if let Some(session) = response.headers().get(SESSION) {
            self.session = Some(session.clone());
        }
        Ok(response)
    }
}

/// Whether HTTP refuses the client or the path, and not the protocol a request. An unknown method is not found either.
fn is_refused(status: StatusCode, answer: &Value) -> bool {
    let is_about_us = matches!(status.as_u16(), 401 | 403 | 404 | 405) || status.is_server_error();
    is_about_us && !matches!(answer["error"]["code"].as_i64(), Some(-32601 | -32603)) && answer.get("result").is_none()
}

/// Repeats members of the message in headers, as stateless revisions require.
fn mirror(headers: &mut HeaderMap, message: &Value) {
    let name = message["params"]["name"].as_str().or(message["params"]["uri"].as_str());
    for (header, value) in [("mcp-method", message["method"].as_str()), ("mcp-name", name)] {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(header, value);
        }
    }
}

/// The answer to a request among the events that have come so far.
fn event(text: &[u8], id: Option<&Value>) -> Option<Value> {
    let text = String::from_utf8_lossy(text).replace("\r\n", "\n");
    let whole = &text[..text.rfind("\n\n")?];
    whole.split("\n\n").find_map(|event| {
        let data: Vec<&str> =
            event.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim_start).collect();
        let message: Value = serde_json::from_str(&data.join("\n")).ok()?;
        (message.get("method").is_none() && id.is_none_or(|id| message["id"] == *id)).then_some(message)
    })
}

/// An error with its causes, which are what says something.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = cause.to_string();
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_answer_is_found_among_events() {
        let (one, answer) = (json!(1), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
        let progress = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}";
        for (text, expected) in [
            (format!("data: {answer}\n\n"), Some(&answer)),
            (format!("id: 7\r\nevent: message\r\ndata: {answer}\r\n\r\n"), Some(&answer)),
            (format!(": hello\n\n{progress}\n\ndata:{answer}\n\n"), Some(&answer)),
            ("data: {\"jsonrpc\": \"2.0\",\ndata: \"id\": 1, \"result\": {}}\n\n".to_owned(), Some(&answer)),
            // It goes on.
            (format!("data: {answer}\n"), None),
            (format!("{progress}\n\n"), None),
            (format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": 2, "result": {}})), None),
        ] {
            assert_eq!(event(text.as_bytes(), Some(&one)).as_ref(), expected, "{text}");
        }
    }

    #[test]
    fn a_refusal_of_the_client_is_none_of_a_request() {
        let error = |code: i64| json!({"error": {"code": code, "message": "no"}});
        for (status, answer, expected) in [
            (StatusCode::NOT_FOUND, error(-32600), true),
            (StatusCode::UNAUTHORIZED, error(-32001), true),
            (StatusCode::NOT_FOUND, error(-32601), false),
            (StatusCode::BAD_REQUEST, error(-32602), false),
            (StatusCode::OK, json!({"result": {}}), false),
        ] {
            assert_eq!(is_refused(status, &answer), expected, "{status} {answer}");
        }
    }
}
