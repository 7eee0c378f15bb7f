//! How clients authenticate: with secrets, and with assertions (`private_key_jwt`).
//!
//! See [RFC 7523, 3](https://www.rfc-editor.org/rfc/rfc7523#section-3) and its
//! [update](https://datatracker.ietf.org/doc/draft-ietf-oauth-rfc7523bis/), which pins the audience.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, header::AUTHORIZATION};
use mcp_runtime::{auth::AuthenticationError, backend::Insertion};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;

use super::{
    client::{Authentication, Client, ClientKeys, ClientSource},
    clients::Clients,
    documents::MIN_KEY_AGE,
    oauth_error::OAuthError,
    parameters::{Parameters, Sender},
    random,
    store::Limits,
};
use crate::{
    audience::Audience,
    claims::ClaimRules,
    jose::{Algorithm, Jws},
    shares::Peer,
};

/// The value of `client_assertion_type`.
const TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The types of the tokens. Others, such as access tokens, are signed for another purpose.
const TOKEN_TYPES: [Option<&str>; 3] = [None, Some("jwt"), Some("client-authentication+jwt")];

/// The maximum time until an assertion expires.
const MAX_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The tolerated clock difference between client and server.
const LEEWAY: Duration = Duration::from_secs(60);

/// The maximum number of assertions that are remembered until they expire: of clients with metadata documents by the address
/// of the sender, since strangers invent any number of such clients, and separately of configured clients by client.
const MAX_REMEMBERED: usize = if cfg!(test) { 200 } else { 20_000 };
const MAX_OF_ACCOUNT: usize = MAX_REMEMBERED / 4 * 3;

impl Clients {
    /// Finds the client that sends a request, and verifies its secret or assertion if it has one.
    ///
    /// See [RFC 6749, 2.3](https://www.rfc-editor.org/rfc/rfc6749#section-2.3).
    ///
    /// # Errors
    ///
    /// Returns an error if the client is unknown or its credentials are wrong.
    pub(super) async fn authenticate(&self, sender: Sender<'_>, form: &Parameters<'_>) -> Result<Client, OAuthError> {
        let basic = basic_credentials(sender.headers)?;
        let assertion = Assertion::of(form)?;
        let used = [basic.is_some(), form.get("client_secret").is_some(), assertion.is_some()];
        if used.into_iter().filter(|is_used| *is_used).count() > 1 {
            return Err(OAuthError::new("invalid_request", "the client authenticates in two ways"));
        }
        let (id, secret) = match (&basic, &assertion) {
            (Some((id, secret)), _) => (id.as_str(), Some(secret.as_str())),
            (None, Some(assertion)) => (assertion.client(), None),
            (None, None) => (form.get("client_id").unwrap_or_default(), form.get("client_secret")),
        };
        if form.get("client_id").is_some_and(|named| named != id) {
            return Err(OAuthError::new("invalid_request", "the request names two clients"));
        }
        if id.is_empty() {
            return Err(OAuthError::invalid_client("the client is not named"));
        }
        let client = self.find(id, sender.peer).await?;
        let secret = secret.filter(|secret| !secret.is_empty());
        let is_valid = match (&client.authentication, secret, assertion) {
            (Authentication::None, None, None) => true,
            (Authentication::Secret(hash), Some(secret), None) => {
                bool::from(random::hash(secret).as_bytes().ct_eq(hash.as_bytes()))
            }
            (Authentication::Keys { keys, algorithm }, None, Some(assertion)) => {
                let verified = assertion.verify(self, &client, keys, *algorithm, sender.peer).await;
                verified.map_err(|error| error.of_client(&client.id))?;
                true
            }
            _ => false,
        };
        if is_valid {
            return Ok(client);
        }
        Err(OAuthError::invalid_client("the credentials of the client are wrong").of_client(&client.id))
    }
}

/// Returns the id and secret of an `Authorization` header, which are encoded like a form.
fn basic_credentials(headers: &HeaderMap) -> Result<Option<(String, String)>, OAuthError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let malformed = || OAuthError::invalid_client("the `Authorization` header is malformed");
    if values.next().is_some() {
        return Err(OAuthError::invalid_client("there are several `Authorization` headers"));
    }
    let (scheme, encoded) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(malformed)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(malformed());
    }
    let decoded = BASE64_STANDARD.decode(encoded.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let (id, secret) = decoded.as_deref().and_then(|text| text.split_once(':')).ok_or_else(malformed)?;
    let decode = |text: &str| {
        let text = text.replace('+', " ");
        percent_encoding::percent_decode_str(&text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
    };
    Ok(Some((decode(id).ok_or_else(malformed)?, decode(secret).ok_or_else(malformed)?)))
}

/// An assertion whose signature has not been verified.
struct Assertion<'a> {
    token: Jws<'a>,
    claims: Map<String, Value>,
}

impl<'a> Assertion<'a> {
    /// Returns the assertion of a request, if it has one.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not such an assertion.
    fn of(form: &'a Parameters<'_>) -> Result<Option<Self>, OAuthError> {
        let text = match (form.get("client_assertion_type"), form.get("client_assertion")) {
            (None, None) => return Ok(None),
            (Some(TYPE), Some(text)) => text,
            _ => return Err(invalid("it is missing, or its type is unknown")),
        };
        let token = Jws::parse(text).map_err(invalid)?;
        if !TOKEN_TYPES.contains(&token.kind().as_deref()) {
            return Err(invalid("it is a token for another purpose"));
        }
        let claims = token.claims().map_err(invalid)?;
        Ok(Some(Self { token, claims }))
    }

    fn text(&self, name: &str) -> &str {
        self.claims.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the client as the assertion states it.
    fn client(&self) -> &str {
        self.text("sub")
    }

    /// Verifies that the client has signed the assertion for this server, and that it was not used before.
    async fn verify(
        &self,
        clients: &Clients,
        client: &Client,
        keys: &ClientKeys,
        algorithm: Option<Algorithm>,
        peer: Peer,
    ) -> Result<(), OAuthError> {
        let expiry = self.check_claims(clients, client)?;
        if algorithm.is_some_and(|only| only != self.token.algorithm()) {
            return Err(invalid("its algorithm is not that of the client"));
        }
        self.verify_signature(clients, keys, peer).await?;
        self.remember(clients, client, expiry, peer).await
    }

    /// Returns the time at which the assertion expires.
    fn check_claims(&self, clients: &Clients, client: &Client) -> Result<f64, OAuthError> {
        let rules = ClaimRules::new(client.id.as_str().into(), String::new());
        let of_token = |error: AuthenticationError| invalid(error.message());
        rules.check_issuer(&self.claims).map_err(|_| invalid("`iss` is not the client"))?;
        let audience = self.claims.get("aud");
        let is_alone = audience.and_then(Value::as_array).is_none_or(|audiences| audiences.len() == 1);
        // Not the URL of an endpoint: the metadata of another server may state it as its own.
        if !is_alone || Audience::new(clients.issuer.clone()).check(audience).is_err() {
            return Err(invalid("`aud` is not the issuer of this server alone"));
        }
        if self.text("jti").is_empty() {
            return Err(invalid("it has no `jti`"));
        }
        let expiry = rules.check_times(&self.claims, &clients.clock).map_err(of_token)?;
        let expiry = expiry.ok_or_else(|| invalid("it does not expire"))?;
        if expiry > clients.clock.unix() + (MAX_LIFETIME + LEEWAY).as_secs_f64() {
            return Err(invalid("it expires later than in 10 minutes"));
        }
        Ok(expiry)
    }

    async fn verify_signature(&self, clients: &Clients, keys: &ClientKeys, peer: Peer) -> Result<(), OAuthError> {
        let result = match keys {
            ClientKeys::Fixed(keys) => keys.verify(&self.token),
            ClientKeys::At(url) => {
                let result = clients.documents.keys(url, peer, 0.0).await?.verify(&self.token);
                // The client may have replaced its keys, unless the token names a known one.
                let is_final = matches!(result, Some(Ok(()))) || (result.is_some() && self.token.key_id().is_some());
                if is_final {
                    result
                } else {
                    let newer_than = clients.clock.unix() - MIN_KEY_AGE.as_secs_f64();
                    let newer = clients.documents.keys(url, peer, newer_than).await;
                    newer.map_or(result, |keys| keys.verify(&self.token))
                }
            }
        };
        result.unwrap_or(Err("its key is unknown")).map_err(invalid)
    }

    async fn remember(&self, clients: &Clients, client: &Client, expiry: f64, peer: Peer) -> Result<(), OAuthError> {
        let (kind, account) = match client.source {
            ClientSource::Document => ("document-assertions", clients.account_of(peer)),
            _ => ("assertions", random::hash(&client.id)),
        };
        // The clock of the store may be ahead, or that of another process may be behind.
        let left = Duration::from_secs_f64((expiry - clients.clock.unix()).max(0.0)) + LEEWAY * 2;
        let limits = Limits { per_account: MAX_OF_ACCOUNT, total: MAX_REMEMBERED, window: left };
        let name = random::hash(&format!("{} {}", random::hash(&client.id), self.text("jti")));
        match clients.store.insert(kind, &name, &account, limits).await? {
            Insertion::Inserted(_) => Ok(()),
            Insertion::Exists => Err(invalid("it was used before")),
            Insertion::Full { .. } => {
                tracing::warn!(kind, "too many assertions of clients to remember another one");
                Err(OAuthError::unavailable())
            }
        }
    }
}

fn invalid(why: &str) -> OAuthError {
    OAuthError::invalid_client(format!("the assertion of the client is not accepted: {why}"))
}
