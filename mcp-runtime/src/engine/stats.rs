//! The gauges and counters of a server, collected when they are read.

use std::sync::{Arc, Weak};

use super::server::Engine;
use crate::{
    counters::Counter::{self, *},
    handler::blocking_threads,
    telemetry::{ReadStats, Stat, Stats},
};

/// The bytes that are buffered for one purpose, and their limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Buffered {
    pub(crate) used: usize,
    pub(crate) max: usize,
}

impl Buffered {
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has endpoints"))]
    pub(crate) fn add(&mut self, used: usize, max: usize) {
        self.used += used;
        self.max += max;
    }
}

/// The buffers of the HTTP endpoints of a server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EndpointBuffers {
    pub(crate) requests: Buffered,
    pub(crate) responses: Buffered,
    pub(crate) streams: Buffered,
}

/// An HTTP endpoint, as a source of statistics.
pub(crate) trait EndpointStats: Send + Sync + std::fmt::Debug {
    fn add_to(&self, buffers: &mut EndpointBuffers);
}

impl Engine {
    /// Returns access to the gauges and counters.
    pub(crate) fn stats(self: &Arc<Self>) -> Stats {
        let source: Arc<dyn ReadStats> = Arc::clone(self) as _;
        Stats::new(Arc::downgrade(&source))
    }

    /// Adds an endpoint, until it is dropped. A program has few of them.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has endpoints"))]
    pub(crate) fn add_endpoint(&self, endpoint: Weak<dyn EndpointStats>) {
        let mut endpoints = self.endpoints.lock();
        endpoints.retain(|endpoint| endpoint.strong_count() > 0);
        endpoints.push(endpoint);
    }

    fn endpoint_buffers(&self) -> EndpointBuffers {
        let endpoints = self.endpoints.lock().clone();
        let mut buffers = EndpointBuffers::default();
        endpoints.iter().filter_map(Weak::upgrade).for_each(|endpoint| endpoint.add_to(&mut buffers));
        buffers
    }
}

/// The metrics of what the process counts: the name, the unit, the description, whether it is a counter, the attribute,
/// and its values.
type Table = (&'static str, &'static str, &'static str, bool, Option<&'static str>, &'static [(&'static str, Counter)]);

const TABLE: [Table; 8] = [
    (
        "mcp.server.calls.active",
        "{call}",
        "Calls that wait: those that complete in place are not counted",
        false,
        None,
        &[("", ActiveCalls)],
    ),
    ("mcp.server.listeners", "{request}", "Open `subscriptions/listen` requests", false, None, &[("", Listeners)]),
    (
        "mcp.server.questions",
        "{request}",
        "Requests to clients that are not yet answered",
        false,
        None,
        &[("", Questions)],
    ),
    (
        "mcp.server.tasks",
        "{task}",
        "Tasks that this process runs",
        false,
        Some("mcp.task.status"),
        &[("working", WorkingTasks), ("input_required", InputRequiredTasks)],
    ),
    (
        "mcp.server.refusals",
        "{request}",
        "Requests and connections that were refused because a limit was reached",
        true,
        Some("mcp.refusal.reason"),
        &[
            ("calls", RefusedCalls),
            ("connections", RefusedConnections),
            ("listeners", RefusedListeners),
            ("memory", RefusedMemory),
            ("questions", RefusedQuestions),
            ("rate", RefusedRate),
            ("sessions", RefusedSessions),
            ("tasks", RefusedTasks),
        ],
    ),
    (
        "mcp.server.authentications",
        "{request}",
        "Requests by the outcome of their authentication",
        true,
        Some("mcp.authentication.outcome"),
        &[
            ("accepted", Authenticated),
            ("insufficient_scope", InsufficientScope),
            ("missing", CredentialsMissing),
            ("invalid", CredentialsInvalid),
            ("unavailable", AuthenticatorUnavailable),
        ],
    ),
    (
        "mcp.server.notifications.dropped",
        "{notification}",
        "Notifications that were dropped because the client reads too slowly",
        true,
        None,
        &[("", DroppedNotifications)],
    ),
    (
        "mcp.server.log.dropped",
        "By",
        "Output that was dropped because stderr is not read",
        true,
        None,
        &[("", DroppedLogBytes)],
    ),
];

impl ReadStats for Engine {
    fn read_stats(&self) -> Vec<Stat> {
        let mut stats = Vec::with_capacity(40);
        let gauge = |name, unit, description, attribute, value: usize| Stat {
            name,
            description,
            unit,
            is_counter: false,
            attribute,
            value: value as u64,
        };
        for (name, unit, description, is_counter, attribute, values) in TABLE {
            stats.extend(values.iter().map(|&(label, counter)| Stat {
                name,
                description,
                unit,
                is_counter,
                attribute: attribute.map(|attribute| (attribute, label)),
                value: counter.value(),
            }));
        }
        stats.push(gauge("mcp.server.sessions", "{session}", "Open sessions", None, self.open_sessions().count()));
        let (used, max) = blocking_threads();
        let unit = "{thread}";
        stats.push(gauge("mcp.server.blocking.active", unit, "Threads that run blocking functions", None, used));
        stats.push(gauge(
            "mcp.server.blocking.limit",
            unit,
            "The maximum of threads for blocking functions",
            None,
            max,
        ));
        let EndpointBuffers { requests, responses, streams } = self.endpoint_buffers();
        let (arguments, results) = self.tasks.buffered();
        let log = Buffered { used: crate::stderr::writer().pending(), max: crate::stderr::MAX_PENDING_BYTES };
        let buffers = [
            ("requests", requests),
            ("responses", responses),
            ("streams", streams),
            ("task_arguments", arguments),
            ("task_results", results),
            ("log", log),
        ];
        stats.extend(buffers.iter().map(|&(label, Buffered { used, .. })| {
            let attribute = Some(("mcp.buffer.name", label));
            gauge("mcp.server.buffer.usage", "By", "Buffered bytes, by purpose", attribute, used)
        }));
        stats.extend(buffers.iter().map(|&(label, Buffered { max, .. })| {
            let attribute = Some(("mcp.buffer.name", label));
            gauge("mcp.server.buffer.limit", "By", "The maximum of buffered bytes, by purpose", attribute, max)
        }));
        stats
    }
}
