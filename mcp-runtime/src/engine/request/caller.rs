//! The entries that the sender of a request sees.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    handler::{Caller, entry::EntryInfo},
    registry::Function,
};

/// The author's rule that decides which entries a caller sees.
#[derive(Clone)]
pub(crate) struct Visibility(Arc<Decide>);

type Decide = dyn Fn(&Caller, &EntryInfo<'_>) -> bool + Send + Sync;

impl Visibility {
    pub(crate) fn new(sees: impl Fn(&Caller, &EntryInfo<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(sees))
    }

    /// Returns the entries that a caller sees.
    pub(crate) fn for_caller(&self, caller: Caller) -> VisibleTo {
        VisibleTo(Some(Arc::new((self.clone(), caller))))
    }
}

impl fmt::Debug for Visibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Visibility")
    }
}

/// The entries that a caller sees: all of them, unless the server has a [`Visibility`].
#[derive(Debug, Clone, Default)]
pub(crate) struct VisibleTo(Option<Arc<(Visibility, Caller)>>);

impl VisibleTo {
    /// Returns whether some entries may be hidden.
    pub(crate) fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether the caller sees a function. If the rule panics, the function is hidden.
    pub(crate) fn sees(&self, function: &Function) -> bool {
        self.sees_entry(&function.info())
    }

    /// Returns whether the caller sees an entry, which may also be a skill.
    pub(crate) fn sees_entry(&self, info: &EntryInfo<'_>) -> bool {
        let Some((visibility, caller)) = self.0.as_deref() else { return true };
        catch_unwind(AssertUnwindSafe(|| visibility.0(caller, info))).unwrap_or_else(|_| {
            tracing::error!(name = info.name, "the function passed to `visible_to` panicked, so the entry is hidden");
            false
        })
    }
}
