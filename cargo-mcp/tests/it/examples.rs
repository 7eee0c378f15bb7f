//! The programs that the tests start: the examples of the repository, and a server whose lists come from a file.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::common::repository;

/// The examples that tests use.
const EXAMPLES: [&str; 7] = ["hello", "notes", "files", "ask", "jobs", "everything", "mount_axum"];

/// Returns the path of an example's executable.
///
/// The executables are copied, because a later build of a single package could replace one with an executable that
/// has fewer features.
pub(crate) fn example(name: &str) -> PathBuf {
    static COPIES: OnceLock<PathBuf> = OnceLock::new();
    let copies = COPIES.get_or_init(|| {
        let built = programs();
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

/// Returns the path of the server of `tests/servers/listed.rs`.
pub(crate) fn listed_server() -> &'static str {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| programs().join("examples/listed")).to_str().expect("a path in UTF-8")
}

/// Builds the programs of the workspace once, and returns their directory.
///
/// Like `cargo test --workspace`, this selects all packages and the features of their tests. It therefore compiles
/// nothing but the programs themselves.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--workspace", "--bins", "--examples"])
            .current_dir(repository())
            .status()
            .expect("cargo starts");
        assert!(built.success(), "the programs build");
        Path::new(env!("CARGO_BIN_EXE_cargo-mcp")).parent().expect("a program is in a directory").to_owned()
    })
}
