//! Requests of the server that the command line answers: forms, sampling and roots.

use super::{ELICITATION_REVISIONS, assert_call, call};

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
