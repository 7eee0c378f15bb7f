//! Who wants to know of changes, and how they are told.
//!
//! Nothing is queued but marks: an [`Edge`] stands for one thing that one subscriber wants to know of, and is either
//! clean or marked. Only a clean one is put before its outbox; the outbox makes lines of its marked edges when its
//! transport takes them. So a subscriber that does not read costs one mark a thing, however often the thing changes.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicU8, AtomicUsize, Ordering},
    },
};

use super::outbox::Outbox;
use crate::{
    handler::{comma, entry::EntryKind},
    jsonrpc::write,
    registry::Kinds,
};

/// The most resources that one subscriber may watch, and the most bytes of their URIs.
pub(super) const WATCHED: usize = 1024;
pub(super) const WATCHED_BYTES: usize = 256 << 10;
/// The most requests of `subscriptions/listen` that one server may have open.
const LISTENS: usize = 10_000;

/// The edge waits for its subscriber to be ready.
const HELD: u8 = 0x40;
/// The edge is no longer there.
const ENDED: u8 = 0x80;
/// The mark of an edge that knows only one.
const UPDATED: u8 = 1;

/// Everything that somebody wants to know of.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    watched: RwLock<Watched>,
    listens: AtomicUsize,
}

/// Edges, each list of them sorted by their numbers.
#[derive(Debug, Default)]
struct Watched {
    lists: Vec<Arc<Edge>>,
    resources: HashMap<Arc<str>, Vec<Arc<Edge>>>,
    numbers: u64,
}

/// One thing that one subscriber wants to know of.
#[derive(Debug)]
pub(super) struct Edge {
    number: u64,
    /// What happened since the subscriber was told last, as bits.
    marks: AtomicU8,
    of: News,
    /// The JSON of the id that the subscription is told under, if it is.
    tag: Option<Arc<str>>,
    outbox: Weak<Outbox>,
}

#[derive(Debug)]
enum News {
    /// The lists of some kinds.
    Lists(Kinds),
    /// One resource.
    Resource(Arc<str>),
}

/// Whoever is told of changes: a session, or a request that listens. What it watches ends with it.
#[derive(Debug)]
pub(crate) struct Subscriber {
    subscriptions: Arc<Subscriptions>,
    outbox: Weak<Outbox>,
    tag: Option<Arc<str>>,
    edges: Mutex<Vec<Arc<Edge>>>,
}

/// Says that a subscriber watches as many resources as it may.
#[derive(Debug)]
pub(super) struct TooMany;

impl Subscriptions {
    /// Tells that the lists of some kinds changed.
    pub(crate) fn lists_changed(&self, kinds: Kinds) {
        for edge in &self.watched().lists {
            if let News::Lists(wanted) = edge.of {
                edge.mark(kinds.0 & wanted.0);
            }
        }
    }

    /// Tells that a resource changed.
    pub(crate) fn resource_updated(&self, uri: &str) {
        for edge in self.watched().resources.get(uri).into_iter().flatten() {
            edge.mark(UPDATED);
        }
    }

    fn watched(&self) -> RwLockReadGuard<'_, Watched> {
        self.watched.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched_mut(&self) -> RwLockWriteGuard<'_, Watched> {
        self.watched.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn remove(&mut self, edge: &Edge) {
        let remove = |edges: &mut Vec<Arc<Edge>>| {
            if let Ok(at) = edges.binary_search_by_key(&edge.number, |edge| edge.number) {
                edges.remove(at);
            }
            edges.is_empty()
        };
        match &edge.of {
            News::Lists(_) => {
                remove(&mut self.lists);
            }
            News::Resource(uri) => {
                if self.resources.get_mut(uri).is_some_and(remove) {
                    self.resources.remove(uri);
                }
            }
        }
    }
}

impl Edge {
    /// Marks it, and puts it before its outbox if it was clean.
    fn mark(self: &Arc<Self>, marks: u8) {
        if marks != 0 && self.marks.fetch_or(marks, Ordering::AcqRel) == 0 {
            self.put_before_outbox();
        }
    }

    fn put_before_outbox(self: &Arc<Self>) {
        if let Some(outbox) = self.outbox.upgrade() {
            outbox.mark(Arc::clone(self));
        }
    }

    /// Lets it be told of from now on.
    fn release(self: &Arc<Self>) {
        let before = self.marks.fetch_and(!HELD, Ordering::AcqRel);
        if before & HELD != 0 && before & !HELD != 0 {
            self.put_before_outbox();
        }
    }

    /// Says that nobody is told of it any more.
    pub(super) fn is_ended(&self) -> bool {
        self.marks.load(Ordering::Acquire) & ENDED != 0
    }

    /// Cleans it, and writes a line for each of its marks.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        // Whatever happens from here on marks it again.
        let marks = self.marks.fetch_and(HELD | ENDED, Ordering::AcqRel);
        if marks & ENDED != 0 {
            return;
        }
        match &self.of {
            News::Resource(uri) => self.write_line(out, "notifications/resources/updated", Some(uri)),
            News::Lists(_) => {
                for kind in Kinds::EACH.into_iter().filter(|kind| Kinds(marks).has(*kind)) {
                    self.write_line(out, list_changed(kind), None);
                }
            }
        }
    }

    fn write_line(&self, out: &mut Vec<u8>, method: &str, uri: Option<&str>) {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
        out.extend_from_slice(method.as_bytes());
        out.push(b'"');
        if self.tag.is_some() || uri.is_some() {
            out.extend_from_slice(br#","params":{"#);
            if let Some(tag) = &self.tag {
                write_tag(out, tag);
            }
            if let Some(uri) = uri {
                comma(out);
                out.extend_from_slice(br#""uri":"#);
                write::string(out, uri);
            }
            out.push(b'}');
        }
        out.extend_from_slice(b"}\n");
    }
}

/// Writes the `_meta` that says which subscription a message belongs to.
pub(super) fn write_tag(out: &mut Vec<u8>, tag: &str) {
    out.extend_from_slice(br#""_meta":{"io.modelcontextprotocol/subscriptionId":"#);
    out.extend_from_slice(tag.as_bytes());
    out.push(b'}');
}

fn list_changed(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Tool => "notifications/tools/list_changed",
        EntryKind::Resource => "notifications/resources/list_changed",
        EntryKind::Prompt => "notifications/prompts/list_changed",
    }
}

impl Subscriber {
    /// A session, which is told of every list once it is [ready](Self::ready).
    pub(super) fn of_session(subscriptions: &Arc<Subscriptions>, outbox: &Arc<Outbox>) -> Self {
        let subscriber = Self {
            subscriptions: Arc::clone(subscriptions),
            outbox: Arc::downgrade(outbox),
            tag: None,
            edges: Mutex::default(),
        };
        subscriber.watch_lists(Kinds::ALL, HELD);
        subscriber
    }

    /// A request that listens, which tells its id with every message; none if too many listen.
    pub(super) fn listening(subscriptions: &Arc<Subscriptions>, outbox: &Arc<Outbox>, id: &str) -> Option<Self> {
        let (subscriptions, outbox) = (Arc::clone(subscriptions), Arc::downgrade(outbox));
        if subscriptions.listens.fetch_add(1, Ordering::AcqRel) >= LISTENS {
            subscriptions.listens.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(Self { subscriptions, outbox, tag: Some(id.into()), edges: Mutex::default() })
    }

    /// Watches the lists of some kinds, and resources, each named once.
    pub(super) fn watch(&self, kinds: Kinds, resources: &[String]) {
        if kinds != Kinds::default() {
            self.watch_lists(kinds, 0);
        }
        let mut edges = self.edges();
        let mut watched = self.subscriptions.watched_mut();
        edges.extend(resources.iter().map(|uri| self.enter(&mut watched, uri)));
    }

    fn watch_lists(&self, kinds: Kinds, marks: u8) {
        let mut edges = self.edges();
        let mut watched = self.subscriptions.watched_mut();
        let edge = self.edge(&mut watched, News::Lists(kinds), marks);
        watched.lists.push(Arc::clone(&edge));
        edges.push(edge);
    }

    /// Watches a resource, if it does not yet.
    ///
    /// # Errors
    ///
    /// There are too many.
    pub(super) fn watch_resource(&self, uri: &str) -> Result<(), TooMany> {
        let mut edges = self.edges();
        let known = || edges.iter().filter_map(|edge| edge.uri());
        if known().any(|known| known == uri) {
            return Ok(());
        }
        if known().count() >= WATCHED || known().map(str::len).sum::<usize>() + uri.len() > WATCHED_BYTES {
            return Err(TooMany);
        }
        let edge = self.enter(&mut self.subscriptions.watched_mut(), uri);
        edges.push(edge);
        Ok(())
    }

    fn enter(&self, watched: &mut Watched, uri: &str) -> Arc<Edge> {
        let uri = watched.resources.get_key_value(uri).map_or_else(|| Arc::from(uri), |(uri, _)| Arc::clone(uri));
        let edge = self.edge(watched, News::Resource(Arc::clone(&uri)), 0);
        watched.resources.entry(uri).or_default().push(Arc::clone(&edge));
        edge
    }

    /// No longer watches a resource.
    pub(super) fn leave_resource(&self, uri: &str) {
        let mut edges = self.edges();
        if let Some(at) = edges.iter().position(|edge| edge.uri() == Some(uri)) {
            let edge = edges.swap_remove(at);
            self.subscriptions.watched_mut().remove(&edge);
            edge.marks.fetch_or(ENDED, Ordering::AcqRel);
            self.forget_ended();
        }
    }

    /// Takes back what was marked and has ended, which would wait for as long as nobody reads.
    fn forget_ended(&self) {
        if let Some(outbox) = self.outbox.upgrade() {
            outbox.forget_ended();
        }
    }

    /// Is told of what happened since it is there, and of what happens from now on.
    pub(super) fn ready(&self) {
        self.edges().iter().for_each(Edge::release);
    }

    /// Watches nothing any more; what was marked before is still told.
    pub(super) fn leave(&self) {
        let mut edges = self.edges();
        let mut watched = self.subscriptions.watched_mut();
        edges.iter().for_each(|edge| watched.remove(edge));
        edges.clear();
    }

    fn edge(&self, watched: &mut Watched, of: News, marks: u8) -> Arc<Edge> {
        let (tag, outbox) = (self.tag.clone(), Weak::clone(&self.outbox));
        Arc::new(Edge { number: watched.number(), marks: AtomicU8::new(marks), of, tag, outbox })
    }

    fn edges(&self) -> MutexGuard<'_, Vec<Arc<Edge>>> {
        self.edges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Edge {
    fn uri(&self) -> Option<&str> {
        match &self.of {
            News::Resource(uri) => Some(uri),
            News::Lists(_) => None,
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        for edge in self.edges().iter() {
            edge.marks.fetch_or(ENDED, Ordering::AcqRel);
        }
        self.leave();
        self.forget_ended();
        if self.tag.is_some() {
            self.subscriptions.listens.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
