//! Whether the server can do its work.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};

use super::replica::Replica;
use crate::backend::with_timeout;

/// The record that is read to see whether the backend responds. It need not exist.
const RECORD: &str = "mcp/1/ready";
/// The time for which a result is used again, so that frequent probes do not burden the backend.
const MAX_AGE: Duration = Duration::from_secs(1);

/// A probe of the backend that processes share.
pub(super) struct BackendProbe {
    replica: Arc<Replica>,
    /// When the backend was asked last, and why the server cannot do its work, if it cannot.
    last: Mutex<Option<(Instant, Option<&'static str>)>>,
}

impl BackendProbe {
    pub(super) fn new(replica: Arc<Replica>) -> Self {
        Self { replica, last: Mutex::default() }
    }

    /// Returns why the server cannot do its work, or `None` if it can: the backend responds, and accepts changes. Concurrent
    /// probes ask it once. Whether it accepts changes is known from the lease, so that probes need not write.
    pub(super) async fn problem(&self) -> Option<&'static str> {
        let mut last = self.last.lock().await;
        let before = match *last {
            Some((at, problem)) if at.elapsed() < MAX_AGE => return problem,
            before => before.and_then(|(_, problem)| problem),
        };
        let problem = match with_timeout(self.replica.backend().get(RECORD)).await {
            Err(error) => {
                if before.is_none() {
                    tracing::warn!(%error, "not ready");
                }
                Some("the backend does not respond")
            }
            Ok(_) if self.replica.can_write().await => None,
            Ok(_) => {
                if before.is_none() {
                    tracing::warn!("not ready: the backend accepts no changes");
                }
                Some("the backend accepts no changes")
            }
        };
        if before.is_some() && problem.is_none() {
            tracing::warn!("ready again: the backend responds, and accepts changes");
        }
        *last = Some((Instant::now(), problem));
        problem
    }
}

impl fmt::Debug for BackendProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackendProbe").finish_non_exhaustive()
    }
}
