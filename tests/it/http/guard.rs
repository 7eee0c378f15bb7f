//! Checks of `Host` and `Origin`, CORS, and the health checks.

use std::net::SocketAddr;

use mcp_runtime::{
    HttpOptions,
    http::{self, Listener, ListenerOptions},
};
use tokio::net::TcpListener;

use super::{
    client::{Endpoint, soon},
    request::{Request, call, initialize},
    serve, serve_with, server,
};

/// All methods are checked.
#[tokio::test]
async fn hosts_and_origins_are_checked() {
    let (_, endpoint) = serve().await;
    let port = endpoint.address.port();
    for (host, origin, status) in [
        (format!("127.0.0.1:{port}"), None, 200),
        ("localhost".to_owned(), None, 200),
        ("127.8.9.10".to_owned(), Some("http://127.0.0.2:3000"), 200),
        ("128.0.0.1".to_owned(), None, 403),
        (format!("[::1]:{port}"), Some("http://[::1]:3000"), 200),
        ("localhost".to_owned(), Some("http://localhost:5173"), 200),
        ("evil.example".to_owned(), None, 403),
        (format!("evil.example:{port}"), Some("http://evil.example"), 403),
        ("localhost.evil.example".to_owned(), None, 403),
        ("localhost".to_owned(), Some("https://evil.example"), 403),
        ("localhost".to_owned(), Some("null"), 403),
        ("localhost".to_owned(), Some(""), 403),
        (String::new(), None, 403),
    ] {
        let with = |request: Request| {
            let request = request.with("host", &host);
            origin.iter().fold(request, |request, origin| request.with("origin", origin))
        };
        let response = endpoint.send(&with(call("quick"))).await;
        assert_eq!(response.status, status, "{host} {origin:?}");
        if status == 403 {
            assert_eq!(response.outcome(), (403, -32600));
            assert_eq!(response.header("access-control-allow-origin"), None);
            for request in
                [initialize("2025-11-25"), Request::new("GET"), Request::new("DELETE"), Request::new("OPTIONS")]
            {
                assert_eq!(endpoint.send(&with(request)).await.status, 403, "{host} {origin:?}");
            }
        }
    }
    let good = call("quick");
    for (request, status) in [
        (good.clone().without("host"), 400),
        (good.clone().and("host", "localhost"), 400),
        (good.clone().with("host", "evil.example").path("http://localhost/mcp"), 200),
        (good.clone().without("host").path("http://localhost/mcp"), 200),
        (good.clone().and("host", "localhost").path("http://localhost/mcp"), 400),
        (good.clone().path("http://evil.example/mcp"), 403),
        (good.and("origin", "http://localhost").and("origin", "https://evil.example"), 403),
    ] {
        assert_eq!(endpoint.send(&request).await.status, status, "{request:?}");
    }
}

#[tokio::test]
async fn allowed_hosts_and_origins_are_accepted() {
    let options = HttpOptions::default().allow_host("mcp.example.com").allow_origin("https://app.example.com");
    let (_, endpoint) = serve_with(options).await;
    for (host, origin, status) in [
        ("mcp.example.com", "https://app.example.com", 200),
        ("MCP.example.com:8443", "https://mcp.example.com", 200),
        ("mcp.example.com", "https://other.example.com", 403),
        ("localhost", "https://app.example.com", 403),
    ] {
        let response = endpoint.send(&call("quick").with("host", host).with("origin", origin)).await;
        assert_eq!(response.status, status, "{host} {origin}");
    }
}

#[tokio::test]
async fn pages_of_allowed_origins_may_read_responses() {
    let origin = "https://app.example.com";
    let (_, endpoint) = serve_with(HttpOptions::default().allow_origin(origin)).await;
    let preflight = |origin| {
        Request::new("OPTIONS")
            .with("origin", origin)
            .with("access-control-request-method", "POST")
            .with("access-control-request-headers", "content-type,mcp-session-id,mcp-param-region")
    };
    let allowed = endpoint.send(&preflight(origin)).await;
    assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (200, Some(origin)));
    assert_eq!(allowed.header("access-control-allow-methods"), Some("GET,POST,DELETE"));
    let headers = allowed.header("access-control-allow-headers").unwrap();
    assert!(headers.contains("mcp-session-id") && headers.contains("mcp-param-region"), "{headers}");
    assert_eq!(allowed.header("access-control-allow-credentials"), None);

    let refused = endpoint.send(&preflight("https://evil.example")).await;
    assert_eq!(refused.header("access-control-allow-origin"), None);

    // Browsers request permission if the server is in a more private network than the page.
    for (origin, asks, expected) in
        [(origin, Some("true"), Some("true")), (origin, None, None), ("https://evil.example", Some("true"), None)]
    {
        let request = preflight(origin);
        let name = "access-control-request-private-network";
        let request = asks.into_iter().fold(request, |request, asks| request.with(name, asks));
        let response = endpoint.send(&request).await;
        assert_eq!(response.header("access-control-allow-private-network"), expected, "{origin} {asks:?}");
    }

    let opened = endpoint.send(&initialize("2025-11-25").with("origin", origin)).await;
    assert_eq!(opened.header("access-control-allow-origin"), Some(origin));
    assert!(opened.header("vary").unwrap().contains("origin"));
    let exposed = opened.header("access-control-expose-headers").unwrap();
    for name in ["mcp-session-id", "mcp-protocol-version", "retry-after", "www-authenticate", "dpop-nonce"] {
        assert!(exposed.contains(name), "{exposed}");
    }
}

/// Responses that a cache may store have `Vary`, even without `Origin`. Others do not need it.
#[tokio::test]
async fn cacheable_responses_have_a_vary_header() {
    let (_, endpoint) = serve().await;
    for (request, varies) in [
        (Request::new("GET"), true),
        (Request::new("PUT"), true),
        (call("quick").with("origin", "http://localhost"), true),
        (call("quick"), false),
    ] {
        let response = endpoint.send(&request).await;
        let vary = response.header("vary");
        assert_eq!(vary.is_some_and(|vary| vary.contains("origin")), varies, "{vary:?} {varies}");
    }
}

/// The same rules apply to all paths.
#[tokio::test]
async fn pages_of_allowed_origins_may_use_the_legacy_transport() {
    let origin = "https://app.example.com";
    let (_, endpoint) =
        serve_with((HttpOptions::default().allow_origin(origin), ListenerOptions::default().legacy_sse(true))).await;
    for (path, method) in [("/mcp", "POST"), ("/sse", "GET"), ("/message", "POST")] {
        let request = |method: &str, origin| Request::new(method).path(path).with("origin", origin);
        let preflight = |origin| request("OPTIONS", origin).with("access-control-request-method", method);
        let allowed = endpoint.send(&preflight(origin)).await;
        assert_eq!((allowed.status, allowed.header("access-control-allow-origin")), (200, Some(origin)), "{path}");
        assert_eq!(allowed.header("access-control-allow-methods"), Some("GET,POST,DELETE"), "{path}");
        let refused = endpoint.send(&preflight("https://evil.example")).await;
        assert_eq!(refused.header("access-control-allow-origin"), None, "{path}");

        let response = endpoint.open(&request(method, origin)).await;
        assert_eq!(response.header("access-control-allow-origin"), Some(origin), "{path}");
        let refused = endpoint.open(&request(method, "https://evil.example")).await;
        assert_eq!((refused.status, refused.header("access-control-allow-origin")), (403, None), "{path}");
    }
}

#[tokio::test]
async fn a_public_address_needs_an_allowed_host() {
    for address in [SocketAddr::from(([0, 0, 0, 0], 0)), SocketAddr::from(([0; 8], 0))] {
        let service = server().1.build().unwrap().into_http_service(HttpOptions::default()).unwrap();
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let why = soon(http::serve(listener, service).into_future()).await.unwrap_err().to_string();
        for hint in [address.as_str(), "--allow-host", "HttpOptions::allow_host"] {
            assert!(why.contains(hint), "{why}");
        }
    }
    let options = HttpOptions::default().allow_host("mcp.example.com");
    let service = server().1.build().unwrap().into_http_service(options).unwrap();
    let listener = Listener::bind(([0, 0, 0, 0], 0)).await.unwrap();
    assert_ne!(listener.address().unwrap().socket_addr().unwrap().port(), 0);
    soon(http::serve(listener, service).with_graceful_shutdown(async {}).into_future()).await.unwrap();
}

#[tokio::test]
async fn an_address_in_use_is_an_error() {
    let (_, endpoint) = serve().await;
    let error = Listener::bind(endpoint.address).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&endpoint.address.to_string()), "{error}");
}

async fn statuses(endpoint: &Endpoint, paths: &[&str]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for path in paths {
        statuses.push(endpoint.send(&Request::new("GET").path(path)).await.status);
    }
    statuses
}

#[tokio::test]
async fn health_checks_are_served_next_to_the_endpoint() {
    let paths = ["/healthz", "/readyz?verbose", "/alive", "/", "/mcp/", "/sse", "/message"];
    let (_, endpoint) = serve().await;
    assert_eq!(statuses(&endpoint, &paths).await, [200, 200, 404, 404, 405, 404, 404]);
    // Health checks use arbitrary host names.
    let probe = Request::new("GET").path("/healthz").with("host", "10.0.0.1:8080");
    assert_eq!(endpoint.send(&probe).await.status, 200);

    let options = ListenerOptions::default().liveness_path("/alive").readiness_path("/ready");
    let (_, endpoint) = serve_with((HttpOptions::default().path("/"), options)).await;
    assert_eq!(statuses(&endpoint, &paths).await, [404, 404, 200, 405, 404, 404, 404]);
    assert_eq!(endpoint.send(&call("quick").path("/")).await.text(), "quick");

    let (_, endpoint) = serve_with(ListenerOptions::default().liveness_path(None).readiness_path(None)).await;
    assert_eq!(statuses(&endpoint, &paths).await, [404, 404, 404, 404, 405, 404, 404]);
}
