//! The subscribers of one process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mcp_runtime::{BackendError, TopicSender, TopicSubscription};

/// The maximum number of subscribers.
const MAX_SUBSCRIBERS: usize = 200_000;

/// The channels that have subscribers in this process, each of which is subscribed to once.
#[derive(Default)]
pub(crate) struct Channels(Mutex<Subscribers>);

#[derive(Default)]
struct Subscribers {
    by_channel: HashMap<String, Vec<TopicSender>>,
    /// The number of senders, including those whose subscriptions were dropped since the last sweep.
    count: usize,
}

impl Channels {
    /// Adds a subscriber. Returns its subscription, and whether it is the first one of its channel.
    pub(crate) fn add(&self, channel: &str) -> Result<(TopicSubscription, bool), BackendError> {
        let mut subscribers = self.lock();
        if subscribers.count >= MAX_SUBSCRIBERS {
            return Err(BackendError::Full);
        }
        subscribers.count += 1;
        let (sender, subscription) = TopicSubscription::new();
        let senders = subscribers.by_channel.entry(channel.to_owned()).or_default();
        senders.push(sender);
        Ok((subscription, senders.len() == 1))
    }

    /// Delivers a message.
    pub(crate) fn deliver(&self, channel: &str, message: &[u8]) {
        if let Some(senders) = self.lock().by_channel.get(channel) {
            let message: Arc<[u8]> = message.into();
            senders.iter().for_each(|sender| sender.send(Arc::clone(&message)));
        }
    }

    /// Tells all subscribers that messages may have been lost.
    pub(crate) fn missed(&self) {
        self.lock().by_channel.values().flatten().for_each(TopicSender::missed);
    }

    /// Removes the senders of dropped subscriptions. Returns the channels that have no subscribers any more.
    pub(crate) fn sweep(&self) -> Vec<String> {
        let mut subscribers = self.lock();
        let mut unused = Vec::new();
        subscribers.by_channel.retain(|channel, senders| {
            senders.retain(|sender| !sender.is_closed());
            if senders.is_empty() {
                unused.push(channel.clone());
            }
            !senders.is_empty()
        });
        subscribers.count = subscribers.by_channel.values().map(Vec::len).sum();
        unused
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().by_channel.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Subscribers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_channel_is_used_as_long_as_it_has_subscribers() {
        let channels = Channels::default();
        let (mut first, is_first) = channels.add("a").unwrap();
        assert!(is_first);
        let (second, is_first) = channels.add("a").unwrap();
        assert!(!is_first);
        let (_other, is_first) = channels.add("b").unwrap();
        assert!(is_first);
        drop(second);
        assert_eq!(channels.sweep(), Vec::<String>::new());
        channels.deliver("a", b"x");
        assert!(first.next().await.is_some());
        drop(first);
        assert_eq!(channels.sweep(), ["a"]);
        assert_eq!(channels.names(), ["b"]);
        assert_eq!(channels.lock().count, 1);
    }
}
