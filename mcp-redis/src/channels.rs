//! The subscribers of one process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mcp_runtime::backend::{BackendError, TopicSender, TopicSubscription};
use tokio::time::Instant;

/// The maximum number of subscribers.
const MAX_SUBSCRIBERS: usize = 200_000;

/// The channels that have subscribers in this process, each of which is subscribed to once.
#[derive(Default)]
pub(crate) struct Channels(Mutex<Subscribers>);

#[derive(Default)]
struct Subscribers {
    by_channel: HashMap<String, Channel>,
    /// The number of senders, including the senders of dropped subscriptions that have yet to be removed.
    count: usize,
}

#[derive(Default)]
struct Channel {
    senders: Vec<TopicSender>,
    /// The state of the log of the channel. `None` for a topic.
    latest: Option<Latest>,
    /// The time at which announcements may have been lost, or at which the log was deleted.
    forgotten_at: Option<Instant>,
}

/// The position of the newest entry of a log, as far as a process knows. Later entries are announced on the channel of
/// the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Latest {
    pub(crate) position: u64,
    /// The time before the log was asked for it, or at which it was announced.
    pub(crate) known_at: Instant,
}

impl Channels {
    /// Adds a subscriber. Returns its subscription, and whether it is the first one of its channel.
    pub(crate) fn add(&self, channel: &str) -> Result<(TopicSubscription, bool), BackendError> {
        self.lock().add(channel)
    }

    /// Adds a subscriber to the channel of a log whose newest entry is known.
    pub(crate) fn follow(&self, channel: &str) -> Option<(TopicSubscription, Latest)> {
        let mut subscribers = self.lock();
        let latest = subscribers.by_channel.get(channel)?.latest?;
        let (subscription, _) = subscribers.add(channel).ok()?;
        Some((subscription, latest))
    }

    /// Records the newest entry of a log, which was asked for while the channel had subscribers.
    pub(crate) fn set_latest(&self, channel: &str, latest: Latest) {
        if let Some(channel) = self.lock().by_channel.get_mut(channel)
            && channel.forgotten_at.is_none_or(|forgotten_at| forgotten_at < latest.known_at)
        {
            channel.latest = Some(channel.latest.filter(|known| known.known_at > latest.known_at).unwrap_or(latest));
        }
    }

    /// Forgets the newest entry of a log that does not exist.
    pub(crate) fn forget_latest(&self, channel: &str) {
        if let Some(channel) = self.lock().by_channel.get_mut(channel) {
            channel.forget();
        }
    }

    /// Delivers a message.
    pub(crate) fn deliver(&self, channel: &str, message: &[u8]) {
        if let Some(channel) = self.lock().by_channel.get_mut(channel) {
            match (announced(message), channel.latest) {
                (Some(position), Some(latest)) if position > latest.position => {
                    channel.latest = Some(Latest { position, known_at: Instant::now() });
                }
                (Some(position), Some(latest)) if position == latest.position => {}
                // The log was deleted or replaced, or an answer that is under way may be older than this entry.
                _ => channel.forget(),
            }
            let message: Arc<[u8]> = message.into();
            channel.senders.iter().for_each(|sender| sender.send(Arc::clone(&message)));
        }
    }

    /// Tells all subscribers that messages may have been lost.
    pub(crate) fn missed(&self) {
        for channel in self.lock().by_channel.values_mut() {
            channel.forget();
            channel.senders.iter().for_each(TopicSender::missed);
        }
    }

    /// Removes the senders of dropped subscriptions. Returns the channels that have no subscribers any more.
    pub(crate) fn sweep(&self) -> Vec<String> {
        let mut subscribers = self.lock();
        let mut unused = Vec::new();
        subscribers.by_channel.retain(|name, channel| {
            channel.senders.retain(|sender| !sender.is_closed());
            if channel.senders.is_empty() {
                unused.push(name.clone());
            }
            !channel.senders.is_empty()
        });
        subscribers.count = subscribers.by_channel.values().map(|channel| channel.senders.len()).sum();
        unused
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().by_channel.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Subscribers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscribers {
    fn add(&mut self, channel: &str) -> Result<(TopicSubscription, bool), BackendError> {
        if self.count >= MAX_SUBSCRIBERS {
            return Err(BackendError::Full);
        }
        let (sender, subscription) = TopicSubscription::new();
        let senders = &mut self.by_channel.entry(channel.to_owned()).or_default().senders;
        // A reader of a log subscribes again for each entry. A channel that is left without subscribers is still
        // subscribed to, until a sweep removes it.
        let (is_first, before) = (senders.is_empty(), senders.len());
        senders.retain(|sender| !sender.is_closed());
        senders.push(sender);
        self.count = self.count - before + senders.len();
        Ok((subscription, is_first))
    }
}

impl Channel {
    fn forget(&mut self) {
        self.latest = None;
        self.forgotten_at = Some(Instant::now());
    }
}

/// Returns the position in the announcement of an entry. Returns `None` for the announcement that the log was deleted.
pub(crate) fn announced(message: &[u8]) -> Option<u64> {
    std::str::from_utf8(message).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use mcp_runtime::backend::TopicEvent;

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

    #[tokio::test]
    async fn the_newest_entry_of_a_log_is_known_while_its_channel_has_subscribers() {
        let channels = Channels::default();
        let start = Instant::now();
        let latest = |position| Latest { position, known_at: Instant::now() };
        let known = || channels.follow("log").map(|(_, latest)| latest.position);
        channels.set_latest("log", latest(1));
        assert_eq!(known(), None, "later entries would be lost");
        let (mut subscription, _) = channels.add("log").unwrap();
        channels.set_latest("log", latest(1));
        assert_eq!(known(), Some(1));
        channels.deliver("log", b"");
        channels.deliver("log", b"1");
        assert_eq!(known(), None, "an earlier announcement may have been lost");
        for (position, message, expected) in
            [(2, "3", Some(3)), (2, "1", None), (4, "5", Some(5)), (6, "6", Some(6)), (7, "", None), (6, "7", Some(7))]
        {
            channels.set_latest("log", latest(position));
            channels.deliver("log", message.as_bytes());
            assert_eq!(known(), expected, "{position} {message}");
        }
        let asked = Instant::now();
        channels.deliver("log", b"8");
        channels.set_latest("log", Latest { position: 7, known_at: asked });
        assert_eq!(known(), Some(8), "the log was asked before the entry was announced");
        channels.missed();
        assert_eq!(subscription.next().await, Some(TopicEvent::Missed));
        assert_eq!(known(), None);
        channels.set_latest("log", Latest { position: 8, known_at: start });
        assert_eq!(known(), None, "the log was asked before announcements were lost");
        channels.set_latest("log", latest(8));
        let (mut other, _) = channels.follow("log").unwrap();
        channels.deliver("log", b"9");
        assert!(other.next().await.is_some());
        drop((subscription, other));
        assert_eq!(channels.sweep(), ["log"]);
        assert_eq!(known(), None);
    }

    #[test]
    fn the_number_of_subscribers_is_bounded() {
        let channels = Channels::default();
        channels.lock().count = MAX_SUBSCRIBERS - 1;
        let last = channels.add("a");
        assert!(last.is_ok());
        assert_eq!(channels.add("a").err(), Some(BackendError::Full));
    }

    #[tokio::test]
    async fn subscriptions_that_follow_each_other_do_not_add_up() {
        let channels = Channels::default();
        let (mut subscription, _) = channels.add("log").unwrap();
        for _ in 0..10 {
            let (next, is_first) = channels.add("log").unwrap();
            assert!(!is_first, "the channel is still subscribed to");
            drop(std::mem::replace(&mut subscription, next));
            assert!(channels.lock().count <= 2);
        }
    }
}
