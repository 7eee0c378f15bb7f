//! Runs the commands of the console session in the README of `cargo mcp`, and compares their output.

use std::{env, fs, path::Path, process::Stdio};

use crate::{
    common::{self, repository},
    turn::Turn,
};

/// Returns the commands of the README's console session with their expected output.
fn session(readme: &str) -> Vec<(&str, String)> {
    let (_, block) = readme.split_once("```console\n$ cargo mcp new").expect("the README has a console session");
    let (block, _) = block.split_once("```").expect("the code block is closed");
    let mut steps: Vec<(&str, String)> = Vec::new();
    let first = block.lines().next().unwrap_or_default();
    let command = readme.lines().find(|line| line.ends_with(first) && line.starts_with("$ ")).expect("a first command");
    for line in std::iter::once(command).chain(block.lines().skip(1)) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command, String::new())),
            (None, Some((_, output))) => *output += &format!("{line}\n"),
            (None, None) => panic!("output before a command: {line}"),
        }
    }
    steps
}

#[test]
fn the_readme_session_shows_the_actual_output() {
    let _turn = Turn::take();
    let readme = fs::read_to_string(repository().join("cargo-mcp/README.md")).expect("README.md exists");
    let steps = session(&readme);
    assert!(steps.len() >= 7, "{steps:?}");
    let programs = Path::new(env!("CARGO_BIN_EXE_cargo-mcp")).parent().expect("the executable has a parent directory");
    let target = programs.parent().expect("the profile directory has a parent").join("tmp/readme");
    let directory = tempfile::tempdir().expect("a directory");
    // Programs print canonical paths.
    let home = directory.path().canonicalize().expect("the directory exists");
    fs::create_dir(home.join(".claude")).expect("a directory that marks Claude Code as installed");
    let path = format!("{}:{}", programs.display(), env::var("PATH").expect("PATH is set"));
    let cargo_variable = |name: &str, default: &str| {
        env::var(name).unwrap_or(format!("{}/{default}", env::var("HOME").unwrap_or_default()))
    };
    let mut current = home.clone();
    for (command, expected) in steps {
        if let Some(directory) = command.strip_prefix("cd ") {
            current.push(directory);
            // The same versions of all dependencies, so that nothing is built twice.
            fs::copy(repository().join("Cargo.lock"), current.join("Cargo.lock")).expect("Cargo.lock is copied");
            continue;
        }
        let done = common::command("bash")
            .args(["-c", &format!("exec 2>&1; {command}")])
            .current_dir(&current)
            .stdin(Stdio::null())
            .env("PATH", &path)
            .env("CARGO_HOME", cargo_variable("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", cargo_variable("RUSTUP_HOME", ".rustup"))
            .env("HOME", &home)
            .env("CARGO_TARGET_DIR", &target)
            .env("NO_COLOR", "1")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("CLAUDE_CONFIG_DIR")
            .output()
            .expect("bash starts");
        let output = String::from_utf8(done.stdout).expect("the output is UTF-8");
        let shown = output
            .replace(&*target.to_string_lossy(), "/home/ada/weather/target")
            .replace(&*home.to_string_lossy(), "/home/ada")
            .replace(&*repository().to_string_lossy(), "/home/ada/mcp");
        assert_eq!(shown, expected, "{command}");
    }
}
