//! `cargo mcp` in a pseudo-terminal.

use std::{path::Path, process::Command, time::Duration};

use expectrl::{Eof, Expect, Session, process::unix::WaitStatus, session::OsSession};

use crate::common::{command, repository};

/// A pseudo-terminal that runs `cargo mcp`.
pub(crate) struct Terminal(OsSession);

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
        let mut session = Session::spawn(shell).expect("a pseudo-terminal");
        session.get_process_mut().set_window_size(160, 50).expect("the size is set");
        session.set_expect_timeout(Some(Duration::from_secs(60)));
        Self(session)
    }

    /// Waits until the terminal shows a text. Returns the output before it.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        match self.0.expect(text) {
            Ok(captures) => String::from_utf8_lossy(captures.before()).into_owned(),
            Err(error) => {
                let mut rest = vec![0; 10_000];
                let read = self.0.try_read(&mut rest).unwrap_or_default();
                panic!("expected {text:?} ({error}), found: {}", String::from_utf8_lossy(&rest[..read]))
            }
        }
    }

    /// Sends key presses.
    pub(crate) fn send_keys(&mut self, keys: &str) {
        self.0.send(keys).expect("the terminal accepts input");
    }

    /// Waits for the command to exit and returns its output.
    pub(crate) fn output(mut self) -> String {
        let captures = self.0.expect(Eof).expect("the command exits");
        String::from_utf8_lossy(captures.as_bytes()).into_owned()
    }

    /// Waits for the command to exit and returns its exit code.
    #[track_caller]
    pub(crate) fn exit_code(mut self) -> i32 {
        self.0.expect(Eof).expect("the command exits");
        match self.0.get_process().wait().expect("the process exits") {
            WaitStatus::Exited(_, code) => code,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) const ENTER: &str = "\r";
pub(crate) const ESCAPE: &str = "\x1b";
pub(crate) const DOWN: &str = "\x1b[B";
pub(crate) const CTRL_C: &str = "\x03";
