//! `cargo mcp prompt`.

use serde_json::{Value, json};

use crate::{
    check::Server,
    common::{CommandOutput, run},
    examples::example,
    servers::HttpServer,
};

fn prompt(name: &str, args: &[&str]) -> CommandOutput {
    let program = example(name);
    let mut args = [&["prompt"], args, &["--", program.to_str().expect("a path in UTF-8")]].concat();
    if name == "notes" {
        args.extend(["--db", ":memory:"]);
    }
    run(&args)
}

#[test]
fn messages_are_shown_with_their_roles() {
    let server = HttpServer::start("everything", &[]);
    for revision in ["2025-11-25", "2026-07-28"] {
        let args = ["test_prompt_with_embedded_resource", "resourceUri=test://x", "--revision", revision];
        for done in [prompt("everything", &args), run(&[&["prompt", &server.url], &args[..]].concat())] {
            assert_eq!(
                done.expect_success(),
                "user:\ntest://x (text/plain):\nEmbedded resource content for testing.\n\n\
                 user:\nPlease process the embedded resource above.\n"
            );
        }
    }
}

#[test]
fn the_description_goes_to_stderr() {
    let message = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    let messages = json!([message("user", "Who?"), message("assistant", "Ann.")]);
    let server = Server::new(&json!({
        "prompts": [{"name": "ask"}],
        "responses": {"prompts/get": {"result": {"description": "A dialogue.", "messages": messages}}},
    }));
    let done = server.run(&["prompt", "ask", "--revision", "2025-11-25"]);
    assert_eq!(done.stderr, "A dialogue.\n");
    assert_eq!(done.expect_success(), "user:\nWho?\n\nassistant:\nAnn.\n");
}

#[test]
fn images_are_saved() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    let done = prompt("everything", &["test_prompt_with_image", "--output", path]);
    assert_eq!(done.stderr, format!("saved {path}/test_prompt_with_image-1.png\n"));
    assert_eq!(done.expect_success(), "user:\n\nuser:\nPlease analyze the image above.\n");
}

#[test]
fn arguments_are_strings() {
    let shown = prompt("everything", &["test_prompt_with_arguments", "arg1=5", "arg2=true"]).expect_success();
    assert_eq!(shown, "user:\nPrompt with arguments: arg1='5', arg2='true'\n");
}

#[test]
fn json_prints_the_result_unchanged() {
    let shown = prompt("everything", &["test_simple_prompt", "--json"]).expect_success();
    let result: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(result["messages"][0]["role"], "user");
    assert_eq!(result["messages"][0]["content"]["text"], "This is a simple prompt for testing.");
}

#[test]
fn a_prompt_can_ask_the_user() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let args = ["test_input_required_result_prompt", "--answer", "context=cats", "--revision", revision];
        assert_eq!(prompt("everything", &args).expect_success(), "user:\nPlease help me with this: cats\n");
    }
}

#[test]
fn invalid_names_and_arguments_are_rejected() {
    for (args, code, message) in [
        (
            &[][..],
            2,
            "error: the name of the prompt is missing\nhelp: available prompts: `summarise`, `weekly_review`\n",
        ),
        (&["sumarise"], 2, "error: unknown prompt `sumarise`\nhelp: did you mean `summarise`?\n"),
        (
            &["summarise", "stile=brief"],
            2,
            "error: prompt `summarise`: 3 invalid arguments\n  \
             - missing argument `tag` (string)\n  \
             - missing argument `style` (string)\n  \
             - unknown argument `stile`; did you mean `style`?\n",
        ),
        (
            &["summarise", "tag:=5", "style=brief"],
            2,
            "error: prompt `summarise`: argument `tag`: expected string, the type of all prompt arguments\n",
        ),
        (
            &["summarise", "tag=x", "style=breif"],
            1,
            "error: prompt `summarise`: invalid params: invalid arguments for `summarise`:\n\
             - `style`: \"breif\" must be one of \"brief\", \"detailed\", \"bullets\" (did you mean \"brief\"?) (code -32602)\n",
        ),
    ] {
        assert_eq!(prompt("notes", args).expect_failure(code), message, "{args:?}");
    }
    let message = prompt("jobs", &["x"]).expect_failure(2);
    assert_eq!(message, "error: unknown prompt `x`\nhelp: there are no prompts\n");
}
