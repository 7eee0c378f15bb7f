//! Repeating operations on the logs of streams until the backend responds.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::log::RUNNING_TTL;
use crate::backend::BackendError;

/// The times between two attempts to reach a backend that has failed.
pub(super) const MIN_RETRY: Duration = Duration::from_millis(50);
pub(super) const MAX_RETRY: Duration = Duration::from_secs(1);

/// Repeats an operation until it succeeds. Returns `None` if it fails for so long that the log expires.
pub(super) async fn persist<T, F: Future<Output = Result<T, BackendError>>>(operation: impl Fn() -> F) -> Option<T> {
    persist_while(operation, |_| true).await
}

/// Like [`persist`], but returns `None` at once if the backend is full.
pub(super) async fn persist_unless_full<T, F: Future<Output = Result<T, BackendError>>>(
    operation: impl Fn() -> F,
) -> Option<T> {
    persist_while(operation, |error| !matches!(error, BackendError::Full)).await
}

async fn persist_while<T, F: Future<Output = Result<T, BackendError>>>(
    operation: impl Fn() -> F,
    is_transient: fn(&BackendError) -> bool,
) -> Option<T> {
    let give_up = Instant::now() + RUNNING_TTL;
    let mut retry = MIN_RETRY;
    loop {
        match operation().await {
            Ok(value) => return Some(value),
            Err(error) if !is_transient(&error) || Instant::now() > give_up => {
                tracing::error!(%error, "an event stream cannot be written to the backend");
                return None;
            }
            Err(error) => tracing::debug!(%error, "cannot write an event stream to the backend"),
        }
        sleep(retry).await;
        retry = (retry * 2).min(MAX_RETRY);
    }
}
