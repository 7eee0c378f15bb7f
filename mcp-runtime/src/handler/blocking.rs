use std::{
    num::NonZeroUsize,
    sync::{Arc, LazyLock},
    thread,
};

use tokio::sync::Semaphore;
use tracing::Span;

use super::{Context, Finished, current_call, enter_call};
use crate::{error::Fault, stdx::OnDrop, telemetry};

/// The maximum number of blocking functions that a process runs at once. Further functions wait for a permit.
pub(crate) const MAX_BLOCKING: usize = 256;

static PERMITS: Semaphore = Semaphore::const_new(MAX_BLOCKING);
static CHECK_PERMITS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(max_checks()));

/// Returns the maximum number of slow checks of arguments that a process runs at once: one for each core, so that the
/// threads that serve connections keep a fair part of the processor. Further checks wait for a permit.
pub(crate) fn max_checks() -> usize {
    static MAX: LazyLock<usize> = LazyLock::new(|| thread::available_parallelism().map_or(1, NonZeroUsize::get));
    *MAX
}

/// Returns the number of blocking functions that the process runs, and its maximum.
pub(crate) fn blocking_threads() -> (usize, usize) {
    (MAX_BLOCKING - PERMITS.available_permits(), MAX_BLOCKING)
}

/// Runs a blocking function on the pool of blocking threads.
///
/// # Cancel safety
///
/// A call that is cancelled before a thread is available does not run. If it is cancelled later, its response is
/// dropped, but the function runs to its end unless it checks [`Context::is_cancelled`].
pub async fn blocking(context: Context, call: impl FnOnce(&Context) -> Finished + Send + 'static) -> Finished {
    let own = context.clone();
    let finished = run_blocking(&context, move || call(&own)).await;
    finished.unwrap_or_else(|| Finished::failed(Fault::shutting_down()))
}

/// Runs the blocking code of a call on a thread of the runtime's pool. Returns `None` if the runtime is shutting down.
///
/// If many senders share the process, the sender of the call has permits of its own, fewer than the process has. The
/// functions of a sender wait for its permits first, so that they do not queue in front of the functions of other
/// senders.
///
/// # Cancel safety
///
/// If the future is dropped before a thread is available, `run` is never called. Once started, it runs to completion.
///
/// # Panics
///
/// Propagates a panic of `run`.
pub(crate) async fn run_blocking<T: Send + 'static>(
    context: &Context,
    run: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let share = context.head().and_then(|head| head.blocking_share()).cloned();
    let unsampled = context.shared().unsampled.clone();
    let run = move || {
        let _entered = telemetry::enter(unsampled.as_ref());
        run()
    };
    run_with_permits(share, &PERMITS, run).await
}

/// Runs a slow check of a call's arguments like [`run_blocking`], but with other permits.
///
/// # Cancel safety
///
/// Same as [`run_blocking`].
pub(crate) async fn run_check<T: Send + 'static>(
    context: &Context,
    run: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let share = context.head().and_then(|head| head.check_share()).cloned();
    run_with_permits(share, &CHECK_PERMITS, run).await
}

async fn run_with_permits<T: Send + 'static>(
    share: Option<Arc<Semaphore>>,
    permits: &'static Semaphore,
    run: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let own = match share {
        Some(share) => Some(share.acquire_owned().await.ok()?),
        None => None,
    };
    let permit = permits.acquire().await.ok()?;
    let (context, span) = (current_call(), Span::current());
    let task = tokio::task::spawn_blocking(move || {
        // The thread is occupied until `run` returns, even if the call has been cancelled by then.
        let _permits = (own, permit);
        span.in_scope(|| enter_call(context.as_ref(), run))
    });
    // A blocking task that has not started is removed from the queue.
    let handle = task.abort_handle();
    let _abort = OnDrop(move || handle.abort());
    match task.await {
        Ok(result) => Some(result),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    /// Threads cannot be stopped.
    #[tokio::test]
    async fn a_call_occupies_its_thread_until_it_returns_although_its_caller_has_left() {
        static THREADS: Semaphore = Semaphore::const_new(1);
        let (started, has_started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let share = Arc::new(Semaphore::new(1));
        let run = move || {
            started.send(()).unwrap();
            released.recv().unwrap();
        };
        let mut call = Box::pin(run_with_permits(Some(Arc::clone(&share)), &THREADS, run));
        while has_started.try_recv().is_err() {
            assert!(tokio::time::timeout(Duration::from_millis(1), &mut call).await.is_err());
        }
        drop(call);
        assert_eq!((THREADS.available_permits(), share.available_permits()), (0, 0));
        release.send(()).unwrap();
        run_with_permits(Some(share), &THREADS, || ()).await.unwrap();
    }

    #[tokio::test]
    async fn a_call_that_waits_for_others_of_its_sender_takes_no_thread() {
        static THREADS: Semaphore = Semaphore::const_new(1);
        let share = Arc::new(Semaphore::new(0));
        let mut call = Box::pin(run_with_permits(Some(Arc::clone(&share)), &THREADS, || ()));
        assert!(tokio::time::timeout(Duration::ZERO, &mut call).await.is_err());
        assert_eq!(THREADS.available_permits(), 1);
        share.add_permits(1);
        call.await.unwrap();
    }

    #[test]
    fn a_call_that_is_cancelled_before_it_has_a_thread_never_runs() {
        static THREADS: Semaphore = Semaphore::const_new(2);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (release, released) = mpsc::channel::<()>();
            let (started, has_started) = mpsc::channel();
            let mut first = Box::pin(run_with_permits(None, &THREADS, move || released.recv().unwrap()));
            let mut second = Box::pin(run_with_permits(None, &THREADS, move || started.send(()).unwrap()));
            assert!(tokio::time::timeout(Duration::ZERO, &mut first).await.is_err());
            assert!(tokio::time::timeout(Duration::ZERO, &mut second).await.is_err());
            drop(second);
            release.send(()).unwrap();
            first.await.unwrap();
            // The only thread runs functions in the order of their calls.
            run_with_permits(None, &THREADS, || ()).await.unwrap();
            assert!(has_started.try_recv().is_err());
        });
    }
}
