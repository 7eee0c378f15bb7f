//! `cargo mcp complete`.

use serde_json::{Value, json};

use crate::{
    check::Server,
    common::{CommandOutput, cargo_mcp, run},
    examples::{example, listed_server},
    servers::HttpServer,
};

fn complete(name: &str, args: &[&str]) -> CommandOutput {
    let program = example(name);
    let mut args = [&["complete"], args, &["--", program.to_str().expect("a path in UTF-8")]].concat();
    if name == "notes" {
        args.extend(["--db", ":memory:"]);
    }
    run(&args)
}

#[test]
fn completions_are_printed_one_per_line() {
    let server = HttpServer::start("everything", &[]);
    for revision in ["2025-11-25", "2026-07-28"] {
        for (value, expected) in [("par", "paris\npark\nparty\n"), ("te", "test\ntesting\n"), ("x", "")] {
            let args = ["prompt", "test_prompt_with_arguments", "arg1", value, "--revision", revision];
            assert_eq!(complete("everything", &args).expect_success(), expected);
            assert_eq!(run(&[&["complete", &server.url], &args[..]].concat()).expect_success(), expected);
        }
    }
}

#[test]
fn templates_and_other_arguments_are_sent() {
    let server = HttpServer::start("notes", &["--db", ":memory:"]);
    for tag in ["shopping", "show"] {
        let tag = format!("tags={tag}");
        run(&["call", &server.url, "add_note", "title=Milk", "body=", &tag]).expect_success();
    }
    for (args, expected) in [
        (&["resource", "notes://note/{id}", "id"][..], "1\n2\n"),
        (&["resource", "notes://tag/{tag}", "tag", "shop"], "shopping\n"),
        (&["prompt", "summarise", "tag", "sho"], "shopping\nshow\n"),
        (&["prompt", "summarise", "style", "", "--with", "tag=shopping"], "brief\ndetailed\nbullets\n"),
    ] {
        assert_eq!(run(&[&["complete", &server.url], args].concat()).expect_success(), expected, "{args:?}");
    }
}

/// A server chooses completions by the other arguments.
#[test]
fn the_values_of_other_arguments_are_sent() {
    let arguments = json!([{"name": "a"}, {"name": "b"}]);
    let server = Server::new(&json!({"prompts": [{"name": "p", "arguments": arguments}]}));
    let file = server.path("server.json");
    for (options, expected) in [(&[][..], Value::Null), (&["--with", "b=x"], json!({"arguments": {"b": "x"}}))] {
        let program = ["--revision", "2025-11-25", "--", "sh", "-c", "tee requests | \"$@\"", "sh", listed_server()];
        let mut command = cargo_mcp(&[&["complete", "prompt", "p", "a", "v"], options, &program].concat());
        let done = command.arg(&file).current_dir(server.path("")).output().expect("cargo-mcp starts");
        CommandOutput::from(done).expect_success();
        let requests = std::fs::read_to_string(server.path("requests")).expect("a file");
        let request: Value = serde_json::from_str(requests.lines().last().expect("a request")).expect("JSON");
        assert_eq!(request["params"]["argument"], json!({"name": "a", "value": "v"}));
        assert_eq!(request["params"]["context"], expected, "{options:?}");
    }
}

#[test]
fn incomplete_lists_are_noted() {
    for (completion, note) in [
        (
            json!({"values": ["a"], "hasMore": true, "total": 5}),
            "showing 1 of 5; extend the value to narrow the list\n",
        ),
        (json!({"values": ["a"], "hasMore": true}), "showing 1; extend the value to narrow the list\n"),
        (json!({"values": ["a"], "hasMore": false, "total": 1}), ""),
        (json!({"values": ["a"], "total": 1}), ""),
    ] {
        let server = Server::new(&json!({
            "prompts": [{"name": "p", "arguments": [{"name": "a"}]}],
            "responses": {"completion/complete": {"result": {"completion": completion}}},
        }));
        let done = server.run(&["complete", "prompt", "p", "a", "--revision", "2025-11-25"]);
        assert_eq!(done.stderr, note, "{completion}");
        assert_eq!(done.expect_success(), "a\n");
    }
}

#[test]
fn a_server_without_completions_is_reported() {
    let jobs = example("jobs");
    let message = complete("jobs", &["prompt", "x", "y"]).expect_failure(2);
    assert_eq!(message, format!("error: `{}` does not support completion\n", jobs.display()));
}

#[test]
fn json_prints_the_result_unchanged() {
    let result = complete("notes", &["prompt", "summarise", "style", "b", "--json"]).expect_success();
    let result: Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(result["completion"]["values"], serde_json::json!(["brief", "bullets"]));
    assert_eq!(result["completion"]["hasMore"], false);
}

#[test]
fn invalid_names_are_rejected() {
    for (args, message) in [
        (
            &[][..],
            "error: the argument to complete is missing\n\
             help: `cargo mcp complete prompt NAME ARGUMENT VALUE`\n\
             help: `cargo mcp complete resource TEMPLATE ARGUMENT VALUE`\n",
        ),
        (
            &["tool", "x", "y"],
            "error: expected `prompt` or `resource`, found `tool`\nhelp: for example: `cargo mcp complete prompt NAME ARGUMENT VALUE`\n",
        ),
        (&["prompt", "summarise"], "error: expected a name, an argument and an optional value, found 1 word\n"),
        (&["prompt", "sumarise", "tag"], "error: unknown prompt `sumarise`\nhelp: did you mean `summarise`?\n"),
        (
            &["prompt", "summarise", "stile"],
            "error: prompt `summarise` has no argument `stile`\nhelp: did you mean `style`?\n",
        ),
        (
            &["prompt", "summarise", "style", "", "--with", "tagg=x"],
            "error: prompt `summarise` has no argument `tagg`\nhelp: did you mean `tag`?\n",
        ),
        (
            &["resource", "notes://nt/{id}", "id"],
            "error: unknown resource template `notes://nt/{id}`\nhelp: did you mean `notes://note/{id}`?\n",
        ),
        (
            &["resource", "notes://note/{id}", "key"],
            "error: template `notes://note/{id}` has no argument `key`\nhelp: available arguments: `id`\n",
        ),
    ] {
        assert_eq!(complete("notes", args).expect_failure(2), message, "{args:?}");
    }
}
