use mcp_runtime::{
    Revision, Server,
    testing::{ServerRequest, TestClient},
};
use serde_json::{Value, json};

fn client(revision: Revision) -> TestClient {
    crate::changes::register(Server::new("everything", "0.1.0")).test_client(revision)
}

/// Answers a request as a client with a cooperative user and model.
fn answer(request: &ServerRequest) -> Value {
    let accept = |content| json!({"action": "accept", "content": content});
    match (request.method.as_str(), request.message()) {
        ("sampling/createMessage", _) => {
            json!({"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "test"})
        }
        ("roots/list", _) => json!({"roots": [{"uri": "file:///test/root", "name": "Test Root"}]}),
        (_, "Please confirm to continue.") => accept(json!({"ok": true})),
        (_, message) if message.contains("color") => accept(json!({"color": "green"})),
        (_, message) if message.contains("context") => accept(json!({"context": "a test"})),
        (_, message) if message.contains("name") => accept(json!({"name": "Alice"})),
        _ => json!({"action": "decline"}),
    }
}

#[tokio::test(start_paused = true)]
async fn all_content_is_supported_in_every_revision() {
    for revision in Revision::ALL {
        let mut client = client(revision);
        for tool in [
            "test_simple_text",
            "test_image_content",
            "test_audio_content",
            "test_embedded_resource",
            "test_multiple_content_types",
            "test_tool_with_progress",
            "test_tool_with_logging",
            "test_reconnection",
        ] {
            let result = client.call(tool, ()).await.unwrap();
            assert!(!result.is_error() && !result.0["content"][0].is_null(), "{tool} in {revision}: {result:?}");
        }
        assert!(client.call("test_error_handling", ()).await.unwrap().is_error());
    }
}

#[tokio::test]
async fn questions_are_answered_in_every_revision() {
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        let mut client = client(revision).answering(answer);
        for (tool, text) in [
            ("test_input_required_result_elicitation", "Hello, Alice!"),
            ("test_input_required_result_sampling", "Paris"),
            ("test_input_required_result_list_roots", "1 root: Test Root"),
            ("test_input_required_result_request_state", "state-ok"),
            ("test_input_required_result_multiple_inputs", "Paris, Alice! 1 root: Test Root"),
            ("test_input_required_result_multi_round", "Hello, Alice! You like green."),
            ("test_input_required_result_capabilities", "Hello, Alice!"),
            ("test_elicitation_sep1034_defaults", "Elicitation completed: action=decline, content={}"),
            ("test_missing_capability", "The client supports sampling."),
        ] {
            let result = client.call(tool, ()).await.unwrap();
            assert_eq!(result.text(), text, "{tool} in {revision}");
        }
        let prompt = client.prompt("test_input_required_result_prompt", ()).await.unwrap();
        assert_eq!(prompt["messages"][0]["content"]["text"], "Please help me with this: a test");
    }
}

#[tokio::test]
async fn a_client_without_sampling_is_rejected() {
    let refused = client(Revision::V2026_07_28).call("test_missing_capability", ()).await.unwrap_err();
    assert_eq!((refused.code, refused.data), (-32021, Some(json!({"requiredCapabilities": {"sampling": {}}}))));
}

#[tokio::test]
async fn list_changes_are_notified() {
    let mut client = client(Revision::V2025_11_25);
    let before = client.tools().await.unwrap().len();
    for (trigger, method, tools) in [
        ("test_trigger_tool_change", "notifications/tools/list_changed", before + 1),
        ("test_trigger_tool_change", "notifications/tools/list_changed", before),
        ("test_trigger_prompt_change", "notifications/prompts/list_changed", before),
    ] {
        client.call(trigger, ()).await.unwrap();
        let methods: Vec<_> = client.notifications().into_iter().map(|message| message["method"].clone()).collect();
        assert_eq!(methods, [method]);
        assert_eq!(client.tools().await.unwrap().len(), tools, "{trigger}");
    }
}

#[tokio::test]
async fn subscribers_receive_resource_updates() {
    let mut client = client(Revision::V2025_11_25);
    client.request("resources/subscribe", json!({"uri": "test://watched-resource"})).await.unwrap();
    client.call("test_trigger_resource_change", ()).await.unwrap();
    let updates = client.notifications();
    assert_eq!(updates[0]["params"]["uri"], "test://watched-resource");
    let contents = client.read("test://watched-resource").await.unwrap();
    assert_eq!(contents[0]["text"], "The resource was updated 1 times.");
}

#[tokio::test]
async fn a_handwritten_schema_is_enforced() {
    let mut client = client(Revision::V2026_07_28);
    let tools = client.tools().await.unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool").unwrap();
    assert_eq!(tool["inputSchema"]["$defs"]["address"]["$anchor"], "addressDef");
    for (arguments, is_valid) in [
        (json!({"email": "ada@example.com", "address": {"city": "London"}}), true),
        (json!({"contactMethod": "phone", "phone": "123"}), true),
        (json!({"contactMethod": "phone", "email": "ada@example.com"}), false),
        (json!({"phone": "123"}), false),
        (json!({"email": "ada@example.com", "colour": "red"}), false),
        (json!({}), false),
    ] {
        let result = client.call("json_schema_2020_12_tool", &arguments).await.unwrap();
        assert_eq!(!result.is_error(), is_valid, "{arguments}: {}", result.text());
    }
}

#[tokio::test]
async fn resources_and_prompts_are_served() {
    for revision in Revision::ALL {
        let mut client = client(revision);
        assert_eq!(client.read("test://static-binary").await.unwrap()[0]["mimeType"], "image/png");
        let read = client.read("test://template/123/data").await.unwrap();
        assert!(read[0]["text"].as_str().unwrap().contains(r#""data":"Data for ID: 123""#));
        let prompt = client.prompt("test_prompt_with_arguments", json!({"arg1": "a", "arg2": "b"})).await.unwrap();
        assert_eq!(prompt["messages"][0]["content"]["text"], "Prompt with arguments: arg1='a', arg2='b'");
        let reference = json!({"type": "ref/prompt", "name": "test_prompt_with_arguments"});
        assert_eq!(client.complete(reference, "arg1", "par").await.unwrap(), ["paris", "park", "party"]);
    }
}
