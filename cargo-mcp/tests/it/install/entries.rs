//! The entries that each client requires.

use std::path::{Path, PathBuf};

use super::*;

/// An option that every server accepts over stdio.
const KEY: &str = "--state-key=00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

#[test]
fn each_client_has_its_own_format_for_program_entries() {
    let stdio = "      \"type\": \"stdio\",\n";
    for (client, object, kind) in [
        ("claude-code", "mcpServers", stdio),
        ("claude-desktop", "mcpServers", ""),
        ("cline", "mcpServers", ""),
        ("cursor", "mcpServers", stdio),
        ("gemini", "mcpServers", ""),
        ("vscode", "servers", stdio),
        ("vscode-insiders", "servers", stdio),
        ("windsurf", "mcpServers", ""),
        ("zed", "context_servers", ""),
    ] {
        let home = Home::new();
        let done = home.install(client, &["--force", "--env", "KEY=ü \"1\"", &format!("--arg={KEY}")]);
        assert_eq!(done.stderr.lines().next(), Some("`hello` responds as hello 0.1.0"), "{}", done.stderr);
        let output = done.expect_success();
        let path = home.path(file(client));
        assert!(output.ends_with(&format!(": installed `hello` (user) in {}\n", path.display())), "{output}");
        let expected = format!(
            "{{\n  \"{object}\": {{\n    \"hello\": {{\n{kind}      \"command\": \"{}\",\n      \"args\": [\
             \"{KEY}\"],\n      \"env\": {{\n        \"KEY\": \"ü \\\"1\\\"\"\n      }}\n    }}\n  }}\n}}\n",
            hello()
        );
        assert_eq!(home.read(file(client)), expected, "{client}");
    }
    let home = Home::new();
    home.install("codex", &["--force", "--env", "KEY=ü \"1\"", &format!("--arg={KEY}")]).expect_success();
    let expected = format!(
        "[mcp_servers.hello]\ncommand = \"{}\"\nargs = [\"{KEY}\"]\nenv = {{ KEY = \"ü \\\"1\\\"\" }}\n",
        hello()
    );
    assert_eq!(home.read(file("codex")), expected);
}

/// The format that `copilot mcp add` writes.
#[test]
fn entries_for_copilot_list_the_allowed_tools() {
    let home = Home::new();
    home.install("copilot", &["--force", "--no-check"]).expect_success();
    let url = ["install", "--client", "copilot", "--no-check", "--name", "web", "https://example.com/mcp"];
    home.run(&url).expect_success();
    let written: serde_json::Value = serde_json::from_str(&home.read(file("copilot"))).expect("JSON");
    let expected = serde_json::json!({
        "mcpServers": {
            "hello": {"type": "local", "command": hello(), "args": [], "tools": ["*"]},
            "web": {"type": "http", "url": "https://example.com/mcp", "tools": ["*"]},
        }
    });
    assert_eq!(written, expected);
}

#[test]
fn each_client_has_its_own_format_for_url_entries() {
    for (client, object, kind, url, headers) in [
        ("claude-code", "mcpServers", "      \"type\": \"http\",\n", "url", "headers"),
        ("cline", "mcpServers", "      \"type\": \"streamableHttp\",\n", "url", "headers"),
        ("cursor", "mcpServers", "", "url", "headers"),
        ("gemini", "mcpServers", "", "httpUrl", "headers"),
        ("vscode", "servers", "      \"type\": \"http\",\n", "url", "headers"),
        ("windsurf", "mcpServers", "", "serverUrl", "headers"),
        ("zed", "context_servers", "", "url", "headers"),
    ] {
        let home = Home::new();
        let args = ["install", "--client", client, "--force", "--no-check", "https://mcp.example.com/mcp"];
        home.run(&[&args[..], &["--header", "Authorization: Bearer x"]].concat()).expect_success();
        let expected = format!(
            "{{\n  \"{object}\": {{\n    \"mcp-example-com\": {{\n{kind}      \"{url}\": \"https://mcp.example.com/mcp\",\n      \
             \"{headers}\": {{\n        \"Authorization\": \"Bearer x\"\n      }}\n    }}\n  }}\n}}\n"
        );
        assert_eq!(home.read(file(client)), expected, "{client}");
        home.run(&["uninstall", "--client", client, "https://mcp.example.com/mcp"]).expect_success();
        assert!(!home.read(file(client)).contains("mcp-example-com"), "{client}");
    }
    let home = Home::new();
    let args = ["install", "--client", "codex", "--force", "--no-check", "https://mcp.example.com/mcp"];
    home.run(&[&args[..], &["--header", "X-Key: x"]].concat()).expect_success();
    let expected =
        "[mcp_servers.mcp-example-com]\nurl = \"https://mcp.example.com/mcp\"\nhttp_headers = { X-Key = \"x\" }\n";
    assert_eq!(home.read(file("codex")), expected);
}

#[test]
fn a_package_is_built_in_release_mode_and_copied() {
    let home = Home::new();
    let target = home.path("target");
    let release = target.join("release");
    fs::create_dir_all(&release).expect("directories are created");
    fs::copy(example("hello"), release.join("hello")).expect("the example is built");
    let args = ["install", "hello", "--client", "claude-code", "--force", "--no-build", "--copy-to"];
    let bin = home.path("bin");
    let run = |copy_to: Option<&str>| -> CommandOutput {
        let args = match copy_to {
            Some(directory) => [&args[..], &[directory], &["--", KEY]].concat(),
            None => args[..6].to_vec(),
        };
        home.command(&args).env("CARGO_TARGET_DIR", &target).output().expect("cargo-mcp starts").into()
    };
    let plain = run(None);
    let expected = format!(
        "note: clients start {}/hello, which `cargo clean` removes; `--copy-to DIRECTORY` keeps a copy\n",
        release.display()
    );
    assert!(plain.stderr.ends_with(&expected), "{}", plain.stderr);
    plain.expect_success();
    let copied = run(bin.to_str());
    assert!(!copied.stderr.contains("note:"), "{}", copied.stderr);
    copied.expect_success();
    let entry = || -> serde_json::Value {
        let entries: serde_json::Value = serde_json::from_str(&home.read(".claude.json")).expect("JSON");
        entries["mcpServers"]["hello"].clone()
    };
    assert_eq!(entry(), serde_json::json!({"type": "stdio", "command": bin.join("hello"), "args": [KEY]}));
    assert_eq!(fs::read(bin.join("hello")).expect("a copy"), fs::read(example("hello")).expect("the example"));
    // The copy is updated although the entry is the same.
    let mut newer = fs::read(example("hello")).expect("the example");
    newer.push(0);
    fs::write(release.join("hello"), &newer).expect("the file is written");
    // Clients start in other directories.
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the directory of the workspace");
    let root: PathBuf = here.ancestors().skip(1).map(|_| "..").collect();
    let relative = root.join(bin.strip_prefix("/").expect("an absolute path"));
    run(relative.to_str()).expect_success();
    assert_eq!(entry()["command"], serde_json::json!(here.join(relative).join("hello")));
    run(bin.to_str()).expect_success();
    let again = run(bin.to_str()).expect_success();
    let expected = format!("Claude Code: `hello` is already installed in {}\n", home.path(".claude.json").display());
    assert_eq!(again, expected);
    assert_eq!(fs::read(bin.join("hello")).expect("a copy"), newer);
    fs::remove_file(release.join("hello")).expect("the path exists");
    let expected =
        format!("error: program `{}/hello` not found\nhelp: omit `--no-build` to build it\n", release.display());
    assert_eq!(run(None).expect_failure(2), expected);
}

#[test]
fn a_secret_comes_from_the_environment() {
    let home = Home::new();
    let args = ["install", "--client", "cursor", "--force", "--no-check", "--env", "MY_KEY", "--", &hello()];
    let missing = home.command(&args).env_remove("MY_KEY").output().expect("cargo-mcp starts");
    assert_eq!(
        CommandOutput::from(missing).expect_failure(2),
        "error: `--env MY_KEY`: `MY_KEY` is not set in the current environment\nhelp: provide a value: `--env MY_KEY=…`\n"
    );
    let done = home.command(&args).env("MY_KEY", "s3cret").output().expect("cargo-mcp starts");
    assert!(!CommandOutput::from(done).expect_success().contains("s3cret"));
    assert!(home.read(file("cursor")).contains("\"MY_KEY\": \"s3cret\""));
}

#[test]
fn values_that_a_client_would_expand_are_reported() {
    for (client, value, expected) in [
        ("gemini", "a$b", "note: Gemini CLI expands variables that start with `$`\n"),
        ("vscode", "${input:key}", "note: VS Code expands variables that start with `${`\n"),
        ("vscode", "a$b", ""),
        ("zed", "${key}", ""),
    ] {
        let home = Home::with(file(client), "");
        let done = home.install(client, &["--dry-run", "--env", &format!("KEY={value}")]);
        assert_eq!(done.stderr, expected, "{client} {value}");
        done.expect_success();
    }
}

#[test]
fn comments_in_plain_json_cause_a_warning() {
    let home = Home::with(file("claude-desktop"), "{ // mine\n}\n");
    let done = home.install("claude-desktop", &["--no-check"]);
    let expected = format!(
        "warning: Claude Desktop requires plain JSON, but `{}` uses extensions: line 1, column 3: comments are not allowed\n",
        home.path(file("claude-desktop")).display()
    );
    assert!(done.stderr.starts_with(&expected), "{}", done.stderr);
    done.expect_success();
}

/// Clients start programs from other directories.
#[test]
fn the_path_of_a_program_becomes_absolute() {
    let home = Home::with("bin/tool", "");
    let args = ["install", "--client", "cursor", "--force", "--no-check", "--arg=--y", "--", "./tool", "--x"];
    let done = home.command(&args).current_dir(home.path("bin")).output().expect("cargo-mcp starts");
    CommandOutput::from(done).expect_success();
    let written: serde_json::Value = serde_json::from_str(&home.read(file("cursor"))).expect("JSON");
    let expected = serde_json::json!({"type": "stdio", "command": home.path("bin/tool"), "args": ["--x", "--y"]});
    assert_eq!(written["mcpServers"]["tool"], expected);
}

/// The directory `.git` of a worktree is a file.
#[test]
fn a_worktree_is_a_project() {
    let home = Home::with("project/.git", "gitdir: elsewhere\n");
    home.write("project/deep/x", "");
    let args = ["install", "--client", "claude-code", "--scope", "project", "--no-check", "--", &hello()];
    let done = home.command(&args).current_dir(home.path("project/deep")).output().expect("cargo-mcp starts");
    CommandOutput::from(done).expect_success();
    assert!(home.read("project/.mcp.json").contains(&hello()));
}

#[test]
fn project_scope_uses_the_files_of_the_project() {
    let home = Home::new();
    let project = home.path("project");
    fs::create_dir_all(project.join(".git")).expect("directories are created");
    fs::create_dir_all(project.join("deep/down")).expect("directories are created");
    let hello = hello();
    for (client, path) in [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode,vscode-insiders", ".vscode/mcp.json"),
        ("codex", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json"),
        ("roo", ".roo/mcp.json"),
    ] {
        let args = ["install", "--client", client, "--scope", "project", "--no-check", "--", &hello];
        let done = home.command(&args).current_dir(project.join("deep/down")).output().expect("cargo-mcp starts");
        let done = CommandOutput::from(done);
        assert!(
            done.stderr.contains("note: the project's configuration contains a path of this machine: "),
            "{}",
            done.stderr
        );
        let output = done.expect_success();
        let file = project.join(path);
        assert!(output.ends_with(&format!(": installed `hello` (project) in {}\n", file.display())), "{output}");
        assert!(fs::read_to_string(&file).expect("the path exists").contains(&hello));
        let client = client.split(',').next().expect("one");
        let args = ["uninstall", "--client", client, "--scope", "project", "hello"];
        let done = home.command(&args).current_dir(&project).output().expect("cargo-mcp starts");
        CommandOutput::from(done).expect_success();
        assert!(!fs::read_to_string(&file).expect("the path exists").contains(&hello), "{client}");
    }
}
