//! The fixture as a process: pipes, sockets, files and terminals, the end of a connection, and the command line.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

fn fixture() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fixture"));
    command.env("RUST_LOG", "off").env_remove("FIXTURE_GRACE");
    command
}

fn request(id: u64, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

fn call(id: u64, name: &str, arguments: Value) -> String {
    request(id, "tools/call", json!({"name": name, "arguments": arguments}))
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

fn lines(output: &[u8]) -> Vec<Value> {
    let lines = output.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(line))))
        .collect()
}

struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Kills the server after a minute unless this is dropped first.
    _limit: mpsc::Sender<()>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let (limit, dropped) = mpsc::channel::<()>();
        let id = child.id();
        thread::spawn(move || {
            if dropped.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
                signal("KILL", id);
            }
        });
        Self { child, stdin, stdout, _limit: limit }
    }

    fn send(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    /// Closes stdin, and returns the remaining output and the exit code.
    fn end(mut self) -> (Vec<Value>, Option<i32>) {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest).unwrap();
        (lines(&rest), self.child.wait().unwrap().code())
    }
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn stdin_and_stdout_can_be_pipes() {
    let mut server = Running::start(&mut fixture());
    server.send(&call(1, "add", json!({"a": 1, "b": 2})));
    assert_eq!(text(&server.receive()), "3");
    server.send(&call(2, "wait", json!({"milliseconds": 5})));
    assert_eq!(text(&server.receive()), "waited 5 ms");
    assert_eq!(server.end(), (vec![], Some(0)));
}

#[test]
fn stdin_and_stdout_can_be_sockets() {
    let (near, far) = UnixStream::pair().unwrap();
    let (far_in, far_out) = (OwnedFd::from(far.try_clone().unwrap()), OwnedFd::from(far));
    let mut command = fixture();
    let mut child = command.stdin(far_in).stdout(far_out).spawn().unwrap();
    drop(command);
    (&near).write_all(call(1, "add", json!({"a": 1, "b": 2})).as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(&near).read_line(&mut answer).unwrap();
    assert_eq!(text(&serde_json::from_str(&answer).unwrap()), "3");
    near.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
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

/// Names, URIs and cursors are cut to 200 characters, wherever they come from.
#[test]
fn errors_repeat_little_of_a_message() {
    let mut server = Running::start(&mut fixture());
    let long = "é".repeat(100_000);
    let complete = |reference: Value| json!({"ref": reference, "argument": {"name": "x", "value": ""}});
    for (method, params) in [
        (long.as_str(), json!({})),
        ("tools/call", json!({"name": long})),
        ("prompts/get", json!({"name": long})),
        ("resources/read", json!({"uri": long})),
        ("tools/list", json!({"cursor": long})),
        ("completion/complete", complete(json!({"type": long}))),
        ("completion/complete", complete(json!({"type": "ref/resource", "uri": long}))),
        ("completion/complete", complete(json!({"type": "ref/prompt", "name": long}))),
    ] {
        server.send(&request(1, method, params.clone()));
        let error = server.receive()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(&format!("{}…", "é".repeat(200))), "{method}: {error}");
        assert!(error.to_string().len() < 1200, "{method}: {error}");
    }
    assert_eq!(server.end(), (vec![], Some(0)));
}

/// Backtraces of panics soon fill the pipe, and writes to a full pipe block.
#[test]
fn a_server_whose_stderr_is_full_keeps_answering() {
    let mut server = Running::start(fixture().env("RUST_LOG", "info").env("RUST_BACKTRACE", "full"));
    for id in 0..200 {
        server.send(&call(id, "panics", json!({})));
        let answer = server.receive();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32603)));
    }
    assert_eq!(server.end(), (vec![], Some(0)));
}

#[test]
fn panics_are_logged_with_their_backtraces() {
    let mut server = Running::start(fixture().env("RUST_LOG", "info").env("RUST_BACKTRACE", "1"));
    server.send(&call(1, "panics", json!({})));
    assert_eq!(server.receive()["id"], 1);
    let mut stderr = server.child.stderr.take().unwrap();
    assert_eq!(server.end(), (vec![], Some(0)));
    let mut log = String::new();
    stderr.read_to_string(&mut log).unwrap();
    for part in ["thread 'main' panicked at", "a secret\n", "stack backtrace:\n", "function panicked"] {
        assert!(log.contains(part), "{part}: {log}");
    }
}

/// Clients start a process for each conversation and show its stderr.
#[test]
fn a_server_without_problems_is_silent() {
    let handshake = |version: &str| {
        let params =
            json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        format!("{}\n", json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
    };
    for (log, is_silent) in [(None, true), (Some("info"), false)] {
        let mut command = fixture();
        match log {
            None => command.env_remove("RUST_LOG"),
            Some(filter) => command.env("RUST_LOG", filter),
        };
        let mut server = Running::start(&mut command);
        server.send(&handshake("2025-11-25"));
        assert_eq!(server.receive()["id"], 0);
        server.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        server.send(&call(1, "add", json!({"a": 1, "b": 2})));
        assert_eq!(text(&server.receive()), "3");
        server.send(&call(2, "add", json!({"a": "x"})));
        assert_eq!(server.receive()["result"]["isError"], true);
        server.send(&request(3, "nowhere", json!({})));
        assert_eq!(server.receive()["error"]["code"], -32601);
        let mut stderr = server.child.stderr.take().unwrap();
        assert_eq!(server.end(), (vec![], Some(0)));
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        assert_eq!(log == "printed at startup\n", is_silent, "{log}");
    }
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
fn output_printed_by_functions_goes_to_stderr() {
    let mut server = Running::start(&mut fixture());
    server.send(&call(1, "prints", json!({})));
    assert_eq!(text(&server.receive()), "printed");
    let mut stderr = server.child.stderr.take().unwrap();
    assert_eq!(server.end(), (vec![], Some(0)));
    let mut printed = String::new();
    stderr.read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "printed at startup\nprinted by a function\n");
}

#[test]
fn calls_in_flight_finish_after_the_end_of_input() {
    let mut server = Running::start(&mut fixture());
    server.send(&call(1, "wait", json!({"milliseconds": 200})));
    server.send(&call(2, "block", json!({"milliseconds": 200})));
    let (answers, code) = server.end();
    let mut ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!((ids, code), (vec![Some(1), Some(2)], Some(0)));
}

/// As with `printf … | server`.
#[test]
fn requests_before_the_end_of_input_are_answered_once() {
    let count = 300;
    let requests = (0..count).map(|id| match id % 4 {
        0 => call(id, "wait", json!({"milliseconds": id % 50})),
        1 => call(id, "block", json!({"milliseconds": 1})),
        2 => request(id, "tools/list", json!({})),
        _ => call(id, "add", json!({"a": id, "b": 1})),
    });
    let mut server = Running::start(&mut fixture());
    server.send(&requests.collect::<String>());
    let (answers, code) = server.end();
    let mut ids: Vec<_> = answers.iter().filter_map(|answer| answer["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!((ids, code), ((0..count).collect(), Some(0)));
}

#[test]
fn calls_that_never_end_fail_after_the_grace_period() {
    let is_failed = |answers: &[Value]| {
        let error = json!({"code": -32603, "message": "the server is shutting down"});
        assert_eq!(answers, [json!({"jsonrpc": "2.0", "id": 1, "error": error})]);
    };
    for signal in [false, true] {
        let mut server = Running::start(fixture().args(["--grace", "100"]));
        server.send(&call(1, "wait", json!({"milliseconds": 3_600_000})));
        server.send(&call(2, "add", json!({"a": 1, "b": 2})));
        assert_eq!(server.receive()["id"], 2);
        if signal {
            terminate(&server.child);
            let mut rest = Vec::new();
            server.stdout.read_to_end(&mut rest).unwrap();
            is_failed(&lines(&rest));
            assert_eq!(server.child.wait().unwrap().code(), Some(0));
        } else {
            let (answers, code) = server.end();
            is_failed(&answers);
            assert_eq!(code, Some(0));
        }
    }
}

#[test]
fn a_signal_lets_calls_in_flight_finish() {
    let mut server = Running::start(&mut fixture());
    server.send(&call(1, "wait", json!({"milliseconds": 300})));
    server.send(&call(2, "add", json!({"a": 1, "b": 2})));
    assert_eq!(server.receive()["id"], 2);
    terminate(&server.child);
    assert_eq!(text(&server.receive()), "waited 300 ms");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

/// A function that blocks its thread cannot keep the process alive.
#[test]
fn a_signal_ends_a_blocked_server() {
    for signals in [1, 2] {
        let mut server = Running::start(fixture().args(["--grace", if signals == 1 { "100" } else { "60000" }]));
        server.send(&call(1, "add", json!({"a": 1, "b": 2})));
        server.receive();
        server.send(&call(2, "hang", json!({})));
        for _ in 0..signals {
            thread::sleep(Duration::from_millis(100));
            terminate(&server.child);
        }
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
    }
}

/// Before the first call runs, signal handling is installed and the response to `initialize` is written, even if the
/// call arrives together with `initialize`.
#[test]
fn a_signal_ends_a_server_blocked_by_its_first_call() {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string();
    for delay in [0, 200] {
        let mut server = Running::start(fixture().args(["--grace", "100"]));
        thread::sleep(Duration::from_millis(delay));
        server.send(&format!("{initialize}\n{}", call(2, "hang", json!({}))));
        assert_eq!(server.receive()["id"], 1);
        thread::sleep(Duration::from_millis(300));
        terminate(&server.child);
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
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

/// A client that has closed its side and reads slowly receives everything, although that takes longer than the grace period.
#[test]
fn a_slow_reader_receives_every_response() {
    let mut server = Running::start(fixture().args(["--grace", "2000"]));
    let long = "x".repeat(100_000);
    for id in 0..8 {
        server.send(&call(id, "echo", json!({"text": long})));
    }
    drop(server.stdin.take());
    for _ in 0..8 {
        thread::sleep(Duration::from_millis(400));
        assert_eq!(text(&server.receive()).len(), 100_000);
    }
    assert_eq!(server.end(), (vec![], Some(0)));
}

/// The process exits with an error if a client has closed its side and never reads.
#[test]
fn a_client_that_stops_reading_does_not_delay_the_exit() {
    let mut server = Running::start(fixture().args(["--grace", "200"]));
    let long = "x".repeat(400_000);
    server.send(&call(1, "echo", json!({"text": long})));
    drop(server.stdin.take());
    assert_eq!(server.child.wait().unwrap().code(), Some(1));
    let mut why = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
    assert!(why.contains("bytes of responses in time"), "{why}");
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

fn terminate(child: &Child) {
    assert!(signal("TERM", child.id()));
}

fn signal(name: &str, process: u32) -> bool {
    Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap().success()
}

#[test]
fn a_disconnected_client_is_not_an_error() {
    let mut server = Running::start(fixture().args(["--grace", "100"]));
    server.send(&call(1, "wait", json!({"milliseconds": 50})));
    let Running { mut child, stdin, stdout, _limit } = server;
    drop(stdout);
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The server stops reading from a client that stops reading, so that buffers stay small and nothing is lost.
#[test]
fn slow_readers_get_back_pressure() {
    const CALLS: u64 = 1_000;
    let mut server = Running::start(&mut fixture());
    let mut stdin = server.stdin.take().unwrap();
    let long = "x".repeat(20_000);
    let writer = thread::spawn(move || {
        for id in 0..CALLS {
            stdin.write_all(call(id, "echo", json!({"text": long})).as_bytes()).unwrap();
        }
    });
    // The server has stopped reading when its memory no longer grows.
    let mut memory = resident(&server.child);
    loop {
        thread::sleep(Duration::from_millis(200));
        let now = resident(&server.child);
        if now <= memory {
            break;
        }
        memory = now;
    }
    assert!(!writer.is_finished(), "the server read {CALLS} calls although its output was not read");
    assert!(memory < 64 << 20, "{memory} bytes for a client that does not read");
    let mut seen = vec![false; CALLS as usize];
    for _ in 0..CALLS {
        let id = server.receive()["id"].as_u64().unwrap();
        assert!(!std::mem::replace(&mut seen[id as usize], true), "{id} was answered twice");
    }
    writer.join().unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

/// Returns the resident memory of a process, in bytes.
fn resident(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn an_oversized_line_is_rejected_and_discarded() {
    let mut server = Running::start(&mut fixture());
    let chunk = "x".repeat(1 << 20);
    for _ in 0..40 {
        server.send(&chunk);
    }
    assert!(resident(&server.child) < 64 << 20);
    server.send("\n");
    let refused = server.receive();
    assert_eq!(refused["error"]["code"], -32600);
    assert_eq!(refused["error"]["message"], "invalid request: the message is too large: the limit is 16777216 bytes");
    server.send(&call(1, "add", json!({"a": 1, "b": 2})));
    assert_eq!(text(&server.receive()), "3");
    assert_eq!(server.end(), (vec![], Some(0)));
}

#[test]
fn the_log_of_a_function_is_forwarded() {
    for (forwards, filter, is_forwarded) in [
        (false, None, false),
        (true, None, true),
        (true, Some("warn"), true),
        // The filter of the operator applies to what clients receive.
        (true, Some("error"), false),
        (true, Some("info,mcp_tests=off"), false),
        (true, Some("off"), false),
    ] {
        let mut command = fixture();
        command.env_remove("RUST_LOG").envs(filter.map(|filter| ("RUST_LOG", filter)));
        if forwards {
            command.arg("--forward-log");
        }
        let mut server = Running::start(&mut command);
        let mut logged = request(1, "tools/call", json!({"name": "logs"}));
        logged = logged.replace("\"_meta\":{", "\"_meta\":{\"io.modelcontextprotocol/logLevel\":\"warning\",");
        server.send(&logged);
        let mut data = Vec::new();
        loop {
            let line = server.receive();
            if line.get("method").is_none() {
                break;
            }
            data.push(line["params"]["data"].clone());
        }
        let mut expected = vec![json!({"why": "error"})];
        if is_forwarded {
            expected.push(json!({"count": 3, "message": "traced"}));
        }
        assert_eq!(data, expected, "{filter:?}");
    }
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
    for part in ["--grace <GRACE>", "[env: FIXTURE_GRACE] [default: 5000]", "--forward-log", "--call <TOOL> [JSON]"] {
        assert!(help.contains(part), "{part} is missing from\n{help}");
    }

    let list = stdout(&["--list"]);
    for part in [
        "add(a: number, b: number)\n      Add two numbers.",
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
    let output = run(fixture().args(["--call", "fails"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"isError\":true"));
}
