//! Protocol revisions.

use rmcp::model::ProtocolVersion;

/// A protocol revision, identified by its date.
///
/// This is not an enum because `check` also connects in revisions that only the server knows: see [`Revision::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Revision([u8; 10]);

impl Revision {
    /// Returns the revisions that the client library knows, oldest first.
    pub(crate) fn known() -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        ProtocolVersion::KNOWN_VERSIONS.iter().map(|version| {
            Self::parse(version.as_str()).expect("the client library identifies revisions by their dates")
        })
    }

    /// Parses the name of a revision, which a server may announce in `supportedVersions`. Returns `None` if the name is
    /// not a date.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let date: [u8; 10] = name.as_bytes().try_into().ok()?;
        let is_date = date.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
        is_date.then_some(Self(date))
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a date is ASCII")
    }

    /// Returns `true` if the revision has no handshake: requests carry their version in `_meta`.
    pub(crate) fn is_stateless(self) -> bool {
        !ProtocolVersion::from(self).has_initialize()
    }

    /// Returns the parser for the value of `--revision`.
    pub(crate) fn parser() -> impl clap::builder::TypedValueParser<Value = Self> {
        use clap::builder::{PossibleValuesParser, TypedValueParser as _};

        PossibleValuesParser::new(ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str))
            .try_map(|name| Self::parse(&name).ok_or("unknown revision"))
    }
}

impl From<Revision> for ProtocolVersion {
    fn from(revision: Revision) -> Self {
        // The type has no constructor, but deserializes from any string.
        serde_json::from_value(revision.as_str().into()).expect("a protocol version is a string")
    }
}

#[cfg(test)]
mod tests {
    use super::Revision;

    #[test]
    fn revisions_are_dates() {
        for (name, expected) in [
            ("2026-07-28", true),
            ("2031-01-02", true),
            ("2031-01-022", false),
            ("2031/01/02", false),
            ("DRAFT-2031", false),
            ("2031-01-٣", false),
            ("", false),
        ] {
            assert_eq!(Revision::parse(name).as_ref().map(Revision::as_str), expected.then_some(name));
        }
        let stateless: Vec<_> = Revision::known().filter(|revision| revision.is_stateless()).collect();
        assert_eq!(stateless, Revision::parse("2026-07-28").into_iter().collect::<Vec<_>>());
        assert!(Revision::parse("2031-01-02").unwrap().is_stateless());
    }

    /// The names come from servers, so they must not outlive the revision.
    #[test]
    fn a_revision_contains_its_name() {
        let revision = Revision::parse("2031-01-02").unwrap();
        let [value, name] = [(&raw const revision).cast::<u8>(), revision.as_str().as_ptr()];
        assert_eq!(value, name);
    }
}
