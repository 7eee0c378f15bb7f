//! Kinds of stdin and stdout, and how their bytes are divided into messages.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use serde_json::json;

use super::{Running, call, fixture, lines, request, text};

#[test]
fn stdin_and_stdout_can_be_pipes() {
    let mut server = Running::start(&mut fixture());
    server.send(&call(1, "add", json!({"a": 1, "b": 2})));
    assert_eq!(text(&server.receive()), "3");
    server.send(&call(2, "wait", json!({"milliseconds": 5})));
    assert_eq!(text(&server.receive()), "waited 5 ms");
    assert_eq!(server.end(), (vec![], Some(0)));
}

/// The parent process may pass blocking or non-blocking sockets.
#[test]
fn stdin_and_stdout_can_be_sockets() {
    for is_nonblocking in [false, true] {
        let (near, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(is_nonblocking).unwrap();
        let (far_in, far_out) = (OwnedFd::from(far.try_clone().unwrap()), OwnedFd::from(far));
        let mut command = fixture();
        let mut child = command.stdin(far_in).stdout(far_out).spawn().unwrap();
        drop(command);
        // More than a socket buffers.
        let long = "x".repeat(4 << 20);
        (&near).write_all(call(1, "echo", json!({"text": long})).as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(&near).read_line(&mut answer).unwrap();
        assert!(text(&serde_json::from_str(&answer).unwrap()) == long, "{is_nonblocking}");
        near.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn stdin_and_stdout_can_be_files() {
    let folder = std::env::temp_dir().join(format!("mcp-stdio-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (input, output) = (folder.join("in"), folder.join("out"));
    fs::write(
        &input,
        format!("{}{}", call(1, "add", json!({"a": 1, "b": 2})), call(2, "echo", json!({"text": "x"})).trim()),
    )
    .unwrap();
    let (stdin, stdout) = (fs::File::open(&input).unwrap(), fs::File::create(&output).unwrap());
    let status = fixture().stdin(stdin).stdout(stdout).status().unwrap();
    let answers = lines(&fs::read(&output).unwrap());
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(answers.iter().map(text).collect::<Vec<_>>(), ["3", "x"]);
}

/// Some shells and editors on Windows write a byte order mark.
#[test]
fn a_byte_order_mark_before_the_first_message_is_skipped() {
    for pieces in [vec![3], vec![1, 2], vec![2, 10]] {
        let mut server = Running::start(&mut fixture());
        let message = format!("\u{feff}{}", request(1, "server/discover", json!({}))).into_bytes();
        let mut rest = &message[..];
        for length in pieces {
            let (piece, after) = rest.split_at(length);
            let stdin = server.stdin.as_mut().unwrap();
            stdin.write_all(piece).unwrap();
            stdin.flush().unwrap();
            rest = after;
        }
        server.stdin.as_mut().unwrap().write_all(rest).unwrap();
        assert_eq!(server.receive()["result"]["resultType"], "complete");
        server.send(&call(2, "add", json!({"a": 1, "b": 2})));
        assert_eq!(text(&server.receive()), "3");
        assert_eq!(server.end(), (vec![], Some(0)));
    }
}

#[test]
fn the_last_line_needs_no_newline() {
    for (length, code) in [(10, -32700), (17 << 20, -32600)] {
        let mut server = Running::start(&mut fixture());
        server.send(&"x".repeat(length));
        let (answers, exit) = server.end();
        assert_eq!((answers[0]["error"]["code"].as_i64(), answers.len(), exit), (Some(code), 1, Some(0)));
    }
}

#[test]
fn child_processes_do_not_inherit_stdin() {
    let mut server = Running::start(&mut fixture());
    server.send(&call(1, "child", json!({})));
    assert_eq!(text(&server.receive()), "exit status: 0 \"\"");
    server.send(&call(2, "add", json!({"a": 1, "b": 2})));
    assert_eq!(text(&server.receive()), "3");
    assert_eq!(server.end(), (vec![], Some(0)));
}
