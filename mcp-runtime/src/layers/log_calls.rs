use std::time::Instant;

use super::{Call, Layer, LayerFuture, Next};
use crate::handler::entry::EntryKind;

/// Logs each call when it is over: a `tracing` event of level `info` with `name`, `kind`, `id`, `principal`, `outcome`
/// and `elapsed`.
///
/// The outcome is [that of the call](super::CallStatus::as_str), or `dropped` if it was cancelled or took too long. Arguments
/// and results are not logged, unless the arguments are [asked for](Self::with_arguments).
///
/// ```
/// # use mcp_runtime::{Server, layers::LogCalls};
/// # fn configure(server: Server) -> Server {
/// server.layer(LogCalls::new())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct LogCalls {
    arguments: bool,
}

impl LogCalls {
    /// Logs calls without their arguments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Logs the arguments as well, as `arguments`. They may hold what nobody should read in a log.
    #[must_use]
    pub fn with_arguments(self) -> Self {
        Self { arguments: true }
    }
}

impl Layer for LogCalls {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        let (arguments, began) = (self.arguments, Instant::now());
        Box::pin(async move {
            let mut line = Line { call: call.clone(), arguments, began, outcome: "dropped" };
            let outcome = next.run(call).await;
            line.outcome = outcome.status().as_str();
            outcome
        })
    }
}

/// What is logged when it is dropped.
struct Line {
    call: Call,
    arguments: bool,
    began: Instant,
    outcome: &'static str,
}

impl Drop for Line {
    fn drop(&mut self) {
        let Self { call, arguments, began, outcome } = self;
        let kind = match call.kind() {
            EntryKind::Tool => "tool",
            EntryKind::Resource => "resource",
            EntryKind::Prompt => "prompt",
        };
        tracing::info!(
            name = call.name(),
            kind,
            id = call.request_id(),
            principal = call.caller().principal(),
            arguments = arguments.then(|| call.arguments()),
            outcome,
            elapsed = ?began.elapsed(),
            "a call"
        );
    }
}
