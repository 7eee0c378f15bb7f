//! The log of a test.

#![cfg_attr(not(feature = "server"), allow(dead_code, reason = "only the authorization server has an audit log"))]

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span,
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt as _},
    registry,
};

/// All events and spans at all levels, and those of the audit log.
#[derive(Clone, Default)]
pub(super) struct Log {
    all: Arc<Mutex<String>>,
    audit: Arc<Mutex<Vec<String>>>,
}

impl Log {
    pub(super) fn listen() -> (Self, DefaultGuard) {
        // With a second dispatcher, tracing considers every dispatcher, and not only the first that reaches an event.
        static SECOND: std::sync::LazyLock<tracing::Dispatch> =
            std::sync::LazyLock::new(|| tracing::Dispatch::new(registry()));
        std::sync::LazyLock::force(&SECOND);
        let log = Self::default();
        let guard = tracing::subscriber::set_default(registry().with(log.clone()));
        (log, guard)
    }

    pub(super) fn all(&self) -> String {
        self.all.lock().unwrap().clone()
    }

    /// Removes the events of the audit log, and returns them, with their level unless it is that of most events.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.audit.lock().unwrap())
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, _: &span::Id, _: Context<'_, S>) {
        let mut line = Line::default();
        attributes.record(&mut line);
        self.all.lock().unwrap().push_str(&line.0);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.all.lock().unwrap().push_str(&line.0);
        if event.metadata().target() == "mcp_runtime::audit" {
            let level = event.metadata().level();
            let level = if *level == Level::INFO { String::new() } else { format!("{level} ") };
            self.audit.lock().unwrap().push(level + &line.0.trim_end().replace('"', ""));
        }
    }
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "message" => {}
            "event" => write!(self.0, "{value:?} ").unwrap(),
            name => write!(self.0, "{name}={value:?} ").unwrap(),
        }
    }
}
