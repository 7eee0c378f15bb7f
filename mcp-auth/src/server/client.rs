//! Clients, and their metadata.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{oauth_error::OAuthError, random, redirect_uri};
use crate::{Error, JwkSet, jose::Algorithm, url::SecureUrl};

/// The maximum number of redirect URIs of a client.
const MAX_REDIRECT_URIS: usize = 10;

/// The maximum length of the name of a client in characters. Longer ones are cut.
pub(super) const MAX_NAME: usize = 100;

/// A client that the server knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) id: String,
    /// The name as the client states it, which proves nothing.
    pub(super) name: Option<String>,
    pub(super) redirect_uris: Vec<String>,
    #[serde(default)]
    pub(super) authentication: Authentication,
    pub(super) wants_refresh_tokens: bool,
    /// Whether the client wants only access tokens that are bound to its key.
    #[serde(default)]
    pub(super) is_dpop_bound: bool,
    /// The scopes of a machine, which obtains tokens without a user.
    pub(super) machine_scopes: Option<Vec<String>>,
    pub(super) source: ClientSource,
    #[serde(default)]
    pub(super) approvers: Approvers,
}

/// How a client authenticates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Authentication {
    #[default]
    None,
    /// With a secret that has this SHA-256 hash.
    Secret(String),
    /// With assertions that it signs. Registered clients cannot choose it, so it is not stored.
    #[serde(skip)]
    Keys {
        keys: ClientKeys,
        /// The only algorithm, if the client has chosen one.
        algorithm: Option<Algorithm>,
    },
}

impl Authentication {
    fn of_keys(keys: JwkSet) -> Self {
        Self::Keys { keys: ClientKeys::Fixed(Arc::new(keys)), algorithm: None }
    }
}

/// The public keys of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClientKeys {
    Fixed(Arc<JwkSet>),
    /// The client publishes them, and may replace them.
    At(SecureUrl),
}

/// The users who have approved a registered client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Approvers {
    #[default]
    None,
    /// The hash of the subject of the only one.
    One(String),
    Several,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ClientSource {
    Configured,
    Registered,
    Document,
}

impl Client {
    /// Returns whether the client has registered a redirect URI. Each URI was validated when the client was configured or
    /// registered, or when its document was fetched.
    pub(super) fn allows_redirect(&self, requested: &str) -> bool {
        self.redirect_uris.iter().any(|registered| redirect_uri::matches(registered, requested))
    }

    /// Returns whether users may be sent to a redirect URI without being asked: the operator knows the client, or the
    /// target is a program on the machine of the user.
    pub(super) fn is_trusted_at(&self, redirect: &str) -> bool {
        self.source == ClientSource::Configured
            || redirect_uri::parse(redirect).is_ok_and(|uri| redirect_uri::is_loopback(&uri))
    }

    /// Returns whether an approval may be remembered: not if the target is on the machine of the user, where every
    /// program that knows the id of the client can listen, or claim its scheme.
    ///
    /// See [RFC 8252, 8.6](https://www.rfc-editor.org/rfc/rfc8252#section-8.6).
    pub(super) fn may_be_remembered(redirect: &str) -> bool {
        redirect_uri::parse(redirect).is_ok_and(|uri| !redirect_uri::is_loopback(&uri))
    }
}

/// A client that an [`AuthorizationServer`](crate::AuthorizationServer) knows in advance.
///
/// ```
/// use mcp_auth::ConfiguredClient;
///
/// let app = ConfiguredClient::public("app", "The app", ["https://app.example/callback"])?;
/// let robot = ConfiguredClient::machine("robot", "a long random secret", ["notes:read"]);
/// # Ok::<(), mcp_auth::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct ConfiguredClient(pub(super) Client);

impl ConfiguredClient {
    /// Describes a client that acts for users and cannot keep a secret, such as an application on the user's machine.
    ///
    /// Its redirect URIs are `https`, on the loopback interface, or have a scheme of the application, such as
    /// `com.example.app:/callback`. Every program on the machine can claim such a scheme, so the user is asked each time: prefer
    /// the loopback interface.
    ///
    /// # Errors
    ///
    /// Returns an error if a redirect URI is none of these.
    pub fn public(
        id: impl Into<String>,
        name: impl Into<String>,
        redirect_uris: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, Error> {
        let redirect_uris: Vec<String> = redirect_uris.into_iter().map(Into::into).collect();
        for uri in &redirect_uris {
            if redirect_uri::private_scheme(uri).is_none() {
                redirect_uri::parse(uri).map_err(|problem| Error::url(uri, problem))?;
            }
        }
        Ok(Self(Client {
            id: id.into(),
            name: Some(name.into()),
            redirect_uris,
            authentication: Authentication::None,
            wants_refresh_tokens: true,
            is_dpop_bound: false,
            machine_scopes: None,
            source: ClientSource::Configured,
            approvers: Approvers::None,
        }))
    }

    /// Like [`public`](Self::public), for a client that authenticates with a secret.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`public`](Self::public).
    pub fn confidential(
        id: impl Into<String>,
        secret: &str,
        name: impl Into<String>,
        redirect_uris: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, Error> {
        let mut client = Self::public(id, name, redirect_uris)?;
        client.0.authentication = Authentication::Secret(random::hash(secret));
        Ok(client)
    }

    /// Like [`public`](Self::public), for a client that signs assertions with one of its keys, as described at
    /// [`machine_with_keys`](Self::machine_with_keys).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`public`](Self::public).
    pub fn confidential_with_keys(
        id: impl Into<String>,
        keys: JwkSet,
        name: impl Into<String>,
        redirect_uris: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, Error> {
        let mut client = Self::public(id, name, redirect_uris)?;
        client.0.authentication = Authentication::of_keys(keys);
        Ok(client)
    }

    /// Describes a program that acts in its own name, with these scopes and without a user. Its principal has the subject
    /// `client:ID`.
    ///
    /// The secret should have 32 random bytes: it is compared by its hash.
    pub fn machine(id: impl Into<String>, secret: &str, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::machine_with(id.into(), Authentication::Secret(random::hash(secret)), scopes)
    }

    /// Like [`machine`](Self::machine), for a program that signs assertions with one of its keys instead of sending a
    /// secret (`private_key_jwt`).
    ///
    /// `iss` and `sub` of an assertion are the identifier of the client, and `aud` is the issuer of the server, alone. It
    /// has a `jti`, is accepted once, and expires within 10 minutes.
    ///
    /// ```
    /// let keys: mcp_auth::JwkSet = r#"{"keys": [{
    ///     "kty": "OKP", "crv": "Ed25519", "kid": "2026", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    /// }]}"#.parse()?;
    /// let robot = mcp_auth::ConfiguredClient::machine_with_keys("robot", keys, ["notes:read"]);
    /// # Ok::<(), mcp_auth::Error>(())
    /// ```
    ///
    /// See [RFC 7523, 3](https://www.rfc-editor.org/rfc/rfc7523#section-3) and its
    /// [update](https://datatracker.ietf.org/doc/draft-ietf-oauth-rfc7523bis/).
    pub fn machine_with_keys(
        id: impl Into<String>,
        keys: JwkSet,
        scopes: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self::machine_with(id.into(), Authentication::of_keys(keys), scopes)
    }

    fn machine_with(
        id: String,
        authentication: Authentication,
        scopes: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self(Client {
            id,
            name: None,
            redirect_uris: Vec::new(),
            authentication,
            wants_refresh_tokens: false,
            is_dpop_bound: false,
            machine_scopes: Some(scopes.into_iter().map(Into::into).collect()),
            source: ClientSource::Configured,
            approvers: Approvers::None,
        })
    }
}

/// Returns the redirect URIs of the metadata of a client.
pub(super) fn redirect_uris(metadata: &Map<String, Value>) -> Result<Vec<String>, OAuthError> {
    let invalid = |description: String| OAuthError::new("invalid_redirect_uri", description);
    let uris = list(metadata, "redirect_uris").filter(|uris| (1..=MAX_REDIRECT_URIS).contains(&uris.len()));
    let uris = uris.ok_or_else(|| invalid(format!("`redirect_uris` must have 1 to {MAX_REDIRECT_URIS} URIs")))?;
    for uri in &uris {
        redirect_uri::parse(uri).map_err(|problem| invalid(format!("a redirect URI {problem}")))?;
    }
    Ok(uris.into_iter().map(str::to_owned).collect())
}

pub(super) fn wants_refresh_tokens(metadata: &Map<String, Value>) -> bool {
    list(metadata, "grant_types").is_some_and(|types| types.contains(&"refresh_token"))
}

pub(super) fn is_dpop_bound(metadata: &Map<String, Value>) -> Result<bool, &'static str> {
    metadata
        .get("dpop_bound_access_tokens")
        .map_or(Ok(false), |stated| stated.as_bool().ok_or("`dpop_bound_access_tokens` must be `true` or `false`"))
}

/// Returns an array of strings. Anything else is an empty list.
pub(super) fn list<'a>(metadata: &'a Map<String, Value>, name: &str) -> Option<Vec<&'a str>> {
    let strings = metadata.get(name)?.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
    Some(strings.unwrap_or_default())
}
