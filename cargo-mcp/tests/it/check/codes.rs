//! Each code, with a server that has exactly this problem.

use super::*;

const PAGE: &str = "ui://notes/board";
const MIME_TYPE: &str = "text/html;profile=mcp-app";

/// Returns a server whose tool has a page, and its response to `resources/read`.
fn with_page(mut ui: Value, response: Value) -> Value {
    ui["resourceUri"] = PAGE.into();
    let mut file = with_tool(json!({"_meta": {"ui": ui}}));
    file["resources"] = json!([]);
    file["responses"] = json!({"resources/read": response});
    file
}

/// Returns codes, servers, options and the expected finding.
fn findings() -> Vec<(&'static str, Value, Vec<&'static str>, String)> {
    let none: Vec<&str> = Vec::new();
    let text = json!({"type": "string"});
    let page = "tool `fetch_page`: ";
    let mut table = vec![
        (
            "invalid-schema",
            with_schema(json!({"type": "object", "required": "a"})),
            none.clone(),
            format!("{page}`inputSchema` at `/required`: \"a\" is not of type \"array\""),
        ),
        (
            "other-dialect",
            with_schema(json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"})),
            none.clone(),
            format!("{page}`inputSchema` declares the dialect http://json-schema.org/draft-07/schema#"),
        ),
        (
            "no-object-schema",
            with_schema(json!({"type": "string"})),
            none.clone(),
            format!("{page}`inputSchema` has no `\"type\": \"object\"`"),
        ),
        (
            "output-not-object",
            with_tool(json!({"outputSchema": {"type": "array", "items": text}})),
            none.clone(),
            format!("{page}the type of `outputSchema` is \"array\" in 2025-11-25"),
        ),
        (
            "output-not-object",
            with_tool(json!({"outputSchema": {"properties": {"a": text}}})),
            none.clone(),
            format!("{page}the type of `outputSchema` is missing in 2025-11-25"),
        ),
        (
            "unresolved-ref",
            with_schema(json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}})),
            none.clone(),
            format!("{page}`inputSchema`: reference `#/$defs/b` does not resolve"),
        ),
        (
            "unresolved-ref",
            with_schema(json!({"type": "object", "properties": {"a": {"$dynamicRef": "#b"}}})),
            none.clone(),
            format!("{page}`inputSchema`: reference `#b` does not resolve"),
        ),
        (
            "remote-ref",
            with_schema(json!({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}})),
            none.clone(),
            format!("{page}`inputSchema`: reference `https://example.com/a.json` points outside the schema"),
        ),
        (
            "bad-default",
            with_argument("a", json!({"type": "integer", "default": "x"})),
            none.clone(),
            format!("{page}`a` of `inputSchema`: invalid default: \"x\" is not of type \"integer\""),
        ),
        (
            "bad-default",
            with_schema(json!({
                "type": "object",
                "properties": {"a": {"$ref": "#/definitions/b", "default": "x"}},
                "definitions": {"b": {"type": "integer"}},
            })),
            none.clone(),
            format!("{page}`a` of `inputSchema`: invalid default: \"x\" is not of type \"integer\""),
        ),
        (
            "bad-default",
            with_tool(json!({
                "inputSchema": {"type": "object", "required": "a"},
                "outputSchema": {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}},
            })),
            none.clone(),
            format!("{page}`a` of `outputSchema`: invalid default: \"x\" is not of type \"integer\""),
        ),
        (
            "bad-default",
            with_schema(json!({
                "type": "object",
                "if": {"required": ["b"]},
                "then": {"properties": {"a": {"type": "integer", "default": "x"}}},
            })),
            none.clone(),
            format!("{page}`a` of `inputSchema`: invalid default: \"x\" is not of type \"integer\""),
        ),
        (
            "bad-example",
            with_argument("a", json!({"type": "integer", "maximum": 3, "examples": [1, 4]})),
            none.clone(),
            format!("{page}`a` of `inputSchema`: invalid example: 4 is greater than the maximum of 3"),
        ),
        (
            "undeclared-required",
            with_schema(json!({"type": "object", "properties": {}, "required": ["a"]})),
            none.clone(),
            format!("{page}`inputSchema`: \"a\" is required but not declared"),
        ),
        (
            "bad-header",
            with_argument("a", json!({"type": "string", "x-mcp-header": "no token"})),
            none.clone(),
            format!("{page}header \"no token\" of `a` is not an HTTP token"),
        ),
        (
            "bad-header",
            with_argument("a", json!({"type": "number", "x-mcp-header": "A"})),
            none.clone(),
            format!("{page}`a` has a header, but is not a string, an integer or a boolean"),
        ),
        (
            "bad-header",
            with_argument("a", json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
            none.clone(),
            format!("{page}the header of `a[]` cannot be reached through `properties` alone"),
        ),
        (
            "bad-header",
            with_schema(
                json!({"type": "object", "anyOf": [{"properties": {"b": {"type": "string", "x-mcp-header": "B"}}}]}),
            ),
            none.clone(),
            format!("{page}the header of `b` cannot be reached through `properties` alone"),
        ),
        (
            "bad-header",
            with_schema(json!({"type": "object", "properties": {
                "a": {"type": "string", "x-mcp-header": "Page"},
                "b": {"type": "string", "x-mcp-header": "page"},
            }})),
            none.clone(),
            format!("{page}header `page` is used by two arguments"),
        ),
        (
            "bad-header",
            with_schema(json!({"type": "object", "x-mcp-header": "A"})),
            none.clone(),
            format!("{page}the header of `` cannot be reached through `properties` alone"),
        ),
        (
            "top-level-union",
            with_schema(json!({"type": "object", "anyOf": [{"required": ["a"]}]})),
            none.clone(),
            format!("{page}`anyOf` at the top level of `inputSchema`"),
        ),
        (
            "top-level-union",
            with_schema(json!({"type": "object", "allOf": [{"required": ["a"]}]})),
            none.clone(),
            format!("{page}`allOf` at the top level of `inputSchema`"),
        ),
        (
            "schema-ref",
            with_schema(json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": text}})),
            none.clone(),
            format!("{page}`inputSchema` has 1 reference"),
        ),
        (
            "schema-ref",
            with_tool(json!({"outputSchema": {"type": "object", "$ref": "#/$defs/b", "$defs": {"b": {}}}})),
            none.clone(),
            format!("{page}`outputSchema` has 1 reference"),
        ),
        (
            "recursive-schema",
            with_schema(
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "array", "items": {"$ref": "#/$defs/b"}}}}),
            ),
            none.clone(),
            format!("{page}`inputSchema` refers to itself"),
        ),
        (
            "union",
            with_argument("a", json!({"oneOf": [{"type": "string"}, {"type": "integer"}]})),
            none.clone(),
            format!("{page}argument `a` uses `oneOf`"),
        ),
        (
            "union",
            with_argument("a", json!({"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]})),
            none.clone(),
            format!("{page}argument `a` uses `anyOf`"),
        ),
        (
            "type-array",
            with_argument("a", json!({"type": ["string", "null"]})),
            none.clone(),
            format!("{page}argument `a` has the types string and null"),
        ),
        (
            "missing-type",
            with_argument("a", json!({"enum": ["x"]})),
            none.clone(),
            format!("{page}argument `a` has no type"),
        ),
        (
            "array-without-items",
            with_argument("a", json!({"type": "array"})),
            none.clone(),
            format!("{page}argument `a` is an array without `items`"),
        ),
        (
            "array-without-items",
            with_argument("a", json!({"type": ["array", "null"]})),
            none.clone(),
            format!("{page}argument `a` is an array without `items`"),
        ),
        (
            "tuple",
            with_argument("a", json!({"type": "array", "prefixItems": [text], "items": text})),
            none.clone(),
            format!("{page}argument `a` is a tuple"),
        ),
        (
            "boolean-schema",
            with_argument("a", json!(true)),
            none.clone(),
            format!("{page}the schema of argument `a` is `true`"),
        ),
        (
            "boolean-schema",
            with_argument("a", json!({"type": "array", "items": true})),
            none.clone(),
            format!("{page}the schema of argument `a[]` is `true`"),
        ),
        (
            "boolean-schema",
            with_tool(json!({"outputSchema": {"type": "object", "properties": {"a": true}}})),
            none.clone(),
            format!("{page}the schema of field `a` is `true`"),
        ),
        (
            "boolean-additional-properties",
            with_schema(json!({"type": "object", "properties": {}, "additionalProperties": false})),
            none.clone(),
            format!("{page}`additionalProperties` of `inputSchema` is `false`"),
        ),
        (
            "map-schema",
            with_argument("a", json!({"type": "object", "additionalProperties": text})),
            none.clone(),
            format!("{page}argument `a` is a map"),
        ),
        (
            "enum-values",
            with_argument("a", json!({"type": "integer", "enum": [1, 2]})),
            none.clone(),
            format!("{page}argument `a` has the values [1,2]"),
        ),
        (
            "unknown-format",
            with_argument("a", json!({"type": "string", "format": "uuid"})),
            none.clone(),
            format!("{page}argument `a` has the format `uuid`"),
        ),
        (
            "property-name",
            with_argument("filter[id]", text.clone()),
            none.clone(),
            format!("{page}argument name `filter[id]`"),
        ),
        (
            "property-name",
            with_argument(&"a".repeat(65), text.clone()),
            none.clone(),
            format!("{page}argument name `{}`", "a".repeat(65)),
        ),
        (
            "bad-name",
            with_tool(json!({"name": "a".repeat(129)})),
            none.clone(),
            format!("tool `{}`: the name has 129 characters", "a".repeat(129)),
        ),
        (
            "bad-name",
            with_tool(json!({"name": "fetch page"})),
            none.clone(),
            "tool `fetch page`: the name contains characters other than A-Z, a-z, 0-9, `_`, `-` and `.`".to_owned(),
        ),
        (
            "duplicate-name",
            json!({"tools": [tool(json!({})), tool(json!({"description": "Another one."}))]}),
            none.clone(),
            format!("{page}the tool is listed more than once"),
        ),
        (
            "dotted-name",
            with_tool(json!({"name": "fetch.page"})),
            none.clone(),
            "tool `fetch.page`: the name contains a dot".to_owned(),
        ),
        (
            "long-name",
            with_tool(json!({"name": "a".repeat(58)})),
            none.clone(),
            format!("tool `{0}`: `mcp__bad__{0}` has 68 characters, more than 64", "a".repeat(58)),
        ),
        (
            "name-start",
            with_tool(json!({"name": "2fetch"})),
            none.clone(),
            "tool `2fetch`: the name starts with neither a letter nor an underscore".to_owned(),
        ),
        (
            "name-clash",
            json!({"tools": [tool(json!({})), tool(json!({"name": "Fetch-Page", "description": "Another one."}))]}),
            none.clone(),
            "tool `Fetch-Page`: the name is too similar to `fetch_page`".to_owned(),
        ),
        (
            "undescribed-tool",
            with_tool(json!({"description": ""})),
            none.clone(),
            format!("{page}the tool has no description"),
        ),
        (
            "missing-description",
            with_schema(json!({"type": "object", "properties": {"a": text}})),
            none.clone(),
            format!("{page}argument `a` has no description"),
        ),
        (
            "missing-description",
            with_argument("a", json!({"type": "array", "items": {"type": "object", "properties": {"b": text}}})),
            none.clone(),
            format!("{page}argument `a[].b` has no description"),
        ),
        (
            "missing-description",
            json!({"prompts": [{"name": "p", "description": "Ask for it.", "arguments": [{"name": "a"}]}]}),
            none.clone(),
            "prompt `p`: argument `a` has no description".to_owned(),
        ),
        (
            "missing-description",
            json!({"resources": [{"uri": "a://b", "name": "b"}]}),
            none.clone(),
            "resource `a://b`: the resource has no description".to_owned(),
        ),
        (
            "short-description",
            with_tool(json!({"description": "Fetch page."})),
            none.clone(),
            format!("{page}the tool is described as \"Fetch page.\""),
        ),
        (
            "short-description",
            with_tool(json!({"description": "Fetches."})),
            none.clone(),
            format!("{page}the tool is described as \"Fetches.\""),
        ),
        (
            "short-description",
            with_schema(json!({
                "type": "object",
                "properties": {"page_number": {"type": "integer", "description": "Page number."}},
            })),
            none.clone(),
            format!("{page}argument `page_number` is described as \"Page number.\""),
        ),
        (
            "same-description",
            json!({"tools": [tool(json!({})), tool(json!({"name": "other"}))]}),
            none.clone(),
            "tool `other`: the description is the same as that of `fetch_page`".to_owned(),
        ),
        (
            "long-description",
            with_tool(json!({"description": "word ".repeat(205)})),
            none.clone(),
            format!("{page}the description has 1025 characters"),
        ),
        (
            "long-description",
            json!({"instructions": "x".repeat(2049)}),
            none.clone(),
            "server: the instructions have 2049 characters".to_owned(),
        ),
        (
            "ineffective-hint",
            with_tool(json!({"annotations": {"readOnlyHint": true, "idempotentHint": true}})),
            none.clone(),
            format!("{page}`idempotentHint` has no effect on a read-only tool"),
        ),
        (
            "name-against-hints",
            with_tool(json!({"name": "deletePage", "annotations": {"destructiveHint": false}})),
            none.clone(),
            "tool `deletePage`: `destructiveHint` is false, but the name starts with `delete`".to_owned(),
        ),
        (
            "name-against-hints",
            with_tool(json!({"annotations": {"destructiveHint": true}, "name": "list_pages"})),
            none.clone(),
            "tool `list_pages`: `destructiveHint` is true, but the name starts with `list`".to_owned(),
        ),
        (
            "contradictory-hints",
            with_tool(json!({"annotations": {"readOnlyHint": true, "destructiveHint": true}})),
            none.clone(),
            format!("{page}`readOnlyHint` and `destructiveHint` are both true"),
        ),
        (
            "name-against-hints",
            with_tool(json!({"name": "delete_page"})),
            none.clone(),
            "tool `delete_page`: `readOnlyHint` is true, but the name starts with `delete`".to_owned(),
        ),
        (
            "name-against-hints",
            with_tool(json!({"name": "create_page"})),
            none.clone(),
            "tool `create_page`: `readOnlyHint` is true, but the name starts with `create`".to_owned(),
        ),
        ("no-hints", with_tool(json!({"annotations": {}})), none.clone(), format!("{page}the tool has no hints")),
        (
            "token-budget",
            with_tool(json!({})),
            vec!["--max-tokens", "20"],
            "server: the tools use about 33 tokens, more than 20".to_owned(),
        ),
        (
            "token-budget",
            with_tool(json!({})),
            vec!["--max-tool-tokens", "20"],
            format!("{page}uses about 33 tokens, more than 20"),
        ),
        (
            "bad-uri",
            json!({"resources": [{"uri": "all notes", "name": "b", "description": "All of them."}]}),
            none.clone(),
            "resource `all notes`: `all notes` is not a URI".to_owned(),
        ),
        (
            "bad-uri",
            json!({"resources": [{"uri": "a: b", "name": "b", "description": "All of them."}]}),
            none.clone(),
            "resource `a: b`: `a: b` is not a URI".to_owned(),
        ),
        (
            "bad-uri",
            json!({"resources": [{"uri": "1a:b", "name": "b", "description": "All of them."}]}),
            none.clone(),
            "resource `1a:b`: `1a:b` is not a URI".to_owned(),
        ),
        (
            "unreadable-resource",
            json!({"resources": [{"uri": "a://b", "name": "b", "description": "All of them."}], "responses": {"resources/read": {"error": {"code": -32002, "message": "it is gone"}}}}),
            vec!["--read"],
            "resource `a://b`: it is gone (code -32002)".to_owned(),
        ),
        (
            "unreadable-resource",
            json!({"resources": [{"uri": "a://b", "name": "b", "description": "All of them."}], "responses": {"resources/read": {"result": {}}}}),
            vec!["--read"],
            "resource `a://b`: the result of `resources/read` has no `contents` array".to_owned(),
        ),
        (
            "completion-failed",
            json!({"prompts": [{"name": "p", "description": "Ask for it.", "arguments": [{"name": "a", "description": "What it is."}]}], "responses": {"completion/complete": {"result": {}}}}),
            vec!["--read"],
            "prompt `p`: `a`: the result has no `values` array".to_owned(),
        ),
        (
            "completion-failed",
            json!({"resourceTemplates": [{"uriTemplate": "a://{b}", "name": "b", "description": "One of them."}], "responses": {"completion/complete": {"result": {}}}}),
            vec!["--read"],
            "resource template `a://{b}`: `b`: the result has no `values` array".to_owned(),
        ),
        (
            "bad-handshake",
            json!({"responses": {"initialize": {"result": {"protocolVersion": "2025-11-25", "capabilities": {}}}}}),
            none.clone(),
            "server: 2025-11-25: the result has no `serverInfo` with `name` and `version`".to_owned(),
        ),
        (
            "bad-handshake",
            json!({"responses": {"initialize": {"result": {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "a"}}}}}),
            none.clone(),
            "server: 2025-11-25: the result has no `serverInfo` with `name` and `version`".to_owned(),
        ),
        (
            "bad-handshake",
            json!({"responses": {"initialize": {"result": {"protocolVersion": "2025-11-25", "serverInfo": {"name": "a", "version": "1"}}}}}),
            none.clone(),
            "server: 2025-11-25: the result has no `capabilities` object".to_owned(),
        ),
        (
            "bad-handshake",
            json!({"responses": {"initialize": {"result": {"capabilities": {}, "serverInfo": {"name": "a", "version": "1"}}}}}),
            none.clone(),
            "server: 2025-11-25: the result has no `protocolVersion` string".to_owned(),
        ),
        (
            "bad-handshake",
            json!({"revisions": ["2025-06-18"]}),
            none.clone(),
            "server: none of the tried revisions is supported".to_owned(),
        ),
        (
            "bad-handshake",
            json!({"responses": {"initialize": {"error": "no"}}}),
            none.clone(),
            "server: 2025-11-25: `initialize`: the error has no `code` or no `message`: \"no\"".to_owned(),
        ),
        (
            "revision-refused",
            json!({"revisions": ["2025-06-18"]}),
            none.clone(),
            "server: 2025-11-25: the server offers 2025-06-18".to_owned(),
        ),
        (
            "invalid-response",
            json!({"tools": [], "responses": {"tools/list": {"result": {}}}}),
            none.clone(),
            "server: 2025-11-25: tools/list: the result of `tools/list` has no `tools` array".to_owned(),
        ),
        (
            "invalid-response",
            json!({"responses": {"ping": {"error": {"code": -32601, "message": "what?"}}}}),
            none.clone(),
            "server: 2025-11-25: ping: what? (code -32601)".to_owned(),
        ),
        (
            "invalid-response",
            json!({"responses": {"cargo-mcp/no-such-method": {"error": {"code": -32602, "message": "what?"}}}}),
            none.clone(),
            "server: 2025-11-25: the error code for an unknown method is -32602, expected -32601".to_owned(),
        ),
        (
            "invalid-response",
            json!({"responses": {"cargo-mcp/no-such-method": {"result": {}}}}),
            none.clone(),
            "server: 2025-11-25: an unknown method returns a result".to_owned(),
        ),
        (
            "invalid-response",
            json!({"responses": {"cargo-mcp/no-such-method": {"error": "no"}}}),
            none.clone(),
            "server: 2025-11-25: no response to an unknown method: the error has no `code` or no `message`: \"no\""
                .to_owned(),
        ),
        (
            "stdout-noise",
            json!({"stray_line": "listening …"}),
            none.clone(),
            "server: stdout contains a line that is not a message: \"listening …\"".to_owned(),
        ),
        (
            "unanswered-invalid-json",
            json!({"on_invalid_json": "ignore"}),
            none.clone(),
            "server: no response to invalid JSON: no response within 2 s".to_owned(),
        ),
        (
            "unanswered-invalid-json",
            json!({"on_invalid_json": {"error": {"code": -32600, "message": "no"}}}),
            none.clone(),
            "server: the response to invalid JSON is {\"error\":{\"code\":-32600,\"message\":\"no\"}}".to_owned(),
        ),
        (
            "unanswered-invalid-json",
            json!({"on_invalid_json": "exit"}),
            none.clone(),
            "server: the server exits when it receives invalid JSON".to_owned(),
        ),
        (
            "does-not-exit",
            json!({"ignores_closed_stdin": true}),
            none.clone(),
            "server: the server is still running 7 s after its stdin was closed".to_owned(),
        ),
    ];
    for (code, response, expected) in [
        ("bad-page", json!({"error": {"code": -32002, "message": "none"}}), "cannot be read: none (code -32002)"),
        (
            "bad-page",
            json!({"result": {"contents": [{"uri": PAGE, "mimeType": "text/html", "text": ""}]}}),
            "has the MIME type `text/html`, expected `text/html;profile=mcp-app`",
        ),
        ("bad-page", json!({"result": {"contents": [{"uri": PAGE, "mimeType": MIME_TYPE}]}}), "has no content"),
        (
            "bad-page",
            json!({"result": {"contents": [
                {"uri": PAGE, "mimeType": MIME_TYPE, "text": "<script src='mcp-runtime:bridge'></script>"}
            ]}}),
            "contains `mcp-runtime:bridge`, which is replaced only in `<script src=\"mcp-runtime:bridge\"></script>`",
        ),
    ] {
        let expected = format!("{page}the page `{PAGE}` {expected}");
        table.push((code, with_page(json!({}), response), none.clone(), expected));
    }
    for (name, ui, expected) in [
        ("fetch_pages", json!({}), "does not exist"),
        ("fetch_page", json!({"visibility": ["model"]}), "is not visible to pages"),
    ] {
        let text = format!("<script>app.call('{name}')</script>");
        let page = json!({"result": {"contents": [{"uri": PAGE, "mimeType": MIME_TYPE, "text": text}]}});
        let expected = format!("resource `{PAGE}`: the page calls `{name}`, which {expected}");
        table.push(("page-call", with_page(ui, page), none.clone(), expected));
    }
    let tools = |count: usize| {
        (0..count).map(|at| tool(json!({"name": format!("t{at}"), "description": format!("Perform action {at}.")})))
    };
    let many: Vec<Value> = tools(41).collect();
    table.push((
        "too-many-tools",
        json!({ "tools": many }),
        none.clone(),
        "server: the server lists 41 tools, more than 40".to_owned(),
    ));
    let deep = (0..6).fold(
        json!({"type": "string", "description": "The innermost."}),
        |inner, _| json!({"type": "object", "description": "The enclosing object.", "properties": {"a": inner}}),
    );
    table.push(("deep-nesting", with_schema(deep), none, format!("{page}argument `a.a.a.a.a.a` is 6 levels deep")));
    table
}

#[test]
fn every_code_is_reported() {
    for_each_at_once(findings(), |(code, file, options, expected)| {
        let args = [&["check", "--revision", "2025-11-25", "--format", "json"][..], &options].concat();
        let done = Server::new(&file).run(&args);
        let report: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{code}: {done:?}"));
        let lines: Vec<String> = report["findings"]
            .as_array()
            .expect("findings")
            .iter()
            .filter(|found| found["code"] == code)
            .map(line)
            .collect();
        assert!(lines.contains(&expected), "{code}: {expected}\n{lines:#?}\n{report:#}");
        let fails = report["findings"].as_array().expect("findings").iter().any(|found| found["level"] == "error");
        assert_eq!(done.code, Some(i32::from(fails)), "{code}");
    });
}

/// Findings that would be wrong, or would be reported twice.
#[test]
fn only_what_is_wrong_is_reported() {
    let count = |file: &Value, options: &[&str], code: &str| {
        let args = [&["check", "--revision", "2025-11-25", "--format", "json"][..], options].concat();
        let done = Server::new(file).run(&args);
        let report: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{code}: {done:?}"));
        let findings = report["findings"].as_array().expect("findings").iter();
        findings.filter(|found| found["code"] == code).count()
    };
    // A list cannot be read, but the revision is supported.
    let unlisted = json!({"tools": [], "responses": {"tools/list": {"result": {}}}});
    assert_eq!(count(&unlisted, &[], "bad-handshake"), 0);

    let error = json!({"error": {"code": -32603, "message": "no"}});
    let resources = json!({
        "resources": [{"uri": "a://b", "name": "b", "description": "All of them."}],
        "responses": {"resources/read": error},
    });
    for (options, expected) in [(&[][..], 0), (&["--read"], 1)] {
        assert_eq!(count(&resources, options, "unreadable-resource"), expected);
    }

    let prompts = |capabilities: Value| {
        json!({
            "prompts": [{"name": "p", "description": "Ask for it.", "arguments": [{"name": "a", "description": "It."}]}],
            "responses": {
                "initialize": {"result": {
                    "protocolVersion": "2025-11-25",
                    "capabilities": capabilities,
                    "serverInfo": {"name": "a", "version": "1"},
                }},
                "completion/complete": error,
            },
        })
    };
    for (capabilities, expected) in [(json!({"prompts": {}}), 0), (json!({"prompts": {}, "completions": {}}), 1)] {
        assert_eq!(count(&prompts(capabilities), &["--read"], "completion-failed"), expected);
    }

    let deep = (0..5).fold(
        json!({"type": "string", "description": "The innermost."}),
        |inner, _| json!({"type": "object", "description": "The enclosing object.", "properties": {"a": inner}}),
    );
    let listed = |names: &[&str]| {
        let tools = names.iter().map(|name| tool(json!({"name": name, "description": ""})));
        json!({"tools": tools.collect::<Vec<_>>()})
    };
    let numbered = (0..40).map(|at| tool(json!({"name": format!("t{at}"), "description": format!("Do thing {at}.")})));
    let described = json!({"uriTemplate": "a://{b}", "name": "b", "description": "One of them."});
    for (code, file, options) in [
        ("deep-nesting", with_schema(deep), &[][..]),
        ("map-schema", with_argument("a", json!({"type": "object", "additionalProperties": {}})), &[]),
        ("unknown-format", with_argument("a", json!({"type": "string", "format": "date-time"})), &[]),
        ("long-description", with_tool(json!({"description": "word".repeat(256)})), &[]),
        ("long-description", json!({"instructions": "x".repeat(2048)}), &[]),
        (
            "missing-description",
            with_schema(
                json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string"}}}),
            ),
            &[],
        ),
        (
            "missing-description",
            json!({"resources": [{"uri": "a://1", "name": "c"}], "resourceTemplates": [described]}),
            &[],
        ),
        (
            "bad-uri",
            json!({"resourceTemplates": [{"uriTemplate": "{+uri}", "name": "b", "description": "Any of them."}]}),
            &[],
        ),
        (
            "invalid-response",
            json!({"resources": [], "responses": {"resources/templates/list": {"error": {"code": -32601, "message": "what?"}}}}),
            &[],
        ),
        ("no-hints", with_tool(json!({"annotations": {"openWorldHint": true}})), &[]),
        ("same-description", listed(&["one", "two"]), &[]),
        ("name-clash", listed(&["one", "one"]), &[]),
        ("too-many-tools", json!({"tools": numbered.collect::<Vec<_>>()}), &[]),
        ("token-budget", with_tool(json!({})), &["--max-tokens", "33", "--max-tool-tokens", "33"]),
    ] {
        assert_eq!(count(&file, options, code), 0, "{code}: {file}");
    }

    // The page of several tools is read once, whatever their number.
    let ui = json!({"ui": {"resourceUri": PAGE}});
    let mut pages = with_page(json!({}), error);
    for name in ["second", "third"] {
        let other = tool(json!({"name": name, "description": format!("The {name} tool."), "_meta": ui}));
        pages["tools"].as_array_mut().expect("tools").push(other);
    }
    assert_eq!(count(&pages, &[], "bad-page"), 1);
    pages["tools"][2]["_meta"] = json!({"ui/resourceUri": "ui://notes/other"});
    assert_eq!(count(&pages, &[], "bad-page"), 2);
}

#[test]
fn frameworks_are_named() {
    let any = with_argument("a", json!({"description": "Anything."}));
    let report = Server::new(&any).run(&["check"]).expect_success();
    let expected =
        "frameworks: autogen-ext 0.7 cannot list the tool, Mastra loses the argument\n    help: add the type";
    assert!(report.contains(expected), "{report}");
    let report = Server::new(&any).run(&["check", "--format", "json"]).expect_success();
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let mut findings = report["findings"].as_array().expect("findings").iter();
    let missing = findings.find(|found| found["code"] == "missing-type").expect("a finding");
    assert_eq!(missing["frameworks"], "autogen-ext 0.7 cannot list the tool, Mastra loses the argument");
    let optional =
        with_argument("a", json!({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "A text."}));
    Server::new(&optional).run(&["check", "--deny", "notes"]).expect_success();
}

/// A schema refers to itself only if it contains itself, however often a definition is used.
#[test]
fn definitions_may_be_used_twice() {
    let (point, path) = (json!({"$ref": "#/$defs/point"}), json!({"$ref": "#/$defs/path"}));
    let properties = json!({"from": point, "to": point, "there": path, "back": path});
    let path = json!({"type": "object", "properties": {"start": point, "end": point}});
    let definitions = json!({"point": {"type": "string"}, "path": path});
    let schema = with_schema(json!({"type": "object", "properties": properties, "$defs": definitions}));
    let report = Server::new(&schema).run(&["check", "--revision", "2025-11-25"]).expect_success();
    assert!(report.contains("6 references") && !report.contains("refers to itself"), "{report}");
}

/// Schemas that are valid, however unusual.
#[test]
fn correct_schemas_are_not_reported_as_wrong() {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 1}));
    let external = "https://schemas.example.com/point";
    for schema in [
        json!({"properties": {"kind": text}, "patternProperties": {"^x-": text}, "required": ["kind", "x-id"]}),
        json!({"properties": {"a": text, "b": text}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        json!({"properties": {"a": text}, "allOf": [{"properties": {"b": text}}], "required": ["a", "b"]}),
        json!({"properties": {"a": text}, "$ref": "#/$defs/b", "$defs": {"b": {"properties": {"b": text}}}, "required": ["b"]}),
        json!({"properties": {"n": {"$ref": "#/$defs/n", "default": 3, "examples": [1, 2]}}, "$defs": {"n": number}}),
        json!({"properties": {"n": {"$ref": "#n"}}, "$defs": {"n": {"$anchor": "n", "type": "integer"}}}),
        json!({"properties": {"n": {"$dynamicRef": "#n"}}, "$defs": {"n": {"$dynamicAnchor": "n", "type": "integer"}}}),
        json!({"properties": {"n": {"$ref": "#/$defs/a%20b~1c"}}, "$defs": {"a b/c": number}}),
        json!({"properties": {"child": {"$ref": "#"}}}),
        json!({"properties": {"pair": {"type": "array", "prefixItems": [text, number], "items": false}}}),
        json!({"properties": {"$ref": text, "default": text, "required": text, "items": text}, "required": ["$ref"]}),
        json!({"properties": {"like": {"const": {"$ref": "#/nowhere"}, "default": {"$ref": "#/nowhere"}}}}),
        json!({"properties": {"a": text}, "$schema": "https://json-schema.org/draft/2020-12/schema#"}),
        json!({"properties": {"to": {"$ref": external}}, "$defs": {"point": {
            "$id": external, "type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "$defs": {"x": number},
        }}}),
    ] {
        let mut schema = schema;
        schema["type"] = "object".into();
        let done =
            Server::new(&with_schema(schema.clone())).run(&["check", "--revision", "2025-11-25", "--format", "json"]);
        let report: Value = serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{schema}: {done:?}"));
        let findings = report["findings"].as_array().expect("findings").iter();
        let is_wrong = |found: &&Value| {
            found["level"] == "error"
                || ["bad-example", "undeclared-required"].iter().any(|code| found["code"] == *code)
        };
        assert_eq!(findings.filter(is_wrong).map(line).collect::<Vec<_>>(), [""; 0], "{schema}");
    }
}

#[test]
fn every_code_has_a_test_and_an_explanation() {
    let listed = run(&["check", "--explain", "list"]).expect_success();
    let codes: BTreeSet<&str> = listed.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    let mut tested: BTreeSet<&str> = findings().iter().map(|(code, ..)| *code).collect();
    // Covered by `changes_are_reported_and_accepted`.
    tested.extend(["breaking-change", "compatible-change"]);
    tested.extend(authorization::codes());
    assert_eq!(codes, tested);
    for code in codes {
        let output = run(&["check", "--explain", code]).expect_success();
        assert!(output.contains(&format!("[{code}]: ")) && output.contains("\nhelp: "), "{output}");
    }
}
