use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::error::Fault;

/// The requests that a call has sent to its client, and the time spent waiting for responses.
#[derive(Debug, Default)]
pub(crate) struct ClientWait(Mutex<WaitState>);

#[derive(Debug, Default)]
struct WaitState {
    asked: bool,
    /// The number of requests that the client has not answered yet.
    pending: usize,
    /// The time at which the first of the pending requests was sent.
    since: Option<Instant>,
    /// The time spent waiting before `since`.
    elapsed: Duration,
    unmet_requirement: Option<Fault>,
}

/// A guard that counts one pending request until it is dropped.
pub(crate) struct WaitGuard<'a>(&'a ClientWait);

impl ClientWait {
    /// Records a pending request.
    pub(crate) fn start(&self) -> WaitGuard<'_> {
        let mut state = self.state();
        state.asked = true;
        state.pending += 1;
        state.since.get_or_insert_with(Instant::now);
        WaitGuard(self)
    }

    /// Records a fault that tells the client what the call requires: [`Fault::MissingCapability`] or
    /// [`Fault::UrlElicitationRequired`]. Ignores every other fault.
    ///
    /// A function may convert the fault to its own error type, which keeps only the message. The record lets the engine
    /// report the requirement to the client nevertheless.
    pub(crate) fn record_unmet_requirement(&self, fault: &Fault) {
        if matches!(fault, Fault::MissingCapability { .. } | Fault::UrlElicitationRequired { .. }) {
            self.state().unmet_requirement = Some(fault.clone());
        }
    }

    pub(super) fn unmet_requirement(&self) -> Option<Fault> {
        self.state().unmet_requirement.clone()
    }

    pub(super) fn has_asked(&self) -> bool {
        self.state().asked
    }

    pub(super) fn elapsed(&self) -> Duration {
        let state = self.state();
        state.elapsed + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn state(&self) -> MutexGuard<'_, WaitState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.pending -= 1;
        if state.pending == 0 {
            let since = state.since.take();
            state.elapsed += since.map_or(Duration::ZERO, |since| since.elapsed());
        }
    }
}
