//! Requests of the server that the command line answers: forms, sampling and roots.

use serde_json::{Value, json};

use super::{ELICITATION_REVISIONS, assert_call, call, call_script};
use crate::servers::{modern_script, respond_to_call, script};

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
        "--answer=seats:=3",
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

/// A form is not sent if the command line answers another one.
#[test]
fn defaults_do_not_count_as_answers() {
    let expected = "error: the server asks: Please review and update the form fields with defaults\n\
                    help: `--answer name=…` is missing (string)\n\
                    help: `--answer age=…` is missing (integer)\n\
                    help: `--answer score=…` is missing (number)\n\
                    help: `--answer status=…` is missing (one of `active`, `inactive`, `pending`)\n\
                    help: `--answer verified=…` is missing (boolean)\n";
    assert_call("everything", &["test_elicitation_sep1034_defaults", "--answer", "colour=red"], Err((2, expected)));
}

#[test]
fn unused_answers_are_reported() {
    let note = "note: `the last 1 of --answer-json` was not used, because the server did not ask for it\n";
    let args = ["greet", "name=Ann", "--answer-json", "decline"];
    assert_call("everything", &args, Ok(("Hello, Ann!\n", note)));
}

/// Only a missing capability is explained.
#[test]
fn an_error_of_a_declared_capability_is_not_explained() {
    let result = r#"{"content":[{"type":"text","text":"the roots are empty"}],"isError":true}"#;
    let script = script(&respond_to_call(result));
    for (options, help) in
        [(&["--root", "."][..], ""), (&[], "help: the server requests roots: pass them with `--root DIR`\n")]
    {
        let failed = call_script(&script, options).expect_failure(1);
        assert_eq!(failed, format!("error: `it` failed: the roots are empty\n{help}"));
    }
}

/// Some servers ask without looking at the capabilities.
#[test]
fn a_request_without_an_answer_is_refused() {
    let request =
        r#"{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}}"#;
    let script =
        script(&format!("echo '{request}'; read -r a; echo \"$a\" >&2; {}", respond_to_call(r#"{"content":[]}"#)));
    let done = call_script(&script, &[]);
    assert!(done.stderr.contains("sampling is not available; `--sample TEXT` provides a response"), "{done:?}");
    done.expect_success();
}

#[test]
fn roots_are_the_uris_of_directories() {
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path().canonicalize().expect("the path exists");
    let path = directory.to_str().expect("UTF-8");
    let (uri, name) = (format!("file://{path}"), directory.file_name().expect("a name").to_str().expect("UTF-8"));
    let request = r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#;
    let script =
        script(&format!("echo '{request}'; read -r a; echo \"$a\" >&2; {}", respond_to_call(r#"{"content":[]}"#)));
    for (root, expected) in [
        (path.to_owned(), json!({"uri": uri, "name": name})),
        (format!("{path}/"), json!({"uri": uri, "name": name})),
        ("/".to_owned(), json!({"uri": "file:///"})),
    ] {
        let done = call_script(&script, &["--root", &root]);
        let answer: Value = serde_json::from_str(done.stderr.lines().next().expect("an answer")).expect("JSON");
        assert_eq!(answer["result"]["roots"], json!([expected]), "{root}");
        done.expect_success();
    }
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

/// A server that is never satisfied must not be answered forever.
#[test]
fn the_number_of_rounds_is_bounded() {
    let asked = r#""resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}"#;
    let done = r#""resultType":"complete","content":[]"#;
    let respond = |result: &str| {
        let result = result.replace('"', r#"\""#);
        format!(r#"echo "{{\"jsonrpc\":\"2.0\",\"id\":$i,\"result\":{{{result}}}}}"; read l"#)
    };
    let then = format!("i=2; while [ $i -lt 99 ]; do {}; i=$((i+1)); done; {}", respond(asked), respond(done));
    let failed = call_script(&modern_script(&then), &["--root", "."]).expect_failure(3);
    assert_eq!(failed, "error: `it`: the server required input 64 times without a result\n");
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
