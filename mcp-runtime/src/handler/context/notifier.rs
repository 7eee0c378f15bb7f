//! Notifications with `_meta`.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Amount, Context};
use crate::model::Level;

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
    pub fn with_meta(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(key.into(), value.into());
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
