//! A server over HTTP that accepts tokens of an issuer.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
};

use mcp_runtime::{Context, HttpOptions, Server, http, tool};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    layer::{Context as LayerContext, Layer, SubscriberExt as _},
    registry,
};

use super::{
    RESOURCE, Signer, TestIssuer,
    signer::{claims, now},
};
use crate::{Dpop, Jwt};

/// Returns the name of the caller.
#[tool(scopes("notes:read"))]
fn whoami(ctx: &Context) -> String {
    ctx.principal().unwrap_or_default().to_owned()
}

/// Needs a scope that no token has.
#[tool(scopes("notes:admin"))]
fn administer() {}

/// The events of the crates, as a subscriber would print them.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        if event.metadata().target().starts_with("mcp_") && *event.metadata().level() < tracing::Level::DEBUG {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let result = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        result.expect("a string accepts all text");
    }
}

/// Serves the functions above until the test ends, and returns the address.
async fn serve(server: Server) -> std::net::SocketAddr {
    let server = server.with::<whoami>().with::<administer>().build().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = http::serve(listener, server.into_http_service(HttpOptions::default()).unwrap());
    tokio::spawn(serving.with_graceful_shutdown(std::future::pending()).into_future());
    address
}

struct Response {
    head: String,
    body: String,
}

impl Response {
    fn status(&self) -> u16 {
        self.head[9..12].parse().unwrap()
    }

    fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
    }
}

/// Calls a function in revision 2026-07-28 with these headers.
async fn call(address: std::net::SocketAddr, function: &str, headers: &[(&str, &str)]) -> Response {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": function, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let mut request = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\n\
         mcp-name: {function}\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        write!(request, "{name}: {value}\r\n").unwrap();
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    Response { head: head.to_owned(), body: body.to_owned() }
}

/// The cases of the scenario `auth-token-audience-validation` of the conformance project, with the log of each.
#[tokio::test]
async fn only_tokens_for_the_server_are_accepted_over_http() {
    // While there is only one dispatcher, tracing asks only the default of the thread that first reaches an event
    // whether it is interested in it. With this second one, it considers every dispatcher.
    let _second = tracing::Dispatch::new(registry());
    let log = Log::default();
    let _default = tracing::subscriber::set_default(registry().with(log.clone()));
    let (signer, untrusted) = (Signer::p256("key"), Signer::p256("key"));
    let issuer = TestIssuer::with_keys(&[&signer]).await;
    let jwt = Jwt::discover(&issuer.url).await.unwrap().resource(RESOURCE);
    let address = serve(Server::empty("notes", "1.0.0").authenticate(jwt)).await;
    let with = |changes: Value| {
        let mut claims = claims(json!({"iss": issuer.url}));
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    };
    let long = format!("Bearer {}", "x".repeat(17 * 1024));
    let metadata = r#"resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp""#;
    let scope = r#"scope="notes:read""#;
    let bearer = |token: String| Some(format!("Bearer {token}"));
    for (name, authorization, status, challenge, logged) in [
        ("valid", bearer(signer.token(&with(json!({})))), 200, None, None),
        ("none", None, 401, Some(format!("Bearer {scope}, {metadata}")), None),
        (
            "wrong audience",
            bearer(signer.token(&with(json!({"aud": "https://other.example"})))),
            401,
            Some("the token was not issued for this server".to_owned()),
            Some(format!(
                "INFO invalid credentials rejected reason=the token was not issued for this server \
                 detail=\"`aud` is `https://other.example`, expected `{RESOURCE}`\" method=POST path=\"/mcp\" event=\"refusal\" peer=127.0.0.1"
            )),
        ),
        (
            "expired",
            bearer(signer.token(&with(json!({"exp": now() - 3600})))),
            401,
            Some("the token has expired".to_owned()),
            Some(
                "INFO invalid credentials rejected reason=the token has expired detail=\"it expired 3600 seconds ago, \
                 and the leeway is 60\" method=POST path=\"/mcp\" event=\"refusal\" peer=127.0.0.1"
                    .to_owned(),
            ),
        ),
        (
            "untrusted key",
            bearer(untrusted.token(&with(json!({})))),
            401,
            Some("the signature of the token is invalid".to_owned()),
            Some(
                "INFO invalid credentials rejected reason=the signature of the token is invalid method=POST path=\"/mcp\" \
                     event=\"refusal\" peer=127.0.0.1"
                    .to_owned(),
            ),
        ),
        ("too long", Some(long), 431, None, None),
    ] {
        let headers: Vec<_> = authorization.iter().map(|value| ("authorization", value.as_str())).collect();
        log.take();
        let response = call(address, "whoami", &headers).await;
        assert_eq!(response.status(), status, "{name}: {}", response.head);
        let log = log.take();
        match (status, challenge) {
            (200, _) => assert!(response.body.contains(&format!("{}#ada", issuer.url)), "{}", response.body),
            (401, Some(expected)) if logged.is_none() => {
                assert_eq!(sorted(response.header("www-authenticate")[0]), sorted(&expected), "{name}");
            }
            (401, Some(description)) => {
                let error = r#"error="invalid_token""#;
                let expected = format!(r#"Bearer {error}, error_description="{description}", {scope}, {metadata}"#);
                assert_eq!(sorted(response.header("www-authenticate")[0]), sorted(&expected), "{name}");
            }
            _ => {}
        }
        if let Some(expected) = logged {
            // Seconds may pass between the creation of a token and its verification.
            let log = log.concat().replace("3601 seconds", "3600 seconds");
            assert_eq!(log, expected, "{name}");
        }
    }
    let token = signer.token(&with(json!({})));
    let response = call(address, "administer", &[("authorization", &format!("bEARER {token}"))]).await;
    assert_eq!(response.status(), 403);
    assert!(response.header("www-authenticate")[0].contains(r#"scope="notes:admin""#), "{}", response.head);
}

/// Returns the scheme and the parameters of a challenge in alphabetical order, which has no meaning.
fn sorted(challenge: &str) -> Vec<&str> {
    let (scheme, parameters) = challenge.split_once(' ').unwrap();
    let mut parts: Vec<&str> = parameters.split(", ").collect();
    parts.sort_unstable();
    parts.insert(0, scheme);
    parts
}

#[tokio::test]
async fn proofs_of_possession_are_demanded_over_http() {
    let (signer, client) = (Signer::p256("key"), Signer::ed25519("client").without_id());
    let issuer = TestIssuer::with_keys(&[&signer]).await;
    let jwt = Jwt::discover(&issuer.url).await.unwrap().resource(RESOURCE);
    let jwt = jwt.dpop(Dpop::required().nonces()).unwrap();
    let address = serve(Server::empty("notes", "1.0.0").authenticate(jwt)).await;
    let response = call(address, "whoami", &[]).await;
    let challenges = response.header("www-authenticate");
    assert_eq!((response.status(), challenges.len()), (401, 1), "{}", response.head);
    assert!(challenges[0].starts_with(r#"DPoP algs="ES256 ES384 EdDSA "#), "{challenges:?}");
    assert!(challenges[0].contains(r#"scope="notes:read""#), "{challenges:?}");
    let thumbprint = crate::jose::Jwk::parse(client.jwk().as_object().unwrap()).unwrap().thumbprint();
    let token = signer.token(&claims(json!({"iss": issuer.url, "cnf": {"jkt": thumbprint}})));
    let hash = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
    let proof = |id: &str, nonce: &str| {
        let header = json!({"typ": "dpop+jwt", "jwk": client.jwk()});
        let ath = super::signer::encode(hash.as_ref());
        let claims = json!({"jti": id, "htm": "POST", "htu": RESOURCE, "iat": now(), "ath": ath, "nonce": nonce});
        client.token_with(header, &claims)
    };
    let authorization = format!("DPoP {token}");
    let first = proof("1", "");
    let response = call(address, "whoami", &[("authorization", &authorization), ("dpop", &first)]).await;
    let challenges = response.header("www-authenticate");
    assert_eq!(response.status(), 401);
    assert!(challenges[0].contains(r#"error="use_dpop_nonce""#), "{challenges:?}");
    let second = proof("2", response.header("dpop-nonce")[0]);
    let headers = [("authorization", authorization.as_str()), ("dpop", second.as_str())];
    assert_eq!(call(address, "whoami", &headers).await.status(), 200);
    let response = call(address, "whoami", &headers).await;
    assert_eq!(response.status(), 401);
    assert!(response.header("www-authenticate")[0].contains("the proof was used before"), "{}", response.head);
    let response = call(address, "whoami", &[("authorization", &format!("Bearer {token}"))]).await;
    assert_eq!(response.status(), 401);
}
