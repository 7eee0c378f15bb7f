//! Running `cargo mcp` as a user does.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

/// The top of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in the repository")
}

/// `cargo mcp` in the repository, without colours, and without a terminal.
pub(crate) fn cargo_mcp(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-mcp"));
    command.arg("mcp").args(words).current_dir(repository()).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

/// What came of a command, as text.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Runs `cargo mcp` to its end.
pub(crate) fn run(words: &[&str]) -> Done {
    cargo_mcp(words).output().expect("cargo-mcp starts").into()
}

impl Done {
    /// The standard output of a command that went well.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        self.stdout
    }

    /// The error of a command that failed with an exit code.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self.stderr
    }
}

/// The examples that tests start.
const EXAMPLES: [&str; 7] = ["hello", "notes", "files", "ask", "jobs", "everything", "mount_axum"];

/// The program of an example, built once with the others: alone, it is built with fewer features, by whoever names its package. So each
/// is kept apart from where cargo puts it.
pub(crate) fn example(name: &str) -> PathBuf {
    static KEPT: OnceLock<PathBuf> = OnceLock::new();
    let kept = KEPT.get_or_init(|| {
        let packages = EXAMPLES.iter().flat_map(|name| ["-p", name]);
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet"])
            .args(packages)
            .current_dir(repository())
            .status()
            .expect("cargo starts");
        assert!(built.success(), "the examples build");
        let built = Path::new(env!("CARGO_BIN_EXE_cargo-mcp")).parent().expect("a program is in a directory");
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
        std::fs::create_dir_all(&kept).expect("a directory");
        for name in EXAMPLES {
            // One that still runs cannot be written over.
            let _ = std::fs::remove_file(kept.join(name));
            std::fs::copy(built.join(name), kept.join(name)).expect("a program is copied");
        }
        kept
    });
    kept.join(name)
}
