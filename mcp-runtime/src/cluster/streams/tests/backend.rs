//! A backend whose logs can be made to fail.

use std::{
    collections::VecDeque,
    future::{pending, ready},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;

use crate::{
    backend::{BackendError, BackendFuture},
    testing::test_backend::{BackendHook, BackendMethod, BackendOperation, TestBackend},
};

/// How an append fails, or is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// With an error, without an effect.
    Before,
    /// With an error, after it has taken effect.
    After,
    /// Never resolves, and has no effect.
    Hang,
    /// The backend is full.
    Full,
    /// Succeeds after a second.
    Slow,
}

/// A backend whose appends can fail and whose reads can be slow.
pub(super) type Flaky = TestBackend<LogFailures>;

#[derive(Debug, Default)]
pub(super) struct LogFailures {
    /// The failures of the next appends.
    appends: Mutex<VecDeque<Failure>>,
    /// The duration of a read.
    delay: Mutex<Duration>,
    /// Whether records cannot be written.
    is_read_only: AtomicBool,
    /// Whether announcements of appends are lost.
    is_deaf: AtomicBool,
    /// Whether messages cannot be published.
    is_mute: AtomicBool,
}

impl LogFailures {
    /// Makes the next appends fail.
    pub(super) fn fail(&self, failures: &[Failure]) {
        self.appends.lock().unwrap().extend(failures);
    }

    /// Sets the duration of a read.
    pub(super) fn set_delay(&self, delay: Duration) {
        *self.delay.lock().unwrap() = delay;
    }

    /// Sets whether records cannot be written.
    pub(super) fn set_read_only(&self, is_read_only: bool) {
        self.is_read_only.store(is_read_only, Ordering::Relaxed);
    }

    /// Sets whether announcements of appends are lost.
    pub(super) fn set_deaf(&self, is_deaf: bool) {
        self.is_deaf.store(is_deaf, Ordering::Relaxed);
    }

    /// Sets whether messages cannot be published.
    pub(super) fn set_mute(&self, is_mute: bool) {
        self.is_mute.store(is_mute, Ordering::Relaxed);
    }

    /// Returns the number of appends that are still to fail.
    pub(super) fn failures(&self) -> usize {
        self.appends.lock().unwrap().len()
    }
}

impl BackendHook for LogFailures {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        operation: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        match operation.method {
            // Not every backend can append nothing.
            BackendMethod::Append if operation.value.is_empty() => {
                Box::pin(ready(Err(BackendError::Unavailable("no entries".to_owned()))))
            }
            BackendMethod::Append => {
                let failure = self.appends.lock().unwrap().pop_front();
                Box::pin(fail(failure, run))
            }
            BackendMethod::Read => {
                let delay = *self.delay.lock().unwrap();
                Box::pin(async move {
                    sleep(delay).await;
                    run.await
                })
            }
            BackendMethod::Set if self.is_read_only.load(Ordering::Relaxed) => unavailable(),
            BackendMethod::Publish if self.is_mute.load(Ordering::Relaxed) => unavailable(),
            BackendMethod::Appended if self.is_deaf.load(Ordering::Relaxed) => Box::pin(pending()),
            _ => run,
        }
    }
}

fn unavailable<'a, T: Send + 'a>() -> BackendFuture<'a, T> {
    Box::pin(ready(Err(BackendError::Unavailable("test".to_owned()))))
}

async fn fail<T>(failure: Option<Failure>, append: BackendFuture<'_, T>) -> Result<T, BackendError> {
    match failure {
        None => return append.await,
        Some(Failure::Before) => {}
        Some(Failure::After) => drop(append.await?),
        Some(Failure::Hang) => pending().await,
        Some(Failure::Full) => return Err(BackendError::Full),
        Some(Failure::Slow) => {
            sleep(Duration::from_secs(1)).await;
            return append.await;
        }
    }
    Err(BackendError::Unavailable("test".to_owned()))
}
