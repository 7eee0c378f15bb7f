//! What changed between two servers, as it is told.

use mcp_lock::{Listing, Lock, counted, told};
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
fn changes_are_told() {
    let result =
        |schema: Value| tools(json!([{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": schema}]));
    for (old, new, expected) in [
        (
            tools(json!([tool("a", json!({}))])),
            tools(json!([tool("b", json!({}))])),
            "breaking    tool `a`: it is removed\ncompatible  tool `b`: it is new\n",
        ),
        (
            tools(json!([tool("a", json!({"readOnlyHint": true}))])),
            tools(json!([tool("a", json!({"readOnlyHint": false, "destructiveHint": true}))])),
            "breaking    tool `a`: it no longer promises that it only reads (`readOnlyHint`)\n\
             breaking    tool `a`: it no longer promises that it destroys nothing (`destructiveHint`)\n\
             breaking    tool `a`: it no longer promises that it may be called twice (`idempotentHint`)\n",
        ),
        (
            tools(json!([tool("a", json!({}))])),
            tools(json!([tool("a", json!({"destructiveHint": false}))])),
            "compatible  tool `a`: it now promises that it destroys nothing (`destructiveHint`)\n",
        ),
        (
            tools(json!([tool("a", json!({}))])),
            tools(json!([tool("a", json!({"openWorldHint": true}))])),
            "compatible  tool `a`: the annotations changed, and say the same\n",
        ),
        (
            tools(json!([{"name": "t", "inputSchema": {"type": "object"}}])),
            result(json!({"type": "object"})),
            "compatible  tool `t`: it now says what its result looks like (`outputSchema`)\n",
        ),
        (
            result(json!({"type": "object"})),
            tools(json!([{"name": "t", "inputSchema": {"type": "object"}}])),
            "breaking    tool `t`: it no longer says what its result looks like (`outputSchema`)\n",
        ),
        (
            result(json!({"type": "object", "properties": {"n": {"type": "integer"}}})),
            result(json!({"type": "object", "properties": {"n": {"type": "number"}}})),
            "breaking    tool `t`: field `n`: `type` was integer, is number\n",
        ),
        (
            tools(json!([{"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"enum": ["x"]}}}}])),
            tools(json!([{"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"const": "x"}}}}])),
            "compatible  tool `t`: the schema of the arguments is written in another way, and means the same\n",
        ),
        (
            Listing { instructions: Some("a".into()), ..Listing::default() },
            Listing::default(),
            "compatible  server: the instructions changed\n",
        ),
        (
            resource(json!("text/plain")),
            resource(json!("text/html")),
            "breaking    resource `a://b`: `mimeType` was text/plain, is text/html\n",
        ),
        (resource(Value::Null), Listing::default(), "breaking    resource `a://b`: it is removed\n"),
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
        (prompts(json!([{"name": "x"}])), prompts(json!([])), "breaking    prompt `p`: argument `x` is removed\n"),
        (prompts(json!([{"name": "x"}])), prompts(json!([{"name": "x", "required": false}])), ""),
    ] {
        let changes = Lock::of(&old).changes(&Lock::of(&new));
        assert_eq!(told(&changes), expected);
    }
}

#[test]
fn a_lock_is_written_in_one_order_and_read_again() {
    let listing = Listing {
        tools: vec![tool("b", json!({"title": "B"})), tool("a", json!({}))],
        resources: vec![
            json!({"uri": "a://note/1", "name": "data"}),
            json!({"uri": "a://all", "name": "all", "size": 5}),
        ],
        resource_templates: vec![json!({"uriTemplate": "a://note/{id}", "name": "note"})],
        prompts: vec![json!({"name": "p", "icons": []})],
        instructions: None,
    };
    let lock = Lock::of(&listing);
    let other = Lock::of(&Listing { tools: vec![listing.tools[1].clone(), listing.tools[0].clone()], ..listing });
    assert_eq!(lock.write(), other.write());
    let text = lock.write();
    assert_eq!(Lock::read(&text).unwrap(), lock);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["lockVersion"], 1);
    assert_eq!(value["resources"], json!([{"name": "all", "uri": "a://all"}]));
    assert_eq!(value["prompts"], json!([{"name": "p"}]));
}

#[test]
fn what_is_no_lock_is_told() {
    for (text, expected) in [
        ("{", "it is not JSON: EOF while parsing an object at line 1 column 1"),
        ("[]", "it has no `lockVersion`"),
        ("{}", "it has no `lockVersion`"),
        (r#"{"lockVersion": 2}"#, "its `lockVersion` is 2, and this program knows 1"),
    ] {
        assert_eq!(Lock::read(text).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn changes_are_counted() {
    let change = |breaking| mcp_lock::Change { breaking, entry: String::new(), text: String::new() };
    assert_eq!(counted(&[change(true)]), "1 breaking change");
    assert_eq!(counted(&[change(true), change(false), change(false)]), "1 breaking change and 2 compatible changes");
    assert_eq!(counted(&[change(false)]), "1 compatible change");
}
