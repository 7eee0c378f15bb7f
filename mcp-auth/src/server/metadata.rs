//! The metadata of the authorization server.
//!
//! See [RFC 8414](https://www.rfc-editor.org/rfc/rfc8414).

use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde_json::json;

use super::{identity_assertions, inner::Inner, reply};
use crate::jose::Algorithm;

/// The path at which the metadata is served, alone or followed by the path of the issuer or of the resource.
const WELL_KNOWN: &str = "/.well-known/oauth-authorization-server";

/// Returns whether a path is that of the metadata.
///
/// Clients of 2025-03-26 discard the path of the MCP endpoint. Later ones insert the well-known part before the path of
/// the issuer, or before that of the endpoint if they do not find the metadata of the resource.
///
/// See [Authorization base URL](https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#authorization-base-url).
pub(super) fn serves(server: &Inner, path: &str) -> bool {
    let Some(rest) = path.strip_prefix(WELL_KNOWN) else { return false };
    let rest = rest.trim_end_matches('/');
    rest.is_empty() || [&server.options.issuer_path, &server.options.resource_path].iter().any(|own| *own == rest)
}

pub(super) fn respond(server: &Inner) -> Response<Bytes> {
    let options = &server.options;
    let endpoints = &options.endpoints;
    let has_machines = server.clients.configured.iter().any(|client| client.machine_scopes.is_some());
    let mut grants = vec!["authorization_code", "refresh_token"];
    if has_machines {
        grants.push("client_credentials");
    }
    if options.identity_assertions {
        grants.push(identity_assertions::GRANT_TYPE);
    }
    let mut methods = vec!["none", "client_secret_basic", "client_secret_post"];
    let accepts_assertions = server.clients.accepts_assertions();
    if accepts_assertions {
        methods.push("private_key_jwt");
    }
    let mut metadata = json!({
        "issuer": options.issuer,
        "authorization_endpoint": options.url(&endpoints.authorization),
        "token_endpoint": options.url(&endpoints.token),
        "revocation_endpoint": options.url(&endpoints.revocation),
        "introspection_endpoint": options.url(&endpoints.introspection),
        "pushed_authorization_request_endpoint": options.url(&endpoints.pushed_authorization),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": grants,
        "token_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_methods_supported": methods,
        "introspection_endpoint_auth_methods_supported": methods[1..],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
        "client_id_metadata_document_supported": server.clients.documents.is_enabled(),
        "protected_resources": [options.resource],
    });
    if accepts_assertions {
        for endpoint in ["token", "revocation", "introspection"] {
            metadata[format!("{endpoint}_endpoint_auth_signing_alg_values_supported")] = json!(Algorithm::names());
        }
    }
    if options.identity_assertions {
        metadata["authorization_grant_profiles_supported"] = json!([identity_assertions::PROFILE]);
    }
    if server.proofs.is_some() {
        metadata["dpop_signing_alg_values_supported"] = json!(Algorithm::names());
    }
    if options.registration {
        metadata["registration_endpoint"] = json!(options.url(&endpoints.registration));
    }
    if !options.scopes.is_empty() {
        metadata["scopes_supported"] = json!(options.scopes.iter().map(|(name, _)| name).collect::<Vec<_>>());
    }
    let mut response = reply::json(StatusCode::OK, &metadata);
    reply::set(&mut response, header::CACHE_CONTROL, "public, max-age=300");
    response
}
