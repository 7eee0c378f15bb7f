//! The connection for subscriptions.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use mcp_runtime::backend::{BackendError, TopicSubscription};
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
    address::Address,
    channels::Channels,
    client::Client,
    link::{Backoff, pause_after},
    scripts::Scripts,
};

/// The maximum number of subscriptions that wait for their confirmation.
const MAX_PENDING: usize = 16_384;

/// The maximum number of channels that one command subscribes to.
const BATCH: usize = 256;

/// The time in which the server must confirm a command.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(2);

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
    pub(crate) fn start(address: Arc<Address>, client: Arc<Client>, scripts: Arc<Scripts>, heartbeat: String) -> Self {
        let (send, requests) = mpsc::channel(MAX_PENDING);
        let channels = Arc::<Channels>::default();
        let received = Notify::new();
        let subscriber = Subscriber { address, client, scripts, heartbeat, channels: Arc::clone(&channels), received };
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
    scripts: Arc<Scripts>,
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
            confirmed(sink.subscribe(channels)).await?;
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
            confirmed(sink.subscribe(new)).await?;
        }
        added.into_iter().for_each(|(reply, subscription)| drop(reply.send(Ok(subscription))));
        Ok(())
    }

    async fn unsubscribe(&self, sink: &mut PubSubSink) -> RedisResult<()> {
        for channels in self.channels.sweep().chunks(BATCH) {
            confirmed(sink.unsubscribe(channels)).await?;
        }
        Ok(())
    }

    /// Waits until messages of this process to itself no longer arrive although they were sent.
    async fn until_silent(&self) {
        loop {
            sleep(HEARTBEAT_INTERVAL).await;
            let received = self.received.notified();
            if self.client.publish(&self.scripts.publish, self.heartbeat.clone(), b"").await.is_ok()
                && timeout(HEARTBEAT_TIMEOUT, received).await.is_err()
            {
                return;
            }
        }
    }
}

async fn confirmed(command: impl Future<Output = RedisResult<()>>) -> RedisResult<()> {
    let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no response in time");
    timeout(CONFIRM_TIMEOUT, command).await.unwrap_or_else(|_| Err(late().into()))
}
