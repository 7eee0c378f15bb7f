//! The program as a server over stdio, and the end of its children.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use mcp_runtime::Revision;
use serde_json::{Value, json};

use crate::calls::program;

const PROGRAM: &str = env!("CARGO_BIN_EXE_clap-program");

fn request(method: &str, params: Value) -> String {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
}

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_flag_or_the_program_itself_starts_the_server() {
    for argument in ["--mcp", "serve"] {
        check_server(argument);
    }
}

fn check_server(argument: &str) {
    let mut child = Command::new(PROGRAM).arg(argument).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    let mut ask = |method, params| {
        stdin.write_all(request(method, params).as_bytes()).unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["result"].take()
    };
    let discovered = ask("server/discover", json!({}));
    let server = &discovered["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(
        *server,
        json!({"name": "clap-program", "version": "1.2.3", "description": "Try every kind of argument"})
    );
    assert_eq!(ask("tools/list", json!({}))["tools"][0]["name"], "bytes");
    let result = ask("tools/call", json!({"name": "remote_add", "arguments": {"name": "--mcp"}}));
    assert!(
        result["content"][0]["text"].as_str().unwrap().contains(r#"Add { name: "--mcp", force: false }"#),
        "{result}"
    );
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_command_line_is_otherwise_unchanged() {
    let found = run(&["remote", "add", "a"]);
    assert!(String::from_utf8(found.stdout).unwrap().contains("Add"));
    for arguments in [&["remote", "--mcp"] as &[_], &["--mcp", "remote"]] {
        let found = run(arguments);
        assert_eq!((found.status.code(), &*found.stdout), (Some(2), &b""[..]), "{arguments:?}");
    }
}

/// A folder cannot be read.
#[test]
fn a_stream_that_fails_is_an_error_of_the_program() {
    let folder = fs::File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
    let found = Command::new(PROGRAM).arg("--mcp").stdin(folder).output().unwrap();
    let error = String::from_utf8(found.stderr).unwrap();
    assert_eq!(found.status.code(), Some(1), "{error}");
    assert!(error.lines().any(|line| line.starts_with("error: ")), "{error}");
}

/// Waits until the program has written the ids of itself and its child.
fn ids(file: &Path) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let ids: Vec<_> =
            fs::read_to_string(file).unwrap_or_default().split_whitespace().map(ToOwned::to_owned).collect();
        if ids.len() == 2 {
            return ids;
        }
        assert!(Instant::now() < end, "the program has not started");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until processes have ended. A process whose parent has not asked for its status counts as ended.
fn wait_for_end(ids: &[String]) {
    let end = Instant::now() + Duration::from_secs(30);
    let runs = |id: &String| {
        fs::read_to_string(format!("/proc/{id}/stat"))
            .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('Z'))
    };
    while ids.iter().any(runs) {
        assert!(Instant::now() < end, "{ids:?} still run");
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_cancelled_call_kills_the_program_and_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ids");
    let mut client = program().server().test_client(Revision::V2025_11_25);
    let id = client.send_request("tools/call", json!({"name": "sleep", "arguments": {"file": file}}));
    let ids = ids(&file);
    assert_eq!(client.in_flight(), 1);
    client.notify("notifications/cancelled", json!({"requestId": id}));
    assert_eq!(client.in_flight(), 0);
    tokio::task::spawn_blocking(move || wait_for_end(&ids)).await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_call_that_exceeds_the_timeout_kills_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ids");
    let server = program().server().timeout(Duration::from_secs(2));
    let mut client = server.test_client(Revision::V2026_07_28);
    let result = client.call("sleep", json!({"file": file})).await.unwrap();
    assert!(result.is_error(), "{}", result.text());
    wait_for_end(&ids(&file));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_that_keeps_stdout_open_ends_soon_after_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ids");
    let mut client = program().server().timeout(Duration::from_secs(20)).test_client(Revision::V2026_07_28);
    let result = client.call("sleep", json!({"file": file, "leave": true})).await.unwrap();
    assert_eq!((result.is_error(), &*result.text()), (false, "left"));
    wait_for_end(&ids(&file));
}

#[tokio::test]
async fn lines_on_stderr_are_progress() {
    for revision in Revision::ALL {
        let long = format!("x{}", "é".repeat(511));
        let expected =
            [(1., "read 1"), (2., "read 2"), (3., &*long), (4., "read\t3"), (6., "5"), (7., "6"), (9., "finished")];
        let has_message = revision > Revision::V2024_11_05;
        let expected = expected.map(|(number, text)| (number, Some(text.to_owned()).filter(|_| has_message)));
        let mut found = Vec::new();
        // On a busy machine, several lines may be read at once.
        for _ in 0..10 {
            let mut client = program().server().test_client(revision);
            let (result, progress) = client.call_with_progress("work", ()).await.unwrap();
            assert_eq!(result.text(), "done");
            // Whether the first of two lines is sent depends on how they are read. The last one always is.
            found = progress
                .into_iter()
                .map(|update| (update.progress, update.message))
                .filter(|(at, _)| *at != 8.)
                .collect();
            assert_eq!(found.last(), expected.last());
            if found == expected {
                break;
            }
        }
        assert_eq!(found, expected, "{revision}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn calls_wait_for_others_that_run() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["first", "second"].map(|name| directory.path().join(name));
    let mut client = program().max_processes(1).server().test_client(Revision::V2025_11_25);
    let calls = files
        .each_ref()
        .map(|file| client.send_request("tools/call", json!({"name": "sleep", "arguments": {"file": file}})));
    let first = ids(&files[0]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!files[1].exists());
    client.notify("notifications/cancelled", json!({"requestId": calls[0]}));
    let second = files[1].clone();
    let second = tokio::task::spawn_blocking(move || ids(&second)).await.unwrap();
    client.notify("notifications/cancelled", json!({"requestId": calls[1]}));
    tokio::task::spawn_blocking(move || wait_for_end(&[first, second].concat())).await.unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_stops_kills_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ids");
    let mut child = Command::new(PROGRAM).arg("--mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let call = request("tools/call", json!({"name": "sleep", "arguments": {"file": file}}));
    child.stdin.as_mut().unwrap().write_all(call.as_bytes()).unwrap();
    let ids = ids(&file);
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait().unwrap();
    wait_for_end(&ids);
}
