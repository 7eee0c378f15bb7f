use std::sync::Arc;

use super::Server;

/// Sending the log to clients.
impl Server {
    /// Forwards the `tracing` events of functions to the client as log messages, at the level that the client requests.
    ///
    /// Only events whose target is in a crate that defines annotated functions are forwarded, since events of other
    /// libraries may contain what clients must not see. [`forward_log_targets`](Self::forward_log_targets) adds
    /// targets. If the operator sets `RUST_LOG`, events that it excludes are not forwarded either.
    ///
    /// Forwarding requires the subscriber that `main!()` and `#[server]` install, or [`forward_log_layer`](crate::forward_log_layer) in
    /// a subscriber of your own.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.forward_log()
    /// # }
    /// ```
    pub fn forward_log(self) -> Self {
        self.forward_log_targets([""; 0])
    }

    /// Does the same as [`forward_log`](Self::forward_log), and forwards events of other targets as well: modules and
    /// everything inside them, or targets that events name explicitly.
    ///
    /// ```
    /// # use mcp_runtime::Server;
    /// # fn configure(server: Server) -> Server {
    /// server.forward_log_targets(["billing_core", "sqlx::query"])
    /// # }
    /// ```
    pub fn forward_log_targets(mut self, targets: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let before = self.profile.log_targets.take().unwrap_or_default();
        let targets: Arc<[String]> = before.iter().cloned().chain(targets.into_iter().map(Into::into)).collect();
        crate::log::enable_forwarding(&targets);
        self.profile.log_targets = Some(targets);
        self
    }
}
