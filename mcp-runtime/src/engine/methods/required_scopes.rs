//! The scopes that a request requires, determined without handling it.

use super::completion;
use crate::{
    auth::Scopes,
    engine::{
        request::{context::RequestContext, params},
        subscriptions::filter::Filter,
    },
    handler::Function,
};

/// Returns the scopes of the functions that a request would use. An invalid request requires none.
pub(crate) fn required_scopes(method: &str, request: &RequestContext<'_>) -> Scopes {
    let registry = request.registry;
    if !registry.requires_scopes() {
        return Scopes::default();
    }
    let visible = request.visible_to();
    let sees = |function: &Function| visible.sees(function);
    let name = || params::string(request.params.name, "name").ok();
    let resource = |uri: &str| Some(&**registry.resource(uri, sees)?.function);
    let functions: Vec<&Function> = match method {
        "tools/call" => {
            let tool = name().and_then(|name| registry.tool(&name));
            tool.map(|tool| &**tool).filter(|function| sees(function)).into_iter().collect()
        }
        "prompts/get" => {
            let prompt = name().and_then(|name| registry.prompt(&name));
            prompt.map(|prompt| &**prompt).filter(|function| sees(function)).into_iter().collect()
        }
        "resources/read" | "resources/subscribe" => {
            let uri = params::string(request.params.uri, "uri").ok();
            uri.and_then(|uri| resource(&uri)).into_iter().collect()
        }
        "completion/complete" => {
            completion::referenced_function(request).map(|(_, function)| &**function).into_iter().collect()
        }
        "subscriptions/listen" => {
            let uris = Filter::read(request.params).ok().and_then(|filter| filter.resources);
            uris.iter().flatten().filter_map(|uri| resource(uri)).collect()
        }
        method => {
            registry.method(method).map(|function| &**function).filter(|function| sees(function)).into_iter().collect()
        }
    };
    let scopes = functions.iter().filter_map(|function| function.scopes.as_ref());
    scopes.fold(Scopes::default(), |all, scopes| all.and(scopes.clone()))
}
