//! The fastest other frameworks, each with the workload in which it is the fastest, beside the server of this project with one tool.

use crate::{
    error::Result,
    machine::Cores,
    sample::{Durations, Sample, median},
    table::Unit,
    workload::{self, HTTP_ECHO_SESSION, HTTP_ECHO_STATELESS, Programs, STDIO_ECHO_64, Workload},
};

/// The frameworks, their executables and their workloads.
const OTHERS: [(&str, &str, Workload); 3] = [
    ("tower-mcp 0.25", "other-tower-mcp", STDIO_ECHO_64),
    ("turbomcp 3.6", "other-turbomcp", HTTP_ECHO_SESSION),
    ("neva 0.9", "other-neva", HTTP_ECHO_STATELESS),
];

/// Measures them as a table, with medians of the rounds. The servers take turns.
pub fn measure(programs: &Programs<'_>, cores: &Cores, durations: Durations, rounds: usize) -> Result<String> {
    let mut table = "| workload | framework | calls/s | CPU per call | ours / framework, CPU | peak memory |\n\
                     | --- | --- | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for (framework, program, workload) in OTHERS {
        let mut samples =
            [("ours", "ours-one"), (framework, program)].map(|(name, program)| (name, program, Vec::new()));
        for _ in 0..rounds {
            for (name, program, samples) in &mut samples {
                let sample = workload::measure(&programs.named(program), &workload, cores, durations);
                samples.push(sample.map_err(|failure| failure.during(*name))?);
            }
        }
        let title = workload.title();
        let medians = |samples: &[Sample], value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
        let ours = medians(&samples[0].2, |sample| sample.cpu);
        for (name, _, samples) in &samples {
            let cpu = medians(samples, |sample| sample.cpu);
            let rate = Unit::Rate.show(medians(samples, |sample| sample.rate));
            let peak = Unit::Bytes.show(medians(samples, |sample| sample.peak));
            table += &format!(
                "| {title} | {name} | {rate} | {} | {:.2} × | {peak} |\n",
                Unit::Seconds.show(cpu),
                ours / cpu
            );
        }
    }
    Ok(table)
}
