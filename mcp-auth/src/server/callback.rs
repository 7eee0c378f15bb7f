//! The return of the user from the provider.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use mcp_runtime::backend::{BackendError, RecordCondition};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    account, approvals,
    audit::Event,
    authorize::{
        ACCOUNT_LOGIN, BROWSER, Pending, check_page, continue_or_fail, cookie_of, find_client, refuse, refused,
    },
    client::{Client, ClientSource},
    codes::{self, AuthorizationRequest, Code},
    inner::Inner,
    login::{Login, UpstreamError, session_of},
    logout,
    oauth_error::OAuthError,
    page::{self, FormPage},
    parameters::{Parameters, Sender, with_parameters},
    random, reply,
    seal::Purpose,
    users,
};
use crate::json::excerpt;

/// The time for which the state of a login that has ended is remembered: longer than a login can take.
const USED_LIFETIME: Duration = Duration::from_secs(11 * 60);

/// A response of the provider that the user confirms on a page of this server.
#[derive(Serialize, Deserialize)]
struct Confirmation {
    query: String,
    /// The hash of the cookie of the browser, without which no answer is accepted.
    browser: String,
    /// Seconds since the Unix epoch.
    expires: f64,
}

/// Handles the response of the provider.
pub(super) async fn handle(server: &Inner, query: &str, sender: Sender<'_>) -> Response<Bytes> {
    let refuse = |why| refuse(sender.peer, None, StatusCode::BAD_REQUEST, why);
    let Ok(parameters) = Parameters::parse(query.as_bytes()) else { return refuse("The response is malformed.") };
    let pending = match pending(server, &parameters, sender) {
        Ok(pending) => pending,
        Err(why) => return refuse(why),
    };
    match &pending.request {
        None => {
            let login = log_in_once(server, &parameters, &pending).await;
            let mut response = account::show(server, login, &pending.browser, sender).await;
            server.cookies.set(&mut response, &pending.cookie(), "", 0);
            response
        }
        Some(_) if !server.cookies.is_secure && parameters.get("error").is_some() => {
            let mut response = refuse("The login at the provider has failed.");
            server.cookies.set(&mut response, &pending.cookie(), "", 0);
            response
        }
        // A page of another port may have set the cookies of a login that was approved elsewhere.
        Some(request) if !server.cookies.is_secure => {
            // Not a redirect, since the user has not confirmed anything.
            ask(server, query, request, &pending, sender).await.unwrap_or_else(|error| {
                super::authorize::refuse(sender.peer, Some(&request.client), error.status, &error.description)
            })
        }
        Some(request) => complete(server, &parameters, &pending, request, sender).await,
    }
}

/// Returns the page on which the user confirms the response of the provider.
async fn ask(
    server: &Inner,
    query: &str,
    request: &AuthorizationRequest,
    pending: &Pending,
    sender: Sender<'_>,
) -> Result<Response<Bytes>, OAuthError> {
    let client = find_client(server, &request.client, sender.peer).await?;
    let (query, browser) = (query.to_owned(), pending.browser.clone());
    let confirmation = Confirmation { query, browser, expires: pending.expires };
    let sealed = server.sealer.seal_text(Purpose::Confirmation, &confirmation)?;
    let nonce = page::nonce()?;
    let options = &server.options;
    let page = FormPage {
        service: &options.service_name,
        action: &options.endpoints.authorization,
        style: options.style.as_deref(),
        sealed: &sealed,
        nonce: &nonce,
    };
    let html = page::confirmation(&page, &client, &request.redirect_uri);
    Ok(reply::html(StatusCode::OK, &nonce, html))
}

/// Handles the answer of the user on that page.
pub(super) async fn confirm(
    server: &Inner,
    sealed: &str,
    form: &Parameters<'_>,
    sender: Sender<'_>,
) -> Response<Bytes> {
    let refuse = |why| refuse(sender.peer, None, StatusCode::BAD_REQUEST, why);
    let confirmation = server.sealer.open_text(Purpose::Confirmation, sealed);
    let Some(Confirmation { query, browser, expires }) = confirmation else {
        return refuse("The answer is malformed.");
    };
    if let Err(why) = check_page(server, &browser, expires, sender) {
        return refuse(why);
    }
    let Ok(parameters) = Parameters::parse(query.as_bytes()) else { return refuse("The response is malformed.") };
    match pending(server, &parameters, sender) {
        Ok(pending) => match &pending.request {
            Some(request) if form.get("decision") == Some("approve") => {
                complete(server, &parameters, &pending, request, sender).await
            }
            Some(request) => {
                // A page of another port may have set the cookies, and could set them again.
                let error = match end(server, &pending).await {
                    Ok(_) => OAuthError::new("access_denied", "the user has refused"),
                    Err(error) => error.into(),
                };
                let mut response = refused(server, request, error, sender.peer).await;
                server.cookies.set(&mut response, &pending.cookie(), "", 0);
                response
            }
            None => refuse("The answer is malformed."),
        },
        Err(why) => refuse(why),
    }
}

/// Returns the login of this browser that a response of the provider belongs to.
///
/// # Errors
///
/// Returns why there is none.
fn pending(server: &Inner, parameters: &Parameters<'_>, sender: Sender<'_>) -> Result<Pending, &'static str> {
    let state = parameters.get("state").ok_or("The response is of no login.")?;
    let get = |name: &str| server.cookies.get(sender.headers, name);
    let cookie = get(&cookie_of(state)).or_else(|| get(ACCOUNT_LOGIN));
    let pending: Option<Pending> = cookie.and_then(|sealed| server.sealer.open_text(Purpose::Login, sealed));
    let pending = pending.filter(|pending| pending.attempt.state == state);
    let pending = pending.ok_or("The login was not started in this browser, or it has ended already.")?;
    if pending.expires <= server.clock.unix() {
        return Err("The login took too long.");
    }
    let browser = server.cookies.get(sender.headers, BROWSER);
    if browser.is_none_or(|browser| random::hash(browser) != pending.browser) {
        return Err("The login was not started in this browser.");
    }
    Ok(pending)
}

async fn complete(
    server: &Inner,
    parameters: &Parameters<'_>,
    pending: &Pending,
    request: &AuthorizationRequest,
    sender: Sender<'_>,
) -> Response<Bytes> {
    let result = finish(server, parameters, pending, request, sender).await;
    let mut response = continue_or_fail(server, request, result, sender.peer);
    server.cookies.set(&mut response, &pending.cookie(), "", 0);
    response
}

/// Exchanges the code of the provider, and marks the login as ended, which it can once.
async fn log_in_once(server: &Inner, parameters: &Parameters<'_>, pending: &Pending) -> Result<Login, OAuthError> {
    // Marked first, so that repeated responses with invented codes cause no requests to the provider.
    if end(server, pending).await? {
        return log_in(server, parameters, pending).await;
    }
    Err(OAuthError::new("invalid_request", "the login has ended already"))
}

/// Marks a login as ended. Returns `false` if it has ended already.
async fn end(server: &Inner, pending: &Pending) -> Result<bool, BackendError> {
    let state = random::hash(&pending.attempt.state);
    server.store.set("login", &state, RecordCondition::Absent, &(), USED_LIFETIME).await
}

async fn finish(
    server: &Inner,
    parameters: &Parameters<'_>,
    pending: &Pending,
    request: &AuthorizationRequest,
    sender: Sender<'_>,
) -> Result<Response<Bytes>, OAuthError> {
    let login = log_in_once(server, parameters, pending).await?;
    let event = |name| {
        Event::new(name, sender.peer).principal(&server.options.issuer, &login.subject).client(request.client.as_str())
    };
    event("login").record();
    if !server.options.admits(&Value::Object(login.claims.clone())) {
        return Err(OAuthError::new("access_denied", "the user may not use this server"));
    }
    let Pending { browser, upstream_scopes, .. } = pending;
    if pending.is_remembered {
        if !approvals::use_silently(server, browser, &login.subject, request, upstream_scopes).await? {
            // Another user has logged in, who has not been asked, or the user has ended the access of the client meanwhile.
            users::forget_browser(server, browser).await?;
            return Ok(reply::redirect(&restart_url(server, request)));
        }
    } else if !users::admit_login(server, &login.subject).await? {
        return Err(OAuthError::new("temporarily_unavailable", "the user has logged in too often within an hour"));
    }
    let client = server.clients.find(&request.client, sender.peer).await?;
    if !pending.is_remembered {
        event("approval").record();
    }
    if !pending.is_remembered && Client::may_be_remembered(&request.redirect_uri) {
        approvals::remember(server, browser, &login.subject, request, upstream_scopes).await?;
    }
    let lifetime = server.options.registration_lifetime();
    if client.source == ClientSource::Registered {
        server.clients.prolong(client, &login.subject, lifetime).await?;
        if let Some(oldest) = users::add_client(server, &login.subject, &request.client, lifetime).await? {
            server.clients.shorten(&oldest, &login.subject).await?;
        }
    }
    if let Some(session) = session_of(&login.claims) {
        logout::add_session(server, session, &login.subject).await?;
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
    if !codes::is_user(&login.subject) {
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
    parameters.extend(request.key.as_deref().map(|key| ("dpop_jkt", key)));
    with_parameters(&server.options.url(&server.options.endpoints.authorization), &parameters)
}
