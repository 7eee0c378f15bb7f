//! The rows of the table.

use std::collections::HashMap;

use crate::{
    build_cost::BuildCost,
    counts::Counts,
    sample::Sample,
    scenario::{Cost, Costs, HTTPS_1, HTTPS_2, Scenario},
    server::Implementation,
    table::{
        Row,
        Target::{self, Absolute, Times},
        Unit,
    },
    workload::{self, HTTP_BIG_ECHO_SESSION, HTTP_BIG_ECHO_STATELESS, Samples, Starts, Workload},
};

/// All measurements.
#[derive(Default)]
pub struct Measurements {
    pub samples: Samples,
    pub starts: Starts,
    pub costs: Costs,
    pub counts: HashMap<Implementation, Counts>,
    /// The build costs by package of `smallest/`.
    pub builds: HashMap<&'static str, BuildCost>,
}

impl Measurements {
    /// Returns the rows of the table.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = vec![
            self.load("stdio echo, 64 in flight, calls/s", workload::STDIO_ECHO_64, Unit::Rate, |sample| sample.rate)
                .targeting(&[Times(8.0, Implementation::Peer), Times(0.6, Implementation::Limit)]),
            self.load("stdio echo, one at a time, p50", workload::STDIO_ECHO, Unit::Seconds, |sample| sample.p50)
                .targeting(&[Times(1.3, Implementation::Limit)]),
            self.load("stdio search, CPU per call", workload::STDIO_SEARCH, Unit::Seconds, |sample| sample.cpu)
                .targeting(&[Times(1.1, Implementation::Limit)]),
            self.load("HTTP echo, session, calls/s", workload::HTTP_ECHO_SESSION, Unit::Rate, |sample| sample.rate)
                .targeting(&[Times(3.5, Implementation::Peer), Times(0.8, Implementation::Limit)]),
            self.load("HTTP echo, 2026-07-28, calls/s", workload::HTTP_ECHO_STATELESS, Unit::Rate, |sample| {
                sample.rate
            })
            .targeting(&[Times(4.0, Implementation::Peer), Times(0.75, Implementation::Limit)]),
            self.load("stdio echo, 64 in flight, CPU per call", workload::STDIO_ECHO_64, Unit::Seconds, |sample| {
                sample.cpu
            }),
            self.load("HTTP echo, session, CPU per call", workload::HTTP_ECHO_SESSION, Unit::Seconds, |sample| {
                sample.cpu
            }),
            self.load("HTTP echo, 2026-07-28, CPU per call", workload::HTTP_ECHO_STATELESS, Unit::Seconds, |sample| {
                sample.cpu
            }),
            self.load("tools/list, 103 tools, CPU per call", workload::STDIO_LIST, Unit::Seconds, |sample| sample.cpu)
                .targeting(&[Times(1.0 / 30.0, Implementation::Peer)]),
            self.load("stdio echo of 1 MiB, CPU per call", workload::STDIO_BIG_ECHO, Unit::Seconds, |sample| {
                sample.cpu
            })
            .targeting(&[Times(0.2, Implementation::Peer), Times(1.1, Implementation::Limit)]),
            self.load("stdio echo of 1 MiB, peak memory", workload::STDIO_BIG_ECHO, Unit::Bytes, |sample| sample.peak)
                .targeting(&[BIG_ECHO_MEMORY]),
            self.load("HTTP echo of 1 MiB, session, CPU per call", HTTP_BIG_ECHO_SESSION, Unit::Seconds, |sample| {
                sample.cpu
            })
            .targeting(BIG_HTTP_ECHO_TIME),
            self.load("HTTP echo of 1 MiB, session, peak memory", HTTP_BIG_ECHO_SESSION, Unit::Bytes, |sample| {
                sample.peak
            })
            .targeting(&[BIG_ECHO_MEMORY]),
            self.load(
                "HTTP echo of 1 MiB, 2026-07-28, CPU per call",
                HTTP_BIG_ECHO_STATELESS,
                Unit::Seconds,
                |sample| sample.cpu,
            )
            .targeting(BIG_HTTP_ECHO_TIME),
            self.load("HTTP echo of 1 MiB, 2026-07-28, peak memory", HTTP_BIG_ECHO_STATELESS, Unit::Bytes, |sample| {
                sample.peak
            })
            .targeting(&[BIG_ECHO_MEMORY]),
            row("CPU per call with 1,000 tools, relative to 1 tool", Unit::Ratio, |implementation| {
                self.relative(workload::THOUSAND_TOOLS, workload::ONE_TOOL, implementation)
            })
            .targeting(&[Absolute(1.05)]),
            row("HTTP echo, CPU per call, 2 workers / 1 worker", Unit::Ratio, |implementation| {
                self.relative(workload::TWO_WORKERS, workload::HTTP_ECHO_SESSION, implementation)
            })
            .targeting(&[Absolute(1.1)]),
            self.time("HTTPS echo, HTTP/1.1, CPU per call", HTTPS_1).targeting(&[Times(1.25, Implementation::Limit)]),
            self.memory("HTTPS echo, HTTP/1.1, peak memory", HTTPS_1),
            self.time("HTTPS echo, HTTP/2, CPU per call", HTTPS_2).targeting(&[Times(1.25, Implementation::Limit)]),
            self.memory("HTTPS echo, HTTP/2, peak memory", HTTPS_2),
            self.allocations("allocations, stdio echo", "stdio_echo").targeting(&[Absolute(8.0)]),
            self.allocations("allocations, HTTP echo, session", "http_echo_2025_11_25"),
            self.allocations("allocations, HTTP echo, 2026-07-28", "http_echo_2026_07_28"),
            self.instructions("instructions, stdio echo", "stdio_echo"),
            self.instructions("instructions, stdio search", "stdio_search"),
            self.instructions("instructions, stdio small task", "stdio_task"),
            self.instructions("instructions, HTTP echo, session", "http_echo_2025_11_25"),
            self.instructions("instructions, HTTP echo, 2026-07-28", "http_echo_2026_07_28"),
            self.instructions("instructions, telemetry off", "http_echo_2026_07_28_telemetry_off"),
            self.instructions("instructions, metrics for Prometheus", "http_echo_2026_07_28_metrics"),
            self.instructions("instructions, spans sampled out", "http_echo_2026_07_28_spans_unsampled"),
            self.instructions("instructions, spans exported", "http_echo_2026_07_28_spans_exported"),
            self.instructions("instructions, stdio echo of 1 MiB", "stdio_echo_1_mib"),
            self.instructions("instructions, HTTP echo of 1 MiB, session", "http_echo_1_mib_2025_11_25"),
            self.instructions("instructions, HTTP echo of 1 MiB, 2026-07-28", "http_echo_1_mib_2026_07_28"),
            self.memory("memory after 100,000 pipelined lists", Scenario::PipelinedLists)
                .targeting(&[Absolute((4 << 20) as f64)]),
            self.time("100,000 pipelined lists, CPU time", Scenario::PipelinedLists),
            self.memory("memory of a pending call", Scenario::PendingCalls).targeting(&[Absolute(1400.0)]),
            self.time("start of a pending call, CPU time", Scenario::PendingCalls),
            self.memory("memory of a connection, 1,000 at once", Scenario::Connections)
                .targeting(&[Times(1.0, Implementation::Peer)]),
            self.time("connection and first call, 1,000 at once, CPU time", Scenario::Connections),
            self.memory("memory of an idle session", Scenario::Sessions).targeting(&[Absolute(2048.0)]),
            row("start until the `initialize` response", Unit::Seconds, |implementation| {
                self.starts.median(implementation)
            })
            .targeting(&[Times(1.1, Implementation::Limit)]),
        ];
        for [cold, release, cpu, incremental, size, crates, kind] in BUILDS {
            let mut build = |title, unit, targets, value: fn(&BuildCost) -> f64| {
                rows.push(self.build(title, kind, unit, value).targeting(targets));
            };
            build(cold, Unit::Seconds, SMALLEST_TARGETS, |cost| cost.cold);
            build(release, Unit::Seconds, SMALLEST_TARGETS, |cost| cost.cold_release);
            build(cpu, Unit::Seconds, SMALLEST_TARGETS, |cost| cost.cold_release_cpu);
            build(incremental, Unit::Seconds, &[], |cost| cost.incremental);
            build(size, Unit::Bytes, SMALLEST_TARGETS, |cost| cost.size);
            build(crates, Unit::Count, &[], |cost| cost.crates);
        }
        rows.retain(|row| row.ours.is_some());
        rows
    }

    fn load(&self, title: &'static str, workload: Workload, unit: Unit, value: fn(&Sample) -> f64) -> Row {
        row(title, unit, |implementation| self.samples.median(workload, implementation, value))
    }

    fn memory(&self, title: &'static str, scenario: Scenario) -> Row {
        row(title, Unit::Bytes, |implementation| self.costs.median(scenario, implementation, |cost: &Cost| cost.bytes))
    }

    fn time(&self, title: &'static str, scenario: Scenario) -> Row {
        row(title, Unit::Seconds, |implementation| {
            self.costs.median(scenario, implementation, |cost: &Cost| cost.seconds)
        })
    }

    fn allocations(&self, title: &'static str, name: &str) -> Row {
        row(title, Unit::Count, |implementation| {
            self.counts.get(&implementation)?.allocations.get(name).map(|&count| count as f64)
        })
    }

    fn instructions(&self, title: &'static str, name: &str) -> Row {
        row(title, Unit::Count, |implementation| {
            self.counts.get(&implementation)?.instructions.get(name).map(|&count| count as f64)
        })
    }

    /// Returns the CPU time per call of a workload, relative to another.
    fn relative(&self, workload: Workload, to: Workload, implementation: Implementation) -> Option<f64> {
        let cpu = |workload| self.samples.median(workload, implementation, |sample| sample.cpu);
        Some(cpu(workload)? / cpu(to)?)
    }

    fn build(&self, title: &'static str, kind: &str, unit: Unit, value: fn(&BuildCost) -> f64) -> Row {
        row(title, unit, |implementation| match implementation {
            Implementation::Limit => None,
            Implementation::Peer => self.builds.get(format!("peer-{kind}").as_str()).map(value),
            Implementation::Ours => self.builds.get(format!("ours-{kind}").as_str()).map(value),
        })
    }
}

/// The target for the memory of an echo of 1 MiB: four times its text.
const BIG_ECHO_MEMORY: Target = Absolute((4 << 20) as f64);

/// The targets for the time of an echo of 1 MiB over HTTP.
const BIG_HTTP_ECHO_TIME: &[Target] = &[Times(1.0 / 3.0, Implementation::Peer), Times(1.1, Implementation::Limit)];

/// The targets for the smallest server.
const SMALLEST_TARGETS: &[Target] = &[Times(0.6, Implementation::Peer)];

/// The titles of the build costs, and the kind of server.
const BUILDS: [[&str; 7]; 2] = [
    [
        "smallest stdio server, cold build",
        "smallest stdio server, cold release build",
        "smallest stdio server, cold release build, CPU",
        "smallest stdio server, incremental build",
        "smallest stdio server, stripped size",
        "smallest stdio server, crates",
        "stdio",
    ],
    [
        "smallest HTTP server, cold build",
        "smallest HTTP server, cold release build",
        "smallest HTTP server, cold release build, CPU",
        "smallest HTTP server, incremental build",
        "smallest HTTP server, stripped size",
        "smallest HTTP server, crates",
        "http",
    ],
];

fn row(title: &'static str, unit: Unit, of: impl Fn(Implementation) -> Option<f64>) -> Row {
    Row {
        title,
        unit,
        peer: of(Implementation::Peer),
        limit: of(Implementation::Limit),
        ours: of(Implementation::Ours),
        targets: &[],
    }
}
