//! Receivers of violations.

use std::ops::ControlFlow;

use super::violation::Violation;

/// The maximum number of violations that are reported individually.
const LIMIT: usize = 32;

/// Whether to continue.
pub(super) type Flow = ControlFlow<()>;

/// A receiver of violations.
pub(super) trait Report {
    /// Receives a violation and returns whether to look for more. Calls `violation` only if it needs the message.
    fn fail(&mut self, violation: impl FnOnce() -> Violation) -> Flow;

    /// Returns whether the next violation is reported individually.
    fn needs_message(&self) -> bool;
}

/// A receiver that stops at the first violation and ignores its message.
#[derive(Debug)]
pub(super) struct StopAtFirst;

impl Report for StopAtFirst {
    fn fail(&mut self, _: impl FnOnce() -> Violation) -> Flow {
        Flow::Break(())
    }

    fn needs_message(&self) -> bool {
        false
    }
}

/// A receiver that collects violations up to [`LIMIT`] and counts the rest.
#[derive(Debug, Default)]
pub(super) struct Collector {
    violations: Vec<Violation>,
    uncollected: usize,
}

impl Collector {
    pub(super) fn push(&mut self, violation: Violation) {
        let _ = self.fail(|| violation);
    }

    /// Returns the number of all violations.
    pub(super) fn count(&self) -> usize {
        self.violations.len() + self.uncollected
    }

    /// Passes the violations to another receiver.
    pub(super) fn forward(self, report: &mut impl Report) -> Flow {
        for violation in self.violations {
            report.fail(|| violation)?;
        }
        // The other receiver has at least `LIMIT` violations by now and only counts these.
        (0..self.uncollected).try_for_each(|_| report.fail(|| Violation::new("", None, "")))
    }

    pub(super) fn finish(mut self) -> Vec<Violation> {
        if self.uncollected > 0 {
            self.violations.push(Violation::new("", None, &format!("and {} more", self.uncollected)));
        }
        self.violations
    }
}

impl Report for Collector {
    fn fail(&mut self, violation: impl FnOnce() -> Violation) -> Flow {
        if self.needs_message() {
            self.violations.push(violation());
        } else {
            self.uncollected += 1;
        }
        Flow::Continue(())
    }

    fn needs_message(&self) -> bool {
        self.violations.len() < LIMIT
    }
}
