//! The metadata of the protected resource, served alone and inside another application.

use http_body_util::BodyExt as _;
use mcp_runtime::{
    HttpOptions, Server,
    auth::{Challenge, IdentityFromExtensions, ProtectedResource},
    http::AuthorizationService,
    tool,
};
use serde_json::{Value, json};
use tower_service::Service as _;

use super::{Request, Tokens, call, resource_of_example, server, soon};
use crate::{
    http::client::{Endpoint, FullResponse},
    layers::log::Log,
};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Add two numbers.
#[tool]
fn add(a: i32, b: i32) -> i32 {
    a + b
}

async fn serve(resource: ProtectedResource, options: HttpOptions) -> Endpoint {
    let (server, _) = server();
    Endpoint::start(server.authenticate(Tokens::of(resource)), options).await
}

async fn get(endpoint: &Endpoint, path: &str) -> FullResponse {
    endpoint.send(&Request::new("GET").path(path)).await
}

/// Every request needs the base scopes.
#[tokio::test]
async fn the_scopes_of_all_requests_are_described() {
    let server = server().0.authenticate(Tokens::of(resource_of_example())).require_scopes("mcp");
    let endpoint = Endpoint::start(server, HttpOptions::default()).await;
    let metadata = get(&endpoint, &format!("{WELL_KNOWN}/mcp")).await.json();
    assert_eq!(metadata["scopes_supported"], json!(["audit", "mcp", "notes.admin", "notes.read", "notes.write"]));
}

#[tokio::test]
async fn metadata_describes_the_resource() {
    let described = resource_of_example()
        .with_authorization_server("https://id.example.com")
        .with_authorization_server("https://other.example.com/tenant")
        .name("The notes")
        .documentation("https://example.com/docs")
        .policy("https://example.com/policy")
        .terms_of_service("https://example.com/terms");
    let default = json!({
        "resource": "https://mcp.example.com/mcp",
        "authorization_servers": ["https://id.example.com"],
        "scopes_supported": ["audit", "notes.admin", "notes.read", "notes.write"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Notes",
    });
    let with = |changes: &[(&str, Value)]| {
        let mut expected = default.clone();
        changes.iter().for_each(|(name, value)| expected[*name] = value.clone());
        expected
    };
    let mut without_scopes = default.clone();
    without_scopes.as_object_mut().unwrap().remove("scopes_supported");
    for (resource, expected) in [
        (resource_of_example(), default.clone()),
        (
            described,
            with(&[
                ("authorization_servers", json!(["https://id.example.com", "https://other.example.com/tenant"])),
                ("resource_name", json!("The notes")),
                ("resource_documentation", json!("https://example.com/docs")),
                ("resource_policy_uri", json!("https://example.com/policy")),
                ("resource_tos_uri", json!("https://example.com/terms")),
            ]),
        ),
        (
            resource_of_example().name("The notes").or(ProtectedResource::new()
                .resource("https://other.example.com/mcp")
                .with_authorization_server("https://other.example.com")
                .scopes_supported(["notes.read"])
                .name("Other notes")
                .policy("https://example.com/policy")),
            with(&[
                ("authorization_servers", json!(["https://id.example.com", "https://other.example.com"])),
                ("scopes_supported", json!(["notes.read"])),
                ("resource_name", json!("The notes")),
                ("resource_policy_uri", json!("https://example.com/policy")),
            ]),
        ),
        (
            resource_of_example().scopes_supported(["notes.read", "offline_access"]),
            with(&[("scopes_supported", json!(["notes.read"]))]),
        ),
        (
            resource_of_example().scopes_supported([""; 0]).with_member("scopes_supported", json!(["offline_access"])),
            without_scopes,
        ),
        (
            resource_of_example().bearer_methods(["header", "body"]),
            with(&[("bearer_methods_supported", json!(["header", "body"]))]),
        ),
        (
            resource_of_example()
                .with_challenge(Challenge::new("DPoP").with_parameter("algs", "ES256"))
                .dpop_signing_algorithms(["ES256"])
                .dpop_required(true),
            with(&[
                ("bearer_methods_supported", json!([])),
                ("dpop_signing_alg_values_supported", json!(["ES256"])),
                ("dpop_bound_access_tokens_required", json!(true)),
            ]),
        ),
    ] {
        let endpoint = serve(resource, HttpOptions::default()).await;
        let reply = get(&endpoint, &format!("{WELL_KNOWN}/mcp")).await;
        assert_eq!((reply.status, reply.json()), (200, expected));
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("cache-control"), Some("public, max-age=300"));
        endpoint.stopped().await;
    }
}

/// The server accepts tokens that any of its authenticators accepts.
#[tokio::test]
async fn joined_descriptions_restrict_tokens_as_all_of_them_do() {
    let any = || resource_of_example();
    let bound = || any().with_challenge(Challenge::new("DPoP")).bearer_methods([""; 0]).dpop_required(true);
    for (resource, schemes, methods, is_bound) in [
        (any().or(bound()), ["DPoP", "Bearer"].as_slice(), json!(["header"]), json!(null)),
        (bound().or(any()), &["DPoP", "Bearer"], json!(["header"]), json!(null)),
        (bound().or(bound()), &["DPoP"], json!([]), json!(true)),
    ] {
        let endpoint = serve(resource, HttpOptions::default()).await;
        let refused = endpoint.send(&call("whoami")).await;
        let challenges = refused.headers.iter().filter(|(name, _)| name == "www-authenticate");
        let named: Vec<_> = challenges.map(|(_, value)| value.split(' ').next().unwrap()).collect();
        assert_eq!(named, schemes);
        let metadata = get(&endpoint, &format!("{WELL_KNOWN}/mcp")).await.json();
        let stated =
            ["bearer_methods_supported", "dpop_bound_access_tokens_required"].map(|name| metadata[name].clone());
        assert_eq!(stated, [methods, is_bound], "{schemes:?}");
        endpoint.stopped().await;
    }
}

/// Clients try the path of the endpoint first, then the root. Behind a proxy that changes the path, the path that
/// clients know differs from that of the endpoint.
#[tokio::test]
async fn metadata_is_found_at_well_known_paths() {
    let behind_proxy = ProtectedResource::new()
        .resource("https://mcp.example.com/public/notes")
        .with_authorization_server("https://id.example.com");
    let endpoint = serve(behind_proxy, HttpOptions::default().path("/internal").allow_host("notes.internal")).await;
    for (path, status) in [
        ("", 200),
        ("/", 200),
        ("/public/notes", 200),
        ("/public/notes/", 200),
        ("/internal", 200),
        ("/other", 404),
        ("/public", 404),
        ("-more", 404),
    ] {
        // The host does not matter: the identifier is configured.
        for host in ["notes.internal", "localhost", "evil.example"] {
            let request = Request::new("GET").path(&format!("{WELL_KNOWN}{path}")).with("host", host);
            let reply = endpoint.send(&request).await;
            assert_eq!(reply.status, status, "{path} {host}");
            if status == 200 {
                assert_eq!(reply.json()["resource"], "https://mcp.example.com/public/notes");
            }
        }
    }
    let reply = endpoint.send(&call("whoami").path("/internal").with("host", "notes.internal")).await;
    let metadata = "https://mcp.example.com/.well-known/oauth-protected-resource/public/notes";
    assert_eq!(reply.header("www-authenticate"), Some(&*format!("Bearer resource_metadata=\"{metadata}\"")));
    endpoint.stopped().await;
}

/// Without an identifier, only clients on the same machine learn about the authorization server.
#[tokio::test]
async fn the_host_of_a_request_is_trusted_on_loopback_addresses_only() {
    let resource = ProtectedResource::new().with_authorization_server("https://id.example.com");
    let endpoint = serve(resource, HttpOptions::default().allow_host("mcp.example.com").allow_host("localhost")).await;
    for (host, resource) in [("localhost:8080", Some("http://localhost:8080/mcp")), ("mcp.example.com", None)] {
        let reply = endpoint.send(&Request::new("GET").path(WELL_KNOWN).with("host", host)).await;
        assert_eq!(reply.status, if resource.is_some() { 200 } else { 404 }, "{host}");
        assert_eq!(reply.json()["resource"].as_str(), resource, "{host}");
        let reply = endpoint.send(&call("whoami").with("host", host)).await;
        let url = format!("Bearer resource_metadata=\"http://{host}{WELL_KNOWN}/mcp\"");
        let expected = if resource.is_some() { &*url } else { "Bearer" };
        assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some(expected)), "{host}");
    }
    endpoint.stopped().await;
}

#[tokio::test]
async fn every_web_page_may_read_metadata() {
    let endpoint = serve(resource_of_example(), HttpOptions::default()).await;
    let from_page = |method: &str| {
        let request = Request::new(method).path(&format!("{WELL_KNOWN}/mcp")).with("origin", "https://app.example");
        request.with("access-control-request-headers", "mcp-protocol-version")
    };
    for (method, status) in [("GET", 200), ("OPTIONS", 204), ("POST", 405), ("DELETE", 405)] {
        let reply = endpoint.send(&from_page(method)).await;
        assert_eq!(reply.status, status, "{method}");
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"), "{method}");
    }
    let headers = endpoint.send(&from_page("OPTIONS")).await;
    assert!(headers.header("access-control-allow-headers").unwrap().contains("mcp-protocol-version"));
    assert_eq!(headers.header("access-control-allow-methods"), Some("GET, HEAD"));
    assert_eq!(headers.header("access-control-max-age"), Some("3600"));
    endpoint.stopped().await;
}

/// A mounted service sees only its own path, so the application serves the metadata at the root.
#[tokio::test]
async fn metadata_is_served_by_the_application_around_a_mounted_service() {
    let (server, _) = server();
    let server = server.authenticate(Tokens::of(resource_of_example()));
    let mcp = server.build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    let ask = |service: AuthorizationService, path: &'static str| async move {
        let request = Request::new("GET").path(path).with("host", "evil.example").into_http(|_| {});
        let (head, body) = soon(service.clone().call(request)).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), serde_json::from_slice::<Value>(&body).unwrap())
    };
    for (path, status) in [
        ("/", 404),
        ("/mcp", 404),
        ("/.well-known/oauth-protected-resource", 200),
        ("/.well-known/oauth-protected-resource/mcp", 200),
        ("/.well-known/oauth-protected-resource/other", 404),
        ("/.well-known/oauth-protected-resources", 404),
    ] {
        let (found, metadata) = ask(mcp.authorization_service(), path).await;
        assert_eq!(found, status, "{path}");
        let resource = (status == 200).then_some("https://mcp.example.com/mcp");
        assert_eq!(metadata["resource"].as_str(), resource, "{path}");
    }
}

/// A server without an authenticator, or without an authorization server, has no metadata.
#[tokio::test]
async fn servers_without_authorization_have_no_metadata() {
    let open = Server::empty("adder", "1.0.0").with::<add>();
    let keys = Server::empty("adder", "1.0.0").with::<add>().authenticate(Tokens::default());
    for (server, challenge) in [(open, None), (keys, Some("Bearer"))] {
        let endpoint = Endpoint::start(server, HttpOptions::default()).await;
        assert_eq!(get(&endpoint, &format!("{WELL_KNOWN}/mcp")).await.status, 404);
        assert_eq!(endpoint.send(&call("add")).await.header("www-authenticate"), challenge);
        endpoint.stopped().await;
    }
}

#[test]
fn descriptions_are_checked_when_the_server_is_built() {
    let resource = ProtectedResource::new;
    for (resource, expected) in [
        (resource_of_example(), None),
        (resource(), None),
        (
            resource()
                .resource("https://mcp.example.com/@team/mcp")
                .with_authorization_server("https://id.example.com/@team"),
            None,
        ),
        (
            resource().resource("http://mcp.example.com/mcp"),
            Some(
                "the resource identifier `http://mcp.example.com/mcp` is invalid: expected `https`; `http` is only \
                 allowed on loopback addresses",
            ),
        ),
        (
            resource().resource("https://mcp.example.com/mcp#top"),
            Some(
                "the resource identifier `https://mcp.example.com/mcp#top` is invalid: expected a URL without a fragment",
            ),
        ),
        (
            resource().with_authorization_server("id.example.com"),
            Some(
                "the authorization server `id.example.com` is invalid: expected an absolute URL, such as \
                 `https://mcp.example.com/mcp`",
            ),
        ),
        (
            resource().with_authorization_server("http://id.example.com"),
            Some(
                "the authorization server `http://id.example.com` is invalid: expected `https`; `http` is only allowed on \
                 loopback addresses",
            ),
        ),
    ] {
        let server = Server::empty("adder", "1.0.0").with::<add>();
        let result = server.authenticate(IdentityFromExtensions::new(resource)).check();
        let problems = result.err().map(|error| error.problems().to_vec()).unwrap_or_default();
        assert_eq!(problems, expected.map(str::to_owned).into_iter().collect::<Vec<_>>());
    }
    let server = Server::empty("adder", "1.0.0").authenticate(Tokens::default()).authenticate(Tokens::default());
    let error = server.check().unwrap_err().to_string();
    assert!(error.contains("the server has two authenticators\nhelp: "), "{error}");
}

/// A service that is mounted at the root sees the requests for metadata itself.
#[tokio::test]
async fn metadata_is_served_by_a_service_at_the_root() {
    let server = super::Protected::new();
    for path in [WELL_KNOWN.to_owned(), format!("{WELL_KNOWN}/mcp")] {
        let reply = server.send(Request::new("GET").path(&path).with("origin", "https://app.example")).await;
        assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some("*")), "{path}");
        assert_eq!(reply.json()["resource"], "https://mcp.example.com/mcp", "{path}");
        assert_eq!(server.send(Request::new("HEAD").path(&path)).await.status, 200, "{path}");
    }
}

/// Such clients share the limits for requests without a principal.
#[tokio::test]
async fn operators_are_warned_if_the_clients_behind_a_proxy_are_unknown() {
    let local = || ProtectedResource::new().resource("http://localhost:8080/mcp");
    let options = HttpOptions::default;
    for (resource, options, is_warned) in [
        (resource_of_example(), options(), true),
        (resource_of_example(), options().trusted_proxies("10.0.0.0/8"), false),
        (resource_of_example(), options().peer_addr(|_| None), false),
        (local(), options(), false),
    ] {
        let shown = format!("{resource:?} {options:?}");
        let (log, _guard) = Log::listen();
        let (server, _) = server();
        server.authenticate(Tokens::of(resource)).build().unwrap().into_http_service(options).unwrap();
        let warnings = log.take("the resource has an `https` URL, so a proxy forwards all requests");
        assert_eq!(warnings.len(), usize::from(is_warned), "{shown}");
    }
}
