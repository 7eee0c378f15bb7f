//! Requests without valid credentials.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use http_body_util::BodyExt as _;
use mcp_runtime::{HttpOptions, Server, auth::Challenge, http::ListenerOptions, layers::LogCalls, tool};
use serde_json::json;
use tower_service::Service as _;
use tracing::field::{Field, Visit};
use tracing_subscriber::{Layer, layer::SubscriberExt as _};

use super::{METADATA, Protected, Request, Tokens, call, resource_of_example, server, soon, with_token};
use crate::{
    http::{
        client::{Endpoint, until},
        counted,
        request::initialize,
    },
    layers::log::set_default,
};

/// Records the level and the fields of every event and every span of the current thread.
#[derive(Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl<S: tracing::Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn on_new_span(
        &self,
        span: &tracing::span::Attributes<'_>,
        _: &tracing::span::Id,
        _: tracing_subscriber::layer::Context<'_, S>,
    ) {
        let mut line = Line(span.metadata().level().to_string());
        span.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }
}

/// The response to a request: status, challenges, and the line of the log.
struct Expected {
    status: u16,
    challenges: Vec<String>,
    log: &'static str,
}

fn bearer(parameters: &str) -> Vec<String> {
    vec![format!(r#"Bearer {parameters}resource_metadata="{METADATA}""#)]
}

fn bad_credentials() -> Vec<(&'static str, Request, Expected)> {
    let with = |value: &str| call("whoami").with("authorization", value);
    let malformed = |message: &str| bearer(&format!(r#"error="invalid_request", error_description="{message}", "#));
    let long = format!("Bearer {}", "a".repeat(1 << 20));
    let in_query = "access tokens are not accepted in the query: send them in the `Authorization` header";
    let unreadable = "the credentials of the `Authorization` header are malformed";
    let missing =
        || Expected { status: 401, challenges: bearer(""), log: "DEBUG message=request without credentials rejected" };
    let rejected =
        |challenges| Expected { status: 400, challenges, log: "INFO message=malformed credentials rejected" };
    vec![
        ("no credentials", call("whoami"), missing()),
        ("another scheme", with("Basic YWRhOnNlY3JldA=="), missing()),
        ("no token", with("Bearer"), rejected(malformed(unreadable))),
        ("two tokens in a header", with("Bearer ada, Bearer eve"), rejected(malformed(unreadable))),
        (
            "two headers",
            with("Bearer ada").and("authorization", "Bearer ada"),
            rejected(malformed("expected only one `Authorization` header")),
        ),
        ("a token of 1 MiB", with(&long), rejected(malformed("the credentials are longer than 16384 bytes"))),
        ("a token in the query", call("whoami").path("/mcp?access_token=ada"), rejected(malformed(in_query))),
        (
            "a token in the query as well",
            with("Bearer ada").path("/mcp?a=1&access%5Ftoken=ada"),
            rejected(malformed(in_query)),
        ),
        (
            "an expired token",
            with("Bearer old"),
            Expected {
                status: 401,
                challenges: bearer(r#"error="invalid_token", error_description="the token has 'expired'", "#),
                log: "INFO message=invalid credentials rejected reason=the token has \"expired\" detail=\"exp is 17\"",
            },
        ),
        (
            "a token without proof",
            with("Bearer unbound"),
            Expected {
                status: 401,
                challenges: vec![
                    format!(r#"Bearer resource_metadata="{METADATA}""#),
                    format!(r#"DPoP error="use_dpop_nonce", resource_metadata="{METADATA}""#),
                ],
                log: "INFO message=invalid credentials rejected",
            },
        ),
        (
            "an issuer that is down",
            with("Bearer down"),
            Expected { status: 503, challenges: Vec::new(), log: "WARN message=authentication is unavailable" },
        ),
        (
            "an issuer that is busy",
            with("Bearer busy"),
            Expected { status: 503, challenges: Vec::new(), log: "WARN message=authentication is unavailable" },
        ),
        (
            "an authenticator that panics",
            with("Bearer panics"),
            Expected { status: 503, challenges: Vec::new(), log: "ERROR message=the authenticator panicked" },
        ),
        (
            "an authenticator that panics at once",
            with("Bearer panics-at-once"),
            Expected { status: 503, challenges: Vec::new(), log: "ERROR message=the authenticator panicked" },
        ),
    ]
}

#[tokio::test]
async fn bad_credentials_are_rejected() {
    let server = Protected::new();
    for (name, request, expected) in bad_credentials() {
        let lines = Arc::default();
        let log = tracing_subscriber::registry().with(Log(Arc::clone(&lines)));
        let guard = set_default(log);
        let reply = server.send(request).await;
        drop(guard);
        assert_eq!(reply.status, expected.status, "{name}");
        assert_eq!(reply.challenges(), expected.challenges, "{name}");
        assert_eq!(reply.json()["error"]["code"], -32600, "{name}");
        let lines = lines.lock().unwrap().join("\n");
        assert!(lines.contains(expected.log), "{name}: {lines}");
        assert!(!lines.contains("Bearer") && !lines.contains("token="), "{name}: {lines}");
        let retry_after = match name {
            _ if expected.status != 503 => None,
            "an issuer that is down" => Some("3"),
            "an issuer that is busy" => Some("1"),
            _ => Some("5"),
        };
        assert_eq!(reply.header("retry-after"), retry_after, "{name}");
        let nonce = name.contains("proof").then_some("n-1");
        assert_eq!(reply.header("dpop-nonce"), nonce, "{name}");
    }
    assert_eq!(server.journal.runs(), 0);
}

/// The log names the sender and the reason of each refusal, but no query, which may be private.
#[tokio::test]
async fn refusals_are_logged_with_their_sender() {
    let address = std::net::SocketAddr::from(([192, 0, 2, 1], 80));
    let server = Protected::with(|server| server, HttpOptions::default().peer_addr(move |_| Some(address)));
    for (token, parts) in [
        ("old", &["reason=the token has"][..]),
        ("ada", &[r#"principal="ada""#, r#"reason="insufficient scope""#, r#"scopes="notes.read""#]),
    ] {
        let lines = Arc::default();
        let guard = set_default(tracing_subscriber::registry().with(Log(Arc::clone(&lines))));
        server.send(with_token(call("read_notes").path("/mcp?note=private"), token)).await;
        drop(guard);
        let lines = lines.lock().unwrap().join("\n");
        for part in [r#"event="refusal""#, "peer=192.0.2.1", r#"path="/mcp""#].iter().chain(parts) {
            assert!(lines.contains(part), "{token}: {part} is missing from {lines}");
        }
    }
}

/// Only events of level `debug` may repeat what a client has sent.
#[tokio::test]
async fn the_log_contains_no_arguments_no_results_and_no_credentials() {
    /// Return the text, or fail with it.
    #[tool]
    fn echoes(text: String, fails: bool) -> Result<String, String> {
        if fails { Err(text) } else { Ok(text) }
    }

    let server = Protected::with(|server| server.with::<echoes>().layer(LogCalls::new()), HttpOptions::default());
    for arguments in [
        json!({"text": "hunter2", "fails": false}),
        json!({"text": "hunter2", "fails": true}),
        json!({"text": "hunter2", "fails": "hunter2"}),
        json!({"hunter2": "hunter2"}),
    ] {
        let lines = Arc::default();
        let guard = set_default(tracing_subscriber::registry().with(Log(Arc::clone(&lines))));
        let request = call("echoes").change(|message| message["params"]["arguments"] = arguments.clone());
        server.send(with_token(request, "ada/letmein")).await;
        drop(guard);
        let mut lines = lines.lock().unwrap();
        lines.retain(|line| ["INFO", "WARN", "ERROR"].iter().any(|level| line.starts_with(level)));
        assert!(lines.iter().any(|line| line.contains("call finished")), "{arguments}: {lines:?}");
        let is_secret = |line: &String| line.contains("hunter2") || line.contains("letmein");
        assert!(!lines.iter().any(is_secret), "{arguments}: {lines:?}");
    }
}

/// Authors may log the sender of a request.
#[tokio::test]
async fn the_debug_output_of_a_sender_contains_no_credentials() {
    let shown = Arc::<Mutex<Vec<String>>>::default();
    let senders = Arc::clone(&shown);
    let show = move |server: Server| {
        server.visible_to(move |caller, _| {
            senders.lock().unwrap().push(format!("{caller:?}"));
            true
        })
    };
    let server = Protected::with(show, HttpOptions::default());
    assert_eq!(server.send(with_token(call("whoami"), "ada/secret")).await.status, 200);
    let shown = shown.lock().unwrap();
    assert!(!shown.is_empty() && shown.iter().all(|sender| !sender.contains("secret")), "{shown:?}");
}

/// Parameters of an error are added to the challenge of the description with the same scheme.
#[tokio::test]
async fn an_error_adds_to_the_challenge_of_its_scheme() {
    let resource = resource_of_example().with_challenge(Challenge::new("dpop").with_parameter("algs", "ES256"));
    let endpoint = Endpoint::start(server().0.authenticate(Tokens::of(resource)), ListenerOptions::default()).await;
    let reply = endpoint.send(&with_token(call("whoami"), "unbound")).await;
    let expected = format!(r#"dpop algs="ES256", error="use_dpop_nonce", resource_metadata="{METADATA}""#);
    assert_eq!((reply.status, reply.header("www-authenticate")), (401, Some(&*expected)));
}

#[tokio::test]
async fn schemes_are_not_case_sensitive() {
    let server = Protected::new();
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
        let reply = server.send(call("whoami").with("authorization", &format!("{scheme} ada"))).await;
        assert_eq!(reply.status, 200, "{scheme}");
        assert_eq!(reply.json()["result"]["content"][0]["text"], "ada ada@example.com", "{scheme}");
    }
}

#[tokio::test]
async fn a_request_is_authenticated_once() {
    let server = Protected::new();
    for (request, status, times) in [
        (with_token(call("whoami"), "ada"), 200, 1),
        (with_token(initialize("2025-11-25"), "ada"), 200, 1),
        (with_token(call("whoami"), "ada").with("origin", "http://localhost"), 200, 1),
        (with_token(Request::new("GET"), "ada"), 405, 1),
        (with_token(Request::new("DELETE"), "ada"), 400, 1),
        (with_token(Request::new("PUT"), "ada"), 405, 1),
        (call("whoami"), 401, 1),
        (Request::new("GET"), 401, 1),
        (Request::new("DELETE"), 401, 1),
        // Requests from elsewhere do not reach the authenticator.
        (with_token(call("whoami"), "ada").with("host", "evil.example"), 403, 0),
    ] {
        server.authenticated.store(0, Ordering::SeqCst);
        let reply = server.send(request.clone()).await;
        assert_eq!(reply.status, status, "{request:?}");
        assert_eq!(server.authenticated.load(Ordering::SeqCst), times, "{request:?}");
    }
}

/// Browsers send preflight requests without credentials, and must be able to read challenges.
#[tokio::test]
async fn web_pages_read_challenges() {
    let server = Protected::with(|server| server, HttpOptions::default().allow_origin("https://app.example.com"));
    let from_page = |request: Request| request.with("origin", "https://app.example.com");
    let preflight = Request::new("OPTIONS")
        .with("access-control-request-method", "POST")
        .with("access-control-request-headers", "authorization");
    let reply = server.send(from_page(preflight)).await;
    assert_eq!((reply.status, reply.header("access-control-allow-headers")), (200, Some("authorization")));
    assert_eq!(server.authenticated.load(Ordering::SeqCst), 0);
    for (token, tool, status) in [(None, "whoami", 401), (Some("ada"), "read_notes", 403), (Some("ada"), "whoami", 200)]
    {
        let request = from_page(call(tool));
        let request = token.iter().fold(request, |request, token| with_token(request, token));
        let reply = server.send(request).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some("https://app.example.com"));
        assert!(reply.header("access-control-expose-headers").unwrap().contains("www-authenticate"));
        assert_eq!(reply.challenges().len(), usize::from(status != 200));
    }
}

/// An authenticator that hangs does not hold a request forever.
#[tokio::test(start_paused = true)]
async fn authentication_is_bounded_in_time() {
    let server = Protected::new();
    let reply = server.send(with_token(call("whoami"), "hangs")).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("5")));
}

#[tokio::test]
async fn an_authenticator_adds_headers_to_responses() {
    let server = Protected::new();
    for (tool, status) in [("whoami", 200), ("read_notes", 403)] {
        let reply = server.send(with_token(call(tool), "bound")).await;
        assert_eq!((reply.status, reply.header("dpop-nonce")), (status, Some("n-2")));
    }
}

/// Requests of every revision and size are told which scopes they need, as far as their bodies are read.
#[tokio::test]
async fn a_challenge_names_the_scopes_that_a_request_needs() {
    let server = Protected::with(|server| server.require_scopes("mcp"), HttpOptions::default());
    let long = call("read_notes").change(|message| message["params"]["arguments"] = json!({"x": "x".repeat(70_000)}));
    let marked = ["\u{feff}".as_bytes(), &call("read_notes").into_parts().3].concat();
    for (request, scopes) in [
        (initialize("2025-11-25"), "mcp"),
        (call("whoami"), "mcp"),
        (call("read_notes").body(marked), "mcp notes.read"),
        (call("read_notes"), "mcp notes.read"),
        (call("audit"), "mcp notes.read audit"),
        (call("unknown"), "mcp"),
        (call("read_notes").body("{"), "mcp"),
        (call("read_notes").without_length(), "mcp notes.read"),
        (long.clone(), "mcp"),
        (long.without_length(), "mcp"),
        (Request::new("GET"), "mcp"),
    ] {
        for token in [None, Some("old"), Some("ada")] {
            let request = token.iter().fold(request.clone(), |request, token| with_token(request, token));
            let reply = server.send(request.clone()).await;
            assert_eq!(reply.status, if token == Some("ada") { 403 } else { 401 }, "{request:?}");
            let scope = format!(r#"scope="{scopes}""#);
            assert!(reply.challenges()[0].contains(&scope), "{token:?} {:?}: {:?}", scopes, reply.challenges());
        }
    }
}

/// Everything that a listener serves requires credentials, except for what clients and operators need without them.
#[tokio::test]
async fn every_path_of_a_listener_is_protected() {
    let (server, _) = server();
    let tokens = Tokens { resource: resource_of_example(), ..Tokens::default() };
    let endpoint = Endpoint::start(server.authenticate(tokens), ListenerOptions::default().legacy_sse(true)).await;
    let get = |path: &str| Request::new("GET").path(path);
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let events = get("/sse").with("accept", "text/event-stream");
    for (request, without_token, with_token_of_ada) in [
        (call("whoami"), 401, 200),
        (get("/mcp"), 401, 405),
        (Request::new("DELETE"), 401, 400),
        (events, 401, 200),
        (Request::post(&message).path("/message?sessionId=unknown"), 401, 404),
        (get("/healthz"), 200, 200),
        (get("/readyz"), 200, 200),
        (get("/.well-known/oauth-protected-resource"), 200, 200),
        (get("/other"), 404, 404),
    ] {
        for (request, status) in [(request.clone(), without_token), (with_token(request, "ada"), with_token_of_ada)] {
            let response = endpoint.open(&request).await;
            assert_eq!(response.status, status, "{request:?}");
            let expected = (status == 401).then(|| bearer("").remove(0));
            assert_eq!(response.header("www-authenticate"), expected.as_deref(), "{request:?}");
        }
    }
}

/// Clients learn the next nonce from every response, whichever check refuses the request.
#[tokio::test]
async fn headers_of_the_authenticator_are_in_every_response() {
    for base in [None, Some("mcp")] {
        let server =
            Protected::with(|server| base.into_iter().fold(server, Server::require_scopes), HttpOptions::default());
        for request in [
            call("whoami"),
            call("read_notes"),
            call("unknown"),
            call("whoami").body("{"),
            initialize("2025-11-25"),
            Request::new("GET"),
            Request::new("DELETE"),
            Request::new("PUT"),
        ] {
            for (token, nonce) in [("bound", "n-2"), ("bound/mcp", "n-2"), ("unbound", "n-1")] {
                let reply = server.send(with_token(request.clone(), token)).await;
                assert_eq!(reply.header("dpop-nonce"), Some(nonce), "{base:?} {token} {request:?}: {reply:?}");
            }
        }
    }
}

/// Readiness names the state of the authenticator, and does not depend on it.
#[tokio::test]
async fn readiness_names_the_state_of_the_authenticator() {
    let server = server().0.authenticate(Tokens::of(resource_of_example()));
    let endpoint = Endpoint::start(server, ListenerOptions::default()).await;
    // Any verdict shows that the authenticator is available.
    for (token, status, expected) in [
        ("emma", 200, "ok"),
        ("down", 503, "unavailable"),
        ("emma", 200, "ok"),
        ("down", 503, "unavailable"),
        ("old", 401, "ok"),
    ] {
        assert_eq!(endpoint.send(&with_token(call("whoami"), token)).await.status, status, "{token}");
        let ready = endpoint.send(&Request::new("GET").path("/readyz")).await;
        assert_eq!((ready.status, ready.json()), (200, json!({"status": "ok", "authenticator": expected})), "{token}");
    }
}

#[tokio::test]
async fn requests_are_counted_by_the_outcome_of_their_authentication() {
    const REQUESTS: u64 = 50;

    let counted = |outcome: &str| counted("mcp.server.authentications", outcome);
    let server = Protected::with(|server| server.require_scopes("audit"), HttpOptions::default());
    for (token, outcome) in [
        (Some("emma/audit"), "accepted"),
        (Some("emma"), "insufficient_scope"),
        (None, "missing"),
        (Some("old"), "invalid"),
        (Some("busy"), "unavailable"),
    ] {
        let before = counted(outcome);
        for _ in 0..REQUESTS {
            let request = call("whoami");
            server.send(token.map_or(request.clone(), |token| with_token(request, token))).await;
        }
        assert!(counted(outcome) >= before + REQUESTS, "{outcome}");
    }
}

/// The transport of 2024-11-05 tells clients the same, and its streams end with the credentials.
#[tokio::test]
async fn the_paths_of_the_legacy_transport_authorize_like_the_endpoint() {
    let server = server().0.authenticate(Tokens::of(resource_of_example()));
    let options = HttpOptions::default().expired_stream_grace(std::time::Duration::from_millis(20));
    let endpoint = Endpoint::start(server, (options, ListenerOptions::default().legacy_sse(true))).await;
    let events = |token| with_token(Request::new("GET").path("/sse").with("accept", "text/event-stream"), token);
    let mut stream = endpoint.open(&events("bound")).await;
    assert_eq!((stream.status, stream.header("dpop-nonce")), (200, Some("n-2")));
    let path = stream.event().await.unwrap().data;
    let message = |request: Request| with_token(request.path(&path), "bound");
    let opened = endpoint.send(&message(initialize("2024-11-05"))).await;
    assert_eq!((opened.status, opened.header("dpop-nonce")), (202, Some("n-2")));
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_notes"}});
    let refused = endpoint.send(&message(Request::post(&call))).await;
    assert_eq!((refused.status, refused.header("dpop-nonce")), (403, Some("n-2")));
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.contains(r#"error="insufficient_scope""#), "{challenge}");
    assert!(challenge.contains(r#"scope="notes.read""#), "{challenge}");
    let mut brief = endpoint.open(&events("brief")).await;
    assert_eq!(brief.event().await.unwrap().name.as_deref(), Some("endpoint"));
    assert!(brief.message().await.is_none());
}

/// Most clients read the response only after they have written the request.
#[tokio::test]
async fn the_body_of_a_refused_request_is_read() {
    let server = Protected::new();
    for (kind, request, status) in [
        ("a text", call("whoami").with("content-type", "text/plain"), 401),
        ("a user who cannot be identified now", with_token(call("whoami"), "down"), 503),
    ] {
        let is_read = Arc::new(AtomicBool::new(false));
        let reading = Arc::clone(&is_read);
        let request = request.into_http(|_| {}).map(|body| {
            body.map_frame(move |frame| {
                reading.store(true, Ordering::SeqCst);
                frame
            })
        });
        let response = soon(server.service.clone().call(request)).await.unwrap();
        assert_eq!(response.status(), status, "{kind}");
        until(|| is_read.load(Ordering::SeqCst)).await;
    }
}
