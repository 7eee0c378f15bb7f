//! Everything that exists because several processes share a backend.
//!
//! A process is a [`Replica`] with a number, its [`Slot`]. The slot is a record that expires unless the replica renews
//! it, so the other replicas see when a replica is gone. Messages are delivered at most once: whatever they announce
//! must be found in a record as well, and is read again when a replica [missed](crate::engine::ReplicaHandler::missed)
//! messages.
//!
//! The engine meets this module as its [`Replicas`], and HTTP as [`Sessions`](crate::transport::http::session).
//! Neither names anything of it: the server connects them.
//!
//! - The member and the bus, messages between replicas by kind: [`replica`], with its [`lease`], and the probe of the
//!   backend.
//! - Sessions that every replica can use ([`sessions`]): their records and what replicas announce to each other about
//!   them, the store of the records, and the worker that catches up with it.
//! - Their event streams ([`streams`]).
//! - [`notifications`] of changes and log messages outside of calls, and the [`keys`] that seal the state of requests.
//!
//! See [Session management](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).

mod keys;
mod lease;
mod notifications;
mod replica;
#[cfg(feature = "http")]
mod sessions;
#[cfg(feature = "http")]
mod streams;

use std::{
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use self::{
    keys::StoredKeys,
    lease::ServerName,
    notifications::{SharedChanges, SharedLog},
    replica::{BackgroundTask, Replica},
};
#[cfg(feature = "http")]
use crate::transport::http::{
    HttpOptions,
    session::{LocalSessions, Sessions},
};
use crate::{
    backend::{Backend, BackendClock, BackendFuture, with_timeout},
    engine::{Engine, Profile, ReplicaHandler, Replicas, SharedKeys, Slot},
    model::Level,
    registry::ListSet,
};

/// The record that is read to see whether the backend responds. It need not exist.
const READINESS: &str = "mcp/1/ready";
/// The time for which a result is used again, so that frequent probes do not burden the backend.
const MAX_READINESS_AGE: Duration = Duration::from_secs(1);

/// The settings of a server whose processes share a backend.
#[derive(Debug)]
pub(crate) struct ClusterOptions {
    pub(crate) backend: Option<Arc<dyn Backend>>,
    /// How long the other processes wait for a process that gives no sign of life.
    pub(crate) lease: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { backend: None, lease: Duration::from_secs(10) }
    }
}

/// This process among the processes that share a backend, with everything that they exchange.
#[derive(Debug)]
pub(crate) struct Cluster {
    replica: Arc<Replica>,
    changes: Arc<SharedChanges>,
    log: Arc<SharedLog>,
    /// `None` if the author has set keys.
    keys: Option<Arc<StoredKeys>>,
    /// When a probe asked the backend last, and why the server cannot do its work, if it cannot.
    last_probe: tokio::sync::Mutex<Option<(tokio::time::Instant, Option<&'static str>)>>,
    background: BackgroundTask,
}

impl Cluster {
    /// Creates the cluster of a server, or `None` if its processes share no backend.
    pub(crate) fn of_server(options: ClusterOptions, profile: &Profile) -> Option<Arc<Self>> {
        let name = ServerName { name: profile.identity.name.clone(), former: profile.former_names.clone() };
        let replica = Replica::with_name(options.backend?, options.lease, Some(name));
        let cluster = Self::new(replica, profile.state_keys.is_empty().then_some(profile.limits.round_ttl));
        Some(Arc::new(cluster))
    }

    /// Creates the cluster of a replica. `round_ttl` is how long a state lives that shared keys seal, if any do.
    fn new(replica: Replica, round_ttl: Option<Duration>) -> Self {
        let replica = Arc::new(replica);
        let (backend, clock) = (replica.backend(), replica.clock());
        let keys = round_ttl.map(|ttl| Arc::new(StoredKeys::new(Arc::clone(backend), Arc::clone(clock), ttl)));
        Self {
            changes: SharedChanges::new(&replica),
            log: SharedLog::new(&replica),
            keys,
            last_probe: tokio::sync::Mutex::default(),
            background: BackgroundTask::default(),
            replica,
        }
    }

    /// Creates the cluster of a server without a name, as the engine sees it.
    #[cfg(test)]
    pub(crate) fn for_test(backend: Arc<dyn Backend>, lease: Duration) -> Arc<dyn Replicas> {
        Arc::new(Self::new(Replica::new(backend, lease), None))
    }

    /// Sets the server whose sessions hear of what other processes announce.
    pub(crate) fn connect(&self, engine: &Arc<Engine>) {
        self.log.connect(&engine.sessions);
        self.changes.connect(engine);
    }

    /// Returns the sessions of an endpoint of the server, which every process can use.
    #[cfg(feature = "http")]
    pub(crate) fn sessions(
        &self,
        engine: &Arc<Engine>,
        local: &Arc<LocalSessions>,
        options: &HttpOptions,
    ) -> Arc<dyn Sessions> {
        sessions::ReplicaSessions::new(&self.replica, engine, local, options)
    }
}

impl Replicas for Cluster {
    fn start(&self) {
        self.background.ensure_running(|| {
            let (changes, log, keys) = (Arc::clone(&self.changes), Arc::clone(&self.log), self.keys.clone());
            let replica = Arc::clone(&self.replica);
            async move {
                // If this fails, the task of the replica repeats it.
                let _ = replica.join().await;
                let keys = async {
                    if let Some(keys) = keys {
                        keys.run().await;
                    }
                };
                tokio::join!(changes.run(), log.run(), keys);
            }
        });
    }

    fn check_name(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(self.replica.check_name())
    }

    fn join(&self) -> BackendFuture<'_, Slot> {
        Box::pin(self.replica.join())
    }

    fn slot(&self) -> Option<Slot> {
        self.replica.slot()
    }

    fn new_id(&self) -> Option<u64> {
        self.replica.slot().map(|slot| self.replica.next_id(slot))
    }

    fn is_alive(&self, slot: Slot) -> BackendFuture<'_, bool> {
        Box::pin(self.replica.is_alive(slot))
    }

    fn knows_who_is_gone(&self) -> bool {
        self.replica.knows_who_is_gone()
    }

    fn lease(&self) -> Duration {
        self.replica.lease()
    }

    fn clock(&self) -> &Arc<BackendClock> {
        self.replica.clock()
    }

    fn add_handler(&self, kind: &'static str, handler: Weak<dyn ReplicaHandler>) {
        self.replica.add_handler(kind, handler);
    }

    fn announce<'a>(&'a self, kind: &'a str, payload: &'a [u8]) -> BackendFuture<'a, ()> {
        Box::pin(self.replica.announce(kind, payload))
    }

    fn left(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.replica.left())
    }

    fn lists_changed(&self, lists: ListSet) {
        self.start();
        self.changes.lists_changed(lists);
    }

    fn resource_updated(&self, uri: &str) {
        self.start();
        self.changes.resource_updated(uri);
    }

    fn log(&self, level: Level, message: &[u8]) -> bool {
        self.start();
        self.log.send(level, message)
    }

    fn flush(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.changes.flush())
    }

    fn keys(&self) -> Option<&dyn SharedKeys> {
        self.keys.as_deref().map(|keys| keys as &dyn SharedKeys)
    }

    #[cfg(feature = "http")]
    fn is_read<'a>(&'a self, session: &'a str) -> BackendFuture<'a, bool> {
        Box::pin(streams::ReaderRecord::is_read(&self.replica, session))
    }

    #[cfg(not(feature = "http"))]
    fn is_read<'a>(&'a self, _: &'a str) -> BackendFuture<'a, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    /// Concurrent probes ask the backend once. Whether it accepts changes is known from the lease, so that probes need not
    /// write.
    fn problem(&self) -> Pin<Box<dyn Future<Output = Option<&'static str>> + Send + '_>> {
        Box::pin(async move {
            let mut last = self.last_probe.lock().await;
            let before = match *last {
                Some((at, problem)) if at.elapsed() < MAX_READINESS_AGE => return problem,
                before => before.and_then(|(_, problem)| problem),
            };
            let problem = match with_timeout(self.replica.backend().get(READINESS)).await {
                Err(error) => {
                    if before.is_none() {
                        tracing::warn!(%error, "not ready");
                    }
                    Some("the backend does not respond")
                }
                Ok(_) if self.replica.can_write().await => None,
                Ok(_) => {
                    if before.is_none() {
                        tracing::warn!("not ready: the backend accepts no changes");
                    }
                    Some("the backend accepts no changes")
                }
            };
            if before.is_some() && problem.is_none() {
                tracing::warn!("ready again: the backend responds, and accepts changes");
            }
            *last = Some((tokio::time::Instant::now(), problem));
            problem
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::{
        backend::MemoryBackend,
        testing::test_backend::{BackendMethod, BackendOperation, Failing, TestBackend, unavailable},
    };

    #[tokio::test(start_paused = true)]
    async fn a_probe_soon_tells_whether_the_backend_responds() {
        let is_down = Arc::new(AtomicBool::new(false));
        let down = Arc::clone(&is_down);
        let fails = move |operation: BackendOperation<'_>| match operation.method {
            BackendMethod::Get if down.load(Ordering::Relaxed) => Err(unavailable()),
            _ => Ok(()),
        };
        let backend = TestBackend::<_, MemoryBackend>::new(Failing(fails));
        let cluster = Cluster::for_test(Arc::new(backend), Duration::from_secs(60));
        for (fails, expected) in [(false, None), (true, Some("the backend does not respond")), (false, None)] {
            is_down.store(fails, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert_eq!(cluster.problem().await, expected);
        }
    }
}
