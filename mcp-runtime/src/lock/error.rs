use std::{fmt, io, path::PathBuf};

use mcp_runtime_lock::FILE_NAME;

use crate::testing::RpcError;

/// The instructions for writing the lock file.
const ACCEPT: &str = "run `cargo mcp lock`, or this test with `MCP_UPDATE_LOCK=1`";

/// Why a server and its lock file cannot be compared, or differ.
#[derive(Debug)]
pub(crate) enum LockError {
    /// The program's `main` failed.
    Main(String),
    /// The server rejected a request.
    Request { method: &'static str, error: RpcError },
    /// The lock file does not exist.
    Missing,
    /// The lock file cannot be read or written.
    Io { path: PathBuf, error: io::Error },
    /// The lock file cannot be parsed.
    Invalid { path: PathBuf, why: String },
    /// The server differs from the lock file.
    Changed { report: String },
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Main(message) => f.write_str(message),
            Self::Request { method, error } => write!(f, "`{method}` failed: {error}"),
            Self::Missing => write!(f, "`{FILE_NAME}` does not exist yet\nhelp: {ACCEPT}, to write it"),
            Self::Io { path, error } => write!(f, "cannot access `{}`: {error}", path.display()),
            Self::Invalid { path, why } => {
                write!(f, "`{}`: {why}\nhelp: {ACCEPT}, to rewrite it", path.display())
            }
            Self::Changed { report } => write!(f, "{report}\nhelp: {ACCEPT}, to accept the changes"),
        }
    }
}
