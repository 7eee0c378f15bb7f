//! How sessions begin: by `initialize`, or as copies of the sessions that other replicas have opened.

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

/// The capabilities that the server declared in `initialize`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declared {
    pub(crate) announces_changes: bool,
    pub(crate) logging: bool,
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

/// Creates a copy of a session that another replica has opened.
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) fn restore_session(engine: &Arc<Engine>, info: SessionInfo, declared: Declared) -> Arc<Session> {
    engine.start_background();
    let flow = Arc::new(FlowControl::new(&engine.profile.limits.rates));
    let outbox = Arc::new(Outbox::new(Arc::clone(&flow)));
    open(engine, info, declared, outbox, (Arc::default(), flow))
}
