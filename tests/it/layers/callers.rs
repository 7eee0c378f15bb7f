//! Callers over HTTP: a middleware authenticates them, and layers distinguish them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http::{Extensions, Request};
use http_body_util::{BodyExt as _, Full};
use mcp_runtime::{
    Context, HttpOptions, Server,
    auth::{Identity, Principal},
    http::HttpService,
    layers::{CacheReadOnly, Call, Layer, Next, RateLimit, from_fn},
    tool,
};
use serde_json::{Value, json};
use tower_service::Service as _;

use super::Runs;

const HOUR: Duration = Duration::from_secs(3600);

/// Count the calls.
#[tool(read_only)]
fn counts(runs: &Runs) -> usize {
    runs.count();
    runs.total()
}

fn service(layer: impl Layer) -> HttpService {
    service_with(layer, HttpOptions::default().peer_addr(|request| request.extensions.get().copied()))
}

fn service_with(layer: impl Layer, options: HttpOptions) -> HttpService {
    let server = Server::empty("callers", "1.0.0").with::<counts>().with_shared(Arc::<Runs>::default());
    server.layer(layer).build().unwrap().into_http_service(options).unwrap()
}

/// Calls `counts` as a principal and returns the text of the result.
async fn call(service: &mut HttpService, principal: Option<&str>) -> String {
    call_from(service, principal, None).await
}

async fn call_from(service: &mut HttpService, principal: Option<&str>, address: Option<&str>) -> String {
    call_with(service, principal, address, &[]).await
}

async fn call_with(
    service: &mut HttpService,
    principal: Option<&str>,
    address: Option<&str>,
    headers: &[(&str, &str)],
) -> String {
    call_tool(service, "counts", headers, |extensions| {
        if let Some(name) = principal {
            extensions.insert(Principal::new(name));
        }
        if let Some(address) = address {
            extensions.insert::<SocketAddr>(address.parse().unwrap());
        }
    })
    .await
}

async fn call_tool(
    service: &mut HttpService,
    name: &str,
    headers: &[(&str, &str)],
    extend: impl FnOnce(&mut Extensions),
) -> String {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    let request = headers.iter().fold(Request::post("/"), |request, (name, value)| request.header(*name, *value));
    let mut request = request
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", name)
        .header("tenant", "t1")
        .body(Full::from(message.to_string()))
        .unwrap();
    extend(request.extensions_mut());
    let body = service.call(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap();
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test]
async fn results_are_cached_per_caller() {
    let mut service = service(CacheReadOnly::new(HOUR));
    for (principal, expected) in [
        (Some("ada"), "1"),
        (Some("ada"), "1"),
        (Some("grace"), "2"),
        (None, "3"),
        (Some(""), "4"),
        (None, "3"),
        (Some("grace"), "2"),
        (Some("ada"), "1"),
    ] {
        assert_eq!(call(&mut service, principal).await, expected, "{principal:?}");
    }
}

/// Name the tenant of the caller.
#[tool(read_only)]
fn tenant(ctx: &Context) -> String {
    let identity = ctx.identity();
    identity.and_then(|identity| identity.claim("tenant")).map(Value::to_string).unwrap_or_default()
}

/// A function with a context may return what the claims of the caller say.
#[tokio::test]
async fn results_that_may_depend_on_claims_are_cached_per_claims() {
    let cache = CacheReadOnly::new(HOUR).per_key(|_| String::new());
    let server = Server::empty("callers", "1.0.0").with::<tenant>().layer(cache);
    let mut service = server.build().unwrap().into_http_service(HttpOptions::default()).unwrap();
    for claims in [json!({"tenant": 1}), json!({"tenant": 2}), json!({"tenant": 1, "jti": "x"}), Value::Null] {
        let expected = claims.get("tenant").map(Value::to_string).unwrap_or_default();
        let identity = Identity::new("ada").with_claims(claims);
        let called = call_tool(&mut service, "tenant", &[], |extensions| drop(extensions.insert(identity))).await;
        assert_eq!(called, expected);
    }
}

#[tokio::test]
async fn rates_are_limited_per_caller() {
    let mut service = service(RateLimit::new(2, HOUR).per_caller());
    for (principal, address, passes) in [
        (Some("ada"), None, [true, true, false]),
        (Some("grace"), None, [true, true, false]),
        (None, None, [true, true, false]),
        (None, Some("10.0.0.1:80"), [true, true, false]),
        (None, Some("10.0.0.2:80"), [true, true, false]),
        // A user whose name is that of a network.
        (Some("network 10.0.0.1"), None, [true, true, false]),
        (None, Some("[::ffff:10.0.0.2]:81"), [false; 3]),
        (None, Some("[2001:db8::1]:80"), [true, true, false]),
        // The same network.
        (None, Some("[2001:db8::2]:80"), [false; 3]),
        (Some("ada"), Some("10.0.0.3:80"), [false; 3]),
    ] {
        for passes in passes {
            let answer = call_from(&mut service, principal, address).await;
            assert_eq!(!answer.contains("rate limit"), passes, "{principal:?} {address:?} {answer}");
        }
    }
}

/// The names of callers and the keys of the author may join to the same text.
#[tokio::test]
async fn callers_share_no_budget_whatever_their_keys_are() {
    let key = |call: &Call| {
        let key = call.caller().headers().and_then(|headers| headers.get("key"));
        key.and_then(|key| key.to_str().ok()).unwrap_or_default().to_owned()
    };
    let mut service = service(RateLimit::new(1, HOUR).per_function().per_caller().per_key(key));
    for passes in [true, false] {
        for split in 0..=4 {
            let (principal, key) = "abcd".split_at(split);
            let answer = call_with(&mut service, Some(principal), None, &[("key", key)]).await;
            assert_eq!(!answer.contains("rate limit"), passes, "{principal} {key} {answer}");
        }
    }
}

#[tokio::test]
async fn clients_of_a_trusted_proxy_are_callers_of_their_own() {
    let options = HttpOptions::default().peer_addr(|request| request.extensions.get().copied());
    let mut service = service_with(RateLimit::new(1, HOUR).per_caller(), options.trusted_proxies("10.0.0.0/8"));
    for (address, client, passes) in [
        ("10.0.0.1:80", "198.51.100.1", true),
        ("10.0.0.2:80", "198.51.100.1", false),
        ("10.0.0.1:80", "198.51.100.2", true),
        // A client cannot choose its address by a header of its own.
        ("198.51.100.3:80", "198.51.100.4", true),
        ("198.51.100.3:80", "198.51.100.5", false),
    ] {
        let answer = call_with(&mut service, None, Some(address), &[("x-forwarded-for", client)]).await;
        assert_eq!(!answer.contains("rate limit"), passes, "{address} {client} {answer}");
    }
}

#[tokio::test]
async fn a_layer_sees_the_http_request() {
    let describes = from_fn(|call: Call, _: Next| async move {
        let tenant = call.caller().headers().and_then(|headers| headers.get("tenant").cloned());
        let principal = call.caller().extension::<Principal>().cloned();
        mcp_runtime::layers::Outcome::tool(&call, format!("{tenant:?} {principal:?} {:?}", call.caller().principal()))
    });
    let answer = call(&mut service(describes), Some("ada")).await;
    assert_eq!(answer, r#"Some("t1") Some(Principal("ada")) Some("ada")"#);
}
