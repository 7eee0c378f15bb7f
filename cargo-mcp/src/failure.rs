//! The failure of a command: its message, its help and its exit code.

use std::{fmt::Display, process::ExitCode};

use crate::output::{AnsiColor, ERROR, Style, errln};

/// Why a command failed, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: FailureKind,
    message: String,
    help: Vec<String>,
}

/// The kinds of failures, with the exit codes that scripts rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The server reported an error, or a check found problems.
    Tool = 1,
    /// The command line is invalid, or a file that it names is invalid.
    Usage = 2,
    /// The server cannot be built, started or reached, or closed the connection.
    Connection = 3,
    /// Ctrl-C, with the exit code that shells use.
    Interrupted = 130,
}

impl Failure {
    /// Creates a failure for an operation that the server executed or rejected.
    pub(crate) fn tool(message: impl Display) -> Self {
        Self::new(FailureKind::Tool, message)
    }

    /// Creates a failure for an invalid command line, or for a file that it names.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    /// Creates a failure for a server that cannot be built, started or reached.
    pub(crate) fn connection(message: impl Display) -> Self {
        Self::new(FailureKind::Connection, message)
    }

    /// Creates a failure for a command that the user interrupted.
    pub(crate) fn interrupted() -> Self {
        Self::new(FailureKind::Interrupted, "cancelled")
    }

    /// Returns whether this client ended the operation, which the server does not know yet.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.kind, FailureKind::Interrupted | FailureKind::Usage)
    }

    /// Returns whether the server is available and returned an error.
    pub(crate) fn is_server_error(&self) -> bool {
        self.kind == FailureKind::Tool
    }

    fn new(kind: FailureKind, message: impl Display) -> Self {
        Self { kind, message: message.to_string(), help: Vec::new() }
    }

    /// Adds a suggestion.
    pub(crate) fn help(mut self, help: impl Display) -> Self {
        self.help.push(help.to_string());
        self
    }

    /// Prints the failure to stderr.
    pub(crate) fn print(&self) {
        const HELP: Style = Style::color(AnsiColor::Cyan).bold();
        if !self.message.is_empty() {
            errln!("{ERROR}error{ERROR:#}: {}", self.message);
        }
        for help in &self.help {
            errln!("{HELP}help{HELP:#}: {help}");
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }
}
