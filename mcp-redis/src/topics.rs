use mcp_runtime::backend::{BackendError, BackendFuture, TopicSubscription, Topics};

use redis::cmd;

use crate::{
    backend::Redis,
    client::{Call, Client, Repeat},
    scripts::Scripts,
};

/// The maximum length of a message in bytes.
const MAX_MESSAGE: usize = 1 << 20;

impl Topics for Redis {
    fn publish<'a>(&'a self, topic: &'a str, message: Vec<u8>) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            if message.len() > MAX_MESSAGE {
                return Err(BackendError::Full);
            }
            publish(self.client(), self.scripts(), self.keys().topic_channel(topic)?, &message).await
        })
    }

    fn subscribe<'a>(&'a self, topic: &'a str) -> BackendFuture<'a, TopicSubscription> {
        Box::pin(async move {
            self.subscriptions().subscribe(self.keys().topic_channel(topic)?, self.client().deadline()).await
        })
    }
}

/// Publishes a message on a channel, at most once.
pub(crate) async fn publish(
    client: &Client,
    scripts: &Scripts,
    channel: String,
    message: &[u8],
) -> Result<(), BackendError> {
    let deadline = client.deadline();
    if !client.is_cluster {
        let encode = |_| {
            let mut command = cmd("PUBLISH");
            command.arg(&channel).arg(message);
            command
        };
        return client.write::<u64>(encode, Repeat::Never, message.len(), deadline).await.map(drop);
    }
    // A cluster executes a script with a key always at the same node, which keeps the order of messages.
    let call = Call { keys: &[channel], arguments: &[message], if_repeated: None, repeat: Repeat::Never };
    client.run(&scripts.publish, &call, deadline).await
}
