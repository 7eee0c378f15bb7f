//! Changes between two locks.

/// A difference between two locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Whether the change can break existing callers.
    pub breaking: bool,
    /// The entry that changed, such as ``tool `add` ``.
    pub entry: String,
    /// The description of the change.
    pub text: String,
}
