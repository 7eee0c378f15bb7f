//! `cargo mcp call`.

mod answers;
mod arguments;
mod lifetime;
mod pages;

use std::{fs, path::Path, process::Stdio};

use serde_json::{Value, json};

use crate::{
    common::{CommandOutput, cargo_mcp, repository, run},
    examples::{example, listed_server},
    servers::{HttpServer, respond_to_call, script},
    terminal::Terminal,
};

/// A revision in which servers send elicitation requests, and one in which they return them in results.
const ELICITATION_REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

fn call(name: &str, args: &[&str]) -> CommandOutput {
    let program = example(name);
    let mut args = [&["call"], args, &["--", program.to_str().expect("a path in UTF-8")]].concat();
    if name == "notes" {
        args.extend(["--db", ":memory:"]);
    }
    // The server warns of deprecated features on the same stderr.
    let filter = "warn,mcp_runtime::deprecated=off";
    cargo_mcp(&args).env("RUST_LOG", filter).output().expect("cargo-mcp starts").into()
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
fn structured_content_that_violates_its_schema_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("server.json");
    let schema = json!({"type": "object", "properties": {"celsius": {"type": "number"}}});
    let warning = "warning: `it`: invalid `structuredContent/celsius`: value is not of type \"number\"\n";
    for (celsius, is_error, expected) in
        [(json!(3), false, ""), (json!("warm"), false, warning), (json!("warm"), true, "")]
    {
        let result = json!({"content": [], "structuredContent": {"celsius": celsius}, "isError": is_error});
        let server = json!({
            "tools": [{"name": "it", "inputSchema": {"type": "object"}, "outputSchema": schema}],
            "responses": {"tools/call": {"result": result}},
        });
        fs::write(&file, server.to_string()).expect("the file is written");
        for options in [&["--raw"][..], &[]] {
            let server = ["--", listed_server(), file.to_str().expect("UTF-8")];
            let done = run(&[&["call", "it", "--revision", "2025-11-25"], options, &server].concat());
            assert_eq!(done.code, Some(i32::from(is_error)), "{done:?}");
            assert!(done.stdout.contains("celsius"), "{done:?}");
            assert_eq!(done.stderr.split_once("error: ").map_or(&*done.stderr, |(before, _)| before), expected);
        }
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

/// Calls the tool of a script.
fn call_script(script: &[String], options: &[&str]) -> CommandOutput {
    let args: Vec<&str> =
        ["call", "it"].iter().chain(options).copied().chain(script.iter().map(String::as_str)).collect();
    run(&args)
}

#[test]
fn an_invalid_result_is_reported() {
    let script = script(r#"echo '{"jsonrpc":"2.0","id":2,"result":5}'; read l"#);
    let done = call_script(&script, &["--timeout", "5"]);
    assert_eq!(done.expect_failure(3), "error: `it`: the server returned a result of the wrong type\n");
}

/// Servers repeat texts in structured content, and names in errors.
#[test]
fn nothing_is_printed_twice() {
    let result = r#"{"content":[{"type":"text","text":"done"}],"structuredContent":{"result":"done"}}"#;
    assert_eq!(call_script(&script(&respond_to_call(result)), &[]).expect_success(), "done\n");
    for text in ["`it` failed: not today", "not today"] {
        let result = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}],"isError":true}}"#);
        let failed = call_script(&script(&respond_to_call(&result)), &[]).expect_failure(1);
        assert_eq!(failed, "error: `it` failed: not today\n");
    }
}

/// Servers show warnings unless the user wants to see something else.
#[cfg(unix)]
#[test]
fn the_log_level_of_a_program_can_be_set() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = ["--", "sh", "-c", "printf '%s' \"$RUST_LOG\" > level"];
    for (options, variable, expected) in [
        (&[][..], None, "warn"),
        (&[], Some("info"), "info"),
        (&["--env", "RUST_LOG=debug"], None, "debug"),
        (&["--env", "RUST_LOG=debug"], Some("info"), "debug"),
    ] {
        let mut command = cargo_mcp(&[&["call", "it"], options, &server].concat());
        command.env_remove("RUST_LOG").envs(variable.map(|level| ("RUST_LOG", level)));
        let done = command.current_dir(directory.path()).output().expect("cargo-mcp starts");
        CommandOutput::from(done).expect_failure(3);
        let level = fs::read_to_string(directory.path().join("level")).expect("a file");
        assert_eq!(level, expected, "{options:?} {variable:?}");
    }
}

#[cfg(unix)]
#[test]
fn only_what_the_options_provide_is_declared() {
    let directory = tempfile::tempdir().expect("a directory");
    for (options, expected) in [
        (&["--answer", "a=b"][..], json!({"elicitation": {"form": {}}})),
        (&["--answer-json", "decline"], json!({"elicitation": {"form": {}, "url": {}}})),
        (&["--sample", "text"], json!({"sampling": {}})),
        (&["--root", "."], json!({"roots": {}})),
        (&[], json!({})),
    ] {
        let server = ["--revision", "2025-11-25", "--", "sh", "-c", "read -r l; printf '%s' \"$l\" > request"];
        let args = [&["call", "it"][..], options, &server].concat();
        let done = cargo_mcp(&args).current_dir(directory.path()).output().expect("cargo-mcp starts");
        CommandOutput::from(done).expect_failure(3);
        let request = fs::read_to_string(directory.path().join("request")).expect("a file");
        let request: Value = serde_json::from_str(&request).expect("JSON");
        assert_eq!(request["params"]["capabilities"], expected, "{options:?}");
    }
}
