//! Whether the server can do its work.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};

use crate::backend::{Backend, respond};

/// The record that is read to see whether the backend responds. It need not exist.
const RECORD: &str = "mcp/1/ready";
/// The time for which a result is used again, so that frequent probes do not burden the backend.
const MAX_AGE: Duration = Duration::from_secs(1);

/// A probe of the backend that processes share.
pub(super) struct BackendProbe {
    backend: Arc<dyn Backend>,
    /// When the backend was asked last, and whether it has responded.
    last: Mutex<Option<(Instant, bool)>>,
}

impl BackendProbe {
    pub(super) fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, last: Mutex::default() }
    }

    /// Returns whether the backend responds. Concurrent probes ask it once.
    pub(super) async fn responds(&self) -> bool {
        let mut last = self.last.lock().await;
        let before = match *last {
            Some((at, responds)) if at.elapsed() < MAX_AGE => return responds,
            before => before.is_none_or(|(_, responds)| responds),
        };
        let response = respond(self.backend.get(RECORD)).await;
        match &response {
            Err(error) if before => tracing::warn!(%error, "not ready"),
            Ok(_) if !before => tracing::info!("ready again: the backend responds"),
            _ => {}
        }
        *last = Some((Instant::now(), response.is_ok()));
        response.is_ok()
    }
}

impl fmt::Debug for BackendProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendProbe").finish_non_exhaustive()
    }
}
