//! Packages that `cargo mcp new` creates from each example: they compile without warnings, and their tests pass.

use std::{fs, path::Path, process::Command};

use crate::{
    common::{
        CommandOutput,
        packages::{cargo, empty_directory, examples, new_in, read},
        repository,
    },
    turn::Turn,
};

fn copy_lock_file(project: &Path) {
    fs::copy(repository().join("Cargo.lock"), project.join("Cargo.lock")).expect("the versions are copied");
}

/// Each package is outside any workspace. Clippy checks that it compiles, at half the cost of a build.
#[test]
fn every_example_compiles_alone_without_warnings() {
    let _turn = Turn::take();
    let top = empty_directory();
    for example in examples() {
        let name = format!("alone-{example}");
        new_in(top.path(), &[&name, "--from", &example]).expect_success();
        let project = top.path().join(&name);
        copy_lock_file(&project);

        let manifest = read(project.join("Cargo.toml"));
        for part in ["workspace", "publish", "mcp-tests", "../"] {
            assert!(!manifest.contains(part), "{part} is in\n{manifest}");
        }
        cargo(&project, &["fmt", "--check"]).expect_success();
        cargo(&project, &["clippy", "--quiet", "--all-targets", "--", "-D", "warnings"]).expect_success();
        let changed = Command::new("git").args(["status", "--porcelain"]).current_dir(&project).output();
        let changed = CommandOutput::from(changed.expect("git starts")).expect_success();
        assert!(!changed.contains("target") && changed.contains("Cargo.toml"), "{changed}");
        clean(&project, &name);
    }
}

/// All packages share a workspace, so that common dependencies are compiled once.
#[test]
fn every_example_passes_its_tests() {
    let _turn = Turn::take();
    let top = empty_directory();
    fs::write(top.path().join("Cargo.toml"), "[workspace]\nresolver = \"3\"\nmembers = []\n")
        .expect("the file is written");
    for example in examples() {
        new_in(top.path(), &[&format!("tested-{example}"), "--from", &example, "--http", "--vcs", "none"])
            .expect_success();
    }
    copy_lock_file(top.path());
    cargo(top.path(), &["test", "--quiet", "--workspace"]).expect_success();
    for example in examples() {
        let name = format!("tested-{example}");
        let tests =
            cargo(top.path(), &["test", "--quiet", "--workspace", "--bin", &name, "--", "--list"]).expect_success();
        assert!(tests.lines().any(|line| line.ends_with(": test")), "{example} has no tests: {tests}");
        clean(top.path(), &name);
    }
}

/// Removes the artifacts of a package, since the packages of the next run have other paths.
fn clean(project: &Path, package: &str) {
    cargo(project, &["clean", "--quiet", "--package", package]).expect_success();
}
