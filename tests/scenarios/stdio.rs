//! The server as a child process that communicates over stdio.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio as Pipe},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use mcp_runtime::Revision;
use serde_json::Value;

use crate::{TIMEOUT, client::Transport};

pub(crate) struct Stdio {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Stdio {
    pub(crate) fn start(program: &Path) -> Self {
        Self::run(&mut Command::new(program))
    }

    pub(crate) fn run(command: &mut Command) -> Self {
        let mut process = command
            .env("RUST_LOG", "off")
            .stdin(Pipe::piped())
            .stdout(Pipe::piped())
            .stderr(Pipe::inherit())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().unwrap());
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Self { process, stdin, lines }
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        let stdin = self.stdin.as_mut().ok_or("stdin is closed")?;
        writeln!(stdin, "{message}").map_err(|error| format!("cannot write to the server: {error}"))
    }

    fn read(&mut self) -> Result<Value, String> {
        let line = self.lines.recv_timeout(TIMEOUT).map_err(|error| format!("no message received: {error}"))?;
        serde_json::from_str(&line).map_err(|error| format!("{error}: {line}"))
    }
}

impl Transport for Stdio {
    fn exchange(
        &mut self,
        message: &Value,
        _: Revision,
        on_message: &mut dyn FnMut(Value) -> Option<Value>,
    ) -> Result<Option<Value>, String> {
        self.send(message)?;
        let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) else { return Ok(None) };
        if message["method"] == "subscriptions/listen" {
            // The response is sent at shutdown only.
            on_message(self.read()?);
            return Ok(None);
        }
        loop {
            let incoming = self.read()?;
            if incoming.get("method").is_none() && incoming["id"] == *id {
                return Ok(Some(incoming));
            }
            if let Some(answer) = on_message(incoming) {
                self.send(&answer)?;
            }
        }
    }

    fn wait_for(&mut self, method: &str, on_message: &mut dyn FnMut(Value) -> Option<Value>) -> Result<Value, String> {
        loop {
            let incoming = self.read()?;
            if incoming["method"] == method {
                return Ok(incoming);
            }
            on_message(incoming);
        }
    }

    fn close(&mut self) -> Result<(), String> {
        drop(self.stdin.take());
        let deadline = Instant::now() + TIMEOUT;
        while Instant::now() < deadline {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("the process ended with {status}")),
                Ok(None) => thread::sleep(Duration::from_millis(2)),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("the process did not exit at the end of input".to_owned())
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
