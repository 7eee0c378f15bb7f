//! `initialize`, `server/discover` and `ping`.

use std::sync::{Arc, OnceLock};

use crate::{
    engine::{
        call::{batch::Sink, response},
        outbox::Outbox,
        request::{
            context::{ConnectionContext, RequestContext, client_info},
            params::check_capabilities,
        },
        session::Session,
        subscriptions::subscriber::Subscriber,
    },
    error::Fault,
    revision::{self, encode::Object},
};

/// Opens a session.
///
/// See [Initialization](https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization).
pub(crate) fn initialize(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    let connection = request.connection;
    if matches!(request.sink, Sink::Batch(_)) {
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
        requested = &*version,
        version = dialect.name(),
        "session opened"
    );
    let flow = Arc::clone(&connection.flow);
    let outbox = if connection.is_single_exchange {
        Arc::new(Outbox::new(Arc::clone(&flow)))
    } else {
        Arc::clone(&connection.outbox)
    };
    let engine = request.engine();
    let subscriber = engine.announces_changes().then(|| Subscriber::of_session(&engine.subscriptions, &outbox));
    let session = Session {
        id: OnceLock::new(),
        dialect,
        client,
        principal: request.principal().map(Into::into),
        capabilities: capabilities.unwrap_or("{}").into(),
        pending_requests: Arc::default(),
        in_flight: Arc::clone(&connection.in_flight),
        flow,
        outbox,
        subscriber,
    };
    connection.session.set(Arc::new(session)).map_err(|_| already_initialized())?;
    response::write_result(out, request.id, engine.introduction(request.registry, dialect));
    Ok(())
}

/// Handles `notifications/initialized`: releases the notifications that were held back.
pub(crate) fn initialized(connection: &ConnectionContext) {
    tracing::debug!("the client is ready");
    if let Some(subscriber) = connection.session.get().and_then(|session| session.subscriber.as_ref()) {
        subscriber.ready();
    }
}

/// Describes the server to clients without a session, in response to `server/discover`.
pub(crate) fn discover(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    response::write_result(out, request.id, request.engine().introduction(request.registry, request.dialect()));
    Ok(())
}

/// Answers `ping`.
pub(crate) fn ping(request: &RequestContext<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    response::write_result(out, request.id, &response::empty_result(request.encoding()));
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
    response::write_result(out, request.id, &result);
    Ok(())
}
