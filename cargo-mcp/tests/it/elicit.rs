//! Questions from the server, answered in a terminal, in both generations.

use crate::{
    common::example,
    terminal::{CTRL_C, DOWN, ENTER, ESCAPE, Terminal},
};

/// A revision in which questions are requests, and one in which they are results.
const GENERATIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

fn call(program: &str, words: &[&str], revision: &str) -> Terminal {
    let program = example(program);
    let program = program.to_str().expect("a path in UTF-8");
    let words = [&["call"], words, &["--revision", revision, "--", program]].concat();
    Terminal::start(&words)
}

#[test]
fn a_form_is_filled_in_and_reviewed() {
    for revision in GENERATIONS {
        let mut terminal = call("ask", &["book_seats", "play=Hamlet"], revision);
        terminal.sees("ask asks: Who would like to see Hamlet?");
        terminal.sees("Name:");
        terminal.types(ENTER);
        terminal.sees("a value is required");
        terminal.types("Ann\r");
        terminal.sees("E-mail:");
        terminal.types("nobody\r");
        terminal.sees("expected string, email");
        terminal.types("@example.com\r");
        terminal.sees("Seats: (2)");
        terminal.types("9\r");
        terminal.sees("expected integer, 1 to 8");
        terminal.types("\u{7f}3\r");
        terminal.sees("email: nobody@example.com");
        terminal.sees("name: Ann");
        terminal.sees("seats: 3");
        terminal.sees("Send it");
        terminal.types(ENTER);
        terminal.sees("Where would you like to sit, Ann?");
        terminal.sees("Stalls, near the stage");
        terminal.types(&format!("{DOWN}{ENTER}"));
        terminal.sees("A printed programme");
        terminal.types(&format!(" {ENTER}"));
        terminal.sees("area: balcony");
        terminal.sees("Send it");
        terminal.types(ENTER);
        terminal.sees("3 seats for Hamlet cost 75 francs. Book them?");
        terminal.sees("Go ahead:");
        terminal.types("y\r");
        terminal.sees("booking 1: 3 seats in the Balcony, with [Wheelchair]; the tickets go to nobody@example.com");
        assert_eq!(terminal.ends(), 0, "{revision}");
    }
}

#[test]
fn a_form_can_be_changed_before_it_is_sent() {
    for revision in GENERATIONS {
        let mut terminal = call("ask", &["book_seats", "play=Hamlet"], revision);
        terminal.sees("Name:");
        terminal.types("Ann\r");
        terminal.sees("E-mail:");
        terminal.types(ENTER);
        terminal.sees("Seats:");
        terminal.types(ENTER);
        terminal.sees("name: Ann");
        terminal.sees("Send it");
        terminal.types(&format!("{DOWN}{ENTER}"));
        terminal.sees("Name: (Ann)");
        terminal.types("Bob\r");
        terminal.sees("E-mail:");
        terminal.types(ENTER);
        terminal.sees("Seats: (2)");
        terminal.types(ENTER);
        terminal.sees("name: Bob");
        terminal.sees("Send it");
        terminal.types(ENTER);
        terminal.sees("Where would you like to sit, Bob?");
        terminal.sees("Stalls");
        terminal.types(ESCAPE);
        terminal.sees("Decline");
        terminal.types(&format!("{DOWN}{ENTER}"));
        terminal.sees("nothing was booked");
        assert_eq!(terminal.ends(), 0, "{revision}");
    }
}

#[test]
fn a_question_can_be_declined_or_cancelled() {
    for revision in GENERATIONS {
        for (choice, action) in
            [(DOWN.to_owned(), "decline"), (DOWN.repeat(2), "cancel"), (ESCAPE.to_owned(), "cancel")]
        {
            let mut terminal = call("everything", &["test_elicitation", "message=Who?"], revision);
            terminal.sees("username:");
            terminal.types(ESCAPE);
            terminal.sees("What would you like to do?");
            terminal.sees("Fill in the form");
            terminal.types(&choice);
            if choice != ESCAPE {
                terminal.types(ENTER);
            }
            terminal.sees(&format!("User response: action={action}, content={{}}"));
            assert_eq!(terminal.ends(), 0, "{revision}");
        }
    }
}

#[test]
fn every_kind_of_field_starts_with_its_default() {
    for revision in GENERATIONS {
        let mut terminal = call("everything", &["test_elicitation_sep1034_defaults"], revision);
        for label in ["age: (30)", "name: (John Doe)", "score: (95.5)", "status:", "verified: (Y/n)"] {
            terminal.sees(label);
            if label == "status:" {
                terminal.sees("pending");
            }
            terminal.types(ENTER);
        }
        terminal.sees("Send it");
        terminal.types(ENTER);
        terminal.sees(r#"content={"name":"John Doe","age":30,"score":95.5,"status":"active","verified":true}"#);
        assert_eq!(terminal.ends(), 0, "{revision}");
    }
}

#[test]
fn every_kind_of_choice_is_supported() {
    for revision in GENERATIONS {
        let mut terminal = call("everything", &["test_elicitation_sep1330_enums"], revision);
        // Choices are shown by title, or by value if they have none.
        terminal.sees("legacyEnum:");
        terminal.sees("Option Two");
        terminal.types(&format!("{DOWN}{ENTER}"));
        terminal.sees("titledMulti:");
        terminal.sees("Third Option");
        terminal.types(&format!(" {DOWN}{DOWN} {ENTER}"));
        terminal.sees("titledSingle:");
        terminal.sees("Third Option");
        terminal.types(&format!("{DOWN}{DOWN}{ENTER}"));
        terminal.sees("untitledMulti:");
        terminal.sees("option3");
        terminal.types(ENTER);
        terminal.sees("untitledSingle:");
        terminal.sees("(none)");
        terminal.types(&format!("{DOWN}{DOWN}{DOWN}{ENTER}"));
        terminal.sees("Send it");
        terminal.types(ENTER);
        terminal.sees(
            r#""untitledSingle":null,"titledSingle":"value3","legacyEnum":"opt2","untitledMulti":null,"titledMulti":["value1","value3"]"#,
        );
        assert_eq!(terminal.ends(), 0, "{revision}");
    }
}

#[test]
fn fields_from_the_command_line_are_not_prompted_for() {
    for revision in GENERATIONS {
        let words = ["test_elicitation", "message=Who?", "--answer", "email=a@b.ch"];
        let mut terminal = call("everything", &words, revision);
        terminal.sees("username:");
        terminal.types("ann\r");
        let before = terminal.sees(r#"content={"username":"ann","email":"a@b.ch"}"#);
        assert!(!before.contains("email:"), "{before}");
        assert_eq!(terminal.ends(), 0, "{revision}");
    }
}

#[test]
fn ctrl_c_in_a_prompt_ends_the_command() {
    for revision in GENERATIONS {
        let mut terminal = call("everything", &["test_elicitation", "message=Who?"], revision);
        terminal.sees("username:");
        terminal.types(CTRL_C);
        terminal.sees("error: cancelled");
        assert_eq!(terminal.ends(), 130, "{revision}");
    }
}

#[test]
fn a_task_can_ask_the_user() {
    for revision in GENERATIONS {
        let mut terminal = call("everything", &["confirm_delete", "filename=x", "--task"], revision);
        terminal.sees("`confirm_delete` runs as task");
        terminal.sees("Delete x?");
        terminal.sees("confirm:");
        terminal.types(ENTER);
        terminal.sees("name:");
        terminal.types(ENTER);
        terminal.sees("Send it");
        terminal.types(ENTER);
        terminal.sees("Deleted x");
        assert_eq!(terminal.ends(), 0, "{revision}");
    }
}

#[test]
fn structured_content_is_a_table_in_a_terminal() {
    let words = ["call", "count_notes", "--", example("notes").to_str().expect("a path in UTF-8"), "--db", ":memory:"]
        .map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut terminal = Terminal::start(&words);
    terminal.sees("│ notes ┆ 0");
    assert_eq!(terminal.ends(), 0);
}

#[test]
fn binary_content_is_not_printed_in_a_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = example("everything");
    let words = ["read", "test://static-binary", "--", program.to_str().expect("a path in UTF-8")];
    let mut terminal = Terminal::start_in(directory.path(), &words);
    terminal.sees("saved test---static-binary-1.png");
    assert_eq!(terminal.ends(), 0);
    assert!(directory.path().join("test---static-binary-1.png").exists());
}
