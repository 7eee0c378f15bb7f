//! What is refused, and in which words.

use super::*;

#[test]
fn broken_files_are_refused_and_left_alone() {
    for (client, text, expected) in [
        ("cursor", "{\n  \"a\": 1\n  \"b\": 2\n}\n", "line 2, column 9: expected comma"),
        ("zed", "{ \"context_servers\": [] }", "line 1, column 22: `context_servers` is not an object"),
        ("codex", "a = 1\n[mcp_servers\n", "line 2, column 13: unclosed table, expected `]`"),
    ] {
        let home = Home::with(file(client), text);
        let before = home.everything();
        let path = home.path(file(client));
        let expected =
            format!("error: `{}`, {expected}\nhelp: mend the file; nothing was changed in it\n", path.display());
        assert_eq!(home.install(client, &[]).failed(2), expected);
        assert_eq!(home.run(&["uninstall", "--client", client, "hello"]).failed(2), expected);
        assert_eq!(home.everything(), before);
    }
    let home = Home::new();
    home.write(file("cursor"), "");
    fs::write(home.path(file("cursor")), b"{\"a\": \"\xff\"}").expect("it can be written");
    let expected = format!(
        "error: `{}` is not UTF-8: byte 8 is wrong\nhelp: save it as UTF-8; nothing was changed\n",
        home.path(file("cursor")).display()
    );
    assert_eq!(home.install("cursor", &[]).failed(2), expected);
}

#[test]
fn wrong_command_lines_say_what_to_do() {
    let home = Home::with(".cursor/x", "");
    home.write(".codex/x", "");
    let hello = hello();
    for (words, expected) in [
        (
            &["install", "--", &hello][..],
            "error: no client is named with `--client`\nhelp: these seem to be installed here: `codex`, `cursor`\n",
        ),
        (
            &["uninstall", "hello"],
            "error: no client is named with `--client`\nhelp: these seem to be installed here: `codex`, `cursor`\n",
        ),
        (
            &["install", "--client", "zed", "--scope", "project", "--", &hello],
            "error: Zed has no documented configuration file of scope `project`\nhelp: `--scope user`\n",
        ),
        (
            &["install", "--client", "roo", "--", &hello],
            "error: Roo Code has no documented configuration file of scope `user`\nhelp: `--scope project`\n",
        ),
        (
            &["install", "--client", "claude-desktop", "https://example.com/mcp"],
            "error: Claude Desktop takes no URL from its configuration file\nhelp: add the URL in Claude Desktop: Settings, then \
             Connectors\n",
        ),
        (
            &["install", "--client", "cursor", "https://example.com/mcp", "--env", "A=1"],
            "error: `--env` is for a program; a URL is not started\nhelp: leave `--env` out\n",
        ),
        (
            &["install", "--client", "cursor", "https://example.com/mcp", "--", "--flag"],
            "error: `--flag` is for a program; `https://example.com/mcp` is not started\nhelp: leave out what is behind `--`\n",
        ),
        (
            &["install", "--client", "cursor", "--header", "A: 1", "--", &hello],
            "error: `--header` is for a URL; a program gets `--env`\nhelp: leave `--header` out\n",
        ),
        (
            &["install", "--client", "cursor", "--copy-to", "x", "--", &hello],
            "error: `--copy-to` is for a package of this workspace\nhelp: leave `--copy-to` out\n",
        ),
        (
            &["install", "--client", "cursor", "--", "no-such-program"],
            "error: there is no program `no-such-program` on the `PATH`\nhelp: write its path, or the name of a package without \
             `--`\n",
        ),
        (&["install", "--client", "cursor", "--", "/no/such"], "error: there is no program `/no/such`\n"),
        (
            &["install", "--client", "cursor", "--name", "my server", "--", &hello],
            "error: `my server` is no name that every client takes\nhelp: use letters, digits, `-` and `_`, at most 64 of them\n",
        ),
        (
            &["install", "--client", "cursor", "helo"],
            "error: no package `helo` in this workspace\nhelp: did you mean `hello`?\n",
        ),
    ] {
        let done = home.run(words);
        assert_eq!(done.stdout, "", "{words:?}");
        assert_eq!(done.failed(2), expected, "{words:?}");
    }
    let nowhere = home.command(&["uninstall", "--client", "cursor"]).current_dir(home.path("")).output();
    assert_eq!(
        Done::from(nowhere.expect("cargo-mcp starts")).failed(2),
        "error: which server is to be uninstalled? there is no package here\nhelp: name it; `cargo mcp install --list` shows \
         where there are any\n"
    );
    let none = Home::new().run(&["install", "--", &hello]).failed(2);
    assert!(
        none.starts_with(
            "error: no client is named with `--client`, and none seems to be installed here\nhelp: name one of `claude-code`, "
        ),
        "{none}"
    );
    let near = home.run(&["install", "--client", "curser"]).failed(2);
    assert!(near.contains("a similar value exists: 'cursor'"), "{near}");
    assert_eq!(home.everything().len(), 4, "nothing was written");
}

#[test]
fn a_client_that_is_not_there_gets_no_file() {
    let home = Home::new();
    for (client, mark) in [("cursor", ".cursor"), ("windsurf", ".codeium/windsurf"), ("claude-code", ".claude")] {
        let title = match client {
            "cursor" => "Cursor",
            "windsurf" => "Windsurf",
            _ => "Claude Code",
        };
        let expected = format!(
            "error: {title} does not seem to be installed: there is no `{}`\nhelp: `--force` writes its configuration all the \
             same\n",
            home.path(mark).display()
        );
        assert_eq!(home.install(client, &[]).failed(2), expected);
    }
    assert_eq!(home.everything(), BTreeMap::new());
}

#[test]
fn a_server_that_does_not_answer_is_not_installed() {
    let home = Home::with(file("cursor"), "{}\n");
    let before = home.everything();
    let failed = home.run(&["install", "--client", "cursor", "--", "false"]).failed(3);
    assert!(failed.starts_with("error: `false` "), "{failed}");
    assert!(failed.ends_with("help: nothing was changed; `--no-check` installs it without starting it\n"), "{failed}");
    let failed = home.run(&["install", "--client", "cursor", "http://127.0.0.1:9/mcp"]).failed(3);
    assert!(failed.starts_with("error: ") && failed.contains("`http://127.0.0.1:9/mcp`"), "{failed}");
    let silent = ["install", "--client", "cursor", "--connect-timeout", "1", "--", "sleep", "5"];
    let failed = home.run(&silent).failed(3);
    assert!(failed.starts_with("error: `sleep` does not answer the handshake within 1 s\n"), "{failed}");
    assert_eq!(home.everything(), before);
    home.run(&["install", "--client", "cursor", "--no-check", "--", "false"]).good();
    assert!(home.read(file("cursor")).contains("\"command\": \"false\""));
}

#[test]
fn names_that_are_not_there_are_told() {
    let text = "{ \"mcpServers\": { \"hello\": {}, \"notes\": {} } }";
    let home = Home::with(file("cursor"), text);
    let path = home.path(file("cursor"));
    for (words, help) in [
        (&["uninstall", "--client", "cursor", "helo"][..], "did you mean `hello`?"),
        (&["uninstall", "--client", "cursor", "frobnicate"], "it has `hello`, `notes`"),
        (
            &["uninstall", "--client", "cursor", "https://example.com"],
            "it has `hello`, `notes`\nhelp: if it was installed with `--name`, give that name",
        ),
    ] {
        let name = if words[3].starts_with("https") { "example-com" } else { words[3] };
        let expected = format!("error: Cursor has no `{name}` in `{}`\nhelp: {help}\n", path.display());
        assert_eq!(home.run(words).failed(2), expected);
    }
    let failed = Home::new().run(&["uninstall", "--client", "codex", "hello"]).failed(2);
    assert!(failed.ends_with("help: there is no server in it\n"), "{failed}");
    assert_eq!(home.read(file("cursor")), text);
}
