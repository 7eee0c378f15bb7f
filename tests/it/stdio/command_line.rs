//! The command line, and the hint that a terminal shows.

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

use super::fixture;

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_terminal_shows_how_to_connect() {
    let fixture = env!("CARGO_BIN_EXE_fixture");
    let mut script = Command::new("script")
        .args(["-qec", fixture, "/dev/null"])
        .env("RUST_LOG", "off")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`script` of util-linux must be installed");
    let command = format!("claude mcp add mcp-tests -- {fixture}");
    let mut output = BufReader::new(script.stdout.take().unwrap());
    let mut shown = String::new();
    while !shown.contains(&command) && output.read_line(&mut shown).unwrap() > 0 {}
    // The end of the terminal ends the server. `script` sometimes loses the end of its stdin.
    script.kill().unwrap();
    script.wait().unwrap();
    assert!(shown.contains("an MCP server with") && shown.contains(&command), "{shown}");
}

#[test]
fn command_line_options_are_recognized() {
    let stdout = |arguments: &[&str]| {
        let output = run(fixture().args(arguments));
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(stdout(&["--version"]), format!("mcp-tests {}\n", env!("CARGO_PKG_VERSION")));

    let help = stdout(&["--help"]);
    for part in [
        "--grace <GRACE>",
        "[env: FIXTURE_GRACE] [default: 5000]",
        "--forward-log",
        "\n      --http <ADDRESS>          Serve HTTP on this address",
        "--call <TOOL> [JSON]",
        "\n\nEnvironment:\n  RUST_LOG                      Log filter",
        "\n  MCP_ADDRESS_FILE              File to which",
    ] {
        assert!(help.contains(part), "{part} is missing from\n{help}");
    }

    let list = stdout(&["--list"]);
    for part in [
        "add(a: number, b: number)\n      Add two numbers.",
        "child()\n      Returns the stdin of a child process that inherits it.\n      Deprecated: start it without stdin\n",
        "test://item/{id}",
        "review(code: string, style: string, lines?: integer)",
    ] {
        assert!(list.contains(part), "{part} is missing from\n{list}");
    }

    let schema: Value = serde_json::from_str(&stdout(&["--schema"])).unwrap();
    assert_eq!(schema["tools"][0]["name"], "add");
    assert_eq!(stdout(&["--schema"]), stdout(&["--schema"]), "schemas must not change from run to run");

    let called = stdout(&["--call", "greet", r#"{"name":"Ada"}"#, "--greeting=Good morning"]);
    assert!(called.contains(r#""text":"Good morning, Ada!""#), "{called}");

    let large = r#"{"a": 340282366920938463463374607431768211455, "b": 18446744073709551615}"#;
    let called = stdout(&["--call", "add", large]);
    assert!(
        called.starts_with(r#"-> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add""#),
        "{called}"
    );
    assert!(called.contains(&format!(r#""arguments":{large}"#)), "{called}");

    // A message is a line, however its arguments are formatted.
    let called = stdout(&["--call", "add", "{\n  \"a\": 1,\r\n  \"b\": 2\n}"]);
    let lines: Vec<_> = called.lines().map(|line| &line[..3]).collect();
    assert_eq!(lines, ["-> ", "<- "], "{called}");
    assert!(called.contains(r#""text":"3""#), "{called}");
}

#[test]
fn invalid_command_lines_are_rejected() {
    for (arguments, environment, code, why) in [
        (&["--grase", "1"][..], None, 2, "did you mean `--grace`?"),
        (&["--grace"], None, 2, "missing value for `--grace`, expected a value"),
        (&["--grace", "soon"], None, 2, "`--grace`: \"soon\" must be an integer"),
        (&["--grace", "0"], None, 2, "`--grace`: 0 must be at least 1"),
        (&[], Some("never"), 2, "`FIXTURE_GRACE`: \"never\" must be an integer"),
        (&["--greeting", ""], None, 2, "`--greeting`: \"\" must have at least 1 character"),
        (&["--grace", "1", "--grace", "2"], None, 2, "the option `--grace <GRACE>` cannot be used multiple times"),
        (&["--call", "add", "{"], None, 1, "the arguments are not valid JSON"),
    ] {
        let mut command = fixture();
        command.args(arguments);
        if let Some(value) = environment {
            command.env("FIXTURE_GRACE", value);
        }
        let output = run(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(why), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_failed_call_fails_the_command() {
    for (tool, part) in [("fails", r#""isError":true"#), ("nowhere", r#""error":{"code":-32602"#)] {
        let output = run(fixture().args(["--call", tool]));
        assert_eq!(output.status.code(), Some(1), "{tool}");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains(part), "{shown}");
    }
}
