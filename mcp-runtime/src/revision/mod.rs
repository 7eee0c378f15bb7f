//! The protocol revisions, and what differs between them.
//!
//! A revision is a static value behind one trait, [`Dialect`]: what it has, and how it spells. This is the only place
//! that compares revisions; everywhere else asks `has(Feature::…)`. To add a revision is one file here, one line in
//! [`ALL`] and in [`Revision`], and one folder of golden files.

mod dialect;
pub(crate) mod encode;
mod v2024_11_05;
mod v2025_03_26;
mod v2025_06_18;
mod v2025_11_25;
mod v2026_07_28;

use std::fmt;

pub(crate) use dialect::{Dialect, Feature, Features};

/// A revision of the Model Context Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Revision {
    /// [2024-11-05](https://modelcontextprotocol.io/specification/2024-11-05): the first one.
    V2024_11_05,
    /// [2025-03-26](https://modelcontextprotocol.io/specification/2025-03-26): batching, tool annotations, audio.
    V2025_03_26,
    /// [2025-06-18](https://modelcontextprotocol.io/specification/2025-06-18): structured results, resource links, titles.
    V2025_06_18,
    /// [2025-11-25](https://modelcontextprotocol.io/specification/2025-11-25): icons, bad arguments as tool results.
    V2025_11_25,
    /// [2026-07-28](https://modelcontextprotocol.io/specification/2026-07-28): stateless, without a handshake.
    V2026_07_28,
}

impl Revision {
    /// Every revision that the crate speaks, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The date that names the revision on the wire.
    pub fn as_str(self) -> &'static str {
        dialect_of(self).name()
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The dialects, newest first.
pub(crate) static ALL: [&'static dyn Dialect; 5] = [
    &v2026_07_28::V2026_07_28,
    &v2025_11_25::V2025_11_25,
    &v2025_06_18::V2025_06_18,
    &v2025_03_26::V2025_03_26,
    &v2024_11_05::V2024_11_05,
];

pub(crate) fn dialect_of(revision: Revision) -> &'static dyn Dialect {
    let newest_first = Revision::ALL.len() - 1 - revision as usize;
    ALL[newest_first]
}

/// Finds the dialect that a client names in `initialize`.
pub(crate) fn handshake(name: &str) -> Option<&'static dyn Dialect> {
    ALL.into_iter().find(|dialect| dialect.has(Feature::Handshake) && dialect.name() == name)
}

/// The dialect that `initialize` offers to a client whose own version is unknown.
pub(crate) fn newest_handshake() -> &'static dyn Dialect {
    ALL.into_iter().find(|dialect| dialect.has(Feature::Handshake)).unwrap_or(ALL[0])
}

/// Finds the dialect that a request names in its `_meta`.
pub(crate) fn stateless(name: &str) -> Option<&'static dyn Dialect> {
    ALL.into_iter().find(|dialect| dialect.has(Feature::RequestMeta) && dialect.name() == name)
}

/// The dialect for whoever has not yet said which one it speaks.
pub(crate) fn newest() -> &'static dyn Dialect {
    ALL[0]
}
