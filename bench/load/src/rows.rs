//! Which measurement stands in which line of the table.

use std::collections::HashMap;

use crate::{
    build_cost::BuildCost,
    counts::Counts,
    sample::Sample,
    server::Maker,
    table::{
        Row,
        Target::{self, Absolute, Times},
        Unit,
    },
    workload::{self, Samples, Starts, Workload},
};

/// Everything that was measured.
#[derive(Default)]
pub struct Measured {
    pub samples: Samples,
    pub starts: Starts,
    /// The bytes of an idle session.
    pub sessions: HashMap<Maker, f64>,
    pub counts: HashMap<Maker, Counts>,
    /// By the package in `smallest/`.
    pub builds: HashMap<&'static str, BuildCost>,
}

impl Measured {
    /// The lines of the table.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = vec![
            self.load("stdio echo, 64 in flight, calls/s", workload::STDIO_ECHO_64, Unit::Rate, |sample| sample.rate)
                .wanting(&[Times(8.0, Maker::Peer), Times(0.6, Maker::Limit)]),
            self.load("stdio echo, one at a time, p50", workload::STDIO_ECHO, Unit::Seconds, |sample| sample.p50)
                .wanting(&[Times(1.3, Maker::Limit)]),
            self.load("stdio search, CPU a call", workload::STDIO_SEARCH, Unit::Seconds, |sample| sample.cpu)
                .wanting(&[Times(1.1, Maker::Limit)]),
            self.load("HTTP echo, session, calls/s", workload::HTTP_ECHO_SESSION, Unit::Rate, |sample| sample.rate)
                .wanting(&[Times(3.5, Maker::Peer), Times(0.8, Maker::Limit)]),
            self.load("HTTP echo, 2026-07-28, calls/s", workload::HTTP_ECHO_STATELESS, Unit::Rate, |sample| {
                sample.rate
            })
            .wanting(&[Times(4.0, Maker::Peer), Times(0.75, Maker::Limit)]),
            self.load("tools/list, 103 tools, CPU a call", workload::STDIO_LIST, Unit::Seconds, |sample| sample.cpu)
                .wanting(&[Times(1.0 / 30.0, Maker::Peer)]),
            row("a call with 1,000 tools against 1, CPU", Unit::Ratio, |maker| self.growth(maker))
                .wanting(&[Absolute(1.05)]),
            self.allocations("allocations, stdio echo", "stdio_echo").wanting(&[Absolute(8.0)]),
            self.allocations("allocations, HTTP echo, session", "http_echo_2025_11_25"),
            self.allocations("allocations, HTTP echo, 2026-07-28", "http_echo_2026_07_28"),
            self.instructions("instructions, stdio echo", "stdio_echo"),
            self.instructions("instructions, stdio search", "stdio_search"),
            self.instructions("instructions, HTTP echo, session", "http_echo_2025_11_25"),
            self.instructions("instructions, HTTP echo, 2026-07-28", "http_echo_2026_07_28"),
            row("memory of an idle session", Unit::Bytes, |maker| self.sessions.get(&maker).copied())
                .wanting(&[Absolute(2048.0)]),
            row("start to `initialize` answered", Unit::Seconds, |maker| self.starts.median(maker))
                .wanting(&[Times(1.1, Maker::Limit)]),
        ];
        for [cold, release, cpu, again, size, crates, kind] in BUILDS {
            let mut build = |title, unit, targets, value: fn(&BuildCost) -> f64| {
                rows.push(self.build(title, kind, unit, value).wanting(targets));
            };
            build(cold, Unit::Seconds, SMALLER, |cost| cost.cold);
            build(release, Unit::Seconds, SMALLER, |cost| cost.cold_release);
            build(cpu, Unit::Seconds, SMALLER, |cost| cost.cold_release_cpu);
            build(again, Unit::Seconds, &[], |cost| cost.again);
            build(size, Unit::Bytes, SMALLER, |cost| cost.size);
            build(crates, Unit::Count, &[], |cost| cost.crates);
        }
        rows.retain(|row| row.ours.is_some());
        rows
    }

    fn load(&self, title: &'static str, workload: Workload, unit: Unit, value: fn(&Sample) -> f64) -> Row {
        row(title, unit, |maker| self.samples.median(workload, maker, value))
    }

    fn allocations(&self, title: &'static str, name: &str) -> Row {
        row(title, Unit::Count, |maker| self.counts.get(&maker)?.allocations.get(name).map(|&count| count as f64))
    }

    fn instructions(&self, title: &'static str, name: &str) -> Row {
        row(title, Unit::Count, |maker| self.counts.get(&maker)?.instructions.get(name).map(|&count| count as f64))
    }

    /// How much more CPU a call takes of a server of a thousand tools.
    fn growth(&self, maker: Maker) -> Option<f64> {
        let cpu = |workload| self.samples.median(workload, maker, |sample| sample.cpu);
        Some(cpu(workload::THOUSAND_TOOLS)? / cpu(workload::ONE_TOOL)?)
    }

    fn build(&self, title: &'static str, kind: &str, unit: Unit, value: fn(&BuildCost) -> f64) -> Row {
        row(title, unit, |maker| match maker {
            Maker::Limit => None,
            Maker::Peer => self.builds.get(format!("peer-{kind}").as_str()).map(value),
            Maker::Ours => self.builds.get(format!("ours-{kind}").as_str()).map(value),
        })
    }
}

/// What the smallest server shall cost.
const SMALLER: &[Target] = &[Times(0.6, Maker::Peer)];

/// The titles of what building costs, and the kind of server.
const BUILDS: [[&str; 7]; 2] = [
    [
        "smallest stdio server, cold build",
        "smallest stdio server, cold release build",
        "smallest stdio server, cold release build, CPU",
        "smallest stdio server, build after a change",
        "smallest stdio server, stripped size",
        "smallest stdio server, crates",
        "stdio",
    ],
    [
        "smallest HTTP server, cold build",
        "smallest HTTP server, cold release build",
        "smallest HTTP server, cold release build, CPU",
        "smallest HTTP server, build after a change",
        "smallest HTTP server, stripped size",
        "smallest HTTP server, crates",
        "http",
    ],
];

fn row(title: &'static str, unit: Unit, of: impl Fn(Maker) -> Option<f64>) -> Row {
    Row { title, unit, peer: of(Maker::Peer), limit: of(Maker::Limit), ours: of(Maker::Ours), targets: &[] }
}
