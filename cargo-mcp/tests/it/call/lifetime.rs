//! How calls and servers end: tasks, Ctrl-C, and servers that do not exit.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use super::{ELICITATION_REVISIONS, call, call_script};
use crate::{
    common::{cargo_mcp, run},
    servers::{HttpServer, for_each_at_once, modern_script, respond_to_call, script},
};

/// A server may ask until it has read the answer.
#[test]
fn a_question_of_a_task_is_answered_once() {
    let task = r#""taskId":"t","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":1,"statusMessage":"waiting""#;
    let asked = r#""inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}"#;
    let done = r#""result":{"content":[{"type":"text","text":"done"}]}"#;
    let then = [
        (2, format!(r#""resultType":"task","status":"working",{task}"#)),
        (3, format!(r#""resultType":"complete","status":"input_required",{asked},{task}"#)),
        (4, r#""resultType":"complete""#.to_owned()),
        (5, format!(r#""resultType":"complete","status":"input_required",{asked},{task}"#)),
        (6, format!(r#""resultType":"complete","status":"completed",{done},{task}"#)),
    ];
    let then =
        then.map(|(id, result)| format!(r#"echo '{{"jsonrpc":"2.0","id":{id},"result":{{{result}}}}}'; read l; "#));
    let server = modern_script(&then.concat());
    let mut args = vec!["call", "it", "--task", "--answer-json", r#"{"name":"Ann"}"#];
    args.extend(server.iter().map(String::as_str));
    let done = run(&args);
    // A message that has not changed is shown once.
    assert_eq!(done.stderr, "`it` runs as task t\nstatus: waiting\n");
    assert_eq!(done.expect_success(), "done\n");
}

/// The server does not know that this client no longer waits for the task.
#[cfg(unix)]
#[test]
fn a_task_whose_question_has_no_answer_is_cancelled() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cancelled");
    let task = r#""taskId":"t","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":1"#;
    let asked = r#""inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}"#;
    let then = [
        (2, format!(r#""resultType":"task","status":"working",{task}"#)),
        (3, format!(r#""resultType":"complete","status":"input_required",{asked},{task}"#)),
    ];
    let then =
        then.map(|(id, result)| format!(r#"echo '{{"jsonrpc":"2.0","id":{id},"result":{{{result}}}}}'; read -r l; "#));
    let then = format!("{}printf '%s' \"$l\" > {}", then.concat(), file.display());
    let failed = call_script(&modern_script(&then), &["--task", "--answer", "colour=red"]).expect_failure(2);
    assert!(failed.contains("error: the server asks: Name?\n"), "{failed}");
    let sent: serde_json::Value = serde_json::from_str(&fs::read_to_string(file).expect("a file")).expect("JSON");
    assert_eq!((&sent["method"], &sent["params"]["taskId"]), (&"tasks/cancel".into(), &"t".into()));
}

#[test]
fn a_cancelled_task_is_reported() {
    let task = r#""taskId":"t","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":null,"pollIntervalMs":1"#;
    let then = [
        (2, format!(r#""resultType":"task","status":"working",{task}"#)),
        (3, format!(r#""resultType":"complete","status":"cancelled",{task}"#)),
    ];
    let then =
        then.map(|(id, result)| format!(r#"echo '{{"jsonrpc":"2.0","id":{id},"result":{{{result}}}}}'; read l; "#));
    let failed = call_script(&modern_script(&then.concat()), &["--task"]).expect_failure(1);
    assert_eq!(failed, "`it` runs as task t\nerror: `it`: the server cancelled the task\n");
}

/// A server without tasks returns the result. The TypeScript SDK reports as the error of a tool that it requires a task.
#[test]
fn a_task_may_be_ignored_or_required() {
    let result = r#"{"content":[{"type":"text","text":"done"}]}"#;
    let done = call_script(&script(&respond_to_call(result)), &["--task"]);
    assert_eq!(done.expect_success(), "done\n");
    let required = r#"{"content":[{"type":"text","text":"MCP error -32601: Tool it requires a task"}],"isError":true}"#;
    let repeated = r#"case "$l" in *'"task":{}'*) echo '{"jsonrpc":"2.0","id":3,"result":RESULT}';; esac; read l"#;
    let then = format!("{}; {}", respond_to_call(required), repeated.replace("RESULT", result));
    assert_eq!(call_script(&script(&then), &[]).expect_success(), "done\n");
}

#[test]
fn the_result_of_a_task_is_printed() {
    let server = HttpServer::start("everything", &[]);
    let calls = [
        // Runs as a task only with `--task`.
        (&["slow_compute", "seconds=0.1"][..], 0, "The computation took 0.1 s\n"),
        (&["slow_compute", "seconds=0.1", "--task"], 0, "The computation took 0.1 s\n"),
        (&["confirm_delete", "filename=x", "--answer=confirm=true", "--task"], 0, "Deleted x\n"),
        (&["confirm_delete", "filename=x", "--answer-json=decline", "--task"], 0, "Kept x\n"),
        (&["multi_input", "--answer=name=Ann", "--answer=confirm=true", "--task"], 0, "Ann answered true\n"),
        // Always runs as a task.
        (&["failing_job"], 1, "error: `failing_job` failed: This job intentionally fails for testing\n"),
        (&["protocol_error_job", "--task"], 1, "This job intentionally ends with a protocol error for testing"),
    ];
    let rows = ELICITATION_REVISIONS.iter().flat_map(|revision| calls.iter().map(move |row| (revision, row)));
    for_each_at_once(rows, |(revision, (args, code, expected))| {
        let args = [args, &["--revision", revision][..]].concat();
        let mut calls = vec![call("everything", &args)];
        if args[0] == "confirm_delete" {
            calls.push(run(&[&["call", &server.url], &args[..]].concat()));
        }
        for done in calls {
            let is_task = done.stderr.contains(&format!("`{}` runs as task ", args[0]));
            assert_eq!(is_task, args.contains(&"--task") || args[0] == "failing_job", "{args:?}: {done:?}");
            assert_eq!(done.code, Some(*code), "{args:?}: {done:?}");
            assert!(done.stdout == *expected || done.stderr.contains(expected), "{args:?}: {done:?}");
        }
    });
}

/// Also of commands that receive no output of the server on stderr, and of wrappers such as `sh` and `npx`.
#[cfg(unix)]
#[test]
fn a_signal_ends_the_server_and_what_it_has_started() {
    let commands =
        [&["check"][..], &["lock"], &["types"], &["list"], &["install", "--client=cursor", "--force", "--name=it"]];
    let rows = commands.iter().flat_map(|command| ["INT", "TERM", "HUP"].map(|signal| (command, signal)));
    for_each_at_once(rows, |(command, signal)| {
        let directory = tempfile::tempdir().expect("a directory");
        let fifo = directory.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo starts").success());
        // Until then, the command has begun to wait for the server.
        let server = format!("(sleep 1; echo started; exec sleep 60) > {} & wait", fifo.display());
        let args = [command, &["--", "sh", "-c", &server][..]].concat();
        let mut child = cargo_mcp(&args)
            .current_dir(directory.path())
            .env("HOME", directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("cargo-mcp starts");
        let mut output = BufReader::new(fs::File::open(fifo).expect("the server has opened it"));
        output.read_line(&mut String::new()).expect("the server has started");
        send(signal, &child);
        assert_eq!(child.wait().expect("the process exits").code(), Some(130), "{args:?} {signal}");
        // Blocks until the last process that can write to it has ended.
        assert_eq!(output.read_line(&mut String::new()).expect("the end"), 0, "{args:?} {signal}");
    });
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(sent.expect("kill starts").success());
}

/// Interrupts a call after a line on stderr contains `marker`. Returns the exit code.
fn interrupt(args: &[&str], marker: &str) -> Option<i32> {
    let mut child = cargo_mcp(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("cargo-mcp starts");
    let mut lines = BufReader::new(child.stderr.take().expect("its stderr")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(marker)), "the call is running");
    send("INT", &child);
    assert!(lines.any(|line| line == "error: cancelled"), "the interruption is reported");
    child.wait().expect("the process exits").code()
}

#[test]
fn ctrl_c_cancels_the_call_at_the_server() {
    let server = HttpServer::start("jobs", &[]);
    for revision in ELICITATION_REVISIONS {
        for (args, marker) in [
            (&["print", "document=Thesis", "pages=1000"][..], "page 1 of Thesis"),
            (&["print", "document=Thesis", "pages=1000", "--task"], "runs as task "),
        ] {
            let args = [&["call", &server.url], args, &["--revision", revision]].concat();
            assert_eq!(interrupt(&args, marker), Some(130), "{args:?}");
            // The server stops the work when it receives the cancellation.
            let idle = || run(&["call", &server.url, "active"]).expect_success() == "none\n";
            assert!((0..50).any(|_| idle()), "{args:?}");
        }
    }
}

#[test]
fn zero_seconds_are_no_time_limit() {
    let script = script(&respond_to_call(r#"{"content":[{"type":"text","text":"done"}]}"#));
    assert_eq!(call_script(&script, &["--timeout", "0"]).expect_success(), "done\n");
}

/// Only silence ends a call. The pauses of the server add up to more than the limit.
#[test]
fn notifications_extend_the_time_limit_of_a_call() {
    let notifications = [
        r#""method":"notifications/progress","params":{"progressToken":0,"progress":1}"#,
        r#""method":"notifications/message","params":{"level":"info","data":"still here"}"#,
    ];
    for_each_at_once(notifications, |notification| {
        let notify = format!(r#"sleep 0.5; echo '{{"jsonrpc":"2.0",{notification}}}'"#);
        let then = format!("for i in 1 2 3 4 5 6 7 8 9; do {notify}; done; {}", respond_to_call(r#"{"content":[]}"#));
        let done = call_script(&script(&then), &["--timeout", "4"]);
        assert_eq!(done.code, Some(0), "{notification}: {done:?}");
    });
}

#[cfg(unix)]
#[test]
fn ctrl_c_cancels_the_request_of_a_program() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cancelled");
    for server in [script, modern_script] {
        let server = server(&format!("echo called >&2; read -r l; printf '%s' \"$l\" > {}", file.display()));
        let args: Vec<&str> = ["call", "it"].into_iter().chain(server.iter().map(String::as_str)).collect();
        assert_eq!(interrupt(&args, "called"), Some(130), "{args:?}");
        let sent: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).expect("a file")).expect("JSON");
        assert_eq!(sent["method"], "notifications/cancelled", "{args:?}");
        assert_eq!(
            (&sent["params"]["requestId"], &sent["params"]["reason"]),
            (&2.into(), &"cancelled by the user".into())
        );
        fs::remove_file(&file).expect("the file is removed");
    }
}

#[cfg(unix)]
#[test]
fn a_server_that_does_not_exit_is_asked_to_terminate() {
    let directory = tempfile::tempdir().expect("a directory");
    let result = r#"{"content":[{"type":"text","text":"done"}]}"#;
    let then = format!("{}; trap 'touch ended; exit' TERM; while :; do sleep 0.1; done", respond_to_call(result));
    let server = script(&then);
    let args: Vec<&str> = ["call", "it"].into_iter().chain(server.iter().map(String::as_str)).collect();
    let done = cargo_mcp(&args).current_dir(directory.path()).output().expect("cargo-mcp starts");
    assert!(done.status.success(), "{done:?}");
    assert!(directory.path().join("ended").exists());
}

#[test]
fn a_server_that_does_not_exit_is_killed() {
    // Ignores both the end of stdin and SIGTERM.
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("pid");
    let then = format!(
        "echo $$ > {}; trap '' TERM; {} ; while :; do sleep 1; done",
        file.display(),
        respond_to_call(r#"{"content":[]}"#)
    );
    let script = script(&then);
    let args: Vec<&str> = ["call", "it"].into_iter().chain(script.iter().map(String::as_str)).collect();
    run(&args).expect_success();
    let pid = fs::read_to_string(file).expect("the server has started");
    let alive = Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status().expect("kill starts");
    assert!(!alive.success(), "{pid} is still running");
}
