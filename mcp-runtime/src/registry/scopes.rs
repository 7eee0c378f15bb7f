//! The scopes that functions require: those of their annotations, and those that the author's rules add.

use std::{fmt, panic::Location, sync::Arc};

use crate::{
    auth::Scopes,
    handler::entry::{CommonEntry, EntryInfo},
};

/// The author's rules that add scopes to functions. Clones share the rules.
#[derive(Clone, Default)]
pub(crate) struct ScopeRules(Vec<ScopeRule>);

#[derive(Clone)]
struct ScopeRule {
    applies: Arc<dyn Fn(&EntryInfo<'_>) -> bool + Send + Sync>,
    scopes: Scopes,
    location: &'static Location<'static>,
}

impl ScopeRules {
    /// Adds a rule.
    pub(crate) fn push(
        &mut self,
        applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static,
        scopes: Scopes,
        location: &'static Location<'static>,
    ) {
        self.0.push(ScopeRule { applies: Arc::new(applies), scopes, location });
    }

    /// Returns the scopes that a function requires, or `None` if it requires none.
    pub(super) fn of(&self, common: &'static CommonEntry, info: &EntryInfo<'_>) -> Option<Arc<Scopes>> {
        let rules = self.0.iter().filter(|rule| (rule.applies)(info));
        let scopes = rules.fold(Scopes::of_entry(common.scopes), |all, rule| all.and(rule.scopes.clone()));
        (!scopes.is_empty()).then(|| Arc::new(scopes))
    }

    /// Returns the problems with the rules themselves.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|ScopeRule { scopes, location, .. }| {
            Some(format!("`Server::scopes_for` ({}:{}): {}", location.file(), location.line(), scopes.problem()?))
        })
    }
}

impl fmt::Debug for ScopeRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|rule| &rule.scopes)).finish()
    }
}
