//! The failure of a command: its message, its help, its exit code, and suggestions for misspelled names.

use std::{fmt::Display, process::ExitCode};

use rmcp::model::ErrorData;

use crate::output::{AnsiColor, ERROR, Style, errln};

/// Why a command failed, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: FailureKind,
    message: String,
    help: Vec<String>,
    error: Option<Box<ErrorData>>,
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

    /// Creates a failure for a request that the server has answered with an error.
    pub(crate) fn response(what: &str, error: ErrorData) -> Self {
        let failure = Self::tool(format_args!("{what}: {} (code {})", error.message, error.code.0));
        Self { error: Some(Box::new(error)), ..failure }
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
        Self { kind, message: message.to_string(), help: Vec::new(), error: None }
    }

    /// Adds a suggestion.
    pub(crate) fn help(mut self, help: impl Display) -> Self {
        self.help.push(help.to_string());
        self
    }

    /// Adds a suggestion, if there is one.
    pub(crate) fn help_if(self, help: Option<impl Display>) -> Self {
        help.into_iter().fold(self, Self::help)
    }

    /// Returns the message without the suggestions.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the error of the server, if it has answered the request with one.
    pub(crate) fn server_error(&self) -> Option<&ErrorData> {
        self.error.as_deref()
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

/// Only names whose similarity exceeds this value are suggested. Similarities are between 0 and 1.
const THRESHOLD: f64 = 0.8;

/// Returns the name most similar to a misspelled name, if it is similar enough.
pub(crate) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let similarity = |name: &str| {
        let name = name.to_lowercase();
        let is_prefix = word.len() > 2 && name.starts_with(&word);
        if is_prefix { 1.0 } else { strsim::jaro_winkler(&word, &name) }
    };
    let scored = names.into_iter().map(|name| (similarity(name), name));
    scored.filter(|(score, _)| *score > THRESHOLD).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

/// Adds help to the failure for an unknown name: the most similar available name, or all names if none is similar.
pub(crate) fn suggest(failure: Failure, word: &str, names: &[&str], kind: &str) -> Failure {
    match nearest(word, names.iter().copied()) {
        Some(near) => failure.help(format_args!("did you mean `{near}`?")),
        None if names.is_empty() => failure.help(format_args!("there are no {kind}")),
        None => failure.help(format_args!("available {kind}: {}", name_list(names))),
    }
}

/// Returns the item with a name. `noun` is the word for one of them.
///
/// # Errors
///
/// Fails if the name is missing or unknown, with similar names as suggestions.
pub(crate) fn find<'a, T>(
    items: &'a [T],
    name: Option<&str>,
    key: impl Fn(&T) -> &str,
    noun: &str,
) -> Result<&'a T, Failure> {
    let names: Vec<&str> = items.iter().map(&key).collect();
    let failure = match name {
        Some(name) => match items.iter().find(|item| key(item) == name) {
            Some(item) => return Ok(item),
            None => Failure::usage(format_args!("unknown {noun} `{name}`")),
        },
        None => Failure::usage(format_args!("the name of the {noun} is missing")),
    };
    Err(suggest(failure, name.unwrap_or_default(), &names, &format!("{noun}s")))
}

/// Formats names as a list: `` `a`, `b` ``.
pub(crate) fn name_list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn similar_names_are_suggested() {
        let names = ["search_notes", "add_note", "delete_note"];
        for (word, expected) in [
            ("serach_notes", Some("search_notes")),
            ("search", Some("search_notes")),
            ("Add_Note", Some("add_note")),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
    }
}
