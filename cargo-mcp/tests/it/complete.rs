//! `cargo mcp complete`.

use serde_json::Value;

use crate::{
    common::{Done, example, run},
    servers::Site,
};

fn complete(name: &str, words: &[&str]) -> Done {
    let program = example(name);
    let mut words = [&["complete"], words, &["--", program.to_str().expect("a path in UTF-8")]].concat();
    if name == "notes" {
        words.extend(["--db", ":memory:"]);
    }
    run(&words)
}

#[test]
fn each_completion_is_a_line() {
    let site = Site::start("everything", &[]);
    for revision in ["2025-11-25", "2026-07-28"] {
        for (value, suggested) in [("par", "paris\npark\nparty\n"), ("te", "test\ntesting\n"), ("x", "")] {
            let words = ["prompt", "test_prompt_with_arguments", "arg1", value, "--revision", revision];
            assert_eq!(complete("everything", &words).good(), suggested);
            assert_eq!(run(&[&["complete", &site.url], &words[..]].concat()).good(), suggested);
        }
    }
}

#[test]
fn templates_and_other_arguments_are_sent() {
    let site = Site::start("notes", &["--db", ":memory:"]);
    for tag in ["shopping", "show"] {
        let tag = format!("tags={tag}");
        run(&["call", &site.url, "add_note", "title=Milk", "body=", &tag]).good();
    }
    for (words, suggested) in [
        (&["resource", "notes://note/{id}", "id"][..], "1\n2\n"),
        (&["resource", "notes://tag/{tag}", "tag", "shop"], "shopping\n"),
        (&["prompt", "summarise", "tag", "sho"], "shopping\nshow\n"),
        (&["prompt", "summarise", "style", "", "--with", "tag=shopping"], "brief\ndetailed\nbullets\n"),
    ] {
        assert_eq!(run(&[&["complete", &site.url], words].concat()).good(), suggested, "{words:?}");
    }
}

#[test]
fn json_is_the_unchanged_result() {
    let result = complete("notes", &["prompt", "summarise", "style", "b", "--json"]).good();
    let result: Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(result["completion"]["values"], serde_json::json!(["brief", "bullets"]));
    assert_eq!(result["completion"]["hasMore"], false);
}

#[test]
fn invalid_names_are_rejected() {
    for (words, message) in [
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
        (&["prompt", "summarise"], "error: expected a name, an argument and an optional value, found 1 words\n"),
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
        assert_eq!(complete("notes", words).failed(2), message, "{words:?}");
    }
}
