//! `cargo mcp prompt`.

use serde_json::Value;

use crate::{
    common::{Done, example, run},
    servers::Site,
};

fn prompt(name: &str, words: &[&str]) -> Done {
    let program = example(name);
    let mut words = [&["prompt"], words, &["--", program.to_str().expect("a path in UTF-8")]].concat();
    if name == "notes" {
        words.extend(["--db", ":memory:"]);
    }
    run(&words)
}

#[test]
fn messages_are_shown_with_their_roles() {
    let site = Site::start("everything", &[]);
    for revision in ["2025-11-25", "2026-07-28"] {
        let words = ["test_prompt_with_embedded_resource", "resourceUri=test://x", "--revision", revision];
        for done in [prompt("everything", &words), run(&[&["prompt", &site.url], &words[..]].concat())] {
            assert_eq!(
                done.good(),
                "user:\ntest://x (text/plain):\nEmbedded resource content for testing.\n\n\
                 user:\nPlease process the embedded resource above.\n"
            );
        }
    }
}

#[test]
fn images_are_saved() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    let done = prompt("everything", &["test_prompt_with_image", "--output", path]);
    assert_eq!(done.stderr, format!("saved {path}/test_prompt_with_image-1.png\n"));
    assert_eq!(done.good(), "user:\n\nuser:\nPlease analyze the image above.\n");
}

#[test]
fn arguments_are_strings() {
    let shown = prompt("everything", &["test_prompt_with_arguments", "arg1=5", "arg2=true"]).good();
    assert_eq!(shown, "user:\nPrompt with arguments: arg1='5', arg2='true'\n");
}

#[test]
fn json_is_the_unchanged_result() {
    let shown = prompt("everything", &["test_simple_prompt", "--json"]).good();
    let result: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(result["messages"][0]["role"], "user");
    assert_eq!(result["messages"][0]["content"]["text"], "This is a simple prompt for testing.");
}

#[test]
fn a_prompt_can_ask_the_user() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let words = ["test_input_required_result_prompt", "--answer", "context=cats", "--revision", revision];
        assert_eq!(prompt("everything", &words).good(), "user:\nPlease help me with this: cats\n");
    }
}

#[test]
fn invalid_names_and_arguments_are_rejected() {
    for (words, code, message) in [
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
        assert_eq!(prompt("notes", words).failed(code), message, "{words:?}");
    }
    let message = prompt("jobs", &["x"]).failed(2);
    assert_eq!(message, "error: unknown prompt `x`\nhelp: there are no prompts\n");
}
