//! A session with a client, and its log messages outside of calls.

use std::{
    any::Any,
    collections::VecDeque,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Instant,
};

use tokio::{sync::Notify, task::AbortHandle};

use super::{
    call::in_flight::InFlight,
    limits::PingSchedule,
    outbox::Outbox,
    pending_requests::{PendingRequests, session_ended},
    rates::FlowControl,
    subscriptions::subscriber::Subscriber,
    weak_set::{Registration, WeakSet},
};
use crate::{
    handler::{CallConnection as _, ClientInfo},
    model::Level,
    mutex::Mutex,
    revision::Dialect,
    telemetry::{Network, SessionEnd, SharedTelemetry, Telemetry as _},
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
    pub(super) answer_timeout: std::time::Duration,
    #[cfg(feature = "ask")]
    pub(crate) roots: super::client_requests::RootsCache,
    pub(crate) in_flight: Arc<InFlight>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has several connections per session"))]
    pub(crate) flow: Arc<FlowControl>,
    /// The destination of messages that belong to no request.
    pub(crate) outbox: Arc<Outbox>,
    /// The subscriptions of the session. `None` if the server did not declare in `initialize` that its lists may
    /// change.
    pub(crate) subscriber: Option<Subscriber>,
    /// Whether the server declared in `initialize` that it sends log messages.
    pub(crate) declares_logging: bool,
    pub(super) lifecycle: Lifecycle,
    /// The state that the session shares with other processes, in a type of `cluster`. Unset if only this process knows
    /// the session.
    pub(crate) shared: OnceLock<Box<dyn Any + Send + Sync>>,
    /// Pings the client when it is silent. `None` if pings are disabled.
    pub(super) liveness: Option<Box<Liveness>>,
    /// Receives what is measured. `None` if the server has no telemetry.
    pub(super) telemetry: Option<Box<SessionTelemetry>>,
    /// Removes the session from the set of open sessions when dropped.
    pub(super) registration: OnceLock<Registration<Session>>,
}

/// The outcome of `initialize`.
#[derive(Debug)]
pub(crate) struct SessionInfo {
    pub(crate) dialect: &'static Dialect,
    pub(crate) client: Option<ClientInfo>,
    /// The JSON of the client's capabilities.
    pub(crate) capabilities: Arc<str>,
    /// The principal that opened the session, and the only one that may use it.
    pub(crate) principal: Option<Box<str>>,
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

/// The phases of a session. Each begins once.
#[derive(Debug, Default)]
pub(super) struct Lifecycle {
    /// Whether the client has sent `notifications/initialized`.
    pub(super) is_initialized: AtomicBool,
    pub(super) has_ended: AtomicBool,
    pub(super) changed: Notify,
}

impl Lifecycle {
    /// Begins a phase. Returns `false` if it has begun before.
    fn begin(&self, phase: &AtomicBool) -> bool {
        let is_first = !phase.swap(true, Ordering::SeqCst);
        if is_first {
            self.changed.notify_waiters();
        }
        is_first
    }
}

impl Session {
    /// Sets the id of the session, unless it has one.
    #[cfg(any(feature = "http", feature = "tasks"))]
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
        let is_first = self.lifecycle.begin(&self.lifecycle.is_initialized);
        if let Some(subscriber) = &self.subscriber {
            subscriber.ready();
        }
        is_first
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.lifecycle.is_initialized.load(Ordering::Acquire)
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
            liveness.record();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lifecycle.has_ended.load(Ordering::Acquire)
    }

    /// Ends the session: withdraws its requests to the client, fails its calls, stops its subscriptions and pings, and
    /// closes its output.
    pub(crate) fn end(&self) {
        self.end_because(None);
    }

    /// Ends the session, because of an error of this class if there is one.
    pub(super) fn end_because(&self, error_type: Option<&'static str>) {
        if !self.lifecycle.begin(&self.lifecycle.has_ended) {
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
            telemetry.session_ended(&SessionEnd { protocol_version, network, error_type, duration });
        }
    }
}

#[cfg(all(test, feature = "http"))]
impl Session {
    pub(crate) fn for_test() -> Self {
        let flow = Arc::new(FlowControl::new(&super::rates::SessionRates::default()));
        Self {
            id: OnceLock::new(),
            roots: super::client_requests::RootsCache::new("{}"),
            info: Arc::new(SessionInfo {
                dialect: crate::revision::newest_handshake(),
                client: None,
                capabilities: "{}".into(),
                principal: None,
            }),
            answer_timeout: std::time::Duration::ZERO,
            declares_logging: false,
            lifecycle: Lifecycle::default(),
            shared: OnceLock::new(),
            liveness: None,
            telemetry: None,
            registration: OnceLock::new(),
            pending_requests: Arc::new(PendingRequests::new(0)),
            in_flight: Arc::default(),
            outbox: Arc::new(Outbox::new(Arc::clone(&flow))),
            flow,
            subscriber: None,
        }
    }
}

/// Sends log messages to the sessions of this process, and counts the messages that cannot be sent.
#[derive(Debug)]
pub(crate) struct SessionLog {
    sessions: Arc<WeakSet<Session>>,
    dropped: AtomicU64,
}

impl SessionLog {
    pub(super) fn new(sessions: &Arc<WeakSet<Session>>) -> Self {
        Self { sessions: Arc::clone(sessions), dropped: AtomicU64::new(0) }
    }

    /// Sends an encoded message to the sessions that have asked for its level.
    pub(crate) fn send(&self, level: Level, message: &[u8]) {
        let open = self.sessions.iter().filter(|session| !session.has_ended());
        let dropped = open.filter(|session| !session.log(level, message)).count();
        self.count_dropped(dropped as u64);
    }

    /// Counts messages that could not be sent.
    pub(super) fn count_dropped(&self, messages: u64) {
        self.dropped.fetch_add(messages, Ordering::Relaxed);
    }

    /// Returns the number of messages that could not be sent.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Whether the client of a session is alive, as observed by a task that pings it.
#[derive(Debug)]
pub(super) struct Liveness {
    pub(super) schedule: PingSchedule,
    /// Whether the client has sent a message, or read output that was waiting, since the task last cleared the flag.
    /// Messages set a flag, not a time, so that they neither read a clock nor reset a timer.
    is_active: AtomicBool,
    task: OnceLock<AbortHandle>,
}

impl Liveness {
    pub(super) fn new(schedule: PingSchedule) -> Self {
        Self { schedule, is_active: AtomicBool::new(false), task: OnceLock::new() }
    }

    /// Sets the task that pings the client. It is aborted when the pings end.
    pub(super) fn set_task(&self, task: AbortHandle) {
        let _ = self.task.set(task);
    }

    /// Ends the pings.
    pub(super) fn stop(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Records a sign of life.
    pub(super) fn record(&self) {
        self.is_active.store(true, Ordering::Relaxed);
    }

    /// Returns whether there has been a sign of life since the previous call.
    pub(super) fn take(&self) -> bool {
        self.is_active.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Liveness {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let subscriptions = Arc::<crate::engine::subscriptions::subscriber::Subscriptions>::default();
        let (count, mut session) = (Arc::new(()), Session::for_test());
        let guard = Arc::clone(&count);
        subscriptions.on_subscribe(move |_, _| Some(Box::new(Arc::clone(&guard))));
        let subscriber = Subscriber::of_session(&subscriptions, &session.outbox, session.info.dialect);
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
}
