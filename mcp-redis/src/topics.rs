use mcp_runtime::backend::{BackendError, BackendFuture, TopicSubscription, Topics};

use crate::backend::Redis;

/// The maximum length of a message in bytes.
const MAX_MESSAGE: usize = 1 << 20;

impl Topics for Redis {
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            if message.len() > MAX_MESSAGE {
                return Err(BackendError::Full);
            }
            self.client().publish(&self.scripts().publish, self.keys().topic_channel(topic)?, &message).await
        })
    }

    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
        Box::pin(async move {
            self.subscriptions().subscribe(self.keys().topic_channel(topic)?, self.client().deadline()).await
        })
    }
}
