use std::{fmt, io};

/// The reason why a measurement failed: a server misbehaved, or the machine lacks a feature.
#[derive(Debug)]
pub struct Failure(pub String);

pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// Prefixes the activity or the server that failed.
    pub fn during(self, activity: impl fmt::Display) -> Self {
        Self(format!("{activity}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<nix::Error> for Failure {
    fn from(error: nix::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}
