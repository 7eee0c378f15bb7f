//! Requests to the client: their encoding in each revision, and decoding of the answers.

mod answers;

use std::fmt::Debug;

use mcp_runtime::{
    __private::encoded_question,
    Elicit, Fault, Image, Revision,
    ask::{
        Answer, Ask, Elicitation, FormElicitation, IncludeContext, ListRoots, SampleContent, SampleRequest,
        SampleToolResult, SampleToolUse, ToolChoice, UrlElicitation,
    },
    model::{Audio, Role},
};
use mcp_tests::schemas::Official;
use serde_json::{Value, json};

/// A field of every kind.
#[derive(Debug, PartialEq, Elicit)]
struct Every {
    /// Your name.
    #[elicit(title = "Name", length = 1..=20, default = "Jane")]
    name: String,
    #[elicit(format = "email", description = "Where to write to")]
    email: Option<String>,
    #[elicit(range = 18..)]
    age: u8,
    #[elicit(range = 0.0..=1.0, default = 0.5)]
    share: f64,
    #[elicit(range = -5..5)]
    offset: Option<i64>,
    #[elicit(default = true)]
    verified: bool,
    agreed: bool,
    size: Size,
    #[elicit(default = "b", title = "The grade")]
    grade: Grade,
    #[elicit(default = Old::Two)]
    old: Old,
    #[elicit(length = 1..=2, default = vec![Size::Small])]
    sizes: Vec<Size>,
    /// Any number.
    grades: Option<Vec<Grade>>,
    #[elicit(rename = "type")]
    r#type: Option<u32>,
}

#[derive(Debug, PartialEq, Elicit)]
enum Size {
    #[elicit(rename = "s")]
    Small,
    Large,
}

#[derive(Debug, PartialEq, Elicit)]
enum Grade {
    #[elicit(rename = "a", title = "Very good")]
    A,
    #[elicit(rename = "b", title = "Good")]
    B,
    C,
}

#[derive(Debug, PartialEq, Elicit)]
#[elicit(legacy_names)]
enum Old {
    #[elicit(title = "The first")]
    One,
    #[elicit(title = "The second")]
    Two,
}

#[derive(Debug, PartialEq, Elicit)]
struct Confirm {}

#[derive(Debug, PartialEq, Elicit)]
struct Unit;

#[derive(Debug, PartialEq, Elicit)]
struct Several {
    #[elicit(length = ..=1)]
    sizes: Vec<Size>,
    grades: Option<Vec<Grade>>,
}

#[derive(Debug, PartialEq, Elicit)]
struct Both {
    #[elicit(length = 2..=2, default = vec![Size::Small, Size::Large])]
    sizes: Vec<Size>,
}

fn every() -> Elicitation<Every> {
    Elicitation::new("every", "Fill in.")
}

/// Returns the request for a question.
fn encoded(ask: &impl Ask, revision: Revision) -> Value {
    serde_json::from_str(&encoded_question(ask, revision).unwrap()).unwrap()
}

/// Returns the fields of a form.
fn properties(ask: &impl Ask, revision: Revision) -> Value {
    encoded(ask, revision)["params"]["requestedSchema"]["properties"].clone()
}

#[test]
fn forms_are_encoded_for_each_revision() {
    let rich = json!({
        "name": { "type": "string", "title": "Name", "description": "Your name.", "minLength": 1, "maxLength": 20, "default": "Jane" },
        "email": { "type": "string", "description": "Where to write to", "format": "email" },
        "age": { "type": "integer", "minimum": 18, "maximum": 255 },
        "share": { "type": "number", "minimum": 0.0, "maximum": 1.0, "default": 0.5 },
        "offset": { "type": "integer", "minimum": -5, "maximum": 4 },
        "verified": { "type": "boolean", "default": true },
        "agreed": { "type": "boolean" },
        "size": { "type": "string", "enum": ["s", "Large"] },
        "grade": { "type": "string", "title": "The grade", "oneOf": [
            { "const": "a", "title": "Very good" }, { "const": "b", "title": "Good" }, { "const": "C", "title": "C" },
        ], "default": "b" },
        "old": { "type": "string", "enum": ["One", "Two"], "enumNames": ["The first", "The second"], "default": "Two" },
        "sizes": { "type": "array", "items": { "type": "string", "enum": ["s", "Large"] }, "minItems": 1, "maxItems": 2, "default": ["s"] },
        "grades": { "type": "array", "description": "Any number.", "items": { "anyOf": [
            { "const": "a", "title": "Very good" }, { "const": "b", "title": "Good" }, { "const": "C", "title": "C" },
        ] } },
        "type": { "type": "integer", "minimum": 0 },
    });
    let plain = json!({
        "name": { "type": "string", "title": "Name", "description": "Your name.", "minLength": 1, "maxLength": 20 },
        "email": { "type": "string", "description": "Where to write to", "format": "email" },
        "age": { "type": "integer", "minimum": 18, "maximum": 255 },
        "share": { "type": "number", "minimum": 0.0, "maximum": 1.0 },
        "offset": { "type": "integer", "minimum": -5, "maximum": 4 },
        "verified": { "type": "boolean", "default": true },
        "agreed": { "type": "boolean" },
        "size": { "type": "string", "enum": ["s", "Large"] },
        "grade": { "type": "string", "title": "The grade", "enum": ["a", "b", "C"], "enumNames": ["Very good", "Good", "C"] },
        "old": { "type": "string", "enum": ["One", "Two"], "enumNames": ["The first", "The second"] },
        "sizes.s": { "type": "boolean", "title": "sizes: s", "description": "(at least 1 and at most 2)", "default": true },
        "sizes.Large": { "type": "boolean", "title": "sizes: Large", "description": "(at least 1 and at most 2)", "default": false },
        "grades.a": { "type": "boolean", "title": "grades: Very good", "description": "Any number.", "default": false },
        "grades.b": { "type": "boolean", "title": "grades: Good", "description": "Any number.", "default": false },
        "grades.C": { "type": "boolean", "title": "grades: C", "description": "Any number.", "default": false },
        "type": { "type": "integer", "minimum": 0 },
    });
    for (revision, mode, expected) in [
        (Revision::V2025_06_18, Value::Null, plain),
        (Revision::V2025_11_25, json!("form"), rich.clone()),
        (Revision::V2026_07_28, json!("form"), rich),
    ] {
        let question = encoded(&every(), revision);
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["mode"], mode, "{revision}");
        assert_eq!(question["params"]["message"], "Fill in.");
        let schema = &question["params"]["requestedSchema"];
        assert_eq!(schema["properties"], expected, "{revision}: {:#}", schema["properties"]);
        assert_eq!(schema["required"], json!(["age", "agreed", "size"]), "{revision}");
        let several = encoded(&Elicitation::<Several>::new("several", ""), revision);
        let required = match revision {
            Revision::V2025_06_18 => json!(["sizes.s", "sizes.Large"]),
            _ => json!(["sizes"]),
        };
        assert_eq!(several["params"]["requestedSchema"]["required"], required, "{revision}");
        let empty = json!({ "type": "object", "properties": {} });
        assert_eq!(encoded(&Elicitation::<Confirm>::new("a", "b"), revision)["params"]["requestedSchema"], empty);
        assert_eq!(encoded(&Elicitation::<Unit>::new("a", "b"), revision)["params"]["requestedSchema"], empty);
    }
}

#[test]
fn booleans_stand_for_the_choices_of_a_list() {
    let boolean =
        |title: &str| json!({ "type": "boolean", "title": title, "description": "(exactly 2)", "default": true });
    assert_eq!(
        properties(&Elicitation::<Both>::new("both", ""), Revision::V2025_06_18),
        json!({ "sizes.s": boolean("sizes: s"), "sizes.Large": boolean("sizes: Large") })
    );
}

/// The limits of a larger type mean nothing to a user.
#[test]
fn the_limits_of_small_types_are_displayed() {
    #[derive(Elicit)]
    #[allow(dead_code)]
    struct Limited {
        port: u16,
        number: i32,
    }

    assert_eq!(
        properties(&Elicitation::<Limited>::new("limited", ""), Revision::V2025_11_25),
        json!({ "port": { "type": "integer", "minimum": 0, "maximum": 65535 }, "number": { "type": "integer" } })
    );
}

#[test]
fn fields_keep_their_order() {
    let text = encoded_question(&every(), Revision::V2026_07_28).unwrap();
    let positions: Vec<usize> = ["name", "email", "age", "share", "offset", "verified", "agreed", "size", "grade"]
        .iter()
        .map(|name| text.find(&format!("\"{name}\":{{")).unwrap())
        .collect();
    assert!(positions.is_sorted(), "{text}");
}

/// The official conformance suite expects exactly these fields.
#[test]
fn forms_match_the_conformance_suite() {
    #[derive(Elicit)]
    #[allow(dead_code)]
    struct Defaults {
        #[elicit(default = "John Doe")]
        name: String,
        #[elicit(default = 30)]
        age: i64,
        #[elicit(default = 95.5)]
        score: f64,
        #[elicit(default = "active")]
        status: Status,
        #[elicit(default = true)]
        verified: bool,
    }

    #[derive(Elicit)]
    enum Status {
        #[elicit(rename = "active")]
        Active,
        #[elicit(rename = "inactive")]
        Inactive,
    }

    let ask = Elicitation::<Defaults>::new("defaults", "");
    let expected = json!({
        "name": { "type": "string", "default": "John Doe" },
        "age": { "type": "integer", "default": 30 },
        "score": { "type": "number", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive"], "default": "active" },
        "verified": { "type": "boolean", "default": true },
    });
    assert_eq!(properties(&ask, Revision::V2025_11_25), expected);
}

fn url() -> UrlElicitation {
    UrlElicitation::new("key", "https://example.com/connect?a=b#c", "Connect.")
}

fn weather() -> SampleRequest {
    let input = json!({ "city": "Paris" }).as_object().unwrap().clone();
    SampleRequest::new("How is the weather?")
        .with_contents(Role::Assistant, ["Let me see.".into(), SampleToolUse::new("1", "weather", input).into()])
        .with_tool_results([SampleToolResult::error("1", "nobody knows")])
        .with_tool("weather", "Look out.", json!({ "type": "object", "properties": { "city": { "type": "string" } } }))
        .tool_choice(ToolChoice::Required)
}

fn detailed() -> SampleRequest {
    SampleRequest::new("Hello")
        .with_message(Role::Assistant, "Hi")
        .with_contents(Role::User, ["Look:".into(), Image::png([1, 2]).into()])
        .system_prompt("Be kind.")
        .max_tokens(10)
        .temperature(0.5)
        .with_stop_sequences(["a", "b"])
        .with_model_hint("sonnet")
        .with_model_hint("claude")
        .cost(0.9)
        .cost(0.1)
        .speed(0.2)
        .intelligence(1.0)
        .with_metadata("provider", json!({ "top_k": 3 }))
        .include_context(IncludeContext::None)
}

#[test]
fn requests_match_the_official_schemas() {
    fn check<A: Ask>(ask: &A, definition: &str, since: Revision) -> Vec<String> {
        let mut problems = Vec::new();
        for revision in Revision::ALL {
            let question = match encoded_question(ask, revision) {
                Ok(question) => question,
                Err(fault) => {
                    assert!(revision < since, "{revision}: {fault}");
                    assert!(matches!(fault, Fault::MissingCapability { .. }), "{revision}: {fault}");
                    continue;
                }
            };
            assert!(revision >= since, "{revision}: {question}");
            let Some(official) = Official::load(revision) else { continue };
            let mut question: Value = serde_json::from_str(&question).unwrap();
            question["jsonrpc"] = json!("2.0");
            question["id"] = json!(1);
            problems.extend(official.validate(definition, &question).iter().map(|it| format!("{revision}: {it}")));
        }
        problems
    }

    let problems = [
        check(&every(), "ElicitRequest", Revision::V2025_06_18),
        check(&Elicitation::<Confirm>::new("confirm", "Sure?"), "ElicitRequest", Revision::V2025_06_18),
        check(&Elicitation::<Several>::new("several", "Choose."), "ElicitRequest", Revision::V2025_06_18),
        check(&url(), "ElicitRequest", Revision::V2025_11_25),
        check(&detailed(), "CreateMessageRequest", Revision::V2024_11_05),
        check(&weather().with_message_meta("com.example/key", 1), "CreateMessageRequest", Revision::V2025_11_25),
        check(&ListRoots, "ListRootsRequest", Revision::V2024_11_05),
    ]
    .concat();
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn url_elicitations_are_encoded_and_validated() {
    let params = |revision| encoded(&url(), revision)["params"].clone();
    let mut expected = json!({ "mode": "url", "url": "https://example.com/connect?a=b#c", "message": "Connect." });
    assert_eq!(params(Revision::V2026_07_28), expected);
    // The id correlates the notification that completes the interaction, so each question has a unique id.
    let (first, second) = (params(Revision::V2025_11_25), params(Revision::V2025_11_25));
    expected["elicitationId"] = first["elicitationId"].clone();
    assert_eq!(first, expected);
    assert_ne!(first["elicitationId"], second["elicitationId"]);
    for url in [
        "",
        "/connect",
        "example.com",
        "javascript:alert(1)",
        "https://",
        "https:///a",
        "https://?a",
        "https://#a",
        "https://a b",
        r"https://example.com\@localhost",
        r#"https://a/"b""#,
        "https://a/<b>",
        "https://a/`b`",
        "ftp://a",
        "http://ü",
        "https://:443/",
        "https://[::1",
        "https://[a]/",
        "http://[::1].evil.example/",
        "https://a:port/",
        "https://a:99999/",
        "https://a]/",
        "https://a/%zz",
        "https://a/%4",
    ] {
        let fault = encoded_question(&UrlElicitation::new("key", url, ""), Revision::V2026_07_28).unwrap_err();
        let message = format!("the user cannot open `{url}`, expected an absolute URL such as `https://…`");
        assert_eq!(fault, Fault::Internal(message));
    }
    let https = "`https`, because only pages on the user's own machine may use `http`";
    let no_password = "a URL without a user name or password";
    for (url, expected) in [
        ("HTTP://localhost:1", None),
        ("http://127.0.0.1", None),
        ("http://127.8.9.10:8080/a?b#c", None),
        ("http://[::1]:80/", None),
        ("HTTPS://example.com:8443/a", None),
        ("https://[2001:db8::1]/", None),
        ("https://example.com/@ada?to=a@b.c#@", None),
        ("https://example.com?to=a@b.c", None),
        ("http://localhost#@", None),
        ("http://example.com", Some(https)),
        ("http://127.evil.example/", Some(https)),
        ("http://127.0.0.1.evil.example/", Some(https)),
        ("http://localhost.example.com/", Some(https)),
        ("http://example.com/localhost", Some(https)),
        ("http://example.com#127.0.0.1", Some(https)),
        ("http://128.0.0.1", Some(https)),
        ("http://[::2]/", Some(https)),
        ("http://0.0.0.0", Some(https)),
        ("http://localhost@example.com", Some(no_password)),
        ("https://user:password@example.com", Some(no_password)),
    ] {
        for revision in mcp_tests::revisions(|expected| expected.url_elicitation) {
            let question = encoded_question(&UrlElicitation::new("key", url, ""), revision);
            let message = |expected| format!("the user cannot open `{url}`, expected {expected}");
            assert_eq!(question.err(), expected.map(message).map(Fault::Internal), "{url}");
        }
    }
}

#[test]
fn a_question_unsupported_by_the_revision_is_a_missing_capability() {
    for (fault, expected) in [
        (encoded_question(&every(), Revision::V2025_03_26), json!({ "elicitation": {} })),
        (encoded_question(&url(), Revision::V2025_06_18), json!({ "elicitation": { "url": {} } })),
        (encoded_question(&weather(), Revision::V2025_06_18), json!({ "sampling": { "tools": {} } })),
    ] {
        assert_eq!(fault, Err(Fault::MissingCapability { required: expected }));
    }
}

#[test]
fn sampling_requests_are_encoded_for_each_revision() {
    let params = |ask: &SampleRequest, revision| encoded(ask, revision)["params"].clone();
    let image = json!({ "type": "image", "data": "AQI=", "mimeType": "image/png" });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let mut expected = json!({
        "messages": [
            { "role": "user", "content": text("Hello") },
            { "role": "assistant", "content": text("Hi") },
            { "role": "user", "content": [text("Look:"), image] },
        ],
        "modelPreferences": {
            "hints": [{ "name": "sonnet" }, { "name": "claude" }],
            "costPriority": 0.1, "speedPriority": 0.2, "intelligencePriority": 1.0,
        },
        "systemPrompt": "Be kind.", "includeContext": "none", "temperature": 0.5, "maxTokens": 10,
        "stopSequences": ["a", "b"], "metadata": { "provider": { "top_k": 3 } },
    });
    assert_eq!(params(&detailed(), Revision::V2026_07_28), expected);
    let text_of_request = encoded_question(&detailed(), Revision::V2026_07_28).unwrap();
    assert_eq!(text_of_request.matches("costPriority").count(), 1, "the last value replaces the others");
    expected["messages"] = json!([
        { "role": "user", "content": text("Hello") },
        { "role": "assistant", "content": text("Hi") },
        { "role": "user", "content": text("Look:") },
        { "role": "user", "content": image },
    ]);
    assert_eq!(params(&detailed(), Revision::V2025_06_18), expected);
    assert_eq!(
        params(&weather(), Revision::V2025_11_25),
        json!({
            "messages": [
                { "role": "user", "content": text("How is the weather?") },
                { "role": "assistant", "content": [
                    text("Let me see."),
                    { "type": "tool_use", "id": "1", "name": "weather", "input": { "city": "Paris" } },
                ] },
                { "role": "user", "content": {
                    "type": "tool_result", "toolUseId": "1", "content": [text("nobody knows")], "isError": true,
                } },
            ],
            "maxTokens": 1000,
            "tools": [{
                "name": "weather", "description": "Look out.",
                "inputSchema": { "type": "object", "properties": { "city": { "type": "string" } } },
            }],
            "toolChoice": { "mode": "required" },
        })
    );
    let answered = SampleRequest::new("a")
        .with_message(Role::Assistant, SampleToolUse::new("1", "t", serde_json::Map::new()))
        .with_tool_results([SampleToolResult::new("1", "sunny")])
        .cost(0.5);
    let params = params(&answered, Revision::V2025_11_25);
    let result = json!({ "type": "tool_result", "toolUseId": "1", "content": [text("sunny")] });
    assert_eq!(params["messages"][2]["content"], result);
    assert_eq!(params["modelPreferences"], json!({ "costPriority": 0.5 }));
    let with_empty_message = SampleRequest::new("Hello").with_contents(Role::User, []);
    let messages = &encoded(&with_empty_message, Revision::V2025_11_25)["params"]["messages"];
    assert_eq!(*messages, json!([{ "role": "user", "content": text("Hello") }]));
}

#[test]
fn invalid_sampling_requests_are_rejected() {
    let tool_use = || SampleToolUse::new("1", "a", serde_json::Map::new());
    let ask = || SampleRequest::new("Hello");
    for (ask, revision, expected) in [
        (ask().cost(1.5), Revision::V2026_07_28, "`costPriority` is 1.5, expected a number from 0 to 1"),
        (ask().cost(-0.5), Revision::V2026_07_28, "`costPriority` is -0.5, expected a number from 0 to 1"),
        (ask().speed(f64::NAN), Revision::V2026_07_28, "`speedPriority` is NaN, expected a number from 0 to 1"),
        (ask().temperature(f64::INFINITY), Revision::V2026_07_28, "`temperature` is inf, expected a number"),
        (
            ask().with_tool("a", "b", json!({})),
            Revision::V2026_07_28,
            "the schema of the tool `a` must describe an object: expected `\"type\": \"object\"`",
        ),
        (
            ask().with_message(Role::User, Audio::wav([1])),
            Revision::V2024_11_05,
            "the protocol revision of the client does not support audio in sampling",
        ),
        (
            ask().with_message(Role::User, tool_use()),
            Revision::V2026_07_28,
            "the tool call `1` is invalid: expected a message of the assistant and an id of its own",
        ),
        (
            ask().with_contents(Role::Assistant, [tool_use().into(), tool_use().into()]),
            Revision::V2026_07_28,
            "the tool call `1` is invalid: expected a message of the assistant and an id of its own",
        ),
        (
            ask().with_message(Role::Assistant, tool_use()),
            Revision::V2026_07_28,
            "the tool call `1` has no result in the next message",
        ),
        (
            ask()
                .with_contents(
                    Role::Assistant,
                    [tool_use().into(), SampleToolUse::new("2", "a", serde_json::Map::new()).into()],
                )
                .with_tool_results([SampleToolResult::new("1", "a")]),
            Revision::V2026_07_28,
            "the tool call `2` has no result in the next message",
        ),
        (
            ask().with_message(Role::Assistant, tool_use()).with_message(Role::User, "and now?"),
            Revision::V2026_07_28,
            "the tool call `1` has no result in the next message",
        ),
        (
            ask()
                .with_message(Role::Assistant, tool_use())
                .with_message(Role::User, "and now?")
                .with_tool_results([SampleToolResult::new("1", "a")]),
            Revision::V2026_07_28,
            "the tool call `1` has no result in the next message",
        ),
        (
            ask().with_tool_results([SampleToolResult::new("1", "a")]),
            Revision::V2026_07_28,
            "the tool result `1` does not match a tool call in the previous message",
        ),
        (
            ask()
                .with_message(Role::Assistant, tool_use())
                .with_tool_results([SampleToolResult::new("1", "a"), SampleToolResult::new("1", "b")]),
            Revision::V2026_07_28,
            "the tool result `1` does not match a tool call in the previous message",
        ),
        (
            ask()
                .with_message(Role::Assistant, tool_use())
                .with_contents(Role::User, ["See:".into(), SampleToolResult::new("1", "a").into()]),
            Revision::V2026_07_28,
            "tool results must be the only content of a user message",
        ),
        (
            ask()
                .with_message(Role::Assistant, tool_use())
                .with_message(Role::Assistant, SampleToolResult::new("1", "a")),
            Revision::V2026_07_28,
            "tool results must be the only content of a user message",
        ),
    ] {
        assert_eq!(encoded_question(&ask, revision), Err(Fault::Internal(expected.to_owned())));
    }
}

/// Before 2025-11-25, only booleans have defaults.
#[test]
fn forms_with_a_schema_are_encoded_for_each_revision() {
    let form = |defaults: bool| {
        let mut schema = json!({"type": "object", "properties": {
            "agreed": {"type": "boolean", "default": true}, "name": {"type": "string"}, "age": {"type": "integer"},
        }});
        if defaults {
            schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
            (schema["properties"]["name"]["default"], schema["properties"]["age"]["default"]) =
                (json!("Ada"), json!(7));
        }
        schema
    };
    for (revision, mode, expected) in
        [(Revision::V2025_06_18, Value::Null, form(false)), (Revision::V2025_11_25, json!("form"), form(true))]
    {
        let question = encoded_question(&FormElicitation::new("a", "Who?", form(true)), revision).unwrap();
        let question: Value = serde_json::from_str(&question).unwrap();
        assert_eq!((&question["params"]["mode"], &question["params"]["requestedSchema"]), (&mode, &expected));
    }
    let titled = json!([{"const": "x", "title": "X"}]);
    for field in [
        json!({"type": "array", "items": {"enum": ["x"]}}),
        json!({"type": "string", "oneOf": titled}),
        json!({"type": "string", "anyOf": titled}),
    ] {
        let form = json!({"type": "object", "properties": {"a": field}});
        assert!(encoded_question(&FormElicitation::new("a", "b", form), Revision::V2025_06_18).is_err(), "{field}");
    }
    for nested in [
        json!({"type": "object", "properties": {"x": {"type": "string"}}}),
        json!({"properties": {"x": {"type": "string"}}}),
        json!({"type": "array", "items": {"type": "object"}}),
        json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}),
        json!({"type": "array", "items": {"type": "number"}}),
        json!({"type": "array"}),
        json!({"type": ["string", "object"]}),
        json!({"anyOf": [{"type": "string"}, {"type": "object"}]}),
        json!({"$ref": "#/$defs/Person"}),
        json!(true),
    ] {
        let form = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": nested}});
        for revision in Revision::ALL {
            let error = encoded_question(&FormElicitation::new("a", "Who?", form.clone()), revision).unwrap_err();
            assert!(error.to_string().contains("the field `b` of the form must be a string"), "{revision}: {error}");
        }
    }
    // Clients of Python servers receive optional fields in this form.
    let optional = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
    let form = json!({"type": "object", "properties": {"a": optional}});
    assert!(encoded_question(&FormElicitation::new("a", "b", form), Revision::V2025_11_25).is_ok());
    for root in [json!({}), json!({"type": "object"}), json!({"properties": {}}), json!(true), json!("a")] {
        let error = encoded_question(&FormElicitation::new("a", "b", root), Revision::V2025_06_18).unwrap_err();
        assert!(error.to_string().contains("must have the type `object` and `properties`"), "{error}");
    }
}

#[test]
fn invalid_defaults_are_rejected() {
    #[derive(Elicit)]
    #[allow(dead_code)]
    struct Wrong {
        #[elicit(format = "email", default = "nobody")]
        email: String,
        #[elicit(range = ..=3, default = 2 + 2)]
        count: u8,
    }

    let fault = encoded_question(&Elicitation::<Wrong>::new("a", "b"), Revision::V2026_07_28).unwrap_err();
    let expected = r#"invalid default in the form: `email`: "nobody" must match the format `email`; `count`: 4 must be at least 0 and at most 3"#;
    assert_eq!(fault.to_string(), expected);
}
