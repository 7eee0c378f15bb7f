//! Being told to stop.

use std::{future::pending, io, process, thread, time::Duration};

/// How much longer than its calls the process may take to end.
const MARGIN: Duration = Duration::from_secs(1);

/// Ends when the process is told to stop.
///
/// A thread of its own listens as well, so that a function which keeps the server's thread to itself cannot keep the process
/// alive: it ends after `grace` at the latest, and at once when it is told a second time. Signals are heard as soon as this is
/// first polled; the thread learns of those that came before it ran.
pub(crate) async fn stop(grace: Duration) {
    let (mut signals, heard_by_thread) = match Signals::listen().and_then(|one| Ok((one, Signals::listen()?))) {
        Ok(both) => both,
        Err(error) => {
            tracing::warn!(%error, "signals end the process at once");
            return pending().await;
        }
    };
    let watchdog = thread::Builder::new().name("signals".to_owned());
    if let Err(error) = watchdog.spawn(move || end_in_time(heard_by_thread, grace)) {
        warn_of_hanging(&error);
    }
    // The server often asks whether to stop, and a task is cheaper to ask than signals.
    let told = tokio::spawn(async move { signals.next().await });
    let _ = told.await;
}

/// Ends the process when its time to stop is over, whatever it is doing.
fn end_in_time(mut signals: Signals, grace: Duration) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return warn_of_hanging(&error),
    };
    runtime.block_on(async {
        signals.next().await;
        let _ = tokio::time::timeout(grace + MARGIN, signals.next()).await;
        tracing::warn!("the process is ended with calls in flight");
        process::exit(0);
    });
}

fn warn_of_hanging(error: &io::Error) {
    tracing::warn!(%error, "signals do not end a function that never returns");
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
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
    fn listen() -> io::Result<Self> {
        tokio::signal::windows::ctrl_c().map(Self)
    }

    async fn next(&mut self) {
        self.0.recv().await;
    }
}
