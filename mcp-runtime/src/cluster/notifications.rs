//! Notifications that processes send to each other's clients: changes of lists and resources, and log messages.

use std::{
    borrow::Cow,
    collections::{HashSet, VecDeque},
    convert::Infallible,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::replica::Replica;
use crate::{
    backend::Backoff,
    engine::{Engine, ReplicaHandler, Sessions},
    model::Level,
    random,
    registry::ListSet,
    stdx::{Mutex, race, wait_until},
};

/// The kind of the messages between replicas.
const CHANGES: &str = "changes";
/// The minimum time between two announcements. Changes in the meantime are announced together.
const INTERVAL: Duration = Duration::from_millis(20);
/// How long a server that shuts down waits until its last changes are announced.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// The changes that this process has made and announces, and the handler of the changes that other processes announce.
///
/// Nothing is lost while the backend fails: changes that could not be announced are kept and announced later, and
/// changes that other processes may have announced in the meantime are replaced with [`ChangeSet::everything`].
#[derive(Debug)]
pub(super) struct SharedChanges {
    replica: Arc<Replica>,
    /// The server of this process, once it is built.
    engine: OnceLock<Weak<Engine>>,
    /// Distinguishes this process from the other processes. Without it, the process also receives its own
    /// announcements.
    id: Option<String>,
    state: Mutex<State>,
    /// Wakes [`run`](Self::run).
    changed: Notify,
    /// Wakes [`flush`](Self::flush).
    announced: Notify,
    /// Ends the pause after a failure.
    retry: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The changes that have not been announced.
    pending: ChangeSet,
    /// The changes that are being announced.
    announcing: ChangeSet,
}

impl SharedChanges {
    pub(super) fn new(replica: &Arc<Replica>) -> Arc<Self> {
        let shared = Arc::new(Self {
            replica: Arc::clone(replica),
            engine: OnceLock::new(),
            id: random::id(),
            state: Mutex::default(),
            changed: Notify::new(),
            announced: Notify::new(),
            retry: Notify::new(),
        });
        let handler: Weak<Self> = Arc::downgrade(&shared);
        replica.add_handler(CHANGES, handler);
        shared
    }

    /// Sets the server whose subscribers are notified of the changes of other processes.
    pub(super) fn connect(&self, engine: &Arc<Engine>) {
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    /// Announces that these lists have changed.
    pub(super) fn lists_changed(&self, lists: ListSet) {
        self.state.lock().pending.insert_lists(lists);
        self.changed.notify_one();
    }

    /// Announces that a resource has changed.
    pub(super) fn resource_updated(&self, uri: &str) {
        self.state.lock().pending.insert_resource(uri);
        self.changed.notify_one();
    }

    /// Waits until all changes are announced, for at most half a second.
    pub(super) async fn flush(&self) {
        let is_flushed = || {
            let state = self.state.lock();
            state.pending.is_empty() && state.announcing.is_empty()
        };
        let flushed = wait_until(&self.announced, || is_flushed().then_some(()));
        self.retry.notify_one();
        if !is_flushed() && tokio::time::timeout(FLUSH_TIMEOUT, flushed).await.is_err() {
            tracing::warn!("the last changes could not be announced to the other processes");
        }
    }

    /// Announces changes.
    pub(super) async fn run(&self) -> Infallible {
        let mut backoff = Backoff::default();
        // An earlier run may have ended during an announcement.
        self.changed.notify_one();
        loop {
            self.changed.notified().await;
            let Some(message) = self.next() else { continue };
            match self.replica.announce(CHANGES, &message).await {
                Ok(()) => {
                    self.state.lock().announcing = ChangeSet::default();
                    self.announced.notify_waiters();
                    backoff.reset();
                    tokio::time::sleep(INTERVAL).await;
                }
                Err(error) => {
                    if backoff.is_reset() {
                        tracing::warn!(%error, "changes cannot be announced to other processes: retrying");
                    }
                    self.changed.notify_one();
                    if race(backoff.wait(), self.retry.notified()).await.is_err() {
                        backoff.reset();
                    }
                }
            }
        }
    }

    /// Returns the next announcement, or `None` if nothing has changed.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        let pending = std::mem::take(&mut state.pending);
        state.announcing.merge(pending);
        (!state.announcing.is_empty()).then(|| state.announcing.encode(self.id.as_deref()))
    }

    /// Notifies the subscribers in this process of changes in other processes.
    fn deliver(&self, changes: &ChangeSet) {
        let Some(engine) = self.engine.get().and_then(Weak::upgrade) else { return };
        // Clients have not subscribed to lists that the server does not declare.
        let lists = changes.lists.and(engine.registry().capabilities.lists());
        match &changes.resources {
            Some(uris) => {
                engine.subscriptions.lists_changed(lists);
                uris.iter().for_each(|uri| engine.subscriptions.resource_updated(uri));
            }
            None => engine.subscriptions.everything_changed(lists),
        }
    }
}

impl ReplicaHandler for SharedChanges {
    fn message(&self, payload: &[u8]) {
        match ChangeSet::decode(payload) {
            Some((from, _)) if from.is_some() && from == self.id => {}
            Some((_, changes)) => self.deliver(&changes),
            None => {
                tracing::warn!("another process has announced changes in an unknown format");
                self.missed();
            }
        }
    }

    fn missed(&self) {
        self.deliver(&ChangeSet::everything());
    }
}

/// The maximum number of resources in one announcement. More of them are announced as all resources.
const MAX_RESOURCES: usize = 1024;
/// The maximum number of bytes of their URIs. It takes at most six bytes to encode one of them.
const MAX_URI_BYTES: usize = 128 << 10;

/// A set of changes, which is bounded: too many different resources become all resources.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ChangeSet {
    /// The lists that have changed.
    lists: ListSet,
    /// The URIs of the resources that have changed. `None` if all of them may have changed.
    resources: Option<HashSet<String>>,
    /// The number of bytes of the URIs.
    bytes: usize,
}

impl Default for ChangeSet {
    fn default() -> Self {
        Self { lists: ListSet::default(), resources: Some(HashSet::new()), bytes: 0 }
    }
}

/// The message of an announcement.
#[derive(Serialize, Deserialize)]
struct Message<'a> {
    /// The process that has made the changes. `None` if it has no id.
    #[serde(borrow)]
    from: Option<Cow<'a, str>>,
    /// The lists that have changed, as bits: tools, resources and prompts.
    lists: u8,
    /// The URIs of the resources that have changed. `None` if all of them may have changed.
    #[serde(borrow)]
    resources: Option<Vec<Cow<'a, str>>>,
}

impl ChangeSet {
    /// Returns the set for changes that are not known: everything may have changed.
    fn everything() -> Self {
        Self { lists: ListSet::ALL, resources: None, bytes: 0 }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn insert_lists(&mut self, lists: ListSet) {
        self.lists = ListSet(self.lists.0 | lists.0);
    }

    fn insert_resource(&mut self, uri: &str) {
        let Some(uris) = &mut self.resources else { return };
        if uris.contains(uri) {
            return;
        }
        self.bytes += uri.len();
        if uris.len() >= MAX_RESOURCES || self.bytes > MAX_URI_BYTES {
            self.resources = None;
        } else {
            uris.insert(uri.to_owned());
        }
    }

    fn merge(&mut self, other: Self) {
        self.insert_lists(other.lists);
        match other.resources {
            Some(uris) => uris.iter().for_each(|uri| self.insert_resource(uri)),
            None => self.resources = None,
        }
    }

    /// Encodes the set for other processes, in less than 1 MiB. `from` identifies this process.
    fn encode(&self, from: Option<&str>) -> Vec<u8> {
        let resources = self.resources.as_ref();
        let resources = resources.map(|uris| uris.iter().map(|uri| Cow::Borrowed(uri.as_str())).collect());
        let message = Message { from: from.map(Cow::Borrowed), lists: self.lists.0, resources };
        // Text and numbers can always be encoded.
        serde_json::to_vec(&message).unwrap_or_default()
    }

    /// Decodes a set and the process that has announced it. Returns `None` if the message is invalid.
    fn decode(message: &[u8]) -> Option<(Option<String>, Self)> {
        let message: Message<'_> = serde_json::from_slice(message).ok()?;
        let mut set = Self { lists: ListSet(message.lists & ListSet::ALL.0), ..Self::default() };
        match message.resources {
            Some(uris) => uris.iter().for_each(|uri| set.insert_resource(uri)),
            None => set.resources = None,
        }
        Some((message.from.map(Cow::into_owned), set))
    }
}

/// The kind of the messages between replicas.
const LOG_MESSAGES: &str = "log";
/// The maximum number of messages that wait to be announced, and of their bytes. Further messages are dropped.
const MAX_WAITING: usize = 256;
const MAX_WAITING_BYTES: usize = 512 << 10;

/// The log messages that this process announces, and the handler of the messages that other processes announce.
#[derive(Debug)]
pub(crate) struct SharedLog {
    replica: Arc<Replica>,
    /// Distinguishes this process from the other processes.
    id: String,
    /// Delivers the messages that other processes announce, once the server is built.
    sessions: OnceLock<Arc<Sessions>>,
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl SharedLog {
    pub(super) fn new(replica: &Arc<Replica>) -> Arc<Self> {
        let shared = Arc::new(Self {
            replica: Arc::clone(replica),
            id: random::id().unwrap_or_default(),
            sessions: OnceLock::new(),
            waiting: Mutex::default(),
            changed: Notify::new(),
        });
        let handler: Weak<Self> = Arc::downgrade(&shared);
        replica.add_handler(LOG_MESSAGES, handler);
        shared
    }

    /// Sets the sessions that receive the messages of other processes.
    pub(super) fn connect(&self, sessions: &Arc<Sessions>) {
        let _ = self.sessions.set(Arc::clone(sessions));
    }

    /// Announces a message. Returns `false` if it was dropped because too many are waiting.
    pub(crate) fn send(&self, level: Level, message: &[u8]) -> bool {
        let payload = [self.id.as_bytes(), b" ", level.as_str().as_bytes(), b" ", message].concat();
        let mut waiting = self.waiting.lock();
        if waiting.messages.len() >= MAX_WAITING || waiting.bytes + payload.len() > MAX_WAITING_BYTES {
            return false;
        }
        waiting.bytes += payload.len();
        waiting.messages.push_back(payload);
        drop(waiting);
        self.changed.notify_one();
        true
    }

    /// Announces the messages that are waiting.
    pub(crate) async fn run(&self) -> Infallible {
        loop {
            let payload = wait_until(&self.changed, || self.next()).await;
            // Like other log messages, it is dropped if it cannot be sent.
            if let Err(error) = self.replica.announce(LOG_MESSAGES, &payload).await {
                tracing::debug!(%error, "a log message cannot be sent to other processes");
            }
        }
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut waiting = self.waiting.lock();
        let payload = waiting.messages.pop_front()?;
        waiting.bytes -= payload.len();
        Some(payload)
    }
}

impl ReplicaHandler for SharedLog {
    fn message(&self, payload: &[u8]) {
        let mut parts = payload.splitn(3, |byte| *byte == b' ');
        let (Some(from), Some(level), Some(message)) = (parts.next(), parts.next(), parts.next()) else { return };
        let level = std::str::from_utf8(level).ok().and_then(|level| level.parse().ok());
        if let Some((level, sessions)) = level.zip(self.sessions.get()).filter(|_| from != self.id.as_bytes()) {
            sessions.log(level, message);
        }
    }

    /// Log messages may be lost.
    fn missed(&self) {}
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;
    use crate::{
        backend::{BackendFuture, MemoryBackend},
        registry::ListKind,
        testing::test_backend::{BackendHook, BackendMethod, BackendOperation, Failing, TestBackend, unavailable},
    };

    /// A change may be announced before its wake-up is handled.
    #[test]
    fn nothing_is_announced_twice_and_what_fails_is_announced_with_later_changes() {
        let shared = SharedChanges::new(&Arc::new(Replica::new(Arc::new(MemoryBackend::default()), Duration::MAX)));
        let next = || shared.next().and_then(|message| Some(ChangeSet::decode(&message)?.1));
        for uris in [&["a:b"][..], &["a:b", "a:c"]] {
            shared.resource_updated(uris[uris.len() - 1]);
            assert_eq!(next(), Some(set(uris.iter().map(|uri| (*uri).to_owned()))));
        }
        shared.state.lock().announcing = ChangeSet::default();
        assert_eq!(next(), None);
    }

    fn set(uris: impl IntoIterator<Item = String>) -> ChangeSet {
        let mut set = ChangeSet::default();
        uris.into_iter().for_each(|uri| set.insert_resource(&uri));
        set
    }

    #[test]
    fn changes_are_merged_and_decode_as_they_were_encoded() {
        let mut merged = set(["a:b".to_owned(), "a:b".to_owned()]);
        merged.insert_lists(ListSet::from(ListKind::Prompts));
        let mut other = set(["a:\n\"é".to_owned()]);
        other.insert_lists(ListSet::from(ListKind::Tools));
        merged.merge(other);
        for set in [merged, ChangeSet::everything(), ChangeSet::default()] {
            for from in [None, Some("me")] {
                let (sender, decoded) = ChangeSet::decode(&set.encode(from)).unwrap();
                assert_eq!((sender.as_deref(), decoded), (from, set.clone()));
            }
        }
        for invalid in ["", "{}", "[]", r#"{"from":1,"lists":0,"resources":[]}"#] {
            assert!(ChangeSet::decode(invalid.as_bytes()).is_none(), "{invalid}");
        }
    }

    /// Changes that could not be announced are merged with later ones, and none is lost.
    #[test]
    fn merged_changes_contain_both() {
        let lists = |kind| ChangeSet { lists: ListSet::from(kind), ..ChangeSet::default() };
        let covers = |set: &ChangeSet, other: &ChangeSet| {
            let has_uris = match (&set.resources, &other.resources) {
                (None, _) => true,
                (Some(uris), Some(others)) => uris.is_superset(others),
                (Some(_), None) => false,
            };
            has_uris && set.lists.and(other.lists) == other.lists
        };
        let sets = [
            set(["a:b".to_owned()]),
            set(["a:c".to_owned(), "a:d".to_owned()]),
            ChangeSet { resources: None, ..ChangeSet::default() },
            lists(ListKind::Tools),
            lists(ListKind::Prompts),
            ChangeSet::everything(),
            ChangeSet::default(),
        ];
        for (one, other) in sets.iter().flat_map(|one| sets.iter().map(move |other| (one, other))) {
            let mut merged = one.clone();
            merged.merge(other.clone());
            assert!(covers(&merged, one) && covers(&merged, other), "{one:?} {other:?}: {merged:?}");
        }
    }

    /// Announces slowly.
    #[derive(Debug, Default)]
    struct SlowPublisher(AtomicUsize);

    impl BackendHook for SlowPublisher {
        fn intercept<'a, T: Send + 'a>(
            &'a self,
            operation: BackendOperation<'_>,
            run: BackendFuture<'a, T>,
        ) -> BackendFuture<'a, T> {
            if operation.method != BackendMethod::Publish {
                return run;
            }
            Box::pin(async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let result = run.await;
                self.0.fetch_add(1, Ordering::Relaxed);
                result
            })
        }
    }

    /// A process that stops waits for the announcement that is under way.
    #[tokio::test(start_paused = true)]
    async fn a_flush_waits_until_all_changes_are_announced() {
        for wait in [0, 50, 150, 250] {
            let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(SlowPublisher::default()));
            let shared = SharedChanges::new(&Arc::new(Replica::new(Arc::clone(&backend) as _, Duration::MAX)));
            let running = Arc::clone(&shared);
            let running = tokio::spawn(async move { running.run().await });
            shared.resource_updated("a:b");
            tokio::time::sleep(Duration::from_millis(wait)).await;
            let begun = tokio::time::Instant::now();
            shared.flush().await;
            assert!(begun.elapsed() < FLUSH_TIMEOUT, "after {wait} ms");
            assert!(backend.0.load(Ordering::Relaxed) > 0, "after {wait} ms");
            let state = shared.state.lock();
            assert!(state.pending.is_empty() && state.announcing.is_empty(), "after {wait} ms");
            running.abort();
        }
    }

    /// A process that stops does not wait for the next scheduled attempt, even if the outage ends during the flush.
    #[tokio::test(start_paused = true)]
    async fn a_flush_announces_at_once_what_could_not_be_announced() {
        for (outage, rest) in (1..20).flat_map(|outage| [(outage, 0), (outage, 50)]) {
            let is_down = Arc::new(AtomicBool::new(true));
            let down = Arc::clone(&is_down);
            let fails = move |operation: BackendOperation<'_>| match operation.method {
                BackendMethod::Publish if down.load(Ordering::Relaxed) => Err(unavailable()),
                _ => Ok(()),
            };
            let backend = TestBackend::<_, MemoryBackend>::new(Failing(fails));
            let shared = SharedChanges::new(&Arc::new(Replica::new(Arc::new(backend), Duration::MAX)));
            let running = Arc::clone(&shared);
            let running = tokio::spawn(async move { running.run().await });
            shared.resource_updated("a:b");
            tokio::time::sleep(Duration::from_secs(outage)).await;
            let end = async {
                if rest > 0 {
                    tokio::time::sleep(Duration::from_millis(rest)).await;
                }
                is_down.store(false, Ordering::Relaxed);
            };
            tokio::join!(end, shared.flush());
            assert!(shared.state.lock().announcing.is_empty(), "after {outage} s and {rest} ms");
            running.abort();
        }
    }

    #[test]
    fn too_many_resources_become_all_resources_and_a_message_stays_below_its_limit() {
        let number = |number: usize| format!("a:{number}");
        let control = |length: usize| "\u{1}".repeat(length);
        for (label, set, is_bounded) in [
            ("few", set((0..MAX_RESOURCES).map(number)), false),
            ("many", set((0..=MAX_RESOURCES).map(number)), true),
            ("long", set([control(MAX_URI_BYTES)]), false),
            ("too long", set([control(MAX_URI_BYTES), number(1)]), true),
        ] {
            assert_eq!(set.resources.is_none(), is_bounded, "{label}");
            assert!(set.encode(Some("me")).len() < 1 << 20, "{label}");
        }
    }

    #[test]
    fn the_messages_that_wait_may_take_exactly_the_maximum() {
        let log = SharedLog::new(&Arc::new(Replica::new(Arc::new(MemoryBackend::default()), Duration::MAX)));
        let overhead = log.id.len() + " info ".len();
        assert!(!log.send(Level::Info, &vec![b'x'; MAX_WAITING_BYTES - overhead + 1]));
        assert!(log.send(Level::Info, &vec![b'x'; MAX_WAITING_BYTES - overhead]));
    }

    /// The messages that wait are bounded in number and bytes; messages that were sent do not count.
    #[test]
    fn only_messages_that_wait_are_counted() {
        for (bytes, fit) in [(10, MAX_WAITING), (100 << 10, 5)] {
            let log = SharedLog::new(&Arc::new(Replica::new(Arc::new(MemoryBackend::default()), Duration::MAX)));
            let message = vec![b'x'; bytes];
            for round in 0..3 {
                for number in 0..fit {
                    assert!(log.send(Level::Info, &message), "{bytes} bytes, round {round}, message {number}");
                }
                assert!(!log.send(Level::Info, &message), "{bytes} bytes, round {round}");
                while log.next().is_some() {}
            }
        }
    }
}
