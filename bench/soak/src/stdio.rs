//! Clients over stdio, one for each revision, each with a process of its own that lives as long as the soak. They
//! alternate between good and bad behaviour, and count the responses to each request.

use std::{
    collections::HashMap,
    io,
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::watch,
};

use crate::{
    connection::{STATELESS, call, initialize, meta},
    load::{Load, pause},
};

/// A process and the client that uses it.
#[derive(Debug)]
pub struct StdioClient {
    pub version: &'static str,
    child: Child,
    stdin: ChildStdin,
    state: Arc<Mutex<State>>,
    /// Whether the reader reads.
    reads: watch::Sender<bool>,
    next_id: u64,
}

#[derive(Debug, Default)]
struct State {
    /// The requests without a response, and whether they have been cancelled.
    pending: HashMap<u64, bool>,
    /// The results that a caller waits for.
    wanted: HashMap<u64, Option<Value>>,
    /// The ids of the server's requests.
    questions: Vec<Value>,
    /// The number of error responses without an id, less that of invalid lines.
    invalid: i64,
    failures: Vec<String>,
}

impl StdioClient {
    /// Starts a process and performs the handshake.
    pub async fn start(program: &std::path::Path, version: &'static str) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("no pipe");
        let (stdin, stdout) = (child.stdin.take().ok_or_else(missing)?, child.stdout.take().ok_or_else(missing)?);
        let (reads, may_read) = watch::channel(true);
        let state = Arc::new(Mutex::new(State::default()));
        tokio::spawn(read(stdout, Arc::clone(&state), may_read));
        let mut client = Self { version, child, stdin, state, reads, next_id: 1 };
        if version != STATELESS {
            client.write(initialize(version).to_string().as_bytes()).await?;
            client.write(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await?;
        }
        Ok(client)
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Behaves in random ways until the load ends.
    pub async fn run(&mut self, load: &Load) -> io::Result<()> {
        while load.is_on() {
            self.act(fastrand::usize(..10)).await?;
            load.count();
            pause(60).await;
        }
        self.reads.send_replace(true);
        Ok(())
    }

    async fn act(&mut self, kind: usize) -> io::Result<()> {
        match kind {
            0 => self.request("tools/list", json!({})).await,
            1 => self.call("echo", json!({"text": "hello\n"})).await,
            2 => self.call("reports", json!({})).await,
            3 => self.call(["panics", "blocks", "task"][fastrand::usize(..3)], json!({})).await,
            4 => {
                // Cancelled at a random time, perhaps after its end.
                let id = self.next_id;
                self.call("wait", json!({"milliseconds": 50})).await?;
                pause(50).await;
                if let Some(is_cancelled) = self.state().pending.get_mut(&id) {
                    *is_cancelled = true;
                }
                let cancel =
                    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
                self.write(cancel.to_string().as_bytes()).await
            }
            5 => self.call(if fastrand::bool() { "asks" } else { "samples" }, json!({})).await,
            6 => {
                // An answer to one of the questions, or to none.
                let id = self.state().questions.pop().unwrap_or(json!(99_999));
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"action": "decline"}});
                self.write(answer.to_string().as_bytes()).await
            }
            7 => self.invalid_line().await,
            8 => {
                // Many requests, while the responses are not read.
                self.reads.send_replace(false);
                for _ in 0..40 {
                    self.call("long", json!({"length": 20_000})).await?;
                }
                pause(300).await;
                self.reads.send_replace(true);
                Ok(())
            }
            _ => self.request("resources/read", json!({"uri": format!("soak://{}", fastrand::u16(..))})).await,
        }
    }

    async fn invalid_line(&mut self) -> io::Result<()> {
        let mut line = match fastrand::usize(..4) {
            0 => "[".repeat(10_000).into_bytes(),
            1 => (0..100).map(|_| fastrand::u8(128..)).collect(),
            2 => br#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#.to_vec(),
            _ => b"{\"jsonrpc\":\"2.0\"".to_vec(),
        };
        line.retain(|byte| *byte != b'\n');
        self.state().invalid -= 1;
        self.write(&line).await
    }

    async fn call(&mut self, name: &str, arguments: Value) -> io::Result<()> {
        let message = call(0, name, &arguments);
        self.request("tools/call", message["params"].clone()).await
    }

    async fn request(&mut self, method: &str, mut params: Value) -> io::Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        if self.version == STATELESS {
            params["_meta"] = meta();
        }
        self.state().pending.insert(id, false);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(message.to_string().as_bytes()).await
    }

    /// Calls a tool and waits for its structured result.
    pub async fn ask(&mut self, name: &str) -> io::Result<Value> {
        let id = self.next_id;
        self.state().wanted.insert(id, None);
        self.call(name, json!({})).await?;
        for _ in 0..3000 {
            let found = self.state().wanted.get(&id).cloned().flatten();
            if let Some(message) = found {
                self.state().wanted.remove(&id);
                // Revisions without structured results have its text.
                let text = message["result"]["content"][0]["text"].as_str().unwrap_or_default();
                return Ok(serde_json::from_str(text)?);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(io::Error::other("no response within 30 s"))
    }

    /// Waits until every request has its response, and returns what was wrong.
    pub async fn settle(&mut self) -> Vec<String> {
        for _ in 0..300 {
            let is_settled = self.state().pending.values().all(|is_cancelled| *is_cancelled);
            if is_settled {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let version = self.version;
        let mut state = self.state();
        let mut failures = std::mem::take(&mut state.failures);
        let unanswered = state.pending.values().filter(|is_cancelled| !**is_cancelled).count();
        if unanswered > 0 {
            failures.push(format!("{unanswered} requests have no response"));
        }
        if state.invalid != 0 {
            failures.push(format!("the number of errors for invalid lines differs by {}", state.invalid));
        }
        state.pending.clear();
        failures.iter().map(|failure| format!("stdio ({version}): {failure}")).collect()
    }

    /// Ends the input, and returns whether the process ends successfully within ten seconds.
    pub async fn stop(mut self) -> bool {
        drop(self.stdin);
        let ended = tokio::time::timeout(Duration::from_secs(10), self.child.wait()).await;
        ended.is_ok_and(|status| status.is_ok_and(|status| status.success()))
    }

    async fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.stdin.write_all(line).await?;
        self.stdin.write_all(b"\n").await
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads messages while the client wants to.
async fn read(stdout: ChildStdout, state: Arc<Mutex<State>>, mut may_read: watch::Receiver<bool>) {
    let mut lines = BufReader::new(stdout).lines();
    loop {
        if may_read.wait_for(|reads| *reads).await.is_err() {
            return;
        }
        let Ok(Some(line)) = lines.next_line().await else { return };
        let mut state = lock(&state);
        match serde_json::from_str::<Value>(&line) {
            Err(error) => state.failures.push(format!("{error} in {line}")),
            Ok(message) => receive(&mut state, message),
        }
    }
}

fn receive(state: &mut State, message: Value) {
    match (message.get("method").is_some(), message.get("id").cloned().unwrap_or_default()) {
        (true, Value::Null) => {}
        (true, id) => state.questions.push(id),
        (false, Value::Null) => state.invalid += 1,
        (false, Value::String(_)) => {}
        (false, id) => {
            let known = id.as_u64().and_then(|id| state.pending.remove(&id));
            if known.is_none() {
                state.failures.push(format!("unexpected response: {message}"));
            }
            if let Some(slot) = id.as_u64().and_then(|id| state.wanted.get_mut(&id)) {
                *slot = Some(message);
            }
        }
    }
}
