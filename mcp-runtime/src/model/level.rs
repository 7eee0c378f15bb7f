use std::{fmt, str::FromStr};

use crate::excerpt::excerpt;

/// The severity of a log message, as defined by RFC 5424.
///
/// ```
/// use mcp_runtime::Level;
///
/// assert!(Level::Error > Level::Warning);
/// assert_eq!("notice".parse(), Ok(Level::Notice));
/// ```
///
/// See [Logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#log-levels).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Details for debugging.
    Debug,
    /// Informational messages.
    Info,
    /// Normal but significant events.
    Notice,
    /// Warnings.
    Warning,
    /// Errors.
    Error,
    /// Critical conditions, such as the failure of a component.
    Critical,
    /// Conditions that require immediate action.
    Alert,
    /// The system is unusable.
    Emergency,
}

impl Level {
    /// All levels, from the least to the most severe.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// Returns the name of the level in the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Level {
    type Err = ParseLevelError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|level| level.as_str() == name)
            .ok_or_else(|| ParseLevelError(excerpt(name).into_owned()))
    }
}

/// The error of parsing the name of a [`Level`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseLevelError(String);

impl fmt::Display for ParseLevelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Level::ALL.iter().map(|level| format!("`{level}`")).collect();
        write!(f, "unknown log level `{}`, expected one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for ParseLevelError {}
