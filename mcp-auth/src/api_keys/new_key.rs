use std::{fmt, time::SystemTime};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value};

use crate::{Error, token_cache::TokenHash};

/// A new API key with its entry for the file that [`ApiKeys`](crate::ApiKeys) reads.
///
/// ```
/// use mcp_auth::NewApiKey;
///
/// let key = NewApiKey::generate("backup")?.with_scopes(["notes:read"]);
/// println!("give this to the client, it is not stored: {}", key.secret());
/// println!("add this to the array `keys`: {}", key.entry());
/// # assert!(key.secret().starts_with("mcp_") && !key.entry().contains(key.secret()));
/// # Ok::<(), mcp_auth::Error>(())
/// ```
///
/// The example `new_api_key` of this crate does the same on the command line.
#[must_use]
pub struct NewApiKey {
    secret: String,
    entry: Map<String, Value>,
}

impl NewApiKey {
    /// Creates a key of 256 random bits for a principal.
    ///
    /// # Errors
    ///
    /// Returns an error if the system has no random numbers.
    pub fn generate(principal: impl Into<String>) -> Result<Self, Error> {
        let mut random = [0; 32];
        SystemRandom::new().fill(&mut random).map_err(|_| Error::Random)?;
        let secret = format!("mcp_{}", BASE64_URL_SAFE_NO_PAD.encode(random));
        let hash = TokenHash::of(&secret).as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let mut entry = Map::new();
        entry.insert("sha256".to_owned(), hash.into());
        entry.insert("principal".to_owned(), principal.into().into());
        Ok(Self { secret, entry })
    }

    /// Sets the scopes of the key. Default: none.
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let scopes: Vec<String> = scopes.into_iter().map(Into::into).collect();
        self.entry.insert("scopes".to_owned(), scopes.into());
        self
    }

    /// Sets the time at which the key expires. Default: never.
    pub fn with_expiry(mut self, at: SystemTime) -> Self {
        let time = humantime::format_rfc3339_seconds(at).to_string();
        self.entry.insert("expires".to_owned(), time.into());
        self
    }

    /// Returns the key, which only its owner may know.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Returns the entry for the file as a JSON object, with the hash of the key.
    pub fn entry(&self) -> String {
        Value::Object(self.entry.clone()).to_string()
    }
}

/// Omits the key.
impl fmt::Debug for NewApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewApiKey").field("entry", &self.entry).finish_non_exhaustive()
    }
}
