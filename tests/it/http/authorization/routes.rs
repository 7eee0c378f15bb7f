//! The routes of an authenticator, which are served next to the endpoint.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use mcp_runtime::{
    HttpOptions,
    auth::{AuthenticateFuture, Authenticator, AuthorizationRoutes, PeerAddr, ProtectedResource, RouteFuture},
};
use tokio::sync::Semaphore;
use tower_service::Service as _;

use super::{Request, Tokens, call, resource_of_example, server, soon, with_token};
use crate::http::client::{Endpoint, until};

/// An authenticator that also serves pages.
#[derive(Debug, Clone, Default)]
struct Pages {
    tokens: Tokens,
    /// The events at `/waits`.
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Gate {
    open: Semaphore,
    started: AtomicUsize,
    finished: AtomicUsize,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: Semaphore::new(0), started: AtomicUsize::new(0), finished: AtomicUsize::new(0) }
    }
}

impl Authenticator for Pages {
    fn authenticate<'a>(&'a self, request: &'a http::request::Parts) -> AuthenticateFuture<'a> {
        self.tokens.authenticate(request)
    }

    fn protected_resource(&self) -> ProtectedResource {
        resource_of_example()
    }

    fn routes(&self) -> Vec<Arc<dyn AuthorizationRoutes>> {
        vec![Arc::new(self.clone())]
    }
}

impl AuthorizationRoutes for Pages {
    fn serves(&self, path: &str) -> bool {
        ["/page", "/panics", "/panics-later", "/waits"].contains(&path)
    }

    fn respond(&self, request: http::Request<Bytes>) -> RouteFuture<'_> {
        let peer = request.extensions().get::<PeerAddr>().map_or_else(String::new, |peer| peer.0.ip().to_string());
        let (method, path, length) = (request.method().clone(), request.uri().path().to_owned(), request.body().len());
        assert_ne!(path, "/panics", "an author's mistake");
        Box::pin(async move {
            assert_ne!(path, "/panics-later", "an author's mistake");
            if path == "/waits" {
                self.gate.started.fetch_add(1, SeqCst);
                self.gate.open.acquire().await.unwrap().forget();
                self.gate.finished.fetch_add(1, SeqCst);
            }
            http::Response::new(format!("{method} {length} {peer}").into())
        })
    }
}

#[tokio::test]
async fn routes_are_served_next_to_the_endpoint_without_credentials() {
    let (server, _) = server();
    let endpoint = Endpoint::start(server.authenticate(Pages::default()), HttpOptions::default()).await;
    let page = |method: &'static str| Request::new(method).path("/page");
    for (request, status, body) in [
        (page("GET"), 200, Some("GET 0 127.0.0.1")),
        (page("POST").body("12345"), 200, Some("POST 5 127.0.0.1")),
        (page("OPTIONS").with("origin", "https://elsewhere.example"), 200, Some("OPTIONS 0 127.0.0.1")),
        (page("POST").body("x".repeat(64 << 10)), 200, Some("POST 65536 127.0.0.1")),
        (page("POST").body("x".repeat((64 << 10) + 1)), 413, None),
        (page("GET").with("host", "elsewhere.example"), 403, None),
        (Request::new("GET").path("/panics"), 503, None),
        (Request::new("GET").path("/panics-later"), 503, None),
        (Request::new("GET").path("/other"), 404, None),
    ] {
        let reply = endpoint.send(&request).await;
        assert_eq!(reply.status, status, "{reply:?}");
        if let Some(expected) = body {
            assert_eq!(reply.body, expected.as_bytes());
        }
    }
    endpoint.stopped().await;
}

#[tokio::test]
async fn the_sender_is_the_client_that_a_trusted_proxy_states() {
    for (trusted, header, peer) in [
        ("127.0.0.0/8", ("x-forwarded-for", "6.6.6.6, 198.51.100.1"), "198.51.100.1"),
        ("127.0.0.0/8", ("forwarded", "for=\"[2001:db8::1]:80\""), "2001:db8::1"),
        ("127.0.0.0/8", ("x-forwarded-for", "unknown"), "127.0.0.1"),
        ("10.0.0.0/8", ("x-forwarded-for", "198.51.100.1"), "127.0.0.1"),
        ("", ("x-forwarded-for", "198.51.100.1"), "127.0.0.1"),
    ] {
        let options = HttpOptions::default().trusted_proxies(trusted);
        let endpoint = Endpoint::start(server().0.authenticate(Pages::default()), options).await;
        let reply = endpoint.send(&Request::new("GET").path("/page").with(header.0, header.1)).await;
        assert_eq!(reply.body, format!("GET 0 {peer}").as_bytes(), "{trusted} {header:?}");
        // The authenticator learns the same.
        let reply = endpoint.send(&with_token(call("whoami"), "distant").with(header.0, header.1)).await;
        let message = reply.json()["error"]["message"].take();
        assert!(message.as_str().unwrap().ends_with(&format!("not valid at Some({peer})")), "{trusted} {message}");
        endpoint.stopped().await;
    }
    let built = server().0.authenticate(Tokens::default()).build().unwrap();
    let error = built.into_http_service(HttpOptions::default().trusted_proxies("proxy")).unwrap_err().to_string();
    assert!(error.contains("the trusted proxy `proxy` is invalid"), "{error}");
}

/// TLS ends at a proxy, which hides the addresses of clients unless the server is told how to find them.
#[tokio::test]
async fn a_proxy_that_hides_its_clients_is_warned_about() {
    let start =
        |options| server().0.authenticate(Pages::default()).build().unwrap().into_http_service(options).unwrap();
    for (options, is_warned) in [
        (HttpOptions::default(), true),
        (HttpOptions::default().trusted_proxies("10.0.0.0/8"), false),
        (HttpOptions::default().peer_addr(|_| None), false),
    ] {
        let (log, _guard) = crate::layers::log::Log::listen();
        start(options);
        let warnings = log.take("the resource has an `https` URL");
        assert_eq!(!warnings.is_empty(), is_warned, "{warnings:?}");
    }
}

/// A mounted service sees only its own path, so the application passes the routes to it.
#[tokio::test]
async fn routes_are_served_by_the_application_around_a_mounted_service() {
    let (server, _) = server();
    let mcp = server.authenticate(Pages::default()).build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    for (path, status) in [("/page", 200), ("/.well-known/oauth-protected-resource/mcp", 200), ("/other", 404)] {
        let request = Request::new("GET").path(path).with("host", "localhost").into_http(|_| {});
        let response = soon(mcp.authorization_service().call(request)).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        assert!(!response.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
}

/// A route that hangs does not count towards the limit forever.
#[tokio::test(start_paused = true)]
async fn routes_are_bounded_in_time() {
    let server = server().0.authenticate(Pages::default());
    let mcp = server.build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    let request = Request::new("GET").path("/waits").into_http(|_| {});
    let response = tokio::time::timeout(Duration::from_secs(600), mcp.authorization_service().call(request)).await;
    assert_eq!(response.expect("the request is still handled").unwrap().status(), 503);
}

/// A client that disconnects does not interrupt a request, which could lose a token that was replaced. So abandoned
/// requests count towards the limit.
#[tokio::test]
async fn requests_are_handled_to_their_end_and_limited_for_each_peer() {
    let (server, _) = server();
    let pages = Pages::default();
    let gate = Arc::clone(&pages.gate);
    let endpoint = Endpoint::start(server.authenticate(pages), HttpOptions::default()).await;
    let share = 128 * 3 / 4;
    let mut connections = Vec::new();
    for number in 1..=share {
        let mut connection = endpoint.connect().await;
        connection.write(&Request::new("POST").path("/waits").bytes()).await;
        until(|| gate.started.load(SeqCst) == number).await;
        connections.push(connection);
    }
    let page = Request::new("GET").path("/page");
    let rejected = endpoint.send(&page).await;
    assert_eq!((rejected.status, rejected.header("retry-after")), (503, Some("1")), "{rejected:?}");
    drop(connections);
    assert_eq!(endpoint.send(&page).await.status, 503);
    gate.open.add_permits(share);
    until(|| gate.finished.load(SeqCst) == share).await;
    soon(async { while endpoint.send(&page).await.status != 200 {} }).await;
    endpoint.stopped().await;
}
