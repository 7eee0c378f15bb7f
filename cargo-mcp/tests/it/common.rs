//! Runs the `cargo mcp` executable.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

/// Returns the root of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the repository")
}

/// Returns a `cargo mcp` command in the repository, without colors and without a terminal.
pub(crate) fn cargo_mcp(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-mcp"));
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
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
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

/// The examples that tests use.
const EXAMPLES: [&str; 7] = ["hello", "notes", "files", "ask", "jobs", "everything", "mount_axum"];

/// Returns the path of an example's executable.
///
/// All examples are built together once and copied, because a later build of a single package could replace its
/// executable with one that has fewer features.
pub(crate) fn example(name: &str) -> PathBuf {
    static COPIES: OnceLock<PathBuf> = OnceLock::new();
    let copies = COPIES.get_or_init(|| {
        let packages = EXAMPLES.iter().flat_map(|name| ["-p", name]);
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet"])
            .args(packages)
            .current_dir(repository())
            .status()
            .expect("cargo starts");
        assert!(built.success(), "the examples build");
        let built = Path::new(env!("CARGO_BIN_EXE_cargo-mcp")).parent().expect("the executable has a parent directory");
        let copies = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
        std::fs::create_dir_all(&copies).expect("a directory");
        for name in EXAMPLES {
            // A running program cannot be overwritten.
            let _ = std::fs::remove_file(copies.join(name));
            std::fs::copy(built.join(name), copies.join(name)).expect("a program is copied");
        }
        copies
    });
    copies.join(name)
}
