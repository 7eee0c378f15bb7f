//! The current registry of a server, and its replacement.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, Guard};

use crate::{
    error::BuildError,
    registry::{Kinds, Registry},
};

/// The current registry of a server. Readers never wait for a change.
#[derive(Debug)]
pub(super) struct CurrentRegistry {
    registry: ArcSwap<Registry>,
    /// The lock that is held while a registry is replaced, so that concurrent changes do not overwrite each other.
    changing: Mutex<()>,
}

impl CurrentRegistry {
    pub(super) fn new(registry: Registry) -> Self {
        Self { registry: ArcSwap::from_pointee(registry), changing: Mutex::default() }
    }

    pub(super) fn load(&self) -> Guard<Arc<Registry>> {
        self.registry.load()
    }

    /// Replaces the registry with the one that `change` returns. Returns the kinds of entries that changed, or `None`
    /// if `change` returns no registry.
    ///
    /// # Errors
    ///
    /// Returns the error of `change`. In that case, nothing changes.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&Registry) -> Result<Option<Registry>, BuildError>,
    ) -> Result<Option<Kinds>, BuildError> {
        let _guard = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.registry.load_full();
        let Some(after) = change(&before)? else { return Ok(None) };
        let kinds = before.changed_kinds(&after);
        self.registry.store(after.into());
        Ok(Some(kinds))
    }
}
