//! Runs `cargo mcp bundle`.

use std::{fs, path::PathBuf};

use tempfile::TempDir;

use super::{CommandOutput, cargo_mcp, run};

/// Runs `cargo mcp bundle` in the repository.
pub(crate) fn bundle(args: &[&str]) -> CommandOutput {
    run(&[&["bundle"], args].concat())
}

/// Creates a package without dependencies, which builds quickly.
fn package(manifest: &str, main: &str) -> (TempDir, PathBuf) {
    let top = tempfile::tempdir().expect("a directory");
    fs::create_dir(top.path().join("src")).expect("a directory");
    let path = top.path().join("Cargo.toml");
    let package = format!("[package]\nname = \"bundled\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{manifest}");
    fs::write(&path, package).expect("the file is written");
    fs::write(top.path().join("src/main.rs"), main).expect("the file is written");
    (top, path)
}

/// Bundles a new package, in an environment without a git user.
pub(crate) fn bundle_package(manifest: &str, main: &str, args: &[&str]) -> (TempDir, CommandOutput) {
    let (top, path) = package(manifest, main);
    let path = path.to_str().expect("a path in UTF-8");
    let mut command = cargo_mcp(&[&["bundle", "--manifest-path", path], args].concat());
    command.current_dir(top.path()).env("HOME", top.path()).env("CARGO_HOME", cargo_home());
    command.env("RUSTUP_HOME", rustup_home()).env("GIT_CONFIG_NOSYSTEM", "1");
    for name in ["XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"] {
        command.env_remove(name);
    }
    let done = command.output().expect("cargo-mcp starts").into();
    (top, done)
}

fn cargo_home() -> PathBuf {
    home("CARGO_HOME", ".cargo")
}

fn rustup_home() -> PathBuf {
    home("RUSTUP_HOME", ".rustup")
}

fn home(variable: &str, directory: &str) -> PathBuf {
    let home = || std::env::home_dir().unwrap_or_default().join(directory);
    std::env::var_os(variable).map_or_else(home, PathBuf::from)
}
