//! Creates packages with `cargo mcp new`, and runs cargo in them.

use std::{fs, path::Path, process::Stdio};

use tempfile::TempDir;

use super::{CommandOutput, cargo_mcp, command, run};

/// Returns a directory outside any repository and workspace.
pub(crate) fn empty_directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Runs `cargo mcp new` in a directory.
pub(crate) fn new_in(directory: &Path, args: &[&str]) -> CommandOutput {
    cargo_mcp(&[&["new"], args].concat()).current_dir(directory).output().expect("cargo-mcp starts").into()
}

/// Runs cargo in a package with the target directory of this repository, so that nothing is built twice.
pub(crate) fn cargo(project: &Path, args: &[&str]) -> CommandOutput {
    let programs = Path::new(env!("CARGO_BIN_EXE_cargo-mcp")).parent().expect("the executable has a parent directory");
    let mut cargo = command(env!("CARGO"));
    cargo.args(args).current_dir(project).stdin(Stdio::null());
    cargo.env("CARGO_TARGET_DIR", programs.parent().expect("the profile directory has a parent"));
    cargo.output().expect("cargo starts").into()
}

/// Returns the names of the examples.
pub(crate) fn examples() -> Vec<String> {
    let listed = run(&["new", "--list"]).expect_success();
    let names = listed.lines().map(|line| line.split(' ').next().expect("a line has a name").to_owned());
    names.collect()
}

/// Reads a file.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
