//! The roots of a session's client, cached for as long as the client announces changes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::handler::ask::{Capability, Question, announces_root_changes};

/// The maximum size in bytes of an answer that is cached. A session caches at most one answer.
const MAX_CACHED_BYTES: usize = 16 << 10;

/// The client's answer to `roots/list`, until the client announces that its roots have changed.
///
/// See [Roots](https://modelcontextprotocol.io/specification/2025-11-25/client/roots#root-list-changes).
#[derive(Debug)]
pub(crate) struct RootsCache {
    /// Whether the client announces changes. Otherwise, nothing is cached.
    is_enabled: bool,
    state: Mutex<State>,
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
        Self { is_enabled: announces_root_changes(capabilities), state: Mutex::default() }
    }

    /// Returns the cached answer to a question. Returns `None` if nothing is cached, or if the question is not about
    /// roots.
    pub(crate) fn answer(&self, question: &Question) -> Option<String> {
        let is_cached = self.is_enabled && question.capabilities == [Capability::Roots];
        is_cached.then(|| self.state().answer.as_deref().map(str::to_owned))?
    }

    /// Returns the version of the roots, to be read before the client is asked.
    pub(crate) fn version(&self) -> RootsVersion {
        self.state().version
    }

    /// Caches the answer to a question about roots, unless they have changed since `version` or the answer is too long.
    pub(crate) fn store(&self, question: &Question, version: RootsVersion, answer: &str) {
        if !self.is_enabled || question.capabilities != [Capability::Roots] || answer.len() > MAX_CACHED_BYTES {
            return;
        }
        let mut state = self.state();
        if state.version == version {
            state.answer = Some(answer.into());
        }
    }

    /// Discards the answer, because the client has announced a change.
    pub(crate) fn invalidate(&self) {
        let mut state = self.state();
        state.version.0 += 1;
        state.answer = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
