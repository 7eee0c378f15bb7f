//! The fixture as a process: its memory, log and shutdown.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, ChildStderr, Command, Stdio},
    time::Duration,
};

use serde_json::json;

use super::{
    client::{Connection, soon},
    request::{Request, initialize},
};

/// A server process.
pub(super) struct Process {
    child: Child,
    address: SocketAddr,
    stderr: BufReader<ChildStderr>,
}

impl Process {
    pub(super) fn start(log: &str, arguments: &[&str]) -> Self {
        Self::spawn(fixture(log).args(arguments))
    }

    fn spawn(command: &mut Command) -> Self {
        let (child, url, stderr) = listening(command);
        let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/mcp")).unwrap().parse().unwrap();
        Self { child, address, stderr }
    }

    /// Returns the resident memory in kilobytes.
    pub(super) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub(super) async fn connect(&self) -> Connection {
        Connection::to(self.address).await
    }

    fn terminate(&self) {
        terminate(&self.child);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command that serves the fixture on a free port.
fn fixture(log: &str) -> Command {
    fixture_at("127.0.0.1:0", log)
}

/// Returns the command that serves the fixture on an address.
pub(super) fn fixture_at(address: &str, log: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fixture"));
    command.args(["--http", address]).env("RUST_LOG", log).env_remove("FIXTURE_GRACE");
    command
}

/// Starts a server, and waits until it listens. Returns it with its URL and its stderr.
pub(super) fn listening(command: &mut Command) -> (Child, String, BufReader<ChildStderr>) {
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let line = line_with(&mut stderr, "listens on http");
    let (_, url) = line.split_once("listens on ").unwrap();
    (child, url.to_owned(), stderr)
}

/// Sends SIGTERM.
pub(super) fn terminate(child: &Child) {
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
}

/// Reads up to a line that contains a text.
fn line_with(stderr: &mut BufReader<ChildStderr>, text: &str) -> String {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "stderr ended before a line with {text:?}");
    }
    line.trim_end().to_owned()
}

fn call(session: &str, name: &str, arguments: &serde_json::Value) -> Request {
    let params = json!({"name": name, "arguments": arguments});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    Request::post(&message).with("mcp-session-id", session)
}

/// Calls in flight are answered, and idle connections and open streams end.
#[tokio::test]
async fn a_signal_lets_calls_in_flight_finish() {
    let mut server = Process::start("off", &[]);
    let (opened, mut idle) = server.connect().await.send(&initialize("2025-11-25")).await;
    let session = opened.header("mcp-session-id").unwrap();
    let mut waiting = server.connect().await;
    waiting.write(&call(session, "wait", &json!({"milliseconds": 1000})).bytes()).await;
    // The call is in flight as soon as its id is rejected as a duplicate.
    loop {
        let (response, kept) = idle.send(&call(session, "add", &json!({"a": 1, "b": 2}))).await;
        idle = kept;
        if response.outcome() == (200, -32600) {
            break;
        }
    }
    let get = Request::new("GET").with("accept", "text/event-stream").with("mcp-session-id", session);
    let mut listening = server.connect().await.open(&get).await;

    server.terminate();
    idle.closed().await;
    assert_eq!(waiting.response().await.full().await.0.text(), "waited 1000 ms");
    assert!(listening.messages().await.is_empty());
    let ended = tokio::task::spawn_blocking(move || server.child.wait().unwrap().code());
    assert_eq!(soon(ended).await.unwrap(), Some(0));
}

/// The server goes on for longer than its grace period, until the second signal.
#[tokio::test]
async fn a_signal_lets_the_readiness_check_fail_first() {
    let mut server = Process::start("off", &["--drain-delay", "3600", "--grace", "1"]);
    let ready = Request::new("GET").path("/readyz");
    let (answer, mut probing) = server.connect().await.send(&ready).await;
    assert_eq!(answer.status, 200);
    server.terminate();
    let unready = async {
        loop {
            let (answer, kept) = probing.send(&ready).await;
            probing = kept;
            if answer.status == 503 {
                break;
            }
        }
    };
    soon(unready).await;
    // A process without the delay ends a second after its grace period.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(server.connect().await.send(&initialize("2025-11-25")).await.0.status, 200);
    server.terminate();
    let ended = tokio::task::spawn_blocking(move || server.child.wait().unwrap().code());
    assert_eq!(soon(ended).await.unwrap(), Some(0));
}

/// Each option keeps what the options before it have set.
#[tokio::test]
async fn options_allow_hosts_and_origins() {
    let (host, origin) = ("mcp.example.com", "https://app.example.com");
    let proxies = ["--trusted-proxies", "10.0.0.0/8"];
    let server = Process::start("off", &["--allow-host", host, "--allow-origin", origin, proxies[0], proxies[1]]);
    for (host, origin, status) in [
        (host, origin, 200),
        (host, "https://mcp.example.com", 200),
        (host, "https://other.example.com", 403),
        ("app.example.com", origin, 403),
        ("localhost", origin, 403),
    ] {
        let request = initialize("2025-11-25").with("host", host).with("origin", origin);
        assert_eq!(server.connect().await.send(&request).await.0.status, status, "{host} {origin}");
    }
}

/// Programs can read the address from a file instead of the log.
#[test]
fn the_endpoint_url_is_written_to_a_file() {
    let file = std::env::temp_dir().join(format!("mcp-address-{}", std::process::id()));
    let server = Process::spawn(fixture("off").env("MCP_ADDRESS_FILE", &file));
    // The file is written right after the line on stderr.
    let url = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        std::fs::read_to_string(&file).ok()
    });
    let _ = std::fs::remove_file(&file);
    assert_eq!(url, Some(format!("http://{}/mcp\n", server.address)));
}

#[tokio::test]
async fn an_empty_variable_names_no_file() {
    let server = Process::spawn(fixture("off").env("MCP_ADDRESS_FILE", ""));
    assert_eq!(server.connect().await.send(&Request::new("GET").path("/healthz")).await.0.status, 200);
}

/// Rejected requests are logged, including the preflight requests of browsers.
#[tokio::test]
async fn rejected_requests_are_logged() {
    let mut server = Process::start("warn", &["--legacy-sse"]);
    for (method, path) in
        [("OPTIONS", "/mcp"), ("POST", "/mcp"), ("OPTIONS", "/sse"), ("GET", "/sse"), ("OPTIONS", "/message")]
    {
        let origin = format!("https://{}.evil.example", path.trim_start_matches('/'));
        let request = Request::new(method).path(path).with("origin", &origin);
        server.connect().await.send(&request.with("access-control-request-method", "POST")).await;
        let line = line_with(&mut server.stderr, "request rejected");
        assert!(line.contains("WARN") && line.contains(&origin) && line.contains(method), "{line}");
    }
    let long = format!("https://{}.example", "x".repeat(4000));
    server.connect().await.send(&Request::new("POST").path("/mcp").with("origin", &long)).await;
    let line = line_with(&mut server.stderr, "request rejected");
    assert!(line.contains("xxx…") && line.len() < 1000, "{line}");
}

/// No request could be accepted.
#[test]
fn hosts_and_origins_that_no_request_has_are_refused() {
    for (option, value) in [
        ("host", "https://mcp.example.com/mcp"),
        ("host", "*.example.com"),
        ("host", ""),
        ("host", "mcp.example.com "),
        ("origin", "app.example.com"),
        ("origin", "https://app.example.com/"),
        ("origin", "*"),
    ] {
        let mut fixture = fixture("off");
        let output = fixture.args([&format!("--allow-{option}"), value]).output().unwrap();
        let message =
            format!("`--allow-{option}`: the allowed {option} `{value}` is invalid\nhelp: write it as in the `");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(&message), "{value}: {stderr}");
    }
}

/// The whole id of a session is all that a client without credentials needs to use it.
#[tokio::test]
async fn the_log_contains_the_beginning_of_the_id_of_a_session() {
    let mut server = Process::start("info", &[]);
    let (opened, connection) = server.connect().await.send(&initialize("2025-11-25")).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    connection.send(&call(&session, "logs_blocking", &json!({}))).await;
    let line = line_with(&mut server.stderr, "fixture: inside");
    let (start, rest) = session.split_at(8);
    let span = format!(
        r#"mcp.request{{mcp.method.name="tools/call" mcp.session.id="{start}" jsonrpc.request.id="1" gen_ai.tool.name="logs_blocking"}}"#
    );
    assert!(line.contains(&span) && !line.contains(rest), "{line}");
}
