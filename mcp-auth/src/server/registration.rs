//! Dynamic registration of clients.
//!
//! See [RFC 7591](https://www.rfc-editor.org/rfc/rfc7591).

use std::{sync::Once, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::{
    audit::Event,
    client::{self, Approvers, Authentication, Client, ClientSource, MAX_NAME, list, wants_refresh_tokens},
    inner::Inner,
    oauth_error::OAuthError,
    parameters::Sender,
    random, reply,
    store::Limits,
};
use crate::json::parse_object;

/// The maximum number of registrations of one address and in total, within the time after which an unused registration
/// expires.
const LIMITS: Limits = Limits { per_account: 20, total: 1000, window: Duration::from_secs(60 * 60) };

/// Registers a client.
pub(super) async fn register(server: &Inner, body: &[u8], sender: Sender<'_>) -> Result<Response<Bytes>, OAuthError> {
    let invalid = |description: &'static str| OAuthError::new("invalid_client_metadata", description);
    // Web pages can send other types without asking this server first.
    let media_type = sender.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()?.split(';').next());
    if !media_type.is_some_and(|found| found.trim().eq_ignore_ascii_case("application/json")) {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(OAuthError { status, ..invalid("the content type is not `application/json`") });
    }
    let clients = &server.clients;
    let metadata = parse_object(body).map_err(|_| invalid("expected a JSON object with unique names"))?;
    let (client, secret) = describe(&metadata)?;
    if !clients.store.count("registrations", &clients.account_of(sender.peer), LIMITS).await? {
        let error = OAuthError::new("temporarily_unavailable", "too many clients were registered within an hour");
        return Err(OAuthError { status: StatusCode::TOO_MANY_REQUESTS, ..error });
    }
    static DEPRECATED: Once = Once::new();
    DEPRECATED.call_once(|| {
        tracing::warn!(
            "a client was registered dynamically, which is deprecated since 2026-07-28 and may be removed from \
             revisions after 2027-07-28: clients should use client ID metadata documents instead"
        );
    });
    clients.register(&client).await?;
    Event::new("registration", sender.peer).client(client.id.as_str()).record();
    let mut grants = vec!["authorization_code"];
    if client.wants_refresh_tokens {
        grants.push("refresh_token");
    }
    let mut response = json!({
        "client_id": client.id,
        "redirect_uris": client.redirect_uris,
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": metadata.get("token_endpoint_auth_method").cloned().unwrap_or(json!("none")),
    });
    if let Some(name) = client.name {
        response["client_name"] = json!(name);
    }
    if client.is_dpop_bound && server.proofs.is_some() {
        response["dpop_bound_access_tokens"] = json!(true);
    }
    if let Some(secret) = secret {
        response["client_secret"] = json!(secret);
        // It expires with the registration, which each approval prolongs. A client would register again at a stated time,
        // and its users would log in again, although the registration may remain valid for months.
        response["client_secret_expires_at"] = json!(0);
    }
    Ok(reply::json(StatusCode::CREATED, &response))
}

/// Returns the client that metadata describe, and its secret. Members that have no effect, such as logos, are ignored.
fn describe(metadata: &Map<String, Value>) -> Result<(Client, Option<String>), OAuthError> {
    let invalid = |description: &'static str| OAuthError::new("invalid_client_metadata", description);
    let redirect_uris = client::redirect_uris(metadata)?;
    if list(metadata, "response_types").is_some_and(|types| types != ["code"]) {
        return Err(invalid("`response_types` must be [\"code\"]"));
    }
    if list(metadata, "grant_types").is_some_and(|types| !types.contains(&"authorization_code")) {
        return Err(invalid("`grant_types` must contain `authorization_code`"));
    }
    let secret = match metadata.get("token_endpoint_auth_method").map(Value::as_str) {
        None | Some(Some("none")) => None,
        Some(Some("client_secret_basic" | "client_secret_post")) => Some(random::token()?),
        _ => return Err(invalid("the authentication method is not supported")),
    };
    let name = match metadata.get("client_name") {
        None => None,
        Some(Value::String(name)) => Some(name.chars().take(MAX_NAME).collect()),
        Some(_) => return Err(invalid("`client_name` must be a string")),
    };
    let client = Client {
        id: random::token()?,
        name,
        redirect_uris,
        authentication: secret
            .as_deref()
            .map_or(Authentication::None, |secret| Authentication::Secret(random::hash(secret))),
        wants_refresh_tokens: wants_refresh_tokens(metadata),
        is_dpop_bound: client::is_dpop_bound(metadata).map_err(invalid)?,
        machine_scopes: None,
        source: ClientSource::Registered,
        approvers: Approvers::None,
    };
    Ok((client, secret))
}
