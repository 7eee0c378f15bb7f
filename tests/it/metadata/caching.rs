//! How long and by whom lists and contents may be cached.

use std::time::Duration;

use mcp_runtime::{
    Context, Fault, Revision, Server,
    auth::{Identity, Principal},
    function::EntryKind,
    model::CacheScope,
    resource,
};
use serde_json::json;

use super::{icons::icons, item, items, none};

/// Returns `ttlMs` and `cacheScope` of the result of each method that has them, in the same order for each server.
async fn cache_hints(server: Server) -> Vec<(String, u64, String)> {
    let mut client = server.test_client(Revision::V2026_07_28);
    let mut hints = Vec::new();
    for (method, params) in [
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": "test://iconic"})),
        ("resources/read", json!({"uri": "test://iconic/1"})),
    ] {
        let result = client.request(method, params).await.unwrap();
        let scope = result["cacheScope"].as_str().unwrap().to_owned();
        hints.push((method.to_owned(), result["ttlMs"].as_u64().unwrap(), scope));
    }
    hints
}

#[tokio::test]
async fn lists_and_resources_have_cache_hints_of_their_own() {
    let hour = Duration::from_secs(3600);
    let public = |milliseconds| (milliseconds, "public");
    let private = |milliseconds| (milliseconds, "private");
    let (minute, item) = (public(60_000), private(120_000));
    for (server, expected) in [
        (icons(), [minute, minute, minute, minute, public(90_000), item]),
        (
            icons().list_ttl(hour),
            [public(3_600_000), public(3_600_000), public(3_600_000), public(3_600_000), public(90_000), item],
        ),
        (
            icons().list_cache(EntryKind::Tool, hour, CacheScope::Private).list_cache(
                EntryKind::Resource,
                Duration::ZERO,
                CacheScope::Public,
            ),
            [private(3_600_000), minute, public(0), public(0), public(90_000), item],
        ),
        // A list that depends on the caller, and the resources in it, are never public.
        (
            icons().visible_to(|_, _| true).list_cache(EntryKind::Tool, hour, CacheScope::Public),
            [private(3_600_000), private(60_000), private(60_000), private(60_000), private(90_000), item],
        ),
        (
            icons().hide_unauthorized().list_cache(EntryKind::Tool, hour, CacheScope::Public),
            [private(3_600_000), private(60_000), private(60_000), private(60_000), private(90_000), item],
        ),
        // A function lists resources.
        (icons().with::<item>(), [minute, minute, private(0), minute, public(90_000), item]),
        (
            icons().with::<item>().list_cache(EntryKind::Resource, hour, CacheScope::Public),
            [minute, minute, private(3_600_000), public(3_600_000), public(90_000), item],
        ),
    ] {
        let found = cache_hints(server).await;
        let found: Vec<_> = found.iter().map(|(_, ttl, scope)| (*ttl, scope.as_str())).collect();
        assert_eq!(found, expected);
    }
}

/// A caller without the scope of a `list` function does not see what it lists, and other callers do.
#[tokio::test]
async fn a_list_without_what_functions_list_for_others_is_private() {
    /// A template whose resources only some callers see.
    #[resource("test://scoped/{id}", list = items, scopes("read"))]
    fn scoped(id: String) -> String {
        id
    }

    let hour = Duration::from_secs(3600);
    let server = Server::empty("scoped", "1.0.0").with::<scoped>().with::<none>();
    let server = server.list_cache(EntryKind::Resource, hour, CacheScope::Public);
    let identity = Identity::new(Principal::new("Ada")).with_scopes(["write"]);
    let mut client = server.test_client(Revision::V2026_07_28).with_extension(identity);
    let result = client.request("resources/list", json!({})).await.unwrap();
    assert_eq!((result["resources"].as_array().map(Vec::len), &result["cacheScope"]), (Some(1), &json!("private")));
}

/// Asks for the name.
#[resource("test://asked", ttl = "1h")]
async fn asked(ctx: &Context) -> Result<String, Fault> {
    Ok(format!("{:?}", ctx.roots().await?.len()))
}

/// Results that depend on answers must not be cached.
#[tokio::test]
async fn contents_that_depend_on_answers_are_not_cached() {
    let server = Server::empty("asked", "1.0.0").with::<asked>();
    let mut client = server.test_client(Revision::V2026_07_28).answering(|_| json!({"roots": []}));
    let result = client.read("test://asked").await.unwrap().0;
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")));
}
