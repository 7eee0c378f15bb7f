//! Topics in memory.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    error::BackendError,
    topics::{TopicSender, TopicSubscription},
};

/// The maximum number of subscriptions.
const MAX_SUBSCRIPTIONS: usize = 200_000;

/// The maximum length of a name in bytes.
const MAX_NAME: usize = 1024;

/// The maximum length of a message in bytes.
const MAX_MESSAGE: usize = 1 << 20;

/// The topics of a [`MemoryBackend`](super::MemoryBackend).
#[derive(Default)]
pub(super) struct MemoryTopics(Mutex<Subscribers>);

#[derive(Default)]
struct Subscribers {
    by_topic: HashMap<Box<str>, Vec<TopicSender>>,
    /// The number of senders, including those whose subscriptions were dropped since the last sweep.
    count: usize,
    /// The number of senders at which the next sweep takes place.
    sweep_at: usize,
}

impl MemoryTopics {
    pub(super) fn publish(&self, topic: &str, message: Vec<u8>) -> Result<(), BackendError> {
        if message.len() > MAX_MESSAGE {
            return Err(BackendError::Full);
        }
        let subscribers = self.lock();
        if let Some(senders) = subscribers.by_topic.get(topic) {
            let message: Arc<[u8]> = message.into();
            senders.iter().for_each(|sender| sender.send(Arc::clone(&message)));
        }
        Ok(())
    }

    pub(super) fn subscribe(&self, topic: &str) -> Result<TopicSubscription, BackendError> {
        let mut subscribers = self.lock();
        subscribers.sweep();
        if topic.len() > MAX_NAME || subscribers.count >= MAX_SUBSCRIPTIONS {
            return Err(BackendError::Full);
        }
        let (sender, subscription) = TopicSubscription::new();
        subscribers.count += 1;
        subscribers.by_topic.entry(topic.into()).or_default().push(sender);
        Ok(subscription)
    }

    fn lock(&self) -> MutexGuard<'_, Subscribers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscribers {
    /// Removes the senders of dropped subscriptions whenever their number may have doubled.
    fn sweep(&mut self) {
        if self.count < self.sweep_at {
            return;
        }
        self.by_topic.retain(|_, senders| {
            senders.retain(|sender| !sender.is_closed());
            !senders.is_empty()
        });
        self.count = self.by_topic.values().map(Vec::len).sum();
        self.sweep_at = (2 * self.count).clamp(64, MAX_SUBSCRIPTIONS);
    }
}

impl fmt::Debug for MemoryTopics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTopics").field("topics", &self.lock().by_topic.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_subscriptions_free_their_memory() {
        let topics = MemoryTopics::default();
        let kept = topics.subscribe("kept").unwrap();
        for number in 0..1000 {
            drop(topics.subscribe(&number.to_string()).unwrap());
        }
        assert!(topics.lock().by_topic.len() <= 64);
        assert!(topics.lock().by_topic.contains_key("kept"));
        drop(kept);
    }
}
