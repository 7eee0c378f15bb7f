//! The methods about a session or a connection: `initialize`, `server/discover`, `ping`, `logging/setLevel`,
//! `subscriptions/listen`, `resources/subscribe` and `resources/unsubscribe`.
//!
//! See [Subscriptions](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions).

use std::sync::Arc;

use super::entries::required_scopes;
use crate::{
    engine::{
        call::response,
        listener::{Filter, Listener, too_many_listeners},
        outbox::Outbox,
        replicas::{SessionChange, SessionMessage},
        request::{
            context::{ConnectionContext, RequestContext, authorize, client_info},
            params::{self, Method, check_capabilities},
            source::VisibleTo,
            start::network,
        },
        session::Declared,
        subscriptions::Subscriber,
        tasks,
    },
    error::{Fault, excerpt},
    handler::{Function, SessionInfo},
    jsonrpc::RawJson,
    registry::ListSet,
    revision,
};

/// Opens a session.
///
/// See [Initialization](https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization).
pub(crate) fn initialize(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let connection = request.connection;
    if request.batch.is_some() {
        return Err(Fault::InvalidRequest("`initialize` must not be part of a batch".to_owned()));
    }
    let already_initialized = || Fault::InvalidRequest("the session is already initialized".to_owned());
    if request.session().is_some() {
        return Err(already_initialized());
    }
    let version = request.params.string("protocolVersion")?;
    let capabilities = request.params.member("capabilities");
    check_capabilities(capabilities, "capabilities")?;
    let dialect = revision::handshake(&version).unwrap_or_else(revision::newest_handshake);
    let client = client_info(request.params.member("clientInfo"));
    tracing::info!(
        client = client.as_ref().map(|client| client.name.as_str()),
        requested = &*excerpt(&version),
        version = dialect.name(),
        principal = request.principal().map(excerpt).as_deref(),
        "session opened"
    );
    let outbox = if connection.is_single_exchange {
        Arc::new(Outbox::new(Arc::clone(&connection.outbox.flow)))
    } else {
        Arc::clone(&connection.outbox)
    };
    let engine = request.engine();
    engine.start_background();
    let (offered, announces_changes) = (request.registry.capabilities, engine.announces_changes());
    let lists = announces_changes.then(|| offered.lists().and(ListSet::listed_in(dialect)));
    let declared = Declared { lists, logging: offered.logging || announces_changes };
    let capabilities = capabilities.map_or("{}", RawJson::text).into();
    let info = SessionInfo { dialect, client, capabilities, principal: request.principal().map(Into::into) };
    let (in_flight, network) = (Arc::clone(&connection.in_flight), network(connection));
    let session = engine.open_session(info, declared, outbox, in_flight, Some(network));
    request.operation.set_dialect(dialect);
    connection.session.set(session).map_err(|_| already_initialized())?;
    response::write_result(out, request.id, engine.description(request.registry, dialect));
    Ok(())
}

/// Handles `notifications/initialized`: releases the messages that were held back.
pub(crate) fn initialized(connection: &ConnectionContext) {
    tracing::debug!("the client is ready");
    // Copies of a session count as initialized, so only the process that has opened it may be waiting.
    if connection.session.get().is_some_and(|session| !session.set_initialized()) {
        connection.tell_replicas(|| SessionMessage::Initialized);
    }
}

/// Handles `notifications/roots/list_changed`: discards the known roots, and runs the author's function.
#[cfg(feature = "ask")]
pub(crate) fn roots_changed(connection: &ConnectionContext) {
    let session = connection.session.get();
    let Some(session) =
        session.filter(|session| crate::handler::ask::Capability::Roots.is_declared_in(&session.info.capabilities))
    else {
        tracing::debug!("ignored a change of roots by a client without the capability `roots`");
        return;
    };
    session.roots.invalidate();
    connection.tell_replicas(|| SessionMessage::Change(SessionChange::RootsChanged));
    if let Some(hook) = &connection.engine.profile.roots_hook {
        hook.run(session);
    }
}

/// Describes the server to clients without a session, in response to `server/discover`.
pub(crate) fn discover(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    response::write_result(out, request.id, request.engine().description(request.registry, request.dialect));
    Ok(())
}

/// Answers `ping`, or a change that has been made, with an empty result.
pub(crate) fn acknowledge(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    response::write_result(out, request.id, &response::empty_result(request.encoding()));
    Ok(())
}

/// Sets the log level of the session.
///
/// See [Logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging).
pub(crate) fn set_level(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let level = params::level(request.params.member("level"), "level")?;
    request.connection.outbox.flow.set_level(level);
    request.connection.tell_replicas(|| SessionMessage::Change(SessionChange::Level(level)));
    acknowledge(request, out)
}

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
    acknowledge(request, out)
}

/// Ends the session's subscription to a resource.
pub(crate) fn unsubscribe(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let uri = params::string(request.params.uri, "uri")?;
    subscriber(request, Method::Unsubscribe)?.unsubscribe_resource(&uri);
    let unsubscribed = || SessionMessage::Change(SessionChange::Unsubscribed(uri.into_owned()));
    request.connection.tell_replicas(unsubscribed);
    acknowledge(request, out)
}

/// Returns whether a URI is that of a file of a skill. Such files do not change while the server runs, so subscriptions to
/// them are accepted and stay silent.
fn is_skill_file(request: &RequestContext<'_>, visible: &VisibleTo, uri: &str) -> bool {
    request.registry.skills.file(uri, |info| visible.sees_entry(info)).is_some()
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
    let capabilities = registry.capabilities;
    let requested = Filter::read(request.params, ListSet::listed_in(request.dialect))?;
    tasks::check_filter(request, &requested)?;
    // One challenge names the scopes of all resources.
    request.sender_access().check(&required_scopes(Method::Listen.name(), request))?;
    let mut filter = requested.supported(capabilities, engine.announces_changes(), is_known);
    if connection.in_flight.listener_count() >= MAX_LISTENERS {
        let message =
            format!("too many open `subscriptions/listen` requests: the limit is {MAX_LISTENERS} per connection");
        return Err(Fault::Overloaded(message));
    }
    engine.start_background();
    let subscriber = Subscriber::of_request(&engine.subscriptions, &connection.outbox, request.id.as_json());
    let subscriber = subscriber.ok_or_else(too_many_listeners)?;
    let permit = connection.source.as_ref().map(|source| source.admit_listener()).transpose()?;
    let watch = tasks::watch(request, &mut filter)?;
    let mut listener =
        Listener::start(subscriber, &filter, &sees, request.id, &connection.outbox, request.encoding(), permit);
    listener.operation = request.operation.take();
    listener.task_watch = watch.map(|watch| watch());
    connection.in_flight.listen(request.id.clone(), listener).map_err(|listener| {
        request.operation.restore(&listener.operation);
        listener.cancel();
        response::duplicate_id(request.id)
    })
}
