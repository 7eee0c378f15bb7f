//! The trait of topics.

use std::{collections::VecDeque, fmt, sync::Arc};

use tokio::sync::Notify;

use super::{error::BackendFuture, records::call_target};
use crate::stdx::{Mutex, debug, wait_until};

/// Named channels between processes, on which messages are delivered at most once.
///
/// Names are ASCII text of at most 1,024 bytes.
///
/// ```
/// use mcp_runtime::backend::{MemoryBackend, TopicEvent, Topics as _};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let backend = MemoryBackend::default();
/// let mut subscription = backend.subscribe("app/news").await?;
/// backend.publish("app/news", b"hello".to_vec()).await?;
/// assert_eq!(subscription.next().await, Some(TopicEvent::Message((*b"hello").into())));
/// # Ok::<(), mcp_runtime::backend::BackendError>(())
/// # }).unwrap();
/// ```
///
/// # Delivery
///
/// A subscriber receives the messages that are published after [`subscribe`](Self::subscribe) has resolved, including
/// the messages of its own process, in the order of each publisher. It may also receive the last messages before that.
/// Whenever it may have missed messages, because the connection to the backend was interrupted or because the
/// subscriber is too slow, it receives [`TopicEvent::Missed`] instead, and must read again what the messages announce.
pub trait Topics: fmt::Debug + Send + Sync + 'static {
    /// Delivers a message of at most 1 MiB to the current subscribers in all processes.
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()>;

    /// Subscribes to a topic. Dropping the subscription ends it.
    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription>;
}

/// Implements [`Topics`] as [`forward_records`](super::records::forward_records) implements records.
macro_rules! forward_topics {
    ([$($generics:tt)*] $ty:ty, $this:ident, $call:ident) => {
        impl<$($generics)*> Topics for $ty {
            fn publish<'a>(&'a $this, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
                $call!($this, Publish publish(topic, message), topic, message)
            }

            fn subscribe<'a>(&'a $this, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
                $call!($this, Subscribe subscribe(topic), topic, b"")
            }
        }
    };
}

pub(crate) use forward_topics;

forward_topics!([T: Topics + ?Sized] Arc<T>, self, call_target);

/// The maximum number of messages that wait for one subscriber.
const MAX_MESSAGES: usize = 1024;

/// The maximum number of bytes of the messages that wait for one subscriber, unless it is a single message.
const MAX_BYTES: usize = 4 << 20;

/// An event that a subscriber of a topic receives.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopicEvent {
    /// A message.
    Message(Arc<[u8]>),
    /// Messages may have been lost.
    Missed,
}

/// Omits the message, which may be secret.
impl fmt::Debug for TopicEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(message) => f.debug_struct("Message").field("bytes", &message.len()).finish(),
            Self::Missed => f.write_str("Missed"),
        }
    }
}

/// A subscription to a topic, which [`Topics::subscribe`] returns. Dropping it ends the subscription.
#[derive(Debug)]
pub struct TopicSubscription(Arc<Shared>);

/// The other end of a [`TopicSubscription`], which a backend keeps. Dropping it ends the subscription once the
/// subscriber has received what waits for it.
#[derive(Debug)]
pub struct TopicSender(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<[u8]>>,
    bytes: usize,
    /// Whether messages were lost before the messages that are waiting.
    has_missed: bool,
    is_closed: bool,
}

impl TopicSubscription {
    /// Creates a subscription and the sender of its messages.
    pub fn new() -> (TopicSender, Self) {
        let shared = Arc::<Shared>::default();
        (TopicSender(Arc::clone(&shared)), Self(shared))
    }

    /// Waits for the next event. Returns `None` if the backend has ended the subscription.
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<TopicEvent> {
        wait_until(&self.0.changed, || self.0.state.lock().next()).await
    }
}

impl TopicSender {
    /// Adds a message. If too many are waiting already, discards them all and reports that messages were lost.
    pub fn send(&self, message: Arc<[u8]>) {
        let mut state = self.0.state.lock();
        if state.waiting.len() >= MAX_MESSAGES
            || (!state.waiting.is_empty() && state.bytes.saturating_add(message.len()) > MAX_BYTES)
        {
            state.lose();
        }
        state.bytes += message.len();
        state.waiting.push_back(message);
        drop(state);
        self.0.changed.notify_one();
    }

    /// Discards the messages that are waiting, and reports that messages were lost.
    pub fn missed(&self) {
        self.0.state.lock().lose();
        self.0.changed.notify_one();
    }

    /// Returns whether the subscription was dropped.
    pub fn is_closed(&self) -> bool {
        self.0.state.lock().is_closed
    }
}

impl State {
    /// Returns the next event, `Some(None)` if there will not be any more.
    fn next(&mut self) -> Option<Option<TopicEvent>> {
        if std::mem::take(&mut self.has_missed) {
            return Some(Some(TopicEvent::Missed));
        }
        let Some(message) = self.waiting.pop_front() else { return self.is_closed.then_some(None) };
        self.bytes -= message.len();
        Some(Some(TopicEvent::Message(message)))
    }

    fn lose(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
        self.has_missed = true;
    }
}

debug!(State, self, waiting: self.waiting.len(), bytes: self.bytes);

impl Drop for TopicSubscription {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_closed = true;
        state.waiting.clear();
    }
}

impl Drop for TopicSender {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_subscriber_is_told_that_it_missed_messages() {
        for (messages, bytes, expected) in [
            (MAX_MESSAGES, 1, None),
            (MAX_MESSAGES + 1, 1, Some(1)),
            (4, MAX_BYTES / 4, None),
            (5, MAX_BYTES / 4, Some(1)),
            (1, MAX_BYTES + 1, None),
        ] {
            let (sender, mut subscription) = TopicSubscription::new();
            for _ in 0..messages {
                sender.send(vec![0; bytes].into());
            }
            drop(sender);
            let mut received = 0;
            let mut missed = false;
            while let Some(event) = subscription.next().await {
                assert!(event != TopicEvent::Missed || received == 0, "lost messages are reported first");
                missed |= event == TopicEvent::Missed;
                received += usize::from(event != TopicEvent::Missed);
            }
            assert_eq!((missed, received), (expected.is_some(), expected.unwrap_or(messages)), "{messages} {bytes}");
        }
    }

    /// A subscriber that keeps up again misses nothing more.
    #[tokio::test]
    async fn lost_messages_take_no_room() {
        let (sender, mut subscription) = TopicSubscription::new();
        for round in 0..3 {
            for _ in 0..2 {
                sender.send(vec![0; MAX_BYTES].into());
            }
            assert_eq!(subscription.next().await, Some(TopicEvent::Missed), "{round}");
            assert_ne!(subscription.next().await, Some(TopicEvent::Missed), "{round}");
            for _ in 0..4 {
                sender.send(vec![0; MAX_BYTES / 4].into());
            }
            for _ in 0..4 {
                assert_ne!(subscription.next().await, Some(TopicEvent::Missed), "{round}");
            }
        }
    }

    #[tokio::test]
    async fn a_dropped_end_closes_the_other() {
        let (sender, subscription) = TopicSubscription::new();
        assert!(!sender.is_closed());
        drop(subscription);
        assert!(sender.is_closed());
        let (sender, mut subscription) = TopicSubscription::new();
        sender.missed();
        drop(sender);
        assert_eq!(subscription.next().await, Some(TopicEvent::Missed));
        assert_eq!(subscription.next().await, None);
    }
}
