//! `subscriptions/listen`, `resources/subscribe` and `resources/unsubscribe`.
//!
//! See [Subscriptions](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions).

use super::required_scopes::required_scopes;
use crate::{
    engine::{
        call::running,
        listener::{Filter, Listener, too_many_listeners},
        replicas::{SessionChange, SessionMessage},
        request::{
            context::{RequestContext, authorize},
            params::{self, Method},
            source::VisibleTo,
        },
        subscriptions::Subscriber,
        tasks,
    },
    error::Fault,
    handler::Function,
    registry::ListSet,
};

/// The maximum number of open `subscriptions/listen` requests per connection. Further requests are rejected.
const MAX_LISTENERS: usize = 1024;

/// Subscribes the session to a resource.
///
/// See [Subscriptions](https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions).
pub(crate) fn subscribe(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    let subscriber = subscriber(request, Method::Subscribe)?;
    let visible = request.visible_to();
    let sees = |function: &Function| visible.sees(function);
    if !is_skill_file(request, &visible, &uri) {
        let Some(found) = request.registry.resource(&uri, sees) else {
            return Err(Fault::ResourceNotFound(uri.into_owned()));
        };
        authorize(request, found.function)?;
    }
    subscriber.subscribe_resource(&uri, &sees)?;
    let subscribed = || SessionMessage::Change(SessionChange::Subscribed(uri.into_owned()));
    request.connection.tell_replicas(subscribed);
    running::write_result(out, request.id, &running::empty_result(request.encoding()));
    Ok(())
}

/// Ends the session's subscription to a resource.
pub(crate) fn unsubscribe(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    subscriber(request, Method::Unsubscribe)?.unsubscribe_resource(&uri);
    let unsubscribed = || SessionMessage::Change(SessionChange::Unsubscribed(uri.into_owned()));
    request.connection.tell_replicas(unsubscribed);
    running::write_result(out, request.id, &running::empty_result(request.encoding()));
    Ok(())
}

/// Returns whether a URI is that of a file of a skill. Such files do not change while the server runs, so subscriptions to
/// them are accepted and stay silent.
fn is_skill_file(request: &RequestContext<'_>, visible: &VisibleTo, uri: &str) -> bool {
    request.registry.skills().file(uri, |info| visible.sees_entry(info)).is_some()
}

/// Returns the subscriber of the session. A session that was opened before the server announced changes has none.
fn subscriber<'a>(request: &RequestContext<'a>, method: Method) -> Result<&'a Subscriber, Fault> {
    let subscriber = request.session().and_then(|session| session.subscriber.as_ref());
    subscriber.ok_or_else(|| Fault::MethodNotFound(method.name().to_owned()))
}

/// Notifies the client of changes until it cancels the request or the server shuts down.
pub(crate) fn listen(request: &RequestContext<'_>) -> Result<(), Fault> {
    if request.batch.is_some() {
        return Err(Fault::InvalidRequest("`subscriptions/listen` must not be part of a batch".to_owned()));
    }
    let (engine, connection) = (request.engine(), request.connection);
    let (registry, visible) = (request.registry, request.visible_to());
    let sees = |function: &Function| visible.sees(function);
    let is_known = |uri: &str| is_skill_file(request, &visible, uri) || registry.resource(uri, sees).is_some();
    let capabilities = registry.capabilities();
    let requested = Filter::read(request.params, ListSet::listed_in(request.dialect()))?;
    tasks::check_filter(request, &requested)?;
    // One challenge names the scopes of all resources.
    request.sender_access().check(&required_scopes(Method::Listen.name(), request))?;
    let filter = requested.supported(capabilities, engine.announces_changes(), is_known);
    if connection.in_flight.listener_count() >= MAX_LISTENERS {
        let message =
            format!("too many open `subscriptions/listen` requests: the limit is {MAX_LISTENERS} per connection");
        return Err(Fault::Overloaded(message));
    }
    engine.start_background();
    let subscriber = Subscriber::of_request(&engine.subscriptions, &connection.outbox, request.id.as_json());
    let subscriber = subscriber.ok_or_else(too_many_listeners)?;
    let permit = connection.source.as_ref().map(|source| source.admit_listener()).transpose()?;
    let watch = tasks::watch(request, &filter)?;
    let mut listener =
        Listener::start(subscriber, &filter, &sees, request.id, &connection.outbox, request.encoding(), permit);
    listener.operation = request.operation.take();
    if let Some(watch) = watch {
        listener.watch_tasks(watch());
    }
    connection.in_flight.listen(request.id.clone(), listener).map_err(|listener| {
        request.operation.restore(&listener.operation);
        listener.cancel();
        running::duplicate_id(request.id)
    })
}
