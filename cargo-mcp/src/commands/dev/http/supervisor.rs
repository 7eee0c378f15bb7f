//! Starts and stops the servers behind the HTTP proxy.
//!
//! The state machine is the same as over stdio: each HTTP request that needs a server is a call to it.

use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::http::{HeaderValue, Request, header};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    super::{
        Reporter,
        builder::{BuildEvent, Executables},
        message::{
            BuildId, Generation, INTERNAL_ERROR, Message, RequestId, error_response, notification, result_response,
        },
        process::{LaunchConfig, describe_exit, read_exit, watchdog_command},
        proxy::{self, Effect, Event, Proxy, ProxyConfig},
        session::build_failure_notification,
        snapshot::Capability,
    },
    HttpProxy,
    backend::{Backend, BackendRequest},
    lock,
    respond::PROTOCOL_VERSION,
    session::join,
};
use crate::{process::Process, signals::ShutdownSignals};

/// The method of the calls that represent HTTP requests in the state machine.
const HTTP_REQUEST: &str = "http-request";
/// The environment variable that names the file to which a server writes the URL of its endpoint.
const ADDRESS_FILE: &str = "MCP_ADDRESS_FILE";
/// The interval at which the address file is checked.
const ADDRESS_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The time that the watchdog has to report how its server exited.
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time to read remaining output after the process exited.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
/// The time that servers have to exit before they are killed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1500);

/// A message from a task that the supervisor started.
enum TaskMessage {
    /// A server accepts connections at this URL.
    Listening(Generation, String),
    Event(Event),
}

/// A server process.
struct ServerProcess {
    stop: oneshot::Sender<()>,
    /// Requests of the state machine that wait until the server accepts connections.
    queued: Vec<String>,
    /// The server and the path of its endpoint, once it accepts connections.
    endpoint: Option<(Backend, String)>,
}

/// The channels to an HTTP request that needs a server.
struct Waiter {
    /// `None` once the server is assigned.
    started: Option<oneshot::Sender<Backend>>,
    failed: oneshot::Sender<String>,
}

/// Carries out the effects of the state machine.
pub(super) struct Supervisor {
    proxy: Arc<HttpProxy>,
    machine: Proxy,
    launch: LaunchConfig,
    /// The directory for address files.
    directory: PathBuf,
    executables: Executables,
    servers: HashMap<Generation, ServerProcess>,
    tasks: JoinSet<()>,
    waiters: HashMap<u64, Waiter>,
    sender: mpsc::UnboundedSender<TaskMessage>,
    receiver: mpsc::UnboundedReceiver<TaskMessage>,
}

impl Supervisor {
    pub(super) fn new(proxy: Arc<HttpProxy>, config: ProxyConfig, launch: LaunchConfig, directory: PathBuf) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            proxy,
            machine: Proxy::new(config),
            launch,
            directory,
            executables: Executables::default(),
            servers: HashMap::new(),
            tasks: JoinSet::new(),
            waiters: HashMap::new(),
            sender,
            receiver,
        }
    }

    /// Runs until a signal arrives, then stops all servers.
    pub(super) async fn run(
        mut self,
        mut requests: mpsc::UnboundedReceiver<BackendRequest>,
        mut builds: mpsc::UnboundedReceiver<BuildEvent>,
        mut signals: ShutdownSignals,
    ) {
        let mut is_done = false;
        while !is_done {
            is_done = tokio::select! {
                biased;
                () = signals.recv() => self.handle(Event::ShutdownRequested),
                Some(message) = self.receiver.recv() => match message {
                    TaskMessage::Event(event) => self.handle(event),
                    TaskMessage::Listening(server, url) => {
                        self.handle_listening(server, &url);
                        false
                    }
                },
                Some(build) = builds.recv() => {
                    if let BuildEvent::Failed(error) = &build {
                        let _ = self.proxy.backends.log_messages.send(build_failure_notification(error));
                    }
                    let event = self.executables.record(build);
                    self.handle(event)
                }
                Some(request) = requests.recv() => self.handle_request(request),
                Some(_) = self.tasks.join_next() => false,
            };
        }
        self.shut_down().await;
    }

    fn handle_request(&mut self, request: BackendRequest) -> bool {
        match request {
            BackendRequest::Begin { id, started, failed } => {
                self.waiters.insert(id, Waiter { started: Some(started), failed });
                let call = json!({"jsonrpc": "2.0", "id": id, "method": HTTP_REQUEST});
                self.handle(Event::ClientLine(call.to_string()))
            }
            BackendRequest::End { id, server } => {
                self.waiters.remove(&id);
                match server {
                    Some(server) => {
                        self.handle(Event::ServerLine(server, result_response(&id.to_string(), &json!({}))))
                    }
                    None => {
                        let params = json!({"requestId": id});
                        self.handle(Event::ClientLine(notification("notifications/cancelled", Some(&params))))
                    }
                }
            }
        }
    }

    /// Carries out the effects of an event. Returns whether this process should exit.
    fn handle(&mut self, event: Event) -> bool {
        if let Event::ServerExited(server, _) = &event {
            self.stop(*server);
        }
        let mut is_done = false;
        for effect in proxy::handle(&mut self.machine, event) {
            match effect {
                Effect::SendToClient(line) => self.fail_request(&line),
                Effect::SendToServer(server, line) => self.send(server, line),
                Effect::StartServer(server, build) => self.start(server, build),
                Effect::CloseInput(_) => {}
                Effect::StopServer(server) => self.stop(server),
                Effect::Activated(server, changed) => self.activate(server, changed),
                Effect::StartTimer(delay, timer) => {
                    let sender = self.sender.clone();
                    tokio::spawn(async move {
                        sleep(delay).await;
                        let _ = sender.send(TaskMessage::Event(Event::TimerExpired(timer)));
                    });
                }
                Effect::Info(text) => self.proxy.reporter.info(text),
                Effect::Warn(text) => self.proxy.reporter.warn(text),
                Effect::Exit => is_done = true,
            }
        }
        self.executables.remove_unused(&self.machine);
        is_done
    }

    /// Passes an error response to the HTTP request that the call represents.
    fn fail_request(&mut self, line: &str) {
        let Some(message) = Message::parse(line) else { return };
        let id = message.id.and_then(|id| id.get().parse::<u64>().ok());
        if let Some(waiter) = id.and_then(|id| self.waiters.remove(&id)) {
            let _ = waiter.failed.send(message.error_message().unwrap_or_default());
        }
    }

    /// Assigns a server to an HTTP request, or sends the server a request of the state machine.
    fn send(&mut self, server: Generation, line: String) {
        let Some(message) = Message::parse(&line) else { return };
        let Some(process) = self.servers.get_mut(&server) else { return };
        match (message.method.as_deref(), message.id) {
            (Some(HTTP_REQUEST), Some(id)) => {
                let waiter = id.get().parse::<u64>().ok().and_then(|id| self.waiters.get_mut(&id));
                let started = waiter.and_then(|waiter| waiter.started.take());
                if let Some(((backend, _), started)) = process.endpoint.as_ref().zip(started) {
                    let _ = started.send(backend.clone());
                }
            }
            (Some(_), Some(_)) => match process.endpoint.clone() {
                Some((backend, path)) => self.send_own_request(backend, path, line),
                None => process.queued.push(line),
            },
            _ => {}
        }
    }

    /// Sends a request of the state machine to a server.
    fn send_own_request(&mut self, backend: Backend, path: String, line: String) {
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            let Some(response) = exchange(&backend, path, line).await else { return };
            let _ = sender.send(TaskMessage::Event(Event::ServerLine(backend.generation, response)));
        });
    }

    fn start(&mut self, server: Generation, build: BuildId) {
        let Some(executable) = self.executables.get(build) else { return };
        let address_file = self.directory.join(format!("address-{server}"));
        let mut launch = self.launch.clone();
        launch.args.splice(0..0, ["--http", "127.0.0.1:0"].map(str::to_owned));
        launch.env.push((ADDRESS_FILE.to_owned(), address_file.to_string_lossy().into_owned()));
        match watchdog_command(executable, &launch).and_then(|mut command| Process::start(&mut command)) {
            Ok(process) => {
                let (stop, stopped) = oneshot::channel();
                self.servers.insert(server, ServerProcess { stop, queued: Vec::new(), endpoint: None });
                let reporter = self.proxy.reporter.clone();
                self.tasks.spawn(supervise(process, server, address_file, stopped, self.sender.clone(), reporter));
            }
            Err(error) => {
                let how = format!("cannot run the executable: {error}");
                let _ = self.sender.send(TaskMessage::Event(Event::ServerExited(server, how)));
            }
        }
    }

    /// Handles a server that accepts connections.
    fn handle_listening(&mut self, server: Generation, url: &str) {
        let Some(process) = self.servers.get_mut(&server) else { return };
        let address = url.trim().trim_start_matches("http://");
        let (authority, path) = address.split_once('/').unwrap_or((address, ""));
        let (backend, path) = (Backend::new(server, authority.to_owned()), format!("/{path}"));
        lock(&self.proxy.backends.running).insert(server, backend.clone());
        let queued = std::mem::take(&mut process.queued);
        process.endpoint = Some((backend.clone(), path.clone()));
        for line in queued {
            self.send_own_request(backend.clone(), path.clone(), line);
        }
    }

    /// Makes a server the current one for all requests and sessions.
    fn activate(&mut self, server: Generation, changed: BTreeSet<Capability>) {
        let Some((backend, _)) = self.servers.get(&server).and_then(|process| process.endpoint.clone()) else { return };
        let sessions = self.proxy.sessions();
        for session in &sessions {
            lock(&session.state).record_rebuild(&changed);
        }
        let _ = self.proxy.backends.list_changes.send(changed);
        self.proxy.backends.current.send_replace(Some(backend.clone()));
        let proxy = Arc::clone(&self.proxy);
        self.tasks.spawn(async move {
            for session in sessions {
                // A client whose session is rejected finds out with its next request.
                let _ = join(&proxy, &session, &backend).await;
            }
        });
    }

    /// Stops a server if it is still running.
    fn stop(&mut self, server: Generation) {
        lock(&self.proxy.backends.running).remove(&server);
        for session in self.proxy.sessions() {
            lock(&session.state).forget(server);
        }
        if let Some(process) = self.servers.remove(&server) {
            let _ = process.stop.send(());
        }
    }

    async fn shut_down(mut self) {
        self.proxy.backends.is_shutdown.send_replace(true);
        let servers: Vec<_> = self.servers.keys().copied().collect();
        for server in servers {
            self.stop(server);
        }
        let exits = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(SHUTDOWN_TIMEOUT, exits).await;
        self.tasks.shutdown().await;
    }
}

/// Sends a stateless request. Returns the response, which is an error unless the server sends a valid one.
async fn exchange(backend: &Backend, path: String, line: String) -> Option<String> {
    let (id, method) = {
        let message = Message::parse(&line)?;
        (message.id?.get().to_owned(), message.method.unwrap_or_default())
    };
    let request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header(PROTOCOL_VERSION, HeaderValue::from_static("2026-07-28"))
        .header("mcp-method", method)
        .body(());
    let response = match request {
        Ok(request) => backend.exchange(&request.into_parts().0, line).await,
        Err(_) => None,
    };
    let text = response.and_then(|(_, text)| text);
    let is_response =
        |text: &String| Message::parse(text).and_then(|message| message.request_id()) == RequestId::parse(&id);
    Some(text.filter(is_response).unwrap_or_else(|| error_response(&id, INTERNAL_ERROR, "no response")))
}

/// Forwards the output of a server, reports its address and its exit, and terminates it when it is stopped.
async fn supervise(
    mut process: Process,
    server: Generation,
    address_file: PathBuf,
    stopped: oneshot::Receiver<()>,
    sender: mpsc::UnboundedSender<TaskMessage>,
    reporter: Reporter,
) {
    // The watchdog ends its server when this is closed.
    let _stdin = process.child.stdin.take();
    let stdout = process.child.stdout.take();
    let forwarding = tokio::spawn(forward_lines(process.child.stderr.take(), reporter));
    let report_address = async {
        let url = read_address(&address_file).await;
        let _ = sender.send(TaskMessage::Listening(server, url));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        _ = stopped => {
            process.terminate();
            process.end().await;
        }
        status = process.child.wait() => {
            drop(process);
            let how = timeout(REPORT_TIMEOUT, read_exit(stdout)).await.ok().flatten();
            // Show the server's last output before its exit.
            let _ = timeout(DRAIN_TIMEOUT, forwarding).await;
            let how = how.unwrap_or_else(|| describe_exit(status));
            let _ = sender.send(TaskMessage::Event(Event::ServerExited(server, how)));
        }
        () = report_address => {}
    }
}

/// Forwards the lines of a server's log, except for the report of its address.
async fn forward_lines(stream: Option<impl AsyncRead + Unpin>, reporter: Reporter) {
    let Some(stream) = stream else { return };
    let mut lines = BufReader::new(stream).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = String::from_utf8_lossy(&line);
        if !is_address_report(&line) {
            reporter.log(&line);
        }
    }
}

/// Returns whether a line is `NAME listens on http://127.0.0.1:PORT/…`. The port is internal: clients use the proxy's.
fn is_address_report(line: &str) -> bool {
    let report = line.trim().split_once(" listens on http://127.0.0.1:");
    report.is_some_and(|(name, address)| !name.contains(' ') && !address.contains(' '))
}

/// Waits until a server has written the URL of its endpoint, which it does in one step.
async fn read_address(file: &Path) -> String {
    loop {
        if let Ok(url) = std::fs::read_to_string(file) {
            let _ = std::fs::remove_file(file);
            return url;
        }
        sleep(ADDRESS_POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::is_address_report;

    #[test]
    fn only_reports_of_the_own_address_are_recognized() {
        for (line, expected) in [
            ("notes listens on http://127.0.0.1:40123/mcp\r\n", true),
            ("notes listens on http://example.com/mcp", false),
            ("the backend listens on http://127.0.0.1:40123/", false),
            ("2026-07-28T12:00:00Z INFO session opened", false),
        ] {
            assert_eq!(is_address_report(line), expected, "{line}");
        }
    }
}
