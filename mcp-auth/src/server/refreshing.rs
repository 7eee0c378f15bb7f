use tokio::sync::{Mutex, MutexGuard};

use super::random;

/// The number of locks. Grants that share one wait for each other.
const LOCKS: usize = 64;

/// Lets this process refresh the tokens of a grant at the provider one at a time: most providers accept a refresh token
/// once, and end the login if it is used again.
pub(super) struct Refreshing([Mutex<()>; LOCKS]);

impl Default for Refreshing {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl Refreshing {
    pub(super) async fn lock(&self, grant: &str) -> MutexGuard<'_, ()> {
        let index = random::hash(grant).bytes().fold(0, |sum, byte| sum + usize::from(byte)) % LOCKS;
        self.0[index].lock().await
    }
}
