//! `Server::visible_to`: which caller sees which entries.

use mcp_runtime::{
    Caller,
    auth::Identity,
    function::{EntryInfo, EntryKind},
};

use super::*;

/// A hidden template with a list.
#[resource("test://listed/{id}", tags("admin"), list = all)]
fn hidden_template(id: u32) -> String {
    id.to_string()
}

fn all() -> Vec<mcp_runtime::ResourceLink> {
    vec![mcp_runtime::ResourceLink::new("test://listed/1", "1")]
}

/// Matches the URIs of the hidden template as well, and is tried after it.
#[resource("test://{kind}/{+path}")]
fn fallback(kind: String, path: String) -> String {
    format!("fallback {kind} {path}")
}

fn everything() -> Server {
    server().with::<optional>().with::<other>().with::<ask_more>().with::<hidden_template>().with::<fallback>()
}

fn by_principal(caller: &Caller, entry: &EntryInfo<'_>) -> bool {
    assert_eq!((caller.principal(), caller.headers().is_some()), (None, false));
    !entry.has_tag("admin") || caller.principal() == Some("root")
}

/// Clients cannot distinguish hidden, disabled, removed and never registered entries.
#[tokio::test]
async fn hidden_entries_are_indistinguishable_from_missing_ones() {
    let complete = |reference: Value, name: &str| json!({"ref": reference, "argument": {"name": name, "value": ""}});
    let requests = [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("prompts/list", json!({})),
        ("tools/call", json!({"name": "optional"})),
        ("resources/read", json!({"uri": "test://other"})),
        ("resources/read", json!({"uri": "test://listed/1"})),
        ("prompts/get", json!({"name": "ask_more", "arguments": {"style": "Plain"}})),
        ("completion/complete", complete(json!({"type": "ref/prompt", "name": "ask_more"}), "style")),
        ("completion/complete", complete(json!({"type": "ref/resource", "uri": "test://listed/{id}"}), "id")),
        ("resources/subscribe", json!({"uri": "test://other"})),
        ("tools/call", json!({"name": "permanent"})),
        ("resources/read", json!({"uri": "test://item/1"})),
    ];
    for revision in Revision::ALL {
        let never = server().with::<fallback>().build().unwrap();
        let hidden = everything().visible_to(by_principal).build().unwrap();
        let disabled = everything().build().unwrap();
        let removed = everything().build().unwrap();
        let _handles = (never.handle(), hidden.handle());
        disabled.handle().set_enabled(|entry| !entry.has_tag("admin"));
        let handle = removed.handle();
        assert!(
            handle.remove::<optional>()
                && handle.remove::<other>()
                && handle.remove::<ask_more>()
                && handle.remove::<hidden_template>()
        );
        for (name, built) in [("hidden", hidden), ("disabled", disabled), ("removed", removed)] {
            let (mut expected, mut client) = (never.test_client(revision), built.test_client(revision));
            for (method, params) in &requests {
                let expected = expected.request(method, params.clone()).await;
                let mut answer = client.request(method, params.clone()).await;
                if let Ok(answer) = &mut answer
                    && answer["cacheScope"] == "private"
                    && *method != "resources/read"
                {
                    assert_eq!(name, "hidden");
                    answer["cacheScope"] = json!("public");
                }
                assert_eq!(answer, expected, "{revision} {name} {method} {params}");
            }
        }
    }
}

#[tokio::test]
async fn visibility_depends_on_the_caller() {
    for revision in Revision::ALL {
        let built = everything()
            .visible_to(move |caller, entry| {
                assert_eq!(caller.revision(), revision);
                caller.principal() == Some("root") || entry.kind == EntryKind::Prompt
            })
            .build()
            .unwrap();
        let connect = |user: &str| built.test_client(revision).with_extension(Identity::new(user));
        let mut root = connect("root");
        assert_eq!(listed(&mut root, "tools/list").await, ["optional", "permanent"]);
        assert_eq!(listed(&mut root, "resources/list").await, ["test://fixed", "test://listed/1", "test://other"]);
        // The name of a client is the client's claim.
        let claim = json!({"_meta": {"io.modelcontextprotocol/clientInfo": {"name": "root", "version": "1"}}});
        for mut other in [connect("ada"), built.test_client(revision)] {
            for (method, member, count) in [("tools/list", "tools", 0), ("prompts/list", "prompts", 2)] {
                let listed = other.request(method, claim.clone()).await.unwrap();
                assert_eq!(listed[member].as_array().unwrap().len(), count, "{revision} {method}");
                assert_eq!(listed.get("cacheScope"), revision.is_stateless().then(|| json!("private")).as_ref());
            }
        }
    }
}

#[tokio::test]
async fn pages_contain_only_visible_entries() {
    for revision in Revision::ALL {
        let built = everything().visible_to(by_principal).page_size(1).build().unwrap();
        let mut client = built.test_client(revision);
        for (method, member, expected) in [
            ("tools/list", "tools", &["permanent"][..]),
            ("resources/templates/list", "resourceTemplates", &["test://item/{id}", "test://{kind}/{+path}"]),
            ("resources/list", "resources", &["test://fixed"]),
            ("prompts/list", "prompts", &["ask"]),
        ] {
            assert_eq!(listed(&mut client, method).await, expected, "{revision}");
            let first = client.request(method, json!({})).await.unwrap();
            assert_eq!(first[member].as_array().unwrap().len(), 1);
            assert_eq!(first.get("nextCursor").is_some(), expected.len() > 1, "{first}");
            assert_eq!(code(&mut client, method, json!({"cursor": "nonsense"})).await, -32602);
        }
    }
}

/// A cache may share either all pages of a list or none.
#[tokio::test]
async fn all_pages_have_the_same_cache_scope() {
    let methods = ["tools/list", "resources/templates/list", "resources/list", "prompts/list"];
    for (server, scopes) in [
        // A function lists resources, and may list others to each caller.
        (everything(), ["public", "public", "private", "public"]),
        (everything().visible_to(|_, _| true), ["private"; 4]),
        (everything().only(|entry| entry.function != "hidden_template"), ["public"; 4]),
    ] {
        let mut client = server.page_size(1).test_client(Revision::V2026_07_28);
        let description = client.request("server/discover", json!({})).await.unwrap();
        assert_eq!(description["cacheScope"], scopes[0]);
        for (method, scope) in methods.into_iter().zip(scopes) {
            let (mut params, mut pages) = (json!({}), 0);
            loop {
                let page = client.request(method, params).await.unwrap();
                assert_eq!(page["cacheScope"], scope, "{method} {pages}");
                assert!(page["ttlMs"].is_u64(), "{method} {pages}: {page}");
                pages += 1;
                match page.get("nextCursor") {
                    Some(cursor) => params = json!({ "cursor": cursor }),
                    None => break,
                }
            }
            assert!(pages > 1, "{method} has one page");
        }
    }
}

/// Earlier requests on a connection do not affect its lists.
#[tokio::test]
async fn lists_do_not_depend_on_the_connection() {
    for revision in Revision::ALL {
        let built = everything().build().unwrap();
        let handle = built.handle();
        let (mut busy, mut idle) = (built.test_client(revision), built.test_client(revision));
        busy.call("permanent", ()).await.unwrap();
        busy.read("test://fixed").await.unwrap();
        watch_lists(&mut busy);
        handle.remove::<optional>();
        for method in ["tools/list", "resources/templates/list", "resources/list", "prompts/list"] {
            let first = busy.request(method, json!({})).await.unwrap();
            assert_eq!(first, busy.request(method, json!({})).await.unwrap(), "{revision} {method}");
            assert_eq!(first, idle.request(method, json!({})).await.unwrap(), "{revision} {method}");
        }
    }
}

#[tokio::test]
async fn updates_of_hidden_resources_are_not_sent() {
    let built = everything().visible_to(by_principal).build().unwrap();
    let handle = built.handle();
    let mut client = built.test_client(Revision::V2026_07_28);
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://other", "test://fixed"]});
    let (_, acknowledged) = listen(&mut client, wanted);
    assert_eq!(acknowledged, json!({"toolsListChanged": true, "resourceSubscriptions": ["test://fixed"]}));
    handle.remove::<optional>();
    handle.resource_updated("test://other");
    assert_eq!(methods(&mut client), ["tools/list_changed"]);
}

#[tokio::test]
async fn a_panic_in_the_visibility_filter_hides_the_entry() {
    let built = server().visible_to(|_, entry| entry.name != "permanent" || panic!("a secret")).build().unwrap();
    let mut client = built.test_client(Revision::V2025_11_25);
    assert_eq!(listed(&mut client, "tools/list").await, Vec::<String>::new());
    let refused = client.call("permanent", ()).await.unwrap_err();
    assert_eq!((refused.code, refused.message.as_str()), (-32602, "unknown tool: permanent"));
}
