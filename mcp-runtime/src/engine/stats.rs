//! The gauges and counters of a server, collected when they are read.

use std::sync::{Arc, Weak};

use super::server::Engine;
use crate::{
    counters::{Buffered, Counter, EndpointBuffers, EndpointStats, metrics},
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

macro_rules! define_metrics {
    ($($kind:ident($($text:literal),+) $(, $attribute:literal)?: $($counter:ident $(= $label:literal)?),+;)+) => {
        /// The metrics that the process counts: the name of the attribute, and each counter with its value of the
        /// attribute. Both are empty if a metric has no attribute.
        const METRICS: &[(Stat, &str, &[(&str, Counter)])] = &[$((
            $kind($($text),+),
            concat!($($attribute)?),
            &[$((concat!($($label)?), Counter::$counter)),+],
        )),+];
    };
}

metrics!(define_metrics);

impl ReadStats for Engine {
    fn read_stats(&self) -> Vec<Stat> {
        let of = |stat: Stat, value: usize| Stat { value: value as u64, ..stat };
        let sessions = gauge("mcp.server.sessions", "{session}", "Open sessions");
        let mut stats = vec![of(sessions, self.sessions.open().count())];
        for (stat, name, counters) in METRICS {
            stats.extend(counters.iter().map(|(label, counter)| {
                let attribute = Some((*name, *label)).filter(|_| !name.is_empty());
                Stat { attribute, value: counter.value(), ..*stat }
            }));
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
