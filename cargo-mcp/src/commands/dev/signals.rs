//! Signals that end `cargo mcp dev`.

/// Receives the signals that ask this process to exit: interrupt, terminate and hang-up.
pub(super) struct ShutdownSignals {
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
    pub(super) fn install() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let signals =
            [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?];
        Ok(Self { signals })
    }

    /// Does nothing: Ctrl-C needs no handler in advance.
    #[cfg(not(unix))]
    pub(super) fn install() -> std::io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next signal.
    #[cfg(unix)]
    pub(super) async fn recv(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// Waits for Ctrl-C.
    #[cfg(not(unix))]
    pub(super) async fn recv(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
