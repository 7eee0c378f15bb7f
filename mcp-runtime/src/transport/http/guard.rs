//! Protection against malicious web pages and DNS rebinding: checks of `Host` and `Origin`.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header, request::Parts};
use tower_http::cors::{AllowOrigin, AllowPrivateNetwork, CorsLayer};

use super::{
    options::HttpOptions,
    response::{self, HttpResponse},
};

/// The reason for which a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rejection {
    /// `Host` is missing, or occurs more than once.
    NoHost,
    /// `Host` is not allowed.
    Host,
    /// `Origin` is not allowed.
    Origin,
}

impl Rejection {
    fn reason(self) -> &'static str {
        match self {
            Self::NoHost => "expected exactly one `Host` header",
            Self::Host => "this `Host` is not allowed",
            Self::Origin => "this `Origin` is not allowed",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::NoHost => StatusCode::BAD_REQUEST,
            Self::Host | Self::Origin => StatusCode::FORBIDDEN,
        }
    }

    /// Logs the rejection for the operator, who may have forgotten to allow a host or origin.
    fn log(self, request: &Parts) {
        let (host, origin) = (request.headers.get(header::HOST), request.headers.get(header::ORIGIN));
        tracing::warn!(reason = self.reason(), ?host, ?origin, method = %request.method, "request rejected");
    }
}

/// Rejects a request whose `Host` or `Origin` is not allowed.
pub(super) fn check(request: &Parts, options: &HttpOptions) -> Result<(), Box<HttpResponse>> {
    inspect(request, options).map_err(|rejection| {
        rejection.log(request);
        Box::new(response::invalid_request(rejection.status(), rejection.reason()))
    })
}

fn inspect(request: &Parts, options: &HttpOptions) -> Result<(), Rejection> {
    let host = host(&request.headers, &request.uri).ok_or(Rejection::NoHost)?;
    if !is_allowed_host(host, options) {
        return Err(Rejection::Host);
    }
    let mut origins = request.headers.get_all(header::ORIGIN).iter();
    if origins.all(|origin| is_allowed_origin(origin, options)) { Ok(()) } else { Err(Rejection::Origin) }
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
    let names = |names: &[&'static str]| names.iter().map(|name| HeaderName::from_static(name)).collect::<Vec<_>>();
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, request| {
            let is_allowed = is_allowed_origin(origin, &options);
            // Preflight requests do not reach `check`, which logs all others.
            if !is_allowed && request.method == Method::OPTIONS {
                Rejection::Origin.log(request);
            }
            is_allowed
        }))
        // Allowed web pages may reach the server even if it is on the user's machine or private network.
        .allow_private_network(AllowPrivateNetwork::predicate(move |origin, _| {
            is_allowed_origin(origin, &private_network)
        }))
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(tower_http::cors::AllowHeaders::mirror_request())
        .expose_headers(names(&["mcp-session-id", "mcp-protocol-version", "retry-after", "www-authenticate"]))
        .max_age(Duration::from_secs(3600))
}

fn host<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> Option<&'a str> {
    if let Some(authority) = uri.authority() {
        return Some(authority.as_str());
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    }
}

fn is_allowed_host(host: &str, options: &HttpOptions) -> bool {
    if options.allowed_hosts.is_empty() {
        return is_loopback(without_port(host));
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

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_loopback(name: &str) -> bool {
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_origins_are_checked() {
        let loopback = HttpOptions::default();
        let page = HttpOptions::default().allow_origin("https://app.example.com");
        let public = HttpOptions::default().allow_host("mcp.example.com");
        for (options, host, origin, expected) in [
            (&loopback, "localhost:8080", None, Ok(())),
            (&loopback, "127.0.0.1", Some("http://127.0.0.1:5173"), Ok(())),
            (&loopback, "[::1]:80", Some("http://[::1]"), Ok(())),
            (&loopback, "LOCALHOST", Some("HTTPS://LocalHost:3000"), Ok(())),
            (&loopback, "evil.example:8080", None, Err(Rejection::Host)),
            (&loopback, "localhost.evil.example", None, Err(Rejection::Host)),
            (&loopback, "127.0.0.1.evil.example", None, Err(Rejection::Host)),
            (&loopback, "localhost", Some("https://evil.example"), Err(Rejection::Origin)),
            (&loopback, "localhost", Some("http://localhost.evil.example"), Err(Rejection::Origin)),
            (&loopback, "localhost", Some("null"), Err(Rejection::Origin)),
            (&loopback, "localhost", Some("file://localhost"), Err(Rejection::Origin)),
            (&page, "localhost", Some("https://app.example.com"), Ok(())),
            (&page, "localhost", Some("https://app.example.com:444"), Err(Rejection::Origin)),
            (&public, "mcp.example.com", None, Ok(())),
            (&public, "mcp.example.com:443", Some("https://mcp.example.com"), Ok(())),
            (&public, "localhost", None, Err(Rejection::Host)),
            (&public, "mcp.example.com", Some("http://localhost"), Err(Rejection::Origin)),
        ] {
            let mut request = Request::builder().uri("/mcp").header("host", host);
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(inspect(&parts, options), expected, "{host} {origin:?}");
        }
    }
}
