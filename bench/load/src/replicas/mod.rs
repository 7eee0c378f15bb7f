//! The speed and memory of replicas that share Redis, compared with a single process that shares nothing.
//! `bench/replicas` runs these measurements.

mod deployment;
mod figures;
mod listeners;
mod redis;
mod sessions;
mod speed;
mod tasks;

use std::{fs, path::Path};

use crate::{
    error::{Failure, Result},
    machine::{self, Cores},
    message::Revision,
    replicas::figures::Figures,
    sample::Durations,
    scenario,
    workload::Programs,
};

/// The environment of a measurement.
pub struct Bench<'a> {
    pub programs: &'a Programs<'a>,
    pub cores: &'a Cores,
    pub durations: Durations,
    /// The number of sessions, and of listeners.
    pub clients: usize,
    /// The number of tasks.
    pub tasks: usize,
    /// The number of changes that listeners hear of.
    pub changes: usize,
}

/// A measurement with its title.
type Part = (&'static str, fn(&Bench<'_>, &mut Figures) -> Result<()>);

/// The measurements. Deployments that are compared with each other are in the same part, and take turns.
const PARTS: [Part; 5] = [
    ("echo", speed::measure),
    ("sessions", sessions::measure),
    ("listeners of 2026-07-28", |bench, figures| listeners::measure(bench, figures, Revision::Stateless)),
    ("listeners of 2025-11-25", |bench, figures| listeners::measure(bench, figures, Revision::Session)),
    ("tasks", tasks::measure),
];

/// Measures the parts whose titles contain `only` in several rounds, and writes the results unless only some parts were
/// measured.
pub fn run(bench: &Bench<'_>, rounds: usize, only: Option<&str>, results: &Path) -> Result<()> {
    scenario::allow_many_files()?;
    let mut figures = Figures::default();
    for round in 1..=rounds {
        for (title, measure) in PARTS.iter().filter(|(title, _)| title.contains(only.unwrap_or_default())) {
            eprintln!("round {round} of {rounds}: {title}");
            measure(bench, &mut figures).map_err(|failure| failure.during(title))?;
        }
    }
    let measured = match rounds {
        1 => "one round".to_owned(),
        _ => format!("medians of {rounds} rounds, and their range"),
    };
    let text = format!(
        "# Replicas\n\n{}; {measured}. `bench/README.md` explains how to read it.\n{figures}",
        machine::describe(),
    );
    print!("{text}");
    if only.is_none() {
        fs::create_dir_all(results)?;
        let path = results.join("replicas.md");
        fs::write(&path, text).map_err(|error| Failure::from(error).during(path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}
