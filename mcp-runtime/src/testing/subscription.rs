use serde_json::json;

use super::{
    client::TestClient,
    notification::{self, LogMessage},
    result::{RpcError, read_response},
};
use crate::model::Level;

/// Log messages and changes of resources.
impl TestClient {
    /// Requests log messages of this level and above, which [`log_messages`](Self::log_messages) returns.
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server, for instance if no function can log.
    pub async fn set_log_level(&mut self, level: Level) -> Result<(), RpcError> {
        if self.revision.is_stateless() {
            self.log_level = Some(level);
            return Ok(());
        }
        self.request("logging/setLevel", json!({"level": level.as_str()})).await.map(drop)
    }

    /// Takes the log messages that have arrived.
    ///
    /// ```
    /// use mcp_runtime::{Context, Level, Revision, Server, tool};
    ///
    /// /// Log.
    /// #[tool]
    /// fn logs(ctx: &Context) {
    ///     ctx.log(Level::Debug, "not requested");
    ///     ctx.log(Level::Warning, "almost full");
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// for revision in Revision::ALL {
    ///     let mut client = Server::empty("log", "1.0.0").with::<logs>().test_client(revision);
    ///     client.set_log_level(Level::Info).await.unwrap();
    ///     client.call("logs", ()).await.unwrap();
    ///     let messages = client.log_messages();
    ///     assert_eq!(messages.len(), 1);
    ///     assert_eq!((messages[0].level, &messages[0].data), (Level::Warning, &"almost full".into()));
    /// }
    /// # });
    /// ```
    pub fn log_messages(&mut self) -> Vec<LogMessage> {
        self.wire.take_matching(LogMessage::read)
    }

    /// Subscribes to the changes of a resource, which [`updated_resources`](Self::updated_resources) returns.
    ///
    /// ```
    /// use mcp_runtime::{Revision, Server, resource};
    ///
    /// /// The menu of today.
    /// #[resource("menu://today")]
    /// fn menu() -> &'static str {
    ///     "soup"
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// for revision in Revision::ALL {
    ///     let server = Server::empty("kitchen", "1.0.0").with::<menu>();
    ///     let kitchen = server.handle();
    ///     let mut client = server.test_client(revision);
    ///     client.subscribe("menu://today").await.unwrap();
    ///     kitchen.resource_updated("menu://today");
    ///     assert_eq!(client.updated_resources(), ["menu://today"]);
    /// }
    /// # });
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the JSON-RPC error of the server. In 2026-07-28, a server does not acknowledge the subscription to a
    /// resource that it does not have, which is reported as error -32602.
    pub async fn subscribe(&mut self, uri: &str) -> Result<(), RpcError> {
        if !self.revision.is_stateless() {
            return self.request("resources/subscribe", json!({"uri": uri})).await.map(drop);
        }
        let id = self.send_request("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [uri]}}));
        if let Some(response) = self.wire.take_response(id) {
            return read_response(response).map(drop);
        }
        let acknowledged = self.wire.take_matching(|notification| {
            let is_acknowledged = notification["method"] == "notifications/subscriptions/acknowledged";
            is_acknowledged.then(|| notification["params"]["notifications"]["resourceSubscriptions"][0] == uri)
        });
        if acknowledged.contains(&true) {
            return Ok(());
        }
        let message = format!("the server did not acknowledge the subscription to `{uri}`");
        Err(RpcError { code: -32602, message, data: None })
    }

    /// Takes the URIs of the resources that have changed, as far as the notifications have arrived.
    pub fn updated_resources(&mut self) -> Vec<String> {
        self.wire.take_matching(notification::updated_resource)
    }
}
