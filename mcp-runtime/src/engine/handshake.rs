//! How sessions begin: by `initialize`, or as copies of the sessions that other replicas have opened; and how the server
//! notices that their clients are gone.

use std::{
    pin::{Pin, pin},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep};

use super::{
    call::in_flight::InFlight,
    limits::PingSchedule,
    outbox::Outbox,
    pending_requests::PendingRequests,
    rates::FlowControl,
    request::operation::{Operation, TIMEOUT},
    server::Engine,
    session::{Lifecycle, Liveness, Session, SessionInfo, SessionTelemetry},
    subscriptions::subscriber::Subscriber,
};
use crate::{race::race, telemetry::Network};

/// The capabilities that the server declared in `initialize`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declared {
    pub(crate) announces_changes: bool,
    pub(crate) logging: bool,
}

/// Opens a session with its outbox for messages that belong to no request, and starts to ping its client. `network` is
/// the transport of its `initialize`, if that was handled by this process.
pub(super) fn open(
    engine: &Engine,
    info: SessionInfo,
    declared: Declared,
    outbox: Arc<Outbox>,
    (in_flight, flow): (Arc<InFlight>, Arc<FlowControl>),
    network: Option<Network>,
) -> Arc<Session> {
    let subscribe = || Subscriber::of_session(&engine.subscriptions, &outbox, info.dialect);
    let telemetry = engine.profile.telemetry.clone().map(|telemetry| {
        let opened = network.map(|_| std::time::Instant::now());
        Box::new(SessionTelemetry { telemetry, network: network.unwrap_or(Network::HTTP), opened })
    });
    let session = Arc::new(Session {
        id: OnceLock::new(),
        #[cfg(feature = "ask")]
        roots: super::client_requests::RootsCache::new(&info.capabilities),
        info: engine.recent_infos.share(info),
        pending_requests: Arc::new(PendingRequests::new(engine.profile.limits.in_flight)),
        #[cfg(feature = "ask")]
        answer_timeout: engine.profile.limits.answer_timeout,
        in_flight,
        flow,
        subscriber: declared.announces_changes.then(subscribe),
        outbox,
        declares_logging: declared.logging,
        lifecycle: Lifecycle::default(),
        shared: OnceLock::new(),
        liveness: engine.profile.limits.pings().map(|schedule| Box::new(Liveness::new(schedule))),
        telemetry,
        registration: OnceLock::new(),
    });
    let _ = session.registration.set(engine.sessions.insert(&session));
    start_pings(&session);
    session
}

/// Creates a copy of a session that another replica has opened.
#[cfg(all(feature = "cluster", feature = "http"))]
pub(crate) fn restore_session(engine: &Arc<Engine>, info: SessionInfo, declared: Declared) -> Arc<Session> {
    engine.start_background();
    let flow = Arc::new(FlowControl::new(&engine.profile.limits.rates));
    let outbox = Arc::new(Outbox::new(Arc::clone(&flow)));
    open(engine, info, declared, outbox, (Arc::default(), flow), None)
}

/// Starts to ping the client of a session, if the server is configured to do so.
fn start_pings(session: &Arc<Session>) {
    if let Some(liveness) = &session.liveness {
        let task = tokio::spawn(watch(Arc::downgrade(session), liveness.schedule));
        liveness.set_task(task.abort_handle());
    }
}

/// Pings the client of a session whenever it is silent for the interval, until the session ends. Ends the session if
/// the client remains silent.
async fn watch(session: Weak<Session>, schedule: PingSchedule) {
    let mut timer = pin!(sleep(schedule.interval));
    loop {
        timer.as_mut().await;
        let Some(session) = session.upgrade() else { return };
        if !is_alive(&session, schedule.limit, timer.as_mut()).await {
            let client = session.info.client.as_ref().map(|client| client.name.as_str());
            tracing::warn!(client, limit = ?schedule.limit, "ending a session: the client did not answer a ping");
            session.end_because(Some(TIMEOUT));
            return;
        }
        timer.as_mut().reset(Instant::now() + schedule.interval);
    }
}

/// Returns whether the client has shown a sign of life recently, cannot be pinged, or shows one within `limit` after a
/// ping. A ping may have to wait behind output that the client is still reading, which is a sign of life, too.
async fn is_alive(session: &Arc<Session>, limit: Duration, mut timer: Pin<&mut Sleep>) -> bool {
    let Some(liveness) = &session.liveness else { return true };
    if liveness.take() || !session.outbox.has_reader() {
        return true;
    }
    timer.as_mut().reset(Instant::now() + limit);
    let operation = Operation::to_client(session, "ping");
    match session.pending_requests.send_request(operation, &session.outbox, ("ping", "{}"), false) {
        Ok(mut ping) => {
            // An error response also shows that the client is alive. A ping that was withdrawn shows nothing. If the
            // session ends, so does this task.
            if let Ok(Err(_)) = race(&mut ping.response, timer).await {
                return true;
            }
            ping.time_out();
        }
        // No ping was sent, because of the server.
        Err(_) if !session.pending_requests.has_numbers() => return true,
        // The client does not read its messages, or leaves too many requests unanswered.
        Err(_) => timer.await,
    }
    // A client whose stream has broken may still open another stream. Until then, the session may become idle.
    liveness.take() || !session.outbox.has_reader()
}

#[cfg(all(test, feature = "cluster", feature = "http"))]
mod tests {
    use super::*;
    use crate::{backend::MemoryBackend, cluster::Cluster, engine::replicas::Slot};

    const LIMIT: Duration = Duration::from_secs(1);

    /// The client cannot answer a ping that was not sent, or whose answer could not be received.
    #[tokio::test(start_paused = true)]
    async fn a_client_is_alive_while_its_replica_has_no_slot() {
        let mut session = Session::for_test();
        session.liveness = Some(Box::new(Liveness::new(PingSchedule::new(LIMIT, LIMIT))));
        session.pending_requests = Arc::new(PendingRequests::new(1));
        let replica = Cluster::for_test(Arc::new(MemoryBackend::default()), LIMIT);
        session.pending_requests.number_by(&replica);
        session.outbox.open_reader();
        let session = Arc::new(session);
        assert!(is_alive(&session, LIMIT, pin!(sleep(LIMIT))).await);
        let slot = replica.join().await.unwrap();
        let lose = async { session.pending_requests.withdraw(|id| Slot::of_id(id) == Some(slot)) };
        let mut timer = pin!(sleep(LIMIT));
        assert!(tokio::join!(is_alive(&session, LIMIT, timer.as_mut()), lose).0);
        assert!(!is_alive(&session, LIMIT, pin!(sleep(LIMIT))).await, "the ping is not answered");
        session.outbox.close_reader();
        assert!(is_alive(&session, LIMIT, pin!(sleep(LIMIT))).await, "the stream has broken");
    }
}
