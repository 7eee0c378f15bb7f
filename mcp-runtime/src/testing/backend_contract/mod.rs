//! The contract of a backend, as a test.

mod logs;
mod records;

use std::{fmt::Write as _, sync::Arc, time::Duration};

use crate::backend::{Backend, BackendError, TopicEvent, TopicSubscription};

/// The time within which an expected event must occur.
const PATIENCE: Duration = Duration::from_secs(20);

/// The time to live of data that must not expire during the test.
const LONG: Duration = Duration::from_secs(600);

/// Checks that a backend does what [`Records`](crate::backend::Records), [`EventLogs`](crate::backend::EventLogs) and [`Topics`](crate::backend::Topics)
/// promise: for tests of implementations.
///
/// The two values stand for two processes: connections to the same store, or clones of one `Arc`. Everything that is
/// written has a key of its own, which begins with `contract/`. Must be called within a tokio runtime.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_runtime::{backend::MemoryBackend, testing::backend_contract};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let backend = Arc::new(MemoryBackend::default());
/// backend_contract(Arc::clone(&backend), backend).await.unwrap();
/// # });
/// ```
///
/// # Errors
///
/// The backend is unavailable, or full.
///
/// # Panics
///
/// The backend does something else than it must.
pub async fn backend_contract(one: impl Backend, other: impl Backend) -> Result<(), BackendError> {
    let random = getrandom::u64().map_err(|error| BackendError::Unavailable(error.to_string()))?;
    let pair = Pair { one: Arc::new(one), other: Arc::new(other), prefix: format!("contract/{random:016x}") };
    records::check(&pair).await?;
    logs::check(&pair).await?;
    check_topics(&pair).await
}

/// Two connections to one store.
struct Pair {
    one: Arc<dyn Backend>,
    other: Arc<dyn Backend>,
    /// The prefix of all keys.
    prefix: String,
}

impl Pair {
    /// Returns a key for one check.
    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    /// Returns both connections.
    fn both(&self) -> [&Arc<dyn Backend>; 2] {
        [&self.one, &self.other]
    }
}

/// Returns a key that is too long.
fn long_key() -> String {
    let mut key = String::new();
    while key.len() <= 1024 {
        let _: Result<_, _> = write!(key, "contract/{}", key.len());
    }
    key
}

/// Fails unless the future resolves in time.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}"),
    }
}

/// Waits a moment before something is read again.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Checks the contract of [`Topics`](crate::backend::Topics).
async fn check_topics(pair: &Pair) -> Result<(), BackendError> {
    messages_reach_all_subscribers_in_order(pair).await?;
    messages_are_kept_exactly(pair).await?;
    subscriptions_come_and_go(pair).await
}

async fn messages_reach_all_subscribers_in_order(pair: &Pair) -> Result<(), BackendError> {
    let (topic, other) = (pair.key("topic"), pair.key("topic:other"));
    let mut subscriptions = Vec::new();
    for backend in pair.both().into_iter().cycle().take(4) {
        subscriptions.push(backend.subscribe(&topic).await?);
    }
    let mut others = pair.one.subscribe(&other).await?;
    for number in 0..200 {
        pair.one.publish(&topic, format!("one {number}").into_bytes()).await?;
        pair.other.publish(&topic, format!("other {number}").into_bytes()).await?;
    }
    pair.other.publish(&other, b"end".to_vec()).await?;
    for subscription in &mut subscriptions {
        let mut next = [0, 0];
        while next != [200, 200] {
            let message = message(subscription).await;
            let publisher = usize::from(message.starts_with(b"other"));
            let expected = format!("{} {}", ["one", "other"][publisher], next[publisher]);
            assert_eq!(message, expected.as_bytes(), "a message was lost, or the order was changed");
            next[publisher] += 1;
        }
    }
    assert_eq!(message(&mut others).await, b"end", "a message of another topic was received");
    Ok(())
}

async fn messages_are_kept_exactly(pair: &Pair) -> Result<(), BackendError> {
    let topic = pair.key("messages");
    let mut subscription = pair.other.subscribe(&topic).await?;
    for expected in [vec![], (0..=u8::MAX).collect(), vec![7; 1 << 20]] {
        pair.one.publish(&topic, expected.clone()).await?;
        assert!(message(&mut subscription).await == expected, "a message was altered");
    }
    let published = pair.one.publish(&topic, vec![7; (1 << 20) + 1]).await;
    assert_eq!(published, Err(BackendError::Full), "a message is too long");
    let subscribed = pair.one.subscribe(&long_key()).await;
    assert!(matches!(subscribed, Err(BackendError::Full)), "a name is too long");
    Ok(())
}

async fn subscriptions_come_and_go(pair: &Pair) -> Result<(), BackendError> {
    let topic = pair.key("visitors");
    for number in 0..20_u8 {
        let mut visitor = pair.other.subscribe(&topic).await?;
        let mut neighbor = pair.other.subscribe(&topic).await?;
        pair.one.publish(&topic, vec![number]).await?;
        assert_eq!(message(&mut visitor).await, [number]);
        drop(visitor);
        pair.one.publish(&topic, vec![100 + number]).await?;
        assert_eq!(message(&mut neighbor).await, [number]);
        assert_eq!(message(&mut neighbor).await, [100 + number]);
    }
    let mut many = Vec::new();
    for number in 0..500 {
        many.push(pair.one.subscribe(&pair.key(&format!("many/{number}"))).await?);
    }
    for (number, subscription) in many.iter_mut().enumerate() {
        let expected = number.to_string().into_bytes();
        pair.other.publish(&pair.key(&format!("many/{number}")), expected.clone()).await?;
        assert_eq!(message(subscription).await, expected);
    }
    Ok(())
}

/// Returns the next message.
async fn message(subscription: &mut TopicSubscription) -> Vec<u8> {
    match soon("a message does not arrive", subscription.next()).await {
        Some(TopicEvent::Message(message)) => message.to_vec(),
        event => panic!("expected a message, received {event:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::MemoryBackend;

    #[tokio::test]
    async fn the_memory_backend_keeps_the_contract() {
        let backend = Arc::new(MemoryBackend::default());
        backend_contract(Arc::clone(&backend), backend).await.unwrap();
    }
}
