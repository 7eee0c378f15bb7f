use std::fmt;

/// Why a command line is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UsageError(pub(super) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
