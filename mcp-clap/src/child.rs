//! Calls as child processes.

use std::{io, path::PathBuf, process::Stdio};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, copy, sink},
    process::Command,
};

pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) output_limit: usize,
}

impl Program {
    /// Runs the program to its end, and kills it if the future is dropped.
    pub(crate) async fn run(&self, arguments: Vec<String>) -> Result<String, String> {
        let fail = |error: io::Error| format!("cannot run `{}`: {error}", self.path.display());
        let mut command = Command::new(&self.path);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(fail)?;
        #[cfg(unix)]
        let group = ProcessGroup::of(&child);
        let (stdout, stderr) =
            tokio::try_join!(self.read(child.stdout.take()), self.read(child.stderr.take())).map_err(fail)?;
        let status = child.wait().await.map_err(fail)?;
        #[cfg(unix)]
        group.forget();
        if !status.success() {
            let parts = [status.to_string(), stderr, stdout];
            return Err(parts
                .iter()
                .map(|part| part.trim_end())
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("\n"));
        }
        Ok(if stdout.is_empty() { stderr } else { stdout })
    }

    /// Reads to the end, so that the program is never blocked, and keeps the beginning.
    async fn read(&self, pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
        let Some(mut pipe) = pipe else { return Ok(String::new()) };
        let mut kept = Vec::new();
        (&mut pipe).take(self.output_limit as u64).read_to_end(&mut kept).await?;
        let cut = copy(&mut pipe, &mut sink()).await?;
        let mut text = String::from_utf8_lossy(&kept).into_owned();
        if cut > 0 {
            text.push_str(&format!("\n[cut: {cut} more bytes than the limit of {}]", self.output_limit));
        }
        Ok(text)
    }
}

/// Kills a child and its own children when dropped.
///
/// The child has not been waited for as long as this exists, so that no other group can have its id.
#[cfg(unix)]
struct ProcessGroup(Option<rustix::process::Pid>);

#[cfg(unix)]
impl ProcessGroup {
    fn of(child: &tokio::process::Child) -> Self {
        Self(child.id().and_then(|id| rustix::process::Pid::from_raw(id.try_into().ok()?)))
    }

    fn forget(mut self) {
        self.0 = None;
    }
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Fails if the group has ended.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }
}
