use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header::AUTHORIZATION};
use mcp_runtime::auth::AuthenticationError;
use serde_json::{Map, Value};

use super::{
    login::{Attempt, Login, Tokens, UpstreamError, session_of},
    parameters::{form, with_parameters},
    random,
};
use crate::{
    ClientCredentials, Error,
    audience::Audience,
    claims::ClaimRules,
    clock::Clock,
    discovery::Metadata,
    fetch::Fetcher,
    issuer_keys::IssuerKeys,
    jose::Jws,
    json::{excerpt, parse_object},
    url::SecureUrl,
};

/// The maximum size of the description of a user in bytes, which is stored with each grant.
const MAX_USER: usize = 32 << 10;

/// The errors of a provider that refuses a code or a refresh token.
const REFUSALS: [&str; 3] = ["invalid_grant", "bad_verification_code", "bad_refresh_token"];

/// The errors of a provider that refuses to exchange a token.
const EXCHANGE_REFUSALS: [&str; 7] = [
    "invalid_grant",
    "invalid_request",
    "invalid_target",
    "invalid_scope",
    "unauthorized_client",
    "unsupported_grant_type",
    "access_denied",
];

/// The type of access tokens in an exchange.
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// The identity provider at which users log in, of which an [`AuthorizationServer`](crate::AuthorizationServer) is a
/// client.
///
/// ```no_run
/// # use mcp_auth::{ClientCredentials, Error, Upstream};
/// # async fn providers() -> Result<(), Error> {
/// // An OpenID provider.
/// let credentials = ClientCredentials::basic("notes", "a secret");
/// let company = Upstream::discover("https://id.example.com", credentials).await?.scopes(["openid", "email"]);
///
/// // A provider of OAuth 2 without discovery.
/// let github = Upstream::endpoints(
///     "https://github.com/login/oauth/authorize",
///     "https://github.com/login/oauth/access_token",
///     "https://api.github.com/user",
///     ClientCredentials::post("Iv1.8a61f9b3a7aba766", "a secret"),
/// )?
/// .subject_claim("id");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Upstream {
    authorization: SecureUrl,
    token: SecureUrl,
    userinfo: Option<SecureUrl>,
    credentials: ClientCredentials,
    /// How identity tokens are verified.
    issuer: Option<Issuer>,
    scopes: Vec<String>,
    /// Scopes of this server, and what they need at the provider.
    mapped: Vec<(String, Vec<String>)>,
    parameters: Vec<(String, String)>,
    subject: String,
    fetcher: Fetcher,
    clock: Clock,
}

struct Issuer {
    keys: Arc<IssuerKeys>,
    rules: ClaimRules,
    /// Whether authorization responses contain `iss`.
    states_issuer: bool,
}

impl Upstream {
    /// Discovers an OpenID provider by its identifier, such as `https://id.example.com`, and fetches its keys.
    ///
    /// Users are identified by the `sub` of their identity tokens, which are verified like access tokens by
    /// [`Jwt`](crate::Jwt). The scope `openid` is requested, and others only if they are [set](Self::scopes).
    ///
    /// # Errors
    ///
    /// Returns an error if the metadata or the keys are not available, or if an endpoint is absent or not secure.
    pub async fn discover(issuer: impl Into<String>, credentials: ClientCredentials) -> Result<Self, Error> {
        Self::discover_with(issuer.into(), credentials, Clock::default()).await
    }

    pub(crate) async fn discover_with(
        issuer: String,
        credentials: ClientCredentials,
        clock: Clock,
    ) -> Result<Self, Error> {
        let url = SecureUrl::parse(&issuer)?;
        let fetcher = Fetcher::new();
        let metadata = Metadata::fetch(&fetcher, &url).await?;
        let keys = IssuerKeys::discover(url, Fetcher::new(), clock.clone()).await?;
        let rules = ClaimRules::new(issuer.into(), credentials.id().to_owned());
        let states_issuer = metadata.is_true("authorization_response_iss_parameter_supported");
        Ok(Self {
            authorization: metadata.endpoint("authorization_endpoint")?,
            token: metadata.endpoint("token_endpoint")?,
            userinfo: metadata.endpoint("userinfo_endpoint").ok(),
            issuer: Some(Issuer { keys: Arc::new(keys), rules, states_issuer }),
            scopes: vec!["openid".to_owned()],
            credentials,
            mapped: Vec::new(),
            parameters: Vec::new(),
            subject: "sub".to_owned(),
            fetcher,
            clock,
        })
    }

    /// Uses a provider of OAuth 2 with these endpoints. Users are identified by the member `sub` of the response of the
    /// user endpoint, or by [another one](Self::subject_claim).
    ///
    /// # Errors
    ///
    /// Returns an error if a URL is invalid, or is neither `https` nor on the loopback interface.
    pub fn endpoints(
        authorization: &str,
        token: &str,
        user: &str,
        credentials: ClientCredentials,
    ) -> Result<Self, Error> {
        Ok(Self {
            authorization: SecureUrl::parse(authorization)?,
            token: SecureUrl::parse(token)?,
            userinfo: Some(SecureUrl::parse(user)?),
            credentials,
            issuer: None,
            scopes: Vec::new(),
            mapped: Vec::new(),
            parameters: Vec::new(),
            subject: "sub".to_owned(),
            fetcher: Fetcher::new(),
            clock: Clock::default(),
        })
    }

    /// Sets the scopes that are requested at the provider for every login.
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Requests further scopes at the provider when a client requests `scope` of this server.
    pub fn map_scope(
        mut self,
        scope: impl Into<String>,
        upstream: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.mapped.push((scope.into(), upstream.into_iter().map(Into::into).collect()));
        self
    }

    /// Adds a parameter to every authorization request at the provider, such as `prompt` or `access_type`.
    pub fn with_parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Sets the claim that identifies a user. Default: `sub`. It must never change, and no other user may ever have the
    /// same one, so an email address is not suitable.
    pub fn subject_claim(mut self, claim: impl Into<String>) -> Self {
        self.subject = claim.into();
        self
    }

    /// Returns whether the provider can be asked if a user is still logged in.
    pub(super) fn can_check(&self, tokens: &Tokens) -> bool {
        tokens.refresh.is_some() || self.userinfo.is_some()
    }

    /// Returns the scopes that are requested at the provider if a client requests `scopes`.
    pub(super) fn requested_scopes(&self, scopes: &[String]) -> Vec<String> {
        let mut requested = self.scopes.clone();
        let mapped = self.mapped.iter().filter(|(scope, _)| scopes.contains(scope)).flat_map(|(_, mapped)| mapped);
        for scope in mapped {
            if !requested.contains(scope) {
                requested.push(scope.clone());
            }
        }
        requested
    }

    /// Returns the URL at which the user logs in, with these scopes of the provider.
    pub(super) fn authorization_url(&self, attempt: &Attempt, callback: &str, scopes: &[String]) -> String {
        let (scope, challenge) = (scopes.join(" "), random::hash(&attempt.verifier));
        let mut parameters: Vec<(&str, &str)> =
            self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        parameters.extend([
            ("response_type", "code"),
            ("client_id", self.credentials.id()),
            ("redirect_uri", callback),
            ("state", &attempt.state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]);
        if !scope.is_empty() {
            parameters.push(("scope", &scope));
        }
        if self.issuer.is_some() {
            parameters.push(("nonce", &attempt.nonce));
        }
        with_parameters(self.authorization.as_str(), &parameters)
    }

    /// Checks the issuer of an authorization response.
    ///
    /// See [RFC 9207](https://www.rfc-editor.org/rfc/rfc9207).
    pub(crate) fn accepts_issuer(&self, stated: Option<&str>) -> bool {
        match (&self.issuer, stated) {
            (Some(issuer), Some(stated)) => *issuer.rules.issuer == *stated,
            (Some(issuer), None) => !issuer.states_issuer,
            (None, _) => true,
        }
    }

    /// Exchanges a code for the tokens and the identity of a user.
    /// `now` is the time from which the expiry of the tokens is counted.
    pub(super) async fn exchange(
        &self,
        code: &str,
        attempt: &Attempt,
        callback: &str,
        now: f64,
    ) -> Result<Login, UpstreamError> {
        let parameters = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", callback),
            ("code_verifier", &attempt.verifier),
        ];
        let response = self.request_tokens(&parameters, &REFUSALS).await?;
        let tokens = tokens(&response, None, now)?;
        let claims = match &self.issuer {
            Some(issuer) => {
                let token = response.get("id_token").and_then(Value::as_str);
                let token = token.ok_or_else(|| UpstreamError::Unavailable("no identity token".to_owned()))?;
                issuer.verify(token, Some(&attempt.nonce), self.credentials.id(), &self.clock).await?
            }
            None => self.user(&tokens.access).await?,
        };
        let subject = self.subject_of(&claims);
        let subject =
            subject.ok_or_else(|| UpstreamError::Unavailable(format!("the user has no `{}`", self.subject)))?;
        Ok(Login { subject, claims, tokens })
    }

    /// Renews the tokens of a user. Returns them with the identity token of the response, if there is one. Without a refresh
    /// token, the tokens stay as they are.
    pub(super) async fn refresh(&self, old: &Tokens, now: f64) -> Result<(Tokens, Option<String>), UpstreamError> {
        let Some(refresh) = &old.refresh else { return Ok((old.clone(), None)) };
        let parameters = [("grant_type", "refresh_token"), ("refresh_token", refresh)];
        let response = self.request_tokens(&parameters, &REFUSALS).await?;
        let identity = response.get("id_token").and_then(Value::as_str).filter(|_| self.has_issuer());
        let identity = identity.map(str::to_owned);
        Ok((tokens(&response, Some(refresh), now)?, identity))
    }

    /// Exchanges the access token of a user for one with which another service can be called in the name of the user.
    ///
    /// See [RFC 8693](https://www.rfc-editor.org/rfc/rfc8693).
    pub(super) async fn exchange_token(
        &self,
        token: &str,
        audience: &str,
        scope: &str,
    ) -> Result<String, UpstreamError> {
        let mut parameters = vec![
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", token),
            ("subject_token_type", ACCESS_TOKEN),
            ("requested_token_type", ACCESS_TOKEN),
            ("audience", audience),
        ];
        if !scope.is_empty() {
            parameters.push(("scope", scope));
        }
        let response = self.request_tokens(&parameters, &EXCHANGE_REFUSALS).await?;
        let text = |name: &str| response.get(name).and_then(Value::as_str).unwrap_or_default();
        // A token of another type may be a token of the user for anything else.
        if text("issued_token_type") != ACCESS_TOKEN || !text("token_type").eq_ignore_ascii_case("bearer") {
            return Err(UpstreamError::Unavailable("the issued token is of another type".to_owned()));
        }
        Ok(tokens(&response, None, 0.0)?.access)
    }

    /// Returns the current claims of a user: those of the last identity token, and those of the user endpoint, which take
    /// precedence. The user endpoint is asked if there is no new identity token; then, `known` is returned as the claims of
    /// the last one. If the provider issues no identity tokens, the response of the user endpoint replaces `known`.
    ///
    /// # Errors
    ///
    /// Returns an error if the provider refuses, or describes another user.
    pub(super) async fn newest_claims(
        &self,
        known: &Map<String, Value>,
        access: &str,
        identity: Option<String>,
    ) -> Result<(Map<String, Value>, Map<String, Value>), UpstreamError> {
        let (claims, user) = match (&self.issuer, identity) {
            (Some(issuer), Some(token)) => {
                let mut claims = issuer.verify(&token, None, self.credentials.id(), &self.clock).await?;
                // It need not state the session again.
                if let Some(session) = session_of(known) {
                    claims.entry("sid").or_insert_with(|| session.into());
                }
                (claims, Map::new())
            }
            (Some(_), None) => (known.clone(), self.user(access).await?),
            (None, _) => (self.user(access).await?, Map::new()),
        };
        let subject = user.get(&self.subject).or_else(|| claims.get(&self.subject));
        if subject != known.get(&self.subject) {
            return Err(UpstreamError::Refused("the tokens are of another user".to_owned()));
        }
        Ok((claims, user))
    }

    /// Returns what distinguishes the provider from others, whose users may have the same subjects.
    pub(super) fn name(&self) -> &str {
        self.issuer.as_ref().map_or_else(|| self.token.as_str(), |issuer| &*issuer.rules.issuer)
    }

    /// Returns the subject that claims describe.
    pub(super) fn subject_of(&self, claims: &Map<String, Value>) -> Option<String> {
        match claims.get(&self.subject)? {
            Value::String(subject) if !subject.is_empty() => Some(subject.clone()),
            Value::Number(subject) => Some(subject.to_string()),
            _ => None,
        }
    }

    /// Returns whether the provider issues identity tokens, and so may send logout tokens.
    pub(super) fn has_issuer(&self) -> bool {
        self.issuer.is_some()
    }

    /// Returns whether `sub` identifies users.
    pub(super) fn identifies_by_sub(&self) -> bool {
        self.subject == "sub"
    }

    /// Verifies that the provider has signed a token for this server as its client or, if there is one, for an audience, and
    /// that it has not expired. Returns its claims.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the token.
    pub(super) async fn verify(
        &self,
        token: &Jws<'_>,
        audience: Option<&Audience>,
    ) -> Result<Map<String, Value>, AuthenticationError> {
        match &self.issuer {
            Some(issuer) => issuer.verify_token(token, audience, &self.clock).await,
            None => Err(AuthenticationError::invalid("the provider has no keys")),
        }
    }

    pub(super) fn has_users(&self) -> bool {
        self.userinfo.is_some()
    }

    /// Sends a request to the token endpoint. `refusals` are the errors after which a repetition is useless.
    async fn request_tokens(
        &self,
        parameters: &[(&str, &str)],
        refusals: &[&str],
    ) -> Result<Map<String, Value>, UpstreamError> {
        let (headers, form) = self.credentials.authenticate(form(parameters));
        let (status, response) = self.fetcher.post(&self.token, headers, form).await?;
        let response = parse_object(&response.body).map_err(UpstreamError::Unavailable)?;
        let error = response.get("error").map(excerpt);
        match (status, error) {
            // Some providers report errors with status 200.
            (StatusCode::OK, None) => Ok(response),
            (_, Some(error)) if refusals.contains(&&*error) => Err(UpstreamError::Refused(error)),
            (status, error) => {
                let error = error.unwrap_or_default();
                Err(UpstreamError::Unavailable(format!("the response has the status {status} {error}")))
            }
        }
    }

    /// Asks the provider who the user of a token is.
    async fn user(&self, token: &str) -> Result<Map<String, Value>, UpstreamError> {
        let url = self.userinfo.as_ref().ok_or_else(|| UpstreamError::Unavailable("no user endpoint".to_owned()))?;
        let mut value = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| UpstreamError::Unavailable("the access token is malformed".to_owned()))?;
        value.set_sensitive(true);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        let (status, body) = self.fetcher.exchange(Method::GET, url, headers, bytes::Bytes::new()).await?;
        match status {
            StatusCode::OK if body.body.len() > MAX_USER => {
                Err(UpstreamError::Unavailable(format!("the user has more than {MAX_USER} bytes")))
            }
            StatusCode::OK => parse_object(&body.body).map_err(UpstreamError::Unavailable),
            StatusCode::UNAUTHORIZED => Err(UpstreamError::Refused("the access token is invalid".to_owned())),
            status => Err(UpstreamError::Unavailable(format!("the response has the status {status}"))),
        }
    }
}

/// Returns the tokens of a response, whose lifetime begins at `now`.
fn tokens(response: &Map<String, Value>, refresh: Option<&str>, now: f64) -> Result<Tokens, UpstreamError> {
    let text = |name: &str| response.get(name).and_then(Value::as_str).map(str::to_owned);
    let access = text("access_token").ok_or_else(|| UpstreamError::Unavailable("no access token".to_owned()))?;
    let lifetime = response.get("expires_in").and_then(Value::as_f64).filter(|lifetime| lifetime.is_finite());
    let expires = lifetime.map(|lifetime| now + lifetime.max(0.0));
    Ok(Tokens { access, refresh: text("refresh_token").or_else(|| refresh.map(str::to_owned)), expires })
}

impl Issuer {
    /// Verifies signature, issuer, audience and times of a token. Returns its claims.
    async fn verify_token(
        &self,
        token: &Jws<'_>,
        audience: Option<&Audience>,
        clock: &Clock,
    ) -> Result<Map<String, Value>, AuthenticationError> {
        let claims = token.claims().map_err(AuthenticationError::invalid)?;
        self.rules.check_issuer(&claims)?;
        self.keys.verify(token).await?;
        audience.unwrap_or(&self.rules.audience).check(claims.get("aud"))?;
        match self.rules.check_times(&claims, clock)? {
            Some(_) => Ok(claims),
            None => Err(AuthenticationError::invalid("it does not expire")),
        }
    }

    /// Verifies an identity token. After a refresh, it has no nonce.
    ///
    /// See [OpenID Connect Core, 3.1.3.7](https://openid.net/specs/openid-connect-core-1_0.html#IDTokenValidation).
    async fn verify(
        &self,
        token: &str,
        nonce: Option<&str>,
        client: &str,
        clock: &Clock,
    ) -> Result<Map<String, Value>, UpstreamError> {
        let invalid = |reason: &str| UpstreamError::Unavailable(format!("the identity token is invalid: {reason}"));
        let token = Jws::parse(token).map_err(invalid)?;
        if let Some(kind) = token.kind().filter(|kind| kind != "jwt") {
            return Err(invalid(&format!("it is a token for another purpose, of the type `{kind}`")));
        }
        let claims = self.verify_token(&token, None, clock).await.map_err(|error| invalid(error.message()))?;
        if nonce.is_some() && claims.get("nonce").and_then(Value::as_str) != nonce {
            return Err(invalid("it is of another login"));
        }
        let has_others = claims.get("aud").and_then(Value::as_array).is_some_and(|audiences| audiences.len() > 1);
        if claims.get("azp").map_or(has_others, |party| party != client) {
            return Err(invalid("it is of another client"));
        }
        Ok(claims)
    }
}

/// Omits the credentials.
impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("authorization", &self.authorization).finish_non_exhaustive()
    }
}
