//! Shutdown signals.

use std::{future::pending, io, process, thread, time::Duration};

use crate::stderr;

/// The time that the process may take to end after the grace period of its calls.
const MARGIN: Duration = Duration::from_secs(1);

/// Completes when the process receives a shutdown signal: SIGTERM or Ctrl-C.
///
/// The signal handlers are registered on the first poll. A separate thread listens for signals as well, so that a
/// function that blocks the server's thread cannot keep the process alive. That thread ends the process at the second
/// signal, or shortly after the grace period.
pub(crate) async fn shutdown_signal(grace: Duration) {
    let (mut signals, watchdog_signals) = match Signals::register().and_then(|first| Ok((first, Signals::register()?)))
    {
        Ok(both) => both,
        Err(error) => {
            tracing::warn!(%error, "cannot handle signals: they will end the process without a graceful shutdown");
            return pending().await;
        }
    };
    let watchdog = thread::Builder::new().name("signals".to_owned());
    if let Err(error) = watchdog.spawn(move || run_watchdog(watchdog_signals, grace)) {
        warn_about_hanging(&error);
    }
    // The transport polls this future often, and a task is cheaper to poll than signals.
    let received = tokio::spawn(async move { signals.next().await });
    let _ = received.await;
}

/// Ends the process at the second signal, or when the grace period after the first signal has expired.
fn run_watchdog(mut signals: Signals, grace: Duration) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return warn_about_hanging(&error),
    };
    runtime.block_on(async {
        signals.next().await;
        let _ = tokio::time::timeout(grace + MARGIN, signals.next()).await;
        tracing::warn!("ending the process with calls in flight");
        stderr::flush();
        process::exit(0);
    });
}

fn warn_about_hanging(error: &io::Error) {
    tracing::warn!(%error, "cannot watch the shutdown: a blocking function can keep the process from ending");
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn register() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        std::future::poll_fn(|cx| match self.terminate.poll_recv(cx) {
            std::task::Poll::Pending => self.interrupt.poll_recv(cx),
            ready => ready,
        })
        .await;
    }
}

#[cfg(windows)]
struct Signals(tokio::signal::windows::CtrlC);

#[cfg(windows)]
impl Signals {
    fn register() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}
