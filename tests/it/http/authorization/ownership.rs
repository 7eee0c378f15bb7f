//! Sessions, tasks and questions belong to the principal of the request that creates them, whatever its scopes.

use mcp_runtime::{
    HttpOptions,
    auth::{Identity, IdentityFromExtensions, Principal},
};
use serde_json::json;
use tower_service::Service as _;

use super::{Protected, Request, call, resource_of_example, server, soon, with_token};
use crate::http::request::initialize;

/// The principal decides, not the token: another token of the same user continues the session.
#[tokio::test]
async fn a_session_belongs_to_the_principal_of_its_token() {
    let server = Protected::new();
    let opened = server.send(with_token(initialize("2025-11-25"), "ada/notes.read")).await;
    let id = opened.header("mcp-session-id").unwrap().to_owned();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let ping = || Request::post(&ping).with("mcp-session-id", &id).with("mcp-protocol-version", "2025-11-25");
    for (token, status) in [("ada", 200), ("ada/notes.write", 200), ("eve/notes.read", 404), ("old", 401)] {
        assert_eq!(server.send(with_token(ping(), token)).await.status, status, "{token}");
    }
    assert_eq!(server.send(ping()).await.status, 401);
}

/// The principal of a token takes precedence over one that a middleware has set.
#[tokio::test]
async fn a_middleware_does_not_replace_the_principal_of_a_token() {
    let server = Protected::new();
    let send = |request: Request, token: &str| {
        let request = with_token(request, token).into_http(|extensions| {
            extensions.insert(Principal::new("gateway"));
        });
        let mut service = server.service.clone();
        async move { soon(service.call(request)).await.unwrap() }
    };
    let opened = send(initialize("2025-11-25"), "ada").await;
    let id = opened.headers()["mcp-session-id"].to_str().unwrap();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for (token, status) in [("ada", 200), ("eve", 404)] {
        let ping = Request::post(&ping).with("mcp-session-id", id).with("mcp-protocol-version", "2025-11-25");
        assert_eq!(send(ping, token).await.status(), status, "{token}");
    }
}

/// `visible_to` and layers see the identity.
#[tokio::test]
async fn rules_see_the_identity_of_the_caller() {
    let server = Protected::with(
        |server| server.visible_to(|caller, _| caller.identity().is_some_and(|identity| identity.has_scope("staff"))),
        HttpOptions::default(),
    );
    for (token, status) in [("ada/staff", 200), ("ada", 200)] {
        let reply = server.send(with_token(call("whoami"), token)).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.json().get("result").is_some(), token == "ada/staff");
    }
    // A function that the caller does not see is not named by a challenge.
    let reply = server.send(call("read_notes")).await;
    assert_eq!((reply.status, reply.challenges()[0].contains("notes.read")), (401, false));
}

/// A middleware may identify callers; requests that it does not identify are rejected.
#[tokio::test]
async fn a_middleware_identifies_callers() {
    let (server, _) = server();
    let server = server.authenticate(IdentityFromExtensions::new(resource_of_example()));
    let service = server.build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    let identity = || Identity::new("ada").with_scopes(["notes.read"]);
    let send = |tool: &'static str, identity: Option<Identity>, principal: Option<&'static str>| {
        let mut service = service.clone();
        async move {
            let request = call(tool).into_http(|extensions| {
                if let Some(identity) = identity {
                    extensions.insert(identity);
                }
                if let Some(principal) = principal {
                    extensions.insert(Principal::new(principal));
                }
            });
            soon(service.call(request)).await.unwrap().status().as_u16()
        }
    };
    for (tool, identity, principal, status) in [
        ("read_notes", Some(identity()), None, 200),
        ("read_notes", Some(identity()), Some("eve"), 200),
        ("delete_note", Some(identity()), None, 403),
        ("whoami", None, Some("ada"), 200),
        ("read_notes", None, Some("ada"), 403),
        ("whoami", None, None, 401),
    ] {
        assert_eq!(send(tool, identity.clone(), principal).await, status, "{tool} {identity:?} {principal:?}");
    }
}
