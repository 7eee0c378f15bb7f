//! Broken and missing servers: exit code 3, a helpful message, and no hangs.

use crate::{
    common::{Done, run},
    servers::{answering, script, unused_url},
    terminal::Terminal,
};

const SILENT: &str = "help: is it a server on stdin and stdout? `--connect-timeout` gives it longer\n";
const BY_HAND: &str = "help: start it by hand to see what it says: it must wait for JSON-RPC on stdin\n";
const STRAY: &str =
    "help: its stdout begins with `garbage`, which is not JSON-RPC: a server writes its log to stderr\n";

#[test]
fn programs_that_are_not_servers_are_reported() {
    for (program, message) in [
        (
            &["sh", "-c", "exit 7"][..],
            format!("error: `sh` ended before it answered the handshake (exit code 7)\n{BY_HAND}"),
        ),
        (
            &["sh", "-c", "exit 0"],
            format!("error: `sh` ended before it answered the handshake (exit code 0)\n{BY_HAND}"),
        ),
        (
            &["sh", "-c", "kill -9 $$"],
            format!("error: `sh` ended before it answered the handshake (signal: 9 (SIGKILL))\n{BY_HAND}"),
        ),
        (
            &["sh", "-c", "echo garbage; exit 1"],
            format!("error: `sh` ended before it answered the handshake (exit code 1)\n{STRAY}"),
        ),
        (
            &["sh", "-c", "echo garbage; echo more; sleep 60"],
            format!("error: `sh` does not answer the handshake within 1 s\n{STRAY}"),
        ),
        (&["sleep", "60"], format!("error: `sleep` does not answer the handshake within 1 s\n{SILENT}")),
        (&["cat"], format!("error: `cat` does not answer the handshake within 1 s\n{SILENT}")),
        (
            &["/no/such/program"],
            "error: `/no/such/program` cannot be started: No such file or directory (os error 2)\n".to_owned(),
        ),
    ] {
        for command in [&["list"][..], &["call", "x"]] {
            let words = [command, &["--connect-timeout", "1", "--"], program].concat();
            assert_eq!(run(&words).failed(3), message, "{words:?}");
        }
    }
}

#[test]
fn every_command_reports_a_broken_server() {
    let message = format!("error: `sh` ended before it answered the handshake (exit code 7)\n{BY_HAND}");
    for command in
        [&["list"][..], &["call", "x"], &["read", "x:y"], &["prompt", "x"], &["complete", "prompt", "x", "y"]]
    {
        assert_eq!(run(&[command, &["--", "sh", "-c", "exit 7"]].concat()).failed(3), message, "{command:?}");
    }
}

#[test]
fn urls_without_a_server_are_reported() {
    let unused = unused_url();
    let lost = answering("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    let closed = answering("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n");
    let challenging = answering(
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"https://a.b/c\"\r\ncontent-length: 0\r\n\r\n",
    );
    let forbidden = answering("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
    let page = answering("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nhi");
    let token = "help: give it a token: `--header 'Authorization: Bearer …'`\n";
    let running = "help: is the server running, and are address and path right? many servers are at `/mcp`\n";
    for (url, message) in [
        (
            &unused,
            format!(
                "error: nobody listens at `{unused}`\nhelp: is the server running? start it with `--http` and the address\n"
            ),
        ),
        (
            &lost,
            format!(
                "error: there is nothing at `{lost}` (HTTP 404)\nhelp: is the path right? many servers are at `/mcp`\n"
            ),
        ),
        (&closed, format!("error: `{closed}` wants to know who is asking (HTTP 401)\n{token}")),
        (
            &challenging,
            format!(
                "error: `{challenging}` wants to know who is asking (HTTP 401)\n\
                 help: it says `WWW-Authenticate: Bearer resource_metadata=\"https://a.b/c\"`\n{token}"
            ),
        ),
        (
            &forbidden,
            format!(
                "error: `{forbidden}` refuses us (HTTP 403)\n\
                 help: does it know the host, and may the token do this? `--header` sends another one\n"
            ),
        ),
        (&page, format!("error: `{page}` cannot be reached: Unexpected content type: Some(\"text/html\")\n{running}")),
    ] {
        for command in [&["list", url][..], &["call", url, "x"], &["read", url, "x:y"]] {
            let words = [command, &["--connect-timeout", "20"]].concat();
            assert_eq!(run(&words).failed(3), message, "{words:?}");
        }
    }
}

fn call(then: &str, options: &[&str]) -> Done {
    let script = script(then);
    let words: Vec<&str> =
        ["call", "it"].iter().chain(options).copied().chain(script.iter().map(String::as_str)).collect();
    run(&words)
}

#[test]
fn a_server_that_exits_during_a_call_is_reported() {
    let above = "help: what it wrote to stderr stands above, if anything\n";
    for (then, options, message) in [
        ("exit 7", &[][..], format!("error: `it`: the server ended (exit code 7)\n{above}")),
        ("echo why >&2; exit 7", &[], format!("why\nerror: `it`: the server ended (exit code 7)\n{above}")),
        ("kill -9 $$", &[], format!("error: `it`: the server ended (signal: 9 (SIGKILL))\n{above}")),
        ("echo garbage; exit 0", &[], format!("error: `it`: the server ended (exit code 0)\n{STRAY}")),
        (
            "sleep 60",
            &["--timeout", "1"],
            "error: `it`: the server says nothing for 1 s\nhelp: `--timeout` lets it be silent for longer\n".to_owned(),
        ),
    ] {
        assert_eq!(call(then, options).failed(3), message, "{then}");
    }
}

#[test]
fn a_protocol_error_has_the_exit_code_of_a_tool_error() {
    let then = r#"echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"it broke","data":{"where":"here"}}}'; read l"#;
    assert_eq!(
        call(then, &[]).failed(1),
        "error: `it`: it broke (code -32603)\nhelp: the server adds {\"where\":\"here\"}\n"
    );
}

#[test]
fn an_unsupported_revision_is_reported() {
    let script = script("true");
    let program = &script[2..];
    let words: Vec<&str> =
        ["list", "--revision", "2025-06-18"].into_iter().chain(program.iter().map(String::as_str)).collect();
    let message = run(&words).failed(3);
    assert_eq!(message, "error: `sh` does not speak 2025-06-18: it offers 2025-11-25\n");
}

#[test]
fn the_terminal_is_restored_if_the_server_exits_during_a_prompt() {
    let question = r#"echo '{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}'; sleep 1; exit 7"#;
    let script = script(question);
    let words: Vec<&str> = ["call", "it"].into_iter().chain(script.iter().map(String::as_str)).collect();
    let mut terminal = Terminal::start(&words);
    terminal.sees("script asks: Who?");
    terminal.sees("name:");
    terminal.sees("the server ended (exit code 7)");
    assert!(terminal.is_cooked(), "the terminal is left raw");
    assert_eq!(terminal.ends(), 3);
}
