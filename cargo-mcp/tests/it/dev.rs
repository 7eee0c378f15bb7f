//! `cargo mcp dev` with nothing to build, or little: no package with the framework.

use std::{
    io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{building::Package, common::run, terminal::Terminal};

/// Addresses that other machines can reach. This machine has none of them, so nothing ever listens there.
const REMOTE: [&str; 2] = ["192.0.2.1:8080", "[2001:db8::1]:8080"];

#[test]
fn addresses_that_other_machines_can_reach_must_be_allowed() {
    for address in REMOTE {
        let refused = run(&["dev", "notes", "--http", address]).expect_failure(2);
        let expected = format!(
            "error: other machines can reach `{address}`\nhelp: `--allow-remote` listens on it without asking\n\
             help: `--http 127.0.0.1:8080` is for this machine only\n"
        );
        assert_eq!(refused, expected);
        let allowed = run(&["dev", "notes", "--http", address, "--allow-remote"]).expect_failure(3);
        assert!(allowed.starts_with(&format!("error: cannot listen on `{address}`: ")), "{allowed}");
    }
    // A loopback address needs no permission.
    let loopback = run(&["dev", "notes", "--http", "127.0.0.1:0", "--watch", "/no/such/path"]).expect_failure(2);
    assert!(!loopback.contains("other machines"), "{loopback}");
}

#[test]
fn a_terminal_asks_before_other_machines_can_connect() {
    for (answer, code) in [("n\r", 130), ("\r", 130), ("y\r", 3)] {
        let mut terminal = Terminal::start(&["dev", "notes", "--http", REMOTE[0]]);
        terminal.wait_for("Other machines can reach `192.0.2.1:8080`. Allow them to use the server?");
        terminal.send_keys(answer);
        assert_eq!(terminal.exit_code(), code, "{answer:?}");
    }
}

#[test]
fn clients_wait_for_the_next_build_if_cargo_builds_no_program() {
    let package = Package::new();
    package.write("src/main.rs", "fn main() {}");
    let cargo = package.write_cargo("[ $1 = metadata ] || exit 0");
    let mut command = package.command(&["dev", "small"]);
    command.env("CARGO", cargo).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("cargo-mcp starts");
    let mut log = BufReader::new(process.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let error = log.find(|line| line.starts_with("error"));
    assert_eq!(error.as_deref(), Some("error: cargo built package `small` but reported no executable"));
    drop(process.stdin.take());
    let rest: Vec<String> = log.collect();
    assert!(rest.iter().any(|line| line == "dev: build failed; clients wait until a build succeeds"), "{rest:?}");
    assert!(process.wait().expect("the process exits").success());
}

/// A server that never reads its stdin, and sends a message for each byte from an address.
const SERVER: &str = r##"
use std::{env::args, io::Read, net::TcpStream};

fn main() {
    let bytes = TcpStream::connect(args().nth(1).unwrap()).unwrap().bytes();
    bytes.map_while(Result::ok).for_each(|_| println!(r#"{{"jsonrpc":"2.0","method":"turn"}}"#));
}
"##;

/// More lines than the proxy holds for a server that does not read: 64 in a queue, and 8 MiB.
const LINES: usize = 200;

/// A time limit for building the server that is generous even on a busy machine.
const BUILD_TIMEOUT: Duration = Duration::from_secs(300);

/// Starts the server behind the proxy. Returns its package, the proxy, and the stream with which it is controlled.
fn start() -> (Package, Child, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let package = Package::new();
    package.write("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n");
    package.write("src/main.rs", SERVER);
    let mut command = package.command(&["dev", "small", "--quiet", "--", &address]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cargo-mcp starts");
    listener.set_nonblocking(true).expect("a listener");
    let began = Instant::now();
    let server = loop {
        match listener.accept() {
            Ok((server, _)) => break server,
            Err(_) if began.elapsed() < BUILD_TIMEOUT => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => {
                process.kill().expect("the proxy is running");
                panic!("the server does not connect: {error}");
            }
        }
    };
    server.set_nonblocking(false).expect("a socket");
    server.set_nodelay(true).expect("the server is running");
    (package, process, server)
}

/// The proxy holds a limited amount for a server, whatever the client sends, and still forwards what the server sends.
#[test]
fn a_client_cannot_send_more_than_the_server_reads() {
    let (_package, mut process, mut server) = start();
    let mut stdin = process.stdin.take().expect("a pipe");
    let mut messages = BufReader::new(process.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let line = format!("{}\n", json!({"jsonrpc": "2.0", "method": "a", "params": {"a": "a".repeat(128 << 10)}}));
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let client = std::thread::spawn(move || {
        while count.load(Ordering::Relaxed) < LINES && stdin.write_all(line.as_bytes()).is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
        // Stays open.
        stdin
    });
    // The proxy could read another line of the client in each turn.
    let (mut last, mut idle_turns) = (0, 0);
    while idle_turns < 1000 {
        server.write_all(b"x").expect("the server is running");
        messages.next().expect("the proxy is running");
        let now = sent.load(Ordering::Relaxed);
        idle_turns = if now == last { idle_turns + 1 } else { 0 };
        last = now;
    }
    process.kill().expect("the proxy is running");
    process.wait().expect("the proxy exits");
    drop(client.join().expect("the client ends"));
    assert!(last < LINES, "all lines were read");
}

/// A client may close the stdout of the proxy without its stdin.
#[test]
fn the_proxy_and_its_server_end_when_the_client_stops_reading() {
    let (_package, mut process, mut server) = start();
    // Stays open.
    let _stdin = process.stdin.take();
    drop(process.stdout.take());
    server.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    // More than once: a process that another test is starting may still have the other end of stdout.
    let is_running = (0..600).all(|_| {
        let end = server.write_all(b"x").and_then(|()| server.read(&mut [0]));
        matches!(end, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
    });
    if is_running {
        process.kill().expect("the proxy is running");
    }
    process.wait().expect("the proxy exits");
    assert!(!is_running, "the server is still running");
}

/// The process between `cargo mcp dev --http` and its server outlives the former, and ends the latter gracefully.
#[test]
fn the_watchdog_asks_the_server_to_terminate() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = "trap 'touch ended; exit' TERM; echo started >&2; while :; do sleep 0.1; done";
    let mut command = crate::common::cargo_mcp(&["dev", "--watchdog", "sh", "--", "-c", script]);
    command.current_dir(directory.path()).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut watchdog = command.spawn().expect("cargo-mcp starts");
    let mut log = BufReader::new(watchdog.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    assert_eq!(log.next().as_deref(), Some("started"));
    drop(watchdog.stdin.take());
    assert!(watchdog.wait().expect("the process exits").success());
    assert!(directory.path().join("ended").exists());
}
