//! `cargo mcp read`.

use std::fs;

use serde_json::{Value, json};

use crate::{
    check::Server,
    common::{CommandOutput, cargo_mcp, run},
    examples::example,
    servers::HttpServer,
};

fn read(args: &[&str]) -> CommandOutput {
    let program = example("everything");
    run(&[&["read"], args, &["--", program.to_str().expect("a path in UTF-8")]].concat())
}

#[test]
fn text_is_printed_unchanged() {
    let server = HttpServer::start("everything", &[]);
    for revision in ["2025-11-25", "2026-07-28"] {
        for done in [
            read(&["test://static-text", "--revision", revision]),
            run(&["read", &server.url, "test://static-text", "--revision", revision]),
        ] {
            assert_eq!(done.expect_success(), "This is the content of the static text resource.");
        }
    }
    let data: Value = serde_json::from_str(&read(&["test://template/5/data"]).expect_success()).expect("JSON");
    assert_eq!(data["id"], "5");
}

#[test]
fn binary_content_goes_to_a_pipe_or_a_file() {
    let picture = fs::read(crate::common::repository().join("examples/everything/media/pixel.png")).expect("a picture");
    let program = example("everything");
    let output = cargo_mcp(&["read", "test://static-binary", "--", program.to_str().expect("UTF-8")]).output();
    assert_eq!(output.expect("cargo-mcp starts").stdout, picture);

    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("pixel.png");
    let path = file.to_str().expect("UTF-8");
    let done = read(&["test://static-binary", "--output", path]);
    assert_eq!(done.stderr, format!("saved {path}\n"));
    assert_eq!(done.expect_success(), "");
    assert_eq!(fs::read(&file).expect("a file"), picture);

    let again = read(&["test://static-binary", "--output", path]).expect_failure(2);
    let help = "help: existing files are not overwritten; specify another file or a directory\n";
    assert_eq!(again, format!("error: `{path}` already exists\n{help}"));

    let into = directory.path().to_str().expect("UTF-8");
    let done = read(&["test://static-binary", "--output", into]);
    assert_eq!(done.stderr, format!("saved {into}/test---static-binary-1.png\n"));
    for into in [into.to_owned(), format!("{into}/new/")] {
        let done = read(&["test://static-text", "--output", &into]);
        let into = into.trim_end_matches('/');
        assert_eq!(done.stderr, format!("saved {into}/test---static-text-1.txt\n"));
    }

    // Several contents need a directory.
    let contents = json!([{"uri": "a://b", "text": "one"}, {"uri": "a://b", "blob": "dHdv", "mimeType": "image/png"}]);
    let server = Server::new(&json!({
        "resources": [],
        "responses": {"resources/read": {"result": {"contents": contents}}},
    }));
    let done = server.run(&["read", "a://b", "--output", "parts", "--revision", "2025-11-25"]);
    assert_eq!(done.stderr, "saved parts/a---b-1.txt\nsaved parts/a---b-1.png\n");
    assert_eq!(fs::read(server.path("parts/a---b-1.png")).expect("a file"), b"two");
}

#[test]
fn json_prints_the_result_unchanged() {
    let result: Value = serde_json::from_str(&read(&["test://static-text", "--json"]).expect_success()).expect("JSON");
    assert_eq!(result["contents"][0]["mimeType"], "text/plain");
    assert_eq!(result["contents"][0]["uri"], "test://static-text");
}

#[test]
fn similar_uris_are_suggested() {
    for (uri, help) in [
        ("test://static-txt", "did you mean `test://static-text`?"),
        ("test://templat/5/data", "did you mean `test://template/{id}/data`?"),
    ] {
        for (revision, code) in [("2025-11-25", -32002), ("2026-07-28", -32602)] {
            let message = read(&[uri, "--revision", revision]).expect_failure(1);
            assert_eq!(message, format!("error: `{uri}`: resource not found: {uri} (code {code})\nhelp: {help}\n"));
        }
    }
    let resources: Vec<_> = (10..21).map(|at| json!({"uri": format!("a://{at}"), "name": "b"})).collect();
    let listed: Vec<_> = (10..20).map(|at| format!("`a://{at}`")).collect();
    let server = Server::new(&json!({
        "resources": resources,
        "responses": {"resources/read": {"error": {"code": -32002, "message": "not found"}}},
    }));
    assert_eq!(
        server.run(&["read", "none", "--revision", "2025-11-25"]).expect_failure(1),
        format!(
            "error: `none`: not found (code -32002)\n\
             help: available resources: {}, …; `cargo mcp list --resources` lists all\n",
            listed.join(", ")
        )
    );
    let jobs = example("jobs");
    let message = run(&["read", "x://y", "--", jobs.to_str().expect("UTF-8")]).expect_failure(1);
    assert_eq!(
        message,
        "error: `x://y`: method not found: resources/read (code -32601)\nhelp: there are no resources\n"
    );
}

/// The resource may have been deleted. Its own template is no misspelled URI.
#[test]
fn the_template_of_a_missing_resource_is_not_suggested() {
    let notes = example("notes");
    let notes = ["--", notes.to_str().expect("UTF-8"), "--db", ":memory:"];
    for (uri, template) in [("notes://note/7", "notes://note/{id}"), ("notes://note/x", "notes://note/{id}")] {
        let message = run(&[&["read", uri], &notes[..]].concat()).expect_failure(1);
        let (_, help) = message.split_once('\n').expect("two lines");
        assert_eq!(
            help,
            format!("help: the URI matches the template `{template}`; check the values of its variables\n"),
            "{message}"
        );
    }
}

#[test]
fn exactly_one_uri_is_required() {
    // A single word is the URI, even if it could be the URL of a server.
    let message = run(&["read", "https://example.com/a"]).expect_failure(2);
    assert!(message.starts_with("error: this workspace has several servers\n"), "{message}");
    let message = read(&["test://a", "test://b"]).expect_failure(2);
    assert_eq!(
        message,
        "error: expected one URI: `cargo mcp read [SERVER] URI`\nhelp: `cargo mcp list --resources` lists the resources\n"
    );
}
