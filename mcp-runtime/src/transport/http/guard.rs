//! Protection against malicious web pages and DNS rebinding: checks of `Host` and `Origin`.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header, request::Parts};
use tower_http::cors::{AllowOrigin, AllowPrivateNetwork, CorsLayer};

use super::{
    headers::Header,
    options::HttpOptions,
    response::{self, Rejection},
};
use crate::{
    error::excerpt,
    loopback::{is_loopback, without_port},
};

/// Rejects a request whose `Host` or `Origin` is not allowed.
pub(super) fn check(request: &Parts, options: &HttpOptions) -> Result<(), Rejection> {
    check_host(request, options)?;
    let mut origins = request.headers.get_all(header::ORIGIN).iter();
    match origins.find(|origin| !is_allowed_origin(origin, options)) {
        Some(origin) => Err(forbid(request, "origin", text_of(origin))),
        None => Ok(()),
    }
}

/// Rejects a request whose `Host` is not allowed, whatever its `Origin`.
pub(super) fn check_host(request: &Parts, options: &HttpOptions) -> Result<(), Rejection> {
    let Some(host) = host(&request.headers, &request.uri) else {
        let reason = "expected exactly one `Host` header";
        log_rejection(request, reason);
        return Err(Box::new(response::invalid_request(StatusCode::BAD_REQUEST, reason)));
    };
    if is_allowed_host(host, options) { Ok(()) } else { Err(forbid(request, "host", host)) }
}

/// Rejects a request because of its host or origin. The message for the client also says what allows the request.
fn forbid(request: &Parts, what: &str, value: &str) -> Rejection {
    let reason = format!("the {what} `{}` is not allowed", excerpt(value));
    log_rejection(request, &reason);
    let help = format!("help: allow it with `HttpOptions::allow_{what}` or `--allow-{what} {}`", excerpt(value));
    Box::new(response::invalid_request(StatusCode::FORBIDDEN, &format!("{reason}\n{help}")))
}

fn text_of(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or("(not ASCII)")
}

/// Logs a rejection for the operator, who may have forgotten to allow a host or origin.
fn log_rejection(request: &Parts, reason: &str) {
    let header = |name| request.headers.get(name).map(|value| excerpt(text_of(value)));
    let (host, origin) = (header(header::HOST), header(header::ORIGIN));
    tracing::warn!(reason, ?host, ?origin, method = %request.method, "request rejected");
}

/// Returns whether the response needs CORS headers.
///
/// The response to a POST without `Origin` does not: no web page has sent the request, and no cache stores the
/// response.
pub(super) fn needs_cors<B>(request: &Request<B>) -> bool {
    request.method() != Method::POST || request.headers().contains_key(header::ORIGIN)
}

/// Returns the layer that lets web pages of allowed origins read responses.
pub(super) fn cors(options: &Arc<HttpOptions>) -> CorsLayer {
    let (options, private_network) = (Arc::clone(options), Arc::clone(options));
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, _| is_allowed_origin(origin, &options)))
        // Allowed web pages may reach the server even if it is on the user's machine or private network.
        .allow_private_network(AllowPrivateNetwork::predicate(move |origin, _| {
            is_allowed_origin(origin, &private_network)
        }))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(tower_http::cors::AllowHeaders::mirror_request())
        .expose_headers(
            ["mcp-session-id", "mcp-protocol-version", "retry-after", "www-authenticate", "dpop-nonce"]
                .map(HeaderName::from_static),
        )
        .max_age(Duration::from_secs(3600))
}

pub(super) fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    let [host] = Header::find(headers, [&header::HOST]);
    match uri.authority() {
        // HTTP/2 does not need the header. Beside the absolute target of an older version it is redundant, so it may be absent,
        // as in requests that are made in this process.
        Some(authority) => (host.is_absent() || host.text().is_some()).then(|| authority.as_str()),
        None => host.text(),
    }
}

fn is_allowed_host(host: &str, options: &HttpOptions) -> bool {
    if options.allowed_hosts.is_empty() {
        return is_loopback(host);
    }
    options
        .allowed_hosts
        .iter()
        .any(|allowed| allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(without_port(host)))
}

fn is_allowed_origin(origin: &HeaderValue, options: &HttpOptions) -> bool {
    let Ok(origin) = origin.to_str() else { return false };
    let origin = origin.to_ascii_lowercase();
    if options.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(&origin)) {
        return true;
    }
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    host.is_some_and(|host| is_allowed_host(host, options))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    /// Returns the message to the sender of a request, or `None` if the request is allowed.
    async fn rejection(options: &HttpOptions, host: &str, origin: Option<&str>) -> Option<String> {
        let mut request = Request::builder().uri("/mcp").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let rejected = check(&parts, options).err()?;
        assert_eq!(rejected.status(), StatusCode::FORBIDDEN);
        let body = rejected.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        Some(body["error"]["message"].as_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn rejections_name_the_remedy_and_repeat_little() {
        let options = HttpOptions::default();
        let long = format!("https://{}.example", "a".repeat(1000));
        for (origin, line) in [
            (
                "https://app.example",
                "help: allow it with `HttpOptions::allow_origin` or `--allow-origin https://app.example`",
            ),
            (&long, "help: allow it with `HttpOptions::allow_origin` or `--allow-origin https://aaaa"),
        ] {
            let message = rejection(&options, "localhost", Some(origin)).await.unwrap();
            assert!(message.lines().nth(1).unwrap().starts_with(line) && message.len() < 600, "{message}");
        }
        let message = rejection(&options, "mcp.example.com", None).await.unwrap();
        assert!(message.ends_with("`HttpOptions::allow_host` or `--allow-host mcp.example.com`"), "{message}");
        assert!(message.contains("the host `mcp.example.com` is not allowed\nhelp: "), "{message}");
    }

    #[tokio::test]
    async fn hosts_and_origins_are_checked() {
        let loopback = HttpOptions::default();
        let page = HttpOptions::default().allow_origin("https://app.example.com");
        let public = HttpOptions::default().allow_host("mcp.example.com");
        let port = HttpOptions::default().allow_host("mcp.example.com:8443");
        for (options, host, origin, expected) in [
            (&loopback, "localhost:8080", None, None),
            (&loopback, "127.0.0.1", Some("http://127.0.0.1:5173"), None),
            (&loopback, "[::1]:80", Some("http://[::1]"), None),
            (&loopback, "LOCALHOST", Some("HTTPS://LocalHost:3000"), None),
            (&loopback, "evil.example:8080", None, Some("the host")),
            (&loopback, "localhost.evil.example", None, Some("the host")),
            (&loopback, "127.0.0.1.evil.example", None, Some("the host")),
            (&loopback, "localhost", Some("https://evil.example"), Some("the origin")),
            (&loopback, "localhost", Some("http://localhost.evil.example"), Some("the origin")),
            (&loopback, "localhost", Some("null"), Some("the origin")),
            (&loopback, "localhost", Some("file://localhost"), Some("the origin")),
            (&page, "localhost", Some("https://app.example.com"), None),
            (&page, "localhost", Some("https://app.example.com:444"), Some("the origin")),
            (&public, "mcp.example.com", None, None),
            (&public, "mcp.example.com:443", Some("https://mcp.example.com"), None),
            (&public, "localhost", None, Some("the host")),
            (&public, "mcp.example.com", Some("http://localhost"), Some("the origin")),
            (&port, "mcp.example.com:8443", Some("https://mcp.example.com:8443"), None),
            (&port, "mcp.example.com:8443", Some("https://mcp.example.com"), Some("the origin")),
            (&port, "mcp.example.com:8444", None, Some("the host")),
            (&port, "mcp.example.com", None, Some("the host")),
        ] {
            let message = rejection(options, host, origin).await;
            let value = if expected == Some("the host") { host } else { origin.unwrap_or_default() };
            let expected = expected.map(|what| format!("invalid request: {what} `{value}` is not allowed"));
            assert_eq!(message.as_deref().and_then(|message| message.lines().next()), expected.as_deref());
        }
    }
}
