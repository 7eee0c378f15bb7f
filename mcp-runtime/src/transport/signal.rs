//! Being told to stop.

use std::{process, sync::Arc, thread, time::Duration};

use tokio::sync::Notify;

/// How much longer than its calls the process may take to end.
const MARGIN: Duration = Duration::from_secs(1);

/// Ends when the process is told to stop.
///
/// A thread of its own listens, so that a function which keeps the server's thread to itself cannot keep the process
/// alive: it ends after `grace` at the latest, and at once when it is told a second time.
pub(crate) async fn stop(grace: Duration) {
    let told = Arc::new(Notify::new());
    let teller = Arc::clone(&told);
    let listener = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            signal().await;
            teller.notify_one();
            let _ = tokio::time::timeout(grace + MARGIN, signal()).await;
            tracing::warn!("the process is ended with calls in flight");
            process::exit(0);
        });
    });
    if let Err(error) = listener {
        tracing::warn!(%error, "signals end the process at once");
    }
    told.notified().await;
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};

    match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            std::future::poll_fn(|cx| match terminate.poll_recv(cx) {
                std::task::Poll::Pending => interrupt.poll_recv(cx),
                ready => ready,
            })
            .await;
        }
        (Err(error), _) | (_, Err(error)) => {
            tracing::warn!(%error, "signals cannot be caught");
            std::future::pending().await
        }
    }
}

#[cfg(not(unix))]
async fn signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
