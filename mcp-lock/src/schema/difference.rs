//! Differences between schemas.

/// The direction of the values that a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// From the caller: old values must still be accepted.
    Input,
    /// From the server: new values must conform to the old schema.
    Output,
}

/// The effect of a difference on the set of accepted values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Fewer values are accepted.
    Narrowed,
    /// More values are accepted.
    Widened,
    /// Other values are accepted, or the effect is unknown.
    Changed,
    /// The same values are accepted.
    None,
}

impl Effect {
    /// Returns whether the effect can break callers.
    #[must_use]
    pub fn breaks(self, role: Role) -> bool {
        match self {
            Self::Changed => true,
            Self::None => false,
            Self::Narrowed => role == Role::Input,
            Self::Widened => role == Role::Output,
        }
    }
}

/// A difference between two schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The path, such as `filter.tags[]`. Empty for the root.
    pub path: String,
    /// The effect.
    pub effect: Effect,
    /// The description.
    pub text: String,
}
