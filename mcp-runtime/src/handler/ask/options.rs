//! The options of requests to the client.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;

use super::{Ask, InvalidAnswer, Question};
use crate::{
    error::Fault,
    jsonrpc::write::plain,
    revision::{Features, encode::Object},
};

/// Progress that the client reports about a request of the server.
///
/// ```
/// use mcp_runtime::{Context, Fault, ask::{Ask, SampleRequest, SampleResult}};
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

/// The context that the client may include in the prompt.
///
/// ```
/// use mcp_runtime::ask::{IncludeContext, SampleRequest};
///
/// let request = SampleRequest::new("What did I ask before?").include_context(IncludeContext::ThisServer);
/// ```
///
/// See [Context inclusion](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#context-inclusion).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeContext {
    /// No context.
    None,
    /// The context of this server. Deprecated. Since 2025-11-25, the client must have declared `sampling.context`.
    ThisServer,
    /// The context of all servers of the client. Deprecated as well.
    AllServers,
}

/// Whether the model calls tools.
///
/// See [Tool choice modes](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling#tool-choice-modes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// The model calls at least one tool.
    Required,
    /// The model does not call tools.
    None,
}

/// A tool that the model may call. The server runs it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) schema: Value,
}

impl IncludeContext {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ThisServer => "thisServer",
            Self::AllServers => "allServers",
        }
    }
}

impl ToolChoice {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Required => "required",
            Self::None => "none",
        }
    }
}

impl Tool {
    pub(super) fn write(out: &mut Vec<u8>, tool: &Self) {
        let mut object = Object::begin(out);
        object.string("name", &tool.name);
        object.string("description", &tool.description);
        plain(object.key("inputSchema"), &tool.schema);
        object.end();
    }
}
