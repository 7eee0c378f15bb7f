//! `initialize`, `server/discover`, `ping` and `logging/setLevel`.

use std::sync::Arc;

use crate::{
    engine::{
        call::running,
        outbox::Outbox,
        replicas::{SessionChange, SessionMessage},
        request::{
            context::{ConnectionContext, RequestContext, client_info},
            params::{self, check_capabilities},
            start::network,
        },
        session::{Declared, SessionInfo},
    },
    error::Fault,
    excerpt::excerpt,
    jsonrpc::RawJson,
    revision::{self, encode::Object},
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
    let flow = Arc::clone(&connection.flow);
    let outbox = if connection.is_single_exchange {
        Arc::new(Outbox::new(Arc::clone(&flow)))
    } else {
        Arc::clone(&connection.outbox)
    };
    let engine = request.engine();
    engine.start_background();
    let announces_changes = engine.announces_changes();
    let declared =
        Declared { announces_changes, logging: request.registry.capabilities().logging || announces_changes };
    let capabilities = capabilities.map_or("{}", RawJson::text).into();
    let info = SessionInfo { dialect, client, capabilities, principal: request.principal().map(Into::into) };
    let session = engine.open_session(
        info,
        declared,
        outbox,
        (Arc::clone(&connection.in_flight), flow),
        Some(network(connection)),
    );
    request.operation.set_dialect(dialect);
    connection.session.set(session).map_err(|_| already_initialized())?;
    running::write_result(out, request.id, engine.description(request.registry, dialect));
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
    running::write_result(out, request.id, request.engine().description(request.registry, request.dialect()));
    Ok(())
}

/// Answers `ping`.
pub(crate) fn ping(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    running::write_result(out, request.id, &running::empty_result(request.encoding()));
    Ok(())
}

/// Answers a method that is declared by the dialect of the request.
pub(crate) fn dialect_method(method: &str, request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let Some(respond) = request.dialect().method(method) else {
        return Err(Fault::MethodNotFound(method.to_owned()));
    };
    let mut result = Vec::new();
    respond(request.params.json(), &mut Object::begin(&mut result))?;
    request.encoding().end_result(&mut result, None);
    running::write_result(out, request.id, &result);
    Ok(())
}

/// Sets the log level of the session.
///
/// See [Logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging).
pub(crate) fn set_level(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let level = params::level(request.params.member("level"), "level")?;
    request.connection.flow.set_level(level);
    request.connection.tell_replicas(|| SessionMessage::Change(SessionChange::Level(level)));
    running::write_result(out, request.id, &running::empty_result(request.encoding()));
    Ok(())
}
