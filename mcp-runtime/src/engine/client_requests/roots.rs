//! The cached roots of a session's client, and the executions of the author's function that runs when they change.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use crate::{
    handler::ask::{Capability, Question, announces_root_changes},
    stdx::Mutex,
};

/// The maximum size in bytes of an answer that is cached. A session caches at most one answer.
const MAX_CACHED_BYTES: usize = 16 << 10;

/// The client's answer to `roots/list`, until the client announces that its roots have changed.
///
/// See [Roots](https://modelcontextprotocol.io/specification/2025-11-25/client/roots#root-list-changes).
#[derive(Debug)]
pub(crate) struct RootsCache {
    /// `None` if the client does not announce changes. Then nothing is cached.
    state: Option<Box<Mutex<State>>>,
    /// The executions of the function that runs when the roots change.
    pub(super) hook_runs: SingleFlight,
}

#[derive(Debug, Default)]
struct State {
    version: RootsVersion,
    answer: Option<Arc<str>>,
}

/// The number of changes that the client has announced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RootsVersion(u64);

impl RootsCache {
    /// Creates the cache of a client with these capabilities, an object as JSON.
    pub(crate) fn new(capabilities: &str) -> Self {
        let state = announces_root_changes(capabilities).then(Box::default);
        Self { state, hook_runs: SingleFlight::default() }
    }

    /// Returns the cached answer to a question. Returns `None` if nothing is cached, or if the question is not about
    /// roots.
    pub(crate) fn answer(&self, question: &Question) -> Option<String> {
        let state = self.state.as_ref().filter(|_| question.capabilities == [Capability::Roots])?;
        state.lock().answer.as_deref().map(str::to_owned)
    }

    /// Returns the version of the roots, to be read before the client is asked.
    pub(crate) fn version(&self) -> RootsVersion {
        self.state.as_ref().map(|state| state.lock().version).unwrap_or_default()
    }

    /// Caches the answer to a question about roots, unless they have changed since `version` or the answer is too long.
    pub(crate) fn store(&self, question: &Question, version: RootsVersion, answer: &str) {
        let Some(state) = &self.state else { return };
        if question.capabilities != [Capability::Roots] || answer.len() > MAX_CACHED_BYTES {
            return;
        }
        let mut state = state.lock();
        if state.version == version {
            state.answer = Some(answer.into());
        }
    }

    /// Discards the answer, because the client has announced a change.
    pub(crate) fn invalidate(&self) {
        if let Some(state) = &self.state {
            let mut state = state.lock();
            state.version.0 += 1;
            state.answer = None;
        }
    }
}

/// Tracks the executions of a function: at most one runs at a time, and at most one more is due.
#[derive(Debug, Default)]
pub(crate) struct SingleFlight(
    /// The number of executions that run or are due.
    AtomicU8,
);

impl SingleFlight {
    /// Records that the function is due. Returns whether it has to be started.
    pub(super) fn start(&self) -> bool {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |runs| Some((runs + 1).min(2))) == Ok(0)
    }

    /// Records the end of an execution. Returns whether the function has to run again.
    pub(super) fn finish(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::ask::AskOptions;

    #[test]
    fn an_answer_is_cached_up_to_the_maximum_size() {
        let (key, params, options) = ("roots".to_owned(), "{}".to_owned(), AskOptions::default());
        let capabilities = &[Capability::Roots];
        let question = Question { key, method: "roots/list", params, capabilities, options, tracked: None };
        for (size, is_cached) in [(MAX_CACHED_BYTES, true), (MAX_CACHED_BYTES + 1, false)] {
            let (cache, answer) = (RootsCache::new(r#"{"roots":{"listChanged":true}}"#), "x".repeat(size));
            cache.store(&question, cache.version(), &answer);
            assert_eq!(cache.answer(&question).is_some(), is_cached, "{size}");
        }
    }

    /// Every sequence of calls and ends of a run: one run at a time, and another one if it was called meanwhile.
    #[test]
    fn at_most_one_run_is_in_flight_and_none_is_lost() {
        for sequence in 0..1_u32 << 10 {
            let (flight, mut is_running, mut is_due) = (SingleFlight::default(), false, false);
            for step in 0..10 {
                if sequence & 1 << step != 0 {
                    assert_eq!(flight.start(), !is_running, "{sequence:b} {step}");
                    (is_running, is_due) = (true, is_running);
                } else if is_running {
                    assert_eq!(flight.finish(), is_due, "{sequence:b} {step}");
                    (is_running, is_due) = (is_due, false);
                }
            }
        }
    }
}
