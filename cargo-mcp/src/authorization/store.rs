//! The tokens of the user, in a file that only the user can read.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use rmcp::transport::auth::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};

use crate::{
    directories::{Base, Directories},
    failure::Failure,
    temporary::{self, Access},
};

/// The credentials for one server, in the file of all credentials.
#[derive(Clone, Debug)]
pub(crate) struct TokenStore {
    directory: PathBuf,
    /// The URL of the server.
    pub(super) url: String,
}

impl TokenStore {
    /// Returns the store for a server in the configuration directory of the user.
    ///
    /// # Errors
    ///
    /// Fails if the home directory is unknown.
    pub(crate) fn of(url: &str) -> Result<Self, Failure> {
        Ok(Self::in_directory(Directories::current()?.base(Base::Config).join("cargo-mcp"), url))
    }

    pub(super) fn in_directory(directory: PathBuf, url: &str) -> Self {
        let parsed = url::Url::parse(url).map(|mut parsed| {
            parsed.set_fragment(None);
            parsed.into()
        });
        let url = parsed.unwrap_or_else(|_| url.to_owned());
        Self { directory, url }
    }

    /// Returns the credentials for the server.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub(crate) fn get(&self) -> io::Result<Option<StoredCredentials>> {
        Ok(self.read()?.remove(&self.url))
    }

    /// Removes the credentials for the server. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or written.
    pub(crate) fn remove(&self) -> io::Result<bool> {
        self.get()?.map_or(Ok(false), |_| self.update(|all| drop(all.remove(&self.url))).map(|()| true))
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join("tokens.json")
    }

    fn read(&self) -> io::Result<BTreeMap<String, StoredCredentials>> {
        match fs::read(self.path()) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the file atomically. Other processes wait meanwhile.
    fn update(&self, change: impl FnOnce(&mut BTreeMap<String, StoredCredentials>)) -> io::Result<()> {
        create_private_directory(&self.directory)?;
        let _lock = lock(&self.directory, "tokens.lock")?;
        let mut all = self.read()?;
        change(&mut all);
        let mut file = temporary::file_in(&self.directory, Access::Private)?;
        file.write_all(&serde_json::to_vec_pretty(&all)?)?;
        file.as_file().sync_all()?;
        file.persist(self.path())?;
        Ok(())
    }

    fn failed(&self, error: &io::Error) -> AuthError {
        AuthError::CredentialStoreError(format!("`{}`: {error}", self.path().display()))
    }
}

#[async_trait::async_trait]
impl CredentialStore for TokenStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        self.get().map_err(|error| self.failed(&error))
    }

    /// Refuses tokens of other types: a token with a key must not be sent as if it had none.
    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let response = serde_json::to_value(&credentials.token_response).unwrap_or_default();
        let kind = response["token_type"].as_str().unwrap_or("bearer");
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(AuthError::InvalidTokenType(format!("`{kind}`, expected `Bearer`")));
        }
        self.update(|all| drop(all.insert(self.url.clone(), credentials))).map_err(|error| self.failed(&error))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.remove().map(drop).map_err(|error| self.failed(&error))
    }

    /// A refresh token is valid once, so only one process refreshes at a time.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let directory = self.directory.clone();
        let locked = tokio::task::spawn_blocking(move || {
            create_private_directory(&directory)?;
            lock(&directory, "refresh.lock")
        });
        match locked.await {
            Ok(Ok(lock)) => Ok(Some(CredentialRefreshGuard::new(lock))),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(error) => Err(AuthError::CredentialStoreError(error.to_string())),
        }
    }
}

/// Locks a file until it is dropped. On Windows, processes that write at the same time may lose an entry.
fn lock(directory: &Path, name: &str) -> io::Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(directory.join(name))?;
    #[cfg(unix)]
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
    Ok(file)
}

fn create_private_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(test)]
mod tests {
    use rmcp::transport::auth::{CredentialStore as _, StoredCredentials};

    use super::TokenStore;

    #[tokio::test]
    async fn credentials_are_kept_per_server_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("cargo-mcp");
        let one = TokenStore::in_directory(home.clone(), "http://127.0.0.1:1/mcp");
        let other = TokenStore::in_directory(home.clone(), "http://127.0.0.1:2/mcp");
        assert!(one.load().await.unwrap().is_none());
        one.save(StoredCredentials::new("one".into(), None, vec!["a".into()], None)).await.unwrap();
        other.save(StoredCredentials::new("other".into(), None, vec![], None)).await.unwrap();
        assert_eq!(one.load().await.unwrap().unwrap().client_id, "one");
        let same = TokenStore::in_directory(home.clone(), "HTTP://127.0.0.1:1/mcp#fragment");
        assert_eq!(same.load().await.unwrap().unwrap().client_id, "one");
        for different in ["http://127.0.0.1:1/mcp?team=1", "http://127.0.0.1:1/mcp/", "https://127.0.0.1:1/mcp"] {
            let different = TokenStore::in_directory(home.clone(), different);
            assert!(different.load().await.unwrap().is_none(), "{different:?}");
        }
        #[cfg(unix)]
        {
            let mode =
                |path| std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions()) & 0o777;
            assert_eq!(mode(one.path()), 0o600);
            assert_eq!(mode(home), 0o700);
        }
        assert!(one.remove().unwrap());
        assert!(!one.remove().unwrap());
        assert_eq!(other.load().await.unwrap().unwrap().client_id, "other");
    }

    /// A refresh token is valid once.
    #[cfg(unix)]
    #[tokio::test]
    async fn only_one_process_refreshes_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let store = TokenStore::in_directory(directory.path().to_owned(), "http://127.0.0.1:1/mcp");
        let guard = store.acquire_refresh_guard().await.unwrap().unwrap();
        let file = std::fs::File::open(directory.path().join("refresh.lock")).unwrap();
        let try_lock = || rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared);
        assert!(try_lock().is_err());
        drop(guard);
        assert!(try_lock().is_ok());
    }

    #[tokio::test]
    async fn an_unreadable_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let store = TokenStore::in_directory(directory.path().to_owned(), "http://127.0.0.1:1/mcp");
        std::fs::write(store.path(), "no JSON").unwrap();
        let error = store.load().await.unwrap_err().to_string();
        assert!(error.contains("tokens.json"), "{error}");
        assert_eq!(std::fs::read_to_string(store.path()).unwrap(), "no JSON");
    }
}
