use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tracks the executions of a function: at most one runs at a time, and at most one more is due.
#[derive(Debug, Default)]
pub(crate) struct CoalescedRuns(Mutex<Phase>);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    Running,
    /// Running, and due again since it started.
    RunningAndDue,
}

impl CoalescedRuns {
    /// Records that the function is due. Returns whether it has to be started.
    pub(super) fn start(&self) -> bool {
        let mut phase = self.phase();
        let is_idle = *phase == Phase::Idle;
        *phase = if is_idle { Phase::Running } else { Phase::RunningAndDue };
        is_idle
    }

    /// Records the end of an execution. Returns whether the function has to run again.
    pub(super) fn finish(&self) -> bool {
        let mut phase = self.phase();
        let is_due = *phase == Phase::RunningAndDue;
        *phase = if is_due { Phase::Running } else { Phase::Idle };
        is_due
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
