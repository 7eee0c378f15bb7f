//! The metadata of the protected resource, by which clients find out who issues tokens for it.
//!
//! See [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728).

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use serde_json::{Map, Value, json};

use super::resource_url::WELL_KNOWN;
use crate::{
    auth::{OFFLINE_ACCESS, ProtectedResource},
    engine::Engine,
    transport::http::{
        endpoint::Endpoint,
        response::{self, HttpResponse},
    },
};

/// Returns whether a path is that of the metadata of some resource.
pub(super) fn serves(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Responds to a request for metadata. Every web page may read it, since it is public.
pub(super) fn respond<B>(endpoint: &Endpoint, request: &Request<B>) -> HttpResponse {
    let mut response = match *request.method() {
        Method::GET | Method::HEAD => metadata(endpoint, request.uri(), request.headers()),
        Method::OPTIONS => preflight(),
        _ => response::method_not_allowed("GET, HEAD, OPTIONS"),
    };
    response::set(&mut response, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*");
    response
}

fn metadata(endpoint: &Endpoint, uri: &Uri, headers: &HeaderMap) -> HttpResponse {
    let not_found = || response::invalid_request(StatusCode::NOT_FOUND, "no metadata of a protected resource here");
    let Some(authorization) = endpoint.authorization() else { return not_found() };
    let path = &endpoint.options().path;
    let Some(resource) = authorization.resource_url(path, headers, uri) else { return not_found() };
    let asked = uri.path().strip_prefix(WELL_KNOWN).unwrap_or_default().trim_end_matches('/');
    let own = [resource.path.split('?').next().unwrap_or_default(), path.as_str()];
    if !asked.is_empty() && !own.iter().any(|own| own.trim_end_matches('/') == asked) {
        return not_found();
    }
    let metadata = describe(authorization.resource(), &resource.text, endpoint.engine());
    let mut response = response::json(StatusCode::OK, metadata.to_string());
    response::set(&mut response, header::CACHE_CONTROL, "public, max-age=300");
    response
}

/// Responds to a CORS preflight request: browsers send one if the client adds a header such as `MCP-Protocol-Version`.
fn preflight() -> HttpResponse {
    let mut response = response::empty(StatusCode::NO_CONTENT);
    response::set(&mut response, header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD");
    response::set(&mut response, header::ACCESS_CONTROL_ALLOW_HEADERS, "*, mcp-protocol-version");
    response.headers_mut().insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(3600));
    response
}

/// Returns the metadata of the resource with this identifier.
fn describe(resource: &ProtectedResource, identifier: &str, engine: &Engine) -> Value {
    let mut metadata: Map<_, _> = resource.members().clone().into_iter().collect();
    metadata.insert("resource".to_owned(), json!(identifier));
    metadata.insert("authorization_servers".to_owned(), json!(resource.authorization_servers()));
    let scopes = resource.supported_scopes().map_or_else(|| required_scopes(engine), <[_]>::to_vec);
    let scopes: Vec<_> = scopes.into_iter().filter(|scope| scope != OFFLINE_ACCESS).collect();
    // Empty lists are omitted.
    if !scopes.is_empty() {
        metadata.insert("scopes_supported".to_owned(), json!(scopes));
    }
    let takes_bearer_tokens = resource.challenges().is_empty()
        || resource.challenges().iter().any(|challenge| challenge.scheme().eq_ignore_ascii_case("bearer"));
    let methods: &[&str] = if takes_bearer_tokens { &["header"] } else { &[] };
    metadata.entry("bearer_methods_supported").or_insert_with(|| json!(methods));
    Value::Object(metadata)
}

/// Returns every scope that requests or functions of a server require, sorted.
fn required_scopes(engine: &Engine) -> Vec<String> {
    let registry = engine.registry();
    let functions = registry.functions().filter_map(|(function, _)| function.scopes.as_deref());
    let names = functions.chain([&engine.profile.access.base]).flat_map(|scopes| scopes.names());
    names.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}
