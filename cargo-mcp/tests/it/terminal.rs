//! `cargo mcp` in a pseudo-terminal.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    mem,
    path::Path,
    process::Command,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use ptyprocess::{PtyProcess, WaitStatus};

use crate::common::{command, repository};

/// A time limit that is generous even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A pseudo-terminal that runs `cargo mcp`.
pub(crate) struct Terminal {
    process: PtyProcess,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// The output that no test has waited for yet.
    unread: Vec<u8>,
}

impl Terminal {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_in(repository(), args)
    }

    pub(crate) fn start_in(directory: &Path, args: &[&str]) -> Self {
        let mut command = command(env!("CARGO_BIN_EXE_cargo-mcp"));
        command.arg("mcp").args(args).current_dir(directory);
        Self::spawn(command)
    }

    /// Starts a shell that enables echo, runs `cargo mcp`, prints the settings of the terminal, and exits with the code of
    /// the command.
    pub(crate) fn start_in_shell(args: &[&str]) -> Self {
        let mut command = Command::new("sh");
        let script = r#"stty echo; "$@"; code=$?; stty -a; exit $code"#;
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_cargo-mcp"), "mcp"]).args(args).current_dir(repository());
        Self::spawn(command)
    }

    /// Runs a command in a terminal that is wide enough for every line. The command starts when the terminal has its size.
    fn spawn(command: Command) -> Self {
        let mut shell = Command::new("sh");
        let script = r#"until [ "$(stty size)" = "50 160" ]; do sleep 0.01; done; exec "$@""#;
        shell.args(["-c", script, "sh"]);
        shell.arg(command.get_program()).args(command.get_args());
        shell.current_dir(command.get_current_dir().expect("every command has a directory"));
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.env("NO_COLOR", "1").env("TERM", "xterm");
        let mut process = PtyProcess::spawn(shell).expect("a pseudo-terminal");
        process.set_window_size(160, 50).expect("the size is set");
        let keyboard = process.get_raw_handle().expect("the terminal is open");
        let screen = read_chunks(process.get_raw_handle().expect("the terminal is open"));
        Self { process, keyboard, screen, unread: Vec::new() }
    }

    /// Waits until the terminal shows a text. Returns the output before it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(at) = self.unread.windows(text.len()).position(|part| part == text.as_bytes()) {
                let rest = self.unread.split_off(at + text.len());
                let before = mem::replace(&mut self.unread, rest);
                return lossy(&before[..at]);
            }
            let more = self.receive(deadline);
            assert!(more.is_ok(), "expected {text:?} ({more:?}), found: {}", lossy(&self.unread));
        }
    }

    /// Sends key presses.
    pub(crate) fn send_keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal accepts input");
    }

    /// Waits for the command to exit and returns its output.
    #[track_caller]
    pub(crate) fn output(mut self) -> String {
        self.wait_for_end();
        lossy(&self.unread)
    }

    /// Waits for the command to exit and returns its exit code.
    #[track_caller]
    pub(crate) fn exit_code(mut self) -> i32 {
        self.wait_for_end();
        match self.process.wait().expect("the process exits") {
            WaitStatus::Exited(_, code) => code,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn wait_for_end(&mut self) {
        let deadline = Instant::now() + TIMEOUT;
        let end = loop {
            if let Err(end) = self.receive(deadline) {
                break end;
            }
        };
        assert_eq!(end, RecvTimeoutError::Disconnected, "the command does not exit: {}", lossy(&self.unread));
    }

    /// Waits for more output.
    ///
    /// # Errors
    ///
    /// Fails at the end of the output or of the time.
    fn receive(&mut self, deadline: Instant) -> Result<(), RecvTimeoutError> {
        let chunk = self.screen.recv_timeout(deadline.saturating_duration_since(Instant::now()))?;
        self.unread.extend(chunk);
        Ok(())
    }
}

/// Reads the output of a terminal on another thread, since reading has no time limit.
fn read_chunks(mut terminal: File) -> Receiver<Vec<u8>> {
    let (sender, chunks) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        // At the end of the output, Linux reports an error.
        while let Ok(length @ 1..) = terminal.read(&mut buffer) {
            let _ = sender.send(buffer[..length].to_vec());
        }
    });
    chunks
}

fn lossy(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

pub(crate) const ENTER: &str = "\r";
pub(crate) const ESCAPE: &str = "\x1b";
pub(crate) const DOWN: &str = "\x1b[B";
pub(crate) const CTRL_C: &str = "\x03";
