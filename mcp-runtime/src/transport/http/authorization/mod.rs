//! Authentication of requests, and what clients without sufficient credentials are told.
//!
//! An [`Authenticator`] identifies the sender and the engine decides which scopes a request needs. This module turns
//! both into HTTP: statuses, challenges, and the metadata of the protected resource.
//!
//! See [Authorization](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization).

mod admission;
mod routes;

pub(super) use admission::{admit, insufficient_scope};
pub use routes::AuthorizationService;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::{HeaderMap, Uri, request::Parts};

use super::guard;
use crate::auth::{Authenticator, AuthorizationRoutes, Challenge, ProtectedResource};
use crate::{loopback::is_loopback, stdx::debug};

/// How an endpoint authenticates requests, and what it tells clients.
pub(crate) struct Authorization {
    authenticator: Arc<dyn Authenticator>,
    resource: ProtectedResource,
    /// The paths that the authenticator serves next to the endpoint.
    routes: Vec<Arc<dyn AuthorizationRoutes>>,
    /// The identifier of the resource, if the author has set it.
    url: Option<ResourceUrl>,
    /// Whether the authenticator could not examine the last request.
    is_unavailable: AtomicBool,
}

impl Authorization {
    /// Prepares the authentication of a server. `name` is its name for people.
    ///
    /// # Errors
    ///
    /// Returns everything that is wrong with the description of the protected resource.
    pub(crate) fn new(authenticator: Arc<dyn Authenticator>, name: &str) -> Result<Self, Vec<String>> {
        let resource = authenticator.protected_resource();
        let resource = if resource.members().contains_key("resource_name") { resource } else { resource.name(name) };
        let mut problems = Vec::new();
        let url = resource.identifier().map(ResourceUrl::parse).transpose().unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        let issuers = resource.authorization_servers().iter();
        problems.extend(issuers.filter_map(|issuer| check_url("authorization server", issuer).err()));
        if !problems.is_empty() {
            return Err(problems);
        }
        let routes = authenticator.routes();
        Ok(Self { authenticator, resource, routes, url, is_unavailable: AtomicBool::new(false) })
    }

    /// Returns whether clients reach the resource over TLS, which ends at a proxy.
    pub(crate) fn is_https(&self) -> bool {
        self.url.as_ref().is_some_and(|url| url.origin.starts_with("https:"))
    }

    /// Returns whether the authenticator could not examine the last request.
    pub(super) fn is_unavailable(&self) -> bool {
        self.is_unavailable.load(Ordering::Relaxed)
    }

    /// Records whether the authenticator could examine a request.
    fn set_unavailable(&self, is_unavailable: bool) {
        // Reading is cheaper than writing if several threads do it.
        if self.is_unavailable() != is_unavailable {
            self.is_unavailable.store(is_unavailable, Ordering::Relaxed);
        }
    }

    /// Returns the challenges of every response: one for each authentication scheme.
    fn challenges(&self) -> Vec<Challenge> {
        let challenges = self.resource.challenges();
        if challenges.is_empty() { vec![Challenge::new("Bearer")] } else { challenges.to_vec() }
    }

    /// Returns the URL of the metadata. Returns `None` if there is none for the sender of this request. `scheme` and `path`
    /// are those of the endpoint.
    fn metadata_url(&self, scheme: &str, path: &str, request: &Parts) -> Option<String> {
        Some(self.resource_url(scheme, path, &request.headers, &request.uri)?.metadata_url())
    }

    /// Returns the identifier of the resource, if clients are told about it.
    fn resource_url(&self, scheme: &str, path: &str, headers: &HeaderMap, uri: &Uri) -> Option<ResourceUrl> {
        if self.resource.authorization_servers().is_empty() {
            return None;
        }
        self.url.clone().or_else(|| ResourceUrl::of_loopback(scheme, headers, uri, path))
    }
}

debug!(Authorization, self, resource: self.resource);

/// The path below which the metadata of protected resources is served.
///
/// See [RFC 9728, 3](https://www.rfc-editor.org/rfc/rfc9728#section-3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The identifier of a protected resource.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ResourceUrl {
    /// The identifier as the author wrote it. Clients and issuers compare this text.
    text: String,
    /// The scheme and the authority.
    origin: String,
    /// The path without a slash at its start if there is nothing else, and the query.
    path: String,
}

impl ResourceUrl {
    /// Parses an identifier.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it.
    fn parse(text: &str) -> Result<Self, String> {
        let uri = check_url("resource identifier", text)?;
        let (scheme, authority) = (uri.scheme_str().unwrap_or_default(), uri.authority().map_or("", |it| it.as_str()));
        let path = uri.path_and_query().map_or("", |path| path.as_str()).trim_start_matches('/');
        let path = if path.is_empty() || path.starts_with('?') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { text: text.to_owned(), origin: format!("{scheme}://{authority}"), path })
    }

    /// Creates the identifier of a resource from the host that a client on the same machine uses. Returns `None` for
    /// other hosts: they come from the sender, and decide to whom clients send users for authorization.
    fn of_loopback(scheme: &str, headers: &HeaderMap, uri: &Uri, path: &str) -> Option<Self> {
        let host = guard::host(headers, uri).filter(|host| is_loopback(host))?;
        Self::parse(&format!("{scheme}://{host}{path}")).ok()
    }

    /// Returns the URL of the metadata: the well-known path is inserted before the path of the resource.
    fn metadata_url(&self) -> String {
        format!("{}{WELL_KNOWN}{}", self.origin, self.path)
    }
}

/// Checks that a URL is absolute, has no fragment, and uses https unless its host is a loopback address.
fn check_url(what: &str, text: &str) -> Result<Uri, String> {
    let invalid = |why: &str| format!("the {what} `{text}` is invalid: {why}");
    let uri: Uri = text.parse().map_err(|error| invalid(&format!("{error}")))?;
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err(invalid("expected an absolute URL, such as `https://mcp.example.com/mcp`"));
    };
    if text.contains('#') {
        return Err(invalid("expected a URL without a fragment"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(invalid("expected a URL without credentials"));
    }
    match scheme {
        "https" => Ok(uri),
        "http" if is_loopback(host) => Ok(uri),
        _ => Err(invalid("expected `https`; `http` is only allowed on loopback addresses")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_well_known_path_precedes_that_of_the_resource() {
        for (resource, expected) in [
            ("https://mcp.example.com", "https://mcp.example.com/.well-known/oauth-protected-resource"),
            ("https://mcp.example.com/", "https://mcp.example.com/.well-known/oauth-protected-resource"),
            ("https://a.example/?team=1", "https://a.example/.well-known/oauth-protected-resource?team=1"),
            ("https://a.example?team=1", "https://a.example/.well-known/oauth-protected-resource?team=1"),
            ("https://mcp.example.com/mcp", "https://mcp.example.com/.well-known/oauth-protected-resource/mcp"),
            ("https://a.example:8443/b/mcp/", "https://a.example:8443/.well-known/oauth-protected-resource/b/mcp/"),
            ("https://a.example/mcp?team=1", "https://a.example/.well-known/oauth-protected-resource/mcp?team=1"),
            ("http://127.0.0.1:8080/mcp", "http://127.0.0.1:8080/.well-known/oauth-protected-resource/mcp"),
            ("http://[::1]:8080/mcp", "http://[::1]:8080/.well-known/oauth-protected-resource/mcp"),
        ] {
            assert_eq!(ResourceUrl::parse(resource).unwrap().metadata_url(), expected);
        }
    }

    #[test]
    fn an_identifier_is_an_absolute_https_url() {
        for (resource, expected) in [
            ("mcp.example.com", "expected an absolute URL"),
            ("/mcp", "expected an absolute URL"),
            ("https://mcp.example.com#fragment", "expected a URL without a fragment"),
            ("https://ada@mcp.example.com", "expected a URL without credentials"),
            ("http://mcp.example.com", "expected `https`"),
            ("ftp://mcp.example.com", "expected `https`"),
            ("https://mcp example.com", "invalid"),
            ("", "invalid"),
        ] {
            let problem = ResourceUrl::parse(resource).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn only_loopback_hosts_are_trusted() {
        for (host, expected) in [
            ("localhost:8080", Some("http://localhost:8080/mcp")),
            ("127.0.0.1", Some("http://127.0.0.1/mcp")),
            ("[::1]:80", Some("http://[::1]:80/mcp")),
            ("mcp.example.com", None),
            ("localhost.evil.example", None),
        ] {
            let headers = HeaderMap::from_iter([(http::header::HOST, http::HeaderValue::from_static(host))]);
            let found = ResourceUrl::of_loopback("http", &headers, &Uri::from_static("/mcp"), "/mcp");
            assert_eq!(found.map(|url| url.text).as_deref(), expected);
        }
    }
}
