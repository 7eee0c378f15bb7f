//! The server with telemetry, in each of its configurations, and the CPU time that they take.

use crate::{
    error::Result,
    http,
    machine::Cores,
    message::{Operation, Revision},
    server::Program,
    stdio,
    workload::{Programs, Transport},
};

/// The server without telemetry, and with each configuration of it: names, executables and environments. Spans are exported in
/// batches, to a port at which nothing listens.
pub const TELEMETRY: [(&str, &str, &[(&str, &str)]); 5] = [
    ("telemetry_absent", "unobserved", &[]),
    ("telemetry_off", "observed", &[]),
    ("metrics", "observed", &[("OTEL_METRICS_EXPORTER", "prometheus"), ("OTEL_EXPORTER_PROMETHEUS_PORT", "0")]),
    ("spans_unsampled", "observed", &[OTLP_ENDPOINT, ("OTEL_TRACES_SAMPLER", "always_off")]),
    (SPANS_EXPORTED, "observed", &[OTLP_ENDPOINT, DELAY]),
];

pub const SPANS_EXPORTED: &str = "spans_exported";

/// The environment of [`SPANS_EXPORTED`] in which the exporter has one batch, when the server ends. Otherwise, the number of
/// batches depends on the scheduling of its thread.
pub const EXPORTED_AT_END: &[(&str, &str)] =
    &[OTLP_ENDPOINT, DELAY, ("OTEL_BSP_MAX_QUEUE_SIZE", "8192"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8192")];

const DELAY: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "3600000");

const OTLP_ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9");

/// The workloads, by name.
pub const ECHOES: [(&str, Transport); 2] =
    [("stdio_echo", Transport::Stdio), ("http_echo_2026_07_28", Transport::Http(Revision::Stateless))];

/// The number of calls that are measured, after as many that are not.
const CALLS: usize = 10_000;

/// Measures the CPU time of a call in each configuration, as a table. They take turns, and each number is the minimum over the
/// rounds, since the load of the machine only adds to it.
pub fn cpu_times(programs: &Programs<'_>, cores: &Cores, rounds: usize) -> Result<String> {
    let mut table =
        "| workload | telemetry | CPU per call | beyond `telemetry_absent` |\n| --- | --- | ---: | ---: |\n".to_owned();
    for (name, transport) in ECHOES {
        let mut times = TELEMETRY.map(|_| f64::INFINITY);
        for _ in 0..rounds {
            for ((_, program, environment), time) in TELEMETRY.into_iter().zip(&mut times) {
                let program = Program { environment, ..programs.named(program) };
                *time = time.min(cpu_per_call(&program, transport, cores)?);
            }
        }
        for ((telemetry, ..), time) in TELEMETRY.into_iter().zip(times) {
            let (time, beyond) = (time * 1e6, (time - times[0]) * 1e6);
            table += &format!("| {name} | {telemetry} | {time:.2} µs | {beyond:.2} µs |\n");
        }
    }
    Ok(table)
}

/// Returns the CPU time of a call in seconds, all threads included.
fn cpu_per_call(program: &Program, transport: Transport, cores: &Cores) -> Result<f64> {
    let time = match transport {
        Transport::Stdio => {
            let mut process = program.stdio(cores)?;
            let mut client = stdio::Client::connect(&mut process)?;
            client.call(Operation::Echo, CALLS)?;
            let before = process.cpu()?;
            client.call(Operation::Echo, CALLS)?;
            process.cpu()? - before
        }
        Transport::Http(revision) => {
            let (process, address) = program.http(cores)?;
            let mut connection = http::Connection::open(address)?;
            let client = http::Client::connect_on(&mut connection, revision)?;
            client.call(&mut connection, Operation::Echo, CALLS)?;
            let before = process.cpu()?;
            client.call(&mut connection, Operation::Echo, CALLS)?;
            process.cpu()? - before
        }
    };
    Ok(time.as_secs_f64() / CALLS as f64)
}
