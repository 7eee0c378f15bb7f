//! An upstream that this process starts, over its stdin and stdout.

use std::{
    ffi::OsString,
    io,
    pin::Pin,
    process::Stdio,
    task::{Context, Poll, ready},
    time::Duration,
};

use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

/// The variables of the environment that the program receives. The rest may contain secrets of this process.
const INHERITED: [&str; 20] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "USERPROFILE",
];

/// How long a program may run after its stdin was closed.
const GRACE: Duration = Duration::from_secs(2);

/// A program, and how it is started.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) path: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Program {
    pub(crate) fn start(&self, max_message_bytes: usize) -> io::Result<ChildTransport> {
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).env_clear().kill_on_drop(true);
        command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // A launcher such as `npx` starts the server as its own child.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let missing = || io::Error::other("the program has no pipes");
        let (stdin, stdout) = (child.stdin.take().ok_or_else(missing)?, child.stdout.take().ok_or_else(missing)?);
        let stdout = Lines { inner: stdout, length: 0, max: max_message_bytes };
        let inner = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(usize::MAX);
        Ok(ChildTransport { child, inner })
    }
}

/// The transport over the pipes of a program, which is killed if it survives the transport, on Unix with its own children.
pub(crate) struct ChildTransport {
    child: Child,
    inner: AsyncRwTransport<RoleClient, Lines<ChildStdout>, ChildStdin>,
}

impl Transport<RoleClient> for ChildTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.inner.receive()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await?;
        let _ = timeout(GRACE, end(&mut self.child)).await;
        kill(&mut self.child);
        self.child.wait().await.map(drop)
    }
}

impl Drop for ChildTransport {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

/// Waits until a child has ended. On Unix it remains to be waited for, so that its id still belongs to its group.
#[cfg(unix)]
async fn end(child: &mut Child) {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    while id(child).is_some_and(|id| matches!(waitid(WaitId::Pid(id), options), Ok(None))) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(unix)]
fn id(child: &Child) -> Option<rustix::process::Pid> {
    rustix::process::Pid::from_raw(child.id()?.try_into().ok()?)
}

/// Kills a child that has not been waited for, and the rest of its group.
#[cfg(unix)]
fn kill(child: &mut Child) {
    if let Some(group) = id(child) {
        // Fails if the group has ended.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

#[cfg(not(unix))]
async fn end(child: &mut Child) {
    let _ = child.wait().await;
}

#[cfg(not(unix))]
fn kill(child: &mut Child) {
    let _ = child.start_kill();
}

/// A reader that fails when a line is longer than `max` bytes. `AsyncRwTransport` would drop the line, and the call that
/// waits for it would never end.
struct Lines<R> {
    inner: R,
    /// The length of the line so far.
    length: usize,
    max: usize,
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let read = &buffer.filled()[before..];
        self.length = match read.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => read.len() - end - 1,
            None => self.length + read.len(),
        };
        if self.length > self.max {
            return Poll::Ready(Err(io::Error::other(format!("a message is longer than {} bytes", self.max))));
        }
        Poll::Ready(Ok(()))
    }
}
