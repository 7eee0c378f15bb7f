//! Broken and missing servers: exit code 3, a helpful message, and no hangs.

use std::fs;

use crate::{
    common::{CommandOutput, run},
    servers::{for_each_at_once, script, server_with_response, unused_url},
    terminal::Terminal,
};

const NO_RESPONSE: &str =
    "help: check that it is a server on stdin and stdout; `--connect-timeout` extends the limit\n";
const RUN_IN_TERMINAL: &str = "help: run it in a terminal to see its output; it must wait for JSON-RPC on stdin\n";
const INVALID_STDOUT: &str = "help: stdout contains `garbage`, which is not JSON-RPC; a server must log to stderr\n";

#[test]
fn programs_that_are_not_servers_are_reported() {
    let programs = [
        (
            &["sh", "-c", "exit 7"][..],
            format!("error: `sh` exited before it answered the handshake (exit code 7)\n{RUN_IN_TERMINAL}"),
        ),
        (
            &["sh", "-c", "exit 0"],
            format!("error: `sh` exited before it answered the handshake (exit code 0)\n{RUN_IN_TERMINAL}"),
        ),
        (
            &["sh", "-c", "kill -9 $$"],
            format!("error: `sh` exited before it answered the handshake (signal: 9 (SIGKILL))\n{RUN_IN_TERMINAL}"),
        ),
        (
            &["sh", "-c", "echo garbage; exit 1"],
            format!("error: `sh` exited before it answered the handshake (exit code 1)\n{INVALID_STDOUT}"),
        ),
        (
            &["sh", "-c", "printf garbage; exit 1"],
            format!("error: `sh` exited before it answered the handshake (exit code 1)\n{INVALID_STDOUT}"),
        ),
        // A batch is a message.
        (
            &["sh", "-c", "echo '[]'; exit 1"],
            format!("error: `sh` exited before it answered the handshake (exit code 1)\n{RUN_IN_TERMINAL}"),
        ),
        (
            &["sh", "-c", "echo garbage; echo more; sleep 60"],
            format!("error: `sh` did not answer the handshake within 1 s\n{INVALID_STDOUT}"),
        ),
        (&["sleep", "60"], format!("error: `sleep` did not answer the handshake within 1 s\n{NO_RESPONSE}")),
        (&["cat"], format!("error: `cat` did not answer the handshake within 1 s\n{NO_RESPONSE}")),
        (
            &["/no/such/program"],
            "error: cannot run `/no/such/program`: No such file or directory (os error 2)\n".to_owned(),
        ),
    ];
    let commands = [&["list"][..], &["call", "x"]];
    let rows = commands.iter().flat_map(|command| programs.iter().map(move |row| (command, row)));
    for_each_at_once(rows, |(command, (program, message))| {
        let args = [*command, &["--connect-timeout", "1", "--"], program].concat();
        assert_eq!(run(&args).expect_failure(3), *message, "{args:?}");
    });
}

/// One that ignores `server/discover` may answer `initialize`. One that ignores that, too, is silent in every revision.
#[test]
fn a_silent_server_is_not_started_for_each_revision() {
    for_each_at_once(["lock", "types"], |command| {
        let directory = tempfile::tempdir().expect("a directory");
        let starts = directory.path().join("starts");
        let script = format!("echo started >> {}; exec sleep 60", starts.display());
        run(&[command, "--connect-timeout", "1", "--", "sh", "-c", &script]).expect_failure(3);
        assert_eq!(fs::read_to_string(starts).expect("a file"), "started\nstarted\n", "{command}");
    });
}

#[test]
fn every_command_reports_a_broken_server() {
    let message = format!("error: `sh` exited before it answered the handshake (exit code 7)\n{RUN_IN_TERMINAL}");
    for command in
        [&["list"][..], &["call", "x"], &["read", "x:y"], &["prompt", "x"], &["complete", "prompt", "x", "y"]]
    {
        assert_eq!(run(&[command, &["--", "sh", "-c", "exit 7"]].concat()).expect_failure(3), message, "{command:?}");
    }
}

#[test]
fn urls_without_a_server_are_reported() {
    let unused = unused_url();
    let not_found = server_with_response("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    let unauthorized = server_with_response("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n");
    let challenging = server_with_response(
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"https://a.b/c\"\r\ncontent-length: 0\r\n\r\n",
    );
    let forbidden = server_with_response("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
    let page = server_with_response("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi");
    let token = "help: log in with `cargo mcp login URL`, or send a token with `--bearer TOKEN`\n";
    let help =
        "help: check that the server is running and that the address and path are correct; many servers use `/mcp`\n";
    for (url, message) in [
        (
            &unused,
            format!(
                "error: no server is listening at `{unused}`\nhelp: start the server with `--http` and this address\n"
            ),
        ),
        (
            &not_found,
            format!("error: `{not_found}` was not found (HTTP 404)\nhelp: check the path; many servers use `/mcp`\n"),
        ),
        (&unauthorized, format!("error: `{unauthorized}` requires authorization (HTTP 401)\n{token}")),
        (
            &challenging,
            format!(
                "error: `{challenging}` requires authorization (HTTP 401)\n\
                 help: the server sent `WWW-Authenticate: Bearer resource_metadata=\"https://a.b/c\"`\n{token}"
            ),
        ),
        (
            &forbidden,
            format!(
                "error: access to `{forbidden}` is forbidden (HTTP 403)\n\
                 help: check that the server allows this host and that the token has permission; `--header` sends another token\n"
            ),
        ),
        (&page, format!("error: cannot reach `{page}`: Unexpected content type: Some(\"text/html\")\n{help}")),
    ] {
        for command in [&["list", url][..], &["call", url, "x"], &["read", url, "x:y"]] {
            let args = [command, &["--connect-timeout", "20"]].concat();
            assert_eq!(run(&args).expect_failure(3), message, "{args:?}");
        }
    }
}

fn call(then: &str, options: &[&str]) -> CommandOutput {
    let script = script(then);
    let args: Vec<&str> =
        ["call", "it"].iter().chain(options).copied().chain(script.iter().map(String::as_str)).collect();
    run(&args)
}

#[test]
fn a_server_that_exits_during_a_call_is_reported() {
    let above = "help: its output on stderr is shown above, if there is any\n";
    let servers = [
        ("exit 7", &[][..], format!("error: `it`: the server exited (exit code 7)\n{above}")),
        ("echo why >&2; exit 7", &[], format!("why\nerror: `it`: the server exited (exit code 7)\n{above}")),
        ("kill -9 $$", &[], format!("error: `it`: the server exited (signal: 9 (SIGKILL))\n{above}")),
        ("echo garbage; exit 0", &[], format!("error: `it`: the server exited (exit code 0)\n{INVALID_STDOUT}")),
        (
            "sleep 60",
            &["--timeout", "1"],
            "error: `it`: no output from the server for 1 s\nhelp: `--timeout` extends the limit\n".to_owned(),
        ),
    ];
    for_each_at_once(servers, |(then, options, message)| {
        assert_eq!(call(then, options).expect_failure(3), message, "{then}");
    });
}

#[test]
fn a_protocol_error_has_the_exit_code_of_a_tool_error() {
    let then = r#"echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"it broke","data":{"where":"here"}}}'; read l"#;
    assert_eq!(
        call(then, &[]).expect_failure(1),
        "error: `it`: it broke (code -32603)\nhelp: error data: {\"where\":\"here\"}\n"
    );
}

#[test]
fn an_unsupported_revision_is_reported() {
    let script = script("true");
    let program = &script[2..];
    let args: Vec<&str> =
        ["list", "--revision", "2025-06-18"].into_iter().chain(program.iter().map(String::as_str)).collect();
    let message = run(&args).expect_failure(3);
    assert_eq!(message, "error: `sh` does not support revision 2025-06-18: it offers 2025-11-25\n");
}

#[test]
fn the_terminal_is_restored_if_the_server_exits_during_a_prompt() {
    let question = r#"echo '{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}'; sleep 1; exit 7"#;
    let script = script(question);
    let args: Vec<&str> = ["call", "it"].into_iter().chain(script.iter().map(String::as_str)).collect();
    let mut terminal = Terminal::start_in_shell(&args);
    terminal.wait_for("script asks: Who?");
    terminal.wait_for("name:");
    terminal.wait_for("the server exited (exit code 7)");
    // Among the settings, where it would otherwise be `-echo`.
    terminal.wait_for(" echo ");
    assert_eq!(terminal.exit_code(), 3);
}
