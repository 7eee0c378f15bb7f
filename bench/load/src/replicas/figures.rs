//! The measurements, as tables.

use std::{cmp::Reverse, fmt, time::Duration};

use crate::{
    error::Result,
    replicas::deployment::{Deployment, Work},
    sample::median,
    table::Unit,
};

/// The measured values, in the order in which they were first added.
#[derive(Default)]
pub struct Figures(Vec<Figure>);

pub struct Figure {
    part: &'static str,
    subject: String,
    title: String,
    unit: Unit,
    /// The values of all rounds, of which each adds at least one.
    values: Vec<f64>,
    /// The composition of the last value.
    detail: String,
    target: Option<Target>,
}

#[derive(Debug, Clone, Copy)]
enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// Adds the figures of one subject.
pub struct Subject<'a> {
    figures: &'a mut Figures,
    part: &'static str,
    subject: String,
}

impl Figures {
    pub fn of(&mut self, part: &'static str, subject: impl fmt::Display) -> Subject<'_> {
        Subject { figures: self, part, subject: subject.to_string() }
    }
}

impl Subject<'_> {
    pub fn add(&mut self, title: &str, unit: Unit, value: f64) -> &mut Figure {
        let figure = self.figure(title, unit);
        figure.values.push(value);
        figure
    }

    /// Adds the CPU time and the Redis commands of a number of operations.
    pub fn add_work(&mut self, work: &Work, operation: &str, count: usize) {
        self.add_times(work, operation, count);
        if !work.redis.is_zero() {
            self.add_commands(work, operation, count as f64);
        }
    }

    /// Adds the CPU time of a number of operations.
    pub fn add_times(&mut self, work: &Work, operation: &str, count: usize) {
        let each = |time: Duration| time.as_secs_f64() / count as f64;
        self.add(&format!("CPU time of replicas per {operation}"), Unit::Seconds, each(work.replicas));
        if !work.redis.is_zero() {
            self.add(&format!("CPU time of Redis per {operation}"), Unit::Seconds, each(work.redis));
        }
    }

    /// Adds the Redis commands of a number of operations, with those that were run most often.
    pub fn add_commands(&mut self, work: &Work, operation: &str, count: f64) -> &mut Figure {
        let per_operation = |calls: u64| calls as f64 / count;
        let mut most: Vec<_> = work.commands.iter().collect();
        most.sort_by_key(|&(_, calls)| Reverse(calls));
        let most = most.iter().take(6).map(|&(name, &calls)| format!("{name} {:.3}", per_operation(calls)));
        let figure = self.figure(&format!("Redis commands per {operation}"), Unit::Ratio);
        figure.values.push(per_operation(work.commands.values().sum()));
        figure.detail = most.collect::<Vec<_>>().join(", ");
        figure
    }

    /// Adds the peak memory of all processes.
    pub fn add_peaks(&mut self, deployment: &Deployment) -> Result<()> {
        for process in deployment.processes() {
            self.add("peak memory of a replica", Unit::Bytes, process.peak()? as f64);
        }
        if let Some(redis) = &deployment.redis {
            self.add("peak memory of Redis", Unit::Bytes, redis.process.peak()? as f64);
        }
        Ok(())
    }

    fn figure(&mut self, title: &str, unit: Unit) -> &mut Figure {
        let Self { figures: Figures(all), part, subject } = self;
        let is_same = |figure: &Figure| figure.part == *part && figure.subject == *subject && figure.title == title;
        let index = all.iter().position(is_same).unwrap_or_else(|| {
            let (subject, title) = (subject.clone(), title.to_owned());
            all.push(Figure { part, subject, title, unit, values: Vec::new(), detail: String::new(), target: None });
            all.len() - 1
        });
        &mut all[index]
    }
}

impl Figure {
    /// Sets a bound below which the median must not be.
    pub fn at_least(&mut self, bound: f64) {
        self.target = Some(Target::AtLeast(bound));
    }

    /// Sets a bound that the median must not exceed.
    pub fn at_most(&mut self, bound: f64) {
        self.target = Some(Target::AtMost(bound));
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut part = "";
        for figure in &self.0 {
            if figure.part != part {
                part = figure.part;
                write!(f, "\n## {}{}\n\n", part[..1].to_uppercase(), &part[1..])?;
                writeln!(f, "| servers | figure | median | range | target | met |")?;
                writeln!(f, "| --- | --- | ---: | ---: | --- | --- |")?;
            }
            writeln!(f, "{figure}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, title, unit, values, detail, target, .. } = self;
        let middle = median(values.clone());
        write!(f, "| {subject} | {title}")?;
        if !detail.is_empty() {
            write!(f, " ({detail})")?;
        }
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        write!(f, " | {} | {} to {} |", unit.show(middle), unit.show(least), unit.show(most))?;
        match *target {
            None => write!(f, " | |"),
            Some(Target::AtLeast(bound)) => write!(f, " ≥ {} | {} |", unit.show(bound), yes_or_no(middle >= bound)),
            Some(Target::AtMost(bound)) => write!(f, " ≤ {} | {} |", unit.show(bound), yes_or_no(middle <= bound)),
        }
    }
}

fn yes_or_no(is_met: bool) -> &'static str {
    if is_met { "yes" } else { "no" }
}
