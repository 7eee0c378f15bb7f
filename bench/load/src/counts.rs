//! Counts that do not depend on the load of the machine: allocations and instructions per call, and memory.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    error::{Failure, Result},
    http,
    machine::{Cores, has_program},
    message::{Operation, Request, Revision},
    scenario::allocated,
    server::{Implementation, Program},
    stdio,
    telemetry::{ECHOES, EXPORTED_AT_END, SPANS_EXPORTED, TELEMETRY},
    workload::{Programs, Transport},
};

/// The fraction by which instructions and bytes may exceed their bound. If they are below the bound by more than this fraction,
/// the bound should be tightened.
const TOLERANCE: f64 = 0.10;

/// The instructions that telemetry may add: the configuration, the one it is compared with, and the maximum ratio.
const RATIOS: [(&str, &str, f64); 2] =
    [("telemetry_off", "telemetry_absent", 1.01 + NOISE), ("spans_unsampled", "telemetry_off", 1.03 + NOISE)];

/// The difference that the alignment of buffers alone makes to a ratio: repeated runs of 1.0040 gave up to 1.0099.
const NOISE: f64 = 0.005;

const HTTP_SESSION: Transport = Transport::Http(Revision::Session);
const HTTP_STATELESS: Transport = Transport::Http(Revision::Stateless);

/// The counted workloads, by their names in `bounds.toml`.
const COUNTED: [(&str, Transport, Operation); 8] = [
    ("stdio_echo", Transport::Stdio, Operation::Echo),
    ("stdio_search", Transport::Stdio, Operation::Search),
    ("stdio_task", Transport::Stdio, Operation::Task),
    ("http_echo_2025_11_25", HTTP_SESSION, Operation::Echo),
    ("http_echo_2026_07_28", HTTP_STATELESS, Operation::Echo),
    ("stdio_echo_1_mib", Transport::Stdio, Operation::BigEcho),
    ("http_echo_1_mib_2025_11_25", HTTP_SESSION, Operation::BigEcho),
    ("http_echo_1_mib_2026_07_28", HTTP_STATELESS, Operation::BigEcho),
];

/// The counts of one call.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub allocations: BTreeMap<String, u64>,
    /// Empty without valgrind.
    pub instructions: BTreeMap<String, u64>,
    /// The bytes that a server allocates at most, beyond those that it has allocated before the first large call.
    #[serde(default)]
    pub peak_bytes: BTreeMap<String, u64>,
}

/// How often a workload is repeated.
#[derive(Debug, Clone, Copy)]
struct Repeat {
    /// The number of calls before counting starts, in which buffers reach their final size.
    warm_up: usize,
    counted: usize,
}

impl Counts {
    /// Counts the allocations, instructions and bytes of one implementation, for the workloads whose names contain `part`.
    pub fn measure(programs: &Programs<'_>, implementation: Implementation, cores: &Cores, part: &str) -> Result<Self> {
        let mut counts = Self::default();
        for (name, transport, operation) in COUNTED {
            let is_task = operation == Operation::Task;
            if !name.contains(part) || is_task && implementation != Implementation::Ours {
                continue;
            }
            let program = programs.named(match (implementation, transport) {
                (Implementation::Peer, _) => "peer-counting",
                (Implementation::Limit, Transport::Stdio) => "limit-stdio",
                (Implementation::Limit, Transport::Http(_)) => "limit-http",
                (Implementation::Ours, _) => "ours-counting",
            });
            let is_big = operation == Operation::BigEcho;
            // How a large body is divided into reads, and thus the number of allocations, depends on the kernel.
            if implementation != Implementation::Limit && is_big {
                let bytes = peak_bytes(&program, transport, operation, cores);
                counts.peak_bytes.insert(name.to_owned(), bytes.map_err(|failure| failure.during(name))?);
            } else if implementation != Implementation::Limit && !is_task {
                // Tasks are sorted by their random ids, so the number of allocations varies.
                let count = allocations(&program, transport, operation, cores);
                counts.allocations.insert(name.to_owned(), count.map_err(|failure| failure.during(name))?);
            }
            if has_valgrind() {
                let repeat =
                    if is_big { Repeat { warm_up: 5, counted: 20 } } else { Repeat { warm_up: 200, counted: 500 } };
                let count = instructions(&program, transport, operation, repeat, programs.folder, cores);
                counts.instructions.insert(name.to_owned(), count.map_err(|failure| failure.during(name))?);
            }
        }
        if implementation == Implementation::Ours && has_valgrind() {
            counts.measure_telemetry(programs, cores, part)?;
        }
        Ok(counts)
    }

    fn measure_telemetry(&mut self, programs: &Programs<'_>, cores: &Cores, part: &str) -> Result<()> {
        for (telemetry, program, environment) in TELEMETRY {
            let environment = if telemetry == SPANS_EXPORTED { EXPORTED_AT_END } else { environment };
            for (name, transport) in ECHOES {
                let name = format!("{name}_{telemetry}");
                if !name.contains(part) {
                    continue;
                }
                let program = Program { environment, ..programs.named(program) };
                let repeat = Repeat { warm_up: 512, counted: 512 };
                let count = instructions(&program, transport, Operation::Echo, repeat, programs.folder, cores);
                self.instructions.insert(name.clone(), count.map_err(|failure| failure.during(name))?);
            }
        }
        Ok(())
    }

    pub fn read(path: &Path) -> Result<Self> {
        toml::from_str(&fs::read_to_string(path)?).map_err(|error| Failure::new(error.to_string()))
    }

    /// Writes the counts as the new bounds.
    pub fn write(&self, path: &Path, machine: &str) -> Result<()> {
        let body = toml::to_string(self).map_err(|error| Failure::new(error.to_string()))?;
        let text = format!(
            "# The cost of one call of our server: the exact number of allocations, and the instructions and the bytes of\n\
             # a large call to within 10 %.\n\
             # Written by `bench/run --counts-only --update-bounds` on {machine}.\n\n{body}"
        );
        Ok(fs::write(path, text)?)
    }

    /// Compares the counts with bounds, prints the result, and returns the number of exceeded bounds.
    pub fn check(&self, bounds: &Self) -> usize {
        let mut exceeded = 0;
        for (what, counts, bounds, tolerance) in [
            ("allocations", &self.allocations, &bounds.allocations, 0.0),
            ("instructions", &self.instructions, &bounds.instructions, TOLERANCE),
            ("peak bytes", &self.peak_bytes, &bounds.peak_bytes, TOLERANCE),
        ] {
            for (name, &count) in counts {
                let Some(&bound) = bounds.get(name) else {
                    println!("{name:36} {count:8} {what:12} FAILED: no bound; run with --update-bounds");
                    exceeded += 1;
                    continue;
                };
                let share = count as f64 / bound.max(1) as f64;
                let verdict = if share > 1.0 + tolerance {
                    "FAILED"
                } else if share < 1.0 - tolerance {
                    "ok, improved: tighten the bound with --update-bounds"
                } else {
                    "ok"
                };
                exceeded += usize::from(share > 1.0 + tolerance);
                println!("{name:36} {count:8} {what:12} bound {bound:8} ({:+.1} %) {verdict}", (share - 1.0) * 100.0);
            }
        }
        for (name, _) in ECHOES {
            for (telemetry, base, maximum) in RATIOS {
                let count =
                    |telemetry| self.instructions.get(&format!("{name}_{telemetry}")).map(|&count| count as f64);
                let Some((count, base_count)) = count(telemetry).zip(count(base)) else { continue };
                let ratio = count / base_count;
                let verdict = if ratio > maximum { "FAILED" } else { "ok" };
                exceeded += usize::from(ratio > maximum);
                println!("{name}: {telemetry} / {base}: {ratio:.4}, at most {maximum} {verdict}");
            }
        }
        if self.instructions.is_empty() {
            println!("instructions: skipped, valgrind is not installed");
        }
        exceeded
    }
}

fn has_valgrind() -> bool {
    has_program("valgrind")
}

/// Returns the allocations per call: the difference between N and 2 N calls.
fn allocations(program: &Program, transport: Transport, operation: Operation, cores: &Cores) -> Result<u64> {
    const CALLS: usize = 1000;
    let steps = [(operation, 200), (operation, CALLS), (operation, 2 * CALLS)];
    let responses = ask_after(program, transport, "allocations", &steps, cores)?;
    let counts: Option<Vec<u64>> =
        responses.iter().map(|response| response["result"]["content"][0]["text"].as_str()?.parse().ok()).collect();
    match counts.as_deref() {
        Some(&[first, second, third]) => Ok(per_call(second - first, third - second, CALLS)),
        _ => Err(Failure::new(format!("expected a number of allocations: {}", responses[0]))),
    }
}

/// Returns the bytes that a few calls allocate at most, beyond those that are allocated after small calls.
fn peak_bytes(program: &Program, transport: Transport, operation: Operation, cores: &Cores) -> Result<u64> {
    let steps = [(Operation::Echo, 20), (Operation::Echo, 20), (operation, 5)];
    let responses = ask_after(program, transport, "memory", &steps, cores)?;
    let (idle, after) = (allocated(&responses[1])?, allocated(&responses[2])?);
    Ok((after.peak - idle.now).unsigned_abs())
}

/// Makes calls in steps, and returns the responses of a tool that is called after each step.
fn ask_after(
    program: &Program,
    transport: Transport,
    tool: &str,
    steps: &[(Operation, usize)],
    cores: &Cores,
) -> Result<Vec<Value>> {
    match transport {
        Transport::Stdio => {
            let mut process = program.stdio(cores)?;
            let mut client = stdio::Client::connect(&mut process)?;
            let mut step = |&(operation, calls): &_| {
                client.call(operation, calls)?;
                client.ask(&Request::call(tool, Revision::Session))
            };
            steps.iter().map(&mut step).collect()
        }
        Transport::Http(revision) => {
            let (_process, address) = program.http(cores)?;
            let mut connection = http::Connection::open(address)?;
            let client = http::Client::connect_on(&mut connection, revision)?;
            let mut step = |&(operation, calls): &_| {
                client.call(&mut connection, operation, calls)?;
                client.ask(&mut connection, &Request::call(tool, revision), tool)
            };
            steps.iter().map(&mut step).collect()
        }
    }
}

/// Returns the instructions per call: the difference between two processes with N and 2 N calls.
fn instructions(
    program: &Program,
    transport: Transport,
    operation: Operation,
    Repeat { warm_up, counted }: Repeat,
    folder: &Path,
    cores: &Cores,
) -> Result<u64> {
    // A server that the machine leaves no time ends itself before the profile is complete.
    let total = |calls| {
        let mut attempts = (0..3).map(|_| instructions_of(program, transport, operation, calls, folder, cores));
        attempts.find_map(Result::transpose).unwrap_or_else(|| Err(Failure::new("the callgrind profile has no total")))
    };
    Ok(per_call(total(warm_up + counted)?, total(warm_up + 2 * counted)?, counted))
}

/// Returns the instructions of a run, or `None` if its profile is incomplete.

fn instructions_of(
    program: &Program,
    transport: Transport,
    operation: Operation,
    calls: usize,
    folder: &Path,
    cores: &Cores,
) -> Result<Option<u64>> {
    let out = folder.join("callgrind.out");
    let _ = fs::remove_file(&out);
    let mut program = program.clone();
    program.wrapper =
        vec!["valgrind".to_owned(), "--tool=callgrind".to_owned(), format!("--callgrind-out-file={}", out.display())];
    match transport {
        Transport::Stdio => {
            let mut process = program.stdio(cores)?;
            stdio::Client::connect(&mut process)?.call(operation, calls)?;
            process.wait()?;
        }
        Transport::Http(revision) => {
            // Valgrind also writes to stderr, but never an address.
            let (process, address) = program.http(cores)?;
            let mut connection = http::Connection::open(address)?;
            http::Client::connect_on(&mut connection, revision)?.call(&mut connection, operation, calls)?;
            process.stop()?;
        }
    }
    let profile = fs::read_to_string(&out).map_err(|error| Failure::from(error).during("callgrind profile"))?;
    Ok(profile.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok()))
}

fn per_call(once: u64, twice: u64, calls: usize) -> u64 {
    (twice.saturating_sub(once) as f64 / calls as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn instructions_have_a_tolerance_of_ten_percent() {
        let counts = |allocations: u64, instructions: u64| Counts {
            allocations: [("echo".to_owned(), allocations)].into(),
            instructions: [("echo".to_owned(), instructions)].into(),
            peak_bytes: [("echo".to_owned(), 1000)].into(),
        };
        let bounds = counts(5, 1000);
        for (taken, exceeded) in [
            (counts(5, 1000), 0),
            (counts(5, 1099), 0),
            (counts(4, 500), 0),
            (counts(5, 1101), 1),
            (counts(6, 1200), 2),
        ] {
            assert_eq!(taken.check(&bounds), exceeded, "{taken:?}");
        }
        assert_eq!(counts(5, 1000).check(&Counts::default()), 3);
    }

    #[test]
    fn telemetry_adds_few_instructions() {
        for (absent, off, unsampled, exceeded) in
            [(1000, 1014, 1049, 0), (1000, 1016, 1040, 1), (1000, 1000, 1036, 1), (1000, 1020, 1060, 2)]
        {
            let instructions = [("telemetry_absent", absent), ("telemetry_off", off), ("spans_unsampled", unsampled)]
                .map(|(telemetry, count)| (format!("stdio_echo_{telemetry}"), count));
            let counts = Counts { instructions: instructions.into(), ..Counts::default() };
            assert_eq!(counts.check(&counts), exceeded, "{counts:?}");
        }
    }
}
