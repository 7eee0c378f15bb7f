//! The backend of layers that count or keep something for all processes of a service.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::backend::Backend;

/// The number of bytes of a hash. Finding two names with the same hash is infeasible.
const HASH_BYTES: usize = 24;

/// The backend that the processes of a service share, and the name of the server.
#[derive(Debug)]
pub(crate) struct SharedBackend {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) server: Box<str>,
}

/// The backend that the processes of a service share, as one layer sees it. [`Call::backend`](super::Call::backend)
/// returns it.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::{backend::{RecordCondition, Records as _}, layers::{Call, Next, Outcome}};
///
/// /// Rejects all calls of a user for a minute after `lock_me`, in all processes.
/// async fn locked(call: Call, next: Next) -> Outcome {
///     let Some(shared) = call.backend() else { return next.run(call).await };
///     let (backend, key) = (shared.get(), shared.key(call.caller().principal().unwrap_or_default()));
///     match backend.get(&key).await {
///         Ok(None) => {}
///         Ok(Some(_)) => return Outcome::error(&call, "locked: retry in a minute"),
///         Err(error) => tracing::warn!(%error, "cannot see whether the user is locked"),
///     }
///     if call.name() == "lock_me" {
///         let _ = backend.set(&key, RecordCondition::Always, Vec::new(), Duration::from_secs(60)).await;
///     }
///     next.run(call).await
/// }
/// # mcp_runtime::layers::from_fn(locked);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct LayerBackend<'a> {
    pub(super) shared: &'a SharedBackend,
    pub(super) position: usize,
}

impl<'a> LayerBackend<'a> {
    /// Returns the backend.
    pub fn get(self) -> &'a Arc<dyn Backend> {
        &self.shared.backend
    }

    /// Returns a key for records, logs and topics of this layer.
    ///
    /// It is a hash of `name`, the name of the server, and the position of the layer among the layers of the server. It
    /// is therefore the same in all processes that run the same program, other layers and servers have other keys, and
    /// the key does not reveal the name.
    pub fn key(self, name: &str) -> String {
        let Self { shared, position } = self;
        let mut hasher = Sha256::new();
        hasher.update((shared.server.len() as u64).to_le_bytes());
        hasher.update(&*shared.server);
        hasher.update((position as u64).to_le_bytes());
        hasher.update(name);
        format!("mcp/1/layer/{}", URL_SAFE_NO_PAD.encode(&hasher.finalize()[..HASH_BYTES]))
    }
}
