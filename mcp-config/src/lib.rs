//! Tools from a folder of definitions: commands and HTTP calls, which an administrator writes and changes while the server
//! runs.
//!
//! ```no_run
//! use mcp_runtime::Server;
//!
//! # fn configure() -> Result<Server, mcp_config::Error> {
//! let server = mcp_config::watch(Server::new("desk", "1.0.0"), "/etc/desk/tools")?;
//! # Ok(server)
//! # }
//! ```
//!
//! Each file `*.toml` of the folder contains tools:
//!
//! ```toml
//! [tools.history]
//! description = "Return the newest commits of a branch."
//! read_only = true
//!
//! [tools.history.arguments.branch]
//! type = "string"
//!
//! [tools.history.arguments.count]
//! description = "The number of commits"
//! type = "integer"
//! minimum = 1
//! maximum = 100
//! default = 10
//!
//! [tools.history.command]
//! program = "git"
//! args = ["log", "--oneline", "--max-count={count}", "--end-of-options", "{branch}"]
//! ```
//!
//! A file `*.json` has the same structure: `{"tools": {"history": {"description": "…", "command": {"program": "git"}}}}`.
//!
//! The page [Composing](https://docs.rs/mcp-runtime/latest/mcp_runtime/guide/composing/) of the guide shows how a
//! server combines them with other sources.
//!
//! # Tools
//!
//! A tool has a `description` and a `command` or an `http` table. It may have a `title`, `tags`, the `scopes` that a caller
//! needs, a `timeout` in seconds, and the hints `read_only`, `destructive`, `idempotent` and `open_world`.
//!
//! Each of its `arguments` is a JSON Schema, which is enforced before the tool does anything. An argument is required unless it
//! has a `default`, which its schema must accept, or `optional = true`.
//!
//! # Commands
//!
//! A `command` starts a `program` without a shell. In its `args`, the name of an argument in braces stands for the value. An
//! element is left out if its argument was not given, and so is a list of elements. The items of a list repeat them:
//!
//! ```toml
//! args = ["log", ["--author", "{author}"], "--", "{files}"]
//! ```
//!
//! A value must not begin with `-` where an element begins with it, unless `--` or `--end-of-options` precedes it, so that it
//! cannot become an option. What the program itself makes of its values, such as `@file` or the name of a file that it
//! overwrites, is not checked. The program inherits the environment and the working directory of the server, and is killed when
//! the call ends early. At most eight processes of a tool run at the same time; further calls wait, within their timeout.
//!
//! The result is what the program writes to stdout, at most 64 KiB, or to stderr if stdout is empty. If it fails, the model
//! reads its status, stderr and stdout. While it runs, the client gets the lines of stderr as
//! [progress](mcp_process), **also if the program succeeds**: avoid options such as `--verbose` that print secrets.
//!
//! # HTTP calls
//!
//! The calls of a file go to one service, whose headers may contain environment variables:
//!
//! ```toml
//! [service]
//! url = "https://api.example.com/v1"
//! headers = { authorization = "Bearer ${DESK_TOKEN}" }
//!
//! [tools.find_ticket]
//! description = "Find tickets."
//! arguments.text.type = "string"
//! arguments.project.type = "string"
//! http = { method = "GET", path = "/projects/{project}/tickets", query = ["text"] }
//!
//! [tools.add_comment]
//! description = "Add a comment to a ticket."
//! arguments.ticket.type = "integer"
//! arguments.text.type = "string"
//! http = { method = "POST", path = "/tickets/{ticket}/comments", body = ["text"] }
//! ```
//!
//! Arguments are percent-encoded in the `path` and the `query`; the arguments in `body` are sent as a JSON object. Responses
//! become results as those of [`mcp_openapi`].
//!
//! # Changes
//!
//! [`watch`] looks for changed files once per second. If all definitions are valid, the tools of the folder are replaced in one
//! step, and clients are notified. Otherwise the log contains every mistake with its file, line and column, and the tools remain. Valid
//! definitions that cannot be applied, since another tool has a name, are applied when the name becomes free.

mod arguments;
mod command;
mod definition;
mod folder;
mod http;
mod mistake;

use std::{fmt, path::Path};

use mcp_runtime::{Server, function::Entry};

/// The mistakes in definitions, each with its file, line and column.
#[derive(Debug)]
pub struct Error {
    problems: Vec<String>,
}

impl Error {
    /// Returns the mistakes.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for Error {}

/// Reads the definitions in a folder, for [`Server::with_entry`].
///
/// # Errors
///
/// Returns every mistake. A folder that does not exist is one.
pub fn read(folder: impl AsRef<Path>) -> Result<Vec<Entry>, Error> {
    folder::read(folder.as_ref())
}

/// Adds the tools in a folder to a server, and replaces them when a file changes.
///
/// A thread looks for changes until the server is dropped. Tools of the folder have the tag `definition`.
///
/// # Errors
///
/// Returns every mistake in the definitions of the start. Later ones are logged.
pub fn watch(server: Server, folder: impl AsRef<Path>) -> Result<Server, Error> {
    folder::watch(server, folder.as_ref())
}
