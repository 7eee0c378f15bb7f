//! The time that a request may take to arrive.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use hyper::rt::{Sleep, Timer};

/// The timer of one connection, for hyper, which sets a sleep for every request and drops it when the request is there.
///
/// All of them share one of the runtime's, so that it is not set and taken back for each: it stands at the deadline of an earlier one, and
/// only when it goes off there, it is set for the one that is waited for.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedTimer(Arc<Mutex<Option<Alarm>>>);

type Alarm = Pin<Box<tokio::time::Sleep>>;

#[derive(Debug)]
struct Pause {
    deadline: tokio::time::Instant,
    timer: SharedTimer,
}

impl Timer for SharedTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Pause { deadline: deadline.into(), timer: self.clone() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into()
    }
}

impl Future for Pause {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut alarm = self.timer.0.lock().unwrap_or_else(PoisonError::into_inner);
        let alarm = alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(self.deadline)));
        if alarm.deadline() > self.deadline {
            alarm.as_mut().reset(self.deadline);
        }
        loop {
            match alarm.as_mut().poll(cx) {
                Poll::Ready(()) if alarm.deadline() < self.deadline => alarm.as_mut().reset(self.deadline),
                polled => return polled,
            }
        }
    }
}

impl Sleep for Pause {}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    /// Runs with a clock that stands still unless everything waits.
    fn with_paused_clock(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(test);
    }

    fn elapsed(since: tokio::time::Instant) -> u128 {
        since.elapsed().as_millis()
    }

    #[test]
    fn each_sleep_ends_at_its_own_time() {
        with_paused_clock(async {
            let timer = SharedTimer::default();
            let began = tokio::time::Instant::now();
            let sleep = |millis| timer.sleep(Duration::from_millis(millis));
            // One that was waited for and dropped, as when a request came.
            assert!(tokio::time::timeout(Duration::from_millis(10), sleep(1000)).await.is_err());
            assert_eq!(elapsed(began), 10);
            // A later one, while the alarm stands at 1,000; then an earlier one.
            assert!(tokio::time::timeout(Duration::from_millis(10), sleep(2000)).await.is_err());
            sleep(100).await;
            assert_eq!(elapsed(began), 120);
            sleep(3000).await;
            assert_eq!(elapsed(began), 3120);
            // One that is over before it is looked at.
            let late = sleep(5);
            tokio::time::sleep(Duration::from_millis(50)).await;
            late.await;
            assert_eq!(elapsed(began), 3170);
        });
    }

    #[test]
    fn a_sleep_outlasts_the_alarm_of_an_earlier_one() {
        with_paused_clock(async {
            let timer = SharedTimer::default();
            let began = tokio::time::Instant::now();
            let mut first = timer.sleep(Duration::from_millis(100));
            assert!(tokio::time::timeout(Duration::from_millis(60), first.as_mut()).await.is_err());
            drop(first);
            let second = pin!(timer.sleep(Duration::from_millis(100)));
            second.await;
            assert_eq!(elapsed(began), 160);
        });
    }
}
