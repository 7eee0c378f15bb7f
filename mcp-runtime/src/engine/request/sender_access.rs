use std::sync::Arc;

use super::source::RequestSource;
use crate::{
    auth::{AccessRules, Scopes},
    error::Fault,
};

/// The scopes of a sender, for checks that outlive its request. A sender over a transport that does not identify
/// senders has all of them.
#[derive(Debug, Clone)]
pub(crate) struct SenderAccess(Option<(Arc<AccessRules>, Arc<dyn RequestSource>)>);

impl SenderAccess {
    pub(crate) fn new(rules: &Arc<AccessRules>, source: Option<&Arc<dyn RequestSource>>) -> Self {
        Self(source.map(|source| (Arc::clone(rules), Arc::clone(source))))
    }

    /// Returns whether the sender has scopes.
    pub(crate) fn grants(&self, scopes: &Scopes) -> bool {
        self.0.as_ref().is_none_or(|(rules, source)| rules.grants(source.identity(), scopes))
    }

    /// Checks that the sender has scopes. See [`check_scopes`].
    pub(crate) fn check(&self, scopes: &Scopes) -> Result<(), Fault> {
        self.0.as_ref().map_or(Ok(()), |(rules, source)| check_scopes(rules, &**source, scopes))
    }
}

/// Checks that the sender of a message has scopes.
///
/// # Errors
///
/// Returns [`Fault::InsufficientScope`] with these scopes and those that every request requires.
pub(crate) fn check_scopes(rules: &AccessRules, source: &dyn RequestSource, scopes: &Scopes) -> Result<(), Fault> {
    let identity = source.identity();
    if rules.grants(identity, scopes) {
        return Ok(());
    }
    let required = rules.to_request(identity, scopes.clone());
    source.demand_scopes(&required);
    Err(Fault::InsufficientScope { required })
}
