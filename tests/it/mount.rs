//! Servers that another server in the same process serves.

use std::{task::Poll, time::Duration};

use http::Request;
use mcp_runtime::{
    Context, Fault, Handle, HttpOptions, Revision, Server,
    auth::{Identity, Scopes},
    function::{MethodEntry, ToolEntry},
    http::{HttpBody, HttpService},
    layers::{Call, LogCalls, Next, Outcome, RateLimit, from_fn},
    resource,
    testing::TestClient,
    tool,
};
use serde_json::{Map, Value, json};
use tower_service::Service;

use crate::layers::log::Log;

struct Notes(&'static str);

/// Search.
#[tool(tags("search"))]
fn search(notes: &Notes) -> &'static str {
    notes.0
}

/// Delete.
#[tool]
fn delete() {}

/// Hidden.
#[tool]
fn hidden(handle: &Handle) -> bool {
    handle.disable::<delete>()
}

/// All notes.
#[resource("notes://all")]
fn all(notes: &Notes) -> &'static str {
    notes.0
}

fn notes() -> Server {
    Server::empty("notes", "2.0.0")
        .with::<search>()
        .with::<delete>()
        .with::<hidden>()
        .with::<all>()
        .with_state(Notes("notes"))
}

fn constant(name: &'static str) -> ToolEntry {
    ToolEntry::new(name, json!({"type": "object"}), move |_: Map<String, Value>, _: Context| async move { name })
}

async fn names(client: &mut mcp_runtime::testing::TestClient) -> Vec<String> {
    client.tools().await.unwrap().iter().map(|tool| tool.name().to_owned()).collect()
}

/// The rules of a mounted server hold for its functions, and for no function of the outer server.
#[tokio::test]
async fn rules_of_a_mounted_server_hold_for_its_functions_only() {
    let (log, _guard) = Log::listen();
    let refuse = from_fn(async |call: Call, _: Next| Outcome::error(&call, "refused"));
    let inner = notes()
        .rename(|entry| entry.name == "delete", "remove")
        .visible_to(|_, entry| entry.name != "hidden")
        .layer(LogCalls::new())
        .layer_for(|entry| entry.name == "remove", refuse);
    let outer = Server::empty("office", "1.0.0")
        .with_entry(constant("search"))
        .with_entry(constant("remove"))
        .with_entry(constant("hidden"))
        .mount("notes", inner)
        .visible_to(|_, entry| entry.name != "notes_search" || entry.has_tag("search"))
        .rename(|entry| entry.name == "notes_search", "notes_find");
    let mut client = outer.test_client(Revision::V2026_07_28);
    assert_eq!(names(&mut client).await, ["hidden", "notes_find", "notes_remove", "remove", "search"]);
    assert_eq!(client.call("notes_find", ()).await.unwrap().text(), "notes");
    assert_eq!(client.call("search", ()).await.unwrap().text(), "search");
    assert_eq!(client.call("notes_remove", ()).await.unwrap().text(), "refused");
    assert_eq!(client.call("remove", ()).await.unwrap().text(), "remove");
    assert!(client.call("notes_hidden", ()).await.is_err());
    assert_eq!(client.read("notes://all").await.unwrap().text(), "notes");
    assert_eq!(log.take("call finished").len(), 3, "a layer of the mounted server");
}

/// Scopes of functions, of the mounted server and of its rules, beside those of the outer server.
#[tokio::test]
async fn scopes_of_a_mounted_server_are_required() {
    let inner =
        notes().require_scopes("inner").require_scopes_for(|entry| entry.name == "delete", Scopes::any(["admin"]));
    let server = Server::empty("office", "1.0.0")
        .with_entry(constant("own"))
        .mount("notes", inner)
        .authenticate(mcp_runtime::auth::IdentityFromExtensions::default());
    let server = server.build().unwrap();
    for (scopes, allowed) in [
        (vec![], ["own"].as_slice()),
        (vec!["inner"], &["own", "notes_search"]),
        (vec!["admin"], &["own"]),
        (vec!["inner", "admin"], &["own", "notes_search", "notes_delete"]),
    ] {
        let identity = Identity::new("ada").with_scopes(scopes.clone());
        let mut client = server.test_client(Revision::V2026_07_28).with_extension(identity);
        for name in ["own", "notes_search", "notes_delete"] {
            let is_allowed = client.call(name, ()).await.is_ok();
            assert_eq!(is_allowed, allowed.contains(&name), "{name} with {scopes:?}");
        }
    }
}

/// Rules of a mounted server see its own names, whatever the servers around it make of them.
#[tokio::test]
async fn names_of_outer_servers_do_not_change_what_rules_select() {
    let inner = || {
        let refuse = from_fn(async |call: Call, _: Next| Outcome::error(&call, "refused"));
        notes()
            .rename(|entry| entry.name == "search", "find")
            .visible_to(|_, entry| entry.name != "hidden")
            .layer_for(|entry| ["delete", "find"].contains(&entry.name), refuse)
            .require_scopes_for(|entry| entry.name == "delete", "admin")
    };
    let office = || Server::empty("office", "1.0.0");
    for (server, expected) in [
        (office().mount("n", inner()).rename(|entry| entry.name == "n_delete", "purge"), ["n_find", "purge"]),
        (office().mount("n", inner()).prefix(|_| true, "x_"), ["x_n_delete", "x_n_find"]),
        (
            office().mount("m", office().mount("n", inner()).rename(|entry| entry.name == "n_delete", "purge")),
            ["m_n_find", "m_purge"],
        ),
        (office().mount("", inner()).rename(|entry| entry.name == "delete", "find_all"), ["find", "find_all"]),
    ] {
        let server = server.authenticate(mcp_runtime::auth::IdentityFromExtensions::default()).build().unwrap();
        let new = |scopes: &[&str]| {
            let identity = Identity::new("ada").with_scopes(scopes.iter().copied());
            server.test_client(Revision::V2026_07_28).with_extension(identity)
        };
        assert_eq!(names(&mut new(&[])).await, expected);
        for name in expected {
            assert_eq!(new(&[]).call(name, ()).await.is_err(), !name.ends_with("find"), "{name}: scopes");
            assert_eq!(new(&["admin"]).call(name, ()).await.unwrap().text(), "refused", "{name}: layers");
        }
    }
}

/// Add a tool.
#[tool]
fn learn(handle: &Handle) -> bool {
    handle.add_entries([constant("learnt")]).is_ok()
}

#[tokio::test]
async fn functions_of_a_mounted_server_take_its_handle() {
    let refuse = || from_fn(async |call: Call, _: Next| Outcome::error(&call, "refused"));
    let inner = Server::empty("inner", "1.0.0").with::<learn>().layer_for(|entry| entry.name == "learnt", refuse());
    let middle = Server::empty("middle", "1.0.0").mount("b", inner);
    let mut client = Server::empty("outer", "1.0.0").mount("a", middle).test_client(Revision::V2025_11_25);
    assert_eq!(client.call("a_b_learn", ()).await.unwrap().text(), "true");
    assert_eq!(names(&mut client).await, ["a_b_learn", "a_b_learnt"]);
    assert_eq!(client.call("a_b_learnt", ()).await.unwrap().text(), "refused");
}

#[tokio::test]
async fn servers_can_be_nested_and_changed_by_their_handles() {
    let refuse = from_fn(async |call: Call, _: Next| Outcome::error(&call, "refused"));
    let inner = notes().layer_for(|entry| entry.name == "added", refuse);
    let handle = inner.handle();
    let middle = Server::empty("middle", "1.0.0").mount("notes", inner).layer_for(
        |entry| entry.name == "notes_search",
        from_fn(async |call: Call, _: Next| Outcome::error(&call, "seen")),
    );
    let server = Server::empty("outer", "1.0.0").mount("a", middle).build().unwrap();
    let mut client = server.test_client(Revision::V2025_11_25);
    assert_eq!(names(&mut client).await, ["a_notes_delete", "a_notes_hidden", "a_notes_search"]);
    assert_eq!(client.call("a_notes_search", ()).await.unwrap().text(), "seen");
    assert!(handle.disable::<search>());
    assert_eq!(client.call("a_notes_hidden", ()).await.unwrap().text(), "true");
    assert_eq!(names(&mut client).await, ["a_notes_hidden"]);
    for _ in 0..3 {
        handle.replace_entries(|entry| entry.name.ends_with("_added"), [constant("added")]).unwrap();
        assert_eq!(names(&mut client).await, ["a_notes_added", "a_notes_hidden"]);
        let result = client.call("a_notes_added", ()).await.unwrap();
        assert_eq!(result.text(), "refused", "layers of the mounted server hold for entries of its handle");
    }
}

#[tokio::test]
async fn hidden_functions_stay_hidden_when_a_handle_adds_others() {
    let inner = notes().visible_to(|_, entry| ["search", "added"].contains(&entry.name));
    let handle = inner.handle();
    let mut client = Server::empty("outer", "1.0.0").mount("notes", inner).test_client(Revision::V2025_11_25);
    assert_eq!(names(&mut client).await, ["notes_search"]);
    for _ in 0..2 {
        handle.replace_entries(|entry| entry.name == "notes_added", [constant("added")]).unwrap();
        assert_eq!(names(&mut client).await, ["notes_added", "notes_search"]);
    }
}

/// Layers of the mounted server are the inner ones, methods keep their names, and disabled functions are disabled.
#[tokio::test]
async fn layers_methods_and_disabled_functions_survive_a_mount() {
    let refuse = |why: &'static str| from_fn(move |call: Call, _: Next| async move { Outcome::error(&call, why) });
    let echo = MethodEntry::new("com.example/echo", json!({"type": "object"}), async |params: Value, _: Context| {
        Ok::<_, Fault>(json!({"text": params["text"]}))
    });
    let inner = Server::empty("notes", "2.0.0")
        .with::<search>()
        .with_state(Notes("notes"))
        .with_disabled::<delete>()
        .with_entry(echo)
        .layer_for(|entry| entry.name == "search", refuse("inner"));
    let server = Server::empty("office", "1.0.0").mount("notes", inner);
    let server = server.layer_for(|entry| entry.name == "notes_search", refuse("outer"));
    let mut client = server.test_client(Revision::V2026_07_28);
    assert_eq!(names(&mut client).await, ["notes_search"]);
    assert!(client.call("notes_delete", ()).await.is_err());
    assert_eq!(client.call("notes_search", ()).await.unwrap().text(), "outer");
    assert_eq!(client.request("com.example/echo", json!({"text": "a"})).await.unwrap()["text"], "a");
}

/// A model must not think that every function of the server is out of reach.
#[tokio::test]
async fn a_rate_limit_of_a_mounted_server_names_its_function() {
    let inner = notes().layer(RateLimit::new(1, Duration::from_secs(3600)));
    let mut client = Server::empty("office", "1.0.0").mount("notes", inner).test_client(Revision::V2026_07_28);
    assert_eq!(client.call("notes_search", ()).await.unwrap().text(), "notes");
    let refused = client.call("notes_search", ()).await.unwrap().text();
    assert!(refused.contains("`notes_search` and the functions that share its limit"), "{refused}");
}

/// A handle of a mounted server can change the lists of the server around it, which clients must know.
#[tokio::test]
async fn the_handle_of_a_mounted_server_lets_lists_change() {
    for has_handle in [false, true] {
        let inner = Server::empty("notes", "2.0.0").with_entry(constant("search"));
        let _handle = has_handle.then(|| inner.handle());
        let mut client = Server::empty("office", "1.0.0").mount("notes", inner).test_client(Revision::V2026_07_28);
        let discovered = client.request("server/discover", json!({})).await.unwrap();
        assert_eq!(discovered["capabilities"]["tools"]["listChanged"] == true, has_handle, "{discovered}");
    }
}

#[test]
fn mistakes_are_reported_with_the_line_of_the_mount() {
    let server = || Server::empty("office", "1.0.0");
    let authenticated = notes().authenticate(mcp_runtime::auth::IdentityFromExtensions::default());
    let cases = [
        (server().mount("a", notes()).mount("b", notes()), "both servers have state of type"),
        (
            server().mount("a", server().with::<delete>()).mount("b", server().with::<delete>()),
            "another mounted server has `delete`, too",
        ),
        (server().with_entry(constant("a_search")).mount("a", notes()), "two tools are named `a_search`"),
        (server().mount("a", authenticated), "a mounted server cannot have an authenticator"),
        (
            server().mount("a", notes().hide_unauthorized()),
            "only the mounted server omits functions from lists: call `hide_unauthorized` on the outer server",
        ),
        (
            server().mount("a", notes().scope_implies("a", ["b"])),
            "a mounted server cannot declare that scopes contain others",
        ),
        (
            server().mount("a", notes().with_skills(crate::skills::DIRECTORY).require_scopes("a")),
            "scopes and visibility of a mounted server do not apply to its skills",
        ),
        (
            server().mount("a", notes().with_skills(crate::skills::DIRECTORY).visible_to(|_, _| true)),
            "scopes and visibility of a mounted server do not apply to its skills",
        ),
        (server().mount("a b", notes()), "expected only ASCII letters"),
    ];
    for (server, expected) in cases {
        let error = server.build().unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("mount.rs"), "{error}");
    }
    // Mistakes of the mounted server itself.
    let error = server().mount("a", notes().with_state(Notes("again"))).build().unwrap_err().to_string();
    assert!(error.contains("duplicate state of type `it::mount::Notes`"), "{error}");
}

/// Servers at several paths, as a router serves them.
#[derive(Clone)]
struct Paths([(&'static str, HttpService); 2]);

impl Service<Request<HttpBody>> for Paths {
    type Response = <HttpService as Service<Request<HttpBody>>>::Response;
    type Error = <HttpService as Service<Request<HttpBody>>>::Error;
    type Future = <HttpService as Service<Request<HttpBody>>>::Future;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<HttpBody>) -> Self::Future {
        let found = self.0.iter_mut().find(|(path, _)| request.uri().path() == *path);
        *request.uri_mut() = http::Uri::from_static("/");
        found.expect("the path belongs to a server").1.call(request)
    }
}

/// Each has its functions, its state and its sessions.
#[tokio::test]
async fn servers_at_different_paths_are_independent() {
    let service = |server: Server| server.build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    let office = Server::empty("office", "1.0.0").mount("own", notes().with_entry(constant("more")));
    let private = Server::empty("private", "1.0.0").with::<search>().with_state(Notes("private"));
    let paths = Paths([("/office", service(office)), ("/private/mcp", service(private))]);
    for revision in Revision::ALL {
        let mut office = TestClient::over_http(paths.clone(), "/office", revision);
        let mut private = TestClient::over_http(paths.clone(), "/private/mcp", revision);
        assert_eq!(names(&mut office).await, ["own_delete", "own_hidden", "own_more", "own_search"], "{revision}");
        assert_eq!(names(&mut private).await, ["search"], "{revision}");
        assert_eq!(office.call("own_search", ()).await.unwrap().text(), "notes", "{revision}");
        assert_eq!(private.call("search", ()).await.unwrap().text(), "private", "{revision}");
        let session = office.last_response().unwrap().headers().get("mcp-session-id").cloned();
        if let Some(session) = session {
            let request = Request::delete("/").header("host", "localhost").header("mcp-session-id", session);
            let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
            let refused = paths.0[1].1.clone().call(request).await.unwrap();
            assert_eq!(refused.status(), 404, "a session of another server, {revision}");
        }
    }
}
