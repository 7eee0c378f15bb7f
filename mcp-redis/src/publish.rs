//! Publishes messages: those of topics, and those that a process sends to itself.

use mcp_runtime::backend::BackendError;

use crate::{
    client::{Call, Client, Repeat},
    scripts::Scripts,
};

/// Publishes a message on a channel, at most once.
pub(crate) async fn publish(
    client: &Client,
    scripts: &Scripts,
    channel: String,
    message: &[u8],
) -> Result<(), BackendError> {
    let call = Call { keys: &[channel], arguments: &[message], if_repeated: None, repeat: Repeat::Never };
    client.run(&scripts.publish, &call, client.deadline()).await
}
