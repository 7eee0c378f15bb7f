//! The gauges and counters of a server, collected when they are read.

use std::sync::{Arc, Weak};

use super::server::Engine;
use crate::{
    counters::{
        Buffered,
        Counter::{self, *},
        EndpointBuffers, EndpointStats,
    },
    handler::blocking_threads,
    stderr,
    telemetry::{ReadStats, Stat, Stats},
};

impl Engine {
    /// Returns access to the gauges and counters.
    pub(crate) fn stats(self: &Arc<Self>) -> Stats {
        Stats::new(Arc::downgrade(self) as _)
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

const fn gauge(name: &'static str, unit: &'static str, description: &'static str) -> Stat {
    Stat { name, unit, description, is_counter: false, attribute: None, value: 0 }
}

const fn counter(name: &'static str, unit: &'static str, description: &'static str) -> Stat {
    Stat { is_counter: true, ..gauge(name, unit, description) }
}

/// The metrics without an attribute that the process counts.
const PLAIN: [(Stat, Counter); 5] = [
    (gauge("mcp.server.calls.active", "{call}", "Calls that run or wait"), ActiveCalls),
    (gauge("mcp.server.subscriptions.active", "{request}", "Open `subscriptions/listen` requests"), Listeners),
    (gauge("mcp.server.client_requests.active", "{request}", "Requests to clients without an answer"), Questions),
    (
        counter("mcp.server.notifications.dropped", "{notification}", "Notifications to clients that read too slowly"),
        DroppedNotifications,
    ),
    (counter("mcp.server.log.dropped", "{line}", "Lines that stderr did not take"), DroppedLogLines),
];

/// The values of an attribute, and what is counted for each.
type Labels = &'static [(&'static str, Counter)];

/// The metrics that the process counts with the name of an attribute, and each of its values.
const LABELLED: [(Stat, &str, Labels); 5] = [
    (
        gauge("mcp.server.streams.active", "{stream}", "Open event streams over HTTP"),
        "mcp.stream.kind",
        &[("call", CallStreams), ("session", SessionStreams), ("subscription", SubscriptionStreams)],
    ),
    (
        gauge("mcp.server.tasks", "{task}", "Tasks that the process runs"),
        "mcp.task.status",
        &[("working", WorkingTasks), ("input_required", InputRequiredTasks)],
    ),
    (
        counter("mcp.server.tasks.ended", "{task}", "Tasks that have ended in this process"),
        "mcp.task.status",
        &[
            ("completed", CompletedTasks),
            ("failed", FailedTasks),
            ("cancelled", CancelledTasks),
            ("expired", ExpiredTasks),
        ],
    ),
    (
        counter("mcp.server.refusals", "{request}", "Requests and connections that were refused because of a limit"),
        "mcp.refusal.reason",
        &[
            ("calls", RefusedCalls),
            ("connections", RefusedConnections),
            ("subscriptions", RefusedListeners),
            ("memory", RefusedMemory),
            ("client_requests", RefusedQuestions),
            ("rate", RefusedRate),
            ("sessions", RefusedSessions),
            ("tasks", RefusedTasks),
        ],
    ),
    (
        counter("mcp.server.authentications", "{request}", "Requests by the outcome of their authentication"),
        "mcp.authentication.outcome",
        &[
            ("accepted", Authenticated),
            ("insufficient_scope", InsufficientScope),
            ("missing", CredentialsMissing),
            ("invalid", CredentialsInvalid),
            ("unavailable", AuthenticatorUnavailable),
        ],
    ),
];

const _: () = {
    let (mut rows, mut index) = (PLAIN.len(), 0);
    while index < LABELLED.len() {
        rows += LABELLED[index].2.len();
        index += 1;
    }
    assert!(rows == Counter::Count as usize, "a counter belongs to no metric, or to several");
};

impl ReadStats for Engine {
    fn read_stats(&self) -> Vec<Stat> {
        let of = |stat: Stat, value: usize| Stat { value: value as u64, ..stat };
        let sessions = gauge("mcp.server.sessions", "{session}", "Open sessions");
        let mut stats = vec![of(sessions, self.sessions.open().count())];
        stats.extend(PLAIN.map(|(stat, counter)| Stat { value: counter.value(), ..stat }));
        for (stat, name, values) in LABELLED {
            let value = |&(label, counter): &(_, Counter)| (Some((name, label)), counter.value());
            stats.extend(values.iter().map(value).map(|(attribute, value)| Stat { attribute, value, ..stat }));
        }
        let (active, limit) = blocking_threads();
        let threads = [
            (gauge("mcp.server.blocking.active", "{thread}", "Threads that run blocking functions"), active),
            (gauge("mcp.server.blocking.limit", "{thread}", "The maximum of these threads"), limit),
        ];
        stats.extend(threads.map(|(stat, value)| of(stat, value)));
        let EndpointBuffers { requests, responses, streams } = self.endpoint_buffers();
        let (arguments, results) = self.tasks.buffered();
        let log = Buffered { used: stderr::writer().pending(), max: stderr::MAX_PENDING_BYTES };
        let buffers = [
            ("requests", requests),
            ("responses", responses),
            ("streams", streams),
            ("task_arguments", arguments),
            ("task_results", results),
            ("log", log),
        ];
        let usage = gauge("mcp.server.buffer.usage", "By", "Buffered bytes");
        let limit = gauge("mcp.server.buffer.limit", "By", "The maximum of buffered bytes");
        let labelled = |stat, label, value| Stat { attribute: Some(("mcp.buffer.name", label)), ..of(stat, value) };
        stats.extend(buffers.map(|(label, buffer)| labelled(usage, label, buffer.used)));
        stats.extend(buffers.map(|(label, buffer)| labelled(limit, label, buffer.max)));
        stats
    }
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;
    use crate::server::Server;

    #[derive(Debug)]
    struct Endpoint;

    impl EndpointStats for Endpoint {
        fn add_to(&self, _: &mut EndpointBuffers) {}
    }

    /// A program may serve the same server again and again.
    #[test]
    fn endpoints_are_forgotten_once_they_are_dropped() {
        let server = Server::empty("test", "1.0.0").build().unwrap();
        for _ in 0..3 {
            let endpoint: Arc<dyn EndpointStats> = Arc::new(Endpoint);
            server.engine().add_endpoint(Arc::downgrade(&endpoint));
        }
        assert_eq!(server.engine().endpoints.lock().len(), 1);
    }
}
