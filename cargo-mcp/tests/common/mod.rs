//! Runs the `cargo mcp` executable.

pub(crate) mod bundle;
pub(crate) mod packages;

use std::{
    ffi::OsStr,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Returns the root of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the repository")
}

/// Returns a command without the variables that describe the package whose tests run.
///
/// Some build scripts read variables of these names. If the command runs cargo, cargo would run these scripts again
/// because of the variables, and recompile all that depends on their crates; and so would the next command without them.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let is_of_package =
            |name: &str| name == "OUT_DIR" || name.starts_with("CARGO_MANIFEST_") || name.starts_with("CARGO_PKG_");
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Returns a `cargo mcp` command in the repository, without colors and without a terminal.
pub(crate) fn cargo_mcp(args: &[&str]) -> Command {
    let mut command = command(env!("CARGO_BIN_EXE_cargo-mcp"));
    command.arg("mcp").args(args).current_dir(repository()).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

/// The exit code and the output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        // On a busy machine, servers warn about functions that take long.
        let is_expected = |line: &&str| !line.contains("unless the machine is overloaded");
        let stderr = text(output.stderr).split_inclusive('\n').filter(is_expected).collect();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr }
    }
}

/// Runs `cargo mcp` to completion.
pub(crate) fn run(args: &[&str]) -> CommandOutput {
    cargo_mcp(args).output().expect("cargo-mcp starts").into()
}

impl CommandOutput {
    /// Returns stdout. Panics if the exit code is not 0.
    #[track_caller]
    pub(crate) fn expect_success(self) -> String {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        self.stdout
    }

    /// Returns stderr. Panics if the exit code is not `code`.
    #[track_caller]
    pub(crate) fn expect_failure(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self.stderr
    }
}
