//! The metadata documents of clients that are identified by a URL, and the keys that such clients publish.
//!
//! See [Client ID metadata documents](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration).

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use lru::LruCache;
use serde_json::{Map, Value};

use super::{
    client::{self, Approvers, Authentication, Client, ClientKeys, ClientSource, MAX_NAME},
    oauth_error::OAuthError,
};
use crate::{
    JwkSet,
    clock::Clock,
    fetch::{FetchError, Fetcher},
    jose::{Algorithm, Jwk},
    json::{excerpt, parse_object},
    shares::{Peer, Shares},
    url::SecureUrl,
};

/// The maximum size of a document or of a key set in bytes.
pub(super) const MAX_DOCUMENT: usize = 16 << 10;

/// The maximum number of cached documents, of cached key sets, and of remembered failures of each. Those that were not used
/// for the longest time are evicted.
const MAX_CACHED: NonZeroUsize = NonZeroUsize::new(1000).unwrap();

/// The maximum number of requests that wait for documents, of which each peer has a share. Further ones are refused, and
/// leave the other endpoints to requests that need no document.
const MAX_WAITING: usize = 32;

/// The additional time for which a document is used whose host does not respond.
const MAX_STALE: Duration = Duration::from_secs(24 * 60 * 60);

/// The bounds of the time for which a document is cached, and its default.
const MIN_LIFETIME: Duration = Duration::from_secs(60);
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The time after a failure for which a URL is not requested again, so that requests do not become a flood towards another
/// host.
const FAILURE_PAUSE: Duration = Duration::from_secs(10);

/// The minimum age of keys that are fetched again because an assertion names another one.
pub(super) const MIN_KEY_AGE: Duration = Duration::from_secs(60);

/// Fetches and caches metadata documents and keys, one request at a time for each of them.
pub(super) struct Documents {
    fetcher: Fetcher,
    clock: Clock,
    clients: Cache<Client>,
    keys: Cache<Arc<JwkSet>>,
    waiting: Shares,
    /// Absent if documents are not accepted.
    policy: Option<Box<Policy>>,
}

/// Decides whether the client with this document may use the server.
pub(super) type Policy = dyn Fn(&str) -> bool + Send + Sync;

/// Fetched values, by URL.
struct Cache<T> {
    state: Mutex<State<T>>,
    /// The error for clients if the value at a URL is unusable.
    unusable: &'static str,
}

struct State<T> {
    known: LruCache<String, Known<T>>,
    /// Until when URLs are not requested again. Separate, so that invented clients do not evict documents. The errors are
    /// not kept: clients forget their credentials after `invalid_client`, and the document may have been corrected.
    failed: LruCache<String, f64>,
    /// Held by the request that fetches a document.
    turns: HashMap<String, Weak<tokio::sync::Mutex<()>>>,
}

struct Known<T> {
    value: T,
    /// Seconds since the Unix epoch.
    fetched: f64,
    until: f64,
}

impl Documents {
    /// `fetcher` must refuse addresses that are not public.
    pub(super) fn new(fetcher: Fetcher, clock: Clock, policy: Option<Box<Policy>>) -> Self {
        let clients = Cache::new("the metadata document of the client is unusable");
        let keys = Cache::new("the keys of the client are unusable");
        Self { fetcher, clock, clients, keys, waiting: Shares::new(MAX_WAITING), policy }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.policy.is_some()
    }

    /// Returns the client that a document describes. While its host does not respond, the last document remains in use.
    ///
    /// # Errors
    ///
    /// Returns an error if the document is not available or does not describe the client.
    pub(super) async fn client(&self, id: &str, peer: Peer) -> Result<Client, OAuthError> {
        let Some(admits) = &self.policy else {
            return Err(OAuthError::invalid_client("clients with metadata documents are not accepted"));
        };
        let url = document_url(id, ALLOWS_ADDRESSES).map_err(OAuthError::invalid_client)?;
        if !admits(id) {
            return Err(OAuthError::invalid_client("the operator does not accept the client"));
        }
        self.get(&self.clients, &url, peer, 0.0, |body| describe(id, &parse_object(body)?)).await
    }

    /// Returns the keys that a client publishes, which are fetched again if they are older than a time in seconds since the
    /// Unix epoch. While their host does not respond, the last ones remain in use.
    ///
    /// # Errors
    ///
    /// Returns an error if they are not available, or if none can verify an assertion.
    pub(super) async fn keys(&self, url: &SecureUrl, peer: Peer, newer_than: f64) -> Result<Arc<JwkSet>, OAuthError> {
        self.get(&self.keys, url, peer, newer_than, parse_keys).await
    }

    async fn get<T: Clone>(
        &self,
        cache: &Cache<T>,
        url: &SecureUrl,
        peer: Peer,
        newer_than: f64,
        parse: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<T, OAuthError> {
        let id = url.as_str();
        if let Some(cached) = cache.lock().cached(id, self.clock.unix(), newer_than) {
            return cached;
        }
        // An old document is no substitute here: its host may respond, and the document may have changed.
        let Some(_waiting) = self.waiting.try_acquire(peer) else { return Err(OAuthError::unavailable()) };
        let turn = cache.lock().turn(id);
        let _turn = turn.lock().await;
        if let Some(cached) = cache.lock().cached(id, self.clock.unix(), newer_than) {
            return cached;
        }
        let fetched = self.fetcher.get(url).await;
        let fetched = fetched.and_then(|response| {
            let value = parse(&response.body).map_err(FetchError::unusable)?;
            Ok((value, response.max_age.unwrap_or(DEFAULT_LIFETIME).clamp(MIN_LIFETIME, MAX_LIFETIME)))
        });
        let now = self.clock.unix();
        let mut state = cache.lock();
        match fetched {
            Ok((value, lifetime)) => {
                state.failed.pop(id);
                let known = Known { value: value.clone(), fetched: now, until: now + lifetime.as_secs_f64() };
                state.known.put(id.to_owned(), known);
                Ok(value)
            }
            Err(error) => {
                let (url, reason) = (excerpt(&Value::from(id)), excerpt(&Value::String(error.reason)));
                tracing::info!(url, reason, "a document of a client is unusable");
                let unusable = if error.is_outage {
                    OAuthError::unavailable()
                } else {
                    state.known.pop(id);
                    OAuthError::invalid_client(cache.unusable)
                };
                state.failed.put(id.to_owned(), now + FAILURE_PAUSE.as_secs_f64());
                state.stale(id, now).ok_or(unusable)
            }
        }
    }
}

impl<T> Cache<T> {
    fn new(unusable: &'static str) -> Self {
        let state =
            State { known: LruCache::new(MAX_CACHED), failed: LruCache::new(MAX_CACHED), turns: HashMap::new() };
        Self { state: Mutex::new(state), unusable }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> State<T> {
    /// Returns what is known, unless it is to be fetched.
    ///
    /// # Errors
    ///
    /// Returns an error if nothing is known, and it is too early to fetch it again.
    fn cached(&mut self, id: &str, now: f64, newer_than: f64) -> Option<Result<T, OAuthError>> {
        let is_fresh = |known: &&Known<T>| now < known.until && known.fetched >= newer_than;
        if let Some(known) = self.known.get(id).filter(is_fresh) {
            return Some(Ok(known.value.clone()));
        }
        self.failed.get(id).filter(|until| now < **until)?;
        Some(self.stale(id, now).ok_or_else(OAuthError::unavailable))
    }

    /// Returns what is to be fetched again, but not too old.
    fn stale(&mut self, id: &str, now: f64) -> Option<T> {
        let known = self.known.get(id).filter(|known| now < known.until + MAX_STALE.as_secs_f64())?;
        Some(known.value.clone())
    }

    fn turn(&mut self, id: &str) -> Arc<tokio::sync::Mutex<()>> {
        self.turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = self.turns.get(id).and_then(Weak::upgrade).unwrap_or_default();
        self.turns.insert(id.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

/// In tests, documents are on the loopback interface.
const ALLOWS_ADDRESSES: bool = cfg!(test);

/// Parses the URL of a document or of keys: `https`, with a host name, and with a path without `.` and `..`. It may have a
/// query.
fn document_url(id: &str, allows_addresses: bool) -> Result<SecureUrl, &'static str> {
    let url = SecureUrl::parse(id).map_err(|_| "the URL of the client is not secure")?;
    let host = url.uri().host().unwrap_or_default();
    let is_address = host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok();
    if (!url.is_https() || is_address) && !allows_addresses {
        return Err("the URL of the client is not `https` with a host name");
    }
    let path = url.uri().path();
    let is_relative = |part: &str| matches!(&*part.to_ascii_lowercase().replace("%2e", "."), "." | "..");
    if path.len() < 2 || path.split('/').any(is_relative) {
        return Err("the URL of the client has no path, or one with `.` or `..`");
    }
    Ok(url)
}

/// Returns the client that a document describes.
fn describe(id: &str, document: &Map<String, Value>) -> Result<Client, String> {
    let text = |name: &str| document.get(name).and_then(Value::as_str);
    if text("client_id") != Some(id) {
        return Err("`client_id` is not the URL of the document".to_owned());
    }
    if document.contains_key("client_secret") || document.contains_key("client_secret_expires_at") {
        return Err("the document contains a secret".to_owned());
    }
    let authentication = match text("token_endpoint_auth_method") {
        None | Some("none") => Authentication::None,
        Some("private_key_jwt") => {
            let algorithm = text("token_endpoint_auth_signing_alg")
                .map(|name| Algorithm::from_name(name).ok_or("`token_endpoint_auth_signing_alg` is not supported"));
            Authentication::Keys { keys: keys(document)?, algorithm: algorithm.transpose()? }
        }
        Some(_) => return Err("the client authenticates in a way that is not supported".to_owned()),
    };
    let name = text("client_name").filter(|name| !name.trim().is_empty()).ok_or("the document has no `client_name`")?;
    let redirect_uris = client::redirect_uris(document).map_err(|error| error.description.into_owned())?;
    Ok(Client {
        id: id.to_owned(),
        name: Some(name.chars().take(MAX_NAME).collect()),
        redirect_uris,
        authentication,
        wants_refresh_tokens: client::wants_refresh_tokens(document),
        is_dpop_bound: client::is_dpop_bound(document)?,
        machine_scopes: None,
        source: ClientSource::Document,
        approvers: Approvers::None,
    })
}

/// Returns the keys of a document: either a key set, or its URL.
fn keys(document: &Map<String, Value>) -> Result<ClientKeys, String> {
    match (document.get("jwks"), document.get("jwks_uri")) {
        (Some(keys), None) => Ok(ClientKeys::Fixed(parse_keys(keys.to_string().as_bytes())?)),
        (None, Some(Value::String(url))) => Ok(ClientKeys::At(document_url(url, ALLOWS_ADDRESSES)?)),
        _ => Err("the document has not exactly one of `jwks` and `jwks_uri`".to_owned()),
    }
}

/// Parses the keys of a client. If one is not public, everyone could act in the name of the client.
fn parse_keys(text: &[u8]) -> Result<Arc<JwkSet>, String> {
    let set = parse_object(text)?;
    let mut keys = set.get("keys").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object);
    if !keys.all(Jwk::is_public) {
        return Err("a key of the client is not public".to_owned());
    }
    JwkSet::parse(text).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_describes_the_client_at_its_url() {
        let id = "https://app.example/client.json";
        let key = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        let signed = |mut changes: Value| {
            changes["token_endpoint_auth_method"] = json!("private_key_jwt");
            changes
        };
        let valid = json!({"client_id": id, "client_name": "App", "redirect_uris": ["https://app.example/callback"]});
        for (changes, problem) in [
            (json!({}), None),
            (json!({"token_endpoint_auth_method": "none"}), None),
            (json!({"client_id": "https://app.example/other.json"}), Some("`client_id` is not the URL")),
            (json!({"client_id": null}), Some("`client_id` is not the URL")),
            (json!({"client_secret": "x"}), Some("contains a secret")),
            (json!({"client_secret_expires_at": 0}), Some("contains a secret")),
            (json!({"client_name": null}), Some("no `client_name`")),
            (json!({"client_name": " "}), Some("no `client_name`")),
            (json!({"token_endpoint_auth_method": "client_secret_jwt"}), Some("not supported")),
            (json!({"token_endpoint_auth_method": "private_key_jwt"}), Some("exactly one of `jwks` and `jwks_uri`")),
            (signed(json!({"jwks": {"keys": [key]}})), None),
            (signed(json!({"jwks_uri": "https://keys.example/jwks"})), None),
            (
                signed(json!({"jwks_uri": "https://keys.example/jwks", "jwks": {"keys": [key]}})),
                Some("exactly one of `jwks` and `jwks_uri`"),
            ),
            (signed(json!({"jwks_uri": "http://keys.example/jwks"})), Some("is not secure")),
            (signed(json!({"jwks": {"keys": []}})), Some("none of 0 keys")),
            (signed(json!({"jwks": {"keys": [{"kty": "RSA"}]}})), Some("none of 1 keys")),
            (signed(json!({"jwks": {"keys": [key, {"kty": "oct", "k": "c2VjcmV0"}]}})), Some("not public")),
            (signed(json!({"jwks": {"keys": [key, {"kty": "EC", "d": "AA"}]}})), Some("not public")),
            (
                signed(json!({"jwks": {"keys": [key]}, "token_endpoint_auth_signing_alg": "HS256"})),
                Some("`token_endpoint_auth_signing_alg` is not supported"),
            ),
            (json!({"dpop_bound_access_tokens": true}), None),
            (json!({"dpop_bound_access_tokens": "true"}), Some("`dpop_bound_access_tokens` must be")),
            (json!({"redirect_uris": []}), Some("redirect_uris")),
            (json!({"redirect_uris": ["http://app.example/"]}), Some("redirect URI")),
            (json!({"redirect_uris": "https://app.example/callback"}), Some("redirect_uris")),
        ] {
            let mut document = valid.clone();
            for (name, value) in changes.as_object().unwrap() {
                document[name] = value.clone();
            }
            let found = describe(id, document.as_object().unwrap()).err();
            match problem {
                None => assert_eq!(found, None, "{changes}"),
                Some(problem) => assert!(found.as_ref().is_some_and(|found| found.contains(problem)), "{found:?}"),
            }
        }
    }

    #[test]
    fn documents_are_used_until_they_end_and_after_failures() {
        let until = 10.0;
        let stale = until + MAX_STALE.as_secs_f64();
        for (failed_until, now, expected) in [
            (0.0, 0.0, Some(Ok(1))),
            (0.0, until, None),
            (30.0, until, Some(Ok(1))),
            (30.0, 30.0, None),
            (stale + 30.0, stale - 1.0, Some(Ok(1))),
            (stale + 30.0, stale, Some(Err(OAuthError::unavailable()))),
        ] {
            let cache = Cache::new("unusable");
            let mut state = cache.lock();
            state.known.put("a".to_owned(), Known { value: 1, fetched: 0.0, until });
            state.failed.put("a".to_owned(), failed_until);
            assert_eq!(state.cached("a", now, 0.0), expected, "{failed_until} {now}");
        }
    }

    #[test]
    fn turns_that_have_ended_are_forgotten() {
        let cache = Cache::<()>::new("unusable");
        let mut state = cache.lock();
        let held = state.turn("a");
        for id in ["b", "c", "a"] {
            state.turn(id);
        }
        assert_eq!((state.turns.len(), Arc::ptr_eq(&held, &state.turn("a"))), (1, true));
    }

    #[test]
    fn urls_of_documents_have_a_path() {
        for (url, valid) in [
            ("https://app.example/client.json", true),
            ("https://app.example", false),
            ("https://app.example/", false),
            ("https://app.example/a/../b", false),
            ("https://app.example/a/%2e%2E/b", false),
            ("https://app.example/a/.%2e", false),
            ("https://app.example/a/%2e/b", false),
            ("https://app.example/a/%2e%2e%2e/b", true),
            ("https://user@app.example/a", false),
            ("https://app.example/a#b", false),
            ("http://app.example/a", false),
            ("http://localhost/a", false),
            ("https://127.0.0.1/a", false),
            ("https://169.254.169.254/latest/meta-data", false),
            ("https://[::1]/a", false),
            ("https://[::ffff:127.0.0.1]/a", false),
            ("file:///etc/passwd", false),
        ] {
            assert_eq!(document_url(url, false).is_ok(), valid, "{url}");
        }
    }

    /// Resolves hosts that are not addresses, and connects to public addresses only.
    #[tokio::test]
    async fn names_of_addresses_that_are_not_public_are_not_connected_to() {
        let fetcher = Fetcher::public(MAX_DOCUMENT);
        // TLS refuses some of them before they are resolved.
        let expected = ["the host has no address that may be used", "invalid dns name"];
        for url in ["https://localhost/a", "https://2130706433/a", "https://0x7f000001/a", "https://127.1/a"] {
            let url = document_url(url, false).unwrap();
            let error = fetcher.get(&url).await.unwrap_err();
            assert!(expected.iter().any(|expected| error.reason.contains(expected)), "{url}: {error:?}");
        }
    }
}
