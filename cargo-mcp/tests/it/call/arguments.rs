//! Arguments on the command line.

use std::{fs, io::Write, process::Stdio};

use super::call;
use crate::{
    common::{CommandOutput, cargo_mcp},
    examples::example,
};

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
            "error: the name of the tool is missing\nhelp: available tools: `add_note`, `count_notes`, `delete_note`, `search_notes`, `show_board`\n",
        ),
        (&["serach_notes"], "error: unknown tool `serach_notes`\nhelp: did you mean `search_notes`?\n"),
        // With a command, the first word is no package.
        (
            &["hello"],
            "error: unknown tool `hello`\nhelp: available tools: `add_note`, `count_notes`, `delete_note`, `search_notes`, `show_board`\n",
        ),
        (
            &["frobnicate"],
            "error: unknown tool `frobnicate`\nhelp: available tools: `add_note`, `count_notes`, `delete_note`, `search_notes`, `show_board`\n",
        ),
        (
            &["no-such-package", "add_note"],
            "error: unknown tool `no-such-package`\n\
             help: available tools: `add_note`, `count_notes`, `delete_note`, `search_notes`, `show_board`\n\
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
        (
            &["count_notes", "--json", "{\n  x}"],
            "error: `--json`: invalid JSON: key must be a string at byte 3 of line 2\nhelp: use `--raw` to print the result as JSON\n",
        ),
        (
            &["count_notes", "--json", r#"{"a": 18446744073709551616}"#],
            "error: `--json`: `18446744073709551616` has more than 64 bits and cannot be sent exactly\n",
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
