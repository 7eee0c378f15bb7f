//! Errors of schemas.

use std::{error::Error, fmt};

/// A schema that cannot be built or enforced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError(String);

impl SchemaError {
    /// Creates an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Adds the name of the argument to the message.
    pub(super) fn of_argument(self, name: &str) -> Self {
        Self(format!("argument `{name}`: {self}"))
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for SchemaError {}
