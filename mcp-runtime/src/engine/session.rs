//! A session with a client, the pings that notice that its client is gone, and the sessions of a process.

use std::{
    any::Any,
    collections::{BTreeMap, VecDeque},
    pin::{Pin, pin},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    sync::SetOnce,
    task::AbortHandle,
    time::{self, Sleep, sleep},
};

use super::{
    call::in_flight::InFlight,
    limits::{Limits, MAX_PERIOD, MIN_PERIOD},
    outbox::Outbox,
    pending_requests::{PendingRequests, session_ended},
    request::operation::{Operation, TIMEOUT},
    subscriptions::Subscriber,
};
use crate::{
    handler::{CallConnection as _, SessionInfo},
    model::Level,
    registry::ListSet,
    stdx::{Mutex, race},
    telemetry::{Network, SessionEnd, SharedTelemetry},
};

/// A session: the result of the negotiation in `initialize`, and the state that lives as long as the session.
#[derive(Debug)]
pub(crate) struct Session {
    /// The id of the session at the transport. It owns the session's tasks if there is no principal, and is generated
    /// for the first request about tasks if the transport has no ids.
    pub(super) id: OnceLock<Arc<str>>,
    pub(crate) info: Arc<SessionInfo>,
    /// The requests to the client that it has not yet answered.
    pub(crate) pending_requests: Arc<PendingRequests>,
    /// How long the client may take to answer a question.
    #[cfg(feature = "ask")]
    pub(super) answer_timeout: Duration,
    #[cfg(feature = "ask")]
    pub(crate) roots: super::client_requests::RootsCache,
    pub(crate) in_flight: Arc<InFlight>,
    /// The destination of messages that belong to no request.
    pub(crate) outbox: Arc<Outbox>,
    /// The subscriptions of the session. `None` if the server did not declare in `initialize` that it announces changes.
    pub(crate) subscriber: Option<Subscriber>,
    /// Whether the server declared in `initialize` that it sends log messages.
    pub(crate) declares_logging: bool,
    /// Set once the client has sent `notifications/initialized`.
    pub(super) initialized: SetOnce<()>,
    /// Set once the session has ended.
    pub(super) ended: SetOnce<()>,
    /// The state that the session shares with other processes, in a type of `cluster`. Unset if only this process knows
    /// the session.
    pub(crate) shared: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Pings the client when it is silent. `None` if pings are disabled.
    pub(super) liveness: Option<Box<Liveness>>,
    /// Receives what is measured. `None` if the server has no telemetry.
    pub(super) telemetry: Option<Box<SessionTelemetry>>,
    /// Removes the session from the set of open sessions when dropped.
    pub(super) registration: OnceLock<Registration>,
}

/// The capabilities that the server declared in `initialize`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declared {
    /// The lists whose changes are announced. `None` if the server announces no changes.
    pub(crate) lists: Option<ListSet>,
    pub(crate) logging: bool,
}

/// The maximum number of different outcomes of `initialize` that later sessions are compared with.
const MAX_RECENT_INFOS: usize = 16;

/// The latest outcomes of `initialize`. Sessions of the same client program have the same one, so they share it.
#[derive(Debug, Default)]
pub(crate) struct RecentInfos(Mutex<VecDeque<Weak<SessionInfo>>>);

impl RecentInfos {
    /// Returns the shared form of the outcome of `initialize`.
    pub(super) fn share(&self, info: SessionInfo) -> Arc<SessionInfo> {
        // Sessions of different principals have nothing in common.
        if info.principal.is_some() {
            return Arc::new(info);
        }
        let mut recent = self.0.lock();
        let is_same = |known: &Arc<SessionInfo>| {
            std::ptr::eq(known.dialect, info.dialect)
                && known.client == info.client
                && known.capabilities == info.capabilities
        };
        recent.iter().filter_map(Weak::upgrade).find(is_same).unwrap_or_else(|| {
            let info = Arc::new(info);
            recent.truncate(MAX_RECENT_INFOS - 1);
            recent.push_front(Arc::downgrade(&info));
            info
        })
    }
}

/// The telemetry of a session.
#[derive(Debug)]
pub(crate) struct SessionTelemetry {
    pub(crate) telemetry: SharedTelemetry,
    pub(crate) network: Network,
    /// The time at which `initialize` has opened the session. `None` if that was at another replica.
    pub(crate) opened: Option<Instant>,
}

impl Session {
    /// Sets the id of the session, unless it has one.
    pub(crate) fn set_id(&self, id: &Arc<str>) {
        let _ = self.id.set(Arc::clone(id));
    }

    pub(crate) fn id(&self) -> Option<&str> {
        self.id.get().map(|id| &**id)
    }

    /// Returns whether other processes know the session.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Releases the messages that were held back until `notifications/initialized`. Returns `false` if that has happened
    /// before: clients may repeat the notification.
    pub(crate) fn set_initialized(&self) -> bool {
        let is_first = self.initialized.set(()).is_ok();
        if let Some(subscriber) = &self.subscriber {
            subscriber.ready();
        }
        is_first
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.initialized.initialized()
    }

    /// Sends a log message that belongs to no call, if the client is initialized and has asked for the level. Returns
    /// `false` if the message was dropped: no stream to the client is open, the rate is exceeded, or the client reads
    /// too slowly.
    pub(super) fn log(&self, level: Level, message: &[u8]) -> bool {
        if !self.declares_logging || !self.is_initialized() || level < self.outbox.session_level() {
            return true;
        }
        if !self.outbox.has_reader() {
            // The client may read at another replica, which receives the message as well.
            return self.is_shared();
        }
        self.outbox.admits_log_message() && self.outbox.notify(message)
    }

    /// Records that the client has sent something, or has read something that was waiting for it, which shows that it is
    /// alive.
    pub(crate) fn record_sign_of_life(&self) {
        if let Some(liveness) = &self.liveness {
            liveness.is_active.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.initialized()
    }

    /// Ends the session: withdraws its requests to the client, fails its calls, stops its subscriptions and pings, and
    /// closes its output.
    pub(crate) fn end(&self) {
        self.end_because(None);
    }

    /// Ends the session, because of an error of this class if there is one.
    pub(super) fn end_because(&self, error_type: Option<&'static str>) {
        if self.ended.set(()).is_err() {
            return;
        }
        self.pending_requests.close();
        self.in_flight.fail_all(&session_ended());
        if let Some(subscriber) = &self.subscriber {
            subscriber.unsubscribe_all();
        }
        if let Some(liveness) = &self.liveness {
            liveness.stop();
        }
        self.outbox.close();
        if let Some(SessionTelemetry { telemetry, network, opened: Some(opened) }) = self.telemetry.as_deref() {
            let protocol_version = self.info.dialect.name();
            let (network, duration) = (*network, opened.elapsed());
            let end = SessionEnd { protocol_version, network, error_type, duration };
            telemetry.call(|telemetry| telemetry.session_ended(&end));
        }
    }
}

#[cfg(all(test, feature = "http"))]
impl Session {
    pub(crate) fn for_test() -> Self {
        let flow = Arc::new(super::limits::FlowControl::new(&super::limits::SessionRates::default()));
        Self {
            id: OnceLock::new(),
            roots: super::client_requests::RootsCache::new("{}"),
            info: Arc::new(SessionInfo {
                dialect: crate::revision::newest_handshake(),
                client: None,
                capabilities: "{}".into(),
                principal: None,
            }),
            answer_timeout: Duration::ZERO,
            declares_logging: false,
            initialized: SetOnce::new(),
            ended: SetOnce::new(),
            shared: OnceLock::new(),
            liveness: None,
            telemetry: None,
            registration: OnceLock::new(),
            pending_requests: Arc::new(PendingRequests::new(0)),
            in_flight: Arc::default(),
            outbox: Arc::new(Outbox::new(flow)),
            subscriber: None,
        }
    }
}

/// The sessions of this process. The set needs no bound of its own: its sessions are kept alive elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    members: Mutex<Members>,
    /// The number of log messages that could not be sent.
    dropped_log_messages: AtomicU64,
}

#[derive(Debug, Default)]
struct Members {
    last_number: u64,
    /// The sessions by number, in the order in which they were opened.
    by_number: BTreeMap<u64, Weak<Session>>,
}

/// A guard that removes a session from the set when dropped. It is owned by the session.
#[derive(Debug)]
pub(super) struct Registration {
    sessions: Weak<Sessions>,
    number: u64,
}

impl Sessions {
    /// Adds a session.
    pub(super) fn insert(self: &Arc<Self>, session: &Arc<Session>) -> Registration {
        let mut members = self.members.lock();
        members.last_number += 1;
        let number = members.last_number;
        members.by_number.insert(number, Arc::downgrade(session));
        Registration { sessions: Arc::downgrade(self), number }
    }

    /// Returns the sessions that have not ended, in the order in which they were opened.
    pub(super) fn open(&self) -> impl Iterator<Item = Arc<Session>> {
        // Collected first, since dropping the last reference to a session locks the set.
        let sessions: Vec<_> = self.members.lock().by_number.values().filter_map(Weak::upgrade).collect();
        sessions.into_iter().filter(|session| !session.has_ended())
    }

    /// Sends an encoded log message to the sessions that have asked for its level, and counts the sessions that cannot
    /// receive it.
    pub(crate) fn log(&self, level: Level, message: &[u8]) {
        let dropped = self.open().filter(|session| !session.log(level, message)).count();
        self.count_dropped(dropped as u64);
    }

    /// Counts log messages that could not be sent.
    pub(super) fn count_dropped(&self, messages: u64) {
        self.dropped_log_messages.fetch_add(messages, Ordering::Relaxed);
    }

    /// Returns the number of log messages that could not be sent.
    pub(crate) fn dropped_log_messages(&self) -> u64 {
        self.dropped_log_messages.load(Ordering::Relaxed)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(sessions) = self.sessions.upgrade() {
            sessions.members.lock().by_number.remove(&self.number);
        }
    }
}

/// Whether the client of a session is alive, as observed by a task that pings it.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// Whether the client has sent a message, or read output that was waiting, since the task last cleared the flag.
    /// Messages set a flag, not a time, so that they neither read a clock nor reset a timer.
    is_active: AtomicBool,
    /// The task that pings the client. It is aborted when the pings end.
    task: OnceLock<AbortHandle>,
}

impl Liveness {
    /// Ends the pings.
    fn stop(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Returns whether there has been a sign of life since the previous call.
    fn take(&self) -> bool {
        self.is_active.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Session {
    /// Starts to ping the client, if the server is configured to do so.
    pub(super) fn start_pings(self: &Arc<Self>, limits: &Limits) {
        if let Some((liveness, interval)) = self.liveness.as_ref().zip(limits.ping_interval) {
            let [interval, limit] = [interval, limits.ping_timeout].map(|it| it.clamp(MIN_PERIOD, MAX_PERIOD));
            let task = tokio::spawn(watch(Arc::downgrade(self), interval, limit));
            let _ = liveness.task.set(task.abort_handle());
        }
    }
}

/// Pings the client of a session whenever it is silent for the interval, until the session ends. Ends the session if
/// the client does not answer within `limit`.
async fn watch(session: Weak<Session>, interval: Duration, limit: Duration) {
    let mut timer = pin!(sleep(interval));
    loop {
        timer.as_mut().await;
        let Some(session) = session.upgrade() else { return };
        if !is_alive(&session, limit, timer.as_mut()).await {
            let client = session.info.client.as_ref().map(|client| client.name.as_str());
            tracing::warn!(client, ?limit, "ending a session: the client did not answer a ping");
            session.end_because(Some(TIMEOUT));
            return;
        }
        timer.as_mut().reset(time::Instant::now() + interval);
    }
}

/// Returns whether the client has shown a sign of life recently, cannot be pinged, or shows one within `limit` after a
/// ping. A ping may have to wait behind output that the client is still reading, which is a sign of life, too.
async fn is_alive(session: &Arc<Session>, limit: Duration, mut timer: Pin<&mut Sleep>) -> bool {
    let Some(liveness) = &session.liveness else { return true };
    if liveness.take() || !session.outbox.has_reader() {
        return true;
    }
    timer.as_mut().reset(time::Instant::now() + limit);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::ClientInfo;

    #[test]
    fn sessions_of_the_same_client_share_the_outcome_of_initialize() {
        let recent = RecentInfos::default();
        let info = |name: &str, principal: Option<&str>| SessionInfo {
            dialect: crate::revision::newest_handshake(),
            client: Some(ClientInfo { name: name.to_owned(), ..ClientInfo::default() }),
            capabilities: "{}".into(),
            principal: principal.map(Into::into),
        };
        let first = recent.share(info("a", None));
        for (name, principal, is_shared) in
            [("a", None, true), ("b", None, false), ("a", Some("ada"), false), ("a", None, true)]
        {
            let info = recent.share(info(name, principal));
            assert_eq!(Arc::ptr_eq(&info, &first), is_shared, "{name} {principal:?}");
        }
        let (dialect, capabilities) = (crate::revision::newest(), r#"{"roots":{}}"#.into());
        for other in [SessionInfo { dialect, ..info("a", None) }, SessionInfo { capabilities, ..info("a", None) }] {
            assert!(!Arc::ptr_eq(&recent.share(other), &first), "another negotiation");
        }
        let others: Vec<_> =
            (0..3 * MAX_RECENT_INFOS).map(|number| recent.share(info(&number.to_string(), None))).collect();
        assert_eq!(recent.0.lock().len(), MAX_RECENT_INFOS);
        drop(others);
        assert!(recent.0.lock().iter().all(|info| info.strong_count() == 0), "the list keeps nothing alive");
    }

    /// Requests that are being handled may hold the session for longer.
    #[cfg(feature = "http")]
    #[test]
    fn the_subscriptions_of_a_session_end_with_it() {
        let subscriptions = Arc::<crate::engine::subscriptions::Subscriptions>::default();
        let (count, mut session) = (Arc::new(()), Session::for_test());
        let guard = Arc::clone(&count);
        subscriptions.on_subscribe(move |_, _| Some(Box::new(Arc::clone(&guard))));
        let subscriber =
            Subscriber::of_session(&subscriptions, &session.outbox, ListSet::listed_in(session.info.dialect));
        subscriber.subscribe_resource("a:b", &|_| true).unwrap();
        session.subscriber = Some(subscriber);
        assert_eq!(Arc::strong_count(&count), 3);
        session.end();
        assert_eq!(Arc::strong_count(&count), 2);
    }

    #[cfg(all(feature = "cluster", feature = "http"))]
    #[test]
    fn only_lost_requests_are_withdrawn() {
        use tokio::sync::oneshot::error::TryRecvError;

        let session = Arc::new(Session::for_test());
        let pending = Arc::new(PendingRequests::new(2));
        let [mut lost, mut kept] = [(); 2].map(|()| {
            let operation = crate::engine::request::operation::Operation::to_client(&session, "ping");
            pending.send_request(operation, &session.outbox, ("ping", "{}"), false).unwrap()
        });
        let mut ids = pending.ids();
        ids.sort_unstable();
        let mut lines = Vec::new();
        session.outbox.drain(&mut lines);
        lines.clear();
        pending.withdraw(|id| id == ids[0]);
        assert!(matches!(lost.response.try_recv(), Err(TryRecvError::Closed)));
        assert!(matches!(kept.response.try_recv(), Err(TryRecvError::Empty)));
        assert_eq!(pending.ids(), ids[1..]);
        session.outbox.drain(&mut lines);
        let cancelled = format!(r#""params":{{"requestId":{},"#, ids[0]);
        let lines = String::from_utf8(lines).unwrap();
        assert!(lines.lines().count() == 1 && lines.contains(&cancelled), "{lines}");
    }

    /// The client cannot answer a ping that was not sent, or whose answer could not be received.
    #[cfg(all(feature = "cluster", feature = "http"))]
    #[tokio::test(start_paused = true)]
    async fn a_client_is_alive_while_its_replica_has_no_slot() {
        use crate::{backend::MemoryBackend, cluster::Cluster, engine::replicas::Slot};

        const LIMIT: Duration = Duration::from_secs(1);

        let mut session = Session::for_test();
        session.liveness = Some(Box::default());
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
