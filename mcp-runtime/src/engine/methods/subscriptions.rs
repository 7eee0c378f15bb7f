//! `subscriptions/listen`, `resources/subscribe` and `resources/unsubscribe`.
//!
//! See [Subscriptions](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions).

use super::required_scopes::required_scopes;
use crate::{
    engine::{
        call::running,
        replicas::{SessionChange, SessionMessage},
        request::{
            context::{RequestContext, authorize},
            params,
        },
        subscriptions::{
            filter::{Filter, Listener, too_many_listeners, too_many_resources},
            subscriber::Subscriber,
        },
        tasks,
    },
    error::Fault,
    handler::Function,
};

/// The maximum number of open `subscriptions/listen` requests per connection. Further requests are rejected.
const MAX_LISTENERS: usize = 1024;

/// Subscribes the session to a resource.
///
/// See [Subscriptions](https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions).
pub(crate) fn subscribe(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    let subscriber = subscriber(request, "resources/subscribe")?;
    let visible = request.visible_to();
    let Some(found) = request.registry.resource(&uri, |function| visible.sees(function)) else {
        return Err(Fault::ResourceNotFound(uri.into_owned()));
    };
    authorize(request, found.function)?;
    subscriber.subscribe_resource(&uri).map_err(|_| too_many_resources())?;
    announce(found.function, &uri);
    let subscribed = || SessionMessage::Change(SessionChange::Subscribed(uri.into_owned()));
    request.connection.tell_replicas(subscribed);
    running::write_result(out, request.id, &running::empty_result(request.encoding()));
    Ok(())
}

/// Tells the entry of a resource that a client has subscribed to a URI.
fn announce(function: &Function, uri: &str) {
    if let Some(subscribed) = function.common().handler.closures().and_then(|closures| closures.subscribed.as_ref()) {
        subscribed(uri);
    }
}

/// Ends the session's subscription to a resource.
pub(crate) fn unsubscribe(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    subscriber(request, "resources/unsubscribe")?.unsubscribe_resource(&uri);
    let unsubscribed = || SessionMessage::Change(SessionChange::Unsubscribed(uri.into_owned()));
    request.connection.tell_replicas(unsubscribed);
    running::write_result(out, request.id, &running::empty_result(request.encoding()));
    Ok(())
}

/// Returns the subscriber of the session. A session that was opened before the server announced changes has none.
fn subscriber<'a>(request: &RequestContext<'a>, method: &str) -> Result<&'a Subscriber, Fault> {
    let subscriber = request.session().and_then(|session| session.subscriber.as_ref());
    subscriber.ok_or_else(|| Fault::MethodNotFound(method.to_owned()))
}

/// Notifies the client of changes until it cancels the request or the server shuts down.
pub(crate) fn listen(request: &RequestContext<'_>) -> Result<(), Fault> {
    if request.batch.is_some() {
        return Err(Fault::InvalidRequest("`subscriptions/listen` must not be part of a batch".to_owned()));
    }
    let (engine, connection) = (request.engine(), request.connection);
    let (registry, visible) = (request.registry, request.visible_to());
    let is_known = |uri: &str| registry.resource(uri, |function| visible.sees(function)).is_some();
    let capabilities = registry.capabilities();
    let requested = Filter::read(request.params)?;
    tasks::check_filter(request, &requested)?;
    // One challenge names the scopes of all resources.
    request.sender_access().check(&required_scopes("subscriptions/listen", request))?;
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
    let mut listener = Listener::start(subscriber, &filter, request.id, &connection.outbox, request.encoding(), permit);
    listener.operation = request.operation.take();
    if let Some(watch) = watch {
        listener.watch_tasks(watch());
    }
    for uri in filter.resources.iter().flatten() {
        if let Some(found) = registry.resource(uri, |function| visible.sees(function)) {
            announce(found.function, uri);
        }
    }
    connection.in_flight.listen(request.id.clone(), listener).map_err(|listener| {
        request.operation.restore(&listener.operation);
        listener.cancel();
        running::duplicate_id(request.id)
    })
}
