//! The changes that other replicas announce, or that this replica may have missed.

#[cfg(feature = "http")]
use std::sync::atomic::Ordering;

use super::subscriber::Subscriptions;
#[cfg(feature = "http")]
use super::subscriber::{Subject, Subscriber};
use crate::registry::Kinds;

impl Subscriptions {
    /// Notifies the subscribers of the lists of these kinds, and the subscribers of all resources.
    pub(crate) fn everything_changed(&self, kinds: Kinds) {
        self.lists_changed(kinds);
        for subscription in self.index().resources.values().flatten() {
            subscription.resource_updated();
        }
    }
}

#[cfg(feature = "http")]
impl Subscriber {
    /// Returns the number of updates of resources since the server started.
    pub(crate) fn updates(&self) -> u64 {
        self.server.updates.load(Ordering::Acquire)
    }

    /// Subscribes to these resources, and ends the subscriptions to other resources. Subscriptions beyond the limits
    /// are ignored. If [`updates`](Self::updates) was `since` before the new subscriptions were known, and has
    /// increased, their resources count as updated.
    pub(crate) fn set_resources(&self, uris: &[String], since: Option<u64>) {
        let known = self.subscriptions().iter().filter_map(|known| known.uri().map(str::to_owned)).collect::<Vec<_>>();
        for uri in known.iter().filter(|uri| !uris.contains(uri)) {
            self.unsubscribe_resource(uri);
        }
        for uri in uris.iter().filter(|uri| !known.contains(uri)) {
            let _ = self.subscribe_resource(uri);
        }
        if since.is_none_or(|since| since == self.updates()) {
            return;
        }
        let is_new = |uri: &str| !known.iter().any(|known| known == uri);
        for subscription in self.subscriptions().iter().filter(|subscription| subscription.uri().is_some_and(is_new)) {
            subscription.resource_updated();
        }
    }

    /// Notifies of the lists of these kinds and of all resources as if they had changed.
    pub(crate) fn everything_changed(&self, kinds: Kinds) {
        for subscription in &*self.subscriptions() {
            match subscription.subject() {
                Subject::Lists(_) => subscription.lists_changed(kinds),
                Subject::Resource(_) => subscription.resource_updated(),
            }
        }
    }
}
