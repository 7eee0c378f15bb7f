//! Server processes.

use std::{
    fmt, fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    time::{ClockId, clock_gettime},
    unistd::Pid,
};

use crate::{
    error::{Failure, Result},
    machine::Cores,
};

/// The time after which a process is killed.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The implementation of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Implementation {
    Peer,
    Limit,
    Ours,
}

impl Implementation {
    pub const ALL: [Self; 3] = [Self::Peer, Self::Limit, Self::Ours];
}

impl fmt::Display for Implementation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Peer => "rmcp",
            Self::Limit => "limit",
            Self::Ours => "ours",
        })
    }
}

/// A program to start.
#[derive(Debug, Clone)]
pub struct Program {
    pub path: PathBuf,
    pub words: Vec<String>,
    /// The command that runs the program, such as valgrind.
    pub wrapper: Vec<String>,
    pub environment: &'static [(&'static str, &'static str)],
}

impl Program {
    pub fn new(path: PathBuf) -> Self {
        Self { path, words: Vec::new(), wrapper: Vec::new(), environment: &[] }
    }

    #[must_use]
    pub fn words(mut self, words: &[&str]) -> Self {
        self.words.extend(words.iter().map(|&word| word.to_owned()));
        self
    }

    fn command(&self) -> Command {
        let mut all = self.wrapper.iter().map(String::as_str).chain(self.path.to_str());
        let mut command = Command::new(all.next().unwrap_or_default());
        command.args(all).args(&self.words).envs(self.environment.iter().copied());
        command
    }

    /// Starts a server on stdin and stdout.
    pub fn stdio(&self, cores: &Cores) -> Result<Process> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        self.start(command, cores)
    }

    /// Starts a program without input, and discards its output.
    pub fn background(&self, cores: &Cores) -> Result<Process> {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.start(command, cores)
    }

    /// Starts an HTTP server on a free port and waits until it listens.
    pub fn http(&self, cores: &Cores) -> Result<(Process, SocketAddr)> {
        let mut command = self.command();
        command.args(["--http", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = self.start(command, cores)?;
        let mut stderr = BufReader::new(process.child.stderr.take().expect("stderr is a pipe"));
        let mut line = String::new();
        while stderr.read_line(&mut line)? > 0 {
            if let Some((_, url)) = line.split_once("://") {
                let address = url.split('/').next().and_then(|address| address.parse().ok());
                let address = address.ok_or_else(|| Failure::new(format!("invalid address in {line}")))?;
                thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
                return Ok((process, address));
            }
            line.clear();
        }
        Err(Failure::new(format!("{} does not listen", self.path.display())))
    }

    fn start(&self, mut command: Command, cores: &Cores) -> Result<Process> {
        let (began, child) = cores.on_server(|| (Instant::now(), command.spawn()))?;
        let child = child.map_err(|error| Failure::from(error).during(self.path.display()))?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let (alive, ended) = mpsc::channel::<()>();
        thread::spawn(move || {
            if ended.recv_timeout(TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = kill(pid, Signal::SIGKILL);
            }
        });
        Ok(Process { child, pid, began, _alive: alive })
    }
}

/// A running server. Dropping it kills the process.
pub struct Process {
    child: Child,
    pid: Pid,
    /// The time at which it was started.
    pub began: Instant,
    /// Kills the process after `TIMEOUT` unless this is dropped first.
    _alive: mpsc::Sender<()>,
}

impl Process {
    /// Returns the CPU time of all threads so far, in user space and in the kernel.
    pub fn cpu(&self) -> Result<Duration> {
        Ok(clock_gettime(ClockId::pid_cpu_clock_id(self.pid)?)?.into())
    }

    /// Returns the resident memory in bytes.
    pub fn resident(&self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// Returns the maximum of the resident memory in bytes since [`reset_peak`](Self::reset_peak).
    pub fn peak(&self) -> Result<u64> {
        self.status("VmHWM:")
    }

    /// Sets the maximum of the resident memory to its current value.
    pub fn reset_peak(&self) -> Result<()> {
        // See proc_pid_clear_refs(5).
        Ok(fs::write(format!("/proc/{}/clear_refs", self.pid), "5")?)
    }

    fn status(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kilobytes.map(|kilobytes| kilobytes * 1024).ok_or_else(|| Failure::new(format!("no {name} in /proc")))
    }

    pub fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout)> {
        match (self.child.stdin.take(), self.child.stdout.take()) {
            (Some(stdin), Some(stdout)) => Ok((stdin, stdout)),
            _ => Err(Failure::new("stdin and stdout are already in use")),
        }
    }

    /// Waits until the process exits, which it does when its stdin is closed.
    pub fn wait(mut self) -> Result<()> {
        self.child.wait()?;
        Ok(())
    }

    /// Terminates the process and waits until it has exited.
    pub fn stop(mut self) -> Result<()> {
        kill(self.pid, Signal::SIGTERM)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
