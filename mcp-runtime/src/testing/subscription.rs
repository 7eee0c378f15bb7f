use serde_json::{Value, json};

use super::{
    client::TestClient,
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
        self.wire.take_matching(updated_resource)
    }
}

/// A progress notification. See [`TestClient::call_with_progress`](super::TestClient::call_with_progress).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProgressUpdate {
    /// The amount of work done.
    pub progress: f64,
    /// The total amount of work, if the function knows it.
    pub total: Option<f64>,
    /// The message, in revisions that have one.
    pub message: Option<String>,
}

impl ProgressUpdate {
    /// Reads a notification. Returns `None` if it is none of the progress with this token.
    pub(super) fn read(notification: &Value, token: u64) -> Option<Self> {
        let params =
            params(notification, "notifications/progress").filter(|params| params["progressToken"] == token)?;
        Some(Self {
            progress: params["progress"].as_f64()?,
            total: params["total"].as_f64(),
            message: params["message"].as_str().map(str::to_owned),
        })
    }
}

/// A log message. See [`TestClient::log_messages`](super::TestClient::log_messages).
///
/// ```
/// use mcp_runtime::{Context, Level, Revision, Server, tool};
///
/// /// Start.
/// #[tool]
/// fn start(ctx: &Context) {
///     ctx.log_as("engine", Level::Notice, "started");
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let mut client = Server::empty("car", "1.0.0").with::<start>().test_client(Revision::V2026_07_28);
/// client.set_log_level(Level::Debug).await.unwrap();
/// client.call("start", ()).await.unwrap();
/// let message = client.log_messages().remove(0);
/// assert_eq!((message.level, message.logger.as_deref()), (Level::Notice, Some("engine")));
/// # });
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LogMessage {
    /// The level.
    pub level: Level,
    /// The source of the message.
    pub logger: Option<String>,
    /// The message: text, or any JSON.
    pub data: Value,
}

impl LogMessage {
    /// Reads a notification. Returns `None` if it is no log message.
    pub(super) fn read(notification: &Value) -> Option<Self> {
        let params = params(notification, "notifications/message")?;
        Some(Self {
            level: params["level"].as_str()?.parse().ok()?,
            logger: params["logger"].as_str().map(str::to_owned),
            data: params["data"].clone(),
        })
    }
}

/// Returns the URI of a resource that has changed. Returns `None` if a notification is about something else.
pub(super) fn updated_resource(notification: &Value) -> Option<String> {
    let params = params(notification, "notifications/resources/updated")?;
    params["uri"].as_str().map(str::to_owned)
}

fn params<'a>(notification: &'a Value, method: &str) -> Option<&'a Value> {
    (notification["method"] == method).then(|| &notification["params"])
}
