//! What a handle does: to lists, to calls, to what clients are told.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use mcp_runtime::BuildError;

use super::*;

/// Learns another tool.
#[tool]
fn learns(handle: &Handle, ctx: &Context) -> Result<Json<bool>, BuildError> {
    ctx.info("learning");
    handle.add::<comes>()?;
    Ok(Json(handle.remove::<stays>()))
}

/// Lists through a handle.
#[resource("test://lists/{id}", complete(id = by_handle))]
fn lists(id: u32) -> String {
    id.to_string()
}

fn by_handle(handle: &Handle) -> Vec<String> {
    vec![handle.disable::<stays>().to_string()]
}

/// A type that counts how often its schema is made.
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

/// Takes and gives what is counted.
#[tool]
fn counts(counted: Counted) -> Json<Vec<Counted>> {
    Json(vec![counted])
}

#[derive(Debug)]
struct Needed;

/// Needs what nobody gives.
#[tool]
fn needy(_needed: &Needed) {}

mod same {
    use mcp_runtime::tool;

    /// Has a name that is taken.
    #[tool(name = "stays")]
    pub(super) fn stays() {}

    /// A template that is taken.
    #[mcp_runtime::resource("test://item/{number}")]
    pub(super) fn item(number: u32) -> String {
        number.to_string()
    }
}

async fn capabilities(server: Server, revision: Revision) -> Value {
    let mut client = TestClient::uninitialized(server, revision);
    let result = match revision {
        stateless if stateless.is_stateless() => client.request("server/discover", json!({})).await,
        _ => {
            let who = json!({"name": "test", "version": "1"});
            let params = json!({"protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": who});
            client.request("initialize", params).await
        }
    };
    let mut capabilities = result.unwrap()["capabilities"].take();
    capabilities.as_object_mut().unwrap().remove("completions");
    capabilities
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
        let taken = server();
        let _handle = taken.handle();
        assert_eq!(capabilities(taken, revision).await, changing, "{revision}");
        assert_eq!(capabilities(server().with::<learns>(), revision).await, logging, "{revision}");
        assert_eq!(capabilities(server().with::<lists>(), revision).await, changing, "{revision}");
    }
}

#[tokio::test]
async fn a_handle_taken_late_affects_only_later_connections() {
    for revision in HANDSHAKES {
        let built = server().build().unwrap();
        let mut early = built.test_client(revision);
        let handle = built.handle();
        let mut late = built.test_client(revision);
        handle.add::<comes>().unwrap();
        assert_eq!(methods(&mut early), Vec::<String>::new());
        assert_eq!(methods(&mut late), ["tools/list_changed"]);
        assert_eq!(listed(&mut early, "tools/list").await, ["comes", "stays"]);
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

/// Everything that a handle can do, one after the other: what it says, what is listed and what clients are told then.
#[tokio::test]
async fn each_operation_changes_lists_and_calls_and_notifies() {
    type Step = (&'static str, fn(&Handle) -> bool, bool, &'static [&'static str], &'static [&'static str]);
    let steps: [Step; 14] = [
        ("add", |handle| handle.add::<comes>().is_ok(), true, &["comes", "stays"], &["tools/list_changed"]),
        ("add again", |handle| handle.add::<comes>().is_ok(), true, &["comes", "stays"], &[]),
        ("disable", Handle::disable::<comes>, true, &["stays"], &["tools/list_changed"]),
        ("disable again", Handle::disable::<comes>, false, &["stays"], &[]),
        (
            "add a disabled one",
            |handle| handle.add::<comes>().is_ok(),
            true,
            &["comes", "stays"],
            &["tools/list_changed"],
        ),
        ("disable once more", Handle::disable::<comes>, true, &["stays"], &["tools/list_changed"]),
        ("enable", Handle::enable::<comes>, true, &["comes", "stays"], &["tools/list_changed"]),
        ("enable again", Handle::enable::<comes>, false, &["comes", "stays"], &[]),
        ("enable what is not there", Handle::enable::<takes_time>, false, &["comes", "stays"], &[]),
        (
            "disable a tag",
            |handle| handle.set_enabled(|entry| !entry.has_tag("admin")),
            true,
            &["stays"],
            &["tools/list_changed"],
        ),
        ("the same", |handle| handle.set_enabled(|entry| !entry.has_tag("admin")), false, &["stays"], &[]),
        ("remove a disabled one", Handle::remove::<comes>, true, &["stays"], &[]),
        ("remove it again", Handle::remove::<comes>, false, &["stays"], &[]),
        ("remove", Handle::remove::<stays>, true, &[], &["tools/list_changed"]),
    ];
    for revision in Revision::ALL {
        let built = server().build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        watch_lists(&mut client);
        for (step, run, says, names, told) in steps {
            assert_eq!(run(&handle), says, "{revision} {step}");
            let notifications = client.notifications();
            check(revision, &notifications);
            let methods: Vec<_> =
                notifications.iter().map(|told| method(told).trim_start_matches("notifications/")).collect();
            assert_eq!(methods, told, "{revision} {step}");
            assert_eq!(listed(&mut client, "tools/list").await, names, "{revision} {step}");
            for name in ["comes", "stays"] {
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

/// Each kind has its own notification, and several changes before a client reads are told once.
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
        for (kind, uri) in [(mcp_runtime::EntryKind::Resource, "test://fixed"), (mcp_runtime::EntryKind::Prompt, "")] {
            handle.set_enabled(|entry| entry.kind != kind);
            assert_eq!(
                code(&mut client, "prompts/get", json!({"name": "asks", "arguments": {"style": "Plain"}})).await,
                if uri.is_empty() { -32602 } else { 0 }
            );
            let missing = if revision == Revision::V2026_07_28 { -32602 } else { -32002 };
            assert_eq!(
                code(&mut client, "resources/read", json!({"uri": "test://fixed"})).await,
                if uri.is_empty() { 0 } else { missing }
            );
        }
    }
}

#[tokio::test]
async fn features_appear_with_their_first_entry_and_never_disappear() {
    for revision in Revision::ALL {
        let built = empty().with::<stays>().build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        assert_eq!(code(&mut client, "prompts/list", json!({})).await, -32601);
        handle.add::<asks>().unwrap();
        handle.remove::<stays>();
        assert_eq!(listed(&mut client, "prompts/list").await, ["asks"]);
        assert_eq!(listed(&mut client, "tools/list").await, Vec::<String>::new());
        let complete =
            json!({"ref": {"type": "ref/prompt", "name": "asks"}, "argument": {"name": "style", "value": ""}});
        assert_eq!(code(&mut client, "completion/complete", complete).await, 0);
        let mut late = built.test_client(revision);
        handle.remove::<asks>();
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
        let built = empty().with::<stays>().disabled::<comes>().disabled::<asks>().build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        assert_eq!(listed(&mut client, "tools/list").await, ["stays"]);
        assert_eq!(listed(&mut client, "prompts/list").await, Vec::<String>::new());
        assert!(handle.enable::<comes>());
        assert_eq!(listed(&mut client, "tools/list").await, ["comes", "stays"]);
    }
}

/// What cannot be added leaves everything as it was.
#[tokio::test]
async fn invalid_entries_are_rejected() {
    let early = server();
    let handle = early.handle();
    assert!(handle.add::<comes>().unwrap_err().to_string().contains("before the server is built"));
    assert!(!(handle.remove::<stays>() || handle.enable::<stays>() || handle.disable::<stays>()));
    assert!(!handle.set_enabled(|_| false));
    handle.resource_updated("test://fixed");
    let built = early.build().unwrap();
    let mut client = built.test_client(Revision::V2025_11_25);
    for (refused, why) in [
        (handle.add::<needy>(), "needs `&it::changes::handle::Needed`"),
        (handle.add::<takes_time>(), "the server has no state"),
        (handle.add::<same::stays>(), "two tools are named `stays`"),
        (handle.add::<same::item>(), "match the same URIs"),
    ] {
        let refused = refused.unwrap_err();
        assert!(refused.to_string().contains(why), "{refused}");
    }
    handle.disable::<stays>();
    // It may come back.
    assert!(handle.add::<same::stays>().unwrap_err().to_string().contains("two tools are named `stays`"));
    handle.remove::<stays>();
    handle.add::<same::stays>().unwrap();
    assert_eq!(listed(&mut client, "tools/list").await, ["stays"]);
    assert!(handle.set_enabled(|_| {
        // Whoever decides may use the handle.
        handle.remove::<fixed>();
        false
    }));
    drop((client, built));
    assert!(handle.add::<comes>().unwrap_err().to_string().contains("has been dropped"));
    assert!(!handle.remove::<stays>());
}

#[tokio::test]
async fn functions_can_use_a_handle() {
    for revision in Revision::ALL {
        let mut client = server().with::<learns>().test_client(revision);
        watch_lists(&mut client);
        let learnt = client.call("learns", ()).await.unwrap();
        assert_eq!((learnt.text().as_str(), learnt.is_error()), ("true", false));
        assert_eq!(listed(&mut client, "tools/list").await, ["comes", "learns"]);
        assert!(methods(&mut client).contains(&"tools/list_changed".to_owned()));
        let mut client = server().with::<lists>().test_client(revision);
        let reference = json!({"type": "ref/resource", "uri": "test://lists/{id}"});
        assert_eq!(client.complete(reference, "id", "").await.unwrap(), ["true"]);
        assert_eq!(listed(&mut client, "tools/list").await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn removing_a_tool_does_not_affect_calls_in_flight() {
    for revision in Revision::ALL {
        let gate = Arc::new(Semaphore::new(0));
        let built = empty().with::<takes_time>().with_shared(Arc::clone(&gate)).build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        let id = client.send_request("tools/call", json!({"name": "takes_time"}));
        assert_eq!(client.in_flight(), 1);
        assert!(handle.remove::<takes_time>());
        assert_eq!(code(&mut client, "tools/call", json!({"name": "takes_time"})).await, -32602);
        gate.add_permits(1);
        assert_eq!(client.answer(id).await.unwrap()["content"][0]["text"], "took its time");
    }
}

/// A change costs what changes: nothing is compiled or made again for what stays.
#[tokio::test]
async fn unchanged_entries_are_not_rebuilt() {
    let built = server().with::<counts>().build().unwrap();
    let handle = built.handle();
    let mut client = built.test_client(Revision::V2025_11_25);
    client.call("counts", json!({"counted": 1})).await.unwrap();
    listed(&mut client, "tools/list").await;
    let made = SCHEMAS.load(Ordering::SeqCst);
    assert!(made > 0);
    handle.add::<comes>().unwrap();
    assert_eq!(listed(&mut client, "tools/list").await, ["comes", "counts", "stays"]);
    handle.disable::<counts>();
    handle.remove::<comes>();
    handle.enable::<counts>();
    assert_eq!(listed(&mut client, "tools/list").await, ["counts", "stays"]);
    client.call("counts", json!({"counted": 1})).await.unwrap();
    assert_eq!(SCHEMAS.load(Ordering::SeqCst), made);
}

/// A cursor that was given leads on, whatever came and went.
#[tokio::test]
async fn cursors_remain_valid_after_changes() {
    for revision in Revision::ALL {
        let built = empty().with::<stays>().with::<comes>().with::<same_page::also>().page_size(1).build().unwrap();
        let handle = built.handle();
        let mut client = built.test_client(revision);
        let first = client.request("tools/list", json!({})).await.unwrap();
        assert_eq!(first["tools"][0]["name"], "also");
        handle.remove::<same_page::also>();
        let second = client.request("tools/list", json!({"cursor": first["nextCursor"]})).await.unwrap();
        assert_eq!(second["tools"][0]["name"], "comes");
        handle.remove::<stays>();
        let last = client.request("tools/list", json!({"cursor": second["nextCursor"]})).await.unwrap();
        assert_eq!((last["tools"].as_array().unwrap().len(), last.get("nextCursor")), (0, None));
        assert_eq!(code(&mut client, "tools/list", json!({"cursor": "bm9uc2Vuc2U"})).await, -32602);
    }
}

mod same_page {
    use mcp_runtime::tool;

    /// Stands before the others.
    #[tool]
    pub(super) fn also() {}
}

/// Nobody waits for a change, and nobody sees half of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_are_not_blocked_by_changes() {
    let built = server().page_size(1).build().unwrap();
    let handle = built.handle();
    let over = Arc::new(AtomicBool::new(false));
    let reads = Arc::new(AtomicUsize::new(0));
    let mut readers = Vec::new();
    for revision in Revision::ALL {
        let (built, over, reads) = (built.clone(), Arc::clone(&over), Arc::clone(&reads));
        readers.push(tokio::spawn(async move {
            let mut client = built.test_client(revision);
            while !over.load(Ordering::Acquire) {
                assert_eq!(client.call("stays", ()).await.unwrap().text(), "stayed");
                let names = listed(&mut client, "tools/list").await;
                assert!(names == ["stays"] || names == ["comes", "stays"], "{names:?}");
                let code = code(&mut client, "tools/call", json!({"name": "comes"})).await;
                assert!(code == 0 || code == -32602, "{code}");
                reads.fetch_add(1, Ordering::AcqRel);
                tokio::task::yield_now().await;
            }
        }));
    }
    let changes = tokio::task::spawn_blocking(move || {
        let mut changes = 0;
        while reads.load(Ordering::Acquire) < 200 || changes < 200 {
            handle.add::<comes>().unwrap();
            assert!(handle.remove::<comes>());
            changes += 1;
        }
        over.store(true, Ordering::Release);
    });
    changes.await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }
}
