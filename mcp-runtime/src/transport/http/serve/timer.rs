//! The timer for the timeout of request heads.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};

/// The timer of one connection. Hyper creates a sleep for every request and drops it when the request has arrived.
///
/// All these sleeps share one timer of the runtime, so that it is not registered and deregistered for each request. The
/// shared timer keeps the deadline of an earlier sleep, and is reset to the deadline of the current sleep when it
/// expires.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedTimer(Arc<Mutex<Option<SharedSleep>>>);

type SharedSleep = Pin<Box<tokio::time::Sleep>>;

#[derive(Debug)]
struct RequestSleep {
    deadline: tokio::time::Instant,
    timer: SharedTimer,
}

impl Timer for SharedTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(RequestSleep { deadline: deadline.into(), timer: self.clone() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Future for RequestSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.timer.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sleep = shared.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(self.deadline)));
        if sleep.deadline() > self.deadline {
            sleep.as_mut().reset(self.deadline);
        }
        loop {
            match sleep.as_mut().poll(cx) {
                Poll::Ready(()) if sleep.deadline() < self.deadline => sleep.as_mut().reset(self.deadline),
                polled => return polled,
            }
        }
    }
}

impl Sleep for RequestSleep {}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    /// Runs with a paused clock, which advances when every task waits.
    fn with_paused_clock(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(test);
    }

    fn elapsed(since: tokio::time::Instant) -> u128 {
        since.elapsed().as_millis()
    }

    #[test]
    fn each_sleep_ends_at_its_deadline() {
        with_paused_clock(async {
            let timer = SharedTimer::default();
            let start = tokio::time::Instant::now();
            let sleep = |millis| timer.sleep(Duration::from_millis(millis));
            // A sleep that is dropped before its deadline, as when a request arrives.
            assert!(tokio::time::timeout(Duration::from_millis(10), sleep(1000)).await.is_err());
            assert_eq!(elapsed(start), 10);
            // A longer sleep while the shared timer is set to 1,000 ms, then a shorter sleep.
            assert!(tokio::time::timeout(Duration::from_millis(10), sleep(2000)).await.is_err());
            sleep(100).await;
            assert_eq!(elapsed(start), 120);
            sleep(3000).await;
            assert_eq!(elapsed(start), 3120);
            // A sleep that expires before it is first polled.
            let late = sleep(5);
            tokio::time::sleep(Duration::from_millis(50)).await;
            late.await;
            assert_eq!(elapsed(start), 3170);
        });
    }

    #[test]
    fn a_sleep_outlasts_the_deadline_of_an_earlier_one() {
        with_paused_clock(async {
            let timer = SharedTimer::default();
            let start = tokio::time::Instant::now();
            let mut first = timer.sleep(Duration::from_millis(100));
            assert!(tokio::time::timeout(Duration::from_millis(60), first.as_mut()).await.is_err());
            drop(first);
            let second = pin!(timer.sleep(Duration::from_millis(100)));
            second.await;
            assert_eq!(elapsed(start), 160);
        });
    }
}
