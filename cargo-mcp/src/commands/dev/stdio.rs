//! The proxy on stdin and stdout.

use std::{
    collections::HashMap,
    io::{BufRead, Write},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};

use super::{
    builder::{BuildEvent, Executables},
    message::{BuildId, Generation},
    process::{LaunchConfig, ShutdownSignals},
    proxy::{self, Effect, Event, Proxy, ProxyConfig, Severity},
    reporter::Reporter,
    stdio_server::{Backlog, ServerOutput, StdioServer},
};

/// The number of lines from each side that may wait to be processed.
const QUEUED_LINES: usize = 64;
/// The time to write the last output, and the time that servers have to exit before they are killed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1500);

/// Carries out the effects of the proxy.
struct StdioProxy {
    proxy: Proxy,
    launch: LaunchConfig,
    reporter: Reporter,
    executables: Executables,
    servers: HashMap<Generation, (StdioServer, Backlog)>,
    supervisions: JoinSet<()>,
    server_events: mpsc::Sender<Event>,
    timer_events: mpsc::UnboundedSender<Event>,
    client: std::sync::mpsc::Sender<String>,
    client_backlog: Backlog,
}

/// Serves the client that started this process until it closes the connection.
pub(super) async fn serve(
    config: ProxyConfig,
    launch: LaunchConfig,
    reporter: Reporter,
    mut builds: mpsc::UnboundedReceiver<BuildEvent>,
    mut signals: ShutdownSignals,
) {
    let (server_events, mut from_servers) = mpsc::channel(QUEUED_LINES);
    let (timer_events, mut from_timers) = mpsc::unbounded_channel();
    let mut from_client = read_stdin();
    let client_backlog = Backlog::default();
    let (client, mut stdout_closed) = write_stdout(client_backlog.clone());
    let mut stdio = StdioProxy {
        proxy: Proxy::new(config),
        launch,
        reporter,
        executables: Executables::default(),
        servers: HashMap::new(),
        supervisions: JoinSet::new(),
        server_events,
        timer_events,
        client,
        client_backlog,
    };
    let (mut is_done, mut is_stdout_closed) = (false, false);
    while !is_done {
        let client_has_room = stdio.client_backlog.has_room();
        let servers_have_room = stdio.servers.values().all(|(_, backlog)| backlog.has_room());
        let event = tokio::select! {
            biased;
            () = signals.recv() => Event::ShutdownRequested,
            _ = &mut stdout_closed => {
                is_stdout_closed = true;
                Event::ShutdownRequested
            }
            Some(event) = from_timers.recv() => event,
            Some(build) = builds.recv() => stdio.executables.record(build),
            Some(event) = from_servers.recv(), if client_has_room => event,
            Some(event) = from_client.recv(), if servers_have_room && client_has_room => event,
            () = stdio.client_backlog.removed(), if !servers_have_room || !client_has_room => continue,
            Some(_) = stdio.supervisions.join_next() => continue,
        };
        is_done = stdio.handle(event);
    }
    stdio.shut_down((!is_stdout_closed).then_some(stdout_closed)).await;
}

impl StdioProxy {
    /// Carries out the effects of an event. Returns whether this process should exit.
    fn handle(&mut self, event: Event) -> bool {
        let mut is_done = false;
        for effect in proxy::handle(&mut self.proxy, event) {
            match effect {
                Effect::SendToClient(line) => {
                    self.client_backlog.add(line.len());
                    let _ = self.client.send(line);
                }
                Effect::SendToServer(server, line) => {
                    if let Some((process, backlog)) = self.servers.get(&server) {
                        backlog.add(line.len());
                        process.send(line);
                    }
                }
                Effect::StartServer(server, build) => self.start(server, build),
                Effect::CloseInput(server) => {
                    if let Some((process, _)) = self.servers.get_mut(&server) {
                        process.close_input();
                    }
                }
                Effect::StopServer(server) => {
                    if let Some((process, _)) = self.servers.remove(&server) {
                        process.stop();
                    }
                }
                Effect::StartTimer(delay, timer) => {
                    let events = self.timer_events.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        let _ = events.send(Event::TimerExpired(timer));
                    });
                }
                Effect::Activated(..) => {}
                Effect::Report(Severity::Info, text) => self.reporter.info(text),
                Effect::Report(Severity::Warning, text) => self.reporter.warn(text),
                Effect::Exit => is_done = true,
            }
        }
        self.executables.remove_unused(&self.proxy);
        is_done
    }

    fn start(&mut self, server: Generation, build: BuildId) {
        let Some(executable) = self.executables.get(build) else { return };
        let command = self.launch.command(executable);
        let backlog = self.client_backlog.sibling();
        let wrap = move |output| match output {
            ServerOutput::Line(line) => Event::ServerLine(server, line),
            ServerOutput::Exited(how) => Event::ServerExited(server, how),
        };
        match StdioServer::start(command, backlog.clone(), self.server_events.clone(), wrap) {
            Ok((process, supervision)) => {
                self.servers.insert(server, (process, backlog));
                self.supervisions.spawn(supervision);
            }
            Err(error) => {
                let how = format!("cannot run the executable: {error}");
                let _ = self.timer_events.send(Event::ServerExited(server, how));
            }
        }
    }

    /// Writes the remaining output and stops all servers.
    async fn shut_down(mut self, stdout_closed: Option<oneshot::Receiver<()>>) {
        for (_, (process, _)) in self.servers.drain() {
            process.stop();
        }
        drop(self.client);
        let exits = async { while self.supervisions.join_next().await.is_some() {} };
        let flush = async {
            if let Some(stdout_closed) = stdout_closed {
                let _ = stdout_closed.await;
            }
        };
        let _ = tokio::join!(timeout(SHUTDOWN_TIMEOUT, flush), timeout(SHUTDOWN_TIMEOUT, exits));
        // Dropping the future that supervises a process kills the process.
        self.supervisions.shutdown().await;
    }
}

/// Reads lines from stdin. Uses a thread, since reading cannot be interrupted and must not delay the exit.
fn read_stdin() -> mpsc::Receiver<Event> {
    let (events, receiver) = mpsc::channel(QUEUED_LINES);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        let mut line = Vec::new();
        while stdin.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            let text = String::from_utf8_lossy(&line).into_owned();
            if events.blocking_send(Event::ClientLine(text)).is_err() {
                return;
            }
            line.clear();
        }
        let _ = events.blocking_send(Event::ClientClosed);
    });
    receiver
}

/// Writes lines to stdout. The returned receiver resolves when all lines are written or the client closed the pipe.
fn write_stdout(backlog: Backlog) -> (std::sync::mpsc::Sender<String>, oneshot::Receiver<()>) {
    let (sender, lines) = std::sync::mpsc::channel::<String>();
    let (closed, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let mut stdout = std::io::stdout().lock();
        for mut line in lines {
            let length = line.len();
            line.push('\n');
            if stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_err() {
                break;
            }
            backlog.remove(length);
        }
        let _ = closed.send(());
    });
    (sender, receiver)
}
