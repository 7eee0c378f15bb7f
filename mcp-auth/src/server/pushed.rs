//! Authorization requests that clients push before they send the user.
//!
//! See [RFC 9126](https://www.rfc-editor.org/rfc/rfc9126).

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use mcp_runtime::backend::Insertion;
use serde_json::json;

use super::{
    client::{Authentication, Client, ClientSource},
    codes::AuthorizationRequest,
    inner::Inner,
    oauth_error::OAuthError,
    random, reply,
    store::Limits,
};
use crate::shares::Peer;

/// The beginning of the `request_uri` of a pushed request.
pub(super) const PREFIX: &str = "urn:ietf:params:oauth:request_uri:";

/// The maximum number of requests that wait for their users, of an address or a configured client and in total, and the time
/// for which they do.
const LIMITS: Limits = Limits { per_account: 100, total: 1000, window: Duration::from_secs(60) };

/// The kinds of the records. Those of configured clients with credentials count apart, so that strangers do not displace them.
const KIND: &str = "pushed";
const CONFIGURED: &str = "pushed-configured";

fn kind(client: &Client) -> &'static str {
    let has_credentials = client.authentication != Authentication::None;
    if client.source == ClientSource::Configured && has_credentials { CONFIGURED } else { KIND }
}

/// Stores a request of a client. Returns the response to the client.
pub(super) async fn insert(
    server: &Inner,
    client: &Client,
    request: &AuthorizationRequest,
    peer: Peer,
) -> Result<Response<Bytes>, OAuthError> {
    let (id, kind) = (random::token()?, kind(client));
    let account = if kind == CONFIGURED { random::hash(&client.id) } else { server.clients.account_of(peer) };
    let inserted = server.store.insert_value(kind, &random::hash(&id), request, &account, LIMITS).await?;
    if let Insertion::Full { .. } = inserted {
        let error = OAuthError::new("temporarily_unavailable", "too many requests were pushed within a minute");
        return Err(OAuthError { status: StatusCode::TOO_MANY_REQUESTS, ..error });
    }
    let response = json!({"request_uri": format!("{PREFIX}{id}"), "expires_in": LIMITS.window.as_secs()});
    Ok(reply::json(StatusCode::CREATED, &response))
}

/// Returns the request of a client with this `request_uri`, once.
///
/// # Errors
///
/// Returns an error if there is none, or if the client may no longer send users to its redirect URI.
pub(super) async fn take(server: &Inner, uri: &str, client: &Client) -> Result<AuthorizationRequest, OAuthError> {
    let name = random::hash(uri.strip_prefix(PREFIX).unwrap_or_default());
    let is_own = |request: &AuthorizationRequest| request.client == client.id;
    let request = server.store.take(kind(client), &name, is_own).await?;
    request.filter(|request| client.allows_redirect(&request.redirect_uri)).ok_or_else(|| {
        OAuthError::new("invalid_request_uri", "The request of the client was opened before, or it has expired.")
    })
}
