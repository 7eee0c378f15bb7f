//! The changes that other replicas announce, or that this replica may have missed.

#[cfg(feature = "http")]
use std::sync::atomic::Ordering;

use super::subscriber::Subscriptions;
#[cfg(feature = "http")]
use super::subscriber::{Subject, Subscriber, Subscription, release};
use crate::registry::ListSet;

impl Subscriptions {
    /// Notifies the subscribers of these lists, and the subscribers of all resources.
    pub(crate) fn everything_changed(&self, lists: ListSet) {
        self.lists_changed(lists);
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
    ///
    /// Returns a function that tells the author's code, for the caller to run without locks. It considers all functions,
    /// since the record of a session does not tell which of them the client sees.
    pub(crate) fn set_resources(&self, uris: &[String], since: Option<u64>) -> impl FnOnce() + use<'_> {
        let known = self.subscriptions().iter().filter_map(|known| known.uri().map(str::to_owned)).collect::<Vec<_>>();
        let ended = known.iter().filter(|uri| !uris.contains(uri));
        let ended: Vec<_> = ended.map(|uri| (uri.clone(), self.remove_resource(uri))).collect();
        let mut added = uris.to_vec();
        added.retain(|uri| self.insert_resource(uri).unwrap_or_default());
        if since.is_some_and(|since| since != self.updates()) {
            let is_new = |uri: &str| added.iter().any(|added| added == uri);
            let subscriptions = self.subscriptions();
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
        self.subscriptions().iter().for_each(Subscription::repeat);
    }

    /// Records that the client has received all notifications that were written.
    pub(crate) fn acknowledge(&self) {
        for subscription in &*self.subscriptions() {
            let _ = subscription.take_written();
        }
    }

    /// Notifies of these lists and of all resources as if they had changed.
    pub(crate) fn everything_changed(&self, lists: ListSet) {
        for subscription in &*self.subscriptions() {
            match subscription.subject() {
                Subject::Lists(_) => subscription.lists_changed(lists),
                Subject::Resource(_) => subscription.resource_updated(),
            }
        }
    }
}
