//! `cargo mcp list`.

use serde_json::{Map, Value, json};

use crate::{
    common::run,
    examples::{example, listed_server},
    servers::{HttpServer, script},
};

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

fn list(name: &str, options: &[&str]) -> String {
    let program = example(name);
    let program = program.to_str().expect("a path in UTF-8");
    let mut args = [&["list"], options, &["--", program]].concat();
    if name == "notes" {
        args.extend(["--db", ":memory:"]);
    }
    run(&args).expect_success()
}

#[test]
fn all_lists_are_printed() {
    let expected = "\
Notebook (notes 0.1.0), MCP 2026-07-28
  Notes are Markdown with labels. Search before adding a note to avoid duplicates.

Tools
  add_note(title, body, tags?)  Add a note  [additive]
      Write a note.
      title  string, 1 to 200 characters  A title of one line.
      body   string  The text, in Markdown.
      tags?  array of (string, at most 40 characters, like `^[a-z0-9-]+$`), at most 10 items (default [])  Labels to find the note by.
  count_notes()  Count notes  [read-only]
      Count the notes and the labels in use.
  delete_note(id)  Delete a note  [destructive, idempotent]
      Delete a note permanently.
      id  integer  The number of the note.
  search_notes(query, limit?, tag?)  Search notes  [read-only]
      Find notes whose title or body contains a text.
      query   string  The text to search for, ignoring case.
      limit?  integer, 1 to 100 (default 10)  The maximum number of notes to return.
      tag?    string, at most 40 characters, like `^[a-z0-9-]+$`  Only notes with this label.
  show_board()  Show the board  [read-only]
      Show the board of all notes to the user.

Resources
  notes://all  index  [text/markdown]
      A table of contents of all notes.
  ui://notes/board  Board  [text/html;profile=mcp-app]
      A board of all notes.

Resource templates
  notes://note/{id}  note  [application/json]
      One note.
  notes://tag/{tag}  notes_with_tag  [text/markdown]
      The notes with one label.

Prompts
  summarise(tag, style)  Summarise notes
      Ask for a summary of the notes with one label.
      tag    The label.
      style  The length of the summary. (one of `brief`, `detailed`, `bullets`)
  weekly_review()  Weekly review
      Ask for a review of the week.
";
    assert_eq!(list("notes", &[]), expected);
}

#[test]
fn every_revision_is_supported_over_both_transports() {
    let server = HttpServer::start("notes", &["--db", ":memory:"]);
    for revision in REVISIONS {
        for listed in [
            list("notes", &["--revision", revision]),
            run(&["list", &server.url, "--revision", revision]).expect_success(),
        ] {
            assert!(listed.lines().next().is_some_and(|line| line.ends_with(&format!("MCP {revision}"))), "{listed}");
            for name in ["add_note(title, body, tags?)", "notes://all", "notes://note/{id}", "summarise(tag, style)"] {
                assert!(listed.contains(name), "{revision} {name}: {listed}");
            }
        }
    }
}

#[test]
fn lists_can_be_selected() {
    for (options, headings) in [
        (&[][..], &["Tools", "Resources", "Resource templates", "Prompts"][..]),
        (&["--tools"], &["Tools"]),
        (&["--resources"], &["Resources", "Resource templates"]),
        (&["--prompts"], &["Prompts"]),
        (&["--tools", "--prompts"], &["Tools", "Prompts"]),
    ] {
        let listed = list("notes", options);
        let found: Vec<_> = listed.split("\n\n").skip(1).filter_map(|part| part.lines().next()).collect();
        assert_eq!(found, headings, "{options:?}");
    }
}

#[test]
fn only_declared_lists_are_requested() {
    let listed = list("jobs", &[]);
    assert!(listed.contains("\nTools\n") && !listed.contains("Prompts") && !listed.contains("Resources"), "{listed}");
    // This server responds only to `tools/list`.
    let script = script("cat >/dev/null");
    let args: Vec<&str> = ["list"].into_iter().chain(script.iter().map(String::as_str)).collect();
    assert_eq!(run(&args).expect_success(), "script 1, MCP 2025-11-25\n\nTools\n  it()\n");
}

#[test]
fn an_error_does_not_hide_the_other_lists() {
    let respond = |id: u8, what: &str| format!(r#"read l; echo '{{"jsonrpc":"2.0","id":{id},{what}}}'; "#);
    let error = r#""error":{"code":-32603,"message":"not today"}"#;
    let script = [
        respond(
            0,
            r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"script","version":"1"}}"#,
        ),
        "read l; ".to_owned(),
        respond(1, r#""result":{"tools":[{"name":"it","inputSchema":{"type":"object"}}]}"#),
        respond(2, error),
        respond(3, r#""result":{"resourceTemplates":[{"name":"one","uriTemplate":"a://{b}"}]}"#),
        respond(4, error),
        "cat >/dev/null".to_owned(),
    ]
    .concat();
    let errors = "error: resources/list: not today (code -32603)\nerror: prompts/list: not today (code -32603)\n";
    let list = |options: &[&str]| {
        run(&[&["list", "--revision", "2025-11-25"], options, &["--", "sh", "-c", &script]].concat())
    };
    let shown = list(&[]);
    assert_eq!(shown.stdout, "script 1, MCP 2025-11-25\n\nTools\n  it()\n\nResource templates\n  a://{b}  one\n");
    assert_eq!(shown.expect_failure(1), errors);

    let raw = list(&["--json"]);
    let listed: Value = serde_json::from_str(&raw.stdout).expect("JSON");
    let names: Vec<_> = listed.as_object().expect("an object").keys().collect();
    assert_eq!(names, ["server", "tools", "resourceTemplates"]);
    assert_eq!(raw.expect_failure(1), errors);
}

#[test]
fn a_deprecation_is_printed_after_the_first_line() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("server.json");
    for (description, expected) in [
        ("Find notes.\n\nIgnores case.\n\nDeprecated: use `search`", "Find notes.\n      Deprecated: use `search`"),
        ("Deprecated since 2.0.0", "Deprecated since 2.0.0"),
        ("Find notes.\n\nDeprecates nothing.", "Find notes."),
    ] {
        let tool = json!({"name": "find", "description": description, "inputSchema": {"type": "object"}});
        std::fs::write(&file, json!({"revisions": ["2025-11-25"], "tools": [tool]}).to_string()).expect("a file");
        let listed = run(&["list", "--tools", "--", listed_server(), &file.to_string_lossy()]).expect_success();
        assert!(listed.ends_with(&format!("Tools\n  find()\n      {expected}\n")), "{listed}");
    }
}

#[test]
fn optional_members_are_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("server.json");
    let schema = json!({"type": "object", "properties": {"x": {"type": "string", "default": null}}});
    let server = json!({
        "revisions": ["2025-11-25"],
        "tools": [
            {
                "name": "read",
                "inputSchema": schema,
                "annotations": {"readOnlyHint": true, "destructiveHint": true, "idempotentHint": true, "openWorldHint": true},
            },
            {
                "name": "write",
                "inputSchema": {"type": "object"},
                "annotations": {"title": "Write", "idempotentHint": true, "openWorldHint": false},
            },
        ],
        "resources": [{"uri": "test:a", "name": "a", "size": 3}],
        // Some servers have resources and no templates.
        "responses": {"resources/templates/list": {"error": {"code": -32601, "message": "what?"}}},
        "prompts": [{"name": "ask", "arguments": [
            {"name": "x"},
            {"name": "y", "required": false},
            {"name": "z", "title": "Zed", "required": true},
        ]}],
    });
    std::fs::write(&file, server.to_string()).expect("a file");
    let expected = "bad 1.0.0, MCP 2025-11-25

Tools
  read(x?)  [read-only, open-world]
      x?  string
  write()  Write  [idempotent, closed-world]

Resources
  test:a  a  [3 bytes]

Prompts
  ask(x?, y?, z)
      x?
      y?
      z   Zed
";
    assert_eq!(run(&["list", "--", listed_server(), &file.to_string_lossy()]).expect_success(), expected);
}

#[test]
fn json_prints_the_lists_unchanged() {
    let listed: Value = serde_json::from_str(&list("notes", &["--json"])).expect("JSON");
    assert_eq!(listed["server"]["protocolVersion"], "2026-07-28");
    assert_eq!(listed["server"]["serverInfo"]["title"], "Notebook");
    assert_eq!(listed["tools"][0]["inputSchema"]["required"], json!(["title", "body"]));
    assert_eq!(listed["resources"][0]["uri"], "notes://all");
    assert_eq!(listed["resourceTemplates"][0]["uriTemplate"], "notes://note/{id}");
    assert_eq!(listed["prompts"][0]["arguments"][0]["name"], "tag");

    let tools: Value = serde_json::from_str(&list("notes", &["--json", "--tools"])).expect("JSON");
    assert_eq!(tools["tools"], listed["tools"]);
    assert_eq!(tools.get("prompts"), None);
}

/// Lists the tool of a server with these properties of arguments and these definitions.
fn list_tool(properties: Value, definitions: Value) -> String {
    let schema = json!({"type": "object", "properties": properties, "required": ["to"], "$defs": definitions});
    let tools = json!({"tools": [{"name": "ship", "inputSchema": schema}]});
    let server = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "script", "version": "1"},
    });
    let respond = |id: u8, result: Value| {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
        format!("read l; cat <<'END'\n{message}\nEND\n")
    };
    let script = [respond(0, server), "read l\n".to_owned(), respond(1, tools), "cat >/dev/null".to_owned()].concat();
    let listed = run(&["list", "--revision", "2025-11-25", "--", "sh", "-c", &script]).expect_success();
    listed.split_once("Tools\n").expect("tools").1.to_owned()
}

#[test]
fn the_fields_of_objects_are_shown() {
    let definitions = json!({
        "Place": {
            "type": "object",
            "required": ["city"],
            "properties": {
                "city": {"type": "string", "description": "The city.\nOr the town."},
                "zip": {"type": "string", "maxLength": 5},
                "near": {"$ref": "#/$defs/Place"},
            },
        },
        "Item": {"type": "object", "properties": {"name": {"type": "string"}, "size": {"$ref": "#/$defs/Size"}}},
        "Size": {"type": "object", "properties": {"width": {"type": "integer", "default": 1}}},
    });
    let properties = json!({
        "to": {"$ref": "#/$defs/Place"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "minItems": 1, "description": "What to ship."},
        "via": {"anyOf": [{"$ref": "#/$defs/Size"}, {"type": "object", "properties": {"ship": {"type": "string"}}}]},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    });
    let expected = "\x20 ship(to, items?, via?, labels?)
      to       object
        city   string  The city.
        zip?   string, at most 5 characters
        near?  object
      items?   array of object, at least 1 item  What to ship.
        name?  string
        size?  object
          width?  integer (default 1)
      via?     object
        width?  integer (default 1)
        or
        ship?  string
      labels?  object
";
    assert_eq!(list_tool(properties, definitions), expected);
}

/// A small schema can describe more fields than a terminal can show.
#[test]
fn the_number_of_fields_shown_is_limited() {
    let level = |next: &str| {
        let properties: Map<String, Value> =
            (0..30).map(|field| (format!("f{field}"), json!({"$ref": format!("#/$defs/{next}")}))).collect();
        json!({"type": "object", "properties": properties})
    };
    let definitions = json!({"A": level("B"), "B": level("C"), "C": level("D"), "D": level("E"), "E": level("F")});
    let listed = list_tool(json!({"to": {"$ref": "#/$defs/A"}, "from": {"type": "string"}}), definitions);
    let lines: Vec<_> = listed.lines().map(str::trim).collect();
    assert!(lines.len() < 300, "{} lines", lines.len());
    assert!(lines.contains(&"…"), "{listed}");
}

#[test]
fn an_offer_of_another_revision_is_no_support() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("server.json");
    std::fs::write(&file, r#"{"revisions": ["2025-06-18"], "tools": []}"#).expect("a file");
    let listed = run(&["list", "--revision", "2025-11-25", "--", listed_server(), &file.to_string_lossy()]);
    let error = listed.expect_failure(3);
    assert!(error.contains("does not support revision 2025-11-25: it offers 2025-06-18"), "{error}");
}

#[test]
fn a_url_has_no_program() {
    let url = "https://example.com/mcp";
    for (args, expected) in [
        (&["list", url, "--env", "A=1"][..], "`--env A=…` applies only to programs"),
        (&["list", url, "--", "--db"], "`--db` applies only to programs"),
        (
            &["list", url, "--bearer", "a", "--header", "authorization: b"],
            "`--bearer` and a `--header` both set `Authorization`",
        ),
    ] {
        let error = run(args).expect_failure(2);
        assert!(error.starts_with(&format!("error: {expected}")), "{error}");
    }
}

#[test]
fn a_server_cannot_be_specified_twice() {
    let message = run(&["list", "hello", "--", "x"]).expect_failure(2);
    assert_eq!(
        message,
        "error: the server is specified twice: `hello` and the command after `--`\nhelp: omit one of them\n"
    );
    let message = run(&["list", "helo"]).expect_failure(2);
    assert_eq!(message, "error: no package `helo` in this workspace\nhelp: did you mean `hello`?\n");
}
