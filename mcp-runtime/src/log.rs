//! Logging: a subscriber that writes to stderr, and a layer that forwards the events of functions to the client.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::{Context as LayerContext, Layer, SubscriberExt},
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::{handler::current_call, model::Level, stderr};

/// Returns a `tracing` layer that forwards the events of a running function to its client.
///
/// Add it to a subscriber of your own; the one that `main!()` and `#[server]` install already includes it. The layer
/// does nothing unless [`Server::forward_log`](crate::Server::forward_log) is set.
///
/// ```
/// use tracing_subscriber::layer::SubscriberExt as _;
///
/// let subscriber = tracing_subscriber::registry().with(mcp_runtime::log_layer());
/// ```
pub fn log_layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> + Send + Sync {
    ForwardToClient
}

/// Installs a subscriber that writes to stderr, unless the program has installed one. If stderr is not read, events are
/// dropped.
///
/// `RUST_LOG` sets the filter, such as `info,my_crate=debug`. The default is `warn`: many clients start a process for
/// each conversation and show its stderr to the user, so a server without problems writes nothing.
pub(crate) fn install() {
    let requested = std::env::var("RUST_LOG").ok().map(|filter| filter.parse::<Targets>());
    let default = || Targets::new().with_default(LevelFilter::WARN);
    let (filter, invalid) = match requested {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (default(), Some(error)),
        None => (default(), None),
    };
    let stderr = tracing_subscriber::fmt::layer().with_writer(|| stderr::writer().clone()).with_filter(filter);
    // Fails if the program has installed another subscriber, which takes precedence.
    let _ = tracing_subscriber::registry().with(stderr).with(log_layer()).try_init();
    if let Some(error) = invalid {
        tracing::warn!(%error, "ignoring invalid `RUST_LOG`, expected `level` or `target=level`, separated by commas");
    }
}

/// The layer of [`log_layer`].
struct ForwardToClient;

impl<S: Subscriber> Layer<S> for ForwardToClient {
    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        let Some(context) = current_call() else { return };
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warning,
            tracing::Level::INFO => Level::Info,
            tracing::Level::DEBUG | tracing::Level::TRACE => Level::Debug,
        };
        if !context.logs(level) {
            return;
        }
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let Fields(mut fields) = fields;
        let data = match (fields.len(), fields.remove("message")) {
            (1, Some(message)) => message,
            (_, Some(message)) => {
                fields.insert("message".to_owned(), message);
                Value::Object(fields)
            }
            (_, None) => Value::Object(fields),
        };
        context.log_as(event.metadata().target(), level, data);
    }
}

/// The fields of an event.
struct Fields(Map<String, Value>);

impl Fields {
    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value);
    }
}
