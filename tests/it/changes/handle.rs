//! The effects of a `Handle` on lists, calls and notifications.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context as TaskContext, Waker},
};

use mcp_runtime::{BuildError, ResourceLink};

use super::*;

/// Add one tool and remove another.
#[tool]
fn reconfigure(handle: &Handle, ctx: &Context) -> Result<Json<bool>, BuildError> {
    ctx.info("reconfiguring");
    handle.add::<optional>()?;
    Ok(Json(handle.remove::<permanent>()))
}

/// A resource whose completion uses a handle.
#[resource("test://completed/{id}", complete(id = disable_permanent))]
fn completed(id: u32) -> String {
    id.to_string()
}

fn disable_permanent(handle: &Handle) -> Vec<String> {
    vec![handle.disable::<permanent>().to_string()]
}

/// A type that counts how often its schema is generated.
#[derive(Debug, Deserialize, Serialize)]
struct Counted(u8);

static SCHEMAS: AtomicUsize = AtomicUsize::new(0);

impl JsonSchema for Counted {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Counted".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        SCHEMAS.fetch_add(1, Ordering::SeqCst);
        u8::json_schema(generator)
    }
}

/// A tool whose input and output schema are counted.
#[tool]
fn counts_schemas(counted: Counted) -> Json<Vec<Counted>> {
    Json(vec![counted])
}

#[derive(Debug)]
struct Missing;

/// Depends on state that the server does not have.
#[tool]
fn needs_missing_state(_missing: &Missing) {}

mod same {
    use mcp_runtime::tool;

    /// Has the name of another tool.
    #[tool(name = "permanent")]
    pub(super) fn permanent() {}

    /// Has a template that matches the same URIs as another one.
    #[mcp_runtime::resource("test://item/{number}")]
    pub(super) fn item(number: u32) -> String {
        number.to_string()
    }
}

/// Returns the capabilities that a server declares, without completions.
async fn capabilities(server: Server, revision: Revision) -> Value {
    let mut client = TestClient::uninitialized(server, revision);
    let result = if revision.is_stateless() {
        client.request("server/discover", json!({})).await
    } else {
        let client_info = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": client_info});
        client.request("initialize", params).await
    };
    let mut capabilities = result.unwrap()["capabilities"].take();
    capabilities.as_object_mut().unwrap().remove("completions");
    capabilities
}

/// A resource whose list uses a handle.
#[resource("test://listing/{id}", list = enable_optional)]
fn listing(id: u32) -> String {
    id.to_string()
}

fn enable_optional(handle: &Handle) -> Vec<mcp_runtime::ResourceLink> {
    handle.enable::<optional>();
    Vec::new()
}

#[tokio::test]
async fn change_notifications_are_declared_if_a_handle_exists() {
    let plain = json!({"tools": {}, "prompts": {}, "resources": {}});
    let resources = json!({"subscribe": true, "listChanged": true});
    let changing = json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "resources": resources});
    let mut logging = changing.clone();
    logging["logging"] = json!({});
    for revision in Revision::ALL {
        assert_eq!(capabilities(server(), revision).await, plain, "{revision}");
        let with_handle = server();
        let _handle = with_handle.handle();
        // A handle can send log messages, except in the revision without sessions.
        let expected = if revision.is_stateless() { &changing } else { &logging };
        assert_eq!(capabilities(with_handle, revision).await, *expected, "{revision}");
        assert_eq!(capabilities(server().with::<reconfigure>(), revision).await, logging, "{revision}");
        assert_eq!(capabilities(server().with::<completed>(), revision).await, *expected, "{revision}");
        assert_eq!(capabilities(server().with::<listing>(), revision).await, *expected, "{revision}");
    }
}

/// The description of a server is prepared once, until it changes.
#[tokio::test]
async fn a_handle_taken_late_is_declared_to_later_requests() {
    let built = server().build().unwrap();
    let mut client = built.test_client(Revision::V2026_07_28);
    let mut declared =
        async || client.request("server/discover", json!({})).await.unwrap()["capabilities"]["tools"].take();
    assert_eq!(declared().await, json!({}));
    let _handle = built.handle();
    assert_eq!(declared().await, json!({"listChanged": true}));
}

#[tokio::test]
async fn a_handle_taken_late_enables_notifications_for_later_connections_only() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let built = server().build().unwrap();
        let mut early = built.test_client(revision);
        let handle = built.handle();
        let mut late = built.test_client(revision);
        handle.add::<optional>().unwrap();
        assert_eq!(methods(&mut early), Vec::<String>::new());
        assert_eq!(methods(&mut late), ["tools/list_changed"]);
        assert_eq!(listed(&mut early, "tools/list").await, ["optional", "permanent"]);
        assert_eq!(code(&mut early, "resources/subscribe", json!({"uri": "test://fixed"})).await, -32601);
        assert_eq!(code(&mut late, "resources/subscribe", json!({"uri": "test://fixed"})).await, 0);
    }
}

#[tokio::test]
async fn subscription_methods_are_unknown_without_a_handle() {
    for revision in Revision::ALL {
        let mut client = server().test_client(revision);
        for method in ["resources/subscribe", "resources/unsubscribe", "subscriptions/listen"] {
            let params = json!({"uri": "test://fixed", "notifications": {}});
            assert_eq!(code(&mut client, method, params).await, -32601, "{revision} {method}");
        }
    }
}

/// Templates have no notification of their own.
#[tokio::test]
async fn a_change_of_templates_is_announced_as_a_change_of_resources() {
    for revision in mcp_tests::revisions(|expected| expected.sessions) {
        let built = server().build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        assert!(handle.disable::<item>());
        assert_eq!(methods(&mut client), ["resources/list_changed"], "{revision}");
        assert!(handle.enable::<item>());
        assert_eq!(methods(&mut client), ["resources/list_changed"], "{revision}");
    }
}

/// Performs every operation of a handle in turn, and checks its return value, the list and the notifications.
#[tokio::test]
async fn each_operation_changes_lists_and_calls_and_notifies() {
    type Step = (&'static str, fn(&Handle) -> bool, bool, &'static [&'static str], &'static [&'static str]);
    let steps: [Step; 14] = [
        ("add", |handle| handle.add::<optional>().is_ok(), true, &["optional", "permanent"], &["tools/list_changed"]),
        ("add again", |handle| handle.add::<optional>().is_ok(), true, &["optional", "permanent"], &[]),
        ("disable", Handle::disable::<optional>, true, &["permanent"], &["tools/list_changed"]),
        ("disable again", Handle::disable::<optional>, false, &["permanent"], &[]),
        (
            "add a disabled entry",
            |handle| handle.add::<optional>().is_ok(),
            true,
            &["optional", "permanent"],
            &["tools/list_changed"],
        ),
        ("disable it again after adding", Handle::disable::<optional>, true, &["permanent"], &["tools/list_changed"]),
        ("enable", Handle::enable::<optional>, true, &["optional", "permanent"], &["tools/list_changed"]),
        ("enable again", Handle::enable::<optional>, false, &["optional", "permanent"], &[]),
        ("enable an entry that was never added", Handle::enable::<slow>, false, &["optional", "permanent"], &[]),
        (
            "disable a tag",
            |handle| handle.set_enabled(|entry| !entry.has_tag("admin")),
            true,
            &["permanent"],
            &["tools/list_changed"],
        ),
        (
            "disable the tag again",
            |handle| handle.set_enabled(|entry| !entry.has_tag("admin")),
            false,
            &["permanent"],
            &[],
        ),
        ("remove a disabled entry", Handle::remove::<optional>, true, &["permanent"], &[]),
        ("remove it again", Handle::remove::<optional>, false, &["permanent"], &[]),
        ("remove", Handle::remove::<permanent>, true, &[], &["tools/list_changed"]),
    ];
    for revision in Revision::ALL {
        let built = server().build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        watch_lists(&mut client);
        for (step, run, returned, names, notified) in steps {
            assert_eq!(run(&handle), returned, "{revision} {step}");
            let notifications = client.notifications();
            check(revision, &notifications);
            let methods: Vec<_> =
                notifications.iter().map(|message| method(message).trim_start_matches("notifications/")).collect();
            assert_eq!(methods, notified, "{revision} {step}");
            assert_eq!(listed(&mut client, "tools/list").await, names, "{revision} {step}");
            for name in ["optional", "permanent"] {
                let expected = if names.contains(&name) { 0 } else { -32602 };
                assert_eq!(
                    code(&mut client, "tools/call", json!({ "name": name })).await,
                    expected,
                    "{revision} {step}"
                );
            }
        }
    }
}

/// The result of a `list` function can change without any change of the server.
#[tokio::test]
async fn a_changed_list_of_resources_is_announced() {
    for revision in Revision::ALL {
        let built = server().build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        watch_lists(&mut client);
        handle.resource_list_changed();
        handle.resource_list_changed();
        assert_eq!(methods(&mut client), ["resources/list_changed"], "{revision}");
    }
}

/// Each kind has its own notification. Changes before a client reads are merged into one.
#[tokio::test]
async fn pending_list_changes_are_coalesced_by_kind() {
    for revision in Revision::ALL {
        let built = server().build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        watch_lists(&mut client);
        for _ in 0..3 {
            assert!(handle.set_enabled(|_| false));
            assert!(handle.set_enabled(|_| true));
        }
        handle.disable::<item>();
        assert_eq!(methods(&mut client), ["tools/list_changed", "resources/list_changed", "prompts/list_changed"]);
        for kind in [mcp_runtime::function::EntryKind::Resource, mcp_runtime::function::EntryKind::Prompt] {
            let hides_prompts = kind == mcp_runtime::function::EntryKind::Prompt;
            handle.set_enabled(|entry| entry.kind != kind);
            assert_eq!(
                code(&mut client, "prompts/get", json!({"name": "ask", "arguments": {"style": "Plain"}})).await,
                if hides_prompts { -32602 } else { 0 }
            );
            let missing = mcp_tests::expected(revision).resource_not_found;
            assert_eq!(
                code(&mut client, "resources/read", json!({"uri": "test://fixed"})).await,
                if hides_prompts { 0 } else { missing }
            );
        }
    }
}

#[tokio::test]
async fn features_appear_with_their_first_entry_and_never_disappear() {
    for revision in Revision::ALL {
        let built = empty().with::<permanent>().build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        assert_eq!(code(&mut client, "prompts/list", json!({})).await, -32601);
        handle.add::<ask>().unwrap();
        handle.resource_list_changed();
        handle.remove::<permanent>();
        // A session is told only of the lists that existed when it was opened.
        if !revision.is_stateless() {
            let received = client.notifications();
            let methods: Vec<_> = received.iter().map(|message| &message["method"]).collect();
            assert_eq!(methods, ["notifications/tools/list_changed"], "{revision}");
        }
        assert_eq!(listed(&mut client, "prompts/list").await, ["ask"]);
        assert_eq!(listed(&mut client, "tools/list").await, Vec::<String>::new());
        let complete =
            json!({"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "style", "value": ""}});
        assert_eq!(code(&mut client, "completion/complete", complete).await, 0);
        let mut late = built.test_client(revision);
        handle.remove::<ask>();
        assert_eq!(listed(&mut late, "prompts/list").await, Vec::<String>::new());
        if revision.is_stateless() {
            let discovered = late.request("server/discover", json!({})).await.unwrap();
            assert_eq!(discovered["capabilities"]["prompts"], json!({"listChanged": true}));
            assert_eq!(discovered["capabilities"]["tools"], json!({"listChanged": true}));
        }
    }
}

#[tokio::test]
async fn entries_can_be_disabled_initially() {
    for revision in Revision::ALL {
        let built = empty().with::<permanent>().with_disabled::<optional>().with_disabled::<ask>().build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        assert_eq!(listed(&mut client, "tools/list").await, ["permanent"]);
        assert_eq!(listed(&mut client, "prompts/list").await, Vec::<String>::new());
        assert!(handle.enable::<optional>());
        assert_eq!(listed(&mut client, "tools/list").await, ["optional", "permanent"]);
    }
}

/// A failed operation changes nothing.
#[tokio::test]
async fn invalid_entries_are_rejected() {
    let early = server();
    let handle = early.handle();
    assert!(handle.add::<optional>().unwrap_err().to_string().contains("before the server is built"));
    assert!(!(handle.remove::<permanent>() || handle.enable::<permanent>() || handle.disable::<permanent>()));
    assert!(!handle.set_enabled(|_| false));
    handle.resource_updated("test://fixed");
    let built = early.build().unwrap();
    let mut client = built.test_client(Revision::V2025_11_25);
    for (refused, why) in [
        (handle.add::<needs_missing_state>(), "needs `&it::changes::handle::Missing`"),
        (handle.add::<slow>(), "the server has no state"),
        (handle.add::<same::permanent>(), "two tools are named `permanent`"),
        (handle.add::<same::item>(), "match the same URIs"),
    ] {
        let refused = refused.unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.starts_with("the functions of the server cannot be changed: ") && refused.contains(why),
            "{refused}"
        );
    }
    handle.disable::<permanent>();
    // A disabled entry keeps its name, because it may be enabled again.
    assert!(handle.add::<same::permanent>().unwrap_err().to_string().contains("two tools are named `permanent`"));
    handle.remove::<permanent>();
    handle.add::<same::permanent>().unwrap();
    assert_eq!(listed(&mut client, "tools/list").await, ["permanent"]);
    assert!(handle.set_enabled(|_| {
        // The filter may use the handle itself.
        handle.remove::<fixed>();
        false
    }));
    drop((client, built));
    assert!(handle.add::<optional>().unwrap_err().to_string().contains("has been dropped"));
    assert!(!handle.remove::<permanent>());
}

/// A handle is closed when nothing holds its server any more, which may never have been built, or is part of another one.
#[tokio::test]
async fn a_handle_is_closed_with_its_server() {
    type Build = fn(Server) -> Option<Box<dyn std::any::Any>>;
    let cases: [(&str, Build); 5] = [
        ("dropped", |_| None),
        ("invalid", |server| Some(Box::new(server.with::<permanent>().with::<same::permanent>().build().ok()?))),
        ("open", |server| Some(Box::new(server))),
        ("built", |server| Some(Box::new(server.build().unwrap()))),
        ("mounted", |server| Some(Box::new(Server::empty("outer", "1").mount("a", server).build().unwrap()))),
    ];
    for (case, build) in cases {
        let server = Server::empty("handles", "1");
        let handle = server.handle();
        let built = build(server);
        let is_ready = std::pin::pin!(handle.closed()).poll(&mut TaskContext::from_waker(Waker::noop())).is_ready();
        assert_eq!((handle.is_closed(), is_ready), (built.is_none(), built.is_none()), "{case}");
        let waiting = {
            let handle = handle.clone();
            tokio::spawn(async move { handle.closed().await })
        };
        tokio::task::yield_now().await;
        drop(built);
        assert!(handle.is_closed(), "{case}");
        waiting.await.unwrap();
        assert!(handle.add::<optional>().unwrap_err().to_string().contains("has been dropped"), "{case}");
    }
}

#[tokio::test]
async fn functions_can_use_a_handle() {
    for revision in Revision::ALL {
        let mut client = server().with::<reconfigure>().test_client(revision);
        watch_lists(&mut client);
        let result = client.call("reconfigure", ()).await.unwrap();
        assert_eq!((result.text().as_str(), result.is_error()), ("true", false));
        assert_eq!(listed(&mut client, "tools/list").await, ["optional", "reconfigure"]);
        assert!(methods(&mut client).contains(&"tools/list_changed".to_owned()));
        let mut client = server().with::<completed>().test_client(revision);
        let reference = json!({"type": "ref/resource", "uri": "test://completed/{id}"});
        assert_eq!(client.complete(reference, "id", "").await.unwrap(), ["true"]);
        assert_eq!(listed(&mut client, "tools/list").await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn removing_a_tool_does_not_affect_calls_in_flight() {
    for revision in Revision::ALL {
        let gate = Arc::new(Semaphore::new(0));
        let built = empty().with::<slow>().with_shared(Arc::clone(&gate)).build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        let id = client.send_request("tools/call", json!({"name": "slow"}));
        assert_eq!(client.in_flight(), 1);
        assert!(handle.remove::<slow>());
        assert_eq!(code(&mut client, "tools/call", json!({"name": "slow"})).await, -32602);
        gate.add_permits(1);
        assert_eq!(client.response(id).await.unwrap()["content"][0]["text"], "slow result");
    }
}

/// Changes do not regenerate the schemas of registered entries.
#[tokio::test]
async fn unchanged_entries_are_not_rebuilt() {
    let built = server().with::<counts_schemas>().build().unwrap();
    let handle = built.handle();
    let mut client = built.test_client(Revision::V2025_11_25);
    client.call("counts_schemas", json!({"counted": 1})).await.unwrap();
    listed(&mut client, "tools/list").await;
    let generated = SCHEMAS.load(Ordering::SeqCst);
    assert!(generated > 0);
    handle.add::<optional>().unwrap();
    assert_eq!(listed(&mut client, "tools/list").await, ["counts_schemas", "optional", "permanent"]);
    handle.disable::<counts_schemas>();
    handle.remove::<optional>();
    handle.enable::<counts_schemas>();
    assert_eq!(listed(&mut client, "tools/list").await, ["counts_schemas", "permanent"]);
    client.call("counts_schemas", json!({"counted": 1})).await.unwrap();
    assert_eq!(SCHEMAS.load(Ordering::SeqCst), generated);
}

/// A cursor continues after its position even if entries were removed.
#[tokio::test]
async fn cursors_remain_valid_after_changes() {
    for revision in Revision::ALL {
        let built =
            empty().with::<permanent>().with::<optional>().with::<earlier::also>().page_size(1).build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        let first = client.request("tools/list", json!({})).await.unwrap();
        assert_eq!(first["tools"][0]["name"], "also");
        handle.remove::<earlier::also>();
        let second = client.request("tools/list", json!({"cursor": first["nextCursor"]})).await.unwrap();
        assert_eq!(second["tools"][0]["name"], "optional");
        handle.remove::<permanent>();
        let last = client.request("tools/list", json!({"cursor": second["nextCursor"]})).await.unwrap();
        assert_eq!((last["tools"].as_array().unwrap().len(), last.get("nextCursor")), (0, None));
        assert_eq!(code(&mut client, "tools/list", json!({"cursor": "bm9uc2Vuc2U"})).await, -32602);
    }
}

/// Each resource is listed once, in the order of the URIs, although others appear and disappear.
#[tokio::test]
async fn cursors_of_listed_resources_remain_valid_after_changes() {
    static NAMES: Mutex<Vec<&str>> = Mutex::new(Vec::new());

    /// A resource of a changing set.
    #[resource("note://{name}", list = list_notes)]
    fn note(name: String) -> String {
        name
    }

    fn list_notes() -> Vec<ResourceLink> {
        NAMES.lock().unwrap().iter().map(|name| ResourceLink::new(format!("note://{name}"), *name)).collect()
    }

    for revision in Revision::ALL {
        *NAMES.lock().unwrap() = vec!["d", "b", "f"];
        let mut client = empty().with::<note>().page_size(1).test_client(revision);
        let (mut found, mut cursor) = (Vec::new(), Value::Null);
        for names in [vec!["d", "b", "f"], vec!["f", "d", "a", "b"], vec!["a", "b", "e", "c"]] {
            *NAMES.lock().unwrap() = names;
            let page = client.request("resources/list", json!({"cursor": cursor})).await.unwrap();
            found.extend(page["resources"].as_array().unwrap().iter().map(|found| found["name"].clone()));
            cursor = page["nextCursor"].clone();
        }
        assert_eq!((json!(found), cursor), (json!(["b", "d", "e"]), Value::Null), "{revision}");
    }
}

mod earlier {
    use mcp_runtime::tool;

    /// Precedes the other tools in the list.
    #[tool]
    pub(super) fn also() {}
}

/// Readers do not wait for changes and never see a partial one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_are_not_blocked_by_changes() {
    let built = server().page_size(1).build().unwrap();
    let handle = built.handle();
    let done = Arc::new(AtomicBool::new(false));
    let reads = Arc::new(AtomicUsize::new(0));
    let mut readers = Vec::new();
    for revision in Revision::ALL {
        let (built, done, reads) = (built.clone(), Arc::clone(&done), Arc::clone(&reads));
        readers.push(tokio::spawn(async move {
            let mut client = built.test_client(revision);
            while !done.load(Ordering::Acquire) {
                assert_eq!(client.call("permanent", ()).await.unwrap().text(), "permanent result");
                let names = listed(&mut client, "tools/list").await;
                assert!(names == ["permanent"] || names == ["optional", "permanent"], "{names:?}");
                let code = code(&mut client, "tools/call", json!({"name": "optional"})).await;
                assert!(code == 0 || code == -32602, "{code}");
                reads.fetch_add(1, Ordering::AcqRel);
                tokio::task::yield_now().await;
            }
        }));
    }
    let changes = tokio::task::spawn_blocking(move || {
        let mut changes = 0;
        while reads.load(Ordering::Acquire) < 200 || changes < 200 {
            handle.add::<optional>().unwrap();
            assert!(handle.remove::<optional>());
            changes += 1;
        }
        done.store(true, Ordering::Release);
    });
    changes.await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }
}
