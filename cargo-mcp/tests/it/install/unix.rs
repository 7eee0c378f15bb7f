//! Symbolic links, permissions and concurrent changes.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the path exists").permissions().mode() & 0o777
}

/// Creates a fake `cargo` that reports the example as built and records its arguments.
fn fake_cargo(home: &Home) -> PathBuf {
    let real = PathBuf::from(env!("CARGO"));
    let metadata = metadata_of(Command::new(&real).args(["metadata", "--no-deps", "--format-version", "1"]));
    let package = metadata["packages"].as_array().expect("packages").iter().find(|package| package["name"] == "hello");
    let package = package.expect("the example exists");
    let target = &package["targets"].as_array().expect("targets")[0];
    let message = serde_json::json!({
        "reason": "compiler-artifact",
        "package_id": package["id"],
        "manifest_path": package["manifest_path"],
        "target": target,
        "profile": {
            "opt_level": "3", "debuginfo": 0, "debug_assertions": false, "overflow_checks": false, "test": false
        },
        "features": [],
        "filenames": [hello()],
        "executable": hello(),
        "fresh": true,
    });
    home.write("message.json", &message.to_string());
    let script = home.path("cargo");
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = build ] || exec '{}' \"$@\"\necho \"$@\" > '{1}/cargo-args'\ncat '{1}/message.json'\n",
        real.display(),
        home.path("").display()
    );
    home.write("cargo", &text);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("permissions are changed");
    script
}

fn metadata_of(command: &mut Command) -> serde_json::Value {
    let output = command.current_dir(crate::common::repository()).output().expect("cargo starts");
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

#[test]
fn a_package_is_built_and_started() {
    for (options, is_release) in [(&[][..], true), (&["--debug"], false)] {
        let home = Home::new();
        let cargo = fake_cargo(&home);
        let args = [&["install", "hello", "--client", "cursor", "--force"], options].concat();
        let done: CommandOutput = home.command(&args).env("CARGO", &cargo).output().expect("cargo-mcp starts").into();
        assert!(done.stderr.contains("`hello` responds as hello 0.1.0\n"), "{}", done.stderr);
        let path = home.path(file("cursor"));
        assert_eq!(done.expect_success(), format!("Cursor: installed `hello` (user) in {}\n", path.display()));
        assert_eq!(home.read("cargo-args").contains(" --release"), is_release, "{}", home.read("cargo-args"));
        let entry: serde_json::Value = serde_json::from_str(&home.read(file("cursor"))).expect("JSON");
        assert_eq!(entry["mcpServers"]["hello"]["command"], hello());
        let output = home.run(&["uninstall", "--client", "cursor", "hello"]).expect_success();
        assert_eq!(output, format!("Cursor: uninstalled `hello` from {}\n", path.display()));
    }
}

#[test]
fn links_and_permissions_are_preserved() {
    for target in ["dotfiles/mcp.json", "../elsewhere.json"] {
        let home = Home::with(".cursor/dotfiles/mcp.json", "{}\n");
        home.write("elsewhere.json", "{}\n");
        let real = home.path(".cursor").join(target);
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("permissions are changed");
        symlink(target, home.path(file("cursor"))).expect("a link");
        home.install("cursor", &["--no-check"]).expect_success();
        assert_eq!(fs::read_link(home.path(file("cursor"))).expect("still a link"), Path::new(target));
        assert!(fs::read_to_string(&real).expect("the path exists").contains("hello"));
        assert_eq!((mode(&real), mode(&home.path(".cursor/mcp.json.bak"))), (0o640, 0o640));
        home.run(&["uninstall", "--client", "cursor", "hello"]).expect_success();
        assert!(!fs::read_to_string(&real).expect("the path exists").contains("hello"));
        assert_eq!(mode(&real), 0o640);
    }
}

#[test]
fn the_target_of_a_dangling_link_is_created() {
    let home = Home::with("dotfiles/x", "");
    fs::create_dir(home.path(".cursor")).expect("a directory");
    symlink("../dotfiles/mcp.json", home.path(file("cursor"))).expect("a link");
    home.install("cursor", &["--no-check"]).expect_success();
    assert!(home.read("dotfiles/mcp.json").contains("hello"));
    assert!(home.path(file("cursor")).is_symlink());
}

#[test]
fn new_user_files_are_private_and_project_files_are_not() {
    let home = Home::new();
    home.install("cursor", &["--no-check", "--force"]).expect_success();
    assert_eq!(mode(&home.path(file("cursor"))), 0o600);
    fs::create_dir(home.path(".git")).expect("a directory");
    let args = ["install", "--client", "claude-code", "--scope", "project", "--no-check", "--", &hello()];
    let mut command = home.command(&args);
    CommandOutput::from(command.current_dir(home.path("")).output().expect("cargo-mcp starts")).expect_success();
    assert_eq!(mode(&home.path(".mcp.json")) & 0o044, mode_of_new_files(&home) & 0o044);
}

#[test]
fn files_with_secrets_are_private() {
    let home = Home::new();
    fs::create_dir(home.path(".git")).expect("a directory");
    let install = |name: &str, env: &[&str]| {
        let words = ["install", "--client", "claude-code", "--scope", "project", "--no-check", "--name", name];
        let program = hello();
        let words = [&words, env, &["--", &program]].concat();
        let mut command = home.command(&words);
        CommandOutput::from(command.current_dir(home.path("")).output().expect("cargo-mcp starts")).expect_success();
    };
    install("secret", &["--env", "TOKEN=secret"]);
    assert_eq!(mode(&home.path(".mcp.json")), 0o600);
    // An existing file keeps its permissions, and so does its backup.
    install("other", &[]);
    assert_eq!((mode(&home.path(".mcp.json")), mode(&home.path(".mcp.json.bak"))), (0o600, 0o600));
}

/// Returns the permissions of new files under the umask.
fn mode_of_new_files(home: &Home) -> u32 {
    home.write("plain", "");
    mode(&home.path("plain"))
}

#[test]
fn unwritable_files_are_reported_and_unchanged() {
    let home = Home::with(file("cursor"), "{}\n");
    let path = home.path(file("cursor"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("permissions are changed");
    let expected = format!(
        "error: `{}` is read-only\nhelp: make it writable, or edit the source it is generated from; `--dry-run` shows the changes\n",
        path.display()
    );
    assert_eq!(home.install("cursor", &["--no-check"]).expect_failure(2), expected);
    assert_eq!(home.read(file("cursor")), "{}\n");
    // A directory in which not even root can create files.
    let args = ["install", "--client", "claude-code", "--force", "--no-check", "--", &hello()];
    let done = home.command(&args).env("CLAUDE_CONFIG_DIR", "/proc").output().expect("cargo-mcp starts");
    let failed = CommandOutput::from(done).expect_failure(2);
    assert!(failed.starts_with("error: cannot write `/proc/.claude.json`: "), "{failed}");
    assert!(
        failed.ends_with("help: the file was not changed; `--dry-run` shows the changes, to be made manually\n"),
        "{failed}"
    );
    // A file in place of the directory.
    let home = Home::with(".cursor", "");
    let failed = home.install("cursor", &["--no-check"]).expect_failure(2);
    let expected = format!("error: cannot read `{}`: ", home.path(file("cursor")).display());
    assert!(failed.starts_with(&expected), "{failed}");
}

#[test]
fn a_concurrent_change_is_detected() {
    let home = Home::with(file("cursor"), "{}\n");
    let path = home.path(file("cursor"));
    // The server runs after the file is read and before it is written.
    let script = format!("echo '{{ \"mine\": 1 }}' > '{}'; exec '{}'", path.display(), hello());
    let failed = home.run(&["install", "--client", "cursor", "--", "sh", "-c", &script]).expect_failure(2);
    let expected = format!(
        "error: `{}` was changed by another program in the meantime\nhelp: run the command again; the file was not changed\n",
        path.display()
    );
    assert!(failed.ends_with(&expected), "{failed}");
    assert_eq!(home.read(file("cursor")), "{ \"mine\": 1 }\n");
    let left: Vec<_> = home.snapshot().into_keys().filter(|path| path.is_file()).collect();
    assert_eq!(left.len(), 1, "no temporary file is left: {left:?}");
}

#[test]
fn backups_are_numbered_and_not_duplicated() {
    let home = Home::with(file("cursor"), "{}\n");
    home.install("cursor", &["--no-check", "--name", "one"]).expect_success();
    home.install("cursor", &["--no-check", "--name", "two"]).expect_success();
    let second = home.read(".cursor/mcp.json.bak1");
    assert_eq!(home.read(".cursor/mcp.json.bak"), "{}\n");
    assert!(second.contains("one") && !second.contains("two"), "{second}");
    home.write(file("cursor"), &second);
    home.install("cursor", &["--no-check", "--name", "two"]).expect_success();
    assert!(!home.path(".cursor/mcp.json.bak2").exists());
    // A link is not followed, although nothing exists at its target.
    symlink("../elsewhere.json", home.path(".cursor/mcp.json.bak2")).expect("a link");
    home.install("cursor", &["--no-check", "--name", "three"]).expect_success();
    assert!(home.path(".cursor/mcp.json.bak3").exists() && !home.path("elsewhere.json").exists());
}
