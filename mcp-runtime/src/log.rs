//! Log messages: the server's own go to stderr, those of functions to the client as well, where the author wants it.

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

use crate::{Context, Level};

/// A layer that sends the events of a running function to its client, for a subscriber of the author's own.
///
/// `main!()` and `#[server]` install it themselves. It does nothing unless the server was told to
/// [`forward_log`](crate::Server::forward_log).
pub fn log_layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> + Send + Sync {
    Forward
}

/// Installs a subscriber that writes to stderr, unless the program has one.
///
/// `RUST_LOG` says what is written, as in `info,my_crate=debug`; unless set, `info` from a server that serves, and `warn` from
/// one that only shows something to a person.
pub(crate) fn install(serves: bool) {
    let wanted = std::env::var("RUST_LOG").ok().map(|filter| filter.parse::<Targets>());
    let level = if serves { LevelFilter::INFO } else { LevelFilter::WARN };
    let default = || Targets::new().with_default(level);
    let (filter, mistake) = match wanted {
        Some(Ok(filter)) => (filter, None),
        Some(Err(mistake)) => (default(), Some(mistake)),
        None => (default(), None),
    };
    let stderr = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(filter);
    // An error says that the author has installed another, which is just as well.
    let _ = tracing_subscriber::registry().with(stderr).with(log_layer()).try_init();
    if let Some(mistake) = mistake {
        tracing::warn!(%mistake, "RUST_LOG cannot be read, and is ignored; it takes `level` and `target=level`, with commas between");
    }
}

struct Forward;

impl<S: Subscriber> Layer<S> for Forward {
    fn on_event(&self, event: &Event<'_>, _: LayerContext<'_, S>) {
        let Some(context) = Context::current() else { return };
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

struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}
