//! The scopes that a request needs, the check that its sender has them, and what the sender sees.
//!
//! The engine decides, and the transport tells the client. Messages without a source, as over stdio, need no scopes.

use std::sync::Arc;

use super::context::{RequestContext, RequestSource, VisibleTo};
use crate::{
    auth::{AccessRules, Scopes},
    engine::{methods::completion, request::params, subscriptions::filter::Filter},
    error::Fault,
    handler::entry::EntryInfo,
    registry::Function,
};

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

/// Returns the scopes of the functions that a request would use. An invalid request requires none.
pub(crate) fn required_scopes(method: &str, request: &RequestContext<'_>) -> Scopes {
    let registry = request.registry;
    if !registry.requires_scopes() {
        return Scopes::default();
    }
    let visible = request.visible_to();
    let sees = |function: &Function| visible.sees(function);
    let name = || params::string(request.params.name, "name").ok();
    let resource = |uri: &str| Some(registry.resource(uri, sees)?.function);
    let functions: Vec<&Function> = match method {
        "tools/call" => {
            let tool = name().and_then(|name| registry.tool(&name));
            tool.map(|tool| &tool.function).filter(|function| sees(function)).into_iter().collect()
        }
        "prompts/get" => {
            let prompt = name().and_then(|name| registry.prompt(&name));
            prompt.map(|prompt| &prompt.function).filter(|function| sees(function)).into_iter().collect()
        }
        "resources/read" | "resources/subscribe" => {
            let uri = params::string(request.params.uri, "uri").ok();
            uri.and_then(|uri| resource(&uri)).into_iter().collect()
        }
        "completion/complete" => {
            completion::referenced_function(request).map(|(_, function)| function).into_iter().collect()
        }
        "subscriptions/listen" => {
            let uris = Filter::read(request.params).ok().and_then(|filter| filter.resources);
            uris.iter().flatten().filter_map(|uri| resource(uri)).collect()
        }
        _ => Vec::new(),
    };
    let scopes = functions.iter().filter_map(|function| function.scopes.as_deref());
    scopes.fold(Scopes::default(), |all, scopes| all.and(scopes.clone()))
}
