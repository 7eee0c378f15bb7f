//! The contract of a backend, as a test.

mod logs;
mod records;
mod topics;

use std::{fmt::Write as _, sync::Arc, time::Duration};

use crate::backend::{Backend, BackendError};

/// The time within which an expected event must occur.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time to live of data that must not expire during the test.
const LONG: Duration = Duration::from_secs(600);

/// Checks that a backend does what [`Records`](crate::backend::Records), [`EventLogs`](crate::backend::EventLogs) and [`Topics`](crate::backend::Topics)
/// promise: for tests of implementations.
///
/// The two values stand for two processes: connections to the same store, or clones of one `Arc`. Everything that is
/// written has a key of its own, which begins with `contract/`. Must be called within a tokio runtime.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_runtime::{backend::MemoryBackend, testing::backend_contract};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let backend = Arc::new(MemoryBackend::default());
/// backend_contract(Arc::clone(&backend), backend).await.unwrap();
/// # });
/// ```
///
/// # Errors
///
/// The backend is unavailable, or full.
///
/// # Panics
///
/// The backend does something else than it must.
pub async fn backend_contract(one: impl Backend, other: impl Backend) -> Result<(), BackendError> {
    let random = getrandom::u64().map_err(|error| BackendError::Unavailable(error.to_string()))?;
    let pair = Pair { one: Arc::new(one), other: Arc::new(other), prefix: format!("contract/{random:016x}") };
    records::check(&pair).await?;
    logs::check(&pair).await?;
    topics::check(&pair).await
}

/// Two connections to one store.
struct Pair {
    one: Arc<dyn Backend>,
    other: Arc<dyn Backend>,
    /// The prefix of all keys.
    prefix: String,
}

impl Pair {
    /// Returns a key for one check.
    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    /// Returns both connections.
    fn both(&self) -> [&Arc<dyn Backend>; 2] {
        [&self.one, &self.other]
    }
}

/// Returns a key that is too long.
fn long_key() -> String {
    let mut key = String::new();
    while key.len() <= 1024 {
        let _: Result<_, _> = write!(key, "contract/{}", key.len());
    }
    key
}

/// Fails unless the future resolves in time.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}"),
    }
}

/// Waits a moment before something is read again.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::MemoryBackend;

    #[tokio::test]
    async fn the_memory_backend_keeps_the_contract() {
        let backend = Arc::new(MemoryBackend::default());
        backend_contract(Arc::clone(&backend), backend).await.unwrap();
    }
}
