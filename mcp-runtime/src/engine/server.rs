//! The state that all connections of a server share.

use std::{
    io,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::SetOnce;

use super::{
    call::in_flight::InFlight,
    limits::{FlowControl, PeerRates},
    outbox::Outbox,
    pending_requests::PendingRequests,
    profile::Profile,
    replicas::Replicas,
    session::{Declared, RecentInfos, Session, SessionTelemetry, Sessions},
    subscriptions::{Subscriber, Subscriptions},
    tasks::Tasks,
};
use crate::{
    backend::ServerBackend,
    counters::EndpointStats,
    error::BuildError,
    handler::{Encoding, SessionInfo, StateMap},
    model::{CacheScope, Level},
    registry::{ListSet, Pager, Registry},
    revision::{self, Dialect, Revision},
    stdx::Mutex,
    telemetry::Network,
};

/// A built server: the state that its connections share.
#[derive(Debug)]
pub(crate) struct Engine {
    /// The current registry. Readers never wait for a change.
    registry: ArcSwap<Registry>,
    /// The lock that is held while a registry is replaced, so that concurrent changes do not overwrite each other.
    changing: Mutex<()>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// The sessions. Transports limit their number.
    pub(crate) sessions: Arc<Sessions>,
    recent_infos: RecentInfos,
    pub(crate) peer_rates: PeerRates,
    /// Whether the server declares that its lists may change.
    announces_changes: AtomicBool,
    pub(crate) states: Arc<StateMap>,
    pub(crate) profile: Profile,
    /// Seals the states of requests between their rounds or, without the feature `sealed-state`, keeps them.
    #[cfg(feature = "ask")]
    pub(super) round_states: Arc<super::client_requests::RoundStates>,
    /// The processes that share the backend. `None` if the author has not set a backend.
    replicas: Option<Arc<dyn Replicas>>,
    pub(crate) tasks: Arc<Tasks>,
    /// The HTTP endpoints that serve this server.
    pub(super) endpoints: Mutex<Vec<Weak<dyn EndpointStats>>>,
    /// One for each of [`Revision::ALL`].
    encodings: [Arc<Encoding>; Revision::ALL.len()],
}

impl Engine {
    /// Creates the engine of a server. `backend` is the backend that the processes of `replicas` share or, without them, one
    /// in memory.
    pub(crate) fn new(
        registry: Registry,
        states: StateMap,
        profile: Profile,
        backend: ServerBackend,
        replicas: Option<Arc<dyn Replicas>>,
        announces_changes: bool,
    ) -> Self {
        let encodings = revision::DIALECTS.map(|dialect| Arc::new(profile.encoding(dialect)));
        let name = profile.first_name();
        #[cfg(feature = "sealed-state")]
        let round_states = super::client_requests::RoundStates::new(
            profile.state_keys.clone(),
            profile.limits.round_ttl,
            name,
            replicas.clone(),
        );
        #[cfg(all(feature = "ask", not(feature = "sealed-state")))]
        let round_states = super::client_requests::RoundStates::new(profile.limits.round_ttl);
        let tasks = Tasks::new(backend, replicas.clone(), profile.limits.clone(), name);
        Self {
            registry: ArcSwap::from_pointee(registry),
            changing: Mutex::default(),
            subscriptions: Arc::default(),
            sessions: Arc::default(),
            recent_infos: RecentInfos::default(),
            peer_rates: PeerRates::default(),
            announces_changes: AtomicBool::new(announces_changes),
            states: Arc::new(states),
            #[cfg(feature = "ask")]
            round_states: Arc::new(round_states),
            tasks: Arc::new(tasks),
            replicas,
            profile,
            endpoints: Mutex::default(),
            encodings,
        }
    }

    /// Returns the current registry.
    pub(crate) fn registry(&self) -> Guard<Arc<Registry>> {
        self.registry.load()
    }

    /// Returns the processes that share the backend. Returns `None` if the backend is not shared.
    pub(crate) fn replicas(&self) -> Option<&Arc<dyn Replicas>> {
        self.replicas.as_ref()
    }

    /// Checks that the backend belongs to this server.
    pub(crate) async fn check_name(&self) -> io::Result<()> {
        let Some(replicas) = self.replicas() else { return Ok(()) };
        replicas.check_name().await.map_err(|mismatch| io::Error::new(io::ErrorKind::InvalidInput, mismatch))
    }

    pub(super) fn announces_changes(&self) -> bool {
        self.announces_changes.load(Ordering::Acquire)
    }

    pub(super) fn encoding(&self, dialect: &'static Dialect) -> &Arc<Encoding> {
        &self.encodings[dialect.revision() as usize]
    }

    pub(super) fn pager(&self, dialect: &'static Dialect) -> Pager<'_> {
        let Profile { visibility, hides_unauthorized, list_caches, limits, .. } = &self.profile;
        let encoding = self.encoding(dialect);
        let is_limited = visibility.is_some() || *hides_unauthorized;
        let caches = list_caches.map(|declared| match declared {
            Some((ttl, _)) if is_limited => (ttl, CacheScope::Private),
            Some(cache) => cache,
            None => (limits.list_ttl, encoding.cache_scope()),
        });
        Pager { encoding, page_size: limits.page_size, caches: Some(caches) }
    }

    /// Returns the result of `initialize` or, in a stateless dialect, of `server/discover`.
    pub(super) fn description<'a>(&self, registry: &'a Registry, dialect: &'static Dialect) -> &'a [u8] {
        registry
            .description(dialect, || self.profile.describe(dialect, registry.capabilities, self.announces_changes()))
    }

    /// Opens a session with its outbox for messages that belong to no request, and starts to ping its client. `network`
    /// is the transport of its `initialize`, if that was handled by this process.
    pub(super) fn open_session(
        &self,
        info: SessionInfo,
        declared: Declared,
        outbox: Arc<Outbox>,
        in_flight: Arc<InFlight>,
        network: Option<Network>,
    ) -> Arc<Session> {
        let limits = &self.profile.limits;
        let subscribe = |lists| Subscriber::of_session(&self.subscriptions, &outbox, lists);
        let telemetry = self.profile.telemetry.clone().map(|telemetry| {
            let opened = network.map(|_| Instant::now());
            Box::new(SessionTelemetry { telemetry, network: network.unwrap_or(Network::HTTP), opened })
        });
        let session = Arc::new(Session {
            id: OnceLock::new(),
            #[cfg(feature = "ask")]
            roots: super::client_requests::RootsCache::new(&info.capabilities),
            info: self.recent_infos.share(info),
            pending_requests: Arc::new(PendingRequests::new(limits.in_flight)),
            #[cfg(feature = "ask")]
            answer_timeout: limits.answer_timeout,
            in_flight,
            subscriber: declared.lists.map(subscribe),
            outbox,
            declares_logging: declared.logging,
            initialized: SetOnce::new(),
            ended: SetOnce::new(),
            shared: OnceLock::new(),
            liveness: limits.ping_interval.map(|_| Box::default()),
            telemetry,
            registration: OnceLock::new(),
        });
        let _ = session.registration.set(self.sessions.insert(&session));
        session.start_pings(limits);
        session
    }

    /// Creates a copy of a session that another replica has opened.
    pub(crate) fn restore_session(&self, info: SessionInfo, declared: Declared) -> Arc<Session> {
        self.start_background();
        let outbox = Arc::new(Outbox::new(Arc::new(FlowControl::new(&self.profile.limits.rates))));
        self.open_session(info, declared, outbox, Arc::default(), None)
    }

    /// Sends an encoded log message to the sessions of all processes that have asked for its level, and counts the
    /// sessions of this process that cannot receive it.
    pub(crate) fn log(&self, level: Level, message: &[u8]) {
        self.sessions.log(level, message);
        if self.replicas.as_ref().is_some_and(|replicas| !replicas.log(level, message)) {
            self.sessions.count_dropped(1);
        }
    }

    /// Returns the sessions that have not ended.
    #[cfg(feature = "ask")]
    pub(crate) fn open_sessions(&self) -> impl Iterator<Item = Arc<dyn crate::handler::SessionPeer>> {
        self.sessions.open().map(|session| Arc::new(super::client_requests::LiveRequester::of_session(&session)) as _)
    }

    /// Starts the exchange of shared state with other processes, if there is any, unless it has been started or there
    /// is no runtime. Code that depends on the exchange calls this first.
    pub(crate) fn start_background(&self) {
        if let Some(replicas) = &self.replicas {
            replicas.start();
        }
    }

    /// Notifies the subscribers of these lists, in all processes of the service.
    pub(crate) fn lists_changed(&self, lists: ListSet) {
        self.subscriptions.lists_changed(lists);
        if let Some(replicas) = &self.replicas {
            replicas.lists_changed(lists);
        }
    }

    /// Notifies the subscribers of a resource, in all processes of the service.
    pub(crate) fn resource_updated(&self, uri: &str) {
        self.subscriptions.resource_updated(uri);
        if let Some(replicas) = &self.replicas {
            replicas.resource_updated(uri);
        }
    }

    /// Returns what is wrong with the backend, or `None` if nothing is, or if the state is kept in memory.
    pub(crate) async fn backend_problem(&self) -> Option<&'static str> {
        match &self.replicas {
            Some(replicas) => replicas.problem().await,
            None => None,
        }
    }

    /// Waits until the changes that this process has made are announced to the other processes, for at most half a
    /// second.
    pub(crate) async fn flush_changes(&self) {
        if let Some(replicas) = &self.replicas {
            replicas.flush().await;
        }
    }

    /// Leaves the other processes once nothing else uses this server. Waits for that for at most a second.
    #[cfg(feature = "http")]
    pub(crate) async fn leave(self: Arc<Self>) {
        let Some(left) = self.replicas.as_ref().map(|replicas| replicas.left()) else { return };
        drop(self);
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), left).await;
    }

    /// Returns how long the shutdown of this server may take beyond its grace period.
    pub(crate) fn shutdown_margin(&self) -> std::time::Duration {
        // With a backend: to store the last responses, to announce the last changes, and to leave.
        std::time::Duration::from_secs(if self.replicas.is_some() { 5 } else { 1 })
    }

    /// Replaces the registry with the registry that `change` returns, if any, and notifies subscribers. Returns whether
    /// it was replaced.
    ///
    /// # Errors
    ///
    /// Returns the error of `change`. In that case, nothing changes.
    pub(crate) fn change(
        &self,
        change: impl FnOnce(&Registry) -> Result<Option<Registry>, BuildError>,
    ) -> Result<bool, BuildError> {
        let changed = self.replace_registry(change).map_err(BuildError::of_change)?;
        if let Some(lists) = changed {
            self.lists_changed(lists);
        }
        Ok(changed.is_some())
    }

    /// Replaces the registry with the registry that `change` returns. Returns the lists that changed, or `None` if
    /// `change` returns no registry.
    fn replace_registry(
        &self,
        change: impl FnOnce(&Registry) -> Result<Option<Registry>, BuildError>,
    ) -> Result<Option<ListSet>, BuildError> {
        let _guard = self.changing.lock();
        let before = self.registry.load_full();
        let Some(after) = change(&before)? else { return Ok(None) };
        let lists = before.changed_lists(&after);
        self.registry.store(after.into());
        Ok(Some(lists))
    }

    /// Starts to declare to clients that the lists may change.
    pub(crate) fn announce_changes(&self) {
        if !self.announces_changes.swap(true, Ordering::AcqRel) {
            // The change returns no error, so this cannot fail.
            let _ = self.replace_registry(|registry| Ok(Some(registry.unprepared())));
        }
    }
}
