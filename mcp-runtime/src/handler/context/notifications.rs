//! Notifications with `_meta`.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    Context,
    messages::{Amount, LogThreshold, PROGRESS_INTERVAL, log_notification, progress_notification},
};
use crate::{
    handler::entry::is_extension_method,
    model::{Level, add_meta},
    revision::{DEPRECATED_LOG_MESSAGES, Feature, encode::of_author},
};

/// Progress and log messages.
impl Context {
    /// The minimum time between two progress notifications of a call.
    pub const PROGRESS_INTERVAL: Duration = PROGRESS_INTERVAL;

    /// Reports progress to the client: `done` of `total`, with a message for the user.
    ///
    /// `total` is a number, or `()` if it is unknown. An empty message is omitted. Nothing is sent if the client did
    /// not request progress, if `done` has not increased, or within [`PROGRESS_INTERVAL`](Self::PROGRESS_INTERVAL) of
    /// the previous notification unless the work is complete.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Copy files.
    /// #[tool]
    /// fn copy(ctx: &Context, files: Vec<String>) {
    ///     for (done, file) in files.iter().enumerate() {
    ///         ctx.progress(done, files.len(), file);
    ///     }
    /// }
    /// ```
    ///
    /// In a task, the message also becomes the status message of the task, even if the client did not request progress.
    ///
    /// See [Progress](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress).
    pub fn progress(&self, done: impl Amount, total: impl Amount, message: impl AsRef<str>) {
        self.send_progress(done.amount(), total.amount(), message.as_ref(), &Map::new());
    }

    pub(super) fn send_progress(
        &self,
        done: Option<f64>,
        total: Option<f64>,
        message: &str,
        meta: &Map<String, Value>,
    ) {
        let shared = &self.shared;
        if let Some(task) = &shared.task
            && !message.is_empty()
        {
            task.set_status(message);
        }
        let Some(token) = shared.progress_token() else { return };
        let Some(done) = done.filter(|done| done.is_finite()) else { return };
        let total = total.filter(|total| total.is_finite());
        if shared.lifetime.has_ended() {
            return;
        }
        let message = if self.call().encoding.dialect.has(Feature::ProgressMessage) { message } else { "" };
        shared.progress.send(done, total, || {
            let notification = progress_notification(token, done, total, message, meta);
            shared.connection().notify(&notification, &shared.lifetime);
        });
    }

    /// Sends a log message to the client if the client asked for messages of this level.
    ///
    /// `data` is text or any serializable value; a value that fails to serialize is dropped. Messages must not contain
    /// secrets.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Level, tool};
    /// /// Reload the index.
    /// #[tool]
    /// fn reload(ctx: &Context) {
    ///     ctx.log(Level::Notice, "reloading");
    ///     ctx.log(Level::Info, serde_json::json!({"files": 7, "milliseconds": 12}));
    /// }
    /// ```
    ///
    /// Deprecated since revision 2026-07-28:
    /// see [Stability](crate::guide::stability#deprecated-features-of-the-protocol).
    ///
    /// See [Logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging).
    pub fn log(&self, level: Level, data: impl Serialize) {
        self.log_as("", level, data);
    }

    /// Sends a log message with the name of a logger. See [`log`](Self::log).
    pub fn log_as(&self, logger: &str, level: Level, data: impl Serialize) {
        self.send_log(logger, level, data, &Map::new());
    }

    pub(super) fn send_log(&self, logger: &str, level: Level, data: impl Serialize, meta: &Map<String, Value>) {
        let shared = &self.shared;
        if self.shared.lifetime.has_ended() || !self.logs(level) || !shared.connection().admits_log_message() {
            return;
        }
        if self.call().encoding.has(Feature::Deprecations) {
            DEPRECATED_LOG_MESSAGES.warn();
        }
        match log_notification(logger, level, &data, meta) {
            Ok(message) => shared.connection().notify(&message, &shared.lifetime),
            Err(error) => tracing::warn!(%error, "a log message cannot be serialized"),
        }
    }

    /// Sends a notification of an extension. `method` begins with a domain of the author, as the name of a
    /// [`MethodEntry`](crate::function::MethodEntry), and `params` serializes to an object.
    ///
    /// Nothing is sent after the call has ended, and if the client reads too slowly. An invalid `method` and invalid
    /// `params` are logged.
    pub fn notify(&self, method: &str, params: impl Serialize) {
        if self.shared.lifetime.has_ended() {
            return;
        }
        match serde_json::to_value(params) {
            Ok(mut params @ Value::Object(_)) if is_extension_method(method) => {
                if let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) {
                    *meta = of_author(meta).map(|(key, value)| (key.clone(), value.clone())).collect();
                }
                let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
                self.shared.connection().notify(message.to_string().as_bytes(), &self.shared.lifetime);
            }
            _ => tracing::error!(method, "a notification needs the name of an extension's method, and an object"),
        }
    }

    /// Sends a log message of level `debug`.
    pub fn debug(&self, data: impl Serialize) {
        self.log(Level::Debug, data);
    }

    /// Sends a log message of level `info`.
    pub fn info(&self, data: impl Serialize) {
        self.log(Level::Info, data);
    }

    /// Sends a log message of level `warning`.
    pub fn warning(&self, data: impl Serialize) {
        self.log(Level::Warning, data);
    }

    /// Sends a log message of level `error`.
    pub fn error(&self, data: impl Serialize) {
        self.log(Level::Error, data);
    }

    /// Adds a member to the `_meta` of the notifications that are sent with the returned notifier.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Copy files.
    /// #[tool]
    /// fn copy(ctx: &Context, files: Vec<String>) {
    ///     for (done, file) in files.iter().enumerate() {
    ///         ctx.with_meta("com.example/file", &**file).progress(done, files.len(), "copying");
    ///     }
    /// }
    /// ```
    ///
    /// See [`_meta`](https://modelcontextprotocol.io/specification/2025-11-25/basic#meta).
    ///
    /// # Panics
    ///
    /// Panics if the key is malformed or has a prefix that the protocol reserves, such as `io.modelcontextprotocol/`.
    #[track_caller]
    pub fn with_meta(&self, key: impl Into<String>, value: impl Into<Value>) -> Notifier<'_> {
        Notifier { context: self, meta: Map::new() }.with_meta(key, value)
    }

    /// Returns whether a log message of this level would be sent.
    ///
    /// ```
    /// # use mcp_runtime::Context;
    /// # fn with(ctx: &Context) {
    /// if ctx.logs(mcp_runtime::Level::Debug) {
    ///     let state = (0..1000).map(|row| row.to_string()).collect::<Vec<_>>().join("\n");
    ///     ctx.debug(state);
    /// }
    /// # }
    /// ```
    pub fn logs(&self, level: Level) -> bool {
        match self.shared.log {
            LogThreshold::Session => level >= self.shared.connection().session_level(),
            LogThreshold::Request(threshold) => threshold.is_some_and(|threshold| level >= threshold),
        }
    }

    /// Returns whether events of a target are forwarded to the client in addition to the events of the function's
    /// crate.
    pub(crate) fn forwards_target(&self, target: &str) -> bool {
        let is_inside = |module: &String| {
            target.strip_prefix(module.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        self.shared.log_targets.as_deref().is_some_and(|modules| modules.iter().any(is_inside))
    }
}

/// Sends notifications of a call that have additional data in `_meta`. [`Context::with_meta`] creates it.
///
/// Every revision allows `_meta` in notifications.
///
/// ```
/// # fn report(ctx: &mcp_runtime::Context) {
/// ctx.with_meta("com.example/stage", "upload").progress(3, 10, "uploading");
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a notifier does nothing until a notification is sent with it"]
pub struct Notifier<'a> {
    pub(super) context: &'a Context,
    pub(super) meta: Map<String, Value>,
}

impl Notifier<'_> {
    /// Adds a member to `_meta`.
    ///
    /// # Panics
    ///
    /// Panics if the key is malformed or has a prefix that the protocol reserves, such as `io.modelcontextprotocol/`.
    #[track_caller]
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        add_meta(&mut self.meta, key, value);
        self
    }

    /// Reports progress. See [`Context::progress`].
    pub fn progress(&self, done: impl Amount, total: impl Amount, message: impl AsRef<str>) {
        self.context.send_progress(done.amount(), total.amount(), message.as_ref(), &self.meta);
    }

    /// Sends a log message. See [`Context::log`].
    pub fn log(&self, level: Level, data: impl Serialize) {
        self.log_as("", level, data);
    }

    /// Sends a log message with the name of a logger. See [`Context::log_as`].
    pub fn log_as(&self, logger: &str, level: Level, data: impl Serialize) {
        self.context.send_log(logger, level, data, &self.meta);
    }
}
