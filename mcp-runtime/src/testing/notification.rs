use serde_json::Value;

use crate::model::Level;

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
