//! Who may reach the server: `Host` and `Origin`, against pages from elsewhere and DNS rebinding.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header, request::Parts};
use tower_http::cors::{AllowOrigin, AllowPrivateNetwork, CorsLayer};

use super::HttpOptions;

/// Why a request is turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    NoHost,
    Host,
    Origin,
}

impl Refused {
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::NoHost => "the request needs one `Host` header",
            Self::Host => "this `Host` is not allowed",
            Self::Origin => "this `Origin` is not allowed",
        }
    }

    /// Tells the operator, who may have meant to allow it.
    pub(super) fn log(self, request: &Parts) {
        let (host, origin) = (request.headers.get(header::HOST), request.headers.get(header::ORIGIN));
        tracing::warn!(why = self.why(), ?host, ?origin, method = %request.method, "a request was turned away");
    }
}

pub(super) fn check(request: &Parts, options: &HttpOptions) -> Result<(), Refused> {
    let host = host(&request.headers, &request.uri).ok_or(Refused::NoHost)?;
    if !is_allowed_host(host, options) {
        return Err(Refused::Host);
    }
    let mut origins = request.headers.get_all(header::ORIGIN).iter();
    match origins.all(|origin| is_allowed_origin(origin, options)) {
        true => Ok(()),
        false => Err(Refused::Origin),
    }
}

/// Says whether a response may have something to tell a browser, or a cache. To a POST that no page sends, it has not: its response
/// is kept by no cache, so that it need not say what it varies with.
pub(super) fn concerns_browsers<B>(request: &Request<B>) -> bool {
    request.method() != Method::POST || request.headers().contains_key(header::ORIGIN)
}

/// The layer that tells browsers which pages may read the answers: those that may send requests.
pub(super) fn cors(options: &Arc<HttpOptions>) -> CorsLayer {
    let (options, of_private_network) = (Arc::clone(options), Arc::clone(options));
    let names = |names: &[&'static str]| names.iter().map(|name| HeaderName::from_static(name)).collect::<Vec<_>>();
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, request| {
            let is_allowed = is_allowed_origin(origin, &options);
            // Only preflights end here, the others are checked behind.
            if !is_allowed && request.method == Method::OPTIONS {
                Refused::Origin.log(request);
            }
            is_allowed
        }))
        // Pages from elsewhere that may reach a server on this machine or in this network.
        .allow_private_network(AllowPrivateNetwork::predicate(move |origin, _| {
            is_allowed_origin(origin, &of_private_network)
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
    fn hosts_and_origins() {
        let loopback = HttpOptions::default();
        let page = HttpOptions::default().allow_origin("https://app.example.com");
        let public = HttpOptions::default().allow_host("mcp.example.com");
        for (options, host, origin, expected) in [
            (&loopback, "localhost:8080", None, Ok(())),
            (&loopback, "127.0.0.1", Some("http://127.0.0.1:5173"), Ok(())),
            (&loopback, "[::1]:80", Some("http://[::1]"), Ok(())),
            (&loopback, "LOCALHOST", Some("HTTPS://LocalHost:3000"), Ok(())),
            (&loopback, "evil.example:8080", None, Err(Refused::Host)),
            (&loopback, "localhost.evil.example", None, Err(Refused::Host)),
            (&loopback, "127.0.0.1.evil.example", None, Err(Refused::Host)),
            (&loopback, "localhost", Some("https://evil.example"), Err(Refused::Origin)),
            (&loopback, "localhost", Some("http://localhost.evil.example"), Err(Refused::Origin)),
            (&loopback, "localhost", Some("null"), Err(Refused::Origin)),
            (&loopback, "localhost", Some("file://localhost"), Err(Refused::Origin)),
            (&page, "localhost", Some("https://app.example.com"), Ok(())),
            (&page, "localhost", Some("https://app.example.com:444"), Err(Refused::Origin)),
            (&public, "mcp.example.com", None, Ok(())),
            (&public, "mcp.example.com:443", Some("https://mcp.example.com"), Ok(())),
            (&public, "localhost", None, Err(Refused::Host)),
            (&public, "mcp.example.com", Some("http://localhost"), Err(Refused::Origin)),
        ] {
            let mut request = Request::builder().uri("/mcp").header("host", host);
            if let Some(origin) = origin {
                request = request.header("origin", origin);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(check(&parts, options), expected, "{host} {origin:?}");
        }
    }
}
