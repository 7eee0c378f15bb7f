//! Compares the locks of two servers.

use mcp_runtime_lock::{Change, Listing, Lock, Severity, format_changes, summary};
use serde_json::{Value, json};

fn tool(name: &str, annotations: Value) -> Value {
    json!({"name": name, "description": "Does it.", "inputSchema": {"type": "object"}, "annotations": annotations})
}

fn tools(tools: Value) -> Listing {
    Listing { tools: tools.as_array().cloned().unwrap_or_default(), ..Listing::default() }
}

fn prompts(arguments: Value) -> Listing {
    Listing { prompts: vec![json!({"name": "p", "arguments": arguments})], ..Listing::default() }
}

fn resource(mime: Value) -> Listing {
    Listing { resources: vec![json!({"uri": "a://b", "name": "b", "mimeType": mime})], ..Listing::default() }
}

#[test]
fn changes_are_classified_and_described() {
    let result =
        |schema: Value| tools(json!([{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}]));
    for (old, new, expected) in [
        (
            tools(json!([tool("a", json!({}))])),
            tools(json!([tool("b", json!({}))])),
            "breaking    tool `a`: removed\ncompatible  tool `b`: added\n",
        ),
        // The most severe changes are the first.
        (
            tools(json!([tool("a", json!({})), tool("b", json!({}))])),
            tools(json!([tool("a", json!({"idempotentHint": true}))])),
            "breaking    tool `b`: removed\ncompatible  tool `a`: now idempotent (`idempotentHint`)\n",
        ),
        (
            tools(json!([tool("a", json!({"readOnlyHint": true}))])),
            tools(json!([tool("a", json!({"readOnlyHint": false, "destructiveHint": true}))])),
            "breaking    tool `a`: no longer read-only (`readOnlyHint`)\n\
             breaking    tool `a`: no longer non-destructive (`destructiveHint`)\n\
             breaking    tool `a`: no longer idempotent (`idempotentHint`)\n",
        ),
        (
            tools(json!([tool("a", json!({}))])),
            tools(json!([tool("a", json!({"destructiveHint": false}))])),
            "compatible  tool `a`: now non-destructive (`destructiveHint`)\n",
        ),
        (
            tools(json!([tool("a", json!({}))])),
            tools(json!([tool("a", json!({"openWorldHint": true}))])),
            "compatible  tool `a`: the annotations changed without effect\n",
        ),
        (
            tools(json!([tool("a", json!({"openWorldHint": false}))])),
            tools(json!([tool("a", json!({}))])),
            "breaking    tool `a`: no longer closed-world (`openWorldHint`)\n",
        ),
        (
            tools(json!([{"name": "t", "inputSchema": {"type": "object"}}])),
            result(json!({"type": "object"})),
            "compatible  tool `t`: `outputSchema` added\n",
        ),
        (
            result(json!({"type": "object"})),
            tools(json!([{"name": "t", "inputSchema": {"type": "object"}}])),
            "breaking    tool `t`: `outputSchema` removed\n",
        ),
        (
            result(json!({"type": "object", "properties": {"n": {"type": "integer"}}})),
            result(json!({"type": "object", "properties": {"n": {"type": "number"}}})),
            "breaking    tool `t`: field `n`: `type` changed from integer to number\n",
        ),
        (
            tools(json!([{"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"enum": ["x"]}}}}])),
            tools(json!([{"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"const": "x"}}}}])),
            "compatible  tool `t`: the schema of the arguments changed without effect\n",
        ),
        (
            tools(json!([{"name": "t", "inputSchema": {"properties": {"a": {"default": "x"}}}}])),
            tools(json!([{"name": "t", "inputSchema": {"properties": {"a": {"default": "it is y"}}}}])),
            "compatible  tool `t`: argument `a`: `default` changed from \"x\" to \"it is y\"\n",
        ),
        (
            tools(json!([{"name": "t", "inputSchema": {"type": "object"}}])),
            tools(json!([{"name": "t", "inputSchema": {"type": "object", "additionalProperties": false}}])),
            "breaking    tool `t`: the arguments: undeclared members are no longer accepted\n",
        ),
        (
            Listing { instructions: Some("a".into()), ..Listing::default() },
            Listing::default(),
            "compatible  server: the instructions changed\n",
        ),
        (
            resource(json!("text/plain")),
            resource(json!("text/html")),
            "breaking    resource `a://b`: `mimeType` changed from text/plain to text/html\n",
        ),
        (
            resource(json!("text/plain")),
            resource(Value::Null),
            "breaking    resource `a://b`: `mimeType` text/plain removed\n",
        ),
        (
            resource(Value::Null),
            resource(json!("text/plain")),
            "compatible  resource `a://b`: `mimeType` text/plain added\n",
        ),
        (resource(Value::Null), Listing::default(), "breaking    resource `a://b`: removed\n"),
        (
            resource(Value::Null),
            Listing { resources: vec![json!({"uri": "a://b", "name": "c"})], ..Listing::default() },
            "compatible  resource `a://b`: `name` changed from `b` to `c`\n",
        ),
        (
            prompts(json!([])),
            prompts(json!([{"name": "x", "required": true}])),
            "breaking    prompt `p`: argument `x` is new and required\n",
        ),
        (
            prompts(json!([])),
            prompts(json!([{"name": "x"}])),
            "compatible  prompt `p`: argument `x` is new and optional\n",
        ),
        (
            prompts(json!([{"name": "x"}])),
            prompts(json!([{"name": "x", "required": true}])),
            "breaking    prompt `p`: argument `x` is now required\n",
        ),
        (
            prompts(json!([{"name": "x", "required": true}])),
            prompts(json!([{"name": "x"}])),
            "compatible  prompt `p`: argument `x` is no longer required\n",
        ),
        (prompts(json!([{"name": "x"}])), prompts(json!([])), "breaking    prompt `p`: argument `x` is removed\n"),
        (prompts(json!([{"name": "x"}])), prompts(json!([{"name": "x", "required": false}])), ""),
        (
            prompts(json!([{"name": "x"}])),
            prompts(json!([{"name": "x", "description": "X."}])),
            "compatible  prompt `p`: argument `x`: the description changed\n",
        ),
        (
            prompts(json!([{"name": "x"}])),
            prompts(json!([{"name": "x", "title": "X"}])),
            "compatible  prompt `p`: argument `x`: the description changed\n",
        ),
    ] {
        let changes = Lock::of(&old).changes(&Lock::of(&new));
        assert_eq!(format_changes(&changes), expected);
    }
}

#[test]
fn locks_are_sorted_and_round_trip() {
    let listing = Listing {
        tools: vec![tool("b", json!({"title": "B", "readOnlyHint": true})), tool("a", json!({}))],
        resources: vec![
            json!({"uri": "a://note/1", "name": "data"}),
            json!({"uri": "a://all", "name": "all", "size": 5}),
        ],
        resource_templates: vec![json!({"uriTemplate": "a://note/{id}", "name": "note"})],
        prompts: vec![json!({"name": "p", "icons": []})],
        instructions: None,
    };
    let lock = Lock::of(&listing);
    let reordered = vec![tool("a", json!({})), tool("b", json!({"readOnlyHint": true, "title": "B"}))];
    let other = Lock::of(&Listing { tools: reordered, ..listing });
    assert_eq!(lock.to_json(), other.to_json());
    let text = lock.to_json();
    assert_eq!(Lock::parse(&text).unwrap(), lock);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["lockVersion"], 1);
    assert_eq!(value["resources"], json!([{"name": "all", "uri": "a://all"}]));
    assert_eq!(value["prompts"], json!([{"name": "p"}]));
}

#[test]
fn the_order_of_names_is_not_part_of_a_lock() {
    let lock = |names: [&str; 2]| {
        let schema = json!({"type": "object", "anyOf": [{"required": names}]});
        let arguments = names.map(|name| json!({ "name": name }));
        Lock::of(&Listing { tools: vec![json!({"name": "t", "inputSchema": schema})], ..prompts(json!(arguments)) })
    };
    assert_eq!(lock(["a", "b"]).to_json(), lock(["b", "a"]).to_json());
}

#[test]
fn invalid_locks_are_rejected() {
    for (text, expected) in [
        ("{", "not valid JSON: EOF while parsing an object at line 1 column 1"),
        ("[]", "not a JSON object"),
        ("{}", "missing `lockVersion`"),
        (r#"{"lockVersion": 2}"#, "unsupported `lockVersion` 2, expected 1"),
    ] {
        assert_eq!(Lock::parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn summaries_count_changes() {
    let change = |severity| Change { severity, entry: String::new(), text: String::new() };
    let (breaking, compatible) = (change(Severity::Breaking), change(Severity::Compatible));
    for (changes, expected) in [
        (vec![breaking.clone()], "1 breaking change"),
        (vec![breaking, compatible.clone(), compatible.clone()], "1 breaking change and 2 compatible changes"),
        (vec![compatible], "1 compatible change"),
    ] {
        assert_eq!(summary(&changes), expected);
    }
}

#[test]
fn a_change_of_any_member_is_reported() {
    let resource = |key: &str| json!({key: format!("a://{key}"), "name": "b", "title": "B", "description": "b", "mimeType": "a/b"});
    let tool = json!({
        "name": "t", "title": "T", "description": "t", "annotations": {"readOnlyHint": true},
        "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"},
    });
    let lock = Lock::of(&Listing {
        instructions: Some("a".to_owned()),
        tools: vec![tool],
        resources: vec![resource("uri")],
        resource_templates: vec![resource("uriTemplate")],
        prompts: vec![json!({"name": "p", "title": "P", "description": "p", "arguments": [{"name": "a"}]})],
    });
    let json: Value = serde_json::from_str(&lock.to_json()).unwrap();
    let lists = json.as_object().unwrap().iter().filter_map(|(list, entries)| Some((list, entries.as_array()?)));
    let mut members = 0;
    for (list, entries) in lists {
        for member in entries[0].as_object().unwrap().keys() {
            let mut changed = json.clone();
            changed[list][0][member] = json!("other");
            assert_ne!(lock.changes(&Lock::parse(&changed.to_string()).unwrap()), [], "{member} of {list}");
            members += 1;
        }
    }
    assert_eq!(members, 20);
}
