//! The authorization endpoint: checks the request of a client, asks the user for consent, and sends the user to the
//! provider.

use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    approvals,
    audit::Event,
    client::{Client, ClientSource},
    codes::AuthorizationRequest,
    inner::Inner,
    login::Attempt,
    oauth_error::OAuthError,
    page::{self, ConsentPage},
    parameters::{Parameters, Sender, with_parameters},
    proofs, pushed, random, reply,
    seal::Purpose,
};
use crate::{shares::Peer, url::SecureUrl};

/// The time in which a user must decide and log in, in seconds.
pub(super) const MAX_DURATION: u64 = 10 * 60;

/// The maximum length of the `state` of a client in bytes. It is kept in a cookie while the user logs in.
const MAX_STATE: usize = 1024;

/// The maximum length of a cookie that all browsers accept, without its name and attributes.
const MAX_COOKIE: usize = 3900;

/// The maximum length of the cookies of all logins of a browser that are in progress. The oldest end first: with longer
/// cookies, the head of each request would be too long.
const MAX_LOGIN_COOKIES: usize = 2 * MAX_COOKIE;

/// The beginning of the names of these cookies.
const LOGIN: &str = "login-";

/// The name of the cookie of a login that leads to the account page. There is one in a browser, since every website can
/// start one.
pub(super) const ACCOUNT_LOGIN: &str = "account-login";

/// The time for which the cookie that identifies a browser is kept, in seconds.
pub(super) const BROWSER_LIFETIME: u64 = 30 * 24 * 60 * 60;

/// The name of the cookie that identifies a browser.
pub(super) const BROWSER: &str = "browser";

/// A request for which the user is asked for consent, in the form of the page.
#[derive(Serialize, Deserialize)]
struct Question {
    request: AuthorizationRequest,
    /// The hash of the cookie of the browser, without which no answer is accepted.
    browser: String,
    /// The scopes at the provider that the page shows.
    upstream_scopes: Vec<String>,
    /// Seconds since the Unix epoch.
    expires: f64,
}

/// A login that the user has begun, in a cookie.
#[derive(Serialize, Deserialize)]
pub(super) struct Pending {
    /// The request of a client. Absent if the user wants to see the account page.
    pub(super) request: Option<AuthorizationRequest>,
    /// The scopes that are requested at the provider.
    pub(super) upstream_scopes: Vec<String>,
    pub(super) attempt: Attempt,
    /// The hash of the cookie of the browser.
    pub(super) browser: String,
    /// Whether an earlier approval was used instead of asking the user.
    pub(super) is_remembered: bool,
    pub(super) expires: f64,
}

impl Pending {
    /// Returns the name of its cookie.
    pub(super) fn cookie(&self) -> String {
        if self.request.is_some() { cookie_of(&self.attempt.state) } else { ACCOUNT_LOGIN.to_owned() }
    }
}

/// Handles a request for authorization.
pub(super) async fn start(server: &Inner, query: &str, sender: Sender<'_>) -> Response<Bytes> {
    let (request, is_trusted) = match check(server, query, sender.peer).await {
        Ok(checked) => checked,
        Err(Rejection::Page(error)) => {
            error.record(sender.peer);
            return page::error(error.status, &error.description);
        }
        Err(Rejection::Redirect { redirect_uri, state, error, is_trusted }) => {
            error.record(sender.peer);
            let response = respond_with_error(server, &redirect_uri, state.as_deref(), &error);
            return if is_trusted { response } else { page::instead_of(&response, &error.description) };
        }
    };
    match ask(server, &request, sender).await {
        Err(error) if !is_trusted => {
            let error = error.of_client(&request.client);
            error.record(sender.peer);
            page::error(error.status, &error.description)
        }
        response => continue_or_fail(server, &request, response, sender.peer),
    }
}

/// Turns a failure into an authorization response.
pub(super) fn continue_or_fail(
    server: &Inner,
    request: &AuthorizationRequest,
    response: Result<Response<Bytes>, OAuthError>,
    peer: Peer,
) -> Response<Bytes> {
    response.unwrap_or_else(|error| {
        let error = error.of_client(&request.client);
        error.record(peer);
        respond_with_error(server, &request.redirect_uri, request.state.as_deref(), &error)
    })
}

/// Responds to a user who has refused. The redirect URI is followed only if it is trusted; otherwise, a page links to it.
pub(super) async fn refused(
    server: &Inner,
    request: &AuthorizationRequest,
    error: OAuthError,
    peer: Peer,
) -> Response<Bytes> {
    let why = error.description.clone();
    let response = continue_or_fail(server, request, Err(error), peer);
    let client = server.clients.find(&request.client, peer).await;
    let is_trusted = client.is_ok_and(|client| client.is_trusted_at(&request.redirect_uri));
    if is_trusted { response } else { page::instead_of(&response, &why) }
}

/// Refuses a request with a page.
pub(super) fn refuse(peer: Peer, client: Option<&str>, status: StatusCode, why: &str) -> Response<Bytes> {
    Event::new("refusal", peer).client(client).reason(why).record();
    page::error(status, why)
}

/// Why a request cannot be continued.
pub(super) enum Rejection {
    /// The user is told: the client or its redirect URI cannot be trusted.
    Page(OAuthError),
    /// The client is told. If it is not trusted, the user decides whether to go there: an attacker who registers a client
    /// could otherwise send users from this website to another one.
    ///
    /// See [RFC 9700, 4.11.2](https://www.rfc-editor.org/rfc/rfc9700#section-4.11.2).
    Redirect { redirect_uri: String, state: Option<String>, error: OAuthError, is_trusted: bool },
}

impl Rejection {
    /// Returns the error for a client that sends the request itself.
    fn into_error(self) -> OAuthError {
        match self {
            Self::Page(error) | Self::Redirect { error, .. } => error,
        }
    }

    fn of_client(self, id: &str) -> Self {
        match self {
            Self::Page(error) => Self::Page(error.of_client(id)),
            Self::Redirect { redirect_uri, state, error, is_trusted } => {
                Self::Redirect { redirect_uri, state, error: error.of_client(id), is_trusted }
            }
        }
    }
}

/// Returns the client of a browser's request. An unknown client is a bad request, since a browser cannot authenticate.
pub(super) async fn find_client(server: &Inner, id: &str, peer: Peer) -> Result<Client, OAuthError> {
    server.clients.find(id, peer).await.map_err(|error| {
        let status = if error.status == StatusCode::UNAUTHORIZED { StatusCode::BAD_REQUEST } else { error.status };
        OAuthError { status, ..error }
    })
}

/// Returns the request, and whether the user may be sent to the client without being asked.
async fn check(server: &Inner, query: &str, peer: Peer) -> Result<(AuthorizationRequest, bool), Rejection> {
    let to_user = |code, description: &'static str| Rejection::Page(OAuthError::new(code, description));
    let parameters = Parameters::parse(query.as_bytes()).map_err(|why| to_user("invalid_request", why))?;
    let id = parameters.get("client_id").ok_or_else(|| to_user("invalid_request", "The request names no client."))?;
    let client = find_client(server, id, peer).await.map_err(Rejection::Page)?;
    let checked = match parameters.get("request_uri").filter(|uri| uri.starts_with(pushed::PREFIX)) {
        Some(uri) => match pushed::take(server, uri, &client).await {
            Ok(request) => {
                let is_trusted = client.is_trusted_at(&request.redirect_uri);
                Ok((request, is_trusted))
            }
            Err(error) => Err(Rejection::Page(error)),
        },
        None => check_request(server, &client, &parameters),
    };
    checked.map_err(|error| error.of_client(&client.id))
}

/// Checks and stores a request that a client pushes before it sends the user.
pub(super) async fn push(server: &Inner, body: &[u8], sender: Sender<'_>) -> Result<Response<Bytes>, OAuthError> {
    let form = Parameters::parse(body).map_err(|why| OAuthError::new("invalid_request", why))?;
    let client = server.clients.authenticate(sender, &form).await?;
    let of_client = |error: OAuthError| error.of_client(&client.id);
    if form.get("request_uri").is_some() {
        return Err(of_client(OAuthError::new("invalid_request", "`request_uri` cannot be pushed")));
    }
    let checked = check_request(server, &client, &form);
    let (mut request, _) = checked.map_err(|rejection| of_client(rejection.into_error()))?;
    let path = &server.options.endpoints.pushed_authorization;
    let (proof, next_nonce) = proofs::check(server, path, false, sender).map_err(of_client)?;
    if let Some(key) = proofs::key(proof.as_ref())
        && request.key.replace(key.to_owned()).is_some_and(|stated| stated != key)
    {
        return Err(of_client(OAuthError::new("invalid_request", "`dpop_jkt` is not the key of the proof")));
    }
    // How many can be pushed bounds how many proofs are remembered.
    let mut response = pushed::insert(server, &client, &request, sender.peer).await.map_err(of_client)?;
    proofs::remember(server, proof.as_ref(), &client.id).await.map_err(of_client)?;
    reply::set_nonce(&mut response, next_nonce);
    Ok(response)
}

/// Checks the parameters of a request of a client.
fn check_request(
    server: &Inner,
    client: &Client,
    parameters: &Parameters<'_>,
) -> Result<(AuthorizationRequest, bool), Rejection> {
    let to_user = |code, description: &'static str| Rejection::Page(OAuthError::new(code, description));
    let redirect = match (parameters.get("redirect_uri"), client.redirect_uris.as_slice()) {
        (Some(requested), _) => requested,
        (None, [only]) => only,
        (None, _) => return Err(to_user("invalid_request", "The request has no redirect URI.")),
    };
    if !client.allows_redirect(redirect) {
        let why = "The client has not registered the redirect URI of the request.";
        return Err(to_user("invalid_request", why));
    }
    let state = parameters.get("state").map(str::to_owned);
    let request = check_parameters(server, parameters);
    let is_trusted = client.is_trusted_at(redirect);
    let to_client =
        |error| Rejection::Redirect { redirect_uri: redirect.to_owned(), state: state.clone(), error, is_trusted };
    if state.as_ref().is_some_and(|state| state.len() > MAX_STATE) {
        return Err(to_client(OAuthError::new("invalid_request", "`state` is too long")));
    }
    let (challenge, key, scopes) = request.map_err(to_client)?;
    let (client, redirect_uri) = (client.id.clone(), redirect.to_owned());
    Ok((AuthorizationRequest { client, redirect_uri, state, challenge, scopes, key }, is_trusted))
}

/// Returns the challenge, the thumbprint of the key of the client and the scopes of a request.
fn check_parameters(
    server: &Inner,
    parameters: &Parameters<'_>,
) -> Result<(String, Option<String>, Vec<String>), OAuthError> {
    if parameters.get("response_type") != Some("code") {
        return Err(OAuthError::new("unsupported_response_type", "`response_type` must be `code`"));
    }
    if parameters.get("response_mode").is_some_and(|mode| mode != "query") {
        return Err(OAuthError::new("invalid_request", "`response_mode` must be `query`"));
    }
    if parameters.get("request").is_some() || parameters.get("request_uri").is_some() {
        return Err(OAuthError::new("request_not_supported", "request objects are not supported"));
    }
    // Without a method, it would be `plain`.
    if parameters.get("code_challenge_method") != Some("S256") {
        return Err(OAuthError::new("invalid_request", "`code_challenge_method` must be `S256`"));
    }
    let challenge = parameters.get("code_challenge").filter(|challenge| is_challenge(challenge));
    let challenge = challenge.ok_or_else(|| OAuthError::new("invalid_request", "`code_challenge` is invalid"))?;
    let key = parameters.get("dpop_jkt").filter(|_| server.proofs.is_some());
    if key.is_some_and(|key| !is_challenge(key)) {
        return Err(OAuthError::new("invalid_request", "`dpop_jkt` is invalid"));
    }
    check_resource(server, parameters)?;
    Ok((challenge.to_owned(), key.map(str::to_owned), server.options.grantable_scopes(parameters.get("scope"))?))
}

/// Checks that a request is for this server.
///
/// See [RFC 8707](https://www.rfc-editor.org/rfc/rfc8707#section-2).
pub(super) fn check_resource(server: &Inner, parameters: &Parameters<'_>) -> Result<(), OAuthError> {
    let accepts = |resource: &str| server.audience.check(Some(&Value::from(resource))).is_ok();
    if parameters.all("resource").all(accepts) {
        return Ok(());
    }
    Err(OAuthError::new("invalid_target", "the server issues tokens only for its own resource"))
}

/// Returns whether a text is a SHA-256 hash in base64url.
fn is_challenge(text: &str) -> bool {
    text.len() == 43 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Asks the user, unless the same user has approved the client in this browser before.
async fn ask(
    server: &Inner,
    request: &AuthorizationRequest,
    sender: Sender<'_>,
) -> Result<Response<Bytes>, OAuthError> {
    let known = server.cookies.get(sender.headers, BROWSER).map(str::to_owned);
    if let Some(browser) = &known
        && approvals::are_remembered(server, &random::hash(browser), request).await?
    {
        return log_in(server, Some(request.clone()), random::hash(browser), true, sender);
    }
    let browser = known.map_or_else(random::token, Ok)?;
    let client = server.clients.find(&request.client, sender.peer).await?;
    let (client_name, redirect_host, is_local) = page::describe(&client, &request.redirect_uri);
    let question = Question {
        request: request.clone(),
        browser: random::hash(&browser),
        upstream_scopes: server.upstream.requested_scopes(&request.scopes),
        expires: server.clock.unix() + MAX_DURATION as f64,
    };
    let options = &server.options;
    let page = ConsentPage {
        service: options.service_name.clone(),
        client_name,
        client_url: (client.source == ClientSource::Document).then(|| client.id.clone()),
        is_configured: client.source == ClientSource::Configured,
        redirect_host,
        redirect_uri: request.redirect_uri.clone(),
        is_local,
        upstream_scopes: question.upstream_scopes.clone(),
        scopes: options.describe_scopes(&request.scopes),
        action: options.endpoints.authorization.clone(),
        request: server.sealer.seal_text(Purpose::Consent, &question)?,
        nonce: page::nonce()?,
        style: options.style.clone(),
    };
    let mut response = page::respond(&page, options.page.as_deref().map(|page| page as _));
    server.cookies.set(&mut response, BROWSER, &browser, BROWSER_LIFETIME);
    Ok(response)
}

/// Handles the answer of the user.
pub(super) async fn decide(server: &Inner, form: &Parameters<'_>, sender: Sender<'_>) -> Response<Bytes> {
    let refuse = |client: Option<&str>, why: &str| refuse(sender.peer, client, StatusCode::BAD_REQUEST, why);
    let question = form.get("request").and_then(|sealed| server.sealer.open_text(Purpose::Consent, sealed));
    let Some(Question { request, browser, upstream_scopes, expires }) = question else {
        return refuse(None, "The answer is malformed.");
    };
    let client = Some(request.client.as_str());
    if let Err(why) = check_page(server, &browser, expires, sender) {
        return refuse(client, why);
    }
    match form.get("decision") {
        Some("approve") => {
            let mut request = request;
            let (asked, mut index) = (request.scopes.len(), 0..);
            let mut is_chosen = || form.get(&page::scope_field(index.next().unwrap_or_default())).is_some();
            request.scopes.retain(|_| is_chosen());
            if request.scopes.is_empty() && asked > 0 {
                return refuse(Some(&request.client), "Nothing was allowed.");
            }
            // A new configuration may need scopes that the page did not show.
            if !server.upstream.requested_scopes(&request.scopes).iter().all(|scope| upstream_scopes.contains(scope)) {
                return refuse(Some(&request.client), "What is asked for has changed. Start again in the application.");
            }
            let response = log_in(server, Some(request.clone()), browser, false, sender);
            continue_or_fail(server, &request, response, sender.peer)
        }
        Some("deny") => {
            let error = OAuthError::new("access_denied", "the user has refused");
            refused(server, &request, error, sender.peer).await
        }
        _ => refuse(client, "The answer is malformed."),
    }
}

/// Returns the form that a page of this server has sent, or else the response.
pub(super) fn form<'a>(
    server: &Inner,
    body: &'a [u8],
    sender: Sender<'_>,
) -> Result<Parameters<'a>, Box<Response<Bytes>>> {
    let refuse = |status, why| Box::new(refuse(sender.peer, None, status, why));
    if !is_same_origin(server, sender.headers) {
        return Err(refuse(StatusCode::FORBIDDEN, "The answer comes from another website."));
    }
    Parameters::parse(body).map_err(|_| refuse(StatusCode::BAD_REQUEST, "The answer is malformed."))
}

/// Checks the time at which a page expires, and the cookie of the browser that it was sent to.
///
/// # Errors
///
/// Returns why the answer is refused.
pub(super) fn check_page(server: &Inner, browser: &str, expires: f64, sender: Sender<'_>) -> Result<(), &'static str> {
    if expires <= server.clock.unix() {
        return Err("The page was open for too long.");
    }
    if server.cookies.get(sender.headers, BROWSER).is_none_or(|cookie| random::hash(cookie) != browser) {
        return Err("The answer comes from another browser, or cookies are blocked.");
    }
    Ok(())
}

/// Returns whether a form was sent from a page of this server. Some browsers do not state it, which is accepted if no other
/// server can set its cookies.
fn is_same_origin(server: &Inner, headers: &http::HeaderMap) -> bool {
    let is_foreign_site = headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    let parse = |origin: &str| SecureUrl::parse(origin).ok();
    let own = parse(&server.options.origin);
    let is_own = match headers.get(header::ORIGIN) {
        Some(origin) => {
            let stated = origin.to_str().ok().and_then(parse);
            stated.zip(own).is_some_and(|(stated, own)| stated.identifies_same(&own))
        }
        // Without TLS, pages of other ports of this host can set cookies.
        None => server.cookies.is_secure,
    };
    is_own && !is_foreign_site
}

/// Sends the user to the provider, with a request of a client or to see the account page.
pub(super) fn log_in(
    server: &Inner,
    request: Option<AuthorizationRequest>,
    browser: String,
    is_remembered: bool,
    sender: Sender<'_>,
) -> Result<Response<Bytes>, OAuthError> {
    let expires = server.clock.unix() + MAX_DURATION as f64;
    let scopes = request.as_ref().map_or(&[] as &[String], |request| &request.scopes);
    let upstream_scopes = server.upstream.requested_scopes(scopes);
    let pending = Pending { request, upstream_scopes, attempt: Attempt::new()?, browser, is_remembered, expires };
    let sealed = server.sealer.seal_text(Purpose::Login, &pending)?;
    if sealed.len() > MAX_COOKIE {
        return Err(OAuthError::new("invalid_request", "the parameters of the request are too long"));
    }
    let (callback, scopes) = (server.options.callback_url(), &pending.upstream_scopes);
    let url = server.upstream.authorization_url(&pending.attempt, &callback, scopes);
    let mut response = reply::redirect(&url);
    server.cookies.set(&mut response, &pending.cookie(), &sealed, MAX_DURATION);
    if pending.request.is_none() {
        return Ok(response);
    }
    // Browsers send the oldest one first.
    let others = server.cookies.starting_with(sender.headers, LOGIN);
    let mut length = sealed.len() + others.iter().map(|(_, value)| value.len()).sum::<usize>();
    for (name, value) in others {
        if length > MAX_LOGIN_COOKIES {
            length -= value.len();
            server.cookies.set(&mut response, name, "", 0);
        }
    }
    Ok(response)
}

/// Returns the name of the cookie of a login of a client, so that several can be in progress.
pub(super) fn cookie_of(state: &str) -> String {
    format!("{LOGIN}{}", &random::hash(state)[..12])
}

/// Redirects to a client with an error.
///
/// See [RFC 9207](https://www.rfc-editor.org/rfc/rfc9207#section-2).
pub(super) fn respond_with_error(
    server: &Inner,
    redirect_uri: &str,
    state: Option<&str>,
    error: &OAuthError,
) -> Response<Bytes> {
    let mut parameters = vec![("error", error.code), ("error_description", &*error.description)];
    parameters.extend(state.map(|state| ("state", state)));
    parameters.push(("iss", &server.options.issuer));
    reply::redirect(&with_parameters(redirect_uri, &parameters))
}
