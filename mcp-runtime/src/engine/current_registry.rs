//! The registry that the server offers now, and its replacement.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};

use super::{Engine, results};
use crate::{error::BuildError, registry::Registry, revision::Dialect};

/// The registry that the server offers now. Readers never wait for a change.
#[derive(Debug)]
pub(super) struct CurrentRegistry {
    registry: ArcSwap<Registry>,
    /// Held while a change is prepared, so that no change is lost.
    changing: Mutex<()>,
}

impl CurrentRegistry {
    pub(super) fn new(registry: Registry) -> Self {
        Self { registry: ArcSwap::from_pointee(registry), changing: Mutex::default() }
    }

    pub(super) fn load(&self) -> Guard<Arc<Registry>> {
        self.registry.load()
    }
}

impl Engine {
    /// Replaces the registry by the one that `change` returns, if any, and notifies the clients. Returns `true` if it
    /// changed.
    ///
    /// # Errors
    ///
    /// Returns the error of `change`, which changes nothing.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&Registry) -> Result<Option<Registry>, BuildError>,
    ) -> Result<bool, BuildError> {
        let _guard = self.current.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current.registry.load_full();
        let Some(after) = change(&before)? else { return Ok(false) };
        let kinds = before.differs(&after);
        self.current.registry.store(after.into());
        self.subscriptions.lists_changed(kinds);
        Ok(true)
    }

    /// Returns the result of `initialize` or `server/discover`, written when it is first needed.
    pub(super) fn introduction<'r>(&self, registry: &'r Registry, dialect: &'static Dialect) -> &'r [u8] {
        registry.introduction(dialect, || results::introduction(self, registry, dialect))
    }

    /// Declares from now on that the lists may change.
    pub(crate) fn announce_changes(&self) {
        if self.announces_changes.swap(true, std::sync::atomic::Ordering::AcqRel) {
            return;
        }
        let _guard = self.current.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let unprepared = self.current.registry.load().unprepared();
        self.current.registry.store(unprepared.into());
    }
}
