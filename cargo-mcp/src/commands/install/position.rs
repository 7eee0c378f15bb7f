//! Positions in a text, and errors that refer to them.

use std::fmt;

/// A line and a column, both starting at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    /// Returns the position of the byte at `offset`.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }
}

/// Why a configuration file cannot be read or edited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DocumentError {
    pub(crate) position: Position,
    pub(crate) message: String,
}

impl DocumentError {
    /// Creates an error at the byte `offset` of a text.
    pub(crate) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        Self { position: Position::of(text, offset), message: message.into() }
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.position;
        write!(f, "line {line}, column {column}: {}", self.message)
    }
}

/// Returns the line ending of a text: that of its first line, or `\n`.
pub(crate) fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}
