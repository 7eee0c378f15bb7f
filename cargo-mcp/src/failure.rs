//! How a command fails: what is wrong, what to do next, and the exit code.

use std::{fmt::Display, process::ExitCode};

use anstyle::{AnsiColor, Style};

/// What went wrong, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    message: String,
    help: Vec<String>,
}

/// The exit codes, which scripts rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The server did what it was asked for, and that went wrong: a tool's error, or findings of a check.
    Tool = 1,
    /// The command line, or what it names, is wrong.
    Usage = 2,
    /// The server cannot be built, started or reached, or went away.
    Connection = 3,
    /// Ctrl-C, as shells count it.
    Interrupted = 130,
}

impl Failure {
    /// A failure of what the server was asked for.
    pub(crate) fn tool(message: impl Display) -> Self {
        Self::new(Kind::Tool, message)
    }

    /// A wrong command line, or a file that it names and that cannot be used.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// A server that is not there.
    pub(crate) fn connection(message: impl Display) -> Self {
        Self::new(Kind::Connection, message)
    }

    /// The user has had enough.
    pub(crate) fn interrupted() -> Self {
        Self::new(Kind::Interrupted, "cancelled")
    }

    /// Whether it is for us that something ended, and the server knows nothing of it.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Interrupted | Kind::Usage)
    }

    /// Whether the server is there, and only said no.
    pub(crate) fn is_refusal(&self) -> bool {
        self.kind == Kind::Tool
    }

    fn new(kind: Kind, message: impl Display) -> Self {
        Self { kind, message: message.to_string(), help: Vec::new() }
    }

    /// Adds what to do next.
    pub(crate) fn help(mut self, help: impl Display) -> Self {
        self.help.push(help.to_string());
        self
    }

    /// Writes it to stderr.
    pub(crate) fn print(&self) {
        let (red, cyan) = (bold(AnsiColor::Red), bold(AnsiColor::Cyan));
        if !self.message.is_empty() {
            anstream::eprintln!("{red}error{red:#}: {}", self.message);
        }
        for help in &self.help {
            anstream::eprintln!("{cyan}help{cyan:#}: {help}");
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }
}

fn bold(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(color.into())).bold()
}
