//! The table: measurements side by side, with targets.

use std::fmt::Write as _;

use crate::{
    scenario::{Costs, Scenario},
    server::Implementation,
    workload,
};

/// The unit of a number.
#[derive(Debug, Clone, Copy)]
pub enum Unit {
    /// Calls per second. The only unit for which more is better.
    Rate,
    Seconds,
    Bytes,
    Count,
    Ratio,
}

impl Unit {
    pub fn higher_is_better(self) -> bool {
        matches!(self, Self::Rate)
    }

    pub fn show(self, value: f64) -> String {
        match self {
            Self::Rate => format!("{:.1} k/s", value / 1e3),
            Self::Seconds if value < 1e-3 => format!("{:.1} µs", value * 1e6),
            Self::Seconds if value < 1.0 => format!("{:.2} ms", value * 1e3),
            Self::Seconds => format!("{value:.1} s"),
            Self::Bytes if value < 1e6 => format!("{:.1} KB", value / 1e3),
            Self::Bytes => format!("{:.2} MB", value / 1e6),
            Self::Count => format!("{value:.0}"),
            Self::Ratio => format!("{value:.3}"),
        }
    }
}

/// A target for our number: a minimum if more is better, otherwise a maximum.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// A multiple of the number of another implementation.
    Times(f64, Implementation),
    Absolute(f64),
}

/// A row of the table.
#[derive(Debug, Clone)]
pub struct Row {
    pub title: &'static str,
    pub unit: Unit,
    pub peer: Option<f64>,
    pub limit: Option<f64>,
    pub ours: Option<f64>,
    pub targets: &'static [Target],
}

impl Row {
    /// Sets the targets.
    pub fn targeting(self, targets: &'static [Target]) -> Self {
        Self { targets, ..self }
    }

    fn of(&self, implementation: Implementation) -> Option<f64> {
        match implementation {
            Implementation::Peer => self.peer,
            Implementation::Limit => self.limit,
            Implementation::Ours => self.ours,
        }
    }

    /// Returns how many times better than rmcp an implementation is.
    pub fn advantage(&self, implementation: Implementation) -> Option<f64> {
        let ratio = self.of(implementation)? / self.peer?;
        Some(if self.unit.higher_is_better() { ratio } else { ratio.recip() })
    }

    fn is_met(&self, target: Target) -> Option<bool> {
        let bound = match target {
            Target::Times(factor, implementation) => factor * self.of(implementation)?,
            Target::Absolute(bound) => bound,
        };
        let ours = self.ours?;
        Some(if self.unit.higher_is_better() { ours >= bound } else { ours <= bound })
    }

    fn target(&self, target: Target) -> String {
        let sign = if self.unit.higher_is_better() { "≥" } else { "≤" };
        match target {
            Target::Times(factor, implementation) if factor < 0.5 => {
                format!("{sign} {implementation} / {:.0}", factor.recip())
            }
            Target::Times(factor, implementation) => format!("{sign} {factor} × {implementation}"),
            Target::Absolute(bound) => format!("{sign} {}", self.unit.show(bound)),
        }
    }

    fn verdict(&self) -> &'static str {
        let verdicts: Vec<_> = self.targets.iter().map(|&target| self.is_met(target)).collect();
        if verdicts.contains(&Some(false)) {
            "no"
        } else if verdicts.is_empty() || verdicts.contains(&None) {
            "–"
        } else {
            "yes"
        }
    }
}

/// Formats the table as Markdown.
pub fn write(rows: &[Row]) -> String {
    let mut out = String::from(
        "| workload | rmcp 3.11 | limit | ours | ours / rmcp | ours / limit | target | met |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |\n",
    );
    for row in rows {
        let show = |implementation| row.of(implementation).map_or_else(|| "–".to_owned(), |value| row.unit.show(value));
        let ratio = |implementation| match (row.ours, row.of(implementation)) {
            (Some(ours), Some(other)) => times(ours / other),
            _ => "–".to_owned(),
        };
        let targets: Vec<_> = row.targets.iter().map(|&target| row.target(target)).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            row.title,
            show(Implementation::Peer),
            show(Implementation::Limit),
            show(Implementation::Ours),
            ratio(Implementation::Peer),
            ratio(Implementation::Limit),
            targets.join(", "),
            row.verdict(),
        );
    }
    out
}

fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 10.0 => format!("{ratio:.1} ×"),
        ratio if ratio >= 0.1 => format!("{ratio:.2} ×"),
        ratio => format!("{ratio:.3} ×"),
    }
}

/// Formats the results of all workloads as Markdown.
pub fn write_details(samples: &workload::Samples) -> String {
    let mut out = String::from(
        "| workload | server | calls/s | CPU per call | p50 | p99 | peak memory |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for workload in workload::ALL {
        for implementation in Implementation::ALL {
            let median = |value: fn(&crate::sample::Sample) -> f64| samples.median(workload, implementation, value);
            let (Some(rate), Some(cpu)) = (median(|sample| sample.rate), median(|sample| sample.cpu)) else { continue };
            let seconds = |value: Option<f64>| Unit::Seconds.show(value.unwrap_or(f64::NAN));
            let _ = writeln!(
                out,
                "| {} | {implementation} | {rate:.0} | {} | {} | {} | {} |",
                workload.title(),
                Unit::Seconds.show(cpu),
                seconds(median(|sample| sample.p50)),
                seconds(median(|sample| sample.p99)),
                Unit::Bytes.show(median(|sample| sample.peak).unwrap_or(f64::NAN)),
            );
        }
    }
    out
}

/// Formats the results of all scenarios as Markdown.
pub fn write_scenarios(costs: &Costs) -> String {
    let mut out = String::from("| scenario | server | CPU time | memory |\n| --- | --- | ---: | ---: |\n");
    for scenario in Scenario::ALL {
        for implementation in Implementation::ALL {
            let Some(seconds) = costs.median(scenario, implementation, |cost| cost.seconds) else { continue };
            let bytes = costs.median(scenario, implementation, |cost| cost.bytes).unwrap_or(f64::NAN);
            let (seconds, bytes) = (Unit::Seconds.show(seconds), Unit::Bytes.show(bytes));
            let _ = writeln!(out, "| {scenario} | {implementation} | {seconds} | {bytes} |");
        }
    }
    out
}
