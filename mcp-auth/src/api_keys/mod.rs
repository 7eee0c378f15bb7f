//! Static keys of machines.

mod file;
mod new_key;

use std::{
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http::{HeaderName, request::Parts};
use mcp_runtime::auth::{AuthenticateFuture, AuthenticationError, Authenticator, Identity};

use self::file::{KeyFile, Version};
pub use self::new_key::NewApiKey;
use crate::{
    Error,
    clock::Clock,
    credentials::{Credentials, Scheme},
};

/// The minimum time between two checks whether the file has changed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum size of a key that is sent, in bytes.
const MAX_KEY: usize = 1024;

/// Accepts static keys, for machines that cannot obtain tokens: from a [`file`](Self::file), or as [values](Self::new).
///
/// The file contains SHA-256 hashes, not keys. [`NewApiKey`] creates a key with its entry:
///
/// ```json
/// {
///   "keys": [
///     {
///       "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
///       "principal": "backup",
///       "scopes": ["notes:read"],
///       "expires": "2027-01-01T00:00:00Z"
///     }
///   ]
/// }
/// ```
///
/// `scopes` and `expires` are optional. The file is read again within a second after a change. If it is invalid or
/// missing then, an error is logged and the previous keys remain in use; to revoke all keys, write an empty array. The
/// file may have 1 MiB and 1,000 keys.
///
/// A key is sent as `Authorization: Bearer <key>`, or in a [`header`](Self::header) of its own. Its hash is compared with
/// all hashes in constant time. Keys of less than 128 random bits could be guessed from a stolen file.
///
/// ```no_run
/// # use mcp_runtime::Server;
/// #[mcp_runtime::server]
/// async fn main(server: Server) -> Result<Server, mcp_auth::Error> {
///     Ok(server.authenticate(mcp_auth::ApiKeys::file("/etc/notes/api-keys.json")?))
/// }
/// ```
pub struct ApiKeys {
    /// The file. `None` if the keys were passed as values.
    path: Option<PathBuf>,
    header: Option<HeaderName>,
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    keys: Arc<KeyFile>,
    version: Version,
    checked_at: Instant,
}

impl ApiKeys {
    /// Accepts keys that the program has, such as secrets in environment variables, or those of a test: at most 1,000.
    /// Each comes with the identity of its sender.
    ///
    /// ```
    /// use mcp_auth::ApiKeys;
    /// use mcp_runtime::auth::Identity;
    ///
    /// # fn read(_: &str) -> Result<String, std::env::VarError> { Ok("a secret".into()) }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let backup = Identity::new("backup").with_scopes(["notes:read"]);
    /// let keys = ApiKeys::new([(read("BACKUP_KEY")?, backup)])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a key is empty, if two keys are the same, or if there are too many.
    pub fn new(keys: impl IntoIterator<Item = (String, Identity)>) -> Result<Self, Error> {
        let keys = KeyFile::of(keys).map_err(|reason| Error::Options { reason })?;
        Ok(Self::with(keys, Version::default(), None, Clock::default()))
    }

    /// Reads the keys from a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or is invalid.
    pub fn file(path: impl Into<PathBuf>) -> Result<Self, Error> {
        Self::file_with(path.into(), Clock::default())
    }

    pub(crate) fn file_with(path: PathBuf, clock: Clock) -> Result<Self, Error> {
        let (keys, version) = KeyFile::read(&path).map_err(|reason| Error::File { path: path.clone(), reason })?;
        Ok(Self::with(keys, version, Some(path), clock))
    }

    fn with(keys: KeyFile, version: Version, path: Option<PathBuf>, clock: Clock) -> Self {
        let state = State { keys: Arc::new(keys), version, checked_at: clock.monotonic() };
        Self { path, header: None, clock, state: Mutex::new(state) }
    }

    /// Reads keys from this header instead of `Authorization`, such as `x-api-key`.
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> Self {
        self.header = Some(name);
        self
    }

    async fn identify(&self, request: &Parts) -> Result<Identity, AuthenticationError> {
        let key = self.key_of(request)?;
        self.reread_if_changed().await;
        let keys = Arc::clone(&self.lock().keys);
        let found = keys.find(key).ok_or_else(|| AuthenticationError::invalid("the API key is unknown"))?;
        if found.expires_at().is_some_and(|expiry| expiry <= self.clock.system()) {
            return Err(AuthenticationError::invalid("the API key has expired")
                .with_detail(format!("the principal is `{}`", found.principal())));
        }
        Ok(found.clone())
    }

    fn key_of<'a>(&self, request: &'a Parts) -> Result<&'a str, AuthenticationError> {
        let Some(name) = &self.header else {
            return match Credentials::of(request)? {
                Credentials { scheme: Scheme::Bearer, token } => Ok(token),
                Credentials { scheme: Scheme::Dpop, .. } => Err(AuthenticationError::missing()),
            };
        };
        let mut values = request.headers.get_all(name).iter();
        let value = values.next().ok_or_else(AuthenticationError::missing)?;
        if values.next().is_some() {
            return Err(AuthenticationError::malformed("expected one API key"));
        }
        let key = value.to_str().ok().filter(|key| key.len() <= MAX_KEY);
        key.ok_or_else(|| AuthenticationError::invalid("the API key is unknown"))
    }

    /// Reads the file if it has changed since the last check, which one request does at a time.
    async fn reread_if_changed(&self) {
        let Some(path) = &self.path else { return };
        let known = {
            let (now, mut state) = (self.clock.monotonic(), self.lock());
            if now.duration_since(state.checked_at) < CHECK_INTERVAL {
                return;
            }
            state.checked_at = now;
            state.version.clone()
        };
        let file = path.clone();
        let read = tokio::task::spawn_blocking(move || KeyFile::read_if_changed(&file, &known)).await;
        let Ok(Some((version, keys))) = read else { return };
        let mut state = self.lock();
        state.version = version;
        match keys {
            Ok(keys) => {
                state.keys = Arc::new(keys);
                drop(state);
                tracing::info!(path = %path.display(), "API keys read again");
            }
            Err(reason) => {
                drop(state);
                tracing::error!(path = %path.display(), reason, "API keys not readable, known keys remain in use");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Authenticator for ApiKeys {
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(self.identify(request))
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKeys").field("path", &self.path).field("header", &self.header).finish_non_exhaustive()
    }
}
