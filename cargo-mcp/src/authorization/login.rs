//! Logging in to a server.

use std::{error::Error as _, time::Duration};

use reqwest::header::WWW_AUTHENTICATE;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataResolution, AuthorizationRequest,
    AuthorizationSession,
};
use url::Url;

use super::{
    browser::{Callback, parameter},
    challenge::{Challenge, parse},
    http::{is_secure, manager},
    store::TokenStore,
};
use crate::{failure::Failure, http_client::http_client, output::escape_line, raw_connection::root_cause, target::url};

/// The time for the server to respond with its challenge.
const PROBE_TIMEOUT: Duration = Duration::from_secs(30);

/// How to log in.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Login {
    /// URL of the server
    #[arg(value_parser = url)]
    pub(crate) url: String,
    /// Scope to request (may be repeated) [default: those that the server asks for]
    #[arg(long, value_name = "SCOPE")]
    scope: Vec<String>,
    /// Id of a client that is registered with the authorization server
    #[arg(long, value_name = "ID", conflicts_with = "client_metadata")]
    client_id: Option<String>,
    /// URL of a metadata document that describes the client
    #[arg(long, value_name = "URL", value_parser = url)]
    client_metadata: Option<String>,
    /// Port on this machine to which the browser is redirected; 0 for any
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Seconds to wait until you have logged in
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
}

/// Discovers the authorization server, registers if necessary, asks the user, and stores the tokens. Returns the granted
/// scopes.
///
/// # Errors
///
/// Fails if the server requires no authorization or cannot be reached, if the authorization server refuses, or if the
/// user does not log in.
pub(crate) async fn login(login: &Login) -> Result<Vec<String>, Failure> {
    if !Url::parse(&login.url).is_ok_and(|url| is_secure(&url)) {
        return Err(Failure::usage(format_args!("anybody on the way could read the tokens for `{}`", login.url))
            .help("use an `https` URL; `http` is accepted for servers on this machine"));
    }
    let failed = |error: AuthError| authorization_failure(&login.url, &error);
    let challenge = challenge(&login.url).await?;
    let store = TokenStore::of(&login.url)?;
    let callback = Callback::listen(login.port).await.map_err(|error| {
        Failure::usage(format_args!("cannot listen on port {}: {error}", login.port)).help("`--port` chooses another")
    })?;

    let mut manager = manager(&login.url, store.clone()).await.map_err(failed)?;
    let metadata = discover(&mut manager, challenge.as_deref()).await.map_err(failed)?;
    let mut request = AuthorizationRequest::new(&*callback.redirect_uri)
        .with_client_name("cargo mcp")
        .with_scopes(&login.scope)
        .with_initial_scope_selection();
    if let Some(id) = &login.client_id {
        request = request.with_preregistered_client(id);
    }
    if let Some(url) = &login.client_metadata {
        request = request.with_client_metadata_url(url);
    }
    let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| failed(error))?;
    let redirected = callback
        .authorize(session.get_authorization_url(), Duration::from_secs(login.timeout))
        .await
        .map_err(|error| Failure::connection(format_args!("cannot log in to `{}`: {error}", login.url)))?;
    finish(&session, metadata, &redirected).await.map_err(failed)?;
    let stored = store.get().ok().flatten();
    Ok(stored.map(|stored| stored.granted_scopes).unwrap_or_default())
}

/// Finds the authorization server of a server. Returns its metadata.
///
/// # Errors
///
/// Fails if it announces no PKCE, or if an endpoint to which the user and the tokens are sent is not that of a website: a
/// server could otherwise make the browser open a file or start a program, or make the client send codes and tokens
/// without encryption.
pub(super) async fn discover(
    manager: &mut AuthorizationManager,
    challenge: Option<&str>,
) -> Result<AuthorizationMetadata, AuthError> {
    let AuthorizationMetadataResolution { metadata, source, .. } =
        manager.resolve_metadata_from_challenge(challenge).await?;
    for (name, url) in [("authorization", &metadata.authorization_endpoint), ("token", &metadata.token_endpoint)] {
        if !Url::parse(url).is_ok_and(|url| is_secure(&url)) {
            let message =
                format!("the {name} endpoint of the authorization server is `{url}`, expected an `https` URL");
            return Err(AuthError::MetadataError(message));
        }
    }
    let has_pkce = |methods: &Vec<String>| methods.iter().any(|method| method == "S256");
    // Without metadata, the endpoints are the defaults of 2025-03-26, which requires PKCE.
    if source.is_discovered() && !metadata.code_challenge_methods_supported.as_ref().is_some_and(has_pkce) {
        return Err(AuthError::PkceUnsupported);
    }
    manager.set_metadata(metadata.clone());
    Ok(metadata)
}

/// Checks that an authorization server is the server at which the client is registered. Another server must receive
/// neither its refresh tokens nor its codes. A server without metadata, which is its own authorization server, has no
/// issuer.
pub(super) fn check_issuer(known: Option<String>, found: Option<String>) -> Result<(), AuthError> {
    if found == known {
        return Ok(());
    }
    let [expected_issuer, received_issuer] = [known, found].map(|issuer| issuer.unwrap_or_else(|| "none".to_owned()));
    Err(AuthError::AuthorizationServerMismatch { expected_issuer, received_issuer })
}

/// Exchanges the code of an authorization response for tokens, which the manager stores.
///
/// # Errors
///
/// Fails if the response is an error or belongs to another issuer, or if the authorization server rejects the code.
pub(super) async fn finish(
    session: &AuthorizationSession,
    metadata: AuthorizationMetadata,
    redirected: &Url,
) -> Result<(), AuthError> {
    // Another server chooses the text of its errors, which must not be shown.
    let issuer = parameter(redirected.as_str(), "iss");
    let is_advertised = metadata.additional_fields.get("authorization_response_iss_parameter_supported");
    if issuer.is_some() || is_advertised.is_some_and(|value| value == true) {
        check_issuer(metadata.issuer, issuer)?;
    }
    if let Some(error) = parameter(redirected.as_str(), "error") {
        let description = parameter(redirected.as_str(), "error_description");
        let description = description.map(|text| format!(" ({text})")).unwrap_or_default();
        return Err(AuthError::AuthorizationFailed(format!("{error}{description}")));
    }
    session.handle_callback_url(redirected.as_str()).await.map(drop)
}

/// Describes why a user is not authorized.
pub(super) fn authorization_failure(url: &str, error: &AuthError) -> Failure {
    let mut reason = escape_line(&error.to_string());
    if let Some(source) = error.source() {
        reason = format!("{reason}: {}", escape_line(&root_cause(source)));
    }
    let failure = Failure::connection(format_args!("cannot log in to `{url}`: {reason}"));
    match error {
        AuthError::RegistrationFailed(_) => failure.help(
            "if the authorization server does not register clients by itself, register one and pass its `--client-id`",
        ),
        AuthError::CredentialStoreError(_) => failure.help("repair the file, or remove it and log in again"),
        _ => failure,
    }
}

/// Sends a request without a token. Returns the header with a `Bearer` challenge, or else the first one.
async fn challenge(url: &str) -> Result<Option<String>, Failure> {
    // Valid in every revision, and without effect.
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let request = http_client()
        .map_err(Failure::connection)?
        .post(url)
        .timeout(PROBE_TIMEOUT)
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
    let values = response.headers().get_all(WWW_AUTHENTICATE);
    let headers: Vec<&str> = values.iter().flat_map(|value| value.to_str()).collect();
    let is_bearer = |challenge: Challenge| challenge.scheme.eq_ignore_ascii_case("Bearer");
    let bearer = headers.iter().find(|header| parse(header).into_iter().flatten().any(is_bearer));
    Ok(bearer.or(headers.first()).map(|header| (*header).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::check_issuer;

    #[test]
    fn tokens_belong_to_one_authorization_server() {
        for (stored, found, is_accepted) in [
            (Some("https://a"), Some("https://a"), true),
            (None, None, true),
            (Some("https://a"), Some("https://b"), false),
            (Some("https://a"), Some("https://a/"), false),
            (Some("https://a"), None, false),
            (None, Some("https://a"), false),
        ] {
            let [stored, found] = [stored, found].map(|issuer| issuer.map(str::to_owned));
            let result = check_issuer(stored.clone(), found.clone());
            assert_eq!(result.is_ok(), is_accepted, "{stored:?} {found:?}");
        }
    }
}
