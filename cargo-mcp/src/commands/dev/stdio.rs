//! The proxy on stdin and stdout, and the servers with which it exchanges lines over theirs.

use std::{
    collections::HashMap,
    convert::Infallible,
    io::{self, BufRead, Write},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{ChildStdin, Command},
    sync::{Notify, mpsc, oneshot},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep_until, timeout},
};

use super::{
    Reporter,
    builder::{BuildEvent, Executables},
    message::{BuildId, Generation},
    process::{LaunchConfig, describe_exit},
    proxy::{self, Effect, Event, Proxy, ProxyConfig},
};
use crate::{
    output::{forward, server_stderr},
    process::{EXIT_TIMEOUT, Process},
    signals::ShutdownSignals,
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
                        // Closes stdin once all queued lines are written.
                        process.input = None;
                    }
                }
                Effect::StopServer(server) => drop(self.servers.remove(&server)),
                Effect::StartTimer(delay, timer) => {
                    let events = self.timer_events.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(delay).await;
                        let _ = events.send(Event::TimerExpired(timer));
                    });
                }
                Effect::Activated(..) => {}
                Effect::Info(text) => self.reporter.info(text),
                Effect::Warn(text) => self.reporter.warn(text),
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
        match StdioServer::start(command, backlog.clone(), server, self.server_events.clone()) {
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
        self.servers.clear();
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

/// The time to read remaining output after the process exited. Its descendants may hold the pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A running server. Dropping it ends the process, and no output is sent from then on.
#[derive(Debug)]
struct StdioServer {
    input: Option<mpsc::UnboundedSender<String>>,
    _stop: oneshot::Sender<Infallible>,
}

impl StdioServer {
    /// Starts a server and sends its output to `events`, its exit last. The returned future completes when the process has exited.
    ///
    /// # Errors
    ///
    /// Returns an error if the process cannot be started.
    fn start(
        mut command: Command,
        backlog: Backlog,
        server: Generation,
        events: mpsc::Sender<Event>,
    ) -> io::Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(server_stderr());
        let mut process = Process::start(&mut command)?;
        if let Some(stderr) = process.child.stderr.take() {
            tokio::spawn(forward(stderr));
        }
        let (Some(stdin), Some(stdout)) = (process.child.stdin.take(), process.child.stdout.take()) else {
            return Err(io::Error::other("stdin and stdout are not piped"));
        };
        let (input, lines) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write(stdin, lines, backlog)).abort_handle();
        let (stop, stopped) = oneshot::channel();
        let supervision = supervise(process, stdout, stopped, writer, server, events);
        Ok((Self { input: Some(input), _stop: stop }, supervision))
    }

    /// Queues a line.
    fn send(&self, line: String) {
        if let Some(input) = &self.input {
            let _ = input.send(line);
        }
    }
}

/// Writes queued lines to stdin.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>, backlog: Backlog) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        // A write fails only if the process exited, which the supervisor notices.
        let written = stdin.write_all(line.as_bytes()).await;
        backlog.remove(line.len() - 1);
        if written.is_err() {
            break;
        }
    }
    while let Ok(line) = lines.try_recv() {
        backlog.remove(line.len());
    }
}

/// Sends the output of a process until the process exits or is stopped.
async fn supervise(
    mut process: Process,
    stdout: impl AsyncRead + Unpin + Send,
    mut stop: oneshot::Receiver<Infallible>,
    writer: AbortHandle,
    server: Generation,
    events: mpsc::Sender<Event>,
) {
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    let mut exited: Option<(String, Instant)> = None;
    loop {
        let drained = exited.as_ref().map_or_else(Instant::now, |(_, at)| *at + DRAIN_TIMEOUT);
        tokio::select! {
            biased;
            _ = &mut stop => {
                tokio::join!(process.end(), discard(&mut stdout, &writer));
                return;
            }
            read = stdout.read_until(b'\n', &mut line) => {
                if !matches!(read, Ok(1..)) {
                    break;
                }
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                line.clear();
                tokio::select! {
                    biased;
                    sent = events.send(Event::ServerLine(server, text)) => if sent.is_err() { break },
                    _ = &mut stop => return process.end().await,
                }
                if let Some((_, at)) = &mut exited {
                    *at = Instant::now();
                }
            }
            status = process.child.wait(), if exited.is_none() => exited = Some((describe_exit(status), Instant::now())),
            () = sleep_until(drained), if exited.is_some() => break,
        }
    }
    writer.abort();
    let how = match exited {
        Some((how, _)) => how,
        None => match timeout(DRAIN_TIMEOUT, process.child.wait()).await {
            Ok(status) => describe_exit(status),
            Err(_) => {
                process.terminate();
                process.end().await;
                let how = "it closed its stdout".to_owned();
                let _ = events.send(Event::ServerExited(server, how)).await;
                return;
            }
        },
    };
    drop(process);
    let _ = events.send(Event::ServerExited(server, how)).await;
}

/// Discards output, so that a process which is being stopped does not block on a full pipe.
///
/// Gives up on writing queued lines, which closes stdin, after half of the time that the process has to exit.
async fn discard(stdout: &mut (impl AsyncBufReadExt + Unpin), writer: &AbortHandle) {
    let mut line = Vec::new();
    let drain = async {
        while stdout.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
            line.clear();
        }
    };
    let abort_writer = async {
        tokio::time::sleep(EXIT_TIMEOUT / 2).await;
        writer.abort();
    };
    tokio::select! {
        () = drain => {}
        () = abort_writer => {}
    }
}

/// The limit in bytes. While a backlog exceeds it, input that would add to it is not read.
const MAX_BYTES: usize = 8 << 20;

/// Counts the bytes that wait to be written and wakes the task that waits for room.
#[derive(Debug, Clone, Default)]
struct Backlog {
    bytes: Arc<AtomicUsize>,
    room: Arc<Notify>,
}

impl Backlog {
    /// Returns an empty backlog that wakes the same task as this one.
    fn sibling(&self) -> Self {
        Self { bytes: Arc::default(), room: Arc::clone(&self.room) }
    }

    /// Counts bytes that were queued.
    fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that were written or discarded.
    fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.room.notify_one();
    }

    /// Returns whether the backlog is below its limit.
    fn has_room(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < MAX_BYTES
    }

    /// Waits until something is removed from this backlog or a sibling.
    async fn removed(&self) {
        self.room.notified().await;
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::Path;

    use super::*;

    /// A time limit that is generous even on a busy machine.
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Starts a shell script as a server. Returns its supervision, which still has to run, and the receiver of its events.
    fn start(script: &str) -> (StdioServer, impl Future<Output = ()> + Send + 'static + use<>, mpsc::Receiver<Event>) {
        let launch = LaunchConfig { args: ["-c", script].map(str::to_owned).to_vec(), env: Vec::new() };
        let (sender, events) = mpsc::channel(QUEUED_LINES);
        let started = StdioServer::start(launch.command(Path::new("sh")), Backlog::default(), 1, sender);
        let (server, supervision) = started.expect("the script starts");
        (server, supervision, events)
    }

    #[tokio::test]
    async fn a_server_that_is_stopped_can_write_all_its_output() {
        let directory = tempfile::tempdir().expect("a directory");
        let ended = directory.path().join("ended");
        // More than the pipe holds.
        let (server, supervision, mut events) =
            start(&format!("echo started; read line; head -c 1000000 /dev/zero; touch '{}'", ended.display()));
        let supervision = tokio::spawn(supervision);
        let first = timeout(TIMEOUT, events.recv()).await.expect("a line");
        assert!(matches!(&first, Some(Event::ServerLine(1, line)) if line == "started"), "{first:?}");
        drop(server);
        timeout(TIMEOUT, supervision).await.expect("the server ends").expect("no panic");
        assert!(ended.exists());
    }

    /// The next request starts a server again, which requires that this one counts as gone.
    #[tokio::test]
    async fn a_server_without_output_is_ended() {
        let (_server, supervision, mut events) = start("exec >&-; exec sleep 600");
        tokio::spawn(supervision);
        let exited = timeout(TIMEOUT, events.recv()).await.expect("an exit");
        assert!(matches!(&exited, Some(Event::ServerExited(1, how)) if how == "it closed its stdout"), "{exited:?}");
    }

    #[tokio::test]
    async fn servers_have_time_to_exit_at_shutdown() {
        let mut stdio = StdioProxy {
            proxy: Proxy::new(ProxyConfig::default()),
            launch: LaunchConfig { args: Vec::new(), env: Vec::new() },
            reporter: Reporter { quiet: true },
            executables: Executables::default(),
            servers: HashMap::new(),
            supervisions: JoinSet::new(),
            server_events: mpsc::channel(1).0,
            timer_events: mpsc::unbounded_channel().0,
            client: std::sync::mpsc::channel().0,
            client_backlog: Backlog::default(),
        };
        let (exited, exit) = oneshot::channel();
        stdio.supervisions.spawn(async move {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            let _ = exited.send(());
        });
        stdio.shut_down(None).await;
        assert_eq!(exit.await, Ok(()), "the server was killed");
    }
}
