//! Logging: a subscriber that writes to stderr, and a layer that forwards the events of functions to the client.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock, PoisonError, RwLock},
};

use serde_json::Value;
use tracing::{Event, Metadata, Subscriber, subscriber::Interest};
use tracing_serde::fields::AsMap as _;
use tracing_subscriber::{
    filter::{FilterExt as _, LevelFilter, Targets},
    layer::{Context as LayerContext, Filter, Layer, SubscriberExt},
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::{
    handler::{current_call, entry::Entry},
    model::Level,
    server::Server,
    stderr,
    telemetry::TelemetryLayer,
};

/// Returns a `tracing` layer that forwards the events of a running function to its client.
///
/// Add it to a subscriber of your own; the subscriber of `main!()` and `#[server]` already includes it. The layer
/// does nothing unless [`Server::forward_log`](crate::Server::forward_log) is set, which decides whose events are
/// forwarded. A filter of the layer limits them further.
///
/// ```
/// use tracing_subscriber::{Layer as _, filter::LevelFilter, layer::SubscriberExt as _};
///
/// let forwarding = mcp_runtime::forward_log_layer().with_filter(LevelFilter::INFO);
/// let subscriber = tracing_subscriber::registry().with(forwarding);
/// ```
pub fn forward_log_layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> + Send + Sync {
    ForwardToClient
}

/// Sending the log to clients.
impl Server {
    /// Forwards the `tracing` events of functions to the client as log messages, at the level that the client requests.
    ///
    /// Only events whose target is in a crate that defines annotated functions are forwarded, since events of other
    /// libraries may contain what clients must not see. [`forward_log_targets`](Self::forward_log_targets) adds
    /// targets. With the subscriber of `main!` and `#[server]`, events that a valid `RUST_LOG` excludes are not
    /// forwarded either.
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
        enable_forwarding(&targets);
        self.profile.log_targets = Some(targets);
        self
    }
}

/// Installs a subscriber that writes to stderr, as text or as a JSON object on each line, unless the program has installed
/// one. If stderr is not read, events are dropped.
///
/// `RUST_LOG` sets the filter, such as `info,my_crate=debug`. It applies to stderr and to what is forwarded to clients.
/// Without it, stderr shows warnings only, since many clients start a process for each conversation and show its stderr
/// to the user, and clients receive the levels that they request.
pub(crate) fn install(as_json: bool) {
    let requested = std::env::var("RUST_LOG").ok().map(|filter| filter.parse::<Targets>());
    let all_from = |level| Targets::new().with_default(level);
    // Each line of JSON names its request, but nothing logs requests themselves.
    let mut quiet = all_from(LevelFilter::WARN);
    if as_json {
        quiet = quiet.with_target("mcp_runtime::request", LevelFilter::INFO);
    }
    let (filter, forwarded, invalid) = match requested {
        Some(Ok(filter)) => (filter.clone(), filter, None),
        Some(Err(error)) => (quiet, all_from(LevelFilter::WARN), Some(error)),
        None => (quiet, all_from(LevelFilter::TRACE), None),
    };
    // The address is logged instead of being printed.
    let filter = if as_json { filter.with_target("mcp_runtime::cli", LevelFilter::INFO) } else { filter };
    let stderr = tracing_subscriber::fmt::layer().with_writer(|| stderr::writer().clone());
    let stderr = if as_json { stderr.json().boxed() } else { stderr.boxed() };
    let forwarded = forwarded.and(MayForward);
    let mut layers = vec![stderr.with_filter(filter).boxed(), forward_log_layer().with_filter(forwarded).boxed()];
    // An `Option` of a layer would enable every span if it is `None`.
    layers.extend(TelemetryLayer::create_all());
    // Fails if the program has installed another subscriber, which takes precedence.
    let _ = tracing_subscriber::registry().with(layers).try_init();
    if let Some(error) = invalid {
        tracing::warn!(%error, "ignoring invalid `RUST_LOG`, expected `level` or `target=level`, separated by commas");
    }
}

/// The targets whose events a server of this process forwards in addition to the events of the functions' crates, as many
/// as authors name. `None` if no server forwards events.
static FORWARDED: RwLock<Option<BTreeSet<String>>> = RwLock::new(None);

/// Enables the events of the functions' crates and of `targets` for [`install`]'s layer that forwards events.
pub(crate) fn enable_forwarding(targets: &[String]) {
    let mut forwarded = FORWARDED.write().unwrap_or_else(PoisonError::into_inner);
    forwarded.get_or_insert_default().extend(targets.iter().cloned());
    drop(forwarded);
    tracing::callsite::rebuild_interest_cache();
}

/// A filter of the events that a server of this process may forward. It decides once for each callsite: some libraries,
/// such as `h2`, emit dozens of events for each request. Spans are not forwarded, and cost nothing if no layer wants them.
struct MayForward;

impl MayForward {
    fn enables(metadata: &Metadata<'_>) -> bool {
        let (forwarded, target) = (FORWARDED.read().unwrap_or_else(PoisonError::into_inner), metadata.target());
        let is_forwarded = |targets: &BTreeSet<String>| {
            is_own(target) || targets.iter().any(|module| target.starts_with(module.as_str()))
        };
        metadata.is_event() && forwarded.as_ref().is_some_and(is_forwarded)
    }
}

impl<S> Filter<S> for MayForward {
    fn enabled(&self, metadata: &Metadata<'_>, _: &LayerContext<'_, S>) -> bool {
        Self::enables(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::enables(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let forwarded = FORWARDED.read().unwrap_or_else(PoisonError::into_inner);
        forwarded.is_none().then_some(LevelFilter::OFF)
    }
}

/// The layer of [`forward_log_layer`].
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
        let target = event.metadata().target();
        if !context.logs(level) || !(is_own(target) || context.forwards_target(target)) {
            return;
        }
        // Fields can always be encoded.
        let Ok(Value::Object(mut fields)) = serde_json::to_value(event.field_map()) else { return };
        let data = match (fields.len(), fields.remove("message")) {
            (1, Some(message)) => message,
            (_, Some(message)) => {
                fields.insert("message".to_owned(), message);
                Value::Object(fields)
            }
            (_, None) => Value::Object(fields),
        };
        context.log_as(target, level, data);
    }
}

/// The crates of the program that define annotated functions, as module paths name them.
static OWN_CRATES: LazyLock<BTreeSet<&str>> =
    LazyLock::new(|| inventory::iter::<Entry>().map(|entry| crate_of(entry.common().source.module)).collect());

/// Returns whether a crate that defines annotated functions has emitted an event. Events of other libraries may contain
/// what clients must not see, such as queries and headers.
fn is_own(target: &str) -> bool {
    OWN_CRATES.contains(crate_of(target))
}

fn crate_of(module: &str) -> &str {
    module.split_once("::").map_or(module, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callsites_of_other_libraries_are_enabled_once_a_server_forwards_them() {
        let subscriber = tracing_subscriber::registry().with(ForwardToClient.with_filter(MayForward));
        let _guard = subscriber.set_default();
        let is_enabled = || tracing::event_enabled!(target: "library::frames", tracing::Level::TRACE);
        for (targets, expected) in [(&[][..], false), (&["other".to_owned()], false), (&["library".to_owned()], true)] {
            enable_forwarding(targets);
            assert_eq!(is_enabled(), expected, "{targets:?}");
        }
        assert!(!tracing::event_enabled!(target: "app::library", tracing::Level::TRACE));
    }
}
