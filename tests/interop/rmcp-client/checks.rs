//! The checks for `examples/notes`: a subset of those in `common.mjs` and `common.py`.

use std::fmt::Debug;

use serde_json::{Value, json};

use crate::{Client, Failure};

/// Runs all checks. Returns their number.
///
/// # Errors
///
/// Returns a description of the first check that fails.
pub(crate) async fn run(client: &Client, revision: &str) -> Result<usize, String> {
    let mut t = Checks::default();
    let tag = format!("interop-{:x}", std::process::id());
    t.equal(client.negotiated().as_str(), revision, "the negotiated revision")?;

    // Tools.
    let tools = t.success(client.tools().await, "tools/list")?;
    t.equal(
        sorted(&tools, "name"),
        vec!["add_note", "count_notes", "delete_note", "search_notes", "show_board"],
        "the names of the tools",
    )?;
    for tool in items(&tools) {
        t.equal(&tool["inputSchema"]["type"], &json!("object"), "an input schema")?;
        t.ok(tool["inputSchema"]["properties"].is_object(), "an input schema has properties", tool)?;
        t.ok(tool["description"].is_string(), "a tool has a description", tool)?;
    }

    // Valid calls.
    let before = value(&mut t, client, revision, "count_notes", json!({})).await?;
    let body = "Grüße 👋 \"quoted\" \\ back\u{2028}slash\nsecond line\ttab \0 nul";
    let arguments = json!({"title": format!("Alpha {tag}"), "body": body, "tags": [tag]});
    let note = value(&mut t, client, revision, "add_note", arguments).await?;
    t.equal(&note["body"], &json!(body), "the body of the returned note")?;
    let id = note["id"].clone();
    let uri = format!("notes://note/{id}");
    let found = value(&mut t, client, revision, "search_notes", json!({"query": "Alpha", "tag": tag})).await?;
    t.equal(&found[0]["id"], &id, "search finds the note")?;

    // Invalid calls.
    for (name, arguments, words) in [
        ("search_notes", json!({}), vec!["query"]),
        ("search_notes", json!({"query": tag, "limit": "many"}), vec!["limit", "many"]),
        ("search_notes", json!({"query": tag, "limit": 101}), vec!["limit", "101", "1", "100"]),
        ("add_note", json!({"title": "", "body": "b"}), vec!["title", "1"]),
        ("delete_note", json!({"id": "first"}), vec!["id", "first"]),
    ] {
        let what = format!("{name} {arguments}");
        let result = t.success(client.call(name, arguments).await, &what)?;
        t.equal(&result["isError"], &json!(true), &what)?;
        t.includes(result["content"][0]["text"].as_str().unwrap_or_default(), &words, &what)?;
    }
    t.error(client.call("no_such_tool", json!({})).await, -32602, &[], "an unknown tool")?;

    // Resources.
    let resources = t.success(client.resources().await, "resources/list")?;
    let uris = sorted(&resources, "uri");
    t.ok(uris.contains(&"notes://all") && uris.contains(&uri.as_str()), "the resources", &resources)?;
    let templates = t.success(client.templates().await, "resources/templates/list")?;
    t.equal(sorted(&templates, "uriTemplate"), vec!["notes://note/{id}", "notes://tag/{tag}"], "the templates")?;
    for (uri, mime) in
        [("notes://all", "text/markdown"), (&uri, "application/json"), (&format!("notes://tag/{tag}"), "text/markdown")]
    {
        let contents = t.success(client.read(uri).await, uri)?;
        t.equal([&contents[0]["uri"], &contents[0]["mimeType"]], [&json!(uri), &json!(mime)], uri)?;
        t.includes(contents[0]["text"].as_str().unwrap_or_default(), &[&format!("Alpha {tag}")], uri)?;
    }
    let not_found = if revision >= "2026-07-28" { -32602 } else { -32002 };
    t.error(client.read("notes://nowhere").await, not_found, &[], "an unknown resource")?;

    // Prompts.
    let prompts = t.success(client.prompts().await, "prompts/list")?;
    t.equal(sorted(&prompts, "name"), vec!["summarise", "weekly_review"], "the prompts")?;
    let summary = t.success(client.prompt("summarise", json!({"tag": tag, "style": "brief"})).await, "summarise")?;
    t.includes(&summary["messages"].to_string(), &[&tag], "the messages of summarise")?;
    t.error(
        client.prompt("summarise", json!({"tag": tag})).await,
        -32602,
        &["style"],
        "a prompt without a required argument",
    )?;
    t.error(client.prompt("no_such_prompt", json!({})).await, -32602, &[], "an unknown prompt")?;

    // Completion.
    let tags = t.success(client.complete_prompt("summarise", "tag", &tag).await, "completing a tag")?;
    t.equal(tags, json!([tag]), "the completed tag")?;
    let styles = t.success(client.complete_prompt("summarise", "style", "de").await, "completing a style")?;
    t.equal(styles, json!(["detailed"]), "the completed style")?;
    let tags = t.success(client.complete_template("notes://tag/{tag}", "tag", &tag).await, "completing a template")?;
    t.equal(tags, json!([tag]), "the completed template")?;

    // Clean up.
    let deleted = t.success(client.call("delete_note", json!({"id": id})).await, "delete_note")?;
    t.ok(deleted["content"][0]["text"].is_string(), "delete_note returns text", &deleted)?;
    let after = value(&mut t, client, revision, "count_notes", json!({})).await?;
    t.equal(after, before, "the added note is deleted")?;
    Ok(t.count())
}

/// Calls a tool and returns its value: the structured content or, in older revisions, the text as JSON.
async fn value(t: &mut Checks, client: &Client, revision: &str, name: &str, arguments: Value) -> Result<Value, String> {
    let result = t.success(client.call(name, arguments).await, name)?;
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let text = unwrap(serde_json::from_str(text).map_err(|error| format!("{name}: {error} in {text}"))?);
    if revision < "2025-06-18" {
        t.ok(result.get("structuredContent").is_none(), "no structured content before 2025-06-18", &result)?;
    } else {
        let structured = result["structuredContent"].clone();
        t.ok(
            structured.is_object() || revision >= "2026-07-28",
            "structured content is an object before 2026-07-28",
            &result,
        )?;
        t.equal(&unwrap(structured), &text, "text and structured content")?;
    }
    Ok(text)
}

fn unwrap(mut value: Value) -> Value {
    match value.get_mut("result") {
        Some(list @ Value::Array(_)) => list.take(),
        _ => value,
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn sorted<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    let mut names: Vec<_> = items(value).iter().filter_map(|item| item[key].as_str()).collect();
    names.sort_unstable();
    names
}

/// Counts the checks.
#[derive(Default)]
pub(crate) struct Checks {
    count: usize,
}

impl Checks {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn ok(&mut self, condition: bool, what: &str, found: &impl Debug) -> Result<(), String> {
        self.count += 1;
        if condition { Ok(()) } else { Err(format!("{what}\n  found: {found:?}")) }
    }

    pub(crate) fn equal<T: PartialEq + Debug>(&mut self, actual: T, expected: T, what: &str) -> Result<(), String> {
        self.count += 1;
        if actual == expected {
            Ok(())
        } else {
            Err(format!("{what}\n  found:    {actual:?}\n  expected: {expected:?}"))
        }
    }

    fn includes(&mut self, text: &str, words: &[&str], what: &str) -> Result<(), String> {
        words.iter().try_for_each(|word| self.ok(text.contains(word), &format!("{what}: expected `{word}`"), &text))
    }

    fn success(&mut self, response: Result<Value, Failure>, what: &str) -> Result<Value, String> {
        self.count += 1;
        response.map_err(|failure| format!("{what}: {failure:?}"))
    }

    fn error(&mut self, response: Result<Value, Failure>, code: i32, words: &[&str], what: &str) -> Result<(), String> {
        let Err(failure) = response else { return Err(format!("expected an error for {what}\n  found: {response:?}")) };
        self.ok(failure.code == code, &format!("the code of {what}"), &failure)?;
        self.includes(&failure.message, words, what)
    }
}
