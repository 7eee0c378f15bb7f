//! The names under which functions are registered: those of their annotations, or what the author renames them to.

use std::{
    collections::BTreeSet,
    fmt,
    panic::Location,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::handler::entry::{Entry, EntryInfo, EntryKind};

/// The rules that rename functions, in the order in which they apply.
#[derive(Clone, Default)]
pub(crate) struct Names(Vec<Arc<Rule>>);

struct Rule {
    applies: Box<dyn Fn(&EntryInfo<'_>) -> bool + Send + Sync>,
    change: Change,
    /// Where the author added the rule.
    location: &'static Location<'static>,
    is_used: AtomicBool,
}

/// The effect of a rule on a name.
pub(crate) enum Change {
    /// Replaces it.
    Rename(String),
    /// Puts a text in front of it.
    Prefix(String),
}

impl Names {
    pub(crate) fn push(
        &mut self,
        applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static,
        change: Change,
        location: &'static Location<'static>,
    ) {
        let rule = Rule { applies: Box::new(applies), change, location, is_used: AtomicBool::new(false) };
        self.0.push(Arc::new(rule));
    }

    /// Returns the name of a function.
    ///
    /// # Errors
    ///
    /// Returns a message if a rule produces an invalid name.
    pub(super) fn name_of(&self, entry: &Entry) -> Result<&'static str, String> {
        let mut info = entry.info();
        for rule in &self.0 {
            if !(rule.applies)(&info) {
                continue;
            }
            rule.is_used.store(true, Ordering::Relaxed);
            let name = match &rule.change {
                Change::Rename(name) => name.clone(),
                Change::Prefix(prefix) => format!("{prefix}{}", info.name),
            };
            check(info.kind, &name).map_err(|expected| {
                format!("`{}` cannot be renamed to `{name}` ({}): {expected}", info.function, rule.location)
            })?;
            info.name = interned(name);
        }
        Ok(info.name)
    }

    /// Returns where the author added rules that have applied to no function yet.
    pub(crate) fn unused(&self) -> impl Iterator<Item = &'static Location<'static>> {
        self.0.iter().filter(|rule| !rule.is_used.load(Ordering::Relaxed)).map(|rule| rule.location)
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|rule| rule.location)).finish()
    }
}

/// Checks a name as the macros check the names in annotations.
fn check(kind: EntryKind, name: &str) -> Result<(), &'static str> {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    match (kind, name.len()) {
        (_, 0) => Err("expected at least 1 character"),
        (EntryKind::Tool, _) if !is_plain => Err("expected only ASCII letters, digits, `_`, `.` and `-`"),
        (EntryKind::Tool, 129..) => Err("expected at most 128 characters"),
        _ => Ok(()),
    }
}

/// Returns a name that lives as long as the names in annotations, so that calls, layers and log events can refer to
/// either. Equal names are stored once, and only the author's rules create names, so a program that builds the same
/// server many times stores no more of them.
fn interned(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = name.leak();
    names.insert(name);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_stored_once() {
        let [first, second] = [interned("git_log".to_owned()), interned("git_log".to_owned())];
        assert!(std::ptr::eq(first, second));
    }

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
