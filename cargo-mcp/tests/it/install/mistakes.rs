//! Rejected files and command lines, with their messages.

use super::*;

#[test]
fn invalid_files_are_rejected_and_unchanged() {
    for (client, text, expected) in [
        ("cursor", "{\n  \"a\": 1\n  \"b\": 2\n}\n", "line 2, column 9: expected comma"),
        ("zed", "{ \"context_servers\": [] }", "line 1, column 22: `context_servers` is not an object"),
        ("codex", "a = 1\n[mcp_servers\n", "line 2, column 13: unclosed table, expected `]`"),
    ] {
        let home = Home::with(file(client), text);
        let before = home.snapshot();
        let path = home.path(file(client));
        let expected = format!("error: `{}`, {expected}\nhelp: fix the file; nothing was changed\n", path.display());
        assert_eq!(home.install(client, &[]).expect_failure(2), expected);
        assert_eq!(home.run(&["uninstall", "--client", client, "hello"]).expect_failure(2), expected);
        assert_eq!(home.snapshot(), before);
    }
    let home = Home::new();
    home.write(file("cursor"), "");
    fs::write(home.path(file("cursor")), b"{\"a\": \"\xff\"}").expect("the file is written");
    let expected = format!(
        "error: `{}` is not valid UTF-8: invalid byte at offset 7\nhelp: save the file as UTF-8; nothing was changed\n",
        home.path(file("cursor")).display()
    );
    assert_eq!(home.install("cursor", &[]).expect_failure(2), expected);
}

#[test]
fn invalid_command_lines_are_rejected_with_help() {
    let home = Home::with(".cursor/x", "");
    home.write(".codex/x", "");
    let (hello, long) = (hello(), "a".repeat(65));
    for (args, expected) in [
        (
            &["install", "--", &hello][..],
            "error: `--client` is missing\nhelp: these clients seem to be installed: `codex`, `cursor`\n",
        ),
        (
            &["uninstall", "hello"],
            "error: `--client` is missing\nhelp: these clients seem to be installed: `codex`, `cursor`\n",
        ),
        // The only file of Roo Code is that of a project.
        (
            &["install", "--scope", "project", "--", &hello],
            "error: `--client` is missing\nhelp: these clients seem to be installed: `codex`, `cursor`, `roo`\n",
        ),
        (
            &["install", "--client", "zed", "--scope", "project", "--", &hello],
            "error: Zed has no documented configuration file for scope `project`\nhelp: use `--scope user`\n",
        ),
        (
            &["install", "--client", "roo", "--", &hello],
            "error: Roo Code has no documented configuration file for scope `user`\nhelp: use `--scope project`\n",
        ),
        (
            &["install", "--client", "claude-desktop", "https://example.com/mcp"],
            "error: the configuration file of Claude Desktop cannot contain URLs\nhelp: add the URL in Claude Desktop: Settings, then \
             Connectors\n",
        ),
        (
            &["install", "--client", "cursor", "https://example.com/mcp", "--env", "A=1"],
            "error: `--env` applies only to programs\nhelp: omit `--env`\n",
        ),
        (
            &["install", "--client", "cursor", "https://example.com/mcp", "--arg", "--flag"],
            "error: `--arg` applies only to programs\nhelp: omit `--arg`\n",
        ),
        (
            &["install", "--client", "cursor", "https://example.com/mcp", "--", "--flag"],
            "error: argument `--flag` cannot be passed to `https://example.com/mcp`, which is not started here\nhelp: omit the arguments after `--`\n",
        ),
        (
            &["install", "--client", "cursor", "--header", "A: 1", "--", &hello],
            "error: `--header` applies only to URLs\nhelp: omit `--header`\n",
        ),
        (
            &["install", "--client", "cursor", "--copy-to", "x", "--", &hello],
            "error: `--copy-to` applies only to packages of this workspace\nhelp: omit `--copy-to`\n",
        ),
        (
            &["install", "--client", "cursor", "--", "no-such-program"],
            "error: program `no-such-program` not found in `PATH`\nhelp: use its path, or name a package without `--`\n",
        ),
        (&["install", "--client", "cursor", "--", "/no/such"], "error: program `/no/such` not found\n"),
        (
            &["install", "--client", "cursor", "--name", "my server", "--", &hello],
            "error: invalid server name `my server`\nhelp: use at most 64 letters, digits, `-` and `_`\n",
        ),
        (
            &["install", "--client", "cursor", "--name", &long, "--", &hello],
            &format!("error: invalid server name `{long}`\nhelp: use at most 64 letters, digits, `-` and `_`\n"),
        ),
        (
            &["install", "--client", "cursor", "helo"],
            "error: no package `helo` in this workspace\nhelp: did you mean `hello`?\n",
        ),
    ] {
        let done = home.run(args);
        assert_eq!(done.stdout, "", "{args:?}");
        assert_eq!(done.expect_failure(2), expected, "{args:?}");
    }
    let nowhere = home.command(&["uninstall", "--client", "cursor"]).current_dir(home.path("")).output();
    assert_eq!(
        CommandOutput::from(nowhere.expect("cargo-mcp starts")).expect_failure(2),
        "error: the name of the server is missing, and there is no package here\nhelp: `cargo mcp install --list` lists \
         the installed servers\n"
    );
    let none = Home::new().run(&["install", "--", &hello]).expect_failure(2);
    assert!(
        none.starts_with(
            "error: `--client` is missing, and no supported client seems to be installed\nhelp: supported clients: `claude-code`, "
        ),
        "{none}"
    );
    let near = home.run(&["install", "--client", "curser"]).expect_failure(2);
    assert!(near.contains("a similar value exists: 'cursor'"), "{near}");
    assert_eq!(home.snapshot().len(), 4, "nothing was written");
}

#[test]
fn no_file_is_created_for_a_missing_client() {
    let home = Home::new();
    for (client, mark) in [("cursor", ".cursor"), ("windsurf", ".codeium/windsurf"), ("claude-code", ".claude")] {
        let title = match client {
            "cursor" => "Cursor",
            "windsurf" => "Windsurf",
            _ => "Claude Code",
        };
        let expected = format!(
            "error: {title} does not seem to be installed: `{}` does not exist\nhelp: `--force` creates its configuration anyway\n",
            home.path(mark).display()
        );
        assert_eq!(home.install(client, &[]).expect_failure(2), expected);
    }
    assert_eq!(home.snapshot(), BTreeMap::new());
    // One of several paths is enough.
    let home = Home::with(".claude/settings.json", "{}");
    home.install("claude-code", &["--no-check"]).expect_success();
}

#[test]
fn a_server_that_does_not_respond_is_not_installed() {
    let home = Home::with(file("cursor"), "{}\n");
    let before = home.snapshot();
    let failed = home.run(&["install", "--client", "cursor", "--", "false"]).expect_failure(3);
    assert!(failed.starts_with("error: `false` "), "{failed}");
    assert!(
        failed.ends_with("help: nothing was changed; `--no-check` installs the server without starting it\n"),
        "{failed}"
    );
    let failed = home.run(&["install", "--client", "cursor", "http://127.0.0.1:9/mcp"]).expect_failure(3);
    assert!(failed.starts_with("error: ") && failed.contains("`http://127.0.0.1:9/mcp`"), "{failed}");
    let silent = ["install", "--client", "cursor", "--connect-timeout", "1", "--", "sleep", "5"];
    let failed = home.run(&silent).expect_failure(3);
    assert!(failed.starts_with("error: `sleep` did not answer the handshake within 1 s\n"), "{failed}");
    assert_eq!(home.snapshot(), before);
    home.run(&["install", "--client", "cursor", "--no-check", "--", "false"]).expect_success();
    assert!(home.read(file("cursor")).contains("\"command\": \"false\""));
}

#[test]
fn unknown_names_are_rejected_with_suggestions() {
    let text = "{ \"mcpServers\": { \"hello\": {}, \"notes\": {} } }";
    let home = Home::with(file("cursor"), text);
    let path = home.path(file("cursor"));
    for (args, help) in [
        (&["uninstall", "--client", "cursor", "helo"][..], "did you mean `hello`?"),
        (&["uninstall", "--client", "cursor", "frobnicate"], "available servers: `hello`, `notes`"),
        (
            &["uninstall", "--client", "cursor", "https://example.com"],
            "available servers: `hello`, `notes`\nhelp: if the server was installed with `--name`, use that name",
        ),
    ] {
        let name = if args[3].starts_with("https") { "example-com" } else { args[3] };
        let expected = format!("error: Cursor has no server `{name}` in `{}`\nhelp: {help}\n", path.display());
        assert_eq!(home.run(args).expect_failure(2), expected);
    }
    let failed = Home::new().run(&["uninstall", "--client", "codex", "hello"]).expect_failure(2);
    assert!(failed.ends_with("help: there are no servers\n"), "{failed}");
    assert_eq!(home.read(file("cursor")), text);
}
