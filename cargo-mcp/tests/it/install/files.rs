//! The content of configuration files: installing and uninstalling change only the entry.

use std::process::Stdio;

use super::*;

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
            "{\"mcpServers\":{\n    \"other\":{\"command\":\"x\"},\n    \"hello\": {\n      \"type\": \"stdio\",\n      \"command\": \"HELLO\",\n      \"args\": []\n    }\n  }}",
        ),
        (
            "vscode",
            "\u{feff}{\r\n\t// mine\r\n\t\"servers\": {\r\n\t\t\"other\": {}, // keep\r\n\t},\r\n\t\"inputs\": [],\r\n}\r\n",
            "\u{feff}{\r\n\t// mine\r\n\t\"servers\": {\r\n\t\t\"other\": {}, // keep\r\n\t\t\"hello\": {\r\n\t\t\t\"type\": \"stdio\",\r\n\t\t\t\"command\": \"HELLO\",\r\n\t\t\t\"args\": [],\r\n\t\t},\r\n\t},\r\n\t\"inputs\": [],\r\n}\r\n",
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
        let output = home.install(client, &["--no-check"]);
        let backup = home.path(&format!("{}.bak", file(client)));
        assert!(output.stderr.contains(&format!("  backup: {}\n", backup.display())), "{}", output.stderr);
        output.expect_success();
        assert_eq!(home.read(file(client)), after.replace("HELLO", &hello()), "{client}");
        assert_eq!(fs::read_to_string(backup).expect("a copy"), before, "{client}");
        home.run(&["uninstall", "--client", client, "hello"]).expect_success();
        let left: String = home.read(file(client)).split_whitespace().collect();
        for word in before.split_whitespace() {
            assert!(left.contains(word.trim_end_matches(['{', '}', ','])), "{client}: `{word}` is missing in {left}");
        }
        assert!(!left.contains("hello"), "{client}");
    }
}

#[test]
fn a_created_file_is_kept() {
    for client in LOCAL_CLIENTS {
        for text in [None, Some(""), Some("\u{feff}\n")] {
            let home = Home::new();
            if let Some(text) = text {
                home.write(file(client), text);
            }
            home.install(client, &["--no-check", "--force"]).expect_success();
            assert!(home.read(file(client)).contains(&hello()), "{client}");
            home.run(&["uninstall", "--client", client, "hello"]).expect_success();
            assert!(!home.read(file(client)).contains("hello"), "{client}");
        }
    }
}

#[test]
fn reinstalling_succeeds_and_replacing_requires_force() {
    let text = "{\n  \"mcpServers\": {\n    \"hello\": {\n      \"command\": \"/bin/other\",\n      \"env\": {\"KEY\": \"secret\"}\n    }\n  }\n}\n";
    let home = Home::with(file("cursor"), text);
    let path = home.path(file("cursor"));
    let expected = format!(
        "error: Cursor has a different entry `hello` in `{}`: {{\"command\":\"/bin/other\",\"env\":{{\"KEY\":\"***\"}}}}\nhelp: \
         `--force` replaces it, `--name` installs the server under another name\n",
        path.display()
    );
    assert_eq!(home.install("cursor", &["--no-check"]).expect_failure(2), expected);
    assert_eq!(home.read(file("cursor")), text);
    home.install("cursor", &["--no-check", "--force"]).expect_success();
    assert_eq!(
        home.read(file("cursor")),
        format!(
            "{{\n  \"mcpServers\": {{\n    \"hello\": {{\n      \"type\": \"stdio\",\n      \"command\": \"{}\",\n      \"args\": []\n    }}\n  }}\n}}\n",
            hello()
        )
    );
    let before = home.snapshot();
    let output = home.install("cursor", &["--no-check"]).expect_success();
    assert_eq!(output, format!("Cursor: `hello` is already installed in {}\n", path.display()));
    assert_eq!(home.snapshot(), before);
    home.install("cursor", &["--no-check", "--name", "another"]).expect_success();
    assert!(home.read(file("cursor")).contains("\"another\": {\n"));
}

/// The reader of the output may end first, as `head` does.
#[test]
fn a_closed_stdout_does_not_end_a_command() {
    let home = Home::with(file("cursor"), "{}");
    home.write(file("gemini"), "{}");
    let hello = hello();
    let args = ["install", "--no-check", "--client", "cursor,gemini", "--", &hello];
    let mut process = home.command(&args).stdout(Stdio::piped()).spawn().expect("it starts");
    drop(process.stdout.take());
    assert!(process.wait().expect("it ends").success());
    for client in ["cursor", "gemini"] {
        assert!(home.read(file(client)).contains(&hello), "{client}");
    }
}

/// In a project, both have the same file.
#[test]
fn clients_may_share_a_file() {
    let home = Home::with(".vscode/mcp.json", "{\"servers\": {\"other\": {}}}");
    let args = ["uninstall", "--scope", "project", "--client", "vscode,vscode-insiders", "other"];
    let output: CommandOutput = home.command(&args).current_dir(home.path("")).output().expect("it starts").into();
    output.expect_success();
    assert!(!home.read(".vscode/mcp.json").contains("other"));
}

#[test]
fn an_entry_is_removed_from_each_client_or_from_none() {
    let text = "{\"mcpServers\": {\"other\": {}}}\n";
    let home = Home::with(file("cursor"), text);
    home.run(&["uninstall", "--client", "cursor,windsurf", "other"]).expect_failure(2);
    assert_eq!(home.read(file("cursor")), text);
    // A client may be named twice.
    home.run(&["uninstall", "--client", "cursor,cursor", "other"]).expect_success();
    assert!(!home.read(file("cursor")).contains("other"));
}

#[test]
fn a_dry_run_prints_the_diff_and_writes_nothing() {
    let text =
        "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\", \"env\": { \"KEY\": \"old secret\" } }\n  }\n}\n";
    let home = Home::with(file("cursor"), text);
    let before = home.snapshot();
    let path = home.path(file("cursor"));
    let output = home.install("cursor", &["--dry-run", "--env", "TOKEN=new secret"]).expect_success();
    let expected = format!(
        "--- {0}\n+++ {0}\n@@ -1,5 +1,13 @@\n {{\n   \"mcpServers\": {{\n-    \"other\": {{ \"command\": \"x\", \"env\": {{ \"KEY\": \
         \"***\" }} }}\n+    \"other\": {{ \"command\": \"x\", \"env\": {{ \"KEY\": \"***\" }} }},\n+    \"hello\": {{\n+      \
         \"type\": \"stdio\",\n+      \"command\": \"{1}\",\n+      \"args\": [],\n+      \"env\": {{\n+        \"TOKEN\": \
         \"***\"\n+      }}\n+    }}\n   }}\n }}\n",
        path.display(),
        hello()
    );
    assert_eq!(output, expected);
    assert_eq!(home.snapshot(), before);
    let done = home.run(&["install", "hello", "--client", "codex", "--dry-run"]);
    let warning =
        format!("warning: Codex does not seem to be installed: `{}` does not exist\n", home.path(".codex").display());
    assert_eq!(done.stderr, warning);
    let output = done.expect_success();
    assert!(output.starts_with(&format!("--- /dev/null\n+++ {}\n", home.path(file("codex")).display())), "{output}");
    assert!(output.contains("+command = \"") && output.contains("/release/hello\"\n"), "{output}");
    let debug = ["install", "hello", "--client", "codex", "--dry-run", "--debug", "--arg=--x", "--", "--y"];
    let output = home.run(&debug).expect_success();
    assert!(output.contains("/debug/hello\"\n+args = [\"--x\", \"--y\"]\n"), "{output}");
    let output = home.run(&["uninstall", "--client", "cursor", "other", "--dry-run"]).expect_success();
    assert!(
        output.contains("-    \"other\": {") && output.contains("\"***\"") && !output.contains("secret"),
        "{output}"
    );
    assert_eq!(home.snapshot(), before);
}

#[test]
fn several_clients_are_configured_and_listed() {
    let home = Home::with(file("cursor"), "{}");
    home.write(file("zed"), "{ \"context_servers\": { \"other\": {} } }");
    home.write(file("gemini"), "{ broken");
    let output = home.install("cursor,zed,cursor", &["--no-check"]).expect_success();
    assert_eq!(output.lines().count(), 2, "{output}");
    let output = home.run(&["install", "--list", "hello"]).expect_success();
    for (client, state) in
        [("cursor", "has `hello`"), ("zed", "has `hello`"), ("gemini", "invalid"), ("windsurf", "no file")]
    {
        let path = home.path(file(client)).display().to_string();
        let row: Vec<_> = output.lines().find(|line| line.ends_with(&path)).expect(client).split("  ").collect();
        let row: Vec<_> = row.iter().map(|cell| cell.trim()).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(row, [client, "user", state, &path]);
    }
    for (client, options, state) in [
        ("zed", &["--name", "notes"][..], "no `notes`, 2 others"),
        ("zed", &[], "2 servers"),
        ("cursor", &["--name", "notes"], "no `notes`, 1 other"),
        ("cursor", &[], "1 server"),
    ] {
        let output = home.run(&[&["install", "--list", "--client", client], options].concat()).expect_success();
        let row = output.lines().next().expect("a row").split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        assert_eq!(row.collect::<Vec<_>>(), [client, "user", state, &home.path(file(client)).display().to_string()]);
    }
}
