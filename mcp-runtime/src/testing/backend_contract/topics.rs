//! The contract of [`Topics`](crate::backend::Topics).

use super::{Pair, long_key, soon};
use crate::backend::{BackendError, TopicEvent, TopicSubscription};

pub(super) async fn check(pair: &Pair) -> Result<(), BackendError> {
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
