//! The scopes that a request requires, determined without handling it.

use super::completion;
use crate::{
    auth::Scopes,
    engine::{
        listener::Filter,
        request::{
            context::RequestContext,
            params::{self, Method},
        },
    },
    handler::Function,
    registry::ListSet,
};

/// Returns the scopes of the functions that a request would use. An invalid request requires none.
pub(crate) fn required_scopes(name: &str, request: &RequestContext<'_>) -> Scopes {
    use Method::*;

    let registry = request.registry;
    if !registry.requires_scopes() {
        return Scopes::default();
    }
    let visible = request.visible_to();
    let sees = |function: &Function| visible.sees(function);
    let subject = || params::string(request.params.name, "name").ok();
    let resource = |uri: &str| Some(&**registry.resource(uri, sees)?.function);
    let functions: Vec<&Function> = match Method::named(name) {
        Some(CallTool) => {
            let tool = subject().and_then(|name| registry.tool(&name));
            tool.map(|tool| &**tool).filter(|function| sees(function)).into_iter().collect()
        }
        Some(GetPrompt) => {
            let prompt = subject().and_then(|name| registry.prompt(&name));
            prompt.map(|prompt| &**prompt).filter(|function| sees(function)).into_iter().collect()
        }
        Some(ReadResource | Subscribe) => {
            let uri = params::string(request.params.uri, "uri").ok();
            uri.and_then(|uri| resource(&uri)).into_iter().collect()
        }
        Some(Complete) => {
            completion::referenced_function(request).map(|(_, function)| &**function).into_iter().collect()
        }
        Some(Listen) => {
            let uris = Filter::read(request.params, ListSet::listed_in(request.dialect()))
                .ok()
                .and_then(|filter| filter.resources);
            uris.iter().flatten().filter_map(|uri| resource(uri)).collect()
        }
        // These methods use no functions, and extensions may define the methods that the server does not offer.
        None
        | Some(
            ListTools | ListResources | ListTemplates | ListPrompts | Unsubscribe | ReadDirectory | Ping | Initialize
            | Discover | SetLevel | ListSkills | GetSkill | GetTask | TaskResult | ListTasks | CancelTask | UpdateTask
            | Initialized | Cancelled | Progress | RootsChanged | Elicit | Sample | ListRoots,
        ) => registry.method(name).map(|function| &**function).filter(|function| sees(function)).into_iter().collect(),
    };
    let scopes = functions.iter().filter_map(|function| function.scopes.as_ref());
    scopes.fold(Scopes::default(), |all, scopes| all.and(scopes.clone()))
}
