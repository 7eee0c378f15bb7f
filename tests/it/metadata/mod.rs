//! `_meta`, annotations, structured results with content, declared capabilities, icons and cache hints, in every
//! revision. Every message is also validated against the official schema of the revision, if that is available.

mod caching;
mod capabilities;
mod icons;

use mcp_runtime::{
    Completions, Content, Context, Fault, Image, Json, Level, PromptMessage, Resource, ResourceLink, Revision, Server,
    ToolResult,
    ask::{SampleRequest, SampleToolResult},
    backend::Timestamp,
    model::{Annotations, Audio, PromptResult, ResourceResult, Role, Structured, Text},
    prompt, resource, tool,
};
use mcp_tests::schemas::Official;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

const KEY: &str = "com.example/key";

/// Content of every kind, with `_meta`.
#[tool(meta("com.example/key" = "tool"))]
fn contents() -> ToolResult {
    let blocks: [Content; 5] = [
        Content::text("text"),
        Image::png([1]).into(),
        Audio::wav([2]).into(),
        Resource::text("test://embedded", "text").with_meta(KEY, "contents").into(),
        ResourceLink::new("test://link", "link").into(),
    ];
    ToolResult::new(blocks.map(|block| block.with_meta(KEY, "block"))).with_meta(KEY, "result")
}

#[derive(Debug, Serialize, JsonSchema)]
struct Sales {
    total: u32,
}

/// A structured result with an image.
#[tool]
fn sales() -> Structured<Sales> {
    Structured::new(Sales { total: 7 }).with_content(Image::png([1])).with_content("Seven.").with_meta(KEY, "result")
}

/// A structured result that is not an object.
#[tool]
fn totals(found: bool) -> Result<Option<Structured<Vec<u32>>>, std::fmt::Error> {
    Ok(found.then(|| Structured::new(vec![1, 2]).with_content(Audio::wav([2]))))
}

/// Sends notifications.
#[tool]
fn notify(ctx: &Context) {
    ctx.with_meta(KEY, 1).with_meta("com.example/other", [2]).progress(1, 2, "half");
    ctx.with_meta(KEY, "log").log(Level::Error, "message");
    ctx.with_meta(KEY, "log").log_as("logger", Level::Error, "message");
    ctx.error("without");
}

/// A resource with annotations.
#[resource(
    "test://fixed",
    audience(user, assistant),
    priority = 0.8,
    last_modified = "2025-01-12T15:00:58Z",
    meta("com.example/key" = "resource")
)]
fn fixed() -> ResourceResult {
    let blob = Resource::blob("test://blob", [1]).with_meta(KEY, "blob");
    ResourceResult::new([Resource::text("", "text").with_meta(KEY, "text"), blob]).with_meta(KEY, "result")
}

/// A resource whose type is more specific than that of its value.
#[resource("test://place", mime = "application/geo+json")]
fn place() -> Json<Sales> {
    Json(Sales { total: 7 })
}

/// A resource whose type follows from its value.
#[resource("test://sales")]
fn sales_as_json() -> Json<Sales> {
    Json(Sales { total: 7 })
}

/// A resource without contents.
#[resource("test://none", last_modified = "2025-01-12")]
fn none() -> ResourceResult {
    ResourceResult::default()
}

/// A template with annotations, whose resources have their own.
#[resource("test://item/{id}", priority = 0.5, last_modified = "2024-02-29", list = items, complete(id = ids), meta("com.example/key" = "template"))]
fn item(id: String) -> String {
    id
}

fn items() -> Vec<ResourceLink> {
    let hints = Annotations::default().for_audience([Role::User]).with_priority(7.0);
    let modified = hints.clone().with_last_modified(Timestamp::from_unix_millis(1_764_066_600_000));
    vec![
        ResourceLink::new("test://item/1", "one").with_annotations(modified).with_meta(KEY, "link"),
        ResourceLink::new("test://item/2", "two").with_annotations(hints.with_last_modified("yesterday")),
    ]
}

fn ids(_: &str) -> Completions {
    Completions::new(["1"]).with_meta(KEY, "result")
}

/// Embedded resources.
#[prompt(meta("com.example/key" = "prompt"))]
fn attachments() -> PromptResult {
    let hints = Annotations::default().with_priority(0.5).with_last_modified("2025-01-12T15:00:58Z");
    let text = Resource::text("test://text", "text").with_mime_type("text/plain").with_meta(KEY, "contents");
    let blob = Resource::blob("test://blob", [0xff, 0]).with_mime_type("application/pdf").with_annotations(hints);
    PromptResult::new([
        PromptMessage::user(text),
        PromptMessage::assistant(Content::from(blob).with_meta(KEY, "block")),
        PromptMessage::user(Audio::wav([2])),
        PromptMessage::user(Resource::text("test://text", "text")),
        PromptMessage::user(Resource::blob("test://blob", [1])),
    ])
    .with_description("Two \"texts\".")
    .with_meta(KEY, "result")
}

fn server() -> Server {
    let server = Server::empty("metadata", "1.0.0");
    let server = server.with::<contents>().with::<sales>().with::<totals>().with::<notify>();
    let server = server.with::<fixed>().with::<place>().with::<sales_as_json>();
    server.with::<none>().with::<item>().with::<attachments>()
}

/// Sends a request, checks the response against the official schema, and returns the result.
async fn request(revision: Revision, method: &str, params: Value) -> Value {
    let mut client = server().test_client(revision);
    let result = client.request(method, params).await.unwrap_or_else(|error| panic!("{revision} {method}: {error}"));
    let response = json!({"jsonrpc": "2.0", "id": 1, "result": result});
    let problems = Official::load(revision).map(|official| official.problems(&response, Some(method)));
    assert_eq!(problems.unwrap_or_default(), Vec::<String>::new(), "{revision} {method}: {response}");
    result
}

/// Returns the value of the test's key in the `_meta` of an object.
fn meta(object: &Value) -> Option<&str> {
    object["_meta"][KEY].as_str()
}

#[tokio::test]
async fn meta_of_items_is_sent_where_the_revision_has_it() {
    for revision in Revision::ALL {
        let expected = |value: &'static str| Some(value).filter(|_| mcp_tests::expected(revision).item_meta);

        let result = request(revision, "tools/call", json!({"name": "contents"})).await;
        assert_eq!(meta(&result), Some("result"), "{revision}");
        let blocks = result["content"].as_array().unwrap();
        assert_eq!(blocks.len(), 5);
        for block in blocks {
            assert_eq!(meta(block), expected("block"), "{revision}: {block}");
        }
        assert_eq!(meta(&blocks[3]["resource"]), expected("contents"), "{revision}");

        let result = request(revision, "resources/read", json!({"uri": "test://fixed"})).await;
        assert_eq!(meta(&result), Some("result"), "{revision}");
        assert_eq!(meta(&result["contents"][0]), expected("text"), "{revision}");
        assert_eq!(meta(&result["contents"][1]), expected("blob"), "{revision}");

        for (method, member, name, value) in [
            ("tools/list", "tools", "contents", "tool"),
            ("resources/list", "resources", "fixed", "resource"),
            ("resources/list", "resources", "one", "link"),
            ("resources/templates/list", "resourceTemplates", "item", "template"),
            ("prompts/list", "prompts", "attachments", "prompt"),
        ] {
            let result = request(revision, method, json!({})).await;
            let listed = result[member].as_array().unwrap().iter().find(|listed| listed["name"] == name).unwrap();
            assert_eq!(meta(listed), expected(value), "{revision} {method}: {listed}");
        }

        let reference = json!({"type": "ref/resource", "uri": "test://item/{id}"});
        let params = json!({"ref": reference, "argument": {"name": "id", "value": ""}});
        let result = request(revision, "completion/complete", params).await;
        assert_eq!(meta(&result), Some("result"), "{revision}");
    }
}

#[tokio::test]
async fn prompts_embed_text_and_binary_resources() {
    for revision in Revision::ALL {
        let sent = |is_sent: bool, value: Value| if is_sent { value } else { Value::Null };
        let result = request(revision, "prompts/get", json!({"name": "attachments"})).await;
        assert_eq!(meta(&result), Some("result"), "{revision}");
        assert_eq!(result["description"], "Two \"texts\".", "{revision}");
        let content = |index: usize| &result["messages"][index]["content"];
        assert_eq!(content(0)["type"], "resource", "{revision}");
        assert_eq!(content(0)["resource"]["text"], "text", "{revision}");
        assert_eq!(content(0)["resource"]["mimeType"], "text/plain", "{revision}");
        assert_eq!(
            content(0)["resource"]["_meta"][KEY],
            sent(mcp_tests::expected(revision).item_meta, json!("contents")),
            "{revision}"
        );
        assert_eq!(content(1)["type"], "resource", "{revision}");
        assert_eq!(content(1)["resource"]["blob"], "/wA=", "{revision}");
        assert_eq!(content(1)["resource"]["uri"], "test://blob", "{revision}");
        assert_eq!(content(1)["annotations"]["priority"], 0.5, "{revision}");
        let modified = sent(mcp_tests::expected(revision).last_modified, json!("2025-01-12T15:00:58Z"));
        assert_eq!(content(1)["annotations"]["lastModified"], modified, "{revision}");
        assert_eq!(
            content(1)["_meta"][KEY],
            sent(mcp_tests::expected(revision).item_meta, json!("block")),
            "{revision}"
        );
        let kind = if mcp_tests::expected(revision).audio { "audio" } else { "resource" };
        assert_eq!(content(2)["type"], kind, "{revision}");
        assert_eq!(content(3)["resource"]["mimeType"], "text/plain", "{revision}");
        assert_eq!(content(4)["resource"]["mimeType"], "application/octet-stream", "{revision}");
        assert!(result["messages"].as_array().unwrap().iter().all(|message| message.get("_meta").is_none()));
    }
}

#[tokio::test]
async fn annotations_are_listed_where_the_revision_has_them() {
    for revision in Revision::ALL {
        let annotations = |mut hints: Value| {
            if !mcp_tests::expected(revision).last_modified {
                hints.as_object_mut().unwrap().remove("lastModified");
            }
            if hints == json!({}) { Value::Null } else { hints }
        };
        for (method, member, name, expected) in [
            (
                "resources/list",
                "resources",
                "fixed",
                json!({"audience": ["user", "assistant"], "priority": 0.8, "lastModified": "2025-01-12T15:00:58Z"}),
            ),
            ("resources/list", "resources", "none", json!({"lastModified": "2025-01-12"})),
            (
                "resources/list",
                "resources",
                "one",
                json!({"audience": ["user"], "priority": 1.0, "lastModified": "2025-11-25T10:30:00.000Z"}),
            ),
            ("resources/list", "resources", "two", json!({"audience": ["user"], "priority": 1.0})),
            (
                "resources/templates/list",
                "resourceTemplates",
                "item",
                json!({"priority": 0.5, "lastModified": "2024-02-29"}),
            ),
        ] {
            let result = request(revision, method, json!({})).await;
            let listed = result[member].as_array().unwrap().iter().find(|listed| listed["name"] == name).unwrap();
            assert_eq!(listed["annotations"], annotations(expected), "{revision} {name}");
        }
    }
}

/// The first revision has no titles, and the second one has them among the annotations.
#[tokio::test]
async fn titles_are_listed_where_the_revision_has_them() {
    /// Is titled, and has no hints.
    #[tool(title = "Title")]
    fn titled() {}

    let expected = |revision| match revision {
        Revision::V2024_11_05 => [None, None],
        Revision::V2025_03_26 => [None, Some("Title")],
        _ => [Some("Title"), None],
    };
    for revision in Revision::ALL {
        let mut client = Server::empty("titles", "1.0.0").with::<titled>().test_client(revision);
        let listed = client.request("tools/list", json!({})).await.unwrap();
        let found = ["/tools/0/title", "/tools/0/annotations/title"].map(|path| listed.pointer(path)?.as_str());
        assert_eq!(found, expected(revision), "{revision} {listed}");
    }
}

/// Without titles, clients display the name, which no request refers to.
#[tokio::test]
async fn resources_are_named_by_their_titles_in_revisions_without_titles() {
    /// A fixed resource.
    #[resource("test://fixed", title = "Fixed")]
    fn fixed() -> &'static str {
        "fixed"
    }

    /// A resource with listed ones.
    #[resource("test://item/{id}", title = "Item", list = items)]
    fn item(id: u32) -> String {
        id.to_string()
    }

    fn items() -> Vec<ResourceLink> {
        vec![ResourceLink::new("test://item/1", "one").with_title("One")]
    }

    for revision in Revision::ALL {
        let mut client = Server::empty("names", "1.0.0").with::<fixed>().with::<item>().test_client(revision);
        let has_titles = ![Revision::V2024_11_05, Revision::V2025_03_26].contains(&revision);
        for (method, member, names) in [
            ("resources/list", "resources", [("fixed", "Fixed"), ("one", "One")].as_slice()),
            ("resources/templates/list", "resourceTemplates", &[("item", "Item")]),
        ] {
            let listed = client.request(method, json!({})).await.unwrap();
            let found: Vec<_> = listed[member].as_array().unwrap().iter().map(|entry| &entry["name"]).collect();
            let expected: Vec<_> = names.iter().map(|(name, title)| if has_titles { name } else { title }).collect();
            assert_eq!(found, expected, "{revision} {method}");
        }
    }
}

#[test]
fn priorities_are_numbers_from_0_to_1() {
    for (priority, expected) in
        [(0.5, Some(0.5)), (-1.0, Some(0.0)), (2.0, Some(1.0)), (f64::INFINITY, Some(1.0)), (f64::NAN, None)]
    {
        assert_eq!(Annotations::default().with_priority(priority).priority, expected, "{priority}");
    }
}

/// Texts whose priorities were not set with the method that limits them.
#[tool]
fn prioritized() -> ToolResult {
    ToolResult::new([-0.1, 0.0, 1.0, 1.1].map(|priority| {
        let mut hints = Annotations::default().with_priority(0.5);
        hints.priority = Some(priority);
        Content::text("text").with_annotations(hints)
    }))
}

#[tokio::test]
async fn priorities_outside_of_the_range_are_not_sent() {
    for revision in Revision::ALL {
        let mut client = Server::empty("priorities", "1.0.0").with::<prioritized>().test_client(revision);
        let result = client.call("prioritized", ()).await.unwrap();
        let blocks = result["content"].as_array().unwrap().iter();
        let sent: Vec<_> = blocks.map(|block| block["annotations"]["priority"].as_f64()).collect();
        assert_eq!(sent, [None, Some(0.0), Some(1.0), None], "{revision}");
    }
}

#[tokio::test]
async fn a_resource_result_without_contents_is_not_found() {
    for revision in Revision::ALL {
        let code = server().test_client(revision).read("test://none").await.unwrap_err().code;
        assert_eq!(code, mcp_tests::expected(revision).resource_not_found, "{revision}");
    }
}

/// The author knows better than the type of the value.
#[tokio::test]
async fn the_media_type_of_a_resource_takes_precedence_over_that_of_its_value() {
    for revision in Revision::ALL {
        for (uri, expected) in [("test://place", "application/geo+json"), ("test://sales", "application/json")] {
            let contents = request(revision, "resources/read", json!({"uri": uri})).await;
            let expected = json!({"uri": uri, "mimeType": expected, "text": r#"{"total":7}"#});
            assert_eq!(contents["contents"], json!([expected]), "{revision}");
        }
    }
}

#[tokio::test]
async fn structured_results_have_further_content() {
    for revision in Revision::ALL {
        let is_structured = mcp_tests::expected(revision).structured_content;
        let tools = request(revision, "tools/list", json!({})).await;
        for (name, arguments, text, rest) in [
            ("sales", json!({}), r#"{"total":7}"#, &["image", "text"][..]),
            ("totals", json!({"found": true}), "[1,2]", &["audio"]),
            ("totals", json!({"found": false}), "null", &[]),
        ] {
            let result = request(revision, "tools/call", json!({"name": name, "arguments": arguments})).await;
            let listed = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
            assert_eq!(listed.get("outputSchema").is_some(), is_structured, "{revision} {name}");
            assert_eq!(result.get("structuredContent").is_some(), is_structured, "{revision} {name}");
            if is_structured {
                let (schema, value) = (&listed["outputSchema"], &result["structuredContent"]);
                assert!(jsonschema::is_valid(schema, value), "{revision} {name}: {value}");
            }
            let blocks = result["content"].as_array().unwrap();
            assert_eq!(blocks[0], json!({"type": "text", "text": text}), "{revision} {name}");
            let audio = if mcp_tests::expected(revision).audio { "audio" } else { "resource" };
            let kinds: Vec<_> = blocks[1..].iter().map(|block| block["type"].as_str().unwrap()).collect();
            let rest: Vec<_> = rest.iter().map(|kind| if *kind == "audio" { audio } else { kind }).collect();
            assert_eq!(kinds, rest, "{revision} {name}");
        }
        let result = request(revision, "tools/call", json!({"name": "sales"})).await;
        assert_eq!(meta(&result), Some("result"), "{revision}");
    }
}

#[tokio::test]
async fn a_link_is_text_in_revisions_without_links() {
    /// Return links.
    #[tool]
    fn links() -> ToolResult {
        let titled = ResourceLink::new("test://b", "b").with_title("The second").with_description("Another one");
        ToolResult::new([ResourceLink::new("test://a", "a"), titled])
    }

    for revision in Revision::ALL {
        let mut client = Server::empty("links", "1.0.0").with::<links>().test_client(revision);
        let result = client.request("tools/call", json!({"name": "links"})).await.unwrap();
        let texts: Vec<_> = result["content"].as_array().unwrap().iter().map(|block| block["text"].as_str()).collect();
        let expected = [Some("a: test://a"), Some("The second: test://b (Another one)")];
        let has_links = revision >= Revision::V2025_06_18;
        assert_eq!(texts, if has_links { [None; 2] } else { expected }, "{revision}");
    }
}

#[tokio::test]
async fn notifications_have_meta() {
    for revision in Revision::ALL {
        let mut client = server().test_client(revision);
        let meta = json!({"progressToken": "token", "io.modelcontextprotocol/logLevel": "debug"});
        client.request("tools/call", json!({"name": "notify", "_meta": meta})).await.unwrap();
        let notifications = client.notifications();
        let official = Official::load(revision);
        for notification in &notifications {
            let problems = official.map(|official| official.problems(notification, None));
            assert_eq!(problems.unwrap_or_default(), Vec::<String>::new(), "{revision}: {notification}");
        }
        let found: Vec<_> = notifications.iter().map(|notification| notification["params"].get("_meta")).collect();
        let progress = json!({KEY: 1, "com.example/other": [2]});
        let log = json!({KEY: "log"});
        assert_eq!(found, [Some(&progress), Some(&log), Some(&log), None], "{revision}");
        assert_eq!(notifications[2]["params"]["logger"], "logger", "{revision}");
    }
}

/// Lets the model call a tool, and returns its answer.
#[tool]
async fn consult(ctx: &Context) -> Result<String, Fault> {
    let schema = json!({"type": "object"});
    let question =
        SampleRequest::new("How is the weather?").with_message_meta(KEY, "question").with_tool("look", "Look.", schema);
    let first = ctx.sample(question.clone().key("first")).await?;
    let id = first.tool_uses().next().map(|tool_use| tool_use.id.clone()).unwrap_or_default();
    let mut result = SampleToolResult::new(id, Content::text("Sun.").with_meta(KEY, "block")).with_meta(KEY, "result");
    result.structured = Some(json!(["sun"]));
    let second = ctx.sample(question.answered(first).with_tool_results([result]).key("second")).await?;
    Ok(second.meta[KEY].to_string())
}

/// Clients keep data about tool calls in `_meta`, and expect it back.
#[tokio::test]
async fn messages_of_sampling_have_meta() {
    for revision in mcp_tests::revisions(|expected| expected.sampling_tools) {
        let tool_use = json!({"type": "tool_use", "id": "1", "name": "look", "input": {}, "_meta": { KEY: "use" }});
        let server = Server::empty("metadata", "1.0.0").with::<consult>();
        let mut client = server.test_client(revision).answering(move |request| {
            let messages = request.params["messages"].as_array().unwrap();
            assert_eq!(messages[0]["_meta"], json!({ KEY: "question" }), "{revision}");
            if messages.len() == 1 {
                return json!({"role": "assistant", "content": [tool_use], "model": "m"});
            }
            assert_eq!(messages[1]["content"], tool_use, "{revision}");
            assert_eq!(messages[2]["content"]["_meta"], json!({ KEY: "result" }), "{revision}");
            assert_eq!(messages[2]["content"]["content"][0]["_meta"], json!({ KEY: "block" }), "{revision}");
            let structured = revision.is_stateless().then(|| json!(["sun"]));
            assert_eq!(messages[2]["content"].get("structuredContent"), structured.as_ref(), "{revision}");
            let content = json!({"type": "text", "text": "Sun."});
            json!({"role": "assistant", "content": content, "model": "m", "_meta": { KEY: "answer" }})
        });
        assert_eq!(client.call("consult", ()).await.unwrap().text(), "\"answer\"", "{revision}");
    }
}

/// Data of the client about a root stays with the root.
#[tokio::test]
async fn roots_have_meta() {
    /// Return the data about the first root.
    #[tool]
    async fn look(ctx: &Context) -> Result<String, Fault> {
        Ok(ctx.roots().await?[0].meta[KEY].to_string())
    }

    for revision in mcp_tests::revisions(|expected| expected.sampling_tools) {
        let server = Server::empty("metadata", "1.0.0").with::<look>();
        let roots = json!({"roots": [{"uri": "file:///a", "_meta": { KEY: "root" }}]});
        let mut client = server.test_client(revision).answering(move |_| roots.clone());
        assert_eq!(client.call("look", ()).await.unwrap().text(), "\"root\"", "{revision}");
    }
}

/// Adds a reserved key to the result.
#[tool]
fn reserved(key: String) -> ToolResult {
    ToolResult::new(["text"]).with_meta(key, 1)
}

/// Fields can be set without checks.
#[tokio::test]
async fn other_keys_of_meta_are_not_sent() {
    fn meta() -> Map<String, Value> {
        let keys = ["com.example/key", "io.modelcontextprotocol/serverInfo", "-bad-/key", "traceparent"];
        keys.into_iter().map(|key| (key.to_owned(), json!("mine"))).collect()
    }

    /// Return a result with such keys.
    #[tool]
    fn careless() -> ToolResult {
        let mut text = Text::new("text");
        text.meta = meta();
        let mut result = ToolResult::new([Content::Text(text)]);
        result.meta = meta();
        result
    }

    for revision in Revision::ALL {
        let server = Server::empty("careless", "1.0.0").with::<careless>();
        let result = server.test_client(revision).call("careless", json!({})).await.unwrap();
        let sent = |meta: &Value| meta.as_object().unwrap().values().filter(|value| **value == "mine").count();
        assert_eq!((sent(&result["_meta"]), &result["_meta"]["com.example/key"]), (1, &json!("mine")), "{revision}");
        let block = &result["content"][0]["_meta"];
        assert!(block.is_null() || sent(block) == 1, "{revision}: {block}");
    }
}

/// A key that is malformed or reserved fails the call; the log has the reason.
#[tokio::test]
async fn keys_of_meta_are_checked_at_run_time() {
    for (key, is_valid) in [
        ("com.example/key", true),
        ("key", true),
        ("com.example.mcp/key", true),
        ("io.modelcontextprotocol/key", false),
        ("dev.mcp/key", false),
        ("com.mcp.tools/key", false),
        ("com.example.mcp.tools/key", false),
        ("traceparent", false),
        ("com..example/key", false),
        ("with space", false),
    ] {
        for revision in Revision::ALL {
            let server = Server::empty("reserved", "1.0.0").with::<reserved>();
            let result = server.test_client(revision).call("reserved", json!({"key": key})).await;
            match result {
                Ok(result) => assert!(is_valid && result["_meta"][key] == 1, "{revision} {key}"),
                Err(error) => assert!(!is_valid && error.code == -32603, "{revision} {key}: {error}"),
            }
        }
    }
    let adders: [fn(&str); 7] = [
        |key| drop(Content::text("").with_meta(key, 1)),
        |key| drop(Resource::text("a://", "").with_meta(key, 1)),
        |key| drop(ResourceResult::default().with_meta(key, 1)),
        |key| drop(ResourceLink::default().with_meta(key, 1)),
        |key| drop(PromptResult::default().with_meta(key, 1)),
        |key| drop(Structured::new(1).with_meta(key, 1)),
        |key| drop(Completions::new(["a"]).with_meta(key, 1)),
    ];
    for (index, add) in adders.into_iter().enumerate() {
        add("com.example/key");
        let panic = std::panic::catch_unwind(|| add("dev.mcp/key")).expect_err("a panic");
        let expected = "invalid key `dev.mcp/key` of `_meta`: prefixes with the label `mcp` or `modelcontextprotocol` in \
                        second place, or before another label, are reserved for the protocol";
        assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some(expected), "{index}");
    }
}
