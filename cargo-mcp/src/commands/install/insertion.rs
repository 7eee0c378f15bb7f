//! The text around an inserted entry, recorded so that removing the entry restores the file byte for byte.

use serde::{Deserialize, Serialize};

/// The insertion of one property: the white space and commas that were inserted around it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Insertion {
    /// The white space inserted before the property.
    pub(super) opening: String,
    /// The white space or the comma inserted after the property.
    pub(super) closing: String,
    /// The white space that the insertion replaced.
    #[serde(rename = "instead")]
    pub(super) replaced: String,
    /// Whether the object was empty before.
    #[serde(rename = "alone")]
    pub(super) was_empty: bool,
}

/// The insertion of an entry, and of the objects around it that did not exist before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EntryInsertion {
    /// The root object.
    pub(crate) root: Option<Insertion>,
    /// The object of all servers.
    pub(crate) object: Option<Insertion>,
    /// The server's entry.
    pub(crate) entry: Insertion,
}

impl Insertion {
    pub(super) fn new(opening: String, closing: String) -> Self {
        Self { opening, closing, ..Self::default() }
    }

    /// Joins the texts before and after a removed property, without the text inserted around it. Returns `None` if that
    /// text has changed.
    pub(super) fn strip(&self, before: &str, after: &str) -> Option<String> {
        Some(format!("{}{}", before.strip_suffix(&*self.opening)?, after.strip_prefix(&*self.closing)?))
    }

    /// Returns the insertion to record for this property once `removed`, the property before it, is removed. If the
    /// object was empty before `removed` was inserted, reverting the result makes it empty again.
    pub(super) fn inherit(&self, removed: &Self) -> Self {
        if removed.was_empty && !self.was_empty {
            Self { opening: self.opening.clone(), ..removed.clone() }
        } else {
            self.clone()
        }
    }
}
