//! Being told to stop.

use std::{
    io, process,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use tokio::sync::Notify;

/// How much longer than its calls the process may take to end.
const MARGIN: Duration = Duration::from_secs(1);

/// Ends when the process is told to stop.
///
/// A thread of its own listens, so that a function which keeps the server's thread to itself cannot keep the process
/// alive: it ends after `grace` at the latest, and at once when it is told a second time. Nothing is served before that thread
/// listens, or else a signal that comes early would end the process with calls in flight.
pub(crate) async fn stop(grace: Duration) {
    let told = Arc::new(Notify::new());
    let teller = Arc::clone(&told);
    let (listening, listens) = mpsc::channel();
    let listener = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let mut signals = match Signals::listen() {
                Ok(signals) => signals,
                Err(error) => return tracing::warn!(%error, "signals end the process at once"),
            };
            let _ = listening.send(());
            signals.next().await;
            teller.notify_one();
            let _ = tokio::time::timeout(grace + MARGIN, signals.next()).await;
            tracing::warn!("the process is ended with calls in flight");
            process::exit(0);
        });
    });
    match listener {
        // An error says that the thread has ended, and has said why.
        Ok(_) => drop(listens.recv()),
        Err(error) => tracing::warn!(%error, "signals end the process at once"),
    }
    told.notified().await;
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
