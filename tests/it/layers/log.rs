//! Captures log events.

use std::{
    fmt::{Debug, Write as _},
    sync::{Arc, LazyLock, Mutex},
};

use tracing::{
    Dispatch, Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::DefaultGuard,
};

/// The events of a thread, as `message field=value …`, and its spans, as `name field=value …`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

/// While only one dispatcher exists, `tracing` caches for all threads whether the first thread that reaches an event is
/// interested in it. With this second one, it considers every dispatcher.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Log::default()));

/// Makes a subscriber the default of this thread until the guard is dropped.
pub(crate) fn set_default(subscriber: impl Into<Dispatch>) -> DefaultGuard {
    LazyLock::force(&SECOND);
    tracing::dispatcher::set_default(&subscriber.into())
}

impl Log {
    /// Captures events until the guard is dropped.
    pub(crate) fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        let guard = set_default(log.clone());
        (log, guard)
    }

    /// Removes all events, and returns those that start with this message.
    pub(crate) fn take(&self, message: &str) -> Vec<String> {
        let lines = std::mem::take(&mut *self.0.lock().unwrap());
        lines.into_iter().filter(|line| line.starts_with(message)).collect()
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line.message + &line.fields);
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut line = Line::default();
        span.record(&mut line);
        self.0.lock().unwrap().push(span.metadata().name().to_owned() + &line.fields);
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => write!(self.fields, " {name}={value:?}").unwrap(),
        }
    }
}
