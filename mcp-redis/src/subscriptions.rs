//! The connection for subscriptions, and the subscribers of one process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::StreamExt as _;
use mcp_runtime::backend::{BackendError, TopicSender, TopicSubscription};
use redis::{
    RedisResult,
    aio::{PubSubSink, PubSubStream},
};
use tokio::{
    sync::{
        Notify,
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::{Instant, MissedTickBehavior, interval, sleep, timeout, timeout_at},
};

use crate::{
    client::Client,
    connection::{Address, Backoff, in_time, pause_after},
};

/// The maximum number of subscriptions that wait for their confirmation.
const MAX_PENDING: usize = 16_384;

/// The maximum number of channels that one command subscribes to.
const BATCH: usize = 256;

/// The time between two searches for channels without subscribers.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);

/// The time between two messages that a process sends to itself to learn whether messages arrive.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);

/// The time in which such a message must arrive after it was sent.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);

/// Subscribes to channels over one connection, which is opened again when it is lost.
pub(crate) struct Subscriptions {
    requests: mpsc::Sender<Request>,
    channels: Arc<Channels>,
}

struct Request {
    channel: String,
    reply: oneshot::Sender<Result<TopicSubscription, BackendError>>,
}

impl Subscriptions {
    /// Starts the task that keeps the connection. It ends when this value is dropped.
    pub(crate) fn start(address: Arc<Address>, client: Arc<Client>, heartbeat: String) -> Self {
        let (send, requests) = mpsc::channel(MAX_PENDING);
        let channels = Arc::<Channels>::default();
        let received = Notify::new();
        let subscriber = Subscriber { address, client, heartbeat, channels: Arc::clone(&channels), received };
        tokio::spawn(subscriber.run(requests));
        Self { requests: send, channels }
    }

    /// Returns the subscribers of this process.
    pub(crate) fn channels(&self) -> &Channels {
        &self.channels
    }

    /// Subscribes to a channel.
    pub(crate) async fn subscribe(
        &self,
        channel: String,
        deadline: Instant,
    ) -> Result<TopicSubscription, BackendError> {
        let unavailable = |reason: &str| BackendError::Unavailable(reason.to_owned());
        loop {
            let (reply, confirmed) = oneshot::channel();
            self.requests.try_send(Request { channel: channel.clone(), reply }).map_err(|error| match error {
                TrySendError::Full(_) => unavailable("too many subscriptions wait for their confirmation"),
                TrySendError::Closed(_) => unavailable("the runtime of the connection to Redis has ended"),
            })?;
            let late = |_| unavailable("Redis did not confirm a subscription in time");
            // If the connection is lost meanwhile, the request is dropped, and repeated for the next connection.
            if let Ok(subscription) = timeout_at(deadline, confirmed).await.map_err(late)? {
                return subscription;
            }
        }
    }
}

struct Subscriber {
    address: Arc<Address>,
    client: Arc<Client>,
    /// The channel on which the process sends messages to itself.
    heartbeat: String,
    channels: Arc<Channels>,
    /// Notified when such a message has arrived.
    received: Notify,
}

/// Why a connection is no longer used.
enum End {
    Lost,
    /// No further subscriptions can be requested.
    Closed,
}

impl Subscriber {
    async fn run(self, mut requests: mpsc::Receiver<Request>) {
        let mut backoff = Backoff::default();
        while !requests.is_closed() {
            let (sink, stream) = match self.connect().await {
                Ok(connection) => connection,
                Err(error) => {
                    backoff.failed("cannot subscribe to messages of Redis", &error).await;
                    continue;
                }
            };
            if std::mem::take(&mut backoff).has_failed() {
                tracing::warn!("subscribed to messages of Redis again");
            }
            let opened = Instant::now();
            let end = tokio::select! {
                () = self.dispatch(stream) => End::Lost,
                () = self.until_silent() => End::Lost,
                end = self.serve(sink, &mut requests) => end,
            };
            if matches!(end, End::Closed) {
                return;
            }
            tracing::debug!("the connection to Redis for subscriptions was lost");
            pause_after(opened).await;
        }
    }

    /// Connects, subscribes to all channels, and tells their subscribers that messages may have been lost.
    async fn connect(&self) -> RedisResult<(PubSubSink, PubSubStream)> {
        self.channels.sweep();
        let (mut sink, stream) = self.address.subscribe().await?.split();
        let channels = self.channels.names();
        for channels in std::iter::once(std::slice::from_ref(&self.heartbeat)).chain(channels.chunks(BATCH)) {
            in_time(sink.subscribe(channels)).await?;
        }
        self.channels.missed();
        Ok((sink, stream))
    }

    /// Delivers messages until the connection is closed.
    async fn dispatch(&self, mut stream: PubSubStream) {
        while let Some(message) = stream.next().await {
            let channel = message.get_channel_name();
            if channel == self.heartbeat {
                self.received.notify_one();
            } else {
                self.channels.deliver(channel, message.get_payload_bytes());
            }
        }
    }

    /// Subscribes to channels when they are requested, and unsubscribes from unused channels.
    async fn serve(&self, mut sink: PubSubSink, requests: &mut mpsc::Receiver<Request>) -> End {
        let mut sweep = interval(SWEEP_INTERVAL);
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            let changed = tokio::select! {
                received = requests.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        return End::Closed;
                    }
                    self.subscribe(&mut sink, batch.drain(..)).await
                }
                _ = sweep.tick() => self.unsubscribe(&mut sink).await,
            };
            if changed.is_err() {
                return End::Lost;
            }
        }
    }

    async fn subscribe(&self, sink: &mut PubSubSink, requests: impl Iterator<Item = Request>) -> RedisResult<()> {
        let (mut new, mut added) = (Vec::new(), Vec::new());
        for Request { channel, reply } in requests.filter(|request| !request.reply.is_closed()) {
            match self.channels.add(&channel) {
                Ok((subscription, is_first)) => {
                    added.push((reply, subscription));
                    new.extend(is_first.then_some(channel));
                }
                // The caller may be gone.
                Err(error) => drop(reply.send(Err(error))),
            }
        }
        if !new.is_empty() {
            in_time(sink.subscribe(new)).await?;
        }
        added.into_iter().for_each(|(reply, subscription)| drop(reply.send(Ok(subscription))));
        Ok(())
    }

    async fn unsubscribe(&self, sink: &mut PubSubSink) -> RedisResult<()> {
        for channels in self.channels.sweep().chunks(BATCH) {
            in_time(sink.unsubscribe(channels)).await?;
        }
        Ok(())
    }

    /// Waits until messages of this process to itself no longer arrive although they were sent.
    async fn until_silent(&self) {
        loop {
            sleep(HEARTBEAT_INTERVAL).await;
            let received = self.received.notified();
            if self.client.publish(self.heartbeat.clone(), b"").await.is_ok()
                && timeout(HEARTBEAT_TIMEOUT, received).await.is_err()
            {
                return;
            }
        }
    }
}

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
