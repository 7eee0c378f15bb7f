use std::time::Instant;

use super::{Call, Layer, LayerFuture, Next};
use crate::error::excerpt;

/// A layer that logs each call when it ends: a `tracing` event of level `info` with `name`, `kind`, `id`, `principal`,
/// `outcome`, `bytes` and `elapsed`.
///
/// `bytes` is the size of the result; it is 0 if the call has none. The outcome is the [status of the call](super::CallStatus::as_str), or `dropped` if the call was cancelled or timed
/// out. Results are never logged, and arguments only if [enabled](Self::with_arguments). The field `principal` exists
/// only if the caller has [one](crate::Caller::principal), such as the issuer and the subject of its token, and
/// contains at most 200 characters of its name.
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
    /// Creates a layer that logs calls without their arguments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Logs the arguments as well, in the field `arguments`. They may contain confidential data.
    #[must_use]
    pub fn with_arguments(self) -> Self {
        Self { arguments: true }
    }
}

impl Layer for LogCalls {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        let (arguments, began) = (self.arguments, Instant::now());
        Box::pin(async move {
            let mut log = CallLog { call: call.clone(), arguments, began, outcome: "dropped", bytes: 0 };
            let outcome = next.run(call).await;
            (log.outcome, log.bytes) = (outcome.status().as_str(), outcome.size());
            outcome
        })
    }
}

/// A guard that logs the call when it is dropped.
struct CallLog {
    call: Call,
    arguments: bool,
    began: Instant,
    outcome: &'static str,
    bytes: usize,
}

impl Drop for CallLog {
    fn drop(&mut self) {
        let Self { call, arguments, began, outcome, bytes } = self;
        tracing::info!(
            name = call.name(),
            kind = call.kind().as_str(),
            id = call.request_id(),
            principal = call.caller().principal().map(excerpt).as_deref(),
            arguments = arguments.then(|| call.arguments()),
            outcome,
            bytes,
            elapsed = ?began.elapsed(),
            "call finished"
        );
    }
}
