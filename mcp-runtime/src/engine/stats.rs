//! The gauges and counters of a server, collected from its parts when they are read.

use std::sync::Arc;

use super::server::Engine;
use crate::telemetry::{ReadStats, Stat, Stats};

impl Engine {
    /// Returns access to the gauges and counters.
    pub(crate) fn stats(self: &Arc<Self>) -> Stats {
        let source: Arc<dyn ReadStats> = Arc::clone(self) as _;
        Stats::new(Arc::downgrade(&source))
    }
}

impl ReadStats for Engine {
    fn read_stats(&self) -> Vec<Stat> {
        let sessions = self.open_sessions().count() as u64;
        vec![Stat::gauge("mcp.server.sessions", "{session}", "Open sessions", sessions)]
    }
}
