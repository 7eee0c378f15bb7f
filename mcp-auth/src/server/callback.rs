//! The return of the user from the provider.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use mcp_runtime::backend::RecordCondition;
use serde_json::Value;

use super::{
    approvals,
    authorize::{BROWSER, Pending, continue_or_fail, cookie_of},
    client::{Client, ClientSource},
    codes::{self, AuthorizationRequest, Code},
    inner::Inner,
    login::{Login, UpstreamError},
    oauth_error::OAuthError,
    page,
    parameters::{Parameters, with_parameters},
    random, reply,
    seal::Purpose,
    users,
};
use crate::json::excerpt;

/// The time for which the state of a login that has ended is remembered: longer than a login can take.
const USED_LIFETIME: Duration = Duration::from_secs(11 * 60);

/// Handles the response of the provider.
pub(super) async fn handle(server: &Inner, query: &str, headers: &HeaderMap) -> Response<Bytes> {
    let refuse = |why| page::error(StatusCode::BAD_REQUEST, why);
    let Ok(parameters) = Parameters::parse(query.as_bytes()) else { return refuse("The response is malformed.") };
    let Some(state) = parameters.get("state") else { return refuse("The response is of no login.") };
    let cookie = cookie_of(state);
    let pending = server.cookies.get(headers, &cookie);
    let pending: Option<Pending> = pending.and_then(|sealed| server.sealer.open_text(Purpose::Login, sealed));
    let Some(pending) = pending.filter(|pending| pending.attempt.state == state) else {
        return refuse("The login was not started in this browser, or it has ended already.");
    };
    if pending.expires <= server.clock.unix() {
        return refuse("The login took too long.");
    }
    let is_same_browser =
        server.cookies.get(headers, BROWSER).is_some_and(|browser| random::hash(browser) == pending.browser);
    if !is_same_browser {
        return refuse("The login was not started in this browser.");
    }
    let result = finish(server, &parameters, &pending).await;
    let mut response = continue_or_fail(server, &pending.request, result);
    server.cookies.set(&mut response, &cookie, "", 0);
    response
}

async fn finish(server: &Inner, parameters: &Parameters<'_>, pending: &Pending) -> Result<Response<Bytes>, OAuthError> {
    let request = &pending.request;
    let login = log_in(server, parameters, pending).await?;
    // The provider accepts a code once, so only a login that succeeded needs to be remembered.
    let state = random::hash(&pending.attempt.state);
    if !server.store.set("login", &state, RecordCondition::Absent, &(), USED_LIFETIME).await? {
        return Err(OAuthError::new("invalid_request", "the login has ended already"));
    }
    if !server.options.admits(&Value::Object(login.claims.clone())) {
        return Err(OAuthError::new("access_denied", "the user may not use this server"));
    }
    if pending.is_remembered {
        if !approvals::use_silently(server, &pending.browser, &login.subject, request).await? {
            // Another user has logged in, who has not been asked.
            approvals::forget(server, &pending.browser).await?;
            return Ok(reply::redirect(&restart_url(server, request)));
        }
    } else if !users::admit_login(server, &login.subject).await? {
        return Err(OAuthError::new("temporarily_unavailable", "the user has logged in too often within an hour"));
    }
    let client = server.clients.find(&request.client).await?;
    if !pending.is_remembered && Client::may_be_remembered(&request.redirect_uri) {
        approvals::remember(server, &pending.browser, &login.subject, request).await?;
    }
    let lifetime = server.options.registration_lifetime();
    if client.source == ClientSource::Registered {
        server.clients.prolong(client, &login.subject, lifetime).await?;
        if let Some(oldest) = users::add_client(server, &login.subject, &request.client, lifetime).await? {
            server.clients.shorten(&oldest, &login.subject).await?;
        }
    }
    let code = random::token()?;
    let expires = server.clock.unix() + codes::CODE_LIFETIME.as_secs_f64();
    let Login { subject, claims, tokens } = login;
    let issued = Code { request: request.clone(), subject, claims, tokens, expires };
    codes::insert(server, &code, issued).await?;
    let mut response = vec![("code", code.as_str())];
    response.extend(request.state.as_deref().map(|state| ("state", state)));
    response.push(("iss", &server.options.issuer));
    Ok(reply::redirect(&with_parameters(&request.redirect_uri, &response)))
}

/// Exchanges the code of the provider.
async fn log_in(server: &Inner, parameters: &Parameters<'_>, pending: &Pending) -> Result<Login, OAuthError> {
    if !server.upstream.accepts_issuer(parameters.get("iss")) {
        tracing::warn!("the response to a login states another issuer than that of the provider");
        return Err(OAuthError::new("server_error", "the login has failed"));
    }
    if let Some(error) = parameters.get("error") {
        let reason = excerpt(&Value::from(error));
        tracing::info!(reason, "the provider has ended a login");
        return Err(match error {
            "access_denied" => OAuthError::new("access_denied", "the user or the provider has refused"),
            "temporarily_unavailable" => OAuthError::new("temporarily_unavailable", "the provider is unavailable"),
            _ => OAuthError::new("server_error", "the login has failed"),
        });
    }
    let code = parameters.get("code").unwrap_or_default();
    let login =
        server.upstream.exchange(code, &pending.attempt, &server.options.callback_url(), server.clock.unix()).await;
    let login = login.map_err(|error| {
        tracing::warn!(%error, "a login at the provider has failed");
        match error {
            UpstreamError::Refused(_) => OAuthError::new("server_error", "the login has failed"),
            UpstreamError::Unavailable(_) => OAuthError::new("temporarily_unavailable", "the provider is unavailable"),
        }
    })?;
    if login.subject.len() > 255 || login.subject.starts_with(codes::MACHINE) {
        return Err(OAuthError::new("server_error", "the name of the user is not usable"));
    }
    Ok(login)
}

/// Returns the URL of an authorization request.
fn restart_url(server: &Inner, request: &AuthorizationRequest) -> String {
    let scope = request.scopes.join(" ");
    let mut parameters = vec![
        ("response_type", "code"),
        ("client_id", request.client.as_str()),
        ("redirect_uri", &request.redirect_uri),
        ("code_challenge", &request.challenge),
        ("code_challenge_method", "S256"),
        ("scope", &scope),
    ];
    parameters.extend(request.state.as_deref().map(|state| ("state", state)));
    with_parameters(&server.options.url(&server.options.endpoints.authorization), &parameters)
}
