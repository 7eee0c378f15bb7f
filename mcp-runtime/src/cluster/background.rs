//! Work that a server does in the background, whether or not a request is in progress.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::{runtime::Handle, task::AbortHandle};

use crate::mutex::Mutex;

/// A task that starts with the first use inside a runtime, and is aborted when this value is dropped. If its runtime
/// ends, the next use starts it again.
#[derive(Debug, Default)]
pub(crate) struct BackgroundTask {
    is_running: Arc<AtomicBool>,
    running: Mutex<Option<AbortHandle>>,
}

impl BackgroundTask {
    /// Starts the task, unless it is running or there is no runtime. Costs one atomic load if it is running.
    pub(crate) fn ensure_running<F>(&self, task: impl FnOnce() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.is_running.load(Ordering::Acquire) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if self.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let (task, stopped) = (task(), StopOnDrop(Arc::clone(&self.is_running)));
        let running = runtime.spawn(async move {
            let _stopped = stopped;
            task.await;
        });
        *self.running.lock() = Some(running.abort_handle());
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        if let Some(running) = &*self.running.lock() {
            running.abort();
        }
    }
}

/// A guard that records that the task has ended, even if it panicked or its runtime was dropped.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::atomic::AtomicUsize};

    use super::*;

    #[test]
    fn a_task_starts_once_in_each_runtime_and_ends_with_its_owner() {
        let (background, starts) = (BackgroundTask::default(), AtomicUsize::new(0));
        let alive = Arc::new(());
        let start = |background: &BackgroundTask| {
            let alive = Arc::clone(&alive);
            background.ensure_running(|| {
                starts.fetch_add(1, Ordering::Relaxed);
                async move {
                    let _alive = alive;
                    pending().await
                }
            });
        };
        let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
        start(&background);
        assert_eq!(starts.load(Ordering::Relaxed), 0, "there is no runtime");
        for expected in 1..3 {
            let runtime = runtime();
            let _entered = runtime.enter();
            start(&background);
            start(&background);
            assert_eq!((starts.load(Ordering::Relaxed), Arc::strong_count(&alive)), (expected, 2));
        }
        let runtime = runtime();
        runtime.block_on(async {
            start(&background);
            drop(background);
            while Arc::strong_count(&alive) > 1 {
                tokio::task::yield_now().await;
            }
        });
    }
}
