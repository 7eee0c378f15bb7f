//! The scenarios: requests, and the expected responses.

use mcp_runtime::Revision;
use serde_json::{Value, json};

use crate::client::{Client, RpcError};

/// A scenario. Those of the official suite keep their names.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) applies_to: Revisions,
    pub(crate) play: fn(&mut Client) -> Outcome,
}

type Outcome = Result<(), String>;

/// Returns whether a scenario applies to a revision.
type Revisions = fn(Revision) -> bool;

const ALL: Revisions = |_| true;
const SESSIONS: Revisions = |revision| !revision.is_stateless();
const STATELESS: Revisions = |revision| revision.is_stateless();
const ELICITATION: Revisions = |revision| revision >= Revision::V2025_06_18;
const BEFORE_ELICITATION: Revisions = |revision| revision < Revision::V2025_06_18;
const RICH_FORMS: Revisions = |revision| revision >= Revision::V2025_11_25;

macro_rules! scenarios {
    ($($name:literal $revisions:ident $play:ident)+) => {
        pub(crate) const SCENARIOS: &[Scenario] =
            &[$(Scenario { name: $name, applies_to: $revisions, play: $play }),+];
    };
}

scenarios! {
    "server-initialize" SESSIONS initializes
    "server-discover" STATELESS discovers
    "capabilities-match-handlers" ALL capabilities_match
    "ping" SESSIONS pings
    "removed-methods" STATELESS removed_methods
    "unknown-method" ALL unknown_method
    "logging-set-level" SESSIONS sets_the_level
    "completion-complete" ALL completes
    "tools-list" ALL lists_tools
    "tools-list-deterministic-order" ALL lists_in_order
    "tools-call-simple-text" ALL text
    "tools-call-image" ALL image
    "tools-call-audio" ALL audio
    "tools-call-embedded-resource" ALL embedded_resource
    "tools-call-mixed-content" ALL mixed_content
    "tools-call-error" ALL error
    "tools-call-unknown" ALL unknown_tool
    "tools-call-with-progress" ALL progress
    "tools-call-with-logging" SESSIONS logging
    "no-log-without-level" STATELESS no_log
    "log-at-a-level" STATELESS log_at_a_level
    "tools-call-sampling" SESSIONS sampling
    "tools-call-elicitation" ELICITATION elicitation
    "no-elicitation" BEFORE_ELICITATION no_elicitation
    "elicitation-sep1034-defaults" RICH_FORMS defaults
    "elicitation-sep1330-enums" RICH_FORMS enums
    "input-required-result-multi-round" STATELESS many_rounds
    "input-required-result-multiple-input-requests" STATELESS many_questions
    "input-required-result-tampered-state" STATELESS tampered_state
    "input-required-result-non-tool-request" STATELESS prompt_that_asks
    "resources-list" ALL lists_resources
    "resources-templates-list" ALL lists_templates
    "resources-read-text" ALL reads_text
    "resources-read-binary" ALL reads_binary
    "resources-templates-read" ALL reads_a_template
    "resources-not-found" ALL unknown_resource
    "resources-subscribe" SESSIONS subscribes
    "subscriptions-listen" STATELESS listens
    "tools-list-changed" SESSIONS tools_change
    "prompts-list" ALL lists_prompts
    "prompts-get-simple" ALL simple_prompt
    "prompts-get-with-args" ALL prompt_with_arguments
    "prompts-get-embedded-resource" ALL prompt_with_resource
    "prompts-get-with-image" ALL prompt_with_image
    "caching" STATELESS caching_hints
}

/// Returns an error that names the checked part if a condition does not hold.
fn ensure(holds: bool, part: &str, value: &Value) -> Outcome {
    if holds { Ok(()) } else { Err(format!("unexpected {part}: {value}")) }
}

fn request(client: &mut Client, method: &str, params: Value) -> Result<Value, String> {
    client.request(method, params).map_err(|RpcError(error)| format!("{method} failed: {error}"))
}

fn call(client: &mut Client, tool: &str, arguments: Value) -> Result<Value, String> {
    request(client, "tools/call", json!({"name": tool, "arguments": arguments}))
}

fn request_error(client: &mut Client, method: &str, params: Value, codes: &[i64]) -> Result<RpcError, String> {
    match client.request(method, params) {
        Err(error) if codes.contains(&error.code()) => Ok(error),
        other => Err(format!("expected {method} to fail with one of {codes:?}, got {other:?}")),
    }
}

fn content<'a>(result: &'a Value, kind: &str) -> Option<&'a Value> {
    result["content"].as_array().into_iter().flatten().find(|item| item["type"] == kind)
}

fn initializes(client: &mut Client) -> Outcome {
    let result = client.server_info.clone();
    ensure(result["protocolVersion"] == client.revision.as_str(), "version", &result)?;
    ensure(result["serverInfo"]["name"] == "everything", "name", &result)
}

fn discovers(client: &mut Client) -> Outcome {
    let found = client.server_info.clone();
    let versions = found["supportedVersions"].as_array().map_or(0, Vec::len);
    ensure(versions == Revision::ALL.len(), "versions", &found)?;
    let info = &found["_meta"]["io.modelcontextprotocol/serverInfo"];
    ensure(info["name"] == "everything" && info["version"].is_string(), "server info", &found)
}

fn capabilities_match(client: &mut Client) -> Outcome {
    let declared = client.server_info["capabilities"].clone();
    for (capability, method) in [("tools", "tools/list"), ("prompts", "prompts/list"), ("resources", "resources/list")]
    {
        ensure(declared.get(capability).is_some(), capability, &declared)?;
        request(client, method, json!({}))?;
    }
    ensure(declared["tools"]["listChanged"] == true, "tools.listChanged", &declared)?;
    ensure(declared["resources"]["subscribe"] == true, "resources.subscribe", &declared)
}

fn pings(client: &mut Client) -> Outcome {
    let result = request(client, "ping", json!({}))?;
    ensure(result == json!({}), "ping", &result)
}

fn removed_methods(client: &mut Client) -> Outcome {
    for method in ["ping", "initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        request_error(client, method, json!({"uri": "test://watched-resource", "level": "info"}), &[-32601])?;
    }
    Ok(())
}

fn unknown_method(client: &mut Client) -> Outcome {
    request_error(client, "unknown/method", json!({}), &[-32601]).map(drop)
}

fn sets_the_level(client: &mut Client) -> Outcome {
    let result = request(client, "logging/setLevel", json!({"level": "info"}))?;
    ensure(result == json!({}), "logging/setLevel", &result)?;
    request_error(client, "logging/setLevel", json!({"level": "loud"}), &[-32602]).map(drop)
}

fn completes(client: &mut Client) -> Outcome {
    let reference = json!({"type": "ref/prompt", "name": "test_prompt_with_arguments"});
    let params = json!({"ref": reference, "argument": {"name": "arg1", "value": "test"}});
    let result = request(client, "completion/complete", params)?;
    ensure(result["completion"]["values"].is_array(), "values", &result)
}

fn lists_tools(client: &mut Client) -> Outcome {
    let result = request(client, "tools/list", json!({}))?;
    let tools = result["tools"].as_array().ok_or("no tools")?;
    for tool in tools {
        let name = tool["name"].as_str().unwrap_or_default();
        let is_valid =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        ensure(is_valid && name.len() <= 128, "name", tool)?;
        ensure(tool["description"].as_str().is_some_and(|text| !text.is_empty()), "description", tool)?;
        ensure(tool["inputSchema"]["type"] == "object", "schema", tool)?;
    }
    Ok(())
}

fn lists_in_order(client: &mut Client) -> Outcome {
    let names = |result: Value| -> Vec<Value> {
        result["tools"].as_array().into_iter().flatten().map(|tool| tool["name"].clone()).collect()
    };
    let first = names(request(client, "tools/list", json!({}))?);
    let again = names(request(client, "tools/list", json!({}))?);
    ensure(first == again && !first.is_empty(), "order", &json!([first, again]))
}

fn text(client: &mut Client) -> Outcome {
    let result = request(client, "tools/call", json!({"name": "test_simple_text"}))?;
    let text = content(&result, "text").map(|item| &item["text"]);
    ensure(text == Some(&json!("This is a simple text response for testing.")), "text", &result)
}

fn image(client: &mut Client) -> Outcome {
    let result = call(client, "test_image_content", json!({}))?;
    let image = content(&result, "image").ok_or(format!("no image: {result}"))?;
    ensure(
        image["mimeType"] == "image/png" && image["data"].as_str().is_some_and(|data| !data.is_empty()),
        "value",
        image,
    )
}

fn audio(client: &mut Client) -> Outcome {
    let result = call(client, "test_audio_content", json!({}))?;
    // 2024-11-05 has no audio content.
    if client.revision == Revision::V2024_11_05 {
        let resource = content(&result, "resource").ok_or(format!("no resource: {result}"))?;
        return ensure(resource["resource"]["mimeType"] == "audio/wav", "value", resource);
    }
    let audio = content(&result, "audio").ok_or(format!("no audio: {result}"))?;
    ensure(audio["mimeType"] == "audio/wav" && audio["data"].is_string(), "value", audio)
}

fn embedded_resource(client: &mut Client) -> Outcome {
    let result = call(client, "test_embedded_resource", json!({}))?;
    let found = content(&result, "resource").ok_or(format!("no resource: {result}"))?;
    ensure(found["resource"]["uri"] == "test://embedded-resource", "URI", found)?;
    ensure(found["resource"]["text"].is_string() && found["resource"]["mimeType"] == "text/plain", "value", found)
}

fn mixed_content(client: &mut Client) -> Outcome {
    let result = call(client, "test_multiple_content_types", json!({}))?;
    for kind in ["text", "image", "resource"] {
        ensure(content(&result, kind).is_some(), kind, &result)?;
    }
    Ok(())
}

fn error(client: &mut Client) -> Outcome {
    let result = call(client, "test_error_handling", json!({}))?;
    ensure(result["isError"] == true, "isError", &result)?;
    ensure(content(&result, "text").is_some(), "content", &result)
}

fn unknown_tool(client: &mut Client) -> Outcome {
    request_error(client, "tools/call", json!({"name": "no_such_tool", "arguments": {}}), &[-32602]).map(drop)
}

fn progress(client: &mut Client) -> Outcome {
    for token in [json!("progress-test-1"), json!(7)] {
        client.notifications.clear();
        let params = json!({"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": token}});
        request(client, "tools/call", params)?;
        let notified = client.notifications.iter().filter(|message| message["method"] == "notifications/progress");
        let notified: Vec<_> = notified.map(|message| &message["params"]).collect();
        let amounts: Vec<_> = notified.iter().filter_map(|params| params["progress"].as_f64()).collect();
        let has_token = notified.iter().all(|params| params["progressToken"] == token);
        ensure(has_token && amounts == [0.0, 50.0, 100.0], "progress", &json!(notified))?;
    }
    Ok(())
}

fn logging(client: &mut Client) -> Outcome {
    request(client, "logging/setLevel", json!({"level": "debug"}))?;
    call(client, "test_tool_with_logging", json!({}))?;
    let logged = client.notifications.iter().filter(|message| message["method"] == "notifications/message").count();
    ensure(logged >= 3, "messages", &json!(client.notifications))
}

fn no_log(client: &mut Client) -> Outcome {
    call(client, "test_logging_tool", json!({}))?;
    ensure(client.notifications.is_empty(), "notifications", &json!(client.notifications))
}

fn log_at_a_level(client: &mut Client) -> Outcome {
    let meta = json!({"io.modelcontextprotocol/logLevel": "info"});
    request(client, "tools/call", json!({"name": "test_logging_tool", "arguments": {}, "_meta": meta}))?;
    ensure(
        client.notifications.iter().any(|message| message["method"] == "notifications/message"),
        "log",
        &json!(client.notifications),
    )
}

/// Checks that the server sent exactly one question, with this method.
fn expect_question(client: &Client, method: &str) -> Outcome {
    let methods: Vec<_> = client.questions.iter().map(|question| &question["method"]).collect();
    ensure(methods == [method], "questions", &json!(methods))
}

fn sampling(client: &mut Client) -> Outcome {
    let result = call(client, "test_sampling", json!({"prompt": "Test prompt for sampling"}))?;
    expect_question(client, "sampling/createMessage")?;
    let text = content(&result, "text").and_then(|item| item["text"].as_str()).unwrap_or_default();
    ensure(text.contains("This is a test response from the client"), "text", &result)
}

fn elicitation(client: &mut Client) -> Outcome {
    let result = call(client, "test_elicitation", json!({"message": "Please provide your information"}))?;
    expect_question(client, "elicitation/create")?;
    let text = content(&result, "text").and_then(|item| item["text"].as_str()).unwrap_or_default();
    ensure(text.contains("accept") && text.contains("Alice"), "text", &result)
}

fn no_elicitation(client: &mut Client) -> Outcome {
    let params = json!({"name": "test_elicitation", "arguments": {"message": "Please provide your information"}});
    let result = client.request("tools/call", params).map_err(|error| format!("{error:?}"))?;
    ensure(result["isError"] == true, "isError", &result)?;
    ensure(client.questions.is_empty(), "questions", &json!(client.questions))
}

fn defaults(client: &mut Client) -> Outcome {
    call(client, "test_elicitation_sep1034_defaults", json!({}))?;
    let properties = &client.questions[0]["params"]["requestedSchema"]["properties"];
    for (name, default) in [
        ("name", json!("John Doe")),
        ("age", json!(30)),
        ("score", json!(95.5)),
        ("status", json!("active")),
        ("verified", json!(true)),
    ] {
        ensure(properties[name]["default"] == default, name, properties)?;
    }
    Ok(())
}

fn enums(client: &mut Client) -> Outcome {
    call(client, "test_elicitation_sep1330_enums", json!({}))?;
    let properties = &client.questions[0]["params"]["requestedSchema"]["properties"];
    for (name, pointer, absent) in [
        ("untitledSingle", "/enum", "/oneOf"),
        ("titledSingle", "/oneOf/0/const", "/enum"),
        ("legacyEnum", "/enumNames", "/oneOf"),
        ("untitledMulti", "/items/enum", "/items/anyOf"),
        ("titledMulti", "/items/anyOf/0/const", "/items/enum"),
    ] {
        let property = &properties[name];
        ensure(property.pointer(pointer).is_some() && property.pointer(absent).is_none(), name, property)?;
    }
    Ok(())
}

fn many_rounds(client: &mut Client) -> Outcome {
    let result = call(client, "test_input_required_result_multi_round", json!({}))?;
    ensure(client.questions.len() >= 2, "rounds", &json!(client.questions))?;
    ensure(content(&result, "text").is_some(), "result", &result)
}

fn many_questions(client: &mut Client) -> Outcome {
    call(client, "test_input_required_result_multiple_inputs", json!({}))?;
    let mut methods: Vec<_> = client.questions.iter().filter_map(|question| question["method"].as_str()).collect();
    methods.sort_unstable();
    ensure(methods == ["elicitation/create", "roots/list", "sampling/createMessage"], "questions", &json!(methods))
}

fn tampered_state(client: &mut Client) -> Outcome {
    let params = json!({"name": "test_input_required_result_tampered_state", "arguments": {}});
    let first = client.request_once("tools/call", params.clone()).map_err(|error| format!("{error:?}"))?;
    let state = first["requestState"].as_str().ok_or(format!("no state: {first}"))?;
    let mut again = params;
    again["requestState"] = json!(format!("{state}-TAMPERED"));
    match client.request_once("tools/call", again) {
        Err(_) => Ok(()),
        Ok(result) => Err(format!("a tampered state was accepted: {result}")),
    }
}

fn prompt_that_asks(client: &mut Client) -> Outcome {
    let result = request(client, "prompts/get", json!({"name": "test_input_required_result_prompt"}))?;
    expect_question(client, "elicitation/create")?;
    ensure(result["messages"].as_array().is_some_and(|messages| !messages.is_empty()), "messages", &result)
}

fn lists_resources(client: &mut Client) -> Outcome {
    let result = request(client, "resources/list", json!({}))?;
    let resources = result["resources"].as_array().ok_or("no resources")?;
    ensure(!resources.is_empty(), "resources", &result)?;
    resources.iter().try_for_each(|found| ensure(found["uri"].is_string() && found["name"].is_string(), "value", found))
}

fn lists_templates(client: &mut Client) -> Outcome {
    let result = request(client, "resources/templates/list", json!({}))?;
    let templates = result["resourceTemplates"].as_array().into_iter().flatten();
    let found = templates.clone().any(|found| found["uriTemplate"] == "test://template/{id}/data");
    ensure(found, "templates", &result)
}

/// Reads a resource and returns the first of its contents.
fn read(client: &mut Client, uri: &str) -> Result<Value, String> {
    let result = request(client, "resources/read", json!({ "uri": uri }))?;
    let found = result["contents"][0].clone();
    ensure(found["uri"] == uri, "URI", &result)?;
    Ok(found)
}

fn reads_text(client: &mut Client) -> Outcome {
    let found = read(client, "test://static-text")?;
    ensure(
        found["text"].as_str().is_some_and(|text| !text.is_empty()) && found["mimeType"] == "text/plain",
        "value",
        &found,
    )
}

fn reads_binary(client: &mut Client) -> Outcome {
    let found = read(client, "test://static-binary")?;
    ensure(found["blob"].is_string() && found["mimeType"] == "image/png", "value", &found)
}

fn reads_a_template(client: &mut Client) -> Outcome {
    let found = read(client, "test://template/123/data")?;
    ensure(found["text"].as_str().is_some_and(|text| text.contains("123")), "value", &found)
}

fn unknown_resource(client: &mut Client) -> Outcome {
    let uri = "test://nonexistent-resource-for-conformance-testing";
    let code = mcp_tests::expected(client.revision).resource_not_found;
    let RpcError(error) = request_error(client, "resources/read", json!({ "uri": uri }), &[code])?;
    ensure(error["data"]["uri"] == uri, "data", &error)
}

fn subscribes(client: &mut Client) -> Outcome {
    let params = json!({"uri": "test://watched-resource"});
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let result = request(client, method, params.clone())?;
        ensure(result == json!({}), method, &result)?;
    }
    Ok(())
}

fn listens(client: &mut Client) -> Outcome {
    let subscription_id = |params: &Value| params["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    let acknowledged = client.listen(&json!({"toolsListChanged": true}))?;
    ensure(acknowledged["notifications"] == json!({"toolsListChanged": true}), "acknowledgement", &acknowledged)?;
    let id = subscription_id(&acknowledged);
    // The subscription does not include prompts.
    call(client, "test_trigger_prompt_change", json!({}))?;
    call(client, "test_trigger_tool_change", json!({}))?;
    let changed = client.wait_for("notifications/tools/list_changed")?;
    ensure(id.is_number() && subscription_id(&changed["params"]) == id, "subscription", &changed)?;
    let has_no_prompt_change =
        client.notifications.iter().all(|message| message["method"] != "notifications/prompts/list_changed");
    ensure(has_no_prompt_change, "notifications", &json!(client.notifications))
}

fn tools_change(client: &mut Client) -> Outcome {
    call(client, "test_trigger_tool_change", json!({}))?;
    client.wait_for("notifications/tools/list_changed").map(drop)
}

fn lists_prompts(client: &mut Client) -> Outcome {
    let result = request(client, "prompts/list", json!({}))?;
    let prompts = result["prompts"].as_array().ok_or("no prompts")?;
    ensure(!prompts.is_empty(), "prompts", &result)?;
    prompts
        .iter()
        .try_for_each(|found| ensure(found["name"].is_string() && found["description"].is_string(), "value", found))
}

fn prompt(client: &mut Client, name: &str, arguments: Value) -> Result<Value, String> {
    let result = request(client, "prompts/get", json!({"name": name, "arguments": arguments}))?;
    let messages = result["messages"].as_array().cloned().unwrap_or_default();
    let is_valid = |message: &Value| message["role"].is_string() && message["content"].is_object();
    ensure(!messages.is_empty() && messages.iter().all(is_valid), "messages", &result)?;
    Ok(result)
}

fn simple_prompt(client: &mut Client) -> Outcome {
    let result = request(client, "prompts/get", json!({"name": "test_simple_prompt"}))?;
    ensure(result["messages"][0]["content"]["text"] == "This is a simple prompt for testing.", "text", &result)
}

fn prompt_with_arguments(client: &mut Client) -> Outcome {
    let result = prompt(client, "test_prompt_with_arguments", json!({"arg1": "testValue1", "arg2": "testValue2"}))?;
    let text = result["messages"][0]["content"]["text"].as_str().unwrap_or_default();
    ensure(text.contains("testValue1") && text.contains("testValue2"), "text", &result)
}

fn prompt_with_resource(client: &mut Client) -> Outcome {
    let arguments = json!({"resourceUri": "test://example-resource"});
    let result = prompt(client, "test_prompt_with_embedded_resource", arguments)?;
    let has = |message: &Value| message["content"]["resource"]["uri"] == "test://example-resource";
    ensure(result["messages"].as_array().into_iter().flatten().any(has), "resource", &result)
}

fn prompt_with_image(client: &mut Client) -> Outcome {
    let result = prompt(client, "test_prompt_with_image", json!({}))?;
    let has = |message: &Value| message["content"]["type"] == "image" && message["content"]["mimeType"] == "image/png";
    ensure(result["messages"].as_array().into_iter().flatten().any(has), "image", &result)
}

fn caching_hints(client: &mut Client) -> Outcome {
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "test://static-text"})),
    ] {
        let result = request(client, method, params)?;
        ensure(result["ttlMs"].is_u64(), method, &result)?;
        ensure(matches!(result["cacheScope"].as_str(), Some("public" | "private")), method, &result)?;
    }
    Ok(())
}
