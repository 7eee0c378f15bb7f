//! Options that every request to the client has: how long the server waits, and the progress of the client.

use std::{fmt, sync::Arc, time::Duration};

use super::{Ask, InvalidAnswer, Question};
use crate::{error::Fault, revision::Features};

/// Progress that the client reports about a request of the server.
///
/// ```
/// use mcp_runtime::{Ask, Context, Fault, SampleRequest, SampleResult};
///
/// # #[allow(dead_code)]
/// async fn ask(ctx: &Context) -> Result<SampleResult, Fault> {
///     let request = SampleRequest::new("Write a poem.").on_progress(|progress| {
///         tracing::debug!(done = progress.progress, total = progress.total, "the model is writing");
///     });
///     ctx.ask(request).await
/// }
/// ```
///
/// See [Progress](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ClientProgress {
    /// The progress so far. It increases with each report.
    pub progress: f64,
    /// The progress at which the request is complete, if known.
    pub total: Option<f64>,
    /// A message for the user, truncated to 1024 bytes.
    pub message: Option<String>,
}

/// A request to the client with options: what [`Ask::timeout`], [`Ask::extend_on_progress`] and [`Ask::on_progress`]
/// return.
#[derive(Debug, Clone)]
pub struct WithOptions<A> {
    ask: A,
    options: AskOptions,
}

/// The options of a request to the client.
#[derive(Clone, Default)]
pub(crate) struct AskOptions {
    /// How long the server waits for the answer. `None` means the default of the server.
    pub(crate) timeout: Option<Duration>,
    /// How long the server waits in total if progress restarts the timeout. `None` if progress does not restart it.
    pub(crate) max_timeout: Option<Duration>,
    pub(crate) on_progress: Option<Arc<dyn Fn(ClientProgress) + Send + Sync>>,
}

impl<A> WithOptions<A> {
    pub(super) fn new(ask: A, options: AskOptions) -> Self {
        Self { ask, options }
    }
}

impl AskOptions {
    /// Returns whether the client is asked to report progress.
    pub(crate) fn wants_progress(&self) -> bool {
        self.max_timeout.is_some() || self.on_progress.is_some()
    }
}

impl fmt::Debug for AskOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskOptions")
            .field("timeout", &self.timeout)
            .field("max_timeout", &self.max_timeout)
            .field("on_progress", &self.on_progress.is_some())
            .finish()
    }
}

impl<A: Ask> Ask for WithOptions<A> {
    type Answer = A::Answer;

    fn question(&self, features: Features) -> Result<Question, Fault> {
        let mut question = self.ask.question(features)?;
        let AskOptions { timeout, max_timeout, on_progress } = self.options.clone();
        let inner = question.options;
        question.options = AskOptions {
            timeout: timeout.or(inner.timeout),
            max_timeout: max_timeout.or(inner.max_timeout),
            on_progress: on_progress.or(inner.on_progress),
        };
        Ok(question)
    }

    fn read(&self, result: &str) -> Result<Self::Answer, InvalidAnswer> {
        self.ask.read(result)
    }
}
