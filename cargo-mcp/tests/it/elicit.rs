//! Elicitation in a terminal, in both revisions that differ in how the server asks.

use std::{thread, time::Duration};

use crate::{
    examples::example,
    servers::{respond_to_call, script},
    terminal::{CTRL_C, DOWN, ENTER, ESCAPE, Terminal},
};

/// A revision in which servers send elicitation requests, and one in which they return them in results.
const ELICITATION_REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

fn call(program: &str, args: &[&str], revision: &str) -> Terminal {
    let program = example(program);
    let program = program.to_str().expect("a path in UTF-8");
    let args = [&["call"], args, &["--revision", revision, "--", program]].concat();
    Terminal::start(&args)
}

#[test]
fn a_form_is_filled_in_and_reviewed() {
    for revision in ELICITATION_REVISIONS {
        let mut terminal = call("ask", &["book_seats", "play=Hamlet"], revision);
        terminal.wait_for("ask asks: Who would like to see Hamlet?");
        terminal.wait_for("Name:");
        terminal.send_keys(ENTER);
        terminal.wait_for("a value is required");
        terminal.send_keys("Ann\r");
        terminal.wait_for("E-mail:");
        terminal.send_keys("nobody\r");
        terminal.wait_for("expected string, email");
        terminal.send_keys("@example.com\r");
        terminal.wait_for("Seats: (2)");
        terminal.send_keys("9\r");
        terminal.wait_for("expected integer, 1 to 8");
        terminal.send_keys("\u{7f}3\r");
        terminal.wait_for("name: Ann");
        terminal.wait_for("email: nobody@example.com");
        terminal.wait_for("seats: 3");
        terminal.wait_for("Send it");
        terminal.send_keys(ENTER);
        terminal.wait_for("Where would you like to sit, Ann?");
        terminal.wait_for("Stalls, near the stage");
        terminal.send_keys(&format!("{DOWN}{ENTER}"));
        let before = terminal.wait_for("A printed programme");
        assert!(!before.contains("(none)"), "the choice is required: {before}");
        terminal.send_keys(&format!(" {ENTER}"));
        terminal.wait_for("area: balcony");
        terminal.wait_for("Send it");
        terminal.send_keys(ENTER);
        terminal.wait_for("3 seats for Hamlet cost 75 francs. Book them?");
        terminal.wait_for("Go ahead:");
        terminal.send_keys("y\r");
        terminal.wait_for("booking 1: 3 seats in the Balcony, with [Wheelchair]; the tickets go to nobody@example.com");
        assert_eq!(terminal.exit_code(), 0, "{revision}");
    }
}

#[test]
fn a_form_can_be_changed_before_it_is_sent() {
    for revision in ELICITATION_REVISIONS {
        let mut terminal = call("ask", &["book_seats", "play=Hamlet"], revision);
        terminal.wait_for("Name:");
        terminal.send_keys("Ann\r");
        terminal.wait_for("E-mail:");
        terminal.send_keys(ENTER);
        terminal.wait_for("Seats:");
        terminal.send_keys(ENTER);
        terminal.wait_for("name: Ann");
        terminal.wait_for("Send it");
        terminal.send_keys(&format!("{DOWN}{ENTER}"));
        terminal.wait_for("Name: (Ann)");
        terminal.send_keys("Bob\r");
        terminal.wait_for("E-mail:");
        terminal.send_keys(ENTER);
        terminal.wait_for("Seats: (2)");
        terminal.send_keys(ENTER);
        terminal.wait_for("name: Bob");
        terminal.wait_for("Send it");
        terminal.send_keys(ENTER);
        terminal.wait_for("Where would you like to sit, Bob?");
        terminal.wait_for("Stalls");
        terminal.send_keys(ESCAPE);
        terminal.wait_for("Decline");
        terminal.send_keys(&format!("{DOWN}{ENTER}"));
        terminal.wait_for("nothing was booked");
        assert_eq!(terminal.exit_code(), 0, "{revision}");
    }
}

#[test]
fn a_question_can_be_declined_or_cancelled() {
    for revision in ELICITATION_REVISIONS {
        for (choice, action) in
            [(DOWN.to_owned(), "decline"), (DOWN.repeat(2), "cancel"), (ESCAPE.to_owned(), "cancel")]
        {
            let mut terminal = call("everything", &["test_elicitation", "message=Who?"], revision);
            terminal.wait_for("username:");
            terminal.send_keys(ESCAPE);
            terminal.wait_for("What would you like to do?");
            terminal.wait_for("Fill in the form");
            terminal.send_keys(&choice);
            if choice != ESCAPE {
                terminal.send_keys(ENTER);
            }
            terminal.wait_for(&format!("User response: action={action}, content={{}}"));
            assert_eq!(terminal.exit_code(), 0, "{revision}");
        }
    }
}

#[test]
fn every_kind_of_field_starts_with_its_default() {
    for revision in ELICITATION_REVISIONS {
        let mut terminal = call("everything", &["test_elicitation_sep1034_defaults"], revision);
        for label in ["name: (John Doe)", "age: (30)", "score: (95.5)", "status:", "verified: (Y/n)"] {
            terminal.wait_for(label);
            if label == "status:" {
                terminal.wait_for("pending");
            }
            terminal.send_keys(ENTER);
        }
        terminal.wait_for("Send it");
        terminal.send_keys(ENTER);
        terminal.wait_for(r#"content={"name":"John Doe","age":30,"score":95.5,"status":"active","verified":true}"#);
        assert_eq!(terminal.exit_code(), 0, "{revision}");
    }
}

#[test]
fn every_kind_of_choice_is_supported() {
    for revision in ELICITATION_REVISIONS {
        let mut terminal = call("everything", &["test_elicitation_sep1330_enums"], revision);
        // Choices are shown by title, or by value if they have none.
        terminal.wait_for("untitledSingle:");
        terminal.wait_for("(none)");
        terminal.send_keys(&format!("{DOWN}{DOWN}{DOWN}{ENTER}"));
        terminal.wait_for("titledSingle:");
        terminal.wait_for("Third Option");
        terminal.send_keys(&format!("{DOWN}{DOWN}{ENTER}"));
        terminal.wait_for("legacyEnum:");
        terminal.wait_for("Option Two");
        terminal.send_keys(&format!("{DOWN}{ENTER}"));
        terminal.wait_for("untitledMulti:");
        terminal.wait_for("option3");
        terminal.send_keys(ENTER);
        terminal.wait_for("titledMulti:");
        terminal.wait_for("Third Option");
        terminal.send_keys(&format!(" {DOWN}{DOWN} {ENTER}"));
        terminal.wait_for("Send it");
        terminal.send_keys(ENTER);
        terminal.wait_for(
            r#""untitledSingle":null,"titledSingle":"value3","legacyEnum":"opt2","untitledMulti":null,"titledMulti":["value1","value3"]"#,
        );
        assert_eq!(terminal.exit_code(), 0, "{revision}");
    }
}

/// Calls a server that asks for a form, and returns `done` if the answer contains a text. Otherwise, it exits.
fn call_with_form(form: &str, answer: &str, options: &[&str]) -> Terminal {
    let params = format!(r#"{{"message":"Which?","requestedSchema":{{"type":"object",{form}}}}}"#);
    let question = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{params}}}"#);
    let check = format!(r#"case "$a" in *'{answer}'*) ;; *) echo "$a" >&2; exit 9;; esac"#);
    let done = respond_to_call(r#"{"content":[{"type":"text","text":"done"}]}"#);
    let server = script(&format!("echo '{question}'; read -r a; {check}; {done}"));
    let args: Vec<&str> =
        ["call", "it"].iter().chain(options).copied().chain(server.iter().map(String::as_str)).collect();
    Terminal::start(&args)
}

#[test]
fn too_few_choices_are_refused() {
    let choices = r#"{"type":"array","minItems":2,"items":{"type":"string","enum":["parking","programme"]}}"#;
    for (required, too_few, enough) in [
        (r#"["extras"]"#, ENTER.to_owned(), format!(" {DOWN} {ENTER}")),
        ("[]", format!(" {ENTER}"), format!("{DOWN} {ENTER}")),
    ] {
        let form = format!(r#""properties":{{"extras":{choices}}},"required":{required}"#);
        let mut terminal = call_with_form(&form, r#""extras":["parking","programme"]"#, &[]);
        terminal.wait_for("extras:");
        terminal.wait_for("programme");
        terminal.send_keys(&too_few);
        terminal.wait_for("at least 2 items");
        terminal.send_keys(&enough);
        terminal.wait_for("done");
        assert_eq!(terminal.exit_code(), 0, "required: {required}");
    }
}

#[test]
fn choices_start_with_their_defaults() {
    let one = r#"{"type":"string","enum":["red","blue"],"default":"blue"}"#;
    let several = r#"{"type":"array","items":{"type":"string","enum":["left","right"]},"default":["right"]}"#;
    let form = format!(r#""properties":{{"one":{one},"several":{several}}}"#);
    let mut terminal = call_with_form(&form, r#""one":"blue","several":["right"]"#, &[]);
    for (label, last) in [("one:", "blue"), ("several:", "right"), ("What would you like to do?", "Send it")] {
        terminal.wait_for(label);
        terminal.wait_for(last);
        terminal.send_keys(ENTER);
    }
    terminal.wait_for("done");
    assert_eq!(terminal.exit_code(), 0);
}

/// Only the silence of the server is limited.
#[test]
fn users_may_take_longer_to_answer_than_servers() {
    let form = r#""properties":{"name":{"type":"string"}}"#;
    let mut terminal = call_with_form(form, r#""name":"Ann""#, &["--timeout", "2"]);
    terminal.wait_for("name:");
    thread::sleep(Duration::from_secs(3));
    terminal.send_keys("Ann\r");
    terminal.wait_for("done");
    assert_eq!(terminal.exit_code(), 0);
}

/// A line of the log would be printed into the prompt.
#[test]
fn messages_are_shown_after_the_prompt() {
    let question = r#"{"jsonrpc":"2.0","id":9,"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}"#;
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a message"}}"#;
    // Lines of stderr are shown at once.
    let server = script(&format!("echo '{question}'; echo '{log}'; sleep 0.2; echo sent >&2; read l; read l"));
    let args: Vec<&str> = ["call", "it"].into_iter().chain(server.iter().map(String::as_str)).collect();
    let mut terminal = Terminal::start(&args);
    let before = terminal.wait_for("sent");
    assert!(!before.contains("a message"), "{before}");
    terminal.send_keys("Ann\r");
    terminal.wait_for("info: a message");
    terminal.send_keys(CTRL_C);
    assert_eq!(terminal.exit_code(), 130);
}

#[test]
fn fields_from_the_command_line_are_not_prompted_for() {
    for revision in ELICITATION_REVISIONS {
        let args = ["test_elicitation", "message=Who?", "--answer", "email=a@b.ch"];
        let mut terminal = call("everything", &args, revision);
        terminal.wait_for("username:");
        terminal.send_keys("ann\r");
        let before = terminal.wait_for(r#"content={"username":"ann","email":"a@b.ch"}"#);
        assert!(!before.contains("email:"), "{before}");
        assert_eq!(terminal.exit_code(), 0, "{revision}");
    }
}

#[test]
fn ctrl_c_in_a_prompt_ends_the_command() {
    for revision in ELICITATION_REVISIONS {
        let mut terminal = call("everything", &["test_elicitation", "message=Who?"], revision);
        terminal.wait_for("username:");
        terminal.send_keys(CTRL_C);
        terminal.wait_for("error: cancelled");
        assert_eq!(terminal.exit_code(), 130, "{revision}");
    }
}

#[test]
fn a_task_can_ask_the_user() {
    for revision in ELICITATION_REVISIONS {
        let mut terminal = call("everything", &["confirm_delete", "filename=x", "--task"], revision);
        terminal.wait_for("`confirm_delete` runs as task");
        terminal.wait_for("Delete x?");
        terminal.wait_for("name:");
        terminal.send_keys(ENTER);
        terminal.wait_for("confirm:");
        terminal.send_keys(ENTER);
        terminal.wait_for("Send it");
        terminal.send_keys(ENTER);
        terminal.wait_for("Deleted x");
        assert_eq!(terminal.exit_code(), 0, "{revision}");
    }
}

#[test]
fn structured_content_is_a_table_in_a_terminal() {
    let args = ["call", "count_notes", "--", example("notes").to_str().expect("a path in UTF-8"), "--db", ":memory:"]
        .map(str::to_owned);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut terminal = Terminal::start(&args);
    terminal.wait_for("│ notes ┆ 0");
    assert_eq!(terminal.exit_code(), 0);
}

#[test]
fn binary_content_is_not_printed_in_a_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = example("everything");
    let args = ["read", "test://static-binary", "--", program.to_str().expect("a path in UTF-8")];
    let mut terminal = Terminal::start_in(directory.path(), &args);
    terminal.wait_for("saved test---static-binary-1.png");
    assert_eq!(terminal.exit_code(), 0);
    assert!(directory.path().join("test---static-binary-1.png").exists());
}
