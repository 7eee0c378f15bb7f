//! An upstream that this process starts, over its stdin and stdout.

use std::{
    ffi::OsString,
    io::{self, Cursor},
    mem,
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

use crate::tasks::keep_execution;

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
        let stdout = Lines { inner: stdout, line: Vec::new(), whole: Cursor::default(), max: max_message_bytes };
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
        // A program that reads nothing holds up messages, and with them the end of its stdin.
        let closing = async {
            self.inner.close().await?;
            end(&mut self.child).await;
            Ok::<_, io::Error>(())
        };
        let _ = timeout(GRACE, closing).await;
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

/// A reader of whole lines, which fails when one is longer than `max` bytes: `AsyncRwTransport` would drop the line, and the call
/// that waits for it would never end.
struct Lines<R> {
    inner: R,
    /// The beginning of a line.
    line: Vec<u8>,
    /// Whole lines, and how much of them has been read.
    whole: Cursor<Vec<u8>>,
    max: usize,
}

impl<R> Lines<R> {
    /// Takes what was read.
    fn take(&mut self, read: &[u8]) -> io::Result<()> {
        self.line.extend_from_slice(read);
        if let Some(end) = read.iter().rposition(|byte| *byte == b'\n') {
            let rest = self.line.split_off(self.line.len() - read.len() + end + 1);
            let mut whole = mem::replace(&mut self.line, rest);
            if let Ok(text) = str::from_utf8(&whole)
                && text.contains("taskSupport")
            {
                whole =
                    text.lines().flat_map(|line| [keep_execution(line), "\n".into()]).collect::<String>().into_bytes();
            }
            self.whole = Cursor::new(whole);
        }
        if self.line.len() > self.max {
            return Err(io::Error::other(format!("a message is longer than {} bytes", self.max)));
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        while self.whole.position() == self.whole.get_ref().len() as u64 {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
            let read = buffer.filled()[before..].to_vec();
            buffer.set_filled(before);
            if read.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.take(&read)?;
        }
        Pin::new(&mut self.whole).poll_read(cx, buffer)
    }
}
