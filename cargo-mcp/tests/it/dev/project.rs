//! A package that is written while it is served, and a client of lines.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::common::repository;

/// Far more than anything takes, also on a machine that does much else.
pub(super) const LONG: Duration = Duration::from_secs(120);

/// The tools of every version: one that waits for a file, one that ends its server, one that tells who it is.
const SOURCE: &str = r#"
use mcp_runtime::tool;

/// Greet somebody.
#[tool]
fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

/// Wait until a file is there.
#[tool]
async fn wait(file: String) -> String {
    while !std::path::Path::new(&file).exists() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    "it is there".to_owned()
}

/// End the server.
#[tool]
fn die() -> String {
    std::process::abort()
}

/// Tell the process.
#[tool]
fn process() -> u32 {
    std::process::id()
}

mcp_runtime::main!();
"#;

/// A tool more.
pub(super) const FRESH: &str = "/// A new one.\n#[tool]\nfn fresh() -> &'static str {\n    \"fresh\"\n}\n";
/// What does not compile.
pub(super) const BROKEN: &str = "fn broken() -> u32 {\n    \"no number\"\n}\n";

/// A package in a directory that stays, so that cargo need not build it anew each time.
pub(super) struct Project {
    name: &'static str,
    directory: PathBuf,
}

impl Project {
    /// A package with what every version has, and something more.
    pub(super) fn new(name: &'static str, more: &str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let project = Self { name, directory };
        std::fs::create_dir_all(project.directory.join("src")).expect("a directory");
        let runtime = repository().join("mcp-runtime");
        let manifest = format!(
            "[package]\nname = {name:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
             mcp-runtime = {{ path = {runtime:?}, features = [\"http\"] }}\ntokio = {{ version = \"1\", features = [\"time\"] }}\n\n\
             [workspace]\n"
        );
        project.put("Cargo.toml", &manifest);
        std::fs::copy(repository().join("Cargo.lock"), project.directory.join("Cargo.lock")).expect("a lock file");
        let _ = std::fs::remove_file(project.file("there"));
        project.write(more);
        project
    }

    /// A package that speaks the protocol by hand, without the framework.
    pub(super) fn by_hand(name: &'static str) -> Self {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(directory.join("src")).expect("a directory");
        let project = Self { name, directory };
        project.put(
            "Cargo.toml",
            &format!("[package]\nname = {name:?}\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n"),
        );
        project.write_by_hand("one");
        project
    }

    /// Writes the source of such a package anew; each request but the handshake is answered with a word.
    pub(super) fn write_by_hand(&self, word: &str) {
        let answer =
            |result: &str| format!("println!(r#\"{{{{\"jsonrpc\":\"2.0\",\"id\":{{id}},\"result\":{result}}}}}\"#)");
        let handshake = r#"{{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"x","version":"1"}}}}"#;
        let source = format!(
            "fn main() {{\n    for line in std::io::stdin().lines().map_while(Result::ok) {{\n        \
             let Some((_, id)) = line.split_once(\"\\\"id\\\":\") else {{ continue }};\n        \
             let id = id.split([',', '}}']).next().unwrap();\n        \
             match line.contains(\"initialize\") {{\n            true => {},\n            false => {},\n        }}\n    }}\n}}\n",
            answer(handshake),
            answer(&format!("{{{{\"word\":\"{word}\"}}}}")),
        );
        self.put("src/main.rs", &source);
    }

    /// Writes the source anew.
    pub(super) fn write(&self, more: &str) {
        self.put("src/main.rs", &format!("{SOURCE}\n{more}"));
    }

    pub(super) fn put(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).expect("a file");
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// `cargo mcp dev` for this package.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_cargo-mcp"));
        let target = program.ancestors().nth(2).expect("a target directory");
        let mut command = Command::new(program);
        command.args(["mcp", "dev", self.name]).args(words).current_dir(&self.directory);
        command.env("CARGO_TARGET_DIR", target).env("NO_COLOR", "1").env("RUST_LOG", "warn");
        command
    }

    pub(super) fn start(&self, words: &[&str]) -> Dev {
        Dev::start(self.command(words))
    }
}

/// A line of a process.
#[derive(Debug)]
enum Line {
    Out(String),
    Err(String),
}

/// `cargo mcp dev` that runs, and its client.
pub(super) struct Dev {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Line>,
    /// What nobody has waited for.
    messages: Vec<Value>,
    said: Vec<String>,
    answers: HashMap<String, u32>,
    requests: u64,
}

impl Dev {
    fn start(mut command: Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cargo-mcp starts");
        let (sender, lines) = channel();
        read(process.stdout.take(), sender.clone(), Line::Out);
        read(process.stderr.take(), sender, Line::Err);
        let stdin = process.stdin.take();
        let (messages, said, answers) = Default::default();
        Self { process, stdin, lines, messages, said, answers, requests: 0 }
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        writeln!(stdin, "{message}").expect("it reads");
    }

    /// Sends a request; gives its id.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.requests += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.requests, "method": method, "params": params}));
        self.requests
    }

    pub(super) fn notify(&mut self, method: &str) {
        self.send(&json!({"jsonrpc": "2.0", "method": method}));
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool, and gives the text of its result.
    pub(super) fn called(&mut self, tool: &str, arguments: &Value) -> String {
        let id = self.call(tool, arguments);
        text(&self.answer(id))
    }

    pub(super) fn initialize(&mut self, revision: &str) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
        let id = self.request("initialize", &params);
        let answer = self.answer(id);
        self.notify("notifications/initialized");
        answer
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub(super) fn answer(&mut self, id: u64) -> Value {
        self.message(&format!("the answer to {id}"), |message| message["id"] == id && message.get("method").is_none())
    }

    #[track_caller]
    pub(super) fn notification(&mut self, method: &str) -> Value {
        self.message(method, |message| message["method"] == method)
    }

    #[track_caller]
    fn message(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        self.wait(what, |dev| Some(dev.messages.remove(dev.messages.iter().position(&is_it)?)))
    }

    /// Waits for a line on stderr that has a text in it, after those that were waited for.
    #[track_caller]
    pub(super) fn said(&mut self, text: &str) -> String {
        self.wait(text, |dev| {
            let at = dev.said.iter().position(|line| line.contains(text))?;
            dev.said.drain(..=at).next_back()
        })
    }

    #[track_caller]
    fn wait<T>(&mut self, what: &str, find: impl Fn(&mut Self) -> Option<T>) -> T {
        let until = Instant::now() + LONG;
        loop {
            if let Some(found) = find(self) {
                return found;
            }
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.note(line),
                Err(error) => panic!("no {what}: {error}\n{:#?}\n{}", self.messages, self.said.join("\n")),
            }
        }
    }

    fn note(&mut self, line: Line) {
        match line {
            Line::Out(line) => {
                let message: Value = serde_json::from_str(&line).expect("nothing but messages on stdout");
                if message.get("method").is_none() {
                    *self.answers.entry(message["id"].to_string()).or_default() += 1;
                }
                self.messages.push(message);
            }
            Line::Err(line) => self.said.push(line),
        }
    }

    /// Closes the input, waits for the end, and looks at whether each request had one answer.
    #[track_caller]
    pub(super) fn end(mut self) {
        self.stdin = None;
        let status = self.process.wait().expect("it ends");
        while let Ok(line) = self.lines.recv_timeout(LONG) {
            self.note(line);
        }
        assert!(status.success(), "{status}\n{}", self.said.join("\n"));
        for id in 1..=self.requests {
            assert_eq!(self.answers.get(&id.to_string()), Some(&1), "answers to {id}");
        }
    }

    /// Waits for the end, and gives the exit code.
    pub(super) fn ended(&mut self) -> Option<i32> {
        self.process.wait().expect("it ends").code()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn read(stream: Option<impl Read + Send + 'static>, lines: Sender<Line>, wrap: fn(String) -> Line) {
    let stream = BufReader::new(stream.expect("a pipe"));
    std::thread::spawn(move || {
        for line in stream.lines().map_while(Result::ok) {
            let _ = lines.send(wrap(line));
        }
    });
}

/// The text of a call's result.
#[track_caller]
pub(super) fn text(answer: &Value) -> String {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no result of a call: {answer}")).to_owned()
}

/// The `_meta` of a stateless request.
pub(super) fn stateless(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

/// Waits until a process is gone.
#[track_caller]
pub(super) fn is_gone(process: &str) {
    let until = Instant::now() + LONG;
    let id = rustix::process::Pid::from_raw(process.parse().expect("a number")).expect("a process");
    while rustix::process::test_kill_process(id).is_ok() {
        assert!(Instant::now() < until, "{process} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}
