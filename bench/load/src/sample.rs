//! Samples of a workload.

use std::time::{Duration, Instant};

use crate::{error::Result, server::Process};

/// The number of small calls that a server answers before it is measured, so that its idle memory includes what every
/// call needs.
pub const WARM_UP: usize = 20;

/// The durations of the phases of a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Durations {
    pub warm_up: Duration,
    pub measured: Duration,
}

/// The result of one measurement. Times are in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// The number of calls.
    pub calls: usize,
    /// Calls per second.
    pub rate: f64,
    /// CPU time of the servers per call.
    pub cpu: f64,
    pub p50: f64,
    pub p99: f64,
    /// The growth of the servers' resident memory at its peak, in bytes.
    pub peak: f64,
}

/// Measures the latencies of responses and the CPU time of servers over a period.
pub struct Meter<'a> {
    processes: Vec<&'a Process>,
    begin: Instant,
    begin_cpu: Option<Duration>,
    end: Instant,
    latencies: Vec<Duration>,
    resident: u64,
}

impl<'a> Meter<'a> {
    /// Creates a meter. The servers are idle, but have answered calls.
    pub fn new(processes: Vec<&'a Process>, durations: Durations) -> Result<Self> {
        let mut resident = 0;
        for process in &processes {
            process.reset_peak()?;
            resident += process.resident()?;
        }
        let begin = Instant::now() + durations.warm_up;
        Ok(Self {
            processes,
            begin,
            begin_cpu: None,
            end: begin + durations.measured,
            latencies: Vec::with_capacity(1 << 16),
            resident,
        })
    }

    /// Records a response.
    pub fn record(&mut self, sent: Instant, now: Instant) {
        if self.begin_cpu.is_some() {
            self.latencies.push(now - sent);
        }
    }

    /// Returns whether the measurement is over.
    pub fn is_over(&mut self, now: Instant) -> Result<bool> {
        if self.begin_cpu.is_none() && now >= self.begin {
            self.begin_cpu = Some(cpu(&self.processes)?);
            self.end += now - self.begin;
            self.begin = now;
        }
        Ok(now >= self.end && !self.latencies.is_empty())
    }

    pub fn sample(mut self, now: Instant) -> Result<Sample> {
        let cpu = cpu(&self.processes)? - self.begin_cpu.unwrap_or_default();
        let peak = self.processes.iter().map(|process| process.peak()).sum::<Result<u64>>()?;
        self.latencies.sort_unstable();
        let calls = self.latencies.len();
        let at = |share: f64| self.latencies[((calls - 1) as f64 * share) as usize].as_secs_f64();
        Ok(Sample {
            calls,
            rate: calls as f64 / (now - self.begin).as_secs_f64(),
            cpu: cpu.as_secs_f64() / calls as f64,
            p50: at(0.5),
            p99: at(0.99),
            peak: peak.saturating_sub(self.resident) as f64,
        })
    }
}

/// Returns the CPU time of several processes.
fn cpu(processes: &[&Process]) -> Result<Duration> {
    processes.iter().map(|process| process.cpu()).sum()
}

/// Returns the median, or `NaN` if there are no values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[length / 2],
        length => f64::midpoint(values[length / 2 - 1], values[length / 2]),
    }
}
