//! `cargo mcp call`.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    common::{CommandOutput, cargo_mcp, repository, run},
    examples::example,
    servers::{HttpServer, for_each_at_once, modern_script, respond_to_call, script},
    terminal::{DOWN, ENTER, Terminal},
};

/// A revision in which servers send elicitation requests, and one in which they return them in results.
const ELICITATION_REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

fn call(name: &str, args: &[&str]) -> CommandOutput {
    let program = example(name);
    let mut args = [&["call"], args, &["--", program.to_str().expect("a path in UTF-8")]].concat();
    if name == "notes" {
        args.extend(["--db", ":memory:"]);
    }
    run(&args)
}

/// Calls over both transports and in both revisions. Compares stdout and stderr, or the exit code and stderr.
#[track_caller]
fn assert_call(name: &str, args: &[&str], expected: Result<(&str, &str), (i32, &str)>) {
    let server = HttpServer::start(name, &[]);
    for revision in ELICITATION_REVISIONS {
        let args = [args, &["--revision", revision]].concat();
        for (transport, done) in
            [("stdio", call(name, &args)), ("HTTP", run(&[&["call", &server.url], &args[..]].concat()))]
        {
            let found = match done.code {
                Some(0) => Ok((&*done.stdout, &*done.stderr)),
                code => Err((code.expect("an exit code"), &*done.stderr)),
            };
            assert_eq!(found, expected, "{revision} over {transport}");
        }
    }
}

#[test]
fn text_is_printed_unchanged() {
    assert_call("everything", &["greet", "name=Ann"], Ok(("Hello, Ann!\n", "")));
    // A string that looks like a number stays a string.
    assert_call("everything", &["greet", "name=5"], Ok(("Hello, 5!\n", "")));
    assert_call("everything", &["test_simple_text"], Ok(("This is a simple text response for testing.\n", "")));
    assert_call(
        "everything",
        &["json_schema_2020_12_tool", "name=Ann", "address.city=Bern", "contactMethod=phone", "phone=031"],
        Ok(("Ann from Bern can be reached at 031.\n", "")),
    );
}

#[test]
fn progress_and_logs_go_to_stderr() {
    let progress = "progress: 0/100 Completed step 0 of 100\n\
                    progress: 50/100 Completed step 50 of 100\n\
                    progress: 100/100 Completed step 100 of 100\n";
    assert_call("everything", &["test_tool_with_progress"], Ok(("The work is done.\n", progress)));
    let log = "info: Tool execution started\ninfo: Tool processing data\ninfo: Tool execution completed\n";
    assert_call("everything", &["test_tool_with_logging"], Ok(("The work is done, and logged.\n", log)));
    assert_call(
        "everything",
        &["test_tool_with_logging", "--log-level", "warning"],
        Ok(("The work is done, and logged.\n", "")),
    );
}

#[test]
fn the_progress_bar_is_erased_before_the_result() {
    for revision in ELICITATION_REVISIONS {
        let program = example("everything");
        let args = ["call", "test_tool_with_progress", "--revision", revision, "--"];
        let mut terminal = Terminal::start(&[&args[..], &[program.to_str().expect("UTF-8")]].concat());
        terminal.wait_for("50 %  Completed step 50 of 100");
        let before = terminal.wait_for("The work is done.");
        assert!(before.ends_with("\x1b[2K"), "{before:?}");
        assert_eq!(terminal.exit_code(), 0);
    }
}

#[test]
fn a_misspelled_package_is_suggested() {
    for args in [&["call", "nots", "add_note"][..], &["prompt", "nots", "x"], &["complete", "nots", "prompt", "x", "y"]]
    {
        let message = run(args).expect_failure(2);
        assert!(
            message.ends_with("help: `nots` is not a package of this workspace; did you mean `notes`?\n"),
            "{message}"
        );
    }
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    let program = example("everything");
    let args = ["list", "--json", "--", program.to_str().expect("UTF-8")];
    let mut child = cargo_mcp(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cargo-mcp starts");
    drop(child.stdout.take());
    let done = CommandOutput::from(child.wait_with_output().expect("the process exits"));
    assert_eq!((done.code, &*done.stderr), (Some(0), ""));
}

#[test]
fn a_tool_error_is_printed() {
    let message = "error: `test_error_handling` failed: This tool intentionally returns an error for testing\n";
    assert_call("everything", &["test_error_handling"], Err((1, message)));
}

#[test]
fn structured_content_is_printed_as_json() {
    let added = call("notes", &["add_note", "title=Milk", "body=Two litres", "tags=a", "tags=b"]).expect_success();
    let note: Value = serde_json::from_str(&added).expect("JSON");
    assert_eq!((&note["title"], &note["tags"]), (&json!("Milk"), &json!(["a", "b"])));
    for (revision, expected) in [("2026-07-28", json!([])), ("2025-06-18", json!({"result": []}))] {
        let found = call("notes", &["search_notes", "query=x", "--revision", revision]).expect_success();
        assert_eq!(serde_json::from_str::<Value>(&found).expect("JSON"), expected);
    }
}

#[test]
fn raw_prints_the_whole_result_as_json() {
    let result: Value =
        serde_json::from_str(&call("everything", &["greet", "name=Ann", "--raw"]).expect_success()).expect("JSON");
    assert_eq!(result["content"], json!([{"type": "text", "text": "Hello, Ann!"}]));
    let failed = call("everything", &["test_error_handling", "--raw"]);
    let result: Value = serde_json::from_str(&failed.stdout).expect("JSON");
    assert_eq!(result["isError"], true);
    assert_eq!(failed.expect_failure(1), "");
}

#[test]
fn arguments_can_be_json() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(&file, r#"{"name": "Ann"}"#).expect("the file is written");
    let at = format!("@{}", file.path().display());
    for (args, expected) in [
        (&["greet", "--json", r#"{"name": "Ann"}"#][..], "Hello, Ann!\n"),
        (&["greet", "--args", r#"{"name": "Ann"}"#], "Hello, Ann!\n"),
        (&["greet", "--json", &at], "Hello, Ann!\n"),
        (&["greet", "--json", r#"{"name": "Ann"}"#, "name=Bob"], "Hello, Bob!\n"),
        (&["greet", "name:=\"Ann\""], "Hello, Ann!\n"),
    ] {
        assert_eq!(call("everything", args).expect_success(), expected, "{args:?}");
    }

    let program = example("everything");
    let mut child = cargo_mcp(&["call", "greet", "--json", "-", "--", program.to_str().expect("UTF-8")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cargo-mcp starts");
    child.stdin.take().expect("its stdin").write_all(br#"{"name": "stdin"}"#).expect("the process reads stdin");
    assert_eq!(
        CommandOutput::from(child.wait_with_output().expect("the process exits")).expect_success(),
        "Hello, stdin!\n"
    );
}

#[test]
fn json_is_sent_without_validation() {
    // The server reports the error.
    let message = call("everything", &["greet", "--json", r#"{"name": 5, "x": 1}"#]).expect_failure(1);
    assert!(message.starts_with("error: `greet` failed: invalid arguments for `greet`:\n"), "{message}");
}

#[test]
fn invalid_arguments_are_reported_before_the_call() {
    for (args, message) in [
        (
            &[][..],
            "error: the name of the tool is missing\nhelp: available tools: `add_note`, `count_notes`, `delete_note`, `search_notes`\n",
        ),
        (&["serach_notes"], "error: unknown tool `serach_notes`\nhelp: did you mean `search_notes`?\n"),
        (
            &["frobnicate"],
            "error: unknown tool `frobnicate`\nhelp: available tools: `add_note`, `count_notes`, `delete_note`, `search_notes`\n",
        ),
        (
            &["no-such-package", "add_note"],
            "error: unknown tool `no-such-package`\n\
             help: available tools: `add_note`, `count_notes`, `delete_note`, `search_notes`\n\
             help: `no-such-package` is not a server either: neither a package of this workspace nor a URL\n",
        ),
        (&["delete_note"], "error: `delete_note`: missing argument `id` (integer)\n"),
        (&["delete_note", "id=x"], "error: `delete_note`: argument `id`: expected integer, found `x`\n"),
        (
            &["delete_note", "5"],
            "error: `delete_note`: 2 invalid arguments\n  - invalid argument `5`: expected KEY=VALUE or KEY:=JSON\n  - missing argument `id` (integer)\n",
        ),
        (
            &["add_note", "titel=x", "tags=a", "body=b", "colour=red"],
            "error: `add_note`: 3 invalid arguments\n  \
             - missing argument `title` (string, 1 to 200 characters)\n  \
             - unknown argument `colour`: expected `title`, `body`, `tags`\n  \
             - unknown argument `titel`; did you mean `title`?\n",
        ),
        (
            &["add_note", "title=", "colour=red"],
            "error: `add_note`: 3 invalid arguments\n  \
             - missing argument `body` (string)\n  \
             - argument `title`: expected string, 1 to 200 characters, found ``\n  \
             - unknown argument `colour`: expected `title`, `body`, `tags`\n",
        ),
        (&["count_notes", "x=1"], "error: `count_notes`: unknown argument `x`: expected no arguments\n"),
        (
            &["count_notes", "--json", "x=1"],
            "error: `--json`: invalid JSON: expected value at byte 1\nhelp: use `--raw` to print the result as JSON\n",
        ),
        (&["count_notes", "--json", "[]"], "error: `--json`: expected an object with the arguments by name\n"),
        (
            &["count_notes", "--json", "@/nowhere"],
            "error: cannot read `/nowhere`: No such file or directory (os error 2)\n",
        ),
        (&["count_notes", "--answer", "x"], "error: `--answer x`: expected KEY=VALUE\n"),
        (
            &["count_notes", "--answer-json", "yes"],
            "error: `--answer-json yes`: expected a JSON object, `decline` or `cancel`\n",
        ),
        (&["count_notes", "--root", "/nowhere"], "error: invalid root `/nowhere`: not a directory\n"),
    ] {
        assert_eq!(call("notes", args).expect_failure(2), message, "{args:?}");
    }
}

#[test]
fn binary_content_is_saved_to_new_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    let media = Path::new(repository()).join("examples/everything/media");
    for (tool, file, original) in [
        ("test_image_content", "test_image_content-1.png", Some("pixel.png")),
        ("test_audio_content", "test_audio_content-1.wav", Some("silence.wav")),
        ("test_image_content", "test_image_content-2.png", None),
    ] {
        let done = call("everything", &[tool, "--output", path]);
        assert_eq!(done.stderr, format!("saved {path}/{file}\n"));
        assert_eq!(done.expect_success(), "");
        if let Some(original) = original {
            let saved = fs::read(directory.path().join(file)).expect("the file is saved");
            assert_eq!(saved, fs::read(media.join(original)).expect("the original"));
        }
    }
    let done = call("everything", &["test_multiple_content_types", "--output", path]);
    assert_eq!(done.stderr, format!("saved {path}/test_multiple_content_types-1.png\n"));
    assert_eq!(
        done.expect_success(),
        "Multiple content types test:\ntest://mixed-content-resource (application/json):\n{\"test\":\"data\",\"value\":123}\n"
    );

    // The current directory is the default.
    let program = example("everything");
    let mut command = cargo_mcp(&["call", "test_image_content", "--", program.to_str().expect("UTF-8")]);
    let here = tempfile::tempdir().expect("a directory");
    CommandOutput::from(command.current_dir(&here).output().expect("cargo-mcp starts")).expect_success();
    assert!(here.path().join("test_image_content-1.png").exists());
}

#[test]
fn resource_links_are_printed() {
    let result = r#"{"content":[{"type":"resource_link","uri":"a://b","name":"b","title":"Bee","mimeType":"text/plain"},{"type":"text","text":"done"}]}"#;
    let script = script(&respond_to_call(result));
    let args: Vec<&str> = ["call", "it"].into_iter().chain(script.iter().map(String::as_str)).collect();
    assert_eq!(run(&args).expect_success(), "a://b  Bee  [text/plain]\ndone\n");
}

#[test]
fn answers_from_the_command_line_are_sent() {
    let filled = "User response: action=accept, content={\"username\":\"ann\",\"email\":\"a@b.ch\"}\n";
    let ask = ["test_elicitation", "message=Who?"];
    let with = |args: &[&'static str]| [&ask[..], args].concat();
    assert_call("everything", &with(&["--answer", "username=ann", "--answer", "email=a@b.ch"]), Ok((filled, "")));
    let json = r#"{"username": "ann", "email": "a@b.ch"}"#;
    assert_call("everything", &with(&["--answer-json", json]), Ok((filled, "")));
    let declined = "User response: action=decline, content={}\n";
    assert_call("everything", &with(&["--answer-json", "decline"]), Ok((declined, "")));
    let cancelled = "User response: action=cancel, content={}\n";
    assert_call("everything", &with(&["--answer-json", "cancel"]), Ok((cancelled, "")));
}

#[test]
fn answers_for_several_forms_are_matched_by_name_or_order() {
    let args = [
        "book_seats",
        "play=Hamlet",
        "--answer=name=Ann",
        "--answer=seats=3",
        "--answer=area=stalls",
        "--answer=extras=programme",
        "--answer=sure=true",
        "--answer=shoes=red",
    ];
    let booked = "booking 1: 3 seats in the Stalls, with [Programme]\n";
    let note = "note: `--answer shoes=red` was not used, because the server did not ask for it\n";
    for revision in ELICITATION_REVISIONS {
        let done = call("ask", &[&args[..], &["--revision", revision]].concat());
        assert_eq!((&*done.stdout, &*done.stderr), (booked, note), "{revision}");
    }
    // `--answer-json` answers the forms in order.
    let args = [
        "book_seats",
        "play=Hamlet",
        r#"--answer-json={"name": "Ann", "seats": 1}"#,
        r#"--answer-json={"area": "balcony", "extras": []}"#,
        "--answer-json=decline",
    ];
    for revision in ELICITATION_REVISIONS {
        assert_eq!(
            call("ask", &[&args[..], &["--revision", revision]].concat()).expect_success(),
            "nothing was booked\n"
        );
    }
}

#[test]
fn defaults_apply_without_a_terminal() {
    let expected = "Elicitation completed: action=accept, content={\"name\":\"John Doe\",\"age\":7,\"score\":95.5,\"status\":\"active\",\"verified\":true}\n";
    assert_call("everything", &["test_elicitation_sep1034_defaults", "--answer", "age=7"], Ok((expected, "")));
}

#[test]
fn invalid_answers_end_the_command() {
    let ask = ["book_seats", "play=Hamlet"];
    let question = "the answer to “Who would like to see Hamlet?”";
    for (answers, message) in [
        (
            &["--answer=seats=3"][..],
            "error: the server asks: Who would like to see Hamlet?\n\
             help: `--answer name=…` is missing (string, 1 to 40 characters)\n"
                .to_owned(),
        ),
        (
            &["--answer=nam=Ann"],
            "error: the server asks: Who would like to see Hamlet?\n\
             help: `--answer name=…` is missing (string, 1 to 40 characters); did you mean `nam`?\n"
                .to_owned(),
        ),
        (
            &["--answer=name=Ann", "--answer=seats=x"],
            format!("error: {question}: argument `seats`: expected integer, 1 to 8, found `x`\n"),
        ),
        (
            &["--answer=name=Ann", "--answer=seats=9"],
            format!("error: {question}: argument `seats`: expected integer, 1 to 8, found `9`\n"),
        ),
        (
            &["--answer=name=Ann", "--answer=email=x"],
            format!("error: {question}: field `email`: expected string, email\n"),
        ),
        (
            &[r#"--answer-json={"seats": "3", "nmae": "Ann"}"#],
            format!(
                "error: {question}: 3 invalid arguments\n  - field `seats`: expected integer, 1 to 8\n  \
                 - unknown field `nmae`\n  - missing field `name`\n"
            ),
        ),
    ] {
        for revision in ELICITATION_REVISIONS {
            let args = [&ask[..], answers, &["--revision", revision]].concat();
            assert_eq!(call("ask", &args).expect_failure(2), message, "{answers:?} {revision}");
        }
    }
}

#[test]
fn capabilities_without_answers_are_not_declared() {
    for (tool, capability, help) in [
        (
            &["test_elicitation", "message=x"][..],
            "elicitation",
            "the server asks for input: run this in a terminal or pass `--answer KEY=VALUE`",
        ),
        (
            &["test_sampling", "prompt=x"],
            "sampling",
            "the server requests sampling: pass the response with `--sample TEXT`",
        ),
        (&["test_input_required_result_list_roots"], "roots", "the server requests roots: pass them with `--root DIR`"),
    ] {
        for (revision, failed, code) in [("2025-11-25", " failed", ""), ("2026-07-28", "", " (code -32021)")] {
            let message = call("everything", &[tool, &["--revision", revision]].concat()).expect_failure(1);
            let expected = format!(
                "error: `{}`{failed}: the client has not declared the capability `{capability}`{code}\nhelp: {help}\n",
                tool[0]
            );
            assert_eq!(message, expected);
        }
    }
}

#[test]
fn sampling_responses_and_roots_are_sent() {
    let request = "sampling request: Generate a greeting.\n";
    let root = tempfile::Builder::new().prefix("root").tempdir().expect("a directory");
    let path = root.path().to_str().expect("UTF-8");
    let name = root.path().file_name().expect("a name").to_str().expect("UTF-8");
    let args =
        ["test_input_required_result_multiple_inputs", "--answer", "name=Ann", "--sample", "Good day", "--root", path];
    assert_call("everything", &args, Ok((&format!("Good day, Ann! 1 root: {name}\n"), request)));
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

/// Interrupts a call after a line on stderr contains `marker`. Returns the exit code.
fn interrupt(args: &[&str], marker: &str) -> Option<i32> {
    let mut child = cargo_mcp(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("cargo-mcp starts");
    let mut lines = BufReader::new(child.stderr.take().expect("its stderr")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(marker)), "the call is running");
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(signal.success());
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

/// Returns servers that ask the user to visit a page and return the reply, one per revision.
fn url_elicitation_scripts() -> [Vec<String>; 2] {
    let page = r#"{"mode":"url","message":"Sign in","url":"https://example.com/a?b=c","elicitationId":"1"}"#;
    let request =
        format!(r#"echo '{{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{page}}}'; read a; "#);
    let result = format!(
        r#"echo '{{"jsonrpc":"2.0","id":2,"result":{{"resultType":"input_required","inputRequests":{{"page":{{"method":"elicitation/create","params":{page}}}}}}}}}'; read a; "#
    );
    let respond = |id: u32| {
        let choose = r#"case "$a" in *'"accept"'*) t=accept;; *'"decline"'*) t=decline;; *) t=cancel;; esac; "#;
        let echo = format!(
            r#"echo "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"$t\"}}]}}}}"; read l"#
        );
        format!("{choose}{echo}")
    };
    [script(&format!("{request}{}", respond(2))), modern_script(&format!("{result}{}", respond(3)))]
}

#[test]
fn a_page_is_visited_only_with_consent() {
    for script in url_elicitation_scripts() {
        let script: Vec<&str> = script.iter().map(String::as_str).collect();
        let args = |options: &[&'static str]| [&["call", "it"], options, &script].concat();
        for (answer, expected) in [("{}", "accept\n"), ("decline", "decline\n"), ("cancel", "cancel\n")] {
            assert_eq!(run(&args(&["--answer-json", answer])).expect_success(), expected);
        }
        assert_eq!(
            run(&args(&[])).expect_failure(2),
            "error: the server asks the user to visit `https://example.com/a?b=c`: Sign in\n\
             help: visit it and add `--answer-json '{}'`, or add `--answer-json decline`\n"
        );
        for (keys, expected) in [(DOWN.to_owned(), "accept"), (DOWN.repeat(2), "decline"), (DOWN.repeat(3), "cancel")] {
            let mut terminal = Terminal::start(&args(&[]));
            terminal.wait_for("script asks: Sign in");
            terminal.wait_for("https://example.com/a?b=c");
            terminal.wait_for("Open it in the browser");
            terminal.send_keys(&keys);
            terminal.send_keys(ENTER);
            terminal.wait_for(expected);
            assert_eq!(terminal.exit_code(), 0);
        }
    }
}

#[test]
fn a_call_is_retried_after_the_user_visits_a_page() {
    let page = r#"{"mode":"url","message":"Sign in","url":"https://example.com/a","elicitationId":"1"}"#;
    let error = format!(
        r#"echo '{{"jsonrpc":"2.0","id":2,"error":{{"code":-32042,"message":"visit it","data":{{"elicitations":[{page}]}}}}}}'; read l; "#
    );
    let then = r#"echo '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"thank you"}]}}'; read l"#;
    let script = script(&format!("{error}{then}"));
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let args = |options: &[&'static str]| [&["call", "it"], options, &script].concat();
    assert_eq!(run(&args(&["--answer-json", "{}"])).expect_success(), "thank you\n");
    let message = run(&args(&["--answer-json", "decline"])).expect_failure(1);
    assert!(message.starts_with("error: `it`: visit it (code -32042)\n"), "{message}");

    let mut terminal = Terminal::start(&args(&[]));
    terminal.wait_for("script asks: Sign in");
    terminal.wait_for("Open it in the browser");
    terminal.send_keys(&format!("{DOWN}{ENTER}"));
    terminal.wait_for("Done, continue");
    terminal.send_keys(ENTER);
    terminal.wait_for("thank you");
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn an_invalid_result_is_reported() {
    let script = script(r#"echo '{"jsonrpc":"2.0","id":2,"result":5}'; read l"#);
    let args: Vec<&str> =
        ["call", "it", "--timeout", "5"].into_iter().chain(script.iter().map(String::as_str)).collect();
    assert_eq!(run(&args).expect_failure(3), "error: `it`: the server returned a result of the wrong type\n");
}
