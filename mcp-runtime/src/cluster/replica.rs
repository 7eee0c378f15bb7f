//! This process among the processes that share a backend, and the messages between them.

use std::{
    convert::Infallible,
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Notify, oneshot, watch},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::lease::{Freshness, Lease, ServerName};
use crate::{
    backend::{
        BACKEND_TIMEOUT, Backend, BackendClock, BackendError, Backoff, TopicEvent, TopicSubscription, with_timeout,
    },
    engine::{ReplicaHandler, Slot},
    stdx::{Mutex, OnDrop, debug, race},
};

/// The topic of the messages to all replicas.
const ANNOUNCEMENTS: &str = "mcp/1/replicas";

/// The longest time between two attempts to reach a backend that has failed.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(1);

/// This process among the processes that share a backend.
///
/// Call [`join`](Self::join) before anything that other processes must be able to attribute to this process: it starts
/// the task that takes a slot, renews it, and passes messages to the [handlers](ReplicaHandler). Dropping the replica
/// releases the slot.
#[derive(Debug)]
pub(crate) struct Replica {
    membership: Arc<Membership>,
    last_number: AtomicU32,
    task: Mutex<Option<Task>>,
}

/// State shared by the replica and its task.
#[derive(Debug)]
struct Membership {
    backend: Arc<dyn Backend>,
    lease: Duration,
    status: watch::Sender<Status>,
    handlers: Handlers,
    freshness: Arc<Freshness>,
    clock: Arc<BackendClock>,
    /// The name of the server, which all processes that share the backend must have. `None` in tests.
    name: Option<ServerName>,
    /// Whether the last attempt to renew the lease has failed.
    is_failing: AtomicBool,
    /// Notified when the lease may be gone, since the backend may have lost its data.
    is_renewal_due: Notify,
    /// The time at which this replica last lost a slot or took another one. `None` if it has lost none.
    slot_changed: Mutex<Option<Instant>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Status {
    Joining,
    Joined(Slot),
    Failed(BackendError),
}

#[derive(Debug)]
struct Task {
    handle: JoinHandle<()>,
    /// Ends the task when dropped.
    _stop: oneshot::Sender<Infallible>,
}

impl Replica {
    /// Creates a replica of a server without a name.
    #[cfg(test)]
    pub(crate) fn new(backend: Arc<dyn Backend>, lease: Duration) -> Self {
        Self::with_name(backend, lease, None)
    }

    /// Creates a replica that has no slot yet. Without renewal, the slot expires after `lease`.
    pub(crate) fn with_name(backend: Arc<dyn Backend>, lease: Duration, name: Option<ServerName>) -> Self {
        let handlers = Handlers::default();
        let freshness = Arc::new(Freshness::new(lease));
        handlers.add(Freshness::ECHO, Arc::downgrade(&freshness) as Weak<dyn ReplicaHandler>);
        let membership = Membership {
            backend,
            lease,
            status: watch::Sender::new(Status::Joining),
            handlers,
            freshness,
            clock: Arc::default(),
            name,
            is_failing: AtomicBool::new(false),
            is_renewal_due: Notify::new(),
            slot_changed: Mutex::default(),
        };
        Self { membership: Arc::new(membership), last_number: AtomicU32::new(0), task: Mutex::default() }
    }

    /// Checks that no other server uses the backend.
    ///
    /// # Errors
    ///
    /// Returns a message that names both servers. A backend that does not respond is not an error.
    pub(crate) async fn check_name(&self) -> Result<(), String> {
        match self.membership.claim_name().await {
            Ok(Some(mismatch)) => Err(mismatch),
            _ => Ok(()),
        }
    }

    /// Returns the name of the server, which is empty in tests.
    pub(crate) fn server_name(&self) -> &str {
        self.membership.name.as_ref().map_or("", |name| &name.name)
    }

    /// Returns whether this server may use what a server with this name has stored. The name is empty if it is unknown.
    pub(crate) fn accepts_server(&self, name: &str) -> bool {
        name.is_empty() || self.membership.name.as_ref().is_none_or(|own| own.accepts(name))
    }

    /// Returns whether this replica has heard of everything that was announced more than a lease ago, and was not paused
    /// since. Otherwise, state that was read must be read again before it is used. This takes no lock, and does not use
    /// the backend.
    pub(crate) fn is_fresh(&self, at: Instant) -> bool {
        self.membership.freshness.is_fresh(at)
    }

    /// Returns whether the backend accepts changes, by the result of the last renewal of the lease. Takes a slot first if
    /// there is none.
    pub(crate) async fn can_write(&self) -> bool {
        self.join().await.is_ok() && !self.membership.is_failing.load(Ordering::Acquire)
    }

    /// Returns the clock by which the replicas compare times. It is exact once the replica has [joined](Self::join).
    pub(crate) fn clock(&self) -> &Arc<BackendClock> {
        &self.membership.clock
    }

    /// Adds a handler of the messages of a kind, for as long as it exists. A kind contains no spaces.
    pub(crate) fn add_handler(&self, kind: &'static str, handler: Weak<dyn ReplicaHandler>) {
        self.membership.handlers.add(kind, handler);
    }

    /// Returns the slot of this replica. Takes one first if it has none, and starts the task that keeps it, which must
    /// happen inside of a tokio runtime.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails or does not respond within [`BACKEND_TIMEOUT`].
    pub(crate) async fn join(&self) -> Result<Slot, BackendError> {
        let mut status = self.membership.status.subscribe();
        self.ensure_task();
        let settled = async { status.wait_for(|status| *status != Status::Joining).await.map(|status| status.clone()) };
        match timeout(BACKEND_TIMEOUT, settled).await {
            Ok(Ok(Status::Joined(slot))) => Ok(slot),
            Ok(Ok(Status::Failed(error))) => Err(error),
            _ => Err(BackendError::Unavailable("the replica has not joined the others in time".to_owned())),
        }
    }

    /// Returns the slot of this replica. Returns `None` before it has [joined](Self::join), and after it has lost its
    /// slot, until it has a new one.
    pub(crate) fn slot(&self) -> Option<Slot> {
        match *self.membership.status.borrow() {
            Status::Joined(slot) => Some(slot),
            _ => None,
        }
    }

    /// Returns an id that no replica has used before, from which every replica finds the [slot](Slot::of_id) of this
    /// replica.
    pub(crate) fn next_id(&self, slot: Slot) -> u64 {
        slot.id(self.last_number.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }

    /// Returns whether the replica that had this slot when it was last heard of still has it. A replica that was killed
    /// has it for as long as the lease.
    pub(crate) async fn is_alive(&self, slot: Slot) -> Result<bool, BackendError> {
        if self.slot() == Some(slot) {
            return Ok(true);
        }
        Ok(with_timeout(self.backend().get(&slot.key())).await?.is_some())
    }

    /// Returns whether a replica without a slot is gone. When this replica has lost its own, until the time of a lease after it
    /// took another one, the others may have lost theirs in the same outage, and take new ones.
    pub(crate) fn knows_who_is_gone(&self) -> bool {
        let changed = *self.membership.slot_changed.lock();
        changed.is_none_or(|changed| self.slot().is_some() && changed.elapsed() >= self.membership.lease)
    }

    /// Returns the time after which the slot of a replica expires that does not renew it.
    pub(crate) fn lease(&self) -> Duration {
        self.membership.lease
    }

    pub(crate) fn backend(&self) -> &Arc<dyn Backend> {
        &self.membership.backend
    }

    /// Sends a message of less than 1 MiB to the replica with this slot. It is lost if the replica is gone.
    pub(crate) async fn send(&self, to: Slot, kind: &str, payload: &[u8]) -> Result<(), BackendError> {
        with_timeout(self.backend().publish(&to.key(), encode(kind, payload))).await
    }

    /// Sends a message of less than 1 MiB to all replicas, including this replica.
    pub(crate) async fn announce(&self, kind: &str, payload: &[u8]) -> Result<(), BackendError> {
        with_timeout(self.backend().publish(ANNOUNCEMENTS, encode(kind, payload))).await
    }

    /// Returns a future that completes when the replica was dropped and has released its slot.
    pub(crate) fn left(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut status = self.membership.status.subscribe();
        async move { while status.changed().await.is_ok() {} }
    }

    /// Starts the task if it is not running: it ends with the runtime that it was started in.
    fn ensure_task(&self) {
        let mut task = self.task.lock();
        if task.as_ref().is_none_or(|task| task.handle.is_finished()) {
            let (stop, stopped) = oneshot::channel();
            let handle = tokio::spawn(run(Arc::clone(&self.membership), stopped));
            *task = Some(Task { handle, _stop: stop });
        }
    }
}

/// Takes part until `stopped`, then releases the slot.
async fn run(membership: Arc<Membership>, stopped: oneshot::Receiver<Infallible>) {
    // The runtime may drop the task at any point. The handlers are not called, since the runtime ends as well, or the
    // replica is no longer needed.
    let _reset = OnDrop(|| {
        membership.freshness.end();
        membership.status.send_replace(Status::Joining);
    });
    let mut stopped = pin!(stopped);
    let (mut backoff, mut has_left) = (Backoff::up_to(MAX_PAUSE), false);
    loop {
        let error = match race(membership.enter(), stopped.as_mut()).await {
            Ok(Ok((mut lease, topics))) => {
                if let Some(changed) = &mut *membership.slot_changed.lock() {
                    *changed = Instant::now();
                }
                if has_left || !backoff.is_reset() {
                    tracing::warn!("this replica has joined the other replicas");
                }
                backoff.reset();
                has_left = true;
                if race(membership.participate(&mut lease, topics), stopped.as_mut()).await.is_err() {
                    lease.release(&membership.backend).await;
                    return;
                }
                continue;
            }
            Ok(Err(error)) => error,
            Err(_) => return,
        };
        if backoff.is_reset() {
            tracing::warn!(%error, "cannot join the other replicas, so requests that need the backend fail: retrying");
        }
        membership.status.send_replace(Status::Failed(error));
        if race(backoff.wait(), stopped.as_mut()).await.is_err() {
            return;
        }
    }
}

impl Membership {
    /// Claims the backend for the server. Returns the error if it belongs to another server.
    async fn claim_name(&self) -> Result<Option<String>, BackendError> {
        let Some(name) = &self.name else { return Ok(None) };
        let user = name.claim(&self.backend, self.lease).await?;
        Ok((!name.accepts(&user)).then(|| name.mismatch(&user, self.lease)))
    }

    /// Takes a slot and subscribes to the topics.
    async fn enter(&self) -> Result<(Lease, [TopicSubscription; 2]), BackendError> {
        if let Some(mismatch) = self.claim_name().await? {
            return Err(BackendError::Unavailable(mismatch));
        }
        with_timeout(self.clock.update(&*self.backend, 0)).await?;
        let lease = Lease::acquire(&self.backend, self.lease).await?;
        let own = with_timeout(self.backend.subscribe(&lease.slot.key())).await;
        let all = with_timeout(self.backend.subscribe(ANNOUNCEMENTS)).await;
        match (own, all) {
            (Ok(own), Ok(all)) => Ok((lease, [own, all])),
            (Err(error), _) | (_, Err(error)) => {
                lease.release(&self.backend).await;
                Err(error)
            }
        }
    }

    /// Passes messages to the handlers until the lease is lost.
    async fn participate(&self, lease: &mut Lease, topics: [TopicSubscription; 2]) {
        let slot = lease.slot;
        self.status.send_replace(Status::Joined(slot));
        // Nothing was announced to this replica before.
        self.handlers.tell(|handler| handler.missed());
        let [own, all] = topics;
        let key = slot.key();
        self.freshness.scheduled();
        self.freshness.heard(lease.valid_until - self.lease);
        // The lease comes first, so that no flood of messages keeps it from being renewed.
        tokio::select! {
            biased;
            () = self.keep(lease) => {}
            _ = self.watch_for_pauses() => {}
            _ = self.deliver(&key, own) => {}
            _ = self.deliver(ANNOUNCEMENTS, all) => {}
        }
        self.freshness.end();
        *self.slot_changed.lock() = Some(Instant::now());
        tracing::warn!(%slot, "this replica has lost its lease: its calls fail, and it joins the others again");
        self.status.send_replace(Status::Joining);
        self.handlers.tell(|handler| handler.lost(slot));
    }

    /// Renews the lease until it is lost.
    async fn keep(&self, lease: &mut Lease) {
        self.is_failing.store(false, Ordering::Release);
        let topic = lease.slot.key();
        while let Some(renewal) = lease.renewal(&self.backend, &self.is_renewal_due).await {
            let has_failed = self.is_failing.swap(renewal.is_err(), Ordering::AcqRel);
            let sent = match renewal {
                Ok(sent) => {
                    if has_failed {
                        tracing::warn!("the lease of this replica is renewed again");
                    }
                    sent
                }
                Err(error) => {
                    if !has_failed {
                        let ends_in = lease.valid_until.saturating_duration_since(Instant::now());
                        tracing::warn!(%error, ?ends_in, "cannot renew the lease of this replica: retrying");
                    }
                    continue;
                }
            };
            // None of this may delay the next renewal.
            let _ = timeout(self.lease / 4, self.renewed(&topic, sent)).await;
        }
    }

    /// Renews everything that has the time to live of the lease.
    async fn renewed(&self, topic: &str, sent: Instant) {
        let echo = encode(Freshness::ECHO, &self.freshness.echo(sent));
        if let Err(error) = self.backend.publish(topic, echo).await {
            tracing::debug!(%error, "cannot check whether messages of other replicas arrive");
        }
        if let Some(name) = &self.name
            && let Err(error) = name.renew(&self.backend, self.lease).await
        {
            tracing::debug!(%error, "cannot renew the name of the server");
        }
        if let Err(error) = self.clock.update(&*self.backend, 0).await {
            tracing::debug!(%error, "cannot read the clock of the backend");
        }
    }

    /// Notices when the process was stopped, or was too busy to handle messages.
    async fn watch_for_pauses(&self) -> Infallible {
        loop {
            sleep(self.freshness.max_pause() / 4).await;
            if self.freshness.has_paused() {
                self.handlers.tell(|handler| handler.paused());
            }
            self.freshness.scheduled();
        }
    }

    /// Passes the messages of a topic to the handlers.
    async fn deliver(&self, topic: &str, mut subscription: TopicSubscription) -> Infallible {
        loop {
            match subscription.next().await {
                Some(TopicEvent::Message(message)) => self.handlers.message(&message),
                Some(TopicEvent::Missed) => self.missed(),
                None => {
                    subscription = self.resubscribe(topic).await;
                    self.missed();
                }
            }
            // Lets other tasks of the runtime run between messages.
            tokio::task::consume_budget().await;
        }
    }

    /// Handles a gap in the messages: the backend was not reachable, or has started again, perhaps without its data.
    fn missed(&self) {
        self.is_renewal_due.notify_one();
        self.handlers.tell(|handler| handler.missed());
    }

    async fn resubscribe(&self, topic: &str) -> TopicSubscription {
        let mut backoff = Backoff::up_to(MAX_PAUSE);
        loop {
            match with_timeout(self.backend.subscribe(topic)).await {
                Ok(subscription) => return subscription,
                Err(error) if backoff.is_reset() => {
                    tracing::warn!(%error, "cannot subscribe to the messages of other replicas: retrying");
                }
                Err(_) => {}
            }
            backoff.wait().await;
        }
    }
}

/// The handlers of a replica, by kind of message. There are as many as the engine and the transports register.
#[derive(Default)]
struct Handlers(Mutex<Vec<(&'static str, Weak<dyn ReplicaHandler>)>>);

impl Handlers {
    fn add(&self, kind: &'static str, handler: Weak<dyn ReplicaHandler>) {
        let mut handlers = self.0.lock();
        handlers.retain(|(_, handler)| handler.strong_count() > 0);
        handlers.push((kind, handler));
    }

    /// Passes a message to the handlers of its kind. Ignores messages without a handler, which a newer release may send.
    fn message(&self, message: &[u8]) {
        let Some(end) = message.iter().position(|&byte| byte == b' ') else { return };
        for (kind, handler) in self.live() {
            if kind.as_bytes() == &message[..end] {
                handler.message(&message[end + 1..]);
            }
        }
    }

    /// Passes an event to all handlers.
    fn tell(&self, event: impl Fn(&dyn ReplicaHandler)) {
        self.live().iter().for_each(|(_, handler)| event(&**handler));
    }

    /// Returns the handlers, which are called without the lock.
    fn live(&self) -> Vec<(&'static str, std::sync::Arc<dyn ReplicaHandler>)> {
        self.0.lock().iter().filter_map(|(kind, handler)| Some((*kind, handler.upgrade()?))).collect()
    }
}

/// Returns a message of a kind, which contains no spaces.
fn encode(kind: &str, payload: &[u8]) -> Vec<u8> {
    debug_assert!(!kind.contains(' '));
    [kind.as_bytes(), b" ", payload].concat()
}

debug!(Handlers, self, handlers: self.0.lock().len());

/// A task that starts with the first use inside a runtime, and is aborted when this value is dropped. If its runtime
/// ends, the next use starts it again.
#[derive(Debug, Default)]
pub(super) struct BackgroundTask(Mutex<Option<JoinHandle<()>>>);

impl BackgroundTask {
    /// Starts the task, unless it is running or there is no runtime.
    pub(super) fn ensure_running<F>(&self, task: impl FnOnce() -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Ok(runtime) = Handle::try_current() else { return };
        let mut running = self.0.lock();
        if running.as_ref().is_none_or(JoinHandle::is_finished) {
            *running = Some(runtime.spawn(task()));
        }
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        if let Some(running) = &*self.0.lock() {
            running.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::atomic::AtomicUsize};

    use tokio::sync::mpsc;

    use super::*;
    use crate::{
        backend::{MemoryBackend, RecordCondition, Records as _, TopicSender, Topics as _},
        testing::test_backend::{BackendMethod, BackendOperation, Failing, TestBackend, unavailable},
    };

    const LEASE: Duration = Duration::from_secs(10);

    #[derive(Debug, PartialEq, Eq)]
    enum Event {
        Message(Vec<u8>),
        Missed,
        Paused,
        Lost(Slot),
    }

    struct Events(mpsc::UnboundedSender<Event>);

    impl ReplicaHandler for Events {
        fn message(&self, payload: &[u8]) {
            let _ = self.0.send(Event::Message(payload.to_owned()));
        }

        fn missed(&self) {
            let _ = self.0.send(Event::Missed);
        }

        fn paused(&self) {
            let _ = self.0.send(Event::Paused);
        }

        fn lost(&self, slot: Slot) {
            let _ = self.0.send(Event::Lost(slot));
        }
    }

    /// A replica with a handler of messages of the kind `note`.
    struct Member {
        replica: Replica,
        slot: Slot,
        _handler: Arc<Events>,
        events: mpsc::UnboundedReceiver<Event>,
    }

    async fn member(backend: &Arc<MemoryBackend>) -> Member {
        let (sender, mut events) = mpsc::unbounded_channel();
        let handler = Arc::new(Events(sender));
        let replica = Replica::new(Arc::clone(backend) as Arc<dyn Backend>, LEASE);
        let weak = Arc::downgrade(&handler);
        replica.add_handler("note", weak);
        let slot = replica.join().await.unwrap();
        assert_eq!(events.recv().await, Some(Event::Missed), "nothing was announced before");
        Member { replica, slot, _handler: handler, events }
    }

    fn note(text: &str) -> Option<Event> {
        Some(Event::Message(text.into()))
    }

    #[tokio::test(start_paused = true)]
    async fn messages_reach_one_replica_or_all() {
        let backend = Arc::new(MemoryBackend::default());
        let (mut ada, mut bob) = (member(&backend).await, member(&backend).await);
        assert_ne!(ada.slot, bob.slot);
        assert_eq!(ada.replica.join().await.unwrap(), ada.slot, "a replica joins once");
        let ids = [&ada, &ada, &bob].map(|member| member.replica.next_id(member.slot));
        assert_eq!(ids.map(|id| Slot::of_id(id).unwrap()), [ada.slot, ada.slot, bob.slot]);
        assert_ne!(ids[0], ids[1]);
        ada.replica.send(bob.slot, "note", b"to bob").await.unwrap();
        ada.replica.announce("other", b"unknown kind").await.unwrap();
        assert_eq!(bob.events.recv().await, note("to bob"));
        ada.replica.announce("note", b"to all").await.unwrap();
        for member in [&mut ada, &mut bob] {
            assert_eq!(member.events.recv().await, note("to all"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_lives_until_it_no_longer_renews_its_lease() {
        let backend = Arc::new(MemoryBackend::default());
        let (ada, bob, eve) = (member(&backend).await, member(&backend).await, member(&backend).await);
        sleep(LEASE * 3).await;
        for slot in [ada.slot, bob.slot, eve.slot] {
            assert!(ada.replica.is_alive(slot).await.unwrap());
        }
        // As if the process were killed.
        bob.replica.task.lock().as_ref().unwrap().handle.abort();
        assert!(ada.replica.is_alive(bob.slot).await.unwrap());
        sleep(LEASE).await;
        assert!(!ada.replica.is_alive(bob.slot).await.unwrap());
        assert_eq!(bob.replica.slot(), None);
        // A replica that shuts down releases its slot at once.
        drop(eve.replica);
        while ada.replica.is_alive(eve.slot).await.unwrap() {
            tokio::task::yield_now().await;
        }
        assert_ne!(bob.replica.join().await.unwrap(), bob.slot, "the task starts again on demand");
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_whose_lease_is_gone_takes_another_slot() {
        let backend = Arc::new(MemoryBackend::default());
        let mut ada = member(&backend).await;
        assert!(backend.delete(&ada.slot.key(), RecordCondition::Always).await.unwrap());
        assert_eq!(ada.events.recv().await, Some(Event::Lost(ada.slot)));
        assert_eq!(ada.events.recv().await, Some(Event::Missed));
        let slot = ada.replica.join().await.unwrap();
        assert_ne!(slot, ada.slot);
        ada.replica.send(slot, "note", b"still here").await.unwrap();
        assert_eq!(ada.events.recv().await, note("still here"));
    }

    /// A backend that starts again without its data has no lease, and new calls would fail when that is noticed.
    #[tokio::test(start_paused = true)]
    async fn a_gap_in_the_messages_renews_the_lease_at_once() {
        let backend = Arc::new(MemoryBackend::default());
        let mut ada = member(&backend).await;
        let membership = Arc::clone(&ada.replica.membership);
        let (sender, subscription) = TopicSubscription::new();
        let deliver = tokio::spawn(async move { membership.deliver("mcp/1/other", subscription).await });
        sleep(LEASE / 10).await;
        assert!(backend.delete(&ada.slot.key(), RecordCondition::Always).await.unwrap());
        let start = Instant::now();
        TopicSender::missed(&sender);
        assert_eq!(ada.events.recv().await, Some(Event::Missed));
        assert_eq!(ada.events.recv().await, Some(Event::Lost(ada.slot)));
        assert!(start.elapsed() < LEASE / 10, "{:?}", start.elapsed());
        deliver.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_seemed_to_fail_keeps_the_lease() {
        let backend = Arc::new(MemoryBackend::default());
        let ada = member(&backend).await;
        let record = backend.get(&ada.slot.key()).await.unwrap().unwrap();
        let always = RecordCondition::Always;
        backend.set(&ada.slot.key(), always, record.value.to_vec(), LEASE).await.unwrap();
        sleep(LEASE * 2).await;
        assert_eq!(ada.replica.slot(), Some(ada.slot));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_was_stopped_notices_it() {
        let backend = Arc::new(MemoryBackend::default());
        let mut ada = member(&backend).await;
        sleep(LEASE).await;
        assert!(ada.events.try_recv().is_err(), "it was running");
        tokio::time::advance(ada.replica.membership.freshness.max_pause()).await;
        assert_eq!(timeout(LEASE, ada.events.recv()).await, Ok(Some(Event::Paused)));
    }

    #[tokio::test(start_paused = true)]
    async fn changes_are_accepted_unless_the_last_renewal_has_failed() {
        let is_full = Arc::new(AtomicBool::new(false));
        let full = Arc::clone(&is_full);
        let fails = move |operation: BackendOperation<'_>| match operation.method {
            BackendMethod::Set if full.load(Ordering::Relaxed) => Err(BackendError::Full),
            _ => Ok(()),
        };
        let backend = TestBackend::<_, MemoryBackend>::new(Failing(fails));
        let replica = Replica::new(Arc::new(backend), LEASE);
        for (outage, keeps_slot) in [(LEASE / 2, true), (LEASE * 2, false)] {
            let slot = replica.join().await.unwrap();
            assert!(replica.can_write().await, "{outage:?}");
            is_full.store(true, Ordering::Relaxed);
            sleep(outage).await;
            assert!(!replica.can_write().await, "{outage:?}");
            assert_eq!(replica.slot() == Some(slot), keeps_slot, "{outage:?}");
            is_full.store(false, Ordering::Relaxed);
            sleep(if keeps_slot { LEASE / 2 } else { MAX_PAUSE * 2 }).await;
            assert!(replica.can_write().await, "{outage:?}");
        }
    }

    /// The replicas compare times for as long as they run.
    #[tokio::test(start_paused = true)]
    async fn a_replica_follows_the_clock_of_the_backend() {
        let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(()));
        let replica = Replica::new(Arc::clone(&backend) as _, LEASE);
        replica.join().await.unwrap();
        backend.set_clock_back(Duration::from_secs(5));
        sleep(Duration::from_secs(100)).await;
        assert!(replica.clock().now() <= backend.now().await.unwrap());
    }

    /// Receives what a subscription receives, with a subscription that a test can end or overload.
    #[tokio::test(start_paused = true)]
    async fn a_subscription_that_ends_or_misses_messages_is_stale() {
        let backend = Arc::new(MemoryBackend::default());
        let mut ada = member(&backend).await;
        let membership = Arc::clone(&ada.replica.membership);
        let (sender, subscription) = TopicSubscription::new();
        let deliver = tokio::spawn(async move { membership.deliver("mcp/1/other", subscription).await });
        sender.send((*b"note first").into());
        assert_eq!(ada.events.recv().await, note("first"));
        TopicSender::missed(&sender);
        assert_eq!(ada.events.recv().await, Some(Event::Missed));
        drop(sender);
        assert_eq!(ada.events.recv().await, Some(Event::Missed));
        backend.publish("mcp/1/other", b"note second".to_vec()).await.unwrap();
        assert_eq!(ada.events.recv().await, note("second"));
        deliver.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_replica_that_cannot_hear_messages_keeps_no_slot() {
        let keys = Arc::<Mutex<Vec<String>>>::default();
        let known = Arc::clone(&keys);
        let fails = move |operation: BackendOperation<'_>| match operation.method {
            BackendMethod::Subscribe => Err(unavailable()),
            BackendMethod::Set => {
                known.lock().push(operation.key.to_owned());
                Ok(())
            }
            _ => Ok(()),
        };
        let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(Failing(fails)));
        let replica = Replica::new(Arc::clone(&backend) as _, LEASE);
        assert!(replica.join().await.is_err());
        let written = keys.lock().clone();
        assert_eq!(written.len(), 1, "{written:?}");
        assert!(backend.reliable().get(&written[0]).await.unwrap().is_none());
    }

    /// A program may serve the same server again and again.
    #[test]
    fn handlers_are_forgotten_once_they_are_dropped() {
        let (handlers, (sender, _events)) = (Handlers::default(), mpsc::unbounded_channel());
        for _ in 0..3 {
            let handler: Arc<dyn ReplicaHandler> = Arc::new(Events(sender.clone()));
            handlers.add("note", Arc::downgrade(&handler));
        }
        assert_eq!(handlers.0.lock().len(), 1);
    }

    /// A record without a name comes from an older release of the same server.
    #[test]
    fn a_server_accepts_what_it_has_stored_under_any_of_its_names() {
        let name = ServerName { name: "tracker".to_owned(), former: vec!["notes".to_owned()] };
        let replica = Replica::with_name(Arc::new(MemoryBackend::default()), LEASE, Some(name));
        for (name, is_accepted) in [("tracker", true), ("notes", true), ("", true), ("other", false)] {
            assert_eq!(replica.accepts_server(name), is_accepted, "{name:?}");
        }
    }

    #[test]
    fn a_task_starts_once_in_each_runtime_and_ends_with_its_owner() {
        let (background, starts) = (BackgroundTask::default(), AtomicUsize::new(0));
        let alive = Arc::new(());
        let start = |background: &BackgroundTask| {
            let alive = Arc::clone(&alive);
            background.ensure_running(|| {
                starts.fetch_add(1, Ordering::Relaxed);
                async move {
                    let _alive = alive;
                    pending().await
                }
            });
        };
        let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
        start(&background);
        assert_eq!(starts.load(Ordering::Relaxed), 0, "there is no runtime");
        for expected in 1..3 {
            let runtime = runtime();
            let _entered = runtime.enter();
            start(&background);
            start(&background);
            assert_eq!((starts.load(Ordering::Relaxed), Arc::strong_count(&alive)), (expected, 2));
        }
        let runtime = runtime();
        runtime.block_on(async {
            start(&background);
            drop(background);
            while Arc::strong_count(&alive) > 1 {
                tokio::task::yield_now().await;
            }
        });
    }
}
