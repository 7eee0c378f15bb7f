//! `cargo mcp call`.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    common::{Done, cargo_mcp, example, run},
    servers::{Site, modern_script, said, script},
    terminal::{DOWN, ENTER, Terminal},
};

/// A revision in which questions are requests, and one in which they are results.
const GENERATIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

fn call(name: &str, words: &[&str]) -> Done {
    let program = example(name);
    let mut words = [&["call"], words, &["--", program.to_str().expect("a path in UTF-8")]].concat();
    if name == "notes" {
        words.extend(["--db", ":memory:"]);
    }
    run(&words)
}

/// Calls over both transports and in both generations. Compares stdout and stderr, or the exit code and stderr.
#[track_caller]
fn everywhere(name: &str, words: &[&str], expected: Result<(&str, &str), (i32, &str)>) {
    let site = Site::start(name, &[]);
    for revision in GENERATIONS {
        let words = [words, &["--revision", revision]].concat();
        for (transport, done) in
            [("stdio", call(name, &words)), ("HTTP", run(&[&["call", &site.url], &words[..]].concat()))]
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
    everywhere("everything", &["greet", "name=Ann"], Ok(("Hello, Ann!\n", "")));
    // A string that looks like a number stays a string.
    everywhere("everything", &["greet", "name=5"], Ok(("Hello, 5!\n", "")));
    everywhere("everything", &["test_simple_text"], Ok(("This is a simple text response for testing.\n", "")));
    everywhere(
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
    everywhere("everything", &["test_tool_with_progress"], Ok(("The work is done.\n", progress)));
    let log = "info: Tool execution started\ninfo: Tool processing data\ninfo: Tool execution completed\n";
    everywhere("everything", &["test_tool_with_logging"], Ok(("The work is done, and logged.\n", log)));
    everywhere(
        "everything",
        &["test_tool_with_logging", "--log-level", "warning"],
        Ok(("The work is done, and logged.\n", "")),
    );
}

#[test]
fn the_progress_bar_is_erased_before_the_result() {
    for revision in GENERATIONS {
        let program = example("everything");
        let words = ["call", "test_tool_with_progress", "--revision", revision, "--"];
        let mut terminal = Terminal::start(&[&words[..], &[program.to_str().expect("UTF-8")]].concat());
        terminal.sees("50 %  Completed step 50 of 100");
        let before = terminal.sees("The work is done.");
        assert!(before.ends_with("\x1b[2K"), "{before:?}");
        assert_eq!(terminal.ends(), 0);
    }
}

#[test]
fn a_package_of_the_workspace_is_built_and_called() {
    assert_eq!(run(&["call", "hello", "greet", "name=Ann"]).good(), "Hello, Ann!\n");
}

#[test]
fn the_package_of_the_current_directory_is_the_default() {
    let mut command = cargo_mcp(&["call", "greet", "name=Ann"]);
    command.current_dir(crate::common::repository().join("examples/hello/src"));
    assert_eq!(Done::from(command.output().expect("cargo-mcp starts")).good(), "Hello, Ann!\n");
    let words = ["call", "greet", "name=Ann", "--manifest-path", "examples/hello/Cargo.toml"];
    assert_eq!(run(&words).good(), "Hello, Ann!\n");
}

#[test]
fn a_misspelled_package_is_suggested() {
    for words in
        [&["call", "nots", "add_note"][..], &["prompt", "nots", "x"], &["complete", "nots", "prompt", "x", "y"]]
    {
        let message = run(words).failed(2);
        assert!(
            message.ends_with("help: `nots` is not a package of this workspace; did you mean `notes`?\n"),
            "{message}"
        );
    }
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    let program = example("everything");
    let words = ["list", "--json", "--", program.to_str().expect("UTF-8")];
    let mut child = cargo_mcp(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cargo-mcp starts");
    drop(child.stdout.take());
    let done = Done::from(child.wait_with_output().expect("the process exits"));
    assert_eq!((done.code, &*done.stderr), (Some(0), ""));
}

#[test]
fn a_tool_error_is_printed() {
    let message = "error: `test_error_handling` failed: This tool intentionally returns an error for testing\n";
    everywhere("everything", &["test_error_handling"], Err((1, message)));
}

#[test]
fn structured_content_is_printed_as_json() {
    let added = call("notes", &["add_note", "title=Milk", "body=Two litres", "tags=a", "tags=b"]).good();
    let note: Value = serde_json::from_str(&added).expect("JSON");
    assert_eq!((&note["title"], &note["tags"]), (&json!("Milk"), &json!(["a", "b"])));
    for (revision, expected) in [("2026-07-28", json!([])), ("2025-06-18", json!({"result": []}))] {
        let found = call("notes", &["search_notes", "query=x", "--revision", revision]).good();
        assert_eq!(serde_json::from_str::<Value>(&found).expect("JSON"), expected);
    }
}

#[test]
fn the_raw_result_is_json() {
    let result: Value =
        serde_json::from_str(&call("everything", &["greet", "name=Ann", "--raw"]).good()).expect("JSON");
    assert_eq!(result["content"], json!([{"type": "text", "text": "Hello, Ann!"}]));
    let failed = call("everything", &["test_error_handling", "--raw"]);
    let result: Value = serde_json::from_str(&failed.stdout).expect("JSON");
    assert_eq!(result["isError"], true);
    assert_eq!(failed.failed(1), "");
}

#[test]
fn arguments_can_be_json() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(&file, r#"{"name": "Ann"}"#).expect("the file is written");
    let at = format!("@{}", file.path().display());
    for (words, expected) in [
        (&["greet", "--json", r#"{"name": "Ann"}"#][..], "Hello, Ann!\n"),
        (&["greet", "--args", r#"{"name": "Ann"}"#], "Hello, Ann!\n"),
        (&["greet", "--json", &at], "Hello, Ann!\n"),
        (&["greet", "--json", r#"{"name": "Ann"}"#, "name=Bob"], "Hello, Bob!\n"),
        (&["greet", "name:=\"Ann\""], "Hello, Ann!\n"),
    ] {
        assert_eq!(call("everything", words).good(), expected, "{words:?}");
    }

    let program = example("everything");
    let mut child = cargo_mcp(&["call", "greet", "--json", "-", "--", program.to_str().expect("UTF-8")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cargo-mcp starts");
    child.stdin.take().expect("its stdin").write_all(br#"{"name": "stdin"}"#).expect("the process reads stdin");
    assert_eq!(Done::from(child.wait_with_output().expect("the process exits")).good(), "Hello, stdin!\n");
}

#[test]
fn json_is_sent_without_validation() {
    // The error comes from the server.
    let message = call("everything", &["greet", "--json", r#"{"name": 5, "x": 1}"#]).failed(1);
    assert!(message.starts_with("error: `greet` failed: invalid arguments for `greet`:\n"), "{message}");
}

#[test]
fn invalid_arguments_are_reported_before_the_call() {
    for (words, message) in [
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
        (&["count_notes", "x=1"], "error: `count_notes`: unknown argument `x`: expected no arguments\n"),
        (
            &["count_notes", "--json", "x=1"],
            "error: `--json`: invalid JSON: expected value at line 1 column 1\nhelp: use `--raw` to print the result as JSON\n",
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
        assert_eq!(call("notes", words).failed(2), message, "{words:?}");
    }
}

#[test]
fn binary_content_is_saved_to_new_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    let media = Path::new(crate::common::repository()).join("examples/everything/media");
    for (tool, file, original) in [
        ("test_image_content", "test_image_content-1.png", Some("pixel.png")),
        ("test_audio_content", "test_audio_content-1.wav", Some("silence.wav")),
        ("test_image_content", "test_image_content-2.png", None),
    ] {
        let done = call("everything", &[tool, "--output", path]);
        assert_eq!(done.stderr, format!("saved {path}/{file}\n"));
        assert_eq!(done.good(), "");
        if let Some(original) = original {
            let saved = fs::read(directory.path().join(file)).expect("the file is saved");
            assert_eq!(saved, fs::read(media.join(original)).expect("the original"));
        }
    }
    let done = call("everything", &["test_multiple_content_types", "--output", path]);
    assert_eq!(done.stderr, format!("saved {path}/test_multiple_content_types-1.png\n"));
    assert_eq!(
        done.good(),
        "Multiple content types test:\ntest://mixed-content-resource (application/json):\n{\"test\":\"data\",\"value\":123}\n"
    );

    // The current directory is the default.
    let program = example("everything");
    let mut command = cargo_mcp(&["call", "test_image_content", "--", program.to_str().expect("UTF-8")]);
    let here = tempfile::tempdir().expect("a directory");
    Done::from(command.current_dir(&here).output().expect("cargo-mcp starts")).good();
    assert!(here.path().join("test_image_content-1.png").exists());
}

#[test]
fn resource_links_are_printed() {
    let result = r#"{"content":[{"type":"resource_link","uri":"a://b","name":"b","title":"Bee","mimeType":"text/plain"},{"type":"text","text":"done"}]}"#;
    let script = script(&said(result));
    let words: Vec<&str> = ["call", "it"].into_iter().chain(script.iter().map(String::as_str)).collect();
    assert_eq!(run(&words).good(), "a://b  Bee  [text/plain]\ndone\n");
}

#[test]
fn questions_are_answered_by_the_command_line() {
    let filled = "User response: action=accept, content={\"username\":\"ann\",\"email\":\"a@b.ch\"}\n";
    let ask = ["test_elicitation", "message=Who?"];
    let with = |words: &[&'static str]| [&ask[..], words].concat();
    everywhere("everything", &with(&["--answer", "username=ann", "--answer", "email=a@b.ch"]), Ok((filled, "")));
    let json = r#"{"username": "ann", "email": "a@b.ch"}"#;
    everywhere("everything", &with(&["--answer-json", json]), Ok((filled, "")));
    let declined = "User response: action=decline, content={}\n";
    everywhere("everything", &with(&["--answer-json", "decline"]), Ok((declined, "")));
    let cancelled = "User response: action=cancel, content={}\n";
    everywhere("everything", &with(&["--answer-json", "cancel"]), Ok((cancelled, "")));
}

#[test]
fn forms_of_several_steps_are_answered_by_name() {
    let words = [
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
    for revision in GENERATIONS {
        let done = call("ask", &[&words[..], &["--revision", revision]].concat());
        assert_eq!((&*done.stdout, &*done.stderr), (booked, note), "{revision}");
    }
    // One answer per question, in order.
    let words = [
        "book_seats",
        "play=Hamlet",
        r#"--answer-json={"name": "Ann", "seats": 1}"#,
        r#"--answer-json={"area": "balcony", "extras": []}"#,
        "--answer-json=decline",
    ];
    for revision in GENERATIONS {
        assert_eq!(call("ask", &[&words[..], &["--revision", revision]].concat()).good(), "nothing was booked\n");
    }
}

#[test]
fn defaults_apply_without_a_terminal() {
    let expected = "Elicitation completed: action=accept, content={\"name\":\"John Doe\",\"age\":7,\"score\":95.5,\"status\":\"active\",\"verified\":true}\n";
    everywhere("everything", &["test_elicitation_sep1034_defaults", "--answer", "age=7"], Ok((expected, "")));
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
            format!("error: {question}: field `seats`: expected integer, 1 to 8\n"),
        ),
        (
            &["--answer=name=Ann", "--answer=email=x"],
            format!("error: {question}: field `email`: expected string, email\n"),
        ),
        (
            &[r#"--answer-json={"seats": "3", "nmae": "Ann"}"#],
            format!(
                "error: {question}: 3 invalid arguments\n  - unknown field `nmae`\n  \
                 - field `seats`: expected integer, 1 to 8\n  - missing field `name`\n"
            ),
        ),
    ] {
        for revision in GENERATIONS {
            let words = [&ask[..], answers, &["--revision", revision]].concat();
            assert_eq!(call("ask", &words).failed(2), message, "{answers:?} {revision}");
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
        for (revision, code) in [("2025-11-25", -32600), ("2026-07-28", -32021)] {
            let message = call("everything", &[tool, &["--revision", revision]].concat()).failed(1);
            let expected = format!(
                "error: `{}`: the client has not declared the capability `{capability}` (code {code})\nhelp: {help}\n",
                tool[0]
            );
            assert_eq!(message, expected);
        }
    }
}

#[test]
fn samples_and_roots_are_sent() {
    let asked = "sampling request: Generate a greeting.\n";
    let root = tempfile::Builder::new().prefix("root").tempdir().expect("a directory");
    let path = root.path().to_str().expect("UTF-8");
    let name = root.path().file_name().expect("a name").to_str().expect("UTF-8");
    let words =
        ["test_input_required_result_multiple_inputs", "--answer", "name=Ann", "--sample", "Good day", "--root", path];
    everywhere("everything", &words, Ok((&format!("Good day, Ann! 1 roots: {name}\n"), asked)));
}

#[test]
fn the_result_of_a_task_is_printed() {
    let site = Site::start("everything", &[]);
    for revision in GENERATIONS {
        for (words, code, said) in [
            // Runs as a task only with `--task`.
            (&["slow_compute", "seconds=0.1"][..], 0, "The computation took 0.1 s\n"),
            (&["slow_compute", "seconds=0.1", "--task"], 0, "The computation took 0.1 s\n"),
            (&["confirm_delete", "filename=x", "--answer=confirm=true", "--task"], 0, "Deleted x\n"),
            (&["confirm_delete", "filename=x", "--answer-json=decline", "--task"], 0, "Kept x\n"),
            (&["multi_input", "--answer=name=Ann", "--answer=confirm=true", "--task"], 0, "Ann answered true\n"),
            // Always runs as a task.
            (&["failing_job"], 1, "error: `failing_job` failed: This job intentionally fails for testing\n"),
            (&["protocol_error_job", "--task"], 1, "This job intentionally ends with a protocol error for testing"),
        ] {
            let words = [words, &["--revision", revision]].concat();
            let mut calls = vec![call("everything", &words)];
            if words[0] == "confirm_delete" {
                calls.push(run(&[&["call", &site.url], &words[..]].concat()));
            }
            for done in calls {
                let output = done.stderr.contains(&format!("`{}` runs as task ", words[0]));
                assert_eq!(output, words.contains(&"--task") || words[0] == "failing_job", "{words:?}: {done:?}");
                assert_eq!(done.code, Some(code), "{words:?}: {done:?}");
                assert!(done.stdout == said || done.stderr.contains(said), "{words:?}: {done:?}");
            }
        }
    }
}

/// Interrupts a long call after it has printed `working`. Returns the exit code.
fn interrupted(words: &[&str], working: &str) -> Option<i32> {
    let mut child = cargo_mcp(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("cargo-mcp starts");
    let mut lines = BufReader::new(child.stderr.take().expect("its stderr")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(working)), "the call is running");
    let signal = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(signal.success());
    assert!(lines.any(|line| line == "error: cancelled"), "the interruption is reported");
    child.wait().expect("the process exits").code()
}

#[test]
fn ctrl_c_cancels_the_call_at_the_server() {
    let site = Site::start("jobs", &[]);
    for revision in GENERATIONS {
        for (words, working) in [
            (&["print", "document=Thesis", "pages=1000"][..], "page 1 of Thesis"),
            (&["print", "document=Thesis", "pages=1000", "--task"], "runs as task "),
        ] {
            let words = [&["call", &site.url], words, &["--revision", revision]].concat();
            assert_eq!(interrupted(&words, working), Some(130), "{words:?}");
            // The server stops the work when it receives the cancellation.
            let idle = || run(&["call", &site.url, "active"]).good() == "none\n";
            assert!((0..50).any(|_| idle()), "{words:?}");
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
        said(r#"{"content":[]}"#)
    );
    let script = script(&then);
    let words: Vec<&str> = ["call", "it"].into_iter().chain(script.iter().map(String::as_str)).collect();
    run(&words).good();
    let pid = fs::read_to_string(file).expect("the server has started");
    let alive = Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status().expect("kill starts");
    assert!(!alive.success(), "{pid} is still running");
}

/// Servers that ask the user to visit a page and return the reply, one per generation.
fn sending() -> [Vec<String>; 2] {
    let page = r#"{"mode":"url","message":"Sign in","url":"https://example.com/a?b=c","elicitationId":"1"}"#;
    let asked = format!(r#"echo '{{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{page}}}'; read a; "#);
    let required = format!(
        r#"echo '{{"jsonrpc":"2.0","id":2,"result":{{"resultType":"input_required","inputRequests":{{"page":{{"method":"elicitation/create","params":{page}}}}}}}}}'; read a; "#
    );
    let answer = |id: u32| {
        let choose = r#"case "$a" in *'"accept"'*) t=accept;; *'"decline"'*) t=decline;; *) t=cancel;; esac; "#;
        let said = format!(
            r#"echo "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"$t\"}}]}}}}"; read l"#
        );
        format!("{choose}{said}")
    };
    [script(&format!("{asked}{}", answer(2))), modern_script(&format!("{required}{}", answer(3)))]
}

#[test]
fn a_page_is_visited_only_with_consent() {
    for script in sending() {
        let script: Vec<&str> = script.iter().map(String::as_str).collect();
        let words = |options: &[&'static str]| [&["call", "it"], options, &script].concat();
        for (answer, said) in [("{}", "accept\n"), ("decline", "decline\n"), ("cancel", "cancel\n")] {
            assert_eq!(run(&words(&["--answer-json", answer])).good(), said);
        }
        assert_eq!(
            run(&words(&[])).failed(2),
            "error: the server asks the user to visit `https://example.com/a?b=c`: Sign in\n\
             help: visit it and add `--answer-json '{}'`, or add `--answer-json decline`\n"
        );
        for (keys, said) in [(DOWN.to_owned(), "accept"), (DOWN.repeat(2), "decline"), (DOWN.repeat(3), "cancel")] {
            let mut terminal = Terminal::start(&words(&[]));
            terminal.sees("script asks: Sign in");
            terminal.sees("https://example.com/a?b=c");
            terminal.sees("Open it in the browser");
            terminal.types(&keys);
            terminal.types(ENTER);
            terminal.sees(said);
            assert_eq!(terminal.ends(), 0);
        }
    }
}

#[test]
fn a_call_is_retried_after_a_page_was_visited() {
    let page = r#"{"mode":"url","message":"Sign in","url":"https://example.com/a","elicitationId":"1"}"#;
    let refused = format!(
        r#"echo '{{"jsonrpc":"2.0","id":2,"error":{{"code":-32042,"message":"visit it","data":{{"elicitations":[{page}]}}}}}}'; read l; "#
    );
    let then = r#"echo '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"thank you"}]}}'; read l"#;
    let script = script(&format!("{refused}{then}"));
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let words = |options: &[&'static str]| [&["call", "it"], options, &script].concat();
    assert_eq!(run(&words(&["--answer-json", "{}"])).good(), "thank you\n");
    let message = run(&words(&["--answer-json", "decline"])).failed(1);
    assert!(message.starts_with("error: `it`: visit it (code -32042)\n"), "{message}");

    let mut terminal = Terminal::start(&words(&[]));
    terminal.sees("script asks: Sign in");
    terminal.sees("Open it in the browser");
    terminal.types(&format!("{DOWN}{ENTER}"));
    terminal.sees("Done, continue");
    terminal.types(ENTER);
    terminal.sees("thank you");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn an_invalid_result_is_reported() {
    let script = script(r#"echo '{"jsonrpc":"2.0","id":2,"result":5}'; read l"#);
    let words: Vec<&str> =
        ["call", "it", "--timeout", "5"].into_iter().chain(script.iter().map(String::as_str)).collect();
    assert_eq!(run(&words).failed(3), "error: `it`: the server returned a result of another type\n");
}
