//! The metadata documents of clients that are identified by a URL.
//!
//! See [Client ID metadata documents](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration).

use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use lru::LruCache;
use serde_json::{Map, Value};

use super::{
    client::{Client, ClientSource},
    client_metadata::{self, MAX_NAME},
    oauth_error::OAuthError,
};
use crate::{clock::Clock, excerpt::excerpt, fetch::Fetcher, json::parse_object, url::SecureUrl};

/// The maximum size of a document in bytes.
pub(super) const MAX_DOCUMENT: usize = 16 << 10;

/// The maximum number of cached documents. Those that were not used for the longest time are evicted.
const MAX_CACHED: usize = 1000;

/// The bounds of the time for which a document is cached, and its default.
const MIN_LIFETIME: Duration = Duration::from_secs(60);
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60 * 60);

/// The time for which a failure is remembered, so that requests do not become a flood towards another host.
const FAILURE_LIFETIME: Duration = Duration::from_secs(30);

/// Fetches and caches metadata documents. The runtime bounds how many requests of a peer, and so fetches, are in progress.
pub(super) struct Documents {
    fetcher: Fetcher,
    clock: Clock,
    cache: Mutex<LruCache<String, Cached>>,
    is_enabled: bool,
}

struct Cached {
    client: Result<Client, OAuthError>,
    /// Seconds since the Unix epoch.
    until: f64,
}

impl Documents {
    /// `fetcher` must refuse addresses that are not public.
    pub(super) fn new(fetcher: Fetcher, clock: Clock, is_enabled: bool) -> Self {
        let capacity = NonZeroUsize::new(MAX_CACHED).unwrap_or(NonZeroUsize::MIN);
        Self { fetcher, clock, cache: Mutex::new(LruCache::new(capacity)), is_enabled }
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Returns the client that a document describes.
    ///
    /// # Errors
    ///
    /// Returns an error if the document is not available or does not describe the client.
    pub(super) async fn client(&self, id: &str) -> Result<Client, OAuthError> {
        if !self.is_enabled {
            return Err(OAuthError::invalid_client("clients with metadata documents are not accepted"));
        }
        // In tests, documents are on the loopback interface.
        let url = document_url(id, cfg!(test)).map_err(OAuthError::invalid_client)?;
        if let Some(known) = self.cached(id) {
            return known;
        }
        let (client, lifetime) = match self.fetch(id, &url).await {
            Ok((client, lifetime)) => (Ok(client), lifetime),
            Err(reason) => {
                let reason = excerpt(&Value::String(reason));
                let client = excerpt(&Value::from(id));
                tracing::info!(client, reason, "a metadata document is unusable");
                let error = OAuthError::invalid_client("the metadata document of the client is unusable");
                (Err(error), FAILURE_LIFETIME)
            }
        };
        let until = self.clock.unix() + lifetime.as_secs_f64();
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.put(id.to_owned(), Cached { client: client.clone(), until });
        client
    }

    fn cached(&self, id: &str) -> Option<Result<Client, OAuthError>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = cache.get(id).filter(|cached| self.clock.unix() < cached.until)?;
        Some(cached.client.clone())
    }

    async fn fetch(&self, id: &str, url: &SecureUrl) -> Result<(Client, Duration), String> {
        let response = self.fetcher.get(url).await?;
        let client = describe(id, &parse_object(&response.body)?)?;
        Ok((client, response.max_age.unwrap_or(DEFAULT_LIFETIME).clamp(MIN_LIFETIME, MAX_LIFETIME)))
    }
}

/// Parses the URL of a document: `https`, with a host name, a path without `.` and `..`, and without a query.
fn document_url(id: &str, allows_addresses: bool) -> Result<SecureUrl, &'static str> {
    let url = SecureUrl::parse(id).map_err(|_| "the client is not identified by a secure URL")?;
    let host = url.uri().host().unwrap_or_default();
    let is_address = host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok();
    if (!url.is_https() || is_address) && !allows_addresses {
        return Err("the URL of the client is not `https` with a host name");
    }
    let path = url.uri().path();
    if path.len() < 2 || path.split('/').any(|part| part == "." || part == "..") {
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
    if document.contains_key("client_secret") {
        return Err("the document contains a secret".to_owned());
    }
    if text("token_endpoint_auth_method").is_some_and(|method| method != "none") {
        return Err("the client authenticates in a way that is not supported".to_owned());
    }
    let redirect_uris = client_metadata::redirect_uris(document).map_err(|error| error.description.into_owned())?;
    Ok(Client {
        id: id.to_owned(),
        name: text("client_name").map(|name| name.chars().take(MAX_NAME).collect()),
        redirect_uris,
        secret_hash: None,
        wants_refresh_tokens: client_metadata::wants_refresh_tokens(document),
        machine_scopes: None,
        source: ClientSource::Document,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_describes_the_client_at_its_url() {
        let id = "https://app.example/client.json";
        let valid = json!({"client_id": id, "client_name": "App", "redirect_uris": ["https://app.example/callback"]});
        for (changes, problem) in [
            (json!({}), None),
            (json!({"token_endpoint_auth_method": "none"}), None),
            (json!({"client_id": "https://app.example/other.json"}), Some("`client_id` is not the URL")),
            (json!({"client_id": null}), Some("`client_id` is not the URL")),
            (json!({"client_secret": "x"}), Some("contains a secret")),
            (json!({"token_endpoint_auth_method": "private_key_jwt"}), Some("not supported")),
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
    fn urls_of_documents_have_a_path() {
        for (url, valid) in [
            ("https://app.example/client.json", true),
            ("https://app.example", false),
            ("https://app.example/", false),
            ("https://app.example/a/../b", false),
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
            assert!(expected.iter().any(|expected| error.contains(expected)), "{url}: {error}");
        }
    }
}
