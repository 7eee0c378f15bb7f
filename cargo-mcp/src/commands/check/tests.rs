//! The bounds and the exceptions of the checks of lists.

use mcp_runtime_lock::{Change, Listing, Severity};
use serde_json::{Value, json};

use super::{
    check_inventory,
    codes::Findings,
    conformance::Inventory,
    lock_changes,
    metadata::{ToolTokens, token_budget},
};

/// Returns the codes and the subjects of the findings.
fn found(findings: &Findings) -> Vec<(&'static str, &'static str)> {
    findings.0.iter().map(|finding| (finding.code.name, finding.subject.kind)).collect()
}

/// Returns the codes of a list.
fn codes_of(listing: Listing) -> Vec<&'static str> {
    let mut findings = Findings::default();
    check_inventory(&mut findings, &Inventory { server: json!({"name": "s"}), listing, ping: None });
    found(&findings).into_iter().map(|(code, _)| code).collect()
}

/// Returns a tool without findings, except for those that `changes` cause.
fn tool(changes: Value) -> Value {
    let mut tool = json!({
        "name": "fetch_page",
        "description": "Fetches a page.",
        "inputSchema": {"type": "object", "properties": {}},
        "annotations": {"readOnlyHint": true},
    });
    for (name, value) in changes.as_object().into_iter().flatten() {
        tool[name] = value.clone();
    }
    tool
}

fn codes_of_tools(tools: Vec<Value>) -> Vec<&'static str> {
    codes_of(Listing { tools, ..Listing::default() })
}

#[test]
fn arguments_are_reported_only_for_a_reason() {
    let text = || json!({"type": "string", "description": "The text to use."});
    let with = |name: &str, mut schema: Value| {
        schema["description"] = "The text to use.".into();
        json!({"type": "object", "properties": {name: schema}})
    };
    for (schema, expected) in [
        (with(&"a".repeat(64), text()), vec![]),
        (with(&"a".repeat(65), text()), vec!["property-name"]),
        (with("", text()), vec!["property-name"]),
        (with("a", json!({"anyOf": [{"type": "string"}, {"type": "null"}]})), vec![]),
        (with("a", json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]})), vec!["union"]),
        (with("a", json!({"type": "object", "anyOf": [{"required": ["b"]}]})), vec!["union"]),
        (with("a", json!({"$ref": "#/properties/b"})), vec!["unresolved-ref", "schema-ref"]),
        // Without the other document, nothing else is known to be wrong.
        (with("a", json!({"$ref": "https://example.com/a.json"})), vec!["remote-ref", "schema-ref"]),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "#/x"}, "b": {"$ref": "#/x"}}}),
            vec!["unresolved-ref", "schema-ref"],
        ),
        (with("a", json!({"type": ["array", "null"]})), vec!["type-array", "array-without-items"]),
        (
            with("a", json!({"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}})),
            vec!["missing-description"],
        ),
    ] {
        assert_eq!(codes_of_tools(vec![tool(json!({"inputSchema": schema}))]), expected, "{schema}");
    }
}

#[test]
fn formats_that_clients_support_are_not_reported() {
    for format in ["date-time", "double", "enum", "float", "int32", "int64"] {
        let argument = json!({"type": "string", "format": format, "description": "The text to use."});
        let schema = json!({"type": "object", "properties": {"a": argument}});
        assert_eq!(codes_of_tools(vec![tool(json!({"inputSchema": schema}))]), [""; 0], "{format}");
    }
}

#[test]
fn fields_of_results_are_checked_for_clients() {
    let schema = json!({"type": "object", "properties": {"a": true}});
    assert_eq!(codes_of_tools(vec![tool(json!({"outputSchema": schema}))]), ["boolean-schema"]);
}

#[test]
fn tools_are_compared_with_limits() {
    let other = |name: &str| tool(json!({"name": name, "description": "Does something else."}));
    for (tools, expected) in [
        // With the prefix `mcp__s__`, 64 and 65 characters.
        (vec![tool(json!({"name": "a".repeat(56)}))], vec![]),
        (vec![tool(json!({"name": "a".repeat(57)}))], vec!["long-name"]),
        (vec![tool(json!({"name": "a".repeat(128)}))], vec!["long-name"]),
        (vec![tool(json!({"name": "a".repeat(129)}))], vec!["bad-name"]),
        (vec![tool(json!({})), other("fetch.page")], vec!["dotted-name", "name-clash"]),
        (vec![tool(json!({"description": format!("Fetches {}", "é".repeat(1016))}))], vec![]),
        (vec![tool(json!({"description": format!("Fetches {}", "é".repeat(1017))}))], vec!["long-description"]),
    ] {
        let shown = Value::from(tools.clone()).to_string();
        assert_eq!(codes_of_tools(tools), expected, "{shown}");
    }
}

#[test]
fn budgets_may_be_used_up() {
    let budget = |count: usize, total| {
        let tools = Vec::from_iter((0..count).map(|at| ToolTokens { name: at.to_string(), tokens: 10 }));
        let mut findings = Findings::default();
        token_budget(&mut findings, &tools, Some(total), Some(10));
        found(&findings)
    };
    assert_eq!(budget(40, 400), []);
    assert_eq!(budget(41, 409), [("token-budget", "server"), ("too-many-tools", "server")]);
}

#[test]
fn only_uris_are_accepted() {
    for (uri, expected) in [
        ("git+ssh-2.a://notes", vec![]),
        ("{scheme}://notes", vec!["bad-uri"]),
        ("notes", vec!["bad-uri"]),
        ("2a://notes", vec!["bad-uri"]),
        ("a://all notes", vec!["bad-uri"]),
        ("a://\u{7f}", vec!["bad-uri"]),
    ] {
        let resources = vec![json!({"uri": uri, "name": "b", "description": "All of them."})];
        assert_eq!(codes_of(Listing { resources, ..Listing::default() }), expected, "{uri:?}");
    }
}

#[test]
fn changes_belong_to_what_the_lock_file_names() {
    for (entry, expected) in [
        ("tool `a`", "tool"),
        ("resource `a://b`", "resource"),
        ("resource template `a://{b}`", "resource template"),
        ("prompt `a`", "prompt"),
        ("instructions", "server"),
    ] {
        let change = Change { severity: Severity::Breaking, entry: entry.to_owned(), text: "is gone".to_owned() };
        let mut findings = Findings::default();
        lock_changes(&mut findings, &[change]);
        assert_eq!(found(&findings), [("breaking-change", expected)], "{entry}");
    }
}
