//! Who hears of violations: someone who wants to know whether there is any, or all about them.

use std::ops::ControlFlow;

use super::violation::Violation;

/// How many violations are told one by one.
const TOLD: usize = 32;

/// Whether to go on.
pub(super) type Flow = ControlFlow<()>;

/// Hears of violations.
pub(super) trait Report {
    /// Takes a violation, and says whether to look for more. Whoever does not want to know makes no sentence of it.
    fn fail(&mut self, violation: impl FnOnce() -> Violation) -> Flow;

    /// Tells whether a violation is wanted in words.
    fn wants_words(&self) -> bool;
}

/// Only wants to know whether there is any.
#[derive(Debug)]
pub(super) struct Silent;

impl Report for Silent {
    fn fail(&mut self, _: impl FnOnce() -> Violation) -> Flow {
        Flow::Break(())
    }

    fn wants_words(&self) -> bool {
        false
    }
}

/// Collects them.
#[derive(Debug, Default)]
pub(super) struct Collected {
    told: Vec<Violation>,
    more: usize,
}

impl Collected {
    pub(super) fn push(&mut self, violation: Violation) {
        let _ = self.fail(|| violation);
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.told.len() + self.more
    }

    /// Reports them all to someone else.
    pub(super) fn pass_on(self, report: &mut impl Report) -> Flow {
        for violation in self.told {
            report.fail(|| violation)?;
        }
        // Whoever hears of these has heard of too many already, and only counts.
        (0..self.more).try_for_each(|_| report.fail(|| Violation::new("", None, "there is more")))
    }

    pub(super) fn finish(mut self) -> Vec<Violation> {
        if self.more > 0 {
            self.told.push(Violation::new("", None, &format!("and {} more", self.more)));
        }
        self.told
    }
}

impl Report for Collected {
    fn fail(&mut self, violation: impl FnOnce() -> Violation) -> Flow {
        if self.told.len() < TOLD {
            self.told.push(violation());
        } else {
            self.more += 1;
        }
        Flow::Continue(())
    }

    fn wants_words(&self) -> bool {
        self.told.len() < TOLD
    }
}
