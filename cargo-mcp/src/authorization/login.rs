//! Logging in to a server.

use std::time::Duration;

use reqwest::header::WWW_AUTHENTICATE;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
};
use url::{Host, Url};

use super::{
    browser::{Callback, parameter},
    store::TokenStore,
};
use crate::failure::Failure;

/// The time for the server to respond with its challenge.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// How to log in.
#[derive(Clone, Debug)]
pub(crate) struct Login<'a> {
    pub(crate) url: &'a str,
    /// The scopes to request. If there are none, those that the server asks for.
    pub(crate) scopes: &'a [String],
    /// The id of a client that is registered already.
    pub(crate) client_id: Option<&'a str>,
    /// The URL of the client's metadata document.
    pub(crate) client_metadata: Option<&'a str>,
    /// The port to which the browser is redirected; 0 for any.
    pub(crate) port: u16,
    pub(crate) limit: Duration,
}

/// Discovers the authorization server, registers if necessary, asks the user, and stores the tokens. Returns the granted
/// scopes.
///
/// # Errors
///
/// Fails if the server requires no authorization or cannot be reached, if the authorization server refuses, or if
/// nobody logs in.
pub(crate) async fn login(login: &Login<'_>) -> Result<Vec<String>, Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    if !is_secure(login.url) {
        return Err(Failure::usage(format_args!("anybody on the way could read the tokens for `{}`", login.url))
            .help("use an `https` URL; `http` is accepted for servers on this machine"));
    }
    let failed = |error: AuthError| authorization_failure(login.url, &error);
    let challenge = challenge(login.url).await?;
    let store = TokenStore::of(login.url)?;
    let callback = Callback::listen(login.port).await.map_err(|error| {
        Failure::usage(format_args!("cannot listen on port {}: {error}", login.port)).help("`--port` chooses another")
    })?;

    let mut manager = AuthorizationManager::new_allowing_private_addresses(login.url).await.map_err(failed)?;
    manager.set_credential_store(store.clone());
    let resolution = manager.resolve_metadata_from_challenge(challenge.as_deref()).await.map_err(failed)?;
    check_endpoints(&resolution.metadata).map_err(failed)?;
    manager.set_metadata(resolution.metadata);
    let mut request = AuthorizationRequest::new(callback.redirect_uri())
        .with_client_name("cargo mcp")
        .with_scopes(login.scopes)
        .with_initial_scope_selection();
    if let Some(id) = login.client_id {
        request = request.with_preregistered_client(id);
    }
    if let Some(url) = login.client_metadata {
        request = request.with_client_metadata_url(url);
    }
    let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| failed(error))?;
    let redirected = callback
        .authorize(session.get_authorization_url(), login.limit)
        .await
        .map_err(|error| Failure::connection(format_args!("cannot log in to `{}`: {error}", login.url)))?;
    finish(&session, &redirected).await.map_err(failed)?;
    let stored = store.get().ok().flatten();
    Ok(stored.map(|stored| stored.granted_scopes).unwrap_or_default())
}

/// Checks that the endpoints to which the user and the tokens are sent are those of a website. A server could otherwise
/// make the browser open a file or start a program, or make the client send codes and tokens without encryption.
///
/// # Errors
///
/// Fails if an endpoint uses neither `https` nor `http` on this machine.
pub(super) fn check_endpoints(metadata: &AuthorizationMetadata) -> Result<(), AuthError> {
    for (name, url) in [("authorization", &metadata.authorization_endpoint), ("token", &metadata.token_endpoint)] {
        if !is_secure(url) {
            let message =
                format!("the {name} endpoint of the authorization server is `{url}`, expected an `https` URL");
            return Err(AuthError::MetadataError(message));
        }
    }
    Ok(())
}

/// Returns whether a URL uses `https`, or `http` on this machine.
fn is_secure(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    url.scheme() == "https" || (url.scheme() == "http" && is_local)
}

/// Exchanges the code of an authorization response for tokens, which the manager stores.
///
/// # Errors
///
/// Fails if the response is an error or belongs to another issuer, or if the authorization server rejects the code.
pub(super) async fn finish(session: &AuthorizationSession, redirected: &Url) -> Result<(), AuthError> {
    if let Some(error) = parameter(redirected.as_str(), "error") {
        let description = parameter(redirected.as_str(), "error_description");
        let description = description.map(|text| format!(" ({text})")).unwrap_or_default();
        return Err(AuthError::AuthorizationFailed(format!("{error}{description}")));
    }
    session.handle_callback_url(redirected.as_str()).await.map(drop)
}

/// Describes why a user is not authorized.
pub(super) fn authorization_failure(url: &str, error: &AuthError) -> Failure {
    let failure = Failure::connection(format_args!("cannot log in to `{url}`: {error}"));
    match error {
        AuthError::RegistrationFailed(_) => failure.help(
            "if the authorization server does not register clients by itself, register one and pass its `--client-id`",
        ),
        AuthError::CredentialStoreError(_) => failure.help("repair the file, or remove it and log in again"),
        _ => failure,
    }
}

/// Sends a request without a token. Returns the challenge of the response, if it contains one.
async fn challenge(url: &str) -> Result<Option<String>, Failure> {
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PROBE_TIMEOUT)
        .build()
        .map_err(Failure::connection)?;
    // Valid in every revision, and without effect.
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let request = client
        .post(url)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(body);
    let response = request.send().await.map_err(|error| {
        Failure::connection(format_args!("cannot reach `{url}`: {}", error.without_url()))
            .help("check that the server is running and that the address and path are correct; many servers use `/mcp`")
    })?;
    if response.status() != reqwest::StatusCode::UNAUTHORIZED {
        return Err(Failure::usage(format_args!(
            "`{url}` does not ask for authorization: it responded with HTTP {}",
            response.status().as_u16()
        ))
        .help("check the path, or call it without logging in"));
    }
    let challenge = response.headers().get(WWW_AUTHENTICATE);
    Ok(challenge.and_then(|value| value.to_str().ok()).map(str::to_owned))
}
