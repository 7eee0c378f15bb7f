//! Which entries a server has, and how their lists are sorted and paginated.

use std::sync::Arc;

use mcp_runtime::{Context, ResourceLink, Revision, resource, testing::TestClient};
use serde_json::{Value, json};

use super::{Clock, Db, Stopped, empty, listed, one, time, two};

#[tokio::test]
async fn entries_are_filtered_and_sorted() {
    let all = || empty().with::<two::zebra>().with::<one::same>().with::<two::aardvark>().with::<two::aardvark>();
    for (server, expected) in [
        (all(), &["aardvark", "same", "zebra"][..]),
        (all().only(|entry| entry.name != "same"), &["aardvark", "zebra"]),
        (all().only_tags(["blue"]), &["same"]),
        (all().only_tags(["green", "red"]), &["same"]),
        (all().only_crates(["mcp-tests"]), &["aardvark", "same", "zebra"]),
        (all().only_crates(["other", "mcp-tests"]), &["aardvark", "same", "zebra"]),
        (all().only_crates(["other"]).with::<time>().with_shared::<dyn Clock>(Arc::new(Stopped)), &["time"]),
    ] {
        let mut client = server.test_client(Revision::V2025_06_18);
        let names: Vec<_> = client.tools().await.unwrap().iter().map(|tool| tool["name"].clone()).collect();
        assert_eq!(names, expected);
    }
}

#[tokio::test]
async fn methods_of_features_that_are_not_offered_are_not_found() {
    for (revision, has_handle) in Revision::ALL.into_iter().flat_map(|revision| [(revision, false), (revision, true)]) {
        let server = empty();
        let _handle = has_handle.then(|| server.handle());
        let mut client = server.test_client(revision);
        let mut methods = vec![
            "tools/list",
            "tools/call",
            "resources/list",
            "resources/templates/list",
            "resources/read",
            "resources/subscribe",
            "resources/unsubscribe",
            "prompts/list",
            "prompts/get",
            "completion/complete",
            "tasks/get",
            "tasks/result",
            "tasks/list",
            "tasks/cancel",
            "tasks/update",
        ];
        if !has_handle {
            // A handle sends log messages, and announces changes.
            methods.extend(["logging/setLevel", "subscriptions/listen"]);
        }
        for method in methods {
            let refused = client.request(method, json!({})).await.unwrap_err();
            assert_eq!((refused.code, refused.message), (-32601, format!("method not found: {method}")), "{revision}");
        }
    }
}

async fn pages(client: &mut TestClient, method: &str, member: &str) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut params = json!({});
    let mut seen = Vec::new();
    loop {
        let page = client.request(method, params).await.unwrap();
        let items = page[member].as_array().unwrap();
        sizes.push(items.len());
        seen.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        match &page["nextCursor"] {
            Value::String(cursor) => params = json!({ "cursor": cursor }),
            _ => break,
        }
    }
    let mut sorted = seen.clone();
    sorted.sort();
    assert_eq!(seen, sorted);
    sizes
}

#[tokio::test]
async fn lists_are_paginated() {
    for revision in Revision::ALL {
        let server = || {
            let tools = empty().with::<two::zebra>().with::<one::same>().with::<two::aardvark>();
            tools.with::<listed>().with_state(Db)
        };
        for (size, expected) in [(1, &[1, 1, 1][..]), (3, &[3]), (4, &[3])] {
            let mut client = server().page_size(size).test_client(revision);
            assert_eq!(pages(&mut client, "tools/list", "tools").await, expected, "{revision}");
        }
        let mut client = server().page_size(2).test_client(revision);
        assert_eq!(pages(&mut client, "tools/list", "tools").await, [2, 1]);
        assert_eq!(pages(&mut client, "resources/list", "resources").await, [2, 2, 1]);
        assert_eq!(pages(&mut client, "resources/templates/list", "resourceTemplates").await, [1]);
        let unknown = client.request("resources/list", json!({"cursor": "ZnJvbTo0"})).await;
        assert_eq!(unknown.unwrap_err().code, -32602, "{revision}");
    }
}

/// Some clients send every member.
#[tokio::test]
async fn a_cursor_of_null_is_no_cursor() {
    for revision in Revision::ALL {
        let server = empty().with::<two::zebra>().with::<one::same>().page_size(1);
        let mut client = server.test_client(revision);
        let first = client.request("tools/list", json!({})).await;
        assert!(first.is_ok(), "{revision}: {first:?}");
        assert_eq!(client.request("tools/list", json!({"cursor": null})).await, first, "{revision}");
    }
}

/// Two entries for each list.
struct Several;

#[mcp_runtime::tools]
impl Several {
    #[prompt]
    fn a(&self) -> &'static str {
        "a"
    }

    #[prompt]
    fn b(&self) -> &'static str {
        "b"
    }

    #[resource("a://fixed")]
    fn first(&self) -> &'static str {
        "a"
    }

    #[resource("b://fixed")]
    fn second(&self) -> &'static str {
        "b"
    }

    #[resource("a://{id}")]
    fn one(&self, id: u32) -> String {
        id.to_string()
    }

    #[resource("b://{id}")]
    fn other(&self, id: u32) -> String {
        id.to_string()
    }
}

#[tokio::test]
async fn a_cursor_of_one_list_is_invalid_in_others() {
    const LISTS: [(&str, &str); 4] = [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ];
    for revision in Revision::ALL {
        for visible in [false, true] {
            let mut server =
                empty().with::<two::zebra>().with::<one::same>().with::<Several>().with_state(Several).page_size(1);
            if visible {
                server = server.visible_to(|_, _| true);
            }
            let mut client = server.test_client(revision);
            for (from, _) in LISTS {
                let first = client.request(from, json!({})).await.unwrap();
                let cursor = &first["nextCursor"];
                assert!(cursor.is_string(), "{from}");
                for (to, member) in LISTS {
                    let page = client.request(to, json!({"cursor": cursor})).await;
                    let found = page.map(|page| page[member].as_array().map(Vec::len)).map_err(|error| error.code);
                    let expected = if to == from { Ok(Some(1)) } else { Err(-32602) };
                    assert_eq!(found, expected, "{revision} {visible}: {from} {to}");
                }
            }
        }
    }
}

/// Lists itself without a context.
#[resource("b://{id}", list = fixed)]
fn plain(id: u32) -> String {
    id.to_string()
}

fn fixed() -> Vec<ResourceLink> {
    vec![ResourceLink::new("b://1", "b")]
}

/// Lists what the request says.
#[resource("a://{id}", list = named)]
fn before_plain(id: u32) -> String {
    id.to_string()
}

/// Lists what the request says.
#[resource("c://{id}", list = named)]
fn after_plain(id: u32) -> String {
    id.to_string()
}

/// Lists what the request says, with a function whose first parameter is state.
#[resource("d://{id}", list = named_in_db)]
fn in_db(id: u32) -> String {
    id.to_string()
}

fn named_in_db(_: &Db, ctx: &Context) -> Vec<ResourceLink> {
    named(ctx)
}

fn named(ctx: &Context) -> Vec<ResourceLink> {
    let name = ctx.meta("com.example/name").and_then(|name| name.as_str().map(str::to_owned));
    vec![ResourceLink::new("named://1", name.unwrap_or_default())]
}

/// A list function reads the request wherever its template is in the order of templates, and wherever the context is
/// among its parameters.
#[tokio::test]
async fn every_list_function_may_read_the_request() {
    for revision in Revision::ALL {
        for server in [
            empty().with::<plain>().with::<before_plain>(),
            empty().with::<plain>().with::<after_plain>(),
            empty().with::<after_plain>(),
            empty().with::<in_db>().with_state(Db),
        ] {
            let mut client = server.test_client(revision);
            let params = json!({"_meta": {"com.example/name": "given"}});
            let page = client.request("resources/list", params).await.unwrap();
            let names: Vec<_> = page["resources"].as_array().unwrap().iter().map(|link| link["name"].clone()).collect();
            assert!(names.contains(&json!("given")), "{revision}: {names:?}");
        }
    }
}
