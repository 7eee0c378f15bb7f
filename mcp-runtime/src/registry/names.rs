//! The author's rules for the names and the scopes of functions, and the tables of functions by name.

use std::{
    borrow::Cow,
    collections::HashMap,
    panic::Location,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    auth::Scopes,
    handler::{
        Function,
        entry::{CommonEntry, Entry, EntryInfo, EntryKind, is_extension_method},
    },
    stdx::debug,
};

/// Rules of the author, in the order in which they apply. Each concerns the functions that it selects.
#[derive(Clone)]
pub(crate) struct Rules<T>(Vec<Rule<T>>);

/// The rules that rename functions.
pub(crate) type Names = Rules<Change>;

/// The rules that add scopes to functions.
pub(crate) type ScopeRules = Rules<Scopes>;

#[derive(Clone)]
struct Rule<T> {
    applies: Arc<Selects>,
    effect: T,
    /// Where the author added the rule.
    location: &'static Location<'static>,
    is_used: Arc<AtomicBool>,
}

/// A predicate of a rule.
pub(crate) type Selects = dyn Fn(&EntryInfo<'_>) -> bool + Send + Sync;

/// The effect of a rule on a name.
#[derive(Clone)]
pub(crate) enum Change {
    /// Replaces it.
    Rename(String),
    /// Puts a text in front of it.
    Prefix(String),
}

impl<T> Rules<T> {
    pub(crate) fn push(
        &mut self,
        applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static,
        effect: T,
        location: &'static Location<'static>,
    ) {
        self.0.push(Rule { applies: Arc::new(applies), effect, location, is_used: Arc::default() });
    }

    /// Adds rules, which apply after the rules so far.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the same rules for the functions that `limit` leaves to each.
    pub(crate) fn limited(self, limit: impl Fn(Arc<Selects>) -> Arc<Selects>) -> Self {
        let limited = |rule: Rule<T>| Rule { applies: limit(rule.applies), is_used: Arc::default(), ..rule };
        Self(self.0.into_iter().map(limited).collect())
    }
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

debug!(Rules<T>, self, rules: self.0.len());

impl Names {
    /// Returns the name of a function.
    ///
    /// # Errors
    ///
    /// Returns a message if a rule produces an invalid name.
    pub(super) fn name_of(&self, entry: &Entry) -> Result<Cow<'static, str>, String> {
        let (common, kind) = (entry.common(), entry.kind());
        let mut name = common.name.clone();
        if common.source.function.is_empty() {
            // No macro has checked it.
            check(kind, &name).map_err(|expected| format!("{} has an invalid name: {expected}", common.describe()))?;
        }
        // The name of a method is its extension's.
        for rule in self.0.iter().filter(|_| kind != EntryKind::Method) {
            let info = common.info(kind, &name);
            if !(rule.applies)(&info) {
                continue;
            }
            rule.is_used.store(true, Ordering::Relaxed);
            let changed = match &rule.effect {
                Change::Rename(name) => name.clone(),
                Change::Prefix(prefix) => format!("{prefix}{name}"),
            };
            check(kind, &changed).map_err(|expected| {
                let function = if info.function.is_empty() { info.name } else { info.function };
                format!("`{function}` cannot be renamed to `{changed}` ({}): {expected}", rule.location)
            })?;
            name = Cow::Owned(changed);
        }
        Ok(name)
    }

    /// Returns where the author added rules that have applied to no function yet.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &'static Location<'static>> {
        self.0.iter().filter(|rule| !rule.is_used.load(Ordering::Relaxed)).map(|rule| rule.location)
    }
}

/// Checks a name as the macros check the names in annotations.
fn check(kind: EntryKind, name: &str) -> Result<(), &'static str> {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    match (kind, name.len()) {
        (_, 0) => Err("expected at least 1 character"),
        (EntryKind::Tool, _) if !is_plain => Err("expected only ASCII letters, digits, `_`, `.` and `-`"),
        (EntryKind::Tool, 129..) => Err("expected at most 128 characters"),
        (EntryKind::Method, _) if !is_extension_method(name) => {
            Err("expected a domain, a slash and a name, as in `com.example/search`")
        }
        _ => Ok(()),
    }
}

impl ScopeRules {
    /// Returns the scopes that a function requires, or `None` if it requires none.
    pub(super) fn of(&self, common: &CommonEntry, info: &EntryInfo<'_>) -> Option<Scopes> {
        let rules = self.0.iter().filter(|rule| (rule.applies)(info));
        let scopes = rules.fold(common.scopes.get(), |all, rule| all.and(rule.effect.clone()));
        (!scopes.is_empty()).then_some(scopes)
    }

    /// Returns the problems with the rules themselves.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        self.0.iter().filter_map(|Rule { effect: scopes, location, .. }| {
            Some(format!(
                "`Server::require_scopes_for` ({}:{}): {}",
                location.file(),
                location.line(),
                scopes.problem()?
            ))
        })
    }
}

/// Every registered function of one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    /// The functions in the order of their registration, and whether each is enabled.
    rows: Vec<(Arc<Function>, bool)>,
    /// The row of each key. The keys come from the author, so the hash needs no protection against collision attacks.
    index: HashMap<Cow<'static, str>, usize, foldhash::fast::RandomState>,
    /// The enabled functions, sorted by key for the first list.
    enabled: OnceLock<Vec<Arc<Function>>>,
}

impl Table {
    fn new(rows: Vec<(Arc<Function>, bool)>) -> Self {
        let index = rows.iter().enumerate().map(|(row, (function, _))| (function.key().clone(), row)).collect();
        Self { rows, index, enabled: OnceLock::new() }
    }

    /// Returns a table with additional functions, which are enabled.
    pub(super) fn with<'f>(&self, functions: impl Iterator<Item = &'f Arc<Function>>) -> Self {
        let added = functions.map(|function| (Arc::clone(function), true));
        Self::new(self.rows.iter().cloned().chain(added).collect())
    }

    /// Returns a table in which `decide` has removed, enabled or disabled each function.
    pub(super) fn edited(&self, decide: &impl Fn(&Function, bool) -> Option<bool>) -> Self {
        let decided =
            |(function, enabled): &(Arc<Function>, bool)| Some((Arc::clone(function), decide(function, *enabled)?));
        Self::new(self.rows.iter().filter_map(decided).collect())
    }

    /// Returns the enabled function with a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Function>> {
        let (function, enabled) = &self.rows[*self.index.get(key)?];
        enabled.then_some(function)
    }

    /// Returns the enabled functions, sorted by key.
    pub(crate) fn enabled(&self) -> &[Arc<Function>] {
        self.enabled.get_or_init(|| {
            let enabled = self.sorted().into_iter().filter(|(_, enabled)| *enabled);
            enabled.map(|(function, _)| Arc::clone(function)).collect()
        })
    }

    /// Returns all functions, and whether each is enabled.
    pub(super) fn all(&self) -> impl Iterator<Item = &(Arc<Function>, bool)> {
        self.rows.iter()
    }

    /// Returns all functions, sorted by key. Functions with the same key are in the order of their registration.
    pub(super) fn sorted(&self) -> Vec<&(Arc<Function>, bool)> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by(|(left, _), (right, _)| left.key().cmp(right.key()));
        rows
    }

    /// Returns whether two functions have the same key.
    pub(super) fn has_duplicates(&self) -> bool {
        self.index.len() < self.rows.len()
    }

    /// Returns whether the same functions are enabled in both tables.
    pub(super) fn enables_same(&self, other: &Self) -> bool {
        let (own, others) = (self.enabled(), other.enabled());
        own.len() == others.len() && own.iter().zip(others).all(|(left, right)| Arc::ptr_eq(left, right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_in_annotations() {
        let long = "x".repeat(129);
        for (kind, name, is_valid) in [
            (EntryKind::Tool, "git_log-2.0", true),
            (EntryKind::Tool, &long[1..], true),
            (EntryKind::Tool, &long, false),
            (EntryKind::Tool, "git/log", false),
            (EntryKind::Tool, "", false),
            (EntryKind::Prompt, "git/log", true),
            (EntryKind::Prompt, &long, true),
            (EntryKind::Prompt, "", false),
            (EntryKind::Resource, "a file", true),
        ] {
            assert_eq!(check(kind, name).is_ok(), is_valid, "{name}");
        }
    }
}
