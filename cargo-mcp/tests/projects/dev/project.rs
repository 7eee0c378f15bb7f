//! A package whose source changes while `cargo mcp dev` serves it, and a client on its stdin and stdout.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    common::{command, repository},
    turn::Turn,
};

/// A time limit that is generous even on a busy machine. Most waits include a build, which waits for the builds of other
/// tests in the same target folder.
pub(super) const TIMEOUT: Duration = Duration::from_secs(600);

/// The tools of every version. `wait` waits for a file, `die` aborts the server, and `process` returns its process id.
const SOURCE: &str = r#"
use mcp_runtime::tool;

/// Greet a person.
#[tool]
fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

/// Wait until a file exists.
#[tool]
async fn wait(file: String) -> String {
    while !std::path::Path::new(&file).exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    "found".to_owned()
}

/// Abort the server.
#[tool]
fn die() -> String {
    std::process::abort()
}

/// Return the process id.
#[tool]
fn process() -> u32 {
    std::process::id()
}

mcp_runtime::main!();
"#;

/// Another tool.
pub(super) const EXTRA_TOOL: &str = "/// The added tool.\n#[tool]\nfn fresh() -> &'static str {\n    \"fresh\"\n}\n";
/// Source that does not compile.
pub(super) const BROKEN: &str = "fn broken() -> u32 {\n    \"no number\"\n}\n";

/// A package in a directory that is kept between test runs, so that cargo can reuse its build.
pub(super) struct Project {
    name: &'static str,
    directory: PathBuf,
    _turn: Turn,
}

impl Project {
    /// Creates a package with the tools of every version and additional source.
    pub(super) fn new(name: &'static str, extra: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let project = Self { name, directory, _turn: Turn::take() };
        std::fs::create_dir_all(project.directory.join("src")).expect("a directory");
        let runtime = repository().join("mcp-runtime");
        let manifest = format!(
            "[package]\nname = {name:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
             mcp_runtime = {{ package = \"mcp-runtime\", path = {runtime:?}, features = [\"http\", \"ui\"] }}\ntokio = {{ version = \"1\", features = [\"time\"] }}\n\n\
             [workspace]\n"
        );
        project.write_file("Cargo.toml", &manifest);
        std::fs::copy(repository().join("Cargo.lock"), project.directory.join("Cargo.lock")).expect("a lock file");
        let _ = std::fs::remove_file(project.file("marker"));
        project.write_source(extra);
        project
    }

    /// Creates a package that implements the protocol without `mcp-runtime`.
    pub(super) fn without_runtime(name: &'static str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(directory.join("src")).expect("a directory");
        let project = Self { name, directory, _turn: Turn::take() };
        project.write_file(
            "Cargo.toml",
            &format!("[package]\nname = {name:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n"),
        );
        project.write_source_without_runtime("one");
        project
    }

    /// Writes the source of a package without `mcp-runtime`. It answers each request except `initialize` with a word.
    pub(super) fn write_source_without_runtime(&self, word: &str) {
        let respond =
            |result: &str| format!("println!(r#\"{{{{\"jsonrpc\":\"2.0\",\"id\":{{id}},\"result\":{result}}}}}\"#)");
        let handshake = r#"{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"x","version":"1"}}}}"#;
        let source = format!(
            "fn main() {{\n    for line in std::io::stdin().lines().map_while(Result::ok) {{\n        \
             let Some((_, id)) = line.split_once(\"\\\"id\\\":\") else {{ continue }};\n        \
             let id = id.split([',', '}}']).next().unwrap();\n        \
             if line.contains(\"initialize\") {{ {} }} else {{ {} }}\n    }}\n}}\n",
            respond(handshake),
            respond(&format!("{{{{\"word\":\"{word}\"}}}}")),
        );
        self.write_file("src/main.rs", &source);
    }

    /// Writes the tools of every version and additional source.
    pub(super) fn write_source(&self, extra: &str) {
        self.write_file("src/main.rs", &format!("{SOURCE}\n{extra}"));
    }

    pub(super) fn write_file(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).expect("a file");
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Builds the package without `cargo mcp dev`. Returns the program.
    pub(super) fn build(&self) -> Vec<u8> {
        let (_, target) = programs();
        let mut command = command(env!("CARGO"));
        command.args(["build", "--quiet"]).current_dir(&self.directory).env("CARGO_TARGET_DIR", target);
        assert!(command.status().expect("cargo starts").success());
        std::fs::read(target.join("debug").join(self.name)).expect("a program")
    }

    /// Returns the command `cargo mcp dev` for this package with additional arguments.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let (program, target) = programs();
        let mut command = command(program);
        command.args(["mcp", "dev", self.name]).args(args).current_dir(&self.directory);
        command.env("CARGO_TARGET_DIR", target).env("NO_COLOR", "1").env("RUST_LOG", "warn");
        command
    }

    pub(super) fn start(&self, args: &[&str]) -> DevProcess {
        DevProcess::start(self.command(args))
    }
}

/// Returns `cargo-mcp`, and the target directory.
fn programs() -> (&'static Path, &'static Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_cargo-mcp"));
    (program, program.ancestors().nth(2).expect("a target directory"))
}

/// A line that a process wrote.
#[derive(Debug)]
enum Line {
    Out(String),
    Err(String),
}

/// A running `cargo mcp dev` and its client.
pub(super) struct DevProcess {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Line>,
    /// The messages that no test has waited for yet.
    messages: Vec<Value>,
    /// The lines on stderr that no test has waited for yet.
    log: Vec<String>,
    /// The number of responses by request id.
    response_counts: HashMap<String, u32>,
    /// The number of requests so far, which is also the last id.
    requests: u64,
}

impl DevProcess {
    fn start(mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cargo-mcp starts");
        let (sender, lines) = channel();
        read_lines(process.stdout.take(), sender.clone(), Line::Out);
        read_lines(process.stderr.take(), sender, Line::Err);
        let stdin = process.stdin.take();
        let (messages, log, response_counts) = Default::default();
        Self { process, stdin, lines, messages, log, response_counts, requests: 0 }
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{message}").expect("the process reads stdin");
    }

    /// Sends a request and returns its id.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.requests += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params}));
        self.requests
    }

    pub(super) fn notify(&mut self, method: &str) {
        self.send(&json!({"jsonrpc": "2.0", "method": method}));
    }

    /// Calls a tool and returns the id of the request.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and returns the text of its result.
    pub(super) fn call_text(&mut self, tool: &str, arguments: &Value) -> String {
        let id = self.call(tool, arguments);
        text(&self.response(id))
    }

    /// Opens a session and returns the response.
    pub(super) fn initialize(&mut self, revision: &str) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
        let id = self.request("initialize", &params);
        let response = self.response(id);
        self.notify("notifications/initialized");
        response
    }

    /// Waits for the response to a request.
    #[track_caller]
    pub(super) fn response(&mut self, id: u64) -> Value {
        self.message(&format!("response to {id}"), |message| message["id"] == id && message.get("method").is_none())
    }

    /// Waits for a notification.
    #[track_caller]
    pub(super) fn notification(&mut self, method: &str) -> Value {
        self.message(method, |message| message["method"] == method)
    }

    #[track_caller]
    fn message(&mut self, what: &str, matches: impl Fn(&Value) -> bool) -> Value {
        self.wait(what, |dev| Some(dev.messages.remove(dev.messages.iter().position(&matches)?)))
    }

    /// Waits for a line on stderr that contains a text, and skips the lines before it.
    #[track_caller]
    pub(super) fn wait_for_line(&mut self, text: &str) -> String {
        self.wait(text, |dev| {
            let at = dev.log.iter().position(|line| line.contains(text))?;
            dev.log.drain(..=at).next_back()
        })
    }

    #[track_caller]
    fn wait<T>(&mut self, what: &str, find: impl Fn(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = find(self) {
                return found;
            }
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.record(line),
                Err(error) => panic!("no {what}: {error}\n{:#?}\n{}", self.messages, self.log.join("\n")),
            }
        }
    }

    fn record(&mut self, line: Line) {
        match line {
            Line::Out(line) => {
                let message: Value = serde_json::from_str(&line).expect("only JSON-RPC messages on stdout");
                if message.get("method").is_none() {
                    *self.response_counts.entry(message["id"].to_string()).or_default() += 1;
                }
                self.messages.push(message);
            }
            Line::Err(line) => self.log.push(line),
        }
    }

    /// Closes stdin, waits for a successful exit, and asserts that each request had exactly one response.
    #[track_caller]
    pub(super) fn end(mut self) {
        self.stdin = None;
        let status = self.process.wait().expect("the process exits");
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            self.record(line);
        }
        assert!(status.success(), "{status}\n{}", self.log.join("\n"));
        for id in 1..=self.requests {
            assert_eq!(self.response_counts.get(&id.to_string()), Some(&1), "responses to request {id}");
        }
    }

    /// Waits for the process to exit and returns its exit code.
    pub(super) fn exit_code(&mut self) -> Option<i32> {
        self.process.wait().expect("the process exits").code()
    }
}

impl Drop for DevProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn read_lines(stream: Option<impl Read + Send + 'static>, lines: Sender<Line>, wrap: fn(String) -> Line) {
    let stream = BufReader::new(stream.expect("a pipe"));
    std::thread::spawn(move || {
        for line in stream.lines().map_while(Result::ok) {
            let _ = lines.send(wrap(line));
        }
    });
}

/// Returns the text of a tool result.
#[track_caller]
pub(super) fn text(response: &Value) -> String {
    let text = response["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("expected a tool result with text, found {response}")).to_owned()
}

/// Adds the `_meta` of a stateless request to its parameters.
pub(super) fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

/// Waits until a process with this id has exited.
#[track_caller]
pub(super) fn wait_until_exited(process: &str) {
    let deadline = Instant::now() + TIMEOUT;
    let id = rustix::process::Pid::from_raw(process.parse().expect("a number")).expect("a process id");
    while rustix::process::test_kill_process(id).is_ok() {
        assert!(Instant::now() < deadline, "process {process} is still running");
        std::thread::sleep(Duration::from_millis(10));
    }
}
