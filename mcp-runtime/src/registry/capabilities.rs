//! The capabilities of a server, which follow from the entries that it registers.

use crate::handler::entry::EntryKind;

/// A set of kinds of entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kinds(pub(crate) u8);

impl Kinds {
    pub(crate) const ALL: Self = Self((1 << EntryKind::ALL.len()) - 1);

    pub(crate) fn iter(self) -> impl Iterator<Item = EntryKind> {
        EntryKind::ALL.iter().copied().filter(move |kind| self.has(*kind))
    }

    /// Returns the kinds that satisfy a condition.
    pub(crate) fn matching(condition: impl Fn(EntryKind) -> bool) -> Self {
        let mut kinds = Self::default();
        Self::ALL.iter().filter(|kind| condition(*kind)).for_each(|kind| kinds.insert(kind));
        kinds
    }

    pub(crate) fn insert(&mut self, kind: EntryKind) {
        self.0 |= 1 << kind as u8;
    }

    /// Returns the kinds that both sets contain.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn has(self, kind: EntryKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

impl From<EntryKind> for Kinds {
    fn from(kind: EntryKind) -> Self {
        let mut kinds = Self::default();
        kinds.insert(kind);
        kinds
    }
}

/// The capabilities that the server declares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ServerCapabilities {
    pub(crate) tools: bool,
    pub(crate) resources: bool,
    pub(crate) prompts: bool,
    pub(crate) completions: bool,
    pub(crate) logging: bool,
    /// Whether calls of some tool may become tasks.
    pub(crate) tasks: bool,
    pub(crate) skills: bool,
}

impl ServerCapabilities {
    /// Returns the union of both sets.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            resources: self.resources || other.resources,
            prompts: self.prompts || other.prompts,
            completions: self.completions || other.completions,
            logging: self.logging || other.logging,
            tasks: self.tasks || other.tasks,
            skills: self.skills || other.skills,
        }
    }

    /// Returns the kinds of entries that the server has.
    pub(crate) fn kinds(self) -> Kinds {
        Kinds::matching(|kind| self.has(kind))
    }

    /// Returns whether the server has entries of a kind.
    pub(crate) fn has(self, kind: EntryKind) -> bool {
        match kind {
            EntryKind::Tool => self.tools,
            EntryKind::Resource => self.resources,
            EntryKind::Prompt => self.prompts,
        }
    }
}
