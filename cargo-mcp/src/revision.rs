//! Protocol revisions.

use rmcp::model::ProtocolVersion;

/// A protocol revision, identified by its date.
///
/// This is not an enum because `check` also connects in revisions that only the server knows: see [`Revision::announced`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Revision(&'static str);

impl Revision {
    /// Returns the revisions that the client library knows, oldest first.
    pub(crate) fn known() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        ProtocolVersion::KNOWN_VERSIONS.iter().map(|version| Self(version.as_str()))
    }

    /// Returns a revision that a server announces in `supportedVersions`, or `None` if the name is not a date.
    pub(crate) fn announced(name: &str) -> Option<Self> {
        if let Some(known) = Self::known().find(|known| known.0 == name) {
            return Some(known);
        }
        let is_date = name.len() == 10
            && name.bytes().enumerate().all(|(index, byte)| match index {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        is_date.then(|| Self(name.to_owned().leak()))
    }

    pub(crate) fn as_str(self) -> &'static str {
        self.0
    }

    /// Returns `true` if the revision has no handshake: requests carry their version in `_meta`.
    pub(crate) fn is_stateless(self) -> bool {
        !ProtocolVersion::from(self).has_initialize()
    }

    /// Returns the parser for the value of `--revision`.
    pub(crate) fn parser() -> impl clap::builder::TypedValueParser<Value = Self> {
        use clap::builder::{PossibleValuesParser, TypedValueParser as _};

        let names = Self::known().map(Self::as_str).collect::<Vec<_>>();
        PossibleValuesParser::new(names)
            .try_map(|name| Self::known().find(|known| known.0 == name).ok_or("unknown revision"))
    }
}

impl From<Revision> for ProtocolVersion {
    fn from(revision: Revision) -> Self {
        let known = Self::KNOWN_VERSIONS.iter().find(|version| version.as_str() == revision.0);
        // The type has no constructor, but deserializes from any string.
        known.cloned().or_else(|| serde_json::from_value(revision.0.into()).ok()).unwrap_or(Self::LATEST)
    }
}

#[cfg(test)]
mod tests {
    use super::Revision;

    #[test]
    fn announced_revisions_are_dates() {
        for (name, expected) in [("2026-07-28", true), ("2031-01-02", true), ("DRAFT-2031", false), ("", false)] {
            assert_eq!(Revision::announced(name).map(Revision::as_str), expected.then_some(name));
        }
        let stateless: Vec<_> = Revision::known().filter(|revision| revision.is_stateless()).collect();
        assert_eq!(stateless, Revision::announced("2026-07-28").into_iter().collect::<Vec<_>>());
        assert!(Revision::announced("2031-01-02").unwrap().is_stateless());
    }
}
