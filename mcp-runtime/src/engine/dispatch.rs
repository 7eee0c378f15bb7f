//! Maps method names to the functions that answer them.

use super::{
    client_requests::decode_progress,
    methods::{completion, entries, lifecycle, subscriptions, tools},
    replicas::SessionMessage,
    request::{
        context::{ConnectionContext, RequestContext},
        params::Params,
    },
    tasks,
};
use crate::{
    error::Fault,
    jsonrpc::{Id, MAX_ID_BYTES, RawJson},
    registry::ListKind,
    revision::Feature,
};

/// Answers a request: writes its response, or starts a call whose response follows through the outbox.
///
/// # Errors
///
/// Returns the protocol error to respond with. In that case, nothing has been written.
pub(super) fn request(method: &str, request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let capabilities = request.registry.capabilities();
    let announces_changes = request.engine().announces_changes();
    let has = |feature| request.has(feature);
    match method {
        "tools/call" if capabilities.tools => tools::call_tool(request, out),
        "tools/list" if capabilities.tools => entries::list(request, ListKind::Tools, out),
        "resources/read" if capabilities.resources => entries::read_resource(request, out),
        "resources/list" if capabilities.resources => entries::list(request, ListKind::Resources, out),
        "resources/templates/list" if capabilities.resources => entries::list(request, ListKind::Templates, out),
        "prompts/get" if capabilities.prompts => entries::get_prompt(request, out),
        "prompts/list" if capabilities.prompts => entries::list(request, ListKind::Prompts, out),
        "completion/complete" if capabilities.completions => completion::complete(request, out),
        "ping" if has(Feature::Ping) => lifecycle::ping(request, out),
        // A handle can log even if no function can.
        "logging/setLevel" if (capabilities.logging || announces_changes) && has(Feature::LogLevel) => {
            lifecycle::set_level(request, out)
        }
        "resources/subscribe" if capabilities.resources && announces_changes && has(Feature::ResourceSubscriptions) => {
            subscriptions::subscribe(request, out)
        }
        "resources/unsubscribe"
            if capabilities.resources && announces_changes && has(Feature::ResourceSubscriptions) =>
        {
            subscriptions::unsubscribe(request, out)
        }
        "skills/list" if capabilities.skills && has(Feature::SkillsExtension) => entries::list_skills(request, out),
        "skills/get" if capabilities.skills && has(Feature::SkillsExtension) => entries::get_skill(request, out),
        "resources/directory/read" if capabilities.skills && has(Feature::SkillsExtension) => {
            entries::read_directory(request, out)
        }
        "subscriptions/listen" if (announces_changes || capabilities.tasks) && has(Feature::Listening) => {
            subscriptions::listen(request)
        }
        method if capabilities.tasks && method.starts_with("tasks/") => tasks::request(method, request, out),
        "initialize" if has(Feature::Handshake) => lifecycle::initialize(request, out),
        "server/discover" if has(Feature::RequestMeta) => lifecycle::discover(request, out),
        method => entries::call_method(method, request, out),
    }
}

/// Handles a notification. Invalid and unknown notifications are ignored, since notifications are never answered.
pub(super) fn notification(connection: &ConnectionContext, method: &str, params: &Params<'_>) {
    match method {
        "notifications/cancelled" => {
            // No request has a longer id, so other processes need not hear of it.
            let id = params
                .member("requestId")
                .map(RawJson::text)
                .filter(|id| id.len() <= MAX_ID_BYTES)
                .and_then(Id::from_json);
            let known = id.as_ref().is_some_and(|id| connection.in_flight.cancel(id));
            if let Some(id) = id.filter(|_| !known) {
                connection.tell_replicas(|| SessionMessage::Cancel(id.as_json().to_owned()));
            }
            tracing::debug!(
                known,
                reason = params.member("reason").map(RawJson::text),
                "the client cancelled a request"
            );
        }
        "notifications/progress" => {
            let Some((session, (token, report))) = connection.session.get().zip(decode_progress(params)) else {
                return;
            };
            if !session.pending_requests.report_progress(token, &report) {
                connection.tell_replicas(|| SessionMessage::Progress(token, report));
            }
        }
        "notifications/initialized" => lifecycle::initialized(connection),
        "notifications/roots/list_changed" => lifecycle::roots_changed(connection),
        method => tracing::debug!(method, "ignored an unknown notification"),
    }
}
