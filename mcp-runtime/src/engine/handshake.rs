//! How sessions begin: by `initialize`, or as copies of those that other replicas have opened.

use std::sync::{Arc, OnceLock};

use super::{
    call::in_flight::InFlight,
    client_requests::{PendingRequests, RootsCache},
    liveness::Liveness,
    outbox::Outbox,
    pings,
    rates::FlowControl,
    server::Engine,
    session::{Lifecycle, Session, SessionInfo, SingleFlight},
    subscriptions::subscriber::Subscriber,
};
#[cfg(feature = "http")]
use crate::cluster::SessionRecord;
#[cfg(feature = "http")]
use crate::revision;

/// The capabilities that the server declared in `initialize`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declared {
    pub(super) announces_changes: bool,
    pub(super) logging: bool,
}

/// Opens a session with its outbox for messages that belong to no request, and starts to ping its client.
pub(super) fn open(
    engine: &Engine,
    info: SessionInfo,
    declared: Declared,
    outbox: Arc<Outbox>,
    (in_flight, flow): (Arc<InFlight>, Arc<FlowControl>),
) -> Arc<Session> {
    let subscribe = || Subscriber::of_session(&engine.subscriptions, &outbox);
    let session = Arc::new(Session {
        id: OnceLock::new(),
        roots: RootsCache::new(&info.capabilities),
        roots_hook_runs: SingleFlight::default(),
        info: Arc::new(info),
        pending_requests: Arc::new(PendingRequests::new(engine.profile.limits.in_flight)),
        answer_timeout: engine.profile.limits.answer_timeout,
        in_flight,
        flow,
        subscriber: declared.announces_changes.then(subscribe),
        outbox,
        declares_logging: declared.logging,
        lifecycle: Lifecycle::default(),
        shared: OnceLock::new(),
        liveness: engine.profile.limits.pings.map(Liveness::new),
        registration: OnceLock::new(),
    });
    let _ = session.registration.set(engine.sessions.insert(&session));
    pings::start(&session);
    session
}

/// Creates a copy of a session that another replica has opened. Returns `None` if its version is unknown.
#[cfg(feature = "http")]
pub(crate) fn restore_session(engine: &Arc<Engine>, record: &SessionRecord) -> Option<Arc<Session>> {
    let info = SessionInfo {
        dialect: revision::handshake(&record.version)?,
        client: record.client.clone(),
        capabilities: record.capabilities.as_str().into(),
        principal: record.principal.as_deref().map(Into::into),
    };
    let declared = Declared { announces_changes: record.announces_changes, logging: record.declares_logging };
    engine.start_background();
    let flow = Arc::new(FlowControl::new(&engine.profile.limits.rates));
    let outbox = Arc::new(Outbox::new(Arc::clone(&flow)));
    let session = open(engine, info, declared, outbox, (Arc::default(), flow));
    session.adopt(record, record);
    // This replica may have missed changes since the session was opened.
    if let Some(subscriber) = &session.subscriber {
        subscriber.everything_changed(engine.registry().capabilities().kinds());
    }
    Some(session)
}
