//! The signals that end a command.

#[cfg(unix)]
use futures_util::future::select_all;

/// Waits for a signal that asks this process to exit: interrupt (Ctrl-C), terminate or hang-up.
pub(crate) async fn interrupt() {
    match ShutdownSignals::install() {
        Ok(mut signals) => signals.recv().await,
        Err(_) => std::future::pending().await,
    }
}

/// Receives the signals that ask this process to exit: interrupt, terminate and hang-up.
pub(crate) struct ShutdownSignals {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 3],
}

impl ShutdownSignals {
    /// Installs the signal handlers.
    ///
    /// # Errors
    ///
    /// Returns an error if a handler cannot be installed.
    #[cfg(unix)]
    pub(crate) fn install() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let signals =
            [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
        Ok(Self { signals })
    }

    /// Does nothing: Ctrl-C needs no handler in advance.
    #[cfg(not(unix))]
    pub(crate) fn install() -> std::io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal.
    #[cfg(unix)]
    pub(crate) async fn recv(&mut self) {
        select_all(self.signals.each_mut().map(|signal| Box::pin(signal.recv()))).await;
    }

    /// Waits for Ctrl-C.
    #[cfg(not(unix))]
    pub(crate) async fn recv(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
