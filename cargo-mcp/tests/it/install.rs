//! `cargo mcp install` and `cargo mcp uninstall`, in a home of their own.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::common::{Done, cargo_mcp, example};

/// A user's directory.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    /// With a file in it.
    fn with(path: &str, text: &str) -> Self {
        let home = Self::new();
        home.write(path, text);
        home
    }

    fn path(&self, path: &str) -> PathBuf {
        // As the programs see it, which follow links to the temporary directory.
        self.0.path().canonicalize().expect("it is there").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("it is in the home")).expect("directories can be made");
        fs::write(path, text).expect("it can be written");
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Every file and directory but the notes, with its content.
    fn everything(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        fn walk(directory: &Path, found: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
            for entry in fs::read_dir(directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.ends_with(".local") {
                    continue;
                }
                match path.is_dir() {
                    true => {
                        walk(&path, found);
                        found.insert(path, None);
                    }
                    false => {
                        found.insert(path.clone(), fs::read(path).ok());
                    }
                }
            }
        }
        let mut found = BTreeMap::new();
        walk(self.0.path(), &mut found);
        found
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = cargo_mcp(words);
        let cargo = |name: &str, below: &str| {
            std::env::var_os(name).unwrap_or_else(|| std::env::home_dir().unwrap_or_default().join(below).into())
        };
        command.env("CARGO_HOME", cargo("CARGO_HOME", ".cargo")).env("RUSTUP_HOME", cargo("RUSTUP_HOME", ".rustup"));
        for variable in
            ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "APPDATA", "LOCALAPPDATA"]
        {
            command.env_remove(variable);
        }
        command.env("HOME", self.path("")).env("RUST_LOG", "off");
        command
    }

    fn run(&self, words: &[&str]) -> Done {
        self.command(words).output().expect("cargo-mcp starts").into()
    }

    /// Installs the example `hello` as a command.
    fn install(&self, client: &str, more: &[&str]) -> Done {
        let hello = hello();
        let words = [&["install", "--client", client], more, &["--", &hello]].concat();
        self.run(&words)
    }
}

fn hello() -> String {
    example("hello").to_str().expect("a path in UTF-8").to_owned()
}

/// Where a client's file is below a home on Linux.
fn file(client: &str) -> &'static str {
    match client {
        "claude-code" => ".claude.json",
        "claude-desktop" => ".config/Claude/claude_desktop_config.json",
        "cline" => ".cline/data/settings/cline_mcp_settings.json",
        "codex" => ".codex/config.toml",
        "copilot" => ".copilot/mcp-config.json",
        "cursor" => ".cursor/mcp.json",
        "gemini" => ".gemini/settings.json",
        "vscode" => ".config/Code/User/mcp.json",
        "vscode-insiders" => ".config/Code - Insiders/User/mcp.json",
        "windsurf" => ".codeium/windsurf/mcp_config.json",
        "zed" => ".config/zed/settings.json",
        other => panic!("{other}"),
    }
}

const LOCAL: [&str; 11] = [
    "claude-code",
    "claude-desktop",
    "cline",
    "codex",
    "copilot",
    "cursor",
    "gemini",
    "vscode",
    "vscode-insiders",
    "windsurf",
    "zed",
];

#[test]
fn each_client_gets_its_own_shape_of_an_entry() {
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
        let done = home.install(client, &["--force", "--env", "KEY=ü \"1\"", "--arg=--legacy-sse"]);
        assert_eq!(done.stderr.lines().next(), Some("`hello` answers: it is hello 0.1.0"), "{}", done.stderr);
        let told = done.good();
        let path = home.path(file(client));
        assert!(told.ends_with(&format!(": installed `hello` (user) in {}\n", path.display())), "{told}");
        let expected = format!(
            "{{\n  \"{object}\": {{\n    \"hello\": {{\n{kind}      \"command\": \"{}\",\n      \"args\": [\n        \
             \"--legacy-sse\"\n      ],\n      \"env\": {{\n        \"KEY\": \"ü \\\"1\\\"\"\n      }}\n    }}\n  }}\n}}\n",
            hello()
        );
        assert_eq!(home.read(file(client)), expected, "{client}");
    }
    let home = Home::new();
    home.install("codex", &["--force", "--env", "KEY=ü \"1\"", "--arg=--legacy-sse"]).good();
    let expected = format!(
        "[mcp_servers.hello]\ncommand = \"{}\"\nargs = [\"--legacy-sse\"]\nenv = {{ KEY = \"ü \\\"1\\\"\" }}\n",
        hello()
    );
    assert_eq!(home.read(file("codex")), expected);
}

/// As `copilot mcp add` writes it.
#[test]
fn copilot_is_told_which_tools_it_may_use() {
    let home = Home::new();
    home.install("copilot", &["--force", "--no-check"]).good();
    let url = ["install", "--client", "copilot", "--no-check", "--name", "web", "https://example.com/mcp"];
    home.run(&url).good();
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
fn each_client_gets_its_own_shape_of_a_url() {
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
        let words = ["install", "--client", client, "--force", "--no-check", "https://mcp.example.com/mcp"];
        home.run(&[&words[..], &["--header", "Authorization: Bearer x"]].concat()).good();
        let expected = format!(
            "{{\n  \"{object}\": {{\n    \"mcp-example-com\": {{\n{kind}      \"{url}\": \"https://mcp.example.com/mcp\",\n      \
             \"{headers}\": {{\n        \"Authorization\": \"Bearer x\"\n      }}\n    }}\n  }}\n}}\n"
        );
        assert_eq!(home.read(file(client)), expected, "{client}");
        home.run(&["uninstall", "--client", client, "https://mcp.example.com/mcp"]).good();
        assert!(!home.path(file(client)).exists(), "{client}");
    }
    let home = Home::new();
    let words = ["install", "--client", "codex", "--force", "--no-check", "https://mcp.example.com/mcp"];
    home.run(&[&words[..], &["--header", "X-Key: x"]].concat()).good();
    let expected =
        "[mcp_servers.mcp-example-com]\nurl = \"https://mcp.example.com/mcp\"\nhttp_headers = { X-Key = \"x\" }\n";
    assert_eq!(home.read(file("codex")), expected);
}

#[test]
fn only_the_entry_changes() {
    for (client, before, after) in [
        (
            "claude-code",
            "{\n  \"numStartups\": 3,\n  \"projects\": {\n    \"/x\": {\n      \"mcpServers\": {}\n    }\n  }\n}",
            "{\n  \"numStartups\": 3,\n  \"projects\": {\n    \"/x\": {\n      \"mcpServers\": {}\n    }\n  },\n  \"mcpServers\": {\n    \"hello\": {\n      \"type\": \"stdio\",\n      \"command\": \"HELLO\",\n      \"args\": []\n    }\n  }\n}",
        ),
        (
            "cursor",
            "{\"mcpServers\":{\"other\":{\"command\":\"x\"}}}",
            "{\"mcpServers\":{\"other\":{\"command\":\"x\"},\"hello\":{\"type\":\"stdio\",\"command\":\"HELLO\",\"args\":[]}}}",
        ),
        (
            "vscode",
            "\u{feff}{\r\n\t// mine\r\n\t\"servers\": {\r\n\t\t\"other\": {}, // keep\r\n\t},\r\n\t\"inputs\": [],\r\n}\r\n",
            "\u{feff}{\r\n\t// mine\r\n\t\"servers\": {\r\n\t\t\"other\": {}, // keep\r\n\t\t\"hello\": {\r\n\t\t\t\"type\": \"stdio\",\r\n\t\t\t\"command\": \"HELLO\",\r\n\t\t\t\"args\": []\r\n\t\t},\r\n\t},\r\n\t\"inputs\": [],\r\n}\r\n",
        ),
        (
            "zed",
            "// Zed\n{\n    \"theme\": \"One\" // dark\n}\n",
            "// Zed\n{\n    \"theme\": \"One\", // dark\n    \"context_servers\": {\n        \"hello\": {\n            \"command\": \"HELLO\",\n            \"args\": []\n        }\n    }\n}\n",
        ),
        (
            "codex",
            "model = \"o\" # mine\r\n\r\n[mcp_servers.other]\r\ncommand = 'x'",
            "model = \"o\" # mine\r\n\r\n[mcp_servers.other]\r\ncommand = 'x'\r\n\r\n[mcp_servers.hello]\r\ncommand = \"HELLO\"\r\nargs = []\r\n",
        ),
    ] {
        let home = Home::with(file(client), before);
        let told = home.install(client, &["--no-check"]);
        let backup = home.path(&format!("{}.bak", file(client)));
        assert!(told.stderr.contains(&format!("  as it was: {}\n", backup.display())), "{}", told.stderr);
        told.good();
        assert_eq!(home.read(file(client)), after.replace("HELLO", &hello()), "{client}");
        assert_eq!(fs::read_to_string(backup).expect("a copy"), before, "{client}");
        home.run(&["uninstall", "--client", client, "hello"]).good();
        assert_eq!(home.read(file(client)), before, "{client}");
    }
}

#[test]
fn a_round_trip_leaves_every_home_as_it_was() {
    for client in LOCAL {
        for text in [None, Some(""), Some("\n"), Some("\u{feff}")].into_iter().chain(match client {
            "codex" => [Some("# mine\r\n"), Some("[mcp_servers]\n"), Some("a = 1")],
            _ => {
                [Some("{}"), Some("{\r\n}\r\n"), Some("{\"mcpServers\": {}, \"servers\": {}, \"context_servers\": {}}")]
            }
        }) {
            let home = Home::new();
            if let Some(text) = text {
                home.write(file(client), text);
            }
            let before = home.everything();
            home.install(client, &["--no-check", "--force"]).good();
            assert_ne!(home.everything(), before, "{client} {text:?}");
            home.run(&["uninstall", "--client", client, "hello"]).good();
            let mut after = home.everything();
            after.retain(|path, _| !path.to_string_lossy().contains(".bak"));
            assert_eq!(after, before, "{client} {text:?}");
        }
    }
}

#[test]
fn a_file_that_was_made_stays_if_somebody_has_used_it() {
    let home = Home::new();
    home.install("cursor", &["--no-check", "--force"]).good();
    let text = home.read(file("cursor")).replacen('{', "{\n  \"mine\": 1,", 1);
    home.write(file("cursor"), &text);
    home.run(&["uninstall", "--client", "cursor", "hello"]).good();
    assert_eq!(home.read(file("cursor")), "{\n  \"mine\": 1\n}\n");
}

#[test]
fn without_notes_only_the_entry_goes() {
    let home = Home::with(file("cursor"), "{}\n");
    home.install("cursor", &["--no-check"]).good();
    fs::remove_dir_all(home.path(".local")).expect("the notes are there");
    home.run(&["uninstall", "--client", "cursor", "hello"]).good();
    assert_eq!(home.read(file("cursor")), "{\n  \"mcpServers\": {}\n}\n");
}

#[test]
fn what_was_the_users_before_is_not_taken_for_ours() {
    let home = Home::with(file("cursor"), "{}\n");
    home.install("cursor", &["--no-check"]).good();
    let own = "{\n  \"mcpServers\": {}\n}\n";
    home.write(file("cursor"), own);
    home.install("cursor", &["--no-check"]).good();
    home.run(&["uninstall", "--client", "cursor", "hello"]).good();
    assert_eq!(home.read(file("cursor")), own);
}

#[test]
fn a_package_is_built_for_release_and_can_be_copied() {
    let home = Home::new();
    let target = home.path("target");
    let release = target.join("release");
    fs::create_dir_all(&release).expect("directories can be made");
    fs::copy(example("hello"), release.join("hello")).expect("the example is built");
    let words = ["install", "hello", "--client", "claude-code", "--force", "--no-build", "--copy-to"];
    let bin = home.path("bin");
    let run = |copy_to: Option<&str>| -> Done {
        let words = match copy_to {
            Some(directory) => [&words[..], &[directory], &["--", "--allow-host", "x"]].concat(),
            None => words[..6].to_vec(),
        };
        home.command(&words).env("CARGO_TARGET_DIR", &target).output().expect("cargo-mcp starts").into()
    };
    let plain = run(None);
    let expected = format!(
        "note: clients start {}/hello, which `cargo clean` removes; `--copy-to DIRECTORY` keeps a copy\n",
        release.display()
    );
    assert!(plain.stderr.ends_with(&expected), "{}", plain.stderr);
    plain.good();
    let copied = run(bin.to_str());
    assert!(!copied.stderr.contains("note:"), "{}", copied.stderr);
    copied.good();
    let entry: serde_json::Value = serde_json::from_str(&home.read(".claude.json")).expect("JSON");
    let expected = serde_json::json!({"type": "stdio", "command": bin.join("hello"), "args": ["--allow-host", "x"]});
    assert_eq!(entry["mcpServers"]["hello"], expected);
    assert_eq!(fs::read(bin.join("hello")).expect("a copy"), fs::read(example("hello")).expect("the example"));
    // The entry is the same; the program need not be.
    let mut newer = fs::read(example("hello")).expect("the example");
    newer.push(0);
    fs::write(release.join("hello"), &newer).expect("it can be written");
    let again = run(bin.to_str()).good();
    let expected = format!("Claude Code: `hello` is already installed in {}\n", home.path(".claude.json").display());
    assert_eq!(again, expected);
    assert_eq!(fs::read(bin.join("hello")).expect("a copy"), newer);
    fs::remove_file(release.join("hello")).expect("it is there");
    let expected = format!(
        "error: there is no program `{}/hello`\nhelp: leave `--no-build` out, and it is built\n",
        release.display()
    );
    assert_eq!(run(None).failed(2), expected);
}

#[test]
fn the_same_again_is_no_failure_and_another_needs_force() {
    let text = "{\n  \"mcpServers\": {\n    \"hello\": {\n      \"command\": \"/bin/other\",\n      \"env\": {\"KEY\": \"secret\"}\n    }\n  }\n}\n";
    let home = Home::with(file("cursor"), text);
    let path = home.path(file("cursor"));
    let expected = format!(
        "error: Cursor has another `hello` in `{}`: {{\"command\":\"/bin/other\",\"env\":{{\"KEY\":\"***\"}}}}\nhelp: \
         `--force` replaces it, `--name` installs this one under another name\n",
        path.display()
    );
    assert_eq!(home.install("cursor", &["--no-check"]).failed(2), expected);
    assert_eq!(home.read(file("cursor")), text);
    home.install("cursor", &["--no-check", "--force"]).good();
    assert_eq!(
        home.read(file("cursor")),
        format!(
            "{{\n  \"mcpServers\": {{\n    \"hello\": {{\n      \"type\": \"stdio\",\n      \"command\": \"{}\",\n      \"args\": []\n    }}\n  }}\n}}\n",
            hello()
        )
    );
    let before = home.everything();
    let told = home.install("cursor", &["--no-check"]).good();
    assert_eq!(told, format!("Cursor: `hello` is already installed in {}\n", path.display()));
    assert_eq!(home.everything(), before);
    home.install("cursor", &["--no-check", "--name", "another"]).good();
    assert!(home.read(file("cursor")).contains("\"another\": {\n"));
}

#[test]
fn a_dry_run_shows_the_difference_and_writes_nothing() {
    let text =
        "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\", \"env\": { \"KEY\": \"old secret\" } }\n  }\n}\n";
    let home = Home::with(file("cursor"), text);
    let before = home.everything();
    let path = home.path(file("cursor"));
    let told = home.install("cursor", &["--dry-run", "--env", "TOKEN=new secret"]).good();
    let expected = format!(
        "--- {0}\n+++ {0}\n@@ -1,5 +1,13 @@\n {{\n   \"mcpServers\": {{\n-    \"other\": {{ \"command\": \"x\", \"env\": {{ \"KEY\": \
         \"***\" }} }}\n+    \"other\": {{ \"command\": \"x\", \"env\": {{ \"KEY\": \"***\" }} }},\n+    \"hello\": {{\n+      \
         \"type\": \"stdio\",\n+      \"command\": \"{1}\",\n+      \"args\": [],\n+      \"env\": {{\n+        \"TOKEN\": \
         \"***\"\n+      }}\n+    }}\n   }}\n }}\n",
        path.display(),
        hello()
    );
    assert_eq!(told, expected);
    assert_eq!(home.everything(), before);
    let done = home.run(&["install", "hello", "--client", "codex", "--dry-run"]);
    let warning =
        format!("warning: Codex does not seem to be installed: there is no `{}`\n", home.path(".codex").display());
    assert_eq!(done.stderr, warning);
    let told = done.good();
    assert!(told.starts_with(&format!("--- /dev/null\n+++ {}\n", home.path(file("codex")).display())), "{told}");
    assert!(told.contains("+command = \"") && told.contains("/release/hello\"\n"), "{told}");
    let told = home.run(&["uninstall", "--client", "cursor", "other", "--dry-run"]).good();
    assert!(told.contains("-    \"other\": {") && told.contains("\"***\"") && !told.contains("secret"), "{told}");
    assert_eq!(home.everything(), before);
}

#[test]
fn a_secret_comes_from_the_environment() {
    let home = Home::new();
    let words = ["install", "--client", "cursor", "--force", "--no-check", "--env", "MY_KEY", "--", &hello()];
    let missing = home.command(&words).env_remove("MY_KEY").output().expect("cargo-mcp starts");
    assert_eq!(
        Done::from(missing).failed(2),
        "error: `--env MY_KEY`: there is no `MY_KEY` in this environment\nhelp: give it a value: `--env MY_KEY=…`\n"
    );
    let done = home.command(&words).env("MY_KEY", "s3cret").output().expect("cargo-mcp starts");
    assert!(!Done::from(done).good().contains("s3cret"));
    assert!(home.read(file("cursor")).contains("\"MY_KEY\": \"s3cret\""));
    let notes = home.read(".local/state/cargo-mcp/installed.json");
    assert!(notes.contains("hello") && !notes.contains("s3cret"), "{notes}");
}

#[test]
fn what_a_client_takes_for_a_variable_is_told() {
    for (client, value, expected) in [
        ("gemini", "a$b", "note: Gemini CLI takes `$` for the beginning of a variable\n"),
        ("vscode", "${input:key}", "note: VS Code takes `${` for the beginning of a variable\n"),
        ("vscode", "a$b", ""),
        ("zed", "${key}", ""),
    ] {
        let home = Home::with(file(client), "");
        let done = home.install(client, &["--dry-run", "--env", &format!("KEY={value}")]);
        assert_eq!(done.stderr, expected, "{client} {value}");
        done.good();
    }
}

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
fn a_client_that_reads_plain_json_is_warned_of() {
    let home = Home::with(file("claude-desktop"), "{ // mine\n}\n");
    let done = home.install("claude-desktop", &["--no-check"]);
    let expected = format!(
        "warning: Claude Desktop reads plain JSON, and `{}` is not: line 1, column 3: comments are not allowed\n",
        home.path(file("claude-desktop")).display()
    );
    assert!(done.stderr.starts_with(&expected), "{}", done.stderr);
    done.good();
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

#[test]
fn two_servers_go_in_any_order() {
    for (client, text) in [("cursor", "{\"a\": 1}"), ("cursor", "{}\n"), ("codex", "a = 1"), ("zed", "// none\n")] {
        for order in [["one", "two"], ["two", "one"]] {
            let home = Home::with(file(client), text);
            home.install(client, &["--no-check", "--name", "one"]).good();
            home.install(client, &["--no-check", "--name", "two"]).good();
            for name in order {
                home.run(&["uninstall", "--client", client, name]).good();
            }
            assert_eq!(home.read(file(client)), text, "{client} {order:?}");
        }
    }
}

#[test]
fn several_clients_at_once_and_the_list_of_them() {
    let home = Home::with(file("cursor"), "{}");
    home.write(file("zed"), "{ \"context_servers\": { \"other\": {} } }");
    home.write(file("gemini"), "{ broken");
    let told = home.install("cursor,zed,cursor", &["--no-check"]).good();
    assert_eq!(told.lines().count(), 2, "{told}");
    let told = home.run(&["install", "--list", "hello"]).good();
    for (client, state) in
        [("cursor", "has `hello`"), ("zed", "has `hello`"), ("gemini", "broken"), ("windsurf", "no file")]
    {
        let path = home.path(file(client)).display().to_string();
        let row: Vec<_> = told.lines().find(|line| line.ends_with(&path)).expect(client).split("  ").collect();
        let row: Vec<_> = row.iter().map(|cell| cell.trim()).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(row, [client, "user", state, &path]);
    }
    let told = home.run(&["install", "--list", "--client", "zed", "--name", "notes"]).good();
    assert_eq!(told, format!("zed  user  no `notes` among 2  {}\n", home.path(file("zed")).display()));
}

#[test]
fn a_project_has_its_own_files() {
    let home = Home::new();
    let project = home.path("project");
    fs::create_dir_all(project.join(".git")).expect("directories can be made");
    fs::create_dir_all(project.join("deep/down")).expect("directories can be made");
    let hello = hello();
    for (client, path) in [
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode,vscode-insiders", ".vscode/mcp.json"),
        ("codex", ".codex/config.toml"),
        ("gemini", ".gemini/settings.json"),
        ("roo", ".roo/mcp.json"),
    ] {
        let words = ["install", "--client", client, "--scope", "project", "--no-check", "--", &hello];
        let done = home.command(&words).current_dir(project.join("deep/down")).output().expect("cargo-mcp starts");
        let done = Done::from(done);
        assert!(done.stderr.contains("note: a project's file has a path of this machine: "), "{}", done.stderr);
        let told = done.good();
        let file = project.join(path);
        assert!(told.ends_with(&format!(": installed `hello` (project) in {}\n", file.display())), "{told}");
        assert!(fs::read_to_string(&file).expect("it is there").contains(&hello));
        let client = client.split(',').next().expect("one");
        let words = ["uninstall", "--client", client, "--scope", "project", "hello"];
        let done = home.command(&words).current_dir(&project).output().expect("cargo-mcp starts");
        Done::from(done).good();
        assert!(!file.exists(), "{client}");
    }
    let left: Vec<_> =
        fs::read_dir(&project).expect("it is there").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(left.len(), 2, "only `.git` and `deep` are left: {left:?}");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }

    /// A cargo that builds nothing: it says that the example is what it has built, and notes how it was asked.
    fn cargo(home: &Home) -> PathBuf {
        let real = PathBuf::from(env!("CARGO"));
        let metadata = metadata_of(Command::new(&real).args(["metadata", "--no-deps", "--format-version", "1"]));
        let package =
            metadata["packages"].as_array().expect("packages").iter().find(|package| package["name"] == "hello");
        let package = package.expect("the example is there");
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
            "#!/bin/sh\n[ \"$1\" = build ] || exec '{}' \"$@\"\necho \"$@\" > '{1}/asked'\ncat '{1}/message.json'\n",
            real.display(),
            home.path("").display()
        );
        home.write("cargo", &text);
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is mine");
        script
    }

    fn metadata_of(command: &mut Command) -> serde_json::Value {
        let output = command.current_dir(crate::common::repository()).output().expect("cargo starts");
        serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
    }

    #[test]
    fn a_package_is_built_and_started() {
        for (more, asked) in [(&[][..], true), (&["--debug"], false)] {
            let home = Home::new();
            let cargo = cargo(&home);
            let words = [&["install", "hello", "--client", "cursor", "--force"], more].concat();
            let done: Done = home.command(&words).env("CARGO", &cargo).output().expect("cargo-mcp starts").into();
            assert!(done.stderr.contains("`hello` answers: it is hello 0.1.0\n"), "{}", done.stderr);
            let path = home.path(file("cursor"));
            assert_eq!(done.good(), format!("Cursor: installed `hello` (user) in {}\n", path.display()));
            assert_eq!(home.read("asked").contains(" --release"), asked, "{}", home.read("asked"));
            let entry: serde_json::Value = serde_json::from_str(&home.read(file("cursor"))).expect("JSON");
            assert_eq!(entry["mcpServers"]["hello"]["command"], hello());
            let told = home.run(&["uninstall", "--client", "cursor", "hello"]).good();
            let expected = format!("Cursor: uninstalled `hello`; {} was made for it and is gone\n", path.display());
            assert_eq!(told, expected);
            assert!(!home.path(".cursor").exists(), "the directory was made for it too");
        }
    }

    #[test]
    fn links_and_permissions_stay() {
        for target in ["dotfiles/mcp.json", "../elsewhere.json"] {
            let home = Home::with(".cursor/dotfiles/mcp.json", "{}\n");
            home.write("elsewhere.json", "{}\n");
            let real = home.path(".cursor").join(target);
            fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("it is mine");
            symlink(target, home.path(file("cursor"))).expect("a link");
            home.install("cursor", &["--no-check"]).good();
            assert_eq!(fs::read_link(home.path(file("cursor"))).expect("it is a link still"), Path::new(target));
            assert!(fs::read_to_string(&real).expect("it is there").contains("hello"));
            assert_eq!((mode(&real), mode(&home.path(".cursor/mcp.json.bak"))), (0o640, 0o640));
            home.run(&["uninstall", "--client", "cursor", "hello"]).good();
            assert_eq!(fs::read_to_string(&real).expect("it is there"), "{}\n");
            assert_eq!(mode(&real), 0o640);
        }
    }

    #[test]
    fn a_link_to_nothing_is_filled() {
        let home = Home::with("dotfiles/x", "");
        fs::create_dir(home.path(".cursor")).expect("a directory");
        symlink("../dotfiles/mcp.json", home.path(file("cursor"))).expect("a link");
        home.install("cursor", &["--no-check"]).good();
        assert!(home.read("dotfiles/mcp.json").contains("hello"));
        assert!(home.path(file("cursor")).is_symlink());
    }

    #[test]
    fn a_new_file_of_the_user_is_private_and_one_of_a_project_is_not() {
        let home = Home::new();
        home.install("cursor", &["--no-check", "--force"]).good();
        assert_eq!(mode(&home.path(file("cursor"))), 0o600);
        fs::create_dir(home.path(".git")).expect("a directory");
        let words = ["install", "--client", "claude-code", "--scope", "project", "--no-check", "--", &hello()];
        let mut command = home.command(&words);
        Done::from(command.current_dir(home.path("")).output().expect("cargo-mcp starts")).good();
        assert_eq!(mode(&home.path(".mcp.json")) & 0o044, mode_of_new_files(&home) & 0o044);
    }

    /// As the umask has it.
    fn mode_of_new_files(home: &Home) -> u32 {
        home.write("plain", "");
        mode(&home.path("plain"))
    }

    #[test]
    fn what_cannot_be_written_is_told_and_nothing_is_lost() {
        let home = Home::with(file("cursor"), "{}\n");
        let path = home.path(file("cursor"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("it is mine");
        let expected = format!(
            "error: `{}` is read-only\nhelp: make it writable, or change it where it is made; `--dry-run` shows what to change\n",
            path.display()
        );
        assert_eq!(home.install("cursor", &["--no-check"]).failed(2), expected);
        assert_eq!(home.read(file("cursor")), "{}\n");
        // A directory where nobody can write, not even root.
        let words = ["install", "--client", "claude-code", "--force", "--no-check", "--", &hello()];
        let done = home.command(&words).env("CLAUDE_CONFIG_DIR", "/proc").output().expect("cargo-mcp starts");
        let failed = Done::from(done).failed(2);
        assert!(failed.starts_with("error: `/proc/.claude.json` cannot be written: "), "{failed}");
        assert!(failed.ends_with("help: nothing was changed; `--dry-run` shows what to change by hand\n"), "{failed}");
        // A file where the directory should be.
        let home = Home::with(".cursor", "");
        let failed = home.install("cursor", &["--no-check"]).failed(2);
        let expected = format!("error: `{}` cannot be read: ", home.path(file("cursor")).display());
        assert!(failed.starts_with(&expected), "{failed}");
    }

    #[test]
    fn a_change_by_another_meanwhile_is_noticed() {
        let home = Home::with(file("cursor"), "{}\n");
        let path = home.path(file("cursor"));
        // The server is started between reading and writing.
        let script = format!("echo '{{ \"mine\": 1 }}' > '{}'; exec '{}'", path.display(), hello());
        let failed = home.run(&["install", "--client", "cursor", "--", "sh", "-c", &script]).failed(2);
        let expected = format!(
            "error: `{}` was changed by another program meanwhile\nhelp: nothing was changed here; run this again\n",
            path.display()
        );
        assert!(failed.ends_with(&expected), "{failed}");
        assert_eq!(home.read(file("cursor")), "{ \"mine\": 1 }\n");
        let left: Vec<_> = home.everything().into_keys().filter(|path| path.is_file()).collect();
        assert_eq!(left.len(), 1, "no temporary file is left: {left:?}");
    }

    #[test]
    fn copies_are_numbered_and_none_is_made_twice() {
        let home = Home::with(file("cursor"), "{}\n");
        home.install("cursor", &["--no-check", "--name", "one"]).good();
        home.install("cursor", &["--no-check", "--name", "two"]).good();
        let second = home.read(".cursor/mcp.json.bak1");
        assert_eq!(home.read(".cursor/mcp.json.bak"), "{}\n");
        assert!(second.contains("one") && !second.contains("two"), "{second}");
        home.write(file("cursor"), &second);
        home.install("cursor", &["--no-check", "--name", "two"]).good();
        assert!(!home.path(".cursor/mcp.json.bak2").exists());
    }
}
