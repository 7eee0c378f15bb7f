//! README's session, command by command, with what each prints.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::common::repository;

/// The commands of README's session, each with its output.
fn session(readme: &str) -> Vec<(&str, String)> {
    let (_, block) = readme.split_once("```console\n$ cargo mcp new").expect("README has a session");
    let (block, _) = block.split_once("```").expect("the session ends");
    let mut steps: Vec<(&str, String)> = Vec::new();
    let first = block.lines().next().unwrap_or_default();
    let words = readme.lines().find(|line| line.ends_with(first) && line.starts_with("$ ")).expect("a first command");
    for line in std::iter::once(words).chain(block.lines().skip(1)) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command, String::new())),
            (None, Some((_, output))) => *output += &format!("{line}\n"),
            (None, None) => panic!("output before a command: {line}"),
        }
    }
    steps
}

#[test]
fn readme_shows_what_happens() {
    let readme = fs::read_to_string(repository().join("README.md")).expect("README.md is there");
    let steps = session(&readme);
    assert!(steps.len() >= 7, "{steps:?}");
    let programs = Path::new(env!("CARGO_BIN_EXE_cargo-mcp")).parent().expect("a program is in a directory");
    let target = programs.parent().expect("of a profile").join("tmp/readme");
    let directory = tempfile::tempdir().expect("a directory");
    // As the system names it, which is how programs will.
    let home = directory.path().canonicalize().expect("the directory is there");
    fs::create_dir(home.join(".claude")).expect("Claude Code looks installed");
    let path = format!("{}:{}", programs.display(), env::var("PATH").expect("there is a PATH"));
    let rust =
        |name: &str, under: &str| env::var(name).unwrap_or(format!("{}/{under}", env::var("HOME").unwrap_or_default()));
    let mut at = home.clone();
    for (command, expected) in steps {
        if let Some(directory) = command.strip_prefix("cd ") {
            at.push(directory);
            // The same versions of everything, so that nothing is built twice.
            fs::copy(repository().join("Cargo.lock"), at.join("Cargo.lock")).expect("Cargo.lock is copied");
            continue;
        }
        let done = Command::new("bash")
            .args(["-c", &format!("exec 2>&1; {command}")])
            .current_dir(&at)
            .stdin(Stdio::null())
            .env("PATH", &path)
            .env("CARGO_HOME", rust("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", rust("RUSTUP_HOME", ".rustup"))
            .env("HOME", &home)
            .env("CARGO_TARGET_DIR", &target)
            .env("NO_COLOR", "1")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME")
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
