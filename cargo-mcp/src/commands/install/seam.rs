//! The text around an inserted entry, recorded so that removing the entry restores the file byte for byte.

use serde::{Deserialize, Serialize};

/// The white space and commas that were inserted together with a property.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seam {
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

/// The parts of an insertion. A part is absent if it existed before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inserted {
    /// The root object.
    pub(crate) root: Option<Seam>,
    /// The object of all servers.
    pub(crate) object: Option<Seam>,
    /// The server's entry.
    pub(crate) entry: Seam,
}

impl Seam {
    pub(super) fn around(opening: String, closing: String) -> Self {
        Self { opening, closing, ..Self::default() }
    }

    /// Joins the texts before and after a removed property, without the seam. Returns `None` if the seam is not there.
    pub(super) fn strip(&self, before: &str, after: &str) -> Option<String> {
        Some(format!("{}{}", before.strip_suffix(&*self.opening)?, after.strip_prefix(&*self.closing)?))
    }

    /// Returns this seam for when the previous property is removed. Inherits its seam if its object was empty before.
    pub(super) fn inherit(&self, removed: &Self) -> Self {
        if removed.was_empty && !self.was_empty {
            Self { opening: self.opening.clone(), ..removed.clone() }
        } else {
            self.clone()
        }
    }
}
