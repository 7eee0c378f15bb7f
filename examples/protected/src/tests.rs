//! Tests without an authorization server.

use http_body_util::BodyExt;
use mcp_runtime::{
    HttpOptions, Server,
    auth::{AuthenticateFuture, AuthenticationError, Authenticator, Identity, Principal, credentials},
    http::HttpService,
};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::protected;

/// Accepts tokens that consist of a name and scopes, such as `ada+read+write`.
struct NamedTokens;

impl Authenticator for NamedTokens {
    fn authenticate<'a>(&'a self, request: &'a http::request::Parts) -> AuthenticateFuture<'a> {
        Box::pin(async move {
            let mut parts = credentials(request, "Bearer")?.split('+');
            let name = parts.next().ok_or_else(|| AuthenticationError::invalid("the token is empty"))?;
            Ok(Identity::new(Principal::new(name)).with_scopes(parts.map(|scope| format!("notes:{scope}"))))
        })
    }
}

fn service() -> HttpService {
    let server = protected(Server::new("protected", "1.0.0")).authenticate(NamedTokens);
    server.build().unwrap().into_http_service(HttpOptions::default()).unwrap()
}

/// Calls a tool as a client of 2026-07-28. Returns the status, the challenge and the body.
async fn call(service: &HttpService, token: &str, name: &str, arguments: Value) -> (u16, String, String) {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": name,
        "arguments": arguments,
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let mut request = http::Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", name);
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = service.clone().oneshot(request.body(message.to_string()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let challenge = response.headers().get("www-authenticate").map_or("", |value| value.to_str().unwrap()).to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, challenge, String::from_utf8(body.into()).unwrap())
}

#[tokio::test]
async fn calls_require_their_scopes() {
    let service = service();
    for (token, tool, status, scope) in [
        ("", "list_notes", 401, "notes:read"),
        ("ada", "list_notes", 403, "notes:read"),
        ("ada+read", "list_notes", 200, ""),
        ("ada+read", "delete_notes", 403, "notes:write"),
        ("ada+write", "delete_notes", 200, ""),
        ("ada+write", "count_notes", 403, "notes:admin"),
        ("ada+admin", "count_notes", 200, ""),
    ] {
        let (found, challenge, body) = call(&service, token, tool, json!({})).await;
        assert_eq!(found, status, "{token} {tool}: {body}");
        let has_scope = challenge.split('"').any(|part| part.split(' ').any(|name| name == scope));
        assert!(scope.is_empty() || has_scope, "{token} {tool}: {challenge}");
    }
}

#[tokio::test]
async fn users_see_their_own_notes() {
    let service = service();
    let added = call(&service, "ada+write", "add_note", json!({"text": "Buy milk"})).await;
    assert_eq!(added.0, 200, "{}", added.2);
    for (token, sees_note) in [("ada+read", true), ("bob+read", false), ("bob+admin", false)] {
        let (_, _, body) = call(&service, token, "list_notes", json!({})).await;
        assert_eq!(body.contains("Buy milk"), sees_note, "{token}: {body}");
    }
    let (_, _, body) = call(&service, "eve+admin", "count_notes", json!({})).await;
    assert!(body.contains(r#""ada":1"#), "{body}");
}
