//! Changes that one process announces to the others of its service.

use std::{borrow::Cow, collections::HashSet};

use serde::{Deserialize, Serialize};

use crate::registry::Kinds;

/// The maximum number of resources in one announcement. More of them are announced as all resources.
const MAX_RESOURCES: usize = 1024;
/// The maximum number of bytes of their URIs. It takes at most six bytes to encode one of them.
const MAX_URI_BYTES: usize = 128 << 10;

/// A set of changes, which is bounded: too many different resources become all resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ChangeSet {
    /// The lists that have changed.
    pub(crate) lists: Kinds,
    pub(crate) resources: ChangedResources,
    /// The number of bytes of their URIs.
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangedResources {
    These(HashSet<String>),
    All,
}

impl Default for ChangedResources {
    fn default() -> Self {
        Self::These(HashSet::new())
    }
}

/// The message of an announcement.
#[derive(Serialize, Deserialize)]
struct Message<'a> {
    /// The process that has made the changes. `None` if it has no id.
    #[serde(borrow)]
    from: Option<Cow<'a, str>>,
    /// The lists that have changed, as bits: tools, resources and prompts.
    lists: u8,
    /// The URIs of the resources that have changed. `None` if all of them may have changed.
    #[serde(borrow)]
    resources: Option<Vec<Cow<'a, str>>>,
}

impl ChangeSet {
    /// Returns the set for changes that are not known: everything may have changed.
    pub(crate) fn everything() -> Self {
        Self { lists: Kinds::ALL, resources: ChangedResources::All, bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn insert_lists(&mut self, kinds: Kinds) {
        self.lists = Kinds(self.lists.0 | kinds.0);
    }

    pub(super) fn insert_resource(&mut self, uri: &str) {
        let ChangedResources::These(uris) = &mut self.resources else { return };
        if uris.contains(uri) {
            return;
        }
        self.bytes += uri.len();
        if uris.len() >= MAX_RESOURCES || self.bytes > MAX_URI_BYTES {
            self.insert_all_resources();
        } else {
            uris.insert(uri.to_owned());
        }
    }

    fn insert_all_resources(&mut self) {
        self.resources = ChangedResources::All;
        self.bytes = 0;
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.insert_lists(other.lists);
        match other.resources {
            ChangedResources::These(uris) => uris.iter().for_each(|uri| self.insert_resource(uri)),
            ChangedResources::All => self.insert_all_resources(),
        }
    }

    /// Encodes the set for other processes, in less than 1 MiB. `from` identifies this process.
    pub(super) fn encode(&self, from: Option<&str>) -> Vec<u8> {
        let resources = match &self.resources {
            ChangedResources::These(uris) => Some(uris.iter().map(|uri| Cow::Borrowed(uri.as_str())).collect()),
            ChangedResources::All => None,
        };
        let message = Message { from: from.map(Cow::Borrowed), lists: self.lists.0, resources };
        // Text and numbers can always be encoded.
        serde_json::to_vec(&message).unwrap_or_default()
    }

    /// Decodes a set and the process that has announced it. Returns `None` if the message is invalid.
    pub(super) fn decode(message: &[u8]) -> Option<(Option<String>, Self)> {
        let message: Message<'_> = serde_json::from_slice(message).ok()?;
        let mut set = Self { lists: Kinds(message.lists & Kinds::ALL.0), ..Self::default() };
        match message.resources {
            Some(uris) => uris.iter().for_each(|uri| set.insert_resource(uri)),
            None => set.insert_all_resources(),
        }
        Some((message.from.map(Cow::into_owned), set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::entry::EntryKind;

    fn set(uris: impl IntoIterator<Item = String>) -> ChangeSet {
        let mut set = ChangeSet::default();
        uris.into_iter().for_each(|uri| set.insert_resource(&uri));
        set
    }

    #[test]
    fn changes_are_merged_and_decode_as_they_were_encoded() {
        let mut merged = set(["a:b".to_owned(), "a:b".to_owned()]);
        merged.insert_lists(Kinds::from(EntryKind::Prompt));
        let mut other = set(["a:\n\"é".to_owned()]);
        other.insert_lists(Kinds::from(EntryKind::Tool));
        merged.merge(other);
        for set in [merged, ChangeSet::everything(), ChangeSet::default()] {
            for from in [None, Some("me")] {
                let (sender, decoded) = ChangeSet::decode(&set.encode(from)).unwrap();
                assert_eq!((sender.as_deref(), decoded), (from, set.clone()));
            }
        }
        for invalid in ["", "{}", "[]", r#"{"from":1,"lists":0,"resources":[]}"#] {
            assert!(ChangeSet::decode(invalid.as_bytes()).is_none(), "{invalid}");
        }
    }

    #[test]
    fn too_many_resources_become_all_resources_and_a_message_stays_below_its_limit() {
        let number = |number: usize| format!("a:{number}");
        let control = |length: usize| "\u{1}".repeat(length);
        for (label, set, is_bounded) in [
            ("few", set((0..MAX_RESOURCES).map(number)), false),
            ("many", set((0..=MAX_RESOURCES).map(number)), true),
            ("long", set([control(MAX_URI_BYTES)]), false),
            ("too long", set([control(MAX_URI_BYTES), number(1)]), true),
        ] {
            assert_eq!(set.resources == ChangedResources::All, is_bounded, "{label}");
            assert!(set.encode(Some("me")).len() < 1 << 20, "{label}");
        }
    }
}
