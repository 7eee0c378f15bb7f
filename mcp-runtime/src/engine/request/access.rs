//! Checks that the sender of a request has the scopes that it needs.
//!
//! The engine decides, and the transport tells the client. Messages without a source, as over stdio, need no scopes.

use super::{
    caller::VisibleTo,
    context::RequestContext,
    sender_access::{SenderAccess, check_scopes},
};
use crate::{auth::Scopes, error::Fault, handler::entry::EntryInfo, registry::Function};

/// Checks that the sender of a request may use a function.
///
/// # Errors
///
/// Returns [`Fault::InsufficientScope`] with every scope of the operation.
pub(crate) fn authorize(request: &RequestContext<'_>, function: &Function) -> Result<(), Fault> {
    let (Some(source), Some(scopes)) = (&request.connection.source, &function.scopes) else { return Ok(()) };
    check_scopes(&request.engine().profile.access, &**source, scopes)
}

/// Returns whether the sender of a request may use a function.
pub(crate) fn may_use(request: &RequestContext<'_>, function: &Function) -> bool {
    let (Some(source), Some(scopes)) = (&request.connection.source, &function.scopes) else { return true };
    request.engine().profile.access.grants(source.identity(), scopes)
}

/// The entries that the sender of a request finds in lists.
pub(crate) struct ListedTo {
    visible: VisibleTo,
    /// The scopes by which entries are omitted. `None` if entries are listed for those who may not use them.
    access: Option<SenderAccess>,
}

impl ListedTo {
    pub(crate) fn sender_of(request: &RequestContext<'_>) -> Self {
        let engine = request.engine();
        let hides = engine.profile.hides_unauthorized && request.registry.requires_scopes();
        Self { visible: request.visible_to(), access: hides.then(|| request.sender_access()) }
    }

    /// Returns whether some entries may be omitted.
    pub(crate) fn is_limited(&self) -> bool {
        self.visible.is_limited() || self.access.is_some()
    }

    /// Returns whether the sender sees a function.
    pub(crate) fn sees(&self, function: &Function) -> bool {
        self.visible.sees(function)
    }

    /// Returns whether lists contain an entry that requires scopes.
    pub(crate) fn includes(&self, info: &EntryInfo<'_>, scopes: Option<&Scopes>) -> bool {
        let is_omitted = self.access.as_ref().zip(scopes).is_some_and(|(access, scopes)| !access.grants(scopes));
        !is_omitted && self.visible.sees_entry(info)
    }
}
