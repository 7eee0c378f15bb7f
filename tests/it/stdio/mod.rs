//! The fixture as a process: its pipes, its log, its shutdown, and its command line.

mod command_line;
mod limits;
mod log;
mod shutdown;
mod streams;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

fn fixture() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fixture"));
    command.env("RUST_LOG", "off").env_remove("FIXTURE_GRACE");
    command
}

fn request(id: u64, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

fn call(id: u64, name: &str, arguments: Value) -> String {
    request(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

fn lines(output: &[u8]) -> Vec<Value> {
    let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(line))))
        .collect()
}

struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Kills the server after a minute unless this is dropped first.
    _limit: mpsc::Sender<()>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (limit, dropped) = mpsc::channel::<()>();
        let id = child.id();
        thread::spawn(move || {
            if dropped.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
                signal("KILL", id);
            }
        });
        Self { child, stdin, stdout, _limit: limit }
    }

    fn send(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    /// Closes stdin, and returns the remaining output and the exit code.
    fn end(mut self) -> (Vec<Value>, Option<i32>) {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest).unwrap();
        (lines(&rest), self.child.wait().unwrap().code())
    }
}

fn signal(name: &str, process: u32) -> bool {
    Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success()
}
