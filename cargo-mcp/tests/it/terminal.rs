//! `cargo mcp` in a pseudo-terminal.

use std::{path::Path, process::Command, time::Duration};

use expectrl::{Eof, Expect, Session, process::unix::WaitStatus, session::OsSession};

use crate::common::repository;

/// A terminal in which `cargo mcp` runs.
pub(crate) struct Terminal(OsSession);

impl Terminal {
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::start_in(repository(), words)
    }

    pub(crate) fn start_in(directory: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-mcp"));
        command.arg("mcp").args(words).current_dir(directory).env("NO_COLOR", "1").env("TERM", "xterm");
        let mut session = Session::spawn(command).expect("a terminal can be opened");
        session.get_process_mut().set_window_size(160, 50).expect("a terminal has a size");
        // The library disables echo, which is on in real terminals.
        session.get_process_mut().set_echo(true, None).expect("a terminal has its settings");
        session.set_expect_timeout(Some(Duration::from_secs(60)));
        Self(session)
    }

    /// Waits until the terminal shows `what`. Returns the output before it.
    #[track_caller]
    pub(crate) fn sees(&mut self, what: &str) -> String {
        match self.0.expect(what) {
            Ok(captures) => String::from_utf8_lossy(captures.before()).into_owned(),
            Err(error) => {
                let mut rest = vec![0; 10_000];
                let read = self.0.try_read(&mut rest).unwrap_or_default();
                panic!("{what:?} is not shown ({error}): {}", String::from_utf8_lossy(&rest[..read]))
            }
        }
    }

    /// Presses keys.
    pub(crate) fn types(&mut self, keys: &str) {
        self.0.send(keys).expect("a terminal takes keys");
    }

    /// Returns whether echo is on, as shells expect.
    pub(crate) fn is_cooked(&self) -> bool {
        self.0.get_process().get_echo().expect("a terminal has its settings")
    }

    /// Waits for the end of the command. Returns its exit code.
    #[track_caller]
    pub(crate) fn ends(mut self) -> i32 {
        self.0.expect(Eof).expect("the command ends");
        match self.0.get_process().wait().expect("a process ends") {
            WaitStatus::Exited(_, code) => code,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) const ENTER: &str = "\r";
pub(crate) const ESCAPE: &str = "\x1b";
pub(crate) const DOWN: &str = "\x1b[B";
pub(crate) const CTRL_C: &str = "\x03";
