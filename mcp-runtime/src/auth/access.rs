use super::{hierarchy::Hierarchy, identity::Identity, scopes::Scopes};

/// The author's rules that decide whether an identity meets a requirement.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessRules {
    /// The scopes that every request requires.
    pub(crate) base: Scopes,
    pub(crate) hierarchy: Hierarchy,
}

impl AccessRules {
    /// Returns whether a sender has scopes. A sender without an identity has none.
    pub(crate) fn grants(&self, identity: Option<&Identity>, required: &Scopes) -> bool {
        required.is_empty() || identity.is_some_and(|identity| self.hierarchy.grants(identity, required))
    }

    /// Returns the scopes that a sender has to request for an operation, including those that every request requires.
    pub(crate) fn to_request(&self, identity: Option<&Identity>, required: Scopes) -> Vec<String> {
        self.hierarchy.to_request(identity, &self.base.clone().and(required))
    }
}
