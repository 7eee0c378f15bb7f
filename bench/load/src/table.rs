//! The table: what was measured, side by side, and what it shall come to.

use std::fmt::Write as _;

use crate::{server::Maker, workload};

/// What a number counts.
#[derive(Debug, Clone, Copy)]
pub enum Unit {
    /// Calls in a second: the more, the better. Of everything else, less is better.
    Rate,
    Seconds,
    Bytes,
    Count,
    Ratio,
}

impl Unit {
    pub fn is_better_high(self) -> bool {
        matches!(self, Self::Rate)
    }

    fn show(self, value: f64) -> String {
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

/// What shall come out: at least (where more is better) or at most this many times what another has, or this at all.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    Times(f64, Maker),
    Absolute(f64),
}

/// A line of the table.
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
    /// Says what shall come out.
    pub fn wanting(self, targets: &'static [Target]) -> Self {
        Self { targets, ..self }
    }

    fn of(&self, maker: Maker) -> Option<f64> {
        match maker {
            Maker::Peer => self.peer,
            Maker::Limit => self.limit,
            Maker::Ours => self.ours,
        }
    }

    /// How many times better than the peer somebody is.
    pub fn advantage(&self, maker: Maker) -> Option<f64> {
        let ratio = self.of(maker)? / self.peer?;
        Some(if self.unit.is_better_high() { ratio } else { ratio.recip() })
    }

    fn is_met(&self, target: Target) -> Option<bool> {
        let bound = match target {
            Target::Times(factor, maker) => factor * self.of(maker)?,
            Target::Absolute(bound) => bound,
        };
        let ours = self.ours?;
        Some(if self.unit.is_better_high() { ours >= bound } else { ours <= bound })
    }

    fn target(&self, target: Target) -> String {
        let sign = if self.unit.is_better_high() { "≥" } else { "≤" };
        match target {
            Target::Times(factor, maker) if factor < 0.1 => format!("{sign} {maker} / {:.0}", factor.recip()),
            Target::Times(factor, maker) => format!("{sign} {factor} × {maker}"),
            Target::Absolute(bound) => format!("{sign} {}", self.unit.show(bound)),
        }
    }

    fn verdict(&self) -> &'static str {
        let verdicts: Vec<_> = self.targets.iter().map(|&target| self.is_met(target)).collect();
        match () {
            () if verdicts.contains(&Some(false)) => "no",
            () if verdicts.is_empty() || verdicts.contains(&None) => "–",
            () => "yes",
        }
    }
}

/// Writes the table as Markdown.
pub fn write(rows: &[Row]) -> String {
    let mut out = String::from(
        "| workload | rmcp 3.9 | limit | ours | ours / rmcp | ours / limit | wanted | met |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |\n",
    );
    for row in rows {
        let show = |maker| row.of(maker).map_or_else(|| "–".to_owned(), |value| row.unit.show(value));
        let ratio = |maker| match (row.ours, row.of(maker)) {
            (Some(ours), Some(other)) => times(ours / other),
            _ => "–".to_owned(),
        };
        let wanted: Vec<_> = row.targets.iter().map(|&target| row.target(target)).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            row.title,
            show(Maker::Peer),
            show(Maker::Limit),
            show(Maker::Ours),
            ratio(Maker::Peer),
            ratio(Maker::Limit),
            wanted.join(", "),
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

/// Writes everything that the loads tell.
pub fn write_details(samples: &workload::Samples) -> String {
    let mut out = String::from(
        "| workload | server | calls/s | CPU a call | p50 | p99 |\n| --- | --- | ---: | ---: | ---: | ---: |\n",
    );
    for workload in workload::ALL {
        for maker in Maker::ALL {
            let median = |value: fn(&crate::sample::Sample) -> f64| samples.median(workload, maker, value);
            let (Some(rate), Some(cpu)) = (median(|sample| sample.rate), median(|sample| sample.cpu)) else { continue };
            let seconds = |value: Option<f64>| Unit::Seconds.show(value.unwrap_or(f64::NAN));
            let _ = writeln!(
                out,
                "| {} | {maker} | {rate:.0} | {} | {} | {} |",
                workload.title(),
                Unit::Seconds.show(cpu),
                seconds(median(|sample| sample.p50)),
                seconds(median(|sample| sample.p99)),
            );
        }
    }
    out
}
