//! Additions to the standard library: a mutex that panics do not poison, waiting for the first of two futures, for a
//! condition, or until a panic, a guard that calls a function, and `Debug` for types with fields that do not implement it.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{self, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use tokio::sync::Notify;

/// A [`std::sync::Mutex`] that can be locked after a thread has panicked while it held the lock. No function of an author
/// runs under a lock of the runtime, except for a tracing subscriber that receives an event. What such a lock protects is
/// consistent between any two statements.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls a function when it is dropped, also when unwinding.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

pin_project! {
    /// The future of [`race`]. An `async fn` would contain both futures twice: as arguments, and pinned.
    #[must_use = "futures do nothing unless polled"]
    pub(crate) struct Race<A, B> {
        #[pin]
        first: A,
        #[pin]
        second: B,
    }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = Result<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let race = self.project();
        match race.first.poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => race.second.poll(cx).map(Err),
        }
    }
}

/// Waits for the first of two futures to complete: `Ok` for the first, `Err` for the second. Polls the first one first.
pub(crate) fn race<A: Future, B: Future>(first: A, second: B) -> Race<A, B> {
    Race { first, second }
}

/// Runs a future to its end. Returns the payload of a panic, after which the future has ended, too.
///
/// The future may be large, so that it is not moved.
pub(crate) async fn until_panic<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Result<T, Box<dyn Any + Send>> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Waits until `check` returns a value. Checks again each time that `changed` is notified.
pub(crate) async fn wait_until<T>(changed: &Notify, mut check: impl FnMut() -> Option<T>) -> T {
    loop {
        // Registered before the check, so that no change is missed.
        let notified = changed.notified();
        if let Some(value) = check() {
            return value;
        }
        notified.await;
    }
}

/// Implements `Debug` for a type, which shows only the given values.
macro_rules! debug {
    ($type:ident $(<$generic:ident>)?, $this:ident $(, $name:ident: $value:expr)*) => {
        impl$(<$generic>)? std::fmt::Debug for $type$(<$generic>)? {
            fn fmt(&$this, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))$(.field(stringify!($name), &$value))*.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug;

/// Writes builder methods: each sets something in `self` and returns it.
macro_rules! setters {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident $(<$lifetime:lifetime>)?
        ($this:ident $(, $arg:ident: $ty:ty)* $(,)?) $body:block)*) => {
        $(
            $(#[$meta])*
            #[must_use]
            #[allow(clippy::double_must_use, reason = "some types are marked themselves")]
            $vis fn $name $(<$lifetime>)? (mut $this $(, $arg: $ty)*) -> Self {
                $body
                $this
            }
        )*
    };
}

pub(crate) use setters;
