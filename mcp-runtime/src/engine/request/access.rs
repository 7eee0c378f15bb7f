//! Checks that the sender of a request has the scopes that it needs.
//!
//! The engine decides, and the transport tells the client. Messages without a source, as over stdio, need no scopes.

use super::{context::RequestContext, source::RequestSource};
use crate::{
    auth::{AccessRules, Scopes},
    error::Fault,
    registry::Function,
};

/// Checks that the sender of a request may use a function.
///
/// # Errors
///
/// Returns [`Fault::InsufficientScope`] with every scope of the operation.
pub(crate) fn authorize(request: &RequestContext<'_>, function: &Function) -> Result<(), Fault> {
    let (Some(source), Some(scopes)) = (&request.connection.source, &function.scopes) else { return Ok(()) };
    check_scopes(&request.engine().access, &**source, scopes)
}

/// Returns whether the sender of a request may use a function.
pub(crate) fn may_use(request: &RequestContext<'_>, function: &Function) -> bool {
    let (Some(source), Some(scopes)) = (&request.connection.source, &function.scopes) else { return true };
    request.engine().access.grants(source.identity(), scopes)
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
