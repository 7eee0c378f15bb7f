//! Packages of this workspace as servers, which the commands build.

use crate::{
    common::{CommandOutput, cargo_mcp, repository, run},
    turn::Turn,
};

#[test]
fn a_package_of_the_workspace_is_built_and_called() {
    let _turn = Turn::take();
    assert_eq!(run(&["call", "hello", "greet", "name=Ann"]).expect_success(), "Hello, Ann!\n");
}

#[test]
fn the_package_of_the_current_directory_is_the_default() {
    let _turn = Turn::take();
    let mut command = cargo_mcp(&["call", "greet", "name=Ann"]);
    command.current_dir(repository().join("examples/hello/src"));
    assert_eq!(CommandOutput::from(command.output().expect("cargo-mcp starts")).expect_success(), "Hello, Ann!\n");
    let args = ["call", "greet", "name=Ann", "--manifest-path", "examples/hello/Cargo.toml"];
    assert_eq!(run(&args).expect_success(), "Hello, Ann!\n");
}

#[test]
fn a_package_of_the_workspace_is_built_and_listed() {
    let _turn = Turn::take();
    assert!(run(&["list", "hello"]).expect_success().contains("greet("));
}

#[test]
fn the_lock_file_of_a_package_is_next_to_its_manifest() {
    let _turn = Turn::take();
    let args = ["lock", "notes", "--env", "NOTES_DB=:memory:"];
    assert_eq!(
        run(&args).expect_success(),
        "`examples/notes/mcp.lock.json` is up to date\n",
        "`cargo test` and the command agree"
    );
    let checked = run(&["check", "notes", "--locked", "--read", "--deny", "notes", "--env", "NOTES_DB=:memory:"])
        .expect_success();
    assert!(checked.ends_with("\n0 errors, 0 warnings, 0 notes\n"), "{checked}");
}
