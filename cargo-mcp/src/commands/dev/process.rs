//! A server's process: started in a group of its own, and ended with everything that it started.

use std::{
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::{mpsc, oneshot},
    task::AbortHandle,
    time::{Instant, sleep_until, timeout},
};

use super::flow::Flow;

/// How long a process may take to end when its input is closed, and again when it is told to.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the rest of its output may take when it has ended, since others may hold the pipe.
const REST: Duration = Duration::from_secs(1);

/// Kills a group of processes when it is dropped.
#[derive(Debug)]
pub(super) struct Leash(#[cfg(unix)] Option<rustix::process::Pid>);

/// The part of a command that every process here has.
pub(super) fn command(program: &Path, args: &[String], env: &[(String, String)]) -> Command {
    let mut command = Command::new(program);
    command.args(args).envs(env.iter().map(|(name, value)| (name, value)));
    in_group(&mut command);
    command
}

/// Has a command start in a group of its own, and end with us.
pub(super) fn in_group(command: &mut Command) {
    command.kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
}

#[cfg(unix)]
impl Leash {
    pub(super) fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)))
    }

    fn terminate(&self) {
        if let Some(group) = self.0 {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
        }
    }
}

#[cfg(unix)]
impl Drop for Leash {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(not(unix))]
impl Leash {
    pub(super) fn of(_: &Child) -> Self {
        Self()
    }

    fn terminate(&self) {}
}

/// Waits for the end of a process that has been given a reason to end, and insists on it.
pub(super) async fn end(child: &mut Child, leash: Option<Leash>) {
    if timeout(PATIENCE, child.wait()).await.is_err() {
        if let Some(leash) = &leash {
            leash.terminate();
        }
        if timeout(PATIENCE, child.wait()).await.is_err() {
            let _ = child.start_kill();
        }
    }
    drop(leash);
    let _ = timeout(PATIENCE, child.wait()).await;
}

/// Tells one process to end.
#[cfg(unix)]
pub(super) fn hang_up(child: &Child) {
    let id = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    if let Some(id) = id {
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
    }
}

#[cfg(not(unix))]
pub(super) fn hang_up(_: &Child) {}

/// Whether a process is there.
#[cfg(unix)]
pub(super) fn is_there(id: i32) -> bool {
    let test = rustix::process::test_kill_process;
    rustix::process::Pid::from_raw(id).is_some_and(|id| !matches!(test(id), Err(rustix::io::Errno::SRCH)))
}

#[cfg(not(unix))]
pub(super) fn is_there(_: i32) -> bool {
    true
}

/// Tells a process to end, and insists on it.
pub(super) async fn terminate(child: &mut Child, leash: Leash) {
    leash.terminate();
    end(child, Some(leash)).await;
}

/// A server that speaks in lines on stdin and stdout.
#[derive(Debug)]
pub(super) struct Process {
    input: Option<mpsc::UnboundedSender<String>>,
    writer: AbortHandle,
    stop: Option<oneshot::Sender<()>>,
}

/// What a process says.
#[derive(Debug)]
pub(super) enum Said {
    Line(String),
    Gone(String),
}

impl Process {
    /// Starts a server; what it says is sent on, its end last. The keeper ends when the process has ended.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub(super) fn start<T: Send + 'static>(
        mut command: Command,
        flow: Flow,
        said: mpsc::Sender<T>,
        wrap: impl Fn(Said) -> T + Send + 'static,
    ) -> io::Result<(Self, impl Future<Output = ()> + Send + 'static)> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let leash = Leash::of(&child);
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let (input, lines) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write(stdin, lines, flow)).abort_handle();
        let (stop, stopped) = oneshot::channel();
        let keeper = keep(child, leash, stdout, stopped, writer.clone(), said, wrap);
        Ok((Self { input: Some(input), writer, stop: Some(stop) }, keeper))
    }

    /// Sends a line.
    pub(super) fn send(&self, line: String) {
        if let Some(input) = &self.input {
            let _ = input.send(line);
        }
    }

    /// Closes its input when what was sent is written.
    pub(super) fn close_input(&mut self) {
        self.input = None;
    }

    /// Ends it, and listens to it no more.
    pub(super) fn stop(mut self) {
        self.input = None;
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.stop.is_some() {
            self.writer.abort();
        }
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>, flow: Flow) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        // A process that does not read has ended, or will be ended.
        let written = stdin.write_all(line.as_bytes()).await;
        flow.took(line.len() - 1);
        if written.is_err() {
            break;
        }
    }
    while let Ok(line) = lines.try_recv() {
        flow.took(line.len());
    }
}

async fn keep<T: Send + 'static>(
    mut child: Child,
    leash: Leash,
    stdout: impl AsyncRead + Unpin + Send,
    mut stop: oneshot::Receiver<()>,
    writer: AbortHandle,
    said: mpsc::Sender<T>,
    wrap: impl Fn(Said) -> T + Send,
) {
    let mut output = BufReader::new(stdout);
    let mut line = Vec::new();
    let mut ended: Option<(String, Instant)> = None;
    loop {
        let rest = ended.as_ref().map_or_else(Instant::now, |(_, at)| *at + REST);
        tokio::select! {
            biased;
            _ = &mut stop => {
                let drain = async { while output.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) { line.clear(); } };
                let close = async { tokio::time::sleep(PATIENCE / 2).await; writer.abort(); };
                tokio::join!(end(&mut child, Some(leash)), async { tokio::select! { () = drain => {}, () = close => {} } });
                return;
            }
            read = output.read_until(b'\n', &mut line) => {
                if !matches!(read, Ok(1..)) {
                    break;
                }
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                line.clear();
                tokio::select! {
                    biased;
                    sent = said.send(wrap(Said::Line(text))) => if sent.is_err() { break },
                    _ = &mut stop => return end(&mut child, Some(leash)).await,
                }
                if let Some((_, at)) = &mut ended {
                    *at = Instant::now();
                }
            }
            status = child.wait(), if ended.is_none() => ended = Some((describe(status), Instant::now())),
            () = sleep_until(rest), if ended.is_some() => break,
        }
    }
    writer.abort();
    let how = match ended {
        Some((how, _)) => how,
        None => match timeout(REST, child.wait()).await {
            Ok(status) => describe(status),
            Err(_) => {
                terminate(&mut child, leash).await;
                let _ = said.send(wrap(Said::Gone("it closed its stdout".to_owned()))).await;
                return;
            }
        },
    };
    drop(leash);
    let _ = said.send(wrap(Said::Gone(how))).await;
}

pub(super) fn describe(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    }
}
