//! The options of an authorization server.

use std::{fmt, time::Duration};

use serde_json::{Map, Value};

use super::{oauth_error::OAuthError, page::ConsentPage};
use crate::{Error, url::SecureUrl};

/// The maximum size in bytes of a claim that is copied into access tokens, which clients send with every request.
const MAX_CLAIM: usize = 1024;

/// The time after which a registration expires that was approved, counted from the last approval, unless logins last
/// longer.
const REGISTRATION_LIFETIME: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Renders a consent page.
pub(super) type Page = dyn Fn(&ConsentPage) -> String + Send + Sync;

/// Decides by the claims whether a user may use the server.
pub(super) type Admission = dyn Fn(&Value) -> bool + Send + Sync;

pub(super) struct Options {
    pub(super) resource: String,
    pub(super) resource_path: String,
    pub(super) issuer: String,
    pub(super) issuer_path: String,
    /// The scheme and authority of all endpoints.
    pub(super) origin: String,
    pub(super) endpoints: Endpoints,
    pub(super) service_name: String,
    /// The scopes with their descriptions.
    pub(super) scopes: Vec<(String, String)>,
    pub(super) claims: Vec<String>,
    pub(super) registration: bool,
    pub(super) identity_assertions: bool,
    pub(super) access_token_lifetime: Duration,
    pub(super) login_lifetime: Duration,
    pub(super) grant_idle_timeout: Option<Duration>,
    pub(super) admission: Option<Box<Admission>>,
    pub(super) page: Option<Box<Page>>,
    pub(super) style: Option<String>,
}

/// The paths of the endpoints.
#[derive(Debug, Clone)]
pub(super) struct Endpoints {
    pub(super) authorization: String,
    pub(super) callback: String,
    pub(super) account: String,
    pub(super) token: String,
    pub(super) registration: String,
    pub(super) revocation: String,
    pub(super) introspection: String,
    pub(super) pushed_authorization: String,
    pub(super) backchannel_logout: String,
}

/// An endpoint of an [`AuthorizationServer`](crate::AuthorizationServer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Endpoint {
    /// The page for users who come from a client, which asks for consent. Default: `/authorize`.
    Authorization,
    /// The target of users who come back from the provider, at which this URL must be registered. Default:
    /// `/authorize/callback`.
    Callback,
    /// The page on which users see which clients they have allowed, and end their access. Default: `/authorize/account`.
    Account,
    /// The endpoint at which clients obtain tokens. Default: `/token`.
    Token,
    /// The endpoint at which clients register. Default: `/register`.
    Registration,
    /// The endpoint at which clients revoke tokens. Default: `/revoke`.
    Revocation,
    /// The endpoint at which clients with credentials ask about their own tokens. Default: `/introspect`.
    Introspection,
    /// The endpoint to which clients push authorization requests. Default: `/par`.
    PushedAuthorization,
    /// The endpoint to which the provider sends logout tokens, at which this URL may be registered. Default:
    /// `/authorize/backchannel-logout`.
    BackchannelLogout,
}

impl Options {
    pub(super) fn new(resource: &str) -> Result<Self, Error> {
        let url = SecureUrl::parse(resource)?;
        let path = url.uri().path().trim_end_matches('/').to_owned();
        let issuer = url.origin().to_owned();
        Ok(Self {
            resource: resource.to_owned(),
            resource_path: path,
            origin: issuer.clone(),
            issuer,
            issuer_path: String::new(),
            endpoints: Endpoints::below(""),
            service_name: url.uri().host().unwrap_or_default().to_owned(),
            scopes: Vec::new(),
            claims: Vec::new(),
            registration: true,
            identity_assertions: false,
            access_token_lifetime: Duration::from_secs(10 * 60),
            login_lifetime: Duration::from_secs(30 * 24 * 60 * 60),
            grant_idle_timeout: None,
            admission: None,
            page: None,
            style: None,
        })
    }

    /// Returns the URL of an endpoint.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    pub(super) fn callback_url(&self) -> String {
        self.url(&self.endpoints.callback)
    }

    /// Returns the scopes that a client may have of those that it requests, or all scopes if it requests none. They are in
    /// the order of the server, in which the consent page numbers them. Clients request what is usual elsewhere, such as
    /// `openid`, so unknown scopes are ignored if a known one remains.
    ///
    /// # Errors
    ///
    /// Returns an error if all requested scopes are unknown.
    pub(super) fn grantable_scopes(&self, requested: Option<&str>) -> Result<Vec<String>, OAuthError> {
        let is_requested = |name: &&String| requested.is_none_or(|all| all.split(' ').any(|scope| scope == *name));
        let granted: Vec<String> = self.scopes.iter().map(|(name, _)| name).filter(is_requested).cloned().collect();
        if granted.is_empty() && !self.scopes.is_empty() {
            return Err(OAuthError::new("invalid_scope", "the server has none of the requested scopes"));
        }
        Ok(granted)
    }

    /// Returns scopes with their descriptions.
    pub(super) fn describe_scopes(&self, scopes: &[String]) -> Vec<(String, String)> {
        self.scopes.iter().filter(|(name, _)| scopes.contains(name)).cloned().collect()
    }

    /// Returns the claims that are copied into access tokens, without those that are too long.
    pub(super) fn copied_claims(&self, claims: &Map<String, Value>) -> Map<String, Value> {
        let fits = |claim: &&Value| claim.to_string().len() <= MAX_CLAIM;
        let copied = self.claims.iter().filter_map(|name| Some((name, claims.get(name).filter(fits)?)));
        copied.map(|(name, claim)| (name.clone(), claim.clone())).collect()
    }

    /// Returns the time after which a registration that a user has approved expires. It outlives the login.
    pub(super) fn registration_lifetime(&self) -> Duration {
        REGISTRATION_LIFETIME.max(self.login_lifetime)
    }

    /// Returns whether anything depends on the claims of users.
    pub(super) fn uses_claims(&self) -> bool {
        self.admission.is_some() || !self.claims.is_empty()
    }

    /// Returns whether a user may use the server.
    pub(super) fn admits(&self, claims: &Value) -> bool {
        self.admission.as_ref().is_none_or(|admits| admits(claims))
    }
}

impl Endpoints {
    /// Returns the default paths below that of an issuer.
    pub(super) fn below(path: &str) -> Self {
        Self {
            authorization: format!("{path}/authorize"),
            callback: format!("{path}/authorize/callback"),
            account: format!("{path}/authorize/account"),
            token: format!("{path}/token"),
            registration: format!("{path}/register"),
            revocation: format!("{path}/revoke"),
            introspection: format!("{path}/introspect"),
            pushed_authorization: format!("{path}/par"),
            backchannel_logout: format!("{path}/authorize/backchannel-logout"),
        }
    }

    pub(super) fn set(&mut self, endpoint: Endpoint, path: String) {
        *match endpoint {
            Endpoint::Authorization => &mut self.authorization,
            Endpoint::Callback => &mut self.callback,
            Endpoint::Account => &mut self.account,
            Endpoint::Token => &mut self.token,
            Endpoint::Registration => &mut self.registration,
            Endpoint::Revocation => &mut self.revocation,
            Endpoint::Introspection => &mut self.introspection,
            Endpoint::PushedAuthorization => &mut self.pushed_authorization,
            Endpoint::BackchannelLogout => &mut self.backchannel_logout,
        } = path;
    }

    /// Returns all paths.
    pub(super) fn all(&self) -> [&String; 9] {
        let Self { authorization, callback, account, token, registration, .. } = self;
        let Self { revocation, introspection, pushed_authorization, backchannel_logout, .. } = self;
        [
            authorization,
            callback,
            account,
            token,
            registration,
            revocation,
            introspection,
            pushed_authorization,
            backchannel_logout,
        ]
    }

    /// Checks that the paths are absolute and differ.
    pub(super) fn check(&self) -> Result<(), Error> {
        let paths = self.all();
        for (index, path) in paths.iter().enumerate() {
            let is_valid =
                path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"<>".contains(&byte));
            if !is_valid {
                return Err(Error::options(format!("the path `{path}` is invalid: expected a path such as `/token`")));
            }
            if paths[..index].contains(path) {
                return Err(Error::options(format!("two endpoints have the path `{path}`")));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
