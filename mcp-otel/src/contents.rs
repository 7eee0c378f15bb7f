use std::{borrow::Cow, fmt, sync::Arc};

use mcp_runtime::layers::{Call, CallKind, CallStatus, Layer, LayerFuture, Next};
use opentelemetry::{Context, KeyValue, trace::TraceContextExt as _};
use tracing::Span;
use tracing_opentelemetry::get_otel_context;
use tracing_subscriber::{Registry, registry::LookupSpan as _};

use crate::trace::OPERATION;

/// A layer that records the arguments and the result of tools in spans, as `gen_ai.tool.call.arguments` and
/// `gen_ai.tool.call.result`.
///
/// They may contain confidential data. Nothing is recorded unless a server adds this layer. Of calls that fail, ask for
/// input or become tasks, only the arguments are recorded.
///
/// ```
/// use mcp_otel::RecordContents;
/// # use mcp_runtime::Server;
///
/// # fn configure(server: Server) -> Server {
/// let contents = RecordContents::new(1024);
/// server.layer(contents.redact(|tool, json| if tool == "log_in" { "{}".to_owned() } else { json.to_owned() }))
/// # }
/// ```
#[derive(Clone)]
pub struct RecordContents {
    max_bytes: usize,
    redact: Option<Arc<Redact>>,
}

/// Returns what is recorded instead of a text of a tool.
type Redact = dyn Fn(&str, &str) -> String + Send + Sync;

impl RecordContents {
    /// Creates a layer that records at most `max_bytes` of the JSON of the arguments, and as much of the result.
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, redact: None }
    }

    /// Sets the function that returns what is recorded instead of a text, from the name of the tool and the JSON of its
    /// arguments or result.
    #[must_use]
    pub fn redact(mut self, redact: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> Self {
        self.redact = Some(Arc::new(redact));
        self
    }

    fn record(&self, operation: &Context, attribute: &'static str, tool: &str, json: &str) {
        let json = self.redact.as_ref().map_or(Cow::Borrowed(json), |redact| redact(tool, json).into());
        let end = (0..=self.max_bytes.min(json.len())).rev().find(|end| json.is_char_boundary(*end));
        operation.span().set_attribute(KeyValue::new(attribute, json[..end.unwrap_or_default()].to_owned()));
    }
}

/// Returns the context of the operation, whose span is around that of the layer.
fn operation() -> Option<Context> {
    let context = Span::current().with_subscriber(|(id, subscriber)| {
        let current = subscriber.downcast_ref::<Registry>()?.span(id)?;
        let operation = current.scope().find(|span| span.metadata().target() == OPERATION)?;
        get_otel_context(&operation.id(), subscriber)
    });
    context.flatten()
}

impl Layer for RecordContents {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        Box::pin(async move {
            let Some(operation) = operation().filter(|_| call.kind() == CallKind::Tool) else {
                return next.run(call).await;
            };
            let tool = call.name().to_owned();
            self.record(&operation, "gen_ai.tool.call.arguments", &tool, call.arguments());
            let outcome = next.run(call).await;
            if outcome.status() == CallStatus::Success
                && let Some(json) = outcome.json()
            {
                self.record(&operation, "gen_ai.tool.call.result", &tool, json);
            }
            outcome
        })
    }
}

impl fmt::Debug for RecordContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordContents").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}
