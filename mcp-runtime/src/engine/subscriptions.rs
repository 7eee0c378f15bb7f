//! The subscriptions of a server and of each of its subscribers.
//!
//! Notifications are not queued. A [`Subscription`] is either clean or pending, and waits in its outbox while it is
//! pending, until the transport takes its notifications. A subscriber that does not read therefore costs one pending
//! entry per subject, however often the subject changes.

use std::{
    any::Any,
    collections::{BTreeMap, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering},
    },
};

use crate::{
    engine::outbox::{Outbox, PendingNotifications},
    error::Fault,
    handler::Function,
    jsonrpc::write,
    registry::{ListKind, ListSet},
    revision::encode::member,
    stdx::{Mutex, debug},
};

/// The maximum number of resources that a subscriber may subscribe to.
pub(crate) const MAX_RESOURCES: usize = 1024;
/// The maximum total size in bytes of the URIs that a subscriber may subscribe to.
pub(crate) const MAX_URI_BYTES: usize = 256 << 10;
/// The maximum number of open `subscriptions/listen` requests per server. Further requests are rejected.
const MAX_LISTENERS: usize = 10_000;

/// Returns the error for a subscriber with too many resources.
pub(crate) fn too_many_resources() -> Fault {
    let kibibytes = MAX_URI_BYTES >> 10;
    Fault::InvalidParams(format!(
        "too many subscriptions: the limit is {MAX_RESOURCES} resources and {kibibytes} KiB of URIs"
    ))
}

/// The value that the author's code returns for a subscription, until the subscription ends.
pub(crate) type Guard = Box<dyn Any + Send + Sync>;

/// Returns whether a subscriber sees a function.
pub(crate) type Sees<'a> = dyn Fn(&Function) -> bool + 'a;

/// Tells the author's code of a subscription to a URI.
type OnSubscribe = dyn Fn(&str, &Sees<'_>) -> Option<Guard> + Send + Sync;

/// The subscriptions of a server.
#[derive(Default)]
pub(crate) struct Subscriptions {
    index: RwLock<Index>,
    listeners: AtomicUsize,
    /// The number of updates of resources since the server started.
    updates: AtomicU64,
    on_subscribe: OnceLock<Box<OnSubscribe>>,
}

/// The subscriptions by subject. Each `Vec` is sorted by number.
#[derive(Debug, Default)]
struct Index {
    lists: Vec<Arc<Subscription>>,
    resources: HashMap<Arc<str>, Vec<Arc<Subscription>>>,
    last_number: u64,
}

/// A receiver of notifications: a session or a `subscriptions/listen` request. Dropping it ends its subscriptions.
pub(crate) struct Subscriber {
    server: Arc<Subscriptions>,
    outbox: Weak<Outbox>,
    /// The lists of a session. Empty for a request.
    pub(crate) lists: ListSet,
    /// The JSON of the request id that its notifications carry. `None` for a session.
    subscription_id: Option<Arc<str>>,
    subscriptions: Mutex<Vec<Arc<Subscription>>>,
    /// At most one for each subscription to a resource.
    guards: Mutex<BTreeMap<String, Guard>>,
}

impl Subscriptions {
    /// Sets the function that learns of subscriptions to resources.
    pub(crate) fn on_subscribe(&self, function: impl Fn(&str, &Sees<'_>) -> Option<Guard> + Send + Sync + 'static) {
        let _ = self.on_subscribe.set(Box::new(function));
    }

    /// Notifies the subscribers of these lists.
    pub(crate) fn lists_changed(&self, lists: ListSet) {
        for subscription in &self.index().lists {
            subscription.lists_changed(lists);
        }
    }

    /// Notifies the subscribers of a resource.
    pub(crate) fn resource_updated(&self, uri: &str) {
        self.updates.fetch_add(1, Ordering::AcqRel);
        for subscription in self.index().resources.get(uri).into_iter().flatten() {
            subscription.resource_updated();
        }
    }

    /// Notifies the subscribers of these lists, and the subscribers of all resources.
    pub(crate) fn everything_changed(&self, lists: ListSet) {
        self.lists_changed(lists);
        for subscription in self.index().resources.values().flatten() {
            subscription.resource_updated();
        }
    }

    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn index_mut(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }
}

debug!(Subscriber, self, subscriptions: self.subscriptions);

debug!(Subscriptions, self, index: self.index, listeners: self.listeners);

impl Index {
    fn remove(&mut self, subscription: &Subscription) {
        let remove = |subscriptions: &mut Vec<Arc<Subscription>>| {
            if let Ok(at) = subscriptions.binary_search_by_key(&subscription.number, |other| other.number) {
                subscriptions.remove(at);
            }
            subscriptions.is_empty()
        };
        match &subscription.subject {
            Subject::Lists(_) => {
                remove(&mut self.lists);
            }
            Subject::Resource(uri) => {
                if self.resources.get_mut(uri).is_some_and(remove) {
                    self.resources.remove(uri);
                }
            }
        }
    }
}

impl Subscriber {
    /// Creates the subscriber of a session, which is subscribed to lists. Its notifications are held back until
    /// [`ready`](Self::ready) is called.
    pub(crate) fn of_session(server: &Arc<Subscriptions>, outbox: &Arc<Outbox>, lists: ListSet) -> Self {
        let mut subscriber = Self::new(server, outbox, None);
        subscriber.lists = lists;
        subscriber.subscribe_lists(lists, HELD);
        subscriber
    }

    /// Creates the subscriber of a `subscriptions/listen` request, whose notifications carry the request's id. Returns
    /// `None` if the server has too many of them.
    pub(crate) fn of_request(server: &Arc<Subscriptions>, outbox: &Arc<Outbox>, id: &str) -> Option<Self> {
        if server.listeners.fetch_add(1, Ordering::AcqRel) >= MAX_LISTENERS {
            server.listeners.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(Self::new(server, outbox, Some(id.into())))
    }

    fn new(server: &Arc<Subscriptions>, outbox: &Arc<Outbox>, subscription_id: Option<Arc<str>>) -> Self {
        let (server, outbox) = (Arc::clone(server), Arc::downgrade(outbox));
        let (lists, subscriptions, guards) = Default::default();
        Self { server, outbox, lists, subscription_id, subscriptions, guards }
    }

    /// Subscribes to these lists and to resources. The URIs must be distinct.
    pub(crate) fn subscribe(&self, lists: ListSet, uris: &[String], sees: &Sees<'_>) {
        if lists != ListSet::default() {
            self.subscribe_lists(lists, 0);
        }
        let mut subscriptions = self.subscriptions.lock();
        let mut index = self.server.index_mut();
        subscriptions.extend(uris.iter().map(|uri| self.add_resource(&mut index, uri)));
        drop((index, subscriptions));
        uris.iter().for_each(|uri| self.announce(uri, sees));
    }

    /// Tells the author's code of a subscription, and keeps what it returns. The code may change the server, so no lock is held.
    fn announce(&self, uri: &str, sees: &Sees<'_>) {
        let on_subscribe = self.server.on_subscribe.get();
        let guard = on_subscribe.map(|function| catch_unwind(AssertUnwindSafe(|| function(uri, sees))));
        let mut guard = guard.and_then(|result| result.unwrap_or_else(|_| report_panic(uri)));
        let subscriptions = self.subscriptions.lock();
        // The client may have unsubscribed meanwhile.
        if guard.is_some() && subscriptions.iter().any(|subscription| subscription.uri() == Some(uri)) {
            guard = guard.and_then(|guard| self.guards.lock().insert(uri.to_owned(), guard));
        }
        drop(subscriptions);
        release(uri, guard);
    }

    fn subscribe_lists(&self, lists: ListSet, state: u16) {
        let mut subscriptions = self.subscriptions.lock();
        let mut index = self.server.index_mut();
        let subscription = self.subscription(&mut index, Subject::Lists(lists), state);
        index.lists.push(Arc::clone(&subscription));
        // Most sessions subscribe to nothing else.
        subscriptions.reserve_exact(1);
        subscriptions.push(subscription);
    }

    /// Subscribes to a resource. Does nothing if there already is such a subscription.
    ///
    /// # Errors
    ///
    /// Returns a fault if the subscriber has too many subscriptions.
    pub(crate) fn subscribe_resource(&self, uri: &str, sees: &Sees<'_>) -> Result<(), Fault> {
        if self.insert_resource(uri)? {
            self.announce(uri, sees);
        }
        Ok(())
    }

    /// Subscribes to a resource, and returns whether the subscription is new and must be announced.
    fn insert_resource(&self, uri: &str) -> Result<bool, Fault> {
        let mut subscriptions = self.subscriptions.lock();
        let known = || subscriptions.iter().filter_map(|subscription| subscription.uri());
        if known().any(|known| known == uri) {
            return Ok(false);
        }
        if known().count() >= MAX_RESOURCES || known().map(str::len).sum::<usize>() + uri.len() > MAX_URI_BYTES {
            return Err(too_many_resources());
        }
        let subscription = self.add_resource(&mut self.server.index_mut(), uri);
        subscriptions.push(subscription);
        Ok(true)
    }

    fn add_resource(&self, index: &mut Index, uri: &str) -> Arc<Subscription> {
        let uri = index.resources.get_key_value(uri).map_or_else(|| Arc::from(uri), |(uri, _)| Arc::clone(uri));
        let subscription = self.subscription(index, Subject::Resource(Arc::clone(&uri)), 0);
        index.resources.entry(uri).or_default().push(Arc::clone(&subscription));
        subscription
    }

    /// Ends the subscription to a resource, if there is one.
    pub(crate) fn unsubscribe_resource(&self, uri: &str) {
        release(uri, self.remove_resource(uri));
    }

    /// Ends the subscription to a resource, and returns its guard, which must be released.
    fn remove_resource(&self, uri: &str) -> Option<Guard> {
        let mut subscriptions = self.subscriptions.lock();
        let at = subscriptions.iter().position(|subscription| subscription.uri() == Some(uri))?;
        let subscription = subscriptions.swap_remove(at);
        self.server.index_mut().remove(&subscription);
        subscription.end();
        self.discard_ended();
        self.guards.lock().remove(uri)
    }

    /// Removes ended subscriptions from the outbox, where they would otherwise stay until the client reads.
    fn discard_ended(&self) {
        if let Some(outbox) = self.outbox.upgrade() {
            outbox.remove_ended();
        }
    }

    /// Queues the notifications that were held back, and stops holding notifications back.
    pub(crate) fn ready(&self) {
        self.subscriptions.lock().iter().for_each(Subscription::release);
    }

    /// Ends all subscriptions. Notifications that are already pending are still sent.
    pub(crate) fn unsubscribe_all(&self) {
        let mut subscriptions = self.subscriptions.lock();
        let mut index = self.server.index_mut();
        subscriptions.iter().for_each(|subscription| index.remove(subscription));
        subscriptions.clear();
        drop((index, subscriptions));
        let guards = std::mem::take(&mut *self.guards.lock());
        guards.into_iter().for_each(|(uri, guard)| release(&uri, Some(guard)));
    }

    fn subscription(&self, index: &mut Index, subject: Subject, state: u16) -> Arc<Subscription> {
        index.last_number += 1;
        Arc::new(Subscription {
            number: index.last_number,
            state: AtomicU16::new(state),
            subject,
            subscription_id: self.subscription_id.clone(),
            outbox: Weak::clone(&self.outbox),
        })
    }

    /// Returns the number of updates of resources since the server started.
    pub(crate) fn updates(&self) -> u64 {
        self.server.updates.load(Ordering::Acquire)
    }

    /// Subscribes to these resources, and ends the subscriptions to other resources. Subscriptions beyond the limits
    /// are ignored. If [`updates`](Self::updates) was `since` before the new subscriptions were known, and has
    /// increased, their resources count as updated.
    ///
    /// Returns a function that tells the author's code, for the caller to run without locks. It considers all functions,
    /// since the record of a session does not tell which of them the client sees.
    pub(crate) fn set_resources(&self, uris: &[String], since: Option<u64>) -> impl FnOnce() + use<'_> {
        let known =
            self.subscriptions.lock().iter().filter_map(|known| known.uri().map(str::to_owned)).collect::<Vec<_>>();
        let ended = known.iter().filter(|uri| !uris.contains(uri));
        let ended: Vec<_> = ended.map(|uri| (uri.clone(), self.remove_resource(uri))).collect();
        let mut added = uris.to_vec();
        added.retain(|uri| self.insert_resource(uri).unwrap_or_default());
        if since.is_some_and(|since| since != self.updates()) {
            let is_new = |uri: &str| added.iter().any(|added| added == uri);
            let subscriptions = self.subscriptions.lock();
            for subscription in subscriptions.iter().filter(|subscription| subscription.uri().is_some_and(is_new)) {
                subscription.resource_updated();
            }
        }
        move || {
            ended.into_iter().for_each(|(uri, guard)| release(&uri, guard));
            added.iter().for_each(|uri| self.announce(uri, &|_| true));
        }
    }

    /// Notifies again of the changes that were written since the last [acknowledgement](Self::acknowledge), because the
    /// client may not have received the notifications.
    pub(crate) fn repeat(&self) {
        self.subscriptions.lock().iter().for_each(Subscription::repeat);
    }

    /// Records that the client has received all notifications that were written.
    pub(crate) fn acknowledge(&self) {
        for subscription in &*self.subscriptions.lock() {
            let _ = subscription.take_written();
        }
    }

    /// Notifies of these lists and of all resources as if they had changed.
    pub(crate) fn everything_changed(&self, lists: ListSet) {
        for subscription in &*self.subscriptions.lock() {
            match &subscription.subject {
                Subject::Lists(_) => subscription.lists_changed(lists),
                Subject::Resource(_) => subscription.resource_updated(),
            }
        }
    }
}

/// Drops the guard of a subscription, which the author's code may have written.
fn release(uri: &str, guard: Option<Guard>) {
    if catch_unwind(AssertUnwindSafe(|| drop(guard))).is_err() {
        report_panic(uri);
    }
}

fn report_panic(uri: &str) -> Option<Guard> {
    tracing::error!(uri, "the function of `on_subscribe` or the value that it returned has panicked");
    None
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.subscriptions.lock().iter().for_each(|subscription| subscription.end());
        self.unsubscribe_all();
        self.discard_ended();
        if self.subscription_id.is_some() {
            self.server.listeners.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The flag of a subscription whose notifications are held back until its subscriber is ready.
const HELD: u16 = 0x4000;
/// The flag of a subscription that has ended.
const ENDED: u16 = 0x8000;
/// The pending change of a subscription to a resource.
const UPDATED: u16 = 1;
/// The pending changes.
const PENDING: u16 = 0x7f;
/// The distance of the bits of changes that were written from those of pending changes.
const WRITTEN: u32 = 7;

const _: () = assert!((ListSet::ALL.0 as u16 | UPDATED) & !PENDING == 0, "more lists than bits: widen `state`");

/// The subscription of one subscriber to one subject.
///
/// A subscription is either clean or pending. The first change marks it as pending and queues it in its outbox; further
/// changes do not queue it again. Writing its notifications makes it clean.
#[derive(Debug)]
struct Subscription {
    number: u64,
    /// The pending changes, the changes that were written, and the flags, as bits.
    state: AtomicU16,
    subject: Subject,
    /// The JSON of the request id that the notifications carry. `None` for a session.
    subscription_id: Option<Arc<str>>,
    outbox: Weak<Outbox>,
}

/// The subject of a subscription.
#[derive(Debug)]
enum Subject {
    /// These lists.
    Lists(ListSet),
    /// The resource with this URI.
    Resource(Arc<str>),
}

impl Subscription {
    /// Returns the URI of the subscribed resource.
    fn uri(&self) -> Option<&str> {
        match &self.subject {
            Subject::Resource(uri) => Some(uri),
            Subject::Lists(_) => None,
        }
    }

    /// Marks the subscribed lists among `changed` as pending.
    fn lists_changed(self: &Arc<Self>, changed: ListSet) {
        if let Subject::Lists(lists) = self.subject {
            self.mark(u16::from(changed.0 & lists.0));
        }
    }

    /// Marks the subscribed resource as pending.
    fn resource_updated(self: &Arc<Self>) {
        self.mark(UPDATED);
    }

    fn mark(self: &Arc<Self>, changes: u16) {
        if changes != 0 && self.state.fetch_or(changes, Ordering::AcqRel) & (PENDING | HELD | ENDED) == 0 {
            self.enqueue();
        }
    }

    /// Marks the changes that were written as pending.
    fn repeat(self: &Arc<Self>) {
        self.mark(self.take_written());
    }

    /// Returns the changes that were written, and forgets them.
    fn take_written(&self) -> u16 {
        self.state.fetch_and(PENDING | HELD | ENDED, Ordering::AcqRel) >> WRITTEN & PENDING
    }

    fn enqueue(self: &Arc<Self>) {
        if let Some(outbox) = self.outbox.upgrade() {
            outbox.enqueue(Arc::clone(self) as _);
        }
    }

    /// Queues the notifications that were held back, and stops holding notifications back.
    fn release(self: &Arc<Self>) {
        let before = self.state.fetch_and(!HELD, Ordering::AcqRel);
        if before & HELD != 0 && before & (PENDING | ENDED) != 0 {
            self.enqueue();
        }
    }

    /// Ends the subscription. Pending notifications are discarded.
    fn end(&self) {
        self.state.fetch_or(ENDED, Ordering::AcqRel);
    }

    fn write_line(&self, out: &mut Vec<u8>, method: &[&str], uri: Option<&str>) {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
        method.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
        out.push(b'"');
        if self.subscription_id.is_some() || uri.is_some() {
            out.extend_from_slice(br#","params":{"#);
            if let Some(subscription_id) = &self.subscription_id {
                write_subscription_id(out, subscription_id);
            }
            if let Some(uri) = uri {
                write::string(member(out, "uri"), uri);
            }
            out.push(b'}');
        }
        out.extend_from_slice(b"}\n");
    }
}

impl PendingNotifications for Subscription {
    fn write(&self, out: &mut Vec<u8>) {
        // Changes from here on make it pending again.
        let written = |state: u16| Some(state & !PENDING | (state & PENDING) << WRITTEN);
        let before =
            self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, written).unwrap_or_else(|before| before);
        if before & ENDED != 0 {
            return;
        }
        let pending = before & PENDING;
        match &self.subject {
            Subject::Resource(uri) => self.write_line(out, &["notifications/resources/updated"], Some(uri)),
            Subject::Lists(_) => {
                for list in ListSet(pending as u8).iter().filter_map(ListKind::announced) {
                    self.write_line(out, &["notifications/", list, "/list_changed"], None);
                }
            }
        }
    }

    fn is_ended(&self) -> bool {
        self.state.load(Ordering::Acquire) & ENDED != 0
    }
}

/// Writes the `_meta` that names the subscription of a notification.
pub(super) fn write_subscription_id(out: &mut Vec<u8>, subscription_id: &str) {
    out.extend_from_slice(br#""_meta":{"io.modelcontextprotocol/subscriptionId":"#);
    out.extend_from_slice(subscription_id.as_bytes());
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision;

    /// The author's code runs without locks, so that the client may unsubscribe meanwhile.
    #[test]
    fn a_guard_ends_with_a_subscription_that_ends_while_the_author_is_told_of_it() {
        let (subscriptions, outbox) = (Arc::<Subscriptions>::default(), Outbox::for_test());
        let session =
            Arc::new(Subscriber::of_session(&subscriptions, &outbox, ListSet::listed_in(revision::newest_handshake())));
        let (subscriber, guards) = (Arc::downgrade(&session), Arc::new(()));
        let guard = Arc::clone(&guards);
        subscriptions.on_subscribe(move |uri, _| {
            if uri == "a:ended" {
                subscriber.upgrade()?.unsubscribe_resource(uri);
            }
            Some(Box::new(Arc::clone(&guard)))
        });
        for (uri, expected) in [("a:kept", 1), ("a:ended", 1), ("a:other", 2)] {
            assert!(session.subscribe_resource(uri, &|_| true).is_ok());
            assert_eq!(Arc::strong_count(&guards) - 2, expected, "{uri}");
        }
    }

    #[test]
    fn ended_subscriptions_leave_the_outbox() {
        let subscriptions = Arc::<Subscriptions>::default();
        let outbox = Outbox::for_test();
        let session = Subscriber::of_session(&subscriptions, &outbox, ListSet::listed_in(revision::newest_handshake()));
        for round in 0..100 {
            assert!(session.subscribe_resource("a:b", &|_| true).is_ok());
            subscriptions.resource_updated("a:b");
            assert_eq!(outbox.pending(), 1, "{round}");
            session.unsubscribe_resource("a:b");
            assert_eq!(outbox.pending(), 0, "{round}");
        }
        assert!(session.subscribe_resource("a:b", &|_| true).is_ok());
        subscriptions.resource_updated("a:b");
        drop(session);
        assert!(outbox.is_empty());
    }

    /// The client may not have received what was written since it last acknowledged something.
    #[test]
    fn every_change_is_repeated_until_it_is_acknowledged() {
        let (subscriptions, outbox) = (Arc::<Subscriptions>::default(), Outbox::for_test());
        let session = Subscriber::of_session(&subscriptions, &outbox, ListSet::listed_in(revision::newest_handshake()));
        session.ready();
        assert!(session.subscribe_resource("a:b", &|_| true).is_ok());
        subscriptions.lists_changed(ListSet::ALL);
        subscriptions.resource_updated("a:b");
        let written = || {
            let mut lines = Vec::new();
            outbox.drain(&mut lines);
            String::from_utf8(lines).unwrap()
        };
        let first = written();
        for changed in ["tools/list_changed", "prompts/list_changed", "resources/updated"] {
            assert!(first.contains(changed), "{first}");
        }
        for round in 0..2 {
            session.repeat();
            assert_eq!(written(), first, "{round}");
        }
        session.acknowledge();
        session.repeat();
        assert_eq!(written(), "");
    }

    #[test]
    fn a_listener_that_ends_or_is_refused_leaves_room_for_another() {
        let (subscriptions, outbox) = (Arc::<Subscriptions>::default(), Outbox::for_test());
        let listen = || Subscriber::of_request(&subscriptions, &outbox, "1");
        for round in 0..2 {
            let mut open: Vec<_> = std::iter::from_fn(listen).take(MAX_LISTENERS + 1).collect();
            assert_eq!(open.len(), MAX_LISTENERS, "{round}");
            assert!(listen().is_none(), "{round}");
            open.pop();
            assert!(listen().is_some(), "{round}");
        }
    }

    /// Clients may subscribe to any number of resources, one after the other.
    #[test]
    fn resources_without_subscriptions_are_forgotten() {
        let (subscriptions, outbox) = (Arc::<Subscriptions>::default(), Outbox::for_test());
        let subscribe = || {
            let session =
                Subscriber::of_session(&subscriptions, &outbox, ListSet::listed_in(revision::newest_handshake()));
            assert!(session.subscribe_resource("a:b", &|_| true).is_ok());
            session
        };
        let (first, second) = (subscribe(), subscribe());
        first.unsubscribe_resource("a:b");
        assert!(subscriptions.index().resources.contains_key("a:b"), "another session is subscribed");
        drop(second);
        assert!(subscriptions.index().resources.is_empty());
    }
}
