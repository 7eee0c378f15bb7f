//! A backend that tests can interrupt.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mcp_runtime::{
    __private::{BackendHook, BackendMethod, BackendOperation, TestBackend},
    backend::{BackendError, BackendFuture, TopicEvent, TopicSender, TopicSubscription},
};
use tokio::sync::watch;

/// How an [`UnreliableBackend`] responds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Like its inner backend, which is in memory.
    Up,
    /// Like its inner backend, but its topics deliver nothing.
    Deaf,
    /// Like its inner backend, but publishing to topics fails.
    Mute,
    /// With an error.
    Failing,
    /// Like its inner backend, but nothing can be written, because it is full.
    Full,
    /// Like its inner backend, but each operation takes this long.
    Slow(Duration),
    /// Like its inner backend, but each response takes this long.
    Late(Duration),
    /// Not until its health changes.
    Hanging,
}

/// A [`MemoryBackend`](mcp_runtime::backend::MemoryBackend) that tests interrupt. While it is not up, its subscribers miss all
/// messages.
///
/// Each view of a backend stands for the connection of one process, and fails independently of the others:
/// [`other_process`](TestBackend::other_process) returns another view.
pub type UnreliableBackend = TestBackend<Interruptions>;

/// Interrupts the operations and the subscriptions of an [`UnreliableBackend`].
#[derive(Debug)]
pub struct Interruptions {
    health: watch::Sender<Health>,
    subscribers: Mutex<Vec<tokio::task::AbortHandle>>,
}

impl Default for Interruptions {
    fn default() -> Self {
        Self { health: watch::Sender::new(Health::Up), subscribers: Mutex::default() }
    }
}

impl Interruptions {
    /// Sets how the backend responds from now on. Operations that hang continue when the health changes.
    pub fn set_health(&self, health: Health) {
        self.health.send_replace(health);
    }

    /// Ends all subscriptions to topics, like a backend that has given up.
    pub fn end_subscriptions(&self) {
        self.subscribers().drain(..).for_each(|forwarding| forwarding.abort());
    }

    /// Waits until there are at least `count` subscriptions to topics.
    pub async fn subscribed(&self, count: usize) {
        while self.subscribers().len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn subscribers(&self) -> MutexGuard<'_, Vec<tokio::task::AbortHandle>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BackendHook for Interruptions {
    fn intercept<'a, T: Send + 'a>(
        &'a self,
        operation: BackendOperation<'_>,
        run: BackendFuture<'a, T>,
    ) -> BackendFuture<'a, T> {
        let method = operation.method;
        Box::pin(async move {
            let mut health = self.health.subscribe();
            // The sender belongs to `self`.
            let _ = health.wait_for(|health| *health != Health::Hanging).await;
            let health = *health.borrow();
            if let Health::Slow(delay) = health {
                tokio::time::sleep(delay).await;
            }
            if health == Health::Failing || health == Health::Mute && method == BackendMethod::Publish {
                return Err(BackendError::Unavailable("the test interrupts it".to_owned()));
            }
            if health == Health::Full
                && matches!(method, BackendMethod::Set | BackendMethod::Insert | BackendMethod::Append)
            {
                return Err(BackendError::Full);
            }
            let result = run.await;
            if let Health::Late(delay) = health {
                tokio::time::sleep(delay).await;
            }
            result
        })
    }

    fn wrap_subscription(&self, subscription: TopicSubscription) -> TopicSubscription {
        let (to, forwarded) = TopicSubscription::new();
        let forwarding = tokio::spawn(forward(subscription, to, self.health.subscribe()));
        self.subscribers().push(forwarding.abort_handle());
        forwarded
    }
}

/// Passes messages on as long as the backend is up, and reports afterwards that some were lost.
async fn forward(mut from: TopicSubscription, to: TopicSender, mut health: watch::Receiver<Health>) {
    while let Some(event) = from.next().await {
        let is_up =
            matches!(*health.borrow(), Health::Up | Health::Mute | Health::Slow(_) | Health::Late(_) | Health::Full);
        match event {
            TopicEvent::Message(message) if is_up => to.send(message),
            _ => {
                let _ = health.wait_for(|health| *health == Health::Up).await;
                to.missed();
            }
        }
    }
}
