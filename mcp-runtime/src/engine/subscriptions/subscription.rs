use std::sync::{
    Arc, Weak,
    atomic::{AtomicU8, Ordering},
};

use crate::{
    engine::outbox::{Outbox, PendingNotifications},
    handler::comma,
    jsonrpc::write,
    registry::Kinds,
};

/// The flag of a subscription whose notifications are held back until its subscriber is ready.
const HELD: u8 = 0x40;
/// The flag of a subscription that has ended.
const ENDED: u8 = 0x80;
/// The pending change of a subscription to a resource.
const UPDATED: u8 = 1;

const _: () = assert!((Kinds::ALL.0 | UPDATED) & (HELD | ENDED) == 0, "more kinds than bits: widen `pending`");

/// The subscription of one subscriber to one subject.
///
/// A subscription is either clean or pending. The first change marks it as pending and queues it in its outbox; further
/// changes do not queue it again. Writing its notifications makes it clean.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(super) number: u64,
    /// The pending changes and the flags, as bits.
    pending: AtomicU8,
    subject: Subject,
    /// The JSON of the request id that the notifications carry. `None` for a session.
    subscription_id: Option<Arc<str>>,
    outbox: Weak<Outbox>,
}

/// The subject of a subscription.
#[derive(Debug)]
pub(super) enum Subject {
    /// The lists of these kinds of entries.
    Lists(Kinds),
    /// The resource with this URI.
    Resource(Arc<str>),
}

impl Subscription {
    pub(super) fn new(number: u64, subject: Subject, subscription_id: Option<Arc<str>>, outbox: Weak<Outbox>) -> Self {
        Self { number, pending: AtomicU8::new(0), subject, subscription_id, outbox }
    }

    /// Holds notifications back until [`release`](Self::release).
    pub(super) fn held(self) -> Self {
        Self { pending: AtomicU8::new(HELD), ..self }
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Returns the URI of the subscribed resource.
    pub(super) fn uri(&self) -> Option<&str> {
        match &self.subject {
            Subject::Resource(uri) => Some(uri),
            Subject::Lists(_) => None,
        }
    }

    /// Marks the subscribed lists among `changed` as pending.
    pub(super) fn lists_changed(self: &Arc<Self>, changed: Kinds) {
        if let Subject::Lists(kinds) = self.subject {
            self.mark(changed.0 & kinds.0);
        }
    }

    /// Marks the subscribed resource as pending.
    pub(super) fn resource_updated(self: &Arc<Self>) {
        self.mark(UPDATED);
    }

    fn mark(self: &Arc<Self>, changes: u8) {
        if changes != 0 && self.pending.fetch_or(changes, Ordering::AcqRel) == 0 {
            self.enqueue();
        }
    }

    fn enqueue(self: &Arc<Self>) {
        if let Some(outbox) = self.outbox.upgrade() {
            outbox.enqueue(Arc::clone(self) as _);
        }
    }

    /// Queues the notifications that were held back, and stops holding notifications back.
    pub(super) fn release(self: &Arc<Self>) {
        let before = self.pending.fetch_and(!HELD, Ordering::AcqRel);
        if before & HELD != 0 && before & !HELD != 0 {
            self.enqueue();
        }
    }

    /// Ends the subscription. Pending notifications are discarded.
    pub(super) fn end(&self) {
        self.pending.fetch_or(ENDED, Ordering::AcqRel);
    }

    fn write_line(&self, out: &mut Vec<u8>, method: &str, uri: Option<&str>) {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","method":""#);
        out.extend_from_slice(method.as_bytes());
        out.push(b'"');
        if self.subscription_id.is_some() || uri.is_some() {
            out.extend_from_slice(br#","params":{"#);
            if let Some(subscription_id) = &self.subscription_id {
                write_subscription_id(out, subscription_id);
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

impl PendingNotifications for Subscription {
    fn write(&self, out: &mut Vec<u8>) {
        // Changes from here on make it pending again.
        let pending = self.pending.fetch_and(HELD | ENDED, Ordering::AcqRel);
        if pending & ENDED != 0 {
            return;
        }
        match &self.subject {
            Subject::Resource(uri) => self.write_line(out, "notifications/resources/updated", Some(uri)),
            Subject::Lists(_) => {
                for kind in Kinds(pending).iter() {
                    self.write_line(out, kind.list_changed(), None);
                }
            }
        }
    }

    fn is_ended(&self) -> bool {
        self.pending.load(Ordering::Acquire) & ENDED != 0
    }
}

/// Writes the `_meta` that names the subscription of a notification.
pub(super) fn write_subscription_id(out: &mut Vec<u8>, subscription_id: &str) {
    out.extend_from_slice(br#""_meta":{"io.modelcontextprotocol/subscriptionId":"#);
    out.extend_from_slice(subscription_id.as_bytes());
    out.push(b'}');
}
