//! The changes that other replicas announce, or that this replica may have missed.

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
    /// Subscribes to these resources, as the client did at another replica, and ends the subscriptions to other resources.
    /// Subscriptions beyond the limits are ignored. The resources of new subscriptions count as updated, since this
    /// replica may have missed an update between the subscription and now.
    ///
    /// Returns a function that tells the author's code, for the caller to run without locks. It considers all functions,
    /// since the record of a session does not tell which of them the client sees.
    pub(crate) fn set_resources(&self, uris: &[String]) -> impl FnOnce() + use<'_> {
        let known = self.subscriptions().iter().filter_map(|known| known.uri().map(str::to_owned)).collect::<Vec<_>>();
        let ended = known.iter().filter(|uri| !uris.contains(uri));
        let ended: Vec<_> = ended.map(|uri| (uri.clone(), self.remove_resource(uri))).collect();
        let mut added = uris.to_vec();
        added.retain(|uri| self.insert_resource(uri).unwrap_or_default());
        for subscription in self.subscriptions().iter() {
            if subscription.uri().is_some_and(|uri| added.iter().any(|added| added == uri)) {
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
