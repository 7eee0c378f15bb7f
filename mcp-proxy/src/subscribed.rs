//! The resources of an upstream that clients are subscribed to.

use std::{
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use rmcp::model::{ClientRequest, PingRequest};
use tokio::time::{Instant, timeout};

use crate::{
    attempts::Attempts,
    connection::Connection,
    transport::Listener as _,
    upstream::{Target, Upstream, is_expired, lock},
};

/// How many resources of an upstream are subscribed to at the same time. Further ones wait until one of them is not wanted any more.
const MAX_SUBSCRIPTIONS: usize = 256;
/// How many requests to subscribe are in flight at the same time.
const MAX_REQUESTS: usize = 8;
/// The time between two checks whether the upstream still knows the session.
const CHECK: Duration = Duration::from_secs(10);
/// The time between two warnings about subscriptions.
const WARNING: Duration = Duration::from_secs(60);

/// The subscription of a client to a resource.
pub(crate) struct Subscription {
    upstream: Weak<Upstream>,
    uri: String,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Some(upstream) = self.upstream.upgrade() else { return };
        let mut subscribed = lock(&upstream.subscribed);
        if let Some(wanted) = subscribed.get_mut(&self.uri) {
            wanted.count -= 1;
            if wanted.count == 0 {
                subscribed.remove(&self.uri);
                upstream.events.resubscribe.notify_one();
            }
        }
    }
}

impl Upstream {
    /// Subscribes to a resource until the result is dropped.
    pub(crate) fn subscribe(self: &Arc<Self>, uri: &str) -> Subscription {
        let uri = self.prefix.upstream_uri(uri);
        lock(&self.subscribed).entry(uri.clone()).or_default().count += 1;
        self.events.resubscribe.notify_one();
        Subscription { upstream: Arc::downgrade(self), uri }
    }

    /// Subscribes the connection to what clients are subscribed to, whenever one of both changes, and again if that failed.
    pub(crate) async fn keep_subscribed(self: Arc<Self>) {
        let (mut pause, mut checked, mut warned) = (CHECK, Instant::now(), None::<Instant>);
        let mut missed = Attempts::default();
        loop {
            let _ = timeout(pause, self.events.resubscribe.notified()).await;
            pause = CHECK;
            let open = self.slot(None).ok().and_then(|slot| lock(&slot.open).clone());
            if open.is_none() && lock(&self.subscribed).is_empty() {
                continue;
            }
            // The next connection resubscribes.
            let Ok(connection) = self.connection(None).await else { continue };
            if checked.elapsed() >= CHECK {
                checked = Instant::now();
                if self.has_expired(&connection).await {
                    self.drop_connection(None, &connection);
                    continue;
                }
            }
            // An upstream may end its streams soon, again and again.
            if missed.wait().is_zero() && self.events.has_missed_updates.swap(false, Ordering::AcqRel) {
                missed.record(None);
                connection.subscriptions.uris().iter().for_each(|uri| self.events.resource_updated(uri));
            }
            if self.events.has_missed_updates.load(Ordering::Acquire) {
                pause = missed.wait().min(CHECK);
            }
            let left_out = self.update_subscriptions(&connection).await;
            let room = MAX_SUBSCRIPTIONS.saturating_sub(connection.subscriptions.uris().len());
            if let Some(wait) = left_out.iter().map(|(_, wait)| *wait).min().filter(|_| room > 0) {
                pause = wait.min(pause);
            }
            if let Some((uri, _)) = left_out.first()
                && warned.is_none_or(|warned| warned.elapsed() >= WARNING)
            {
                warned = Some(Instant::now());
                let (upstream, number) = (self.prefix.as_str(), left_out.len());
                tracing::warn!(upstream, number, ?uri, room, "resources of an upstream are not subscribed to");
            }
        }
    }

    /// Returns whether an upstream over HTTP has forgotten the session, as after a restart. Only a request shows it.
    async fn has_expired(&self, connection: &Connection) -> bool {
        let is_session = matches!(self.target, Target::Http { .. }) && !connection.is_stateless;
        let ping = connection.request(ClientRequest::PingRequest(PingRequest::default()));
        is_session && matches!(timeout(self.timeout, ping).await, Ok(Err(error)) if is_expired(&error))
    }

    /// Subscribes a connection to as many wanted resources as possible, and returns the other ones with the time until the next
    /// attempt.
    async fn update_subscriptions(&self, connection: &Connection) -> Vec<(String, Duration)> {
        let subscriptions = &connection.subscriptions;
        let mut unwanted = subscriptions.uris();
        unwanted.retain(|uri| !lock(&self.subscribed).contains_key(uri));
        let unsubscribing = stream::iter(unwanted).for_each_concurrent(MAX_REQUESTS, async |uri| {
            let _ = timeout(self.timeout, subscriptions.unsubscribe(&uri)).await;
        });
        unsubscribing.await;
        let left_out = || {
            let current = subscriptions.uris();
            let wanted = lock(&self.subscribed);
            let left_out = wanted.iter().filter(|(uri, _)| !current.contains(*uri));
            left_out.map(|(uri, wanted)| (uri.clone(), wanted.attempts.wait())).collect::<Vec<_>>()
        };
        let room = MAX_SUBSCRIPTIONS.saturating_sub(subscriptions.uris().len());
        let due: Vec<_> = left_out().into_iter().filter(|(_, wait)| wait.is_zero()).take(room).collect();
        let subscribing = stream::iter(due).for_each_concurrent(MAX_REQUESTS, async |(uri, _)| {
            let subscribed = timeout(self.timeout, subscriptions.subscribe(&uri, &self.events)).await;
            let is_subscribed = matches!(subscribed, Ok(Ok(())));
            if let Some(wanted) = lock(&self.subscribed).get_mut(&uri) {
                if is_subscribed && wanted.attempts.last.is_some() {
                    // Earlier updates may be lost.
                    self.events.resource_updated(&uri);
                }
                wanted.attempts.record((!is_subscribed).then_some("it cannot be subscribed to"));
            }
        });
        subscribing.await;
        left_out()
    }
}
