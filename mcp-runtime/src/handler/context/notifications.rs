//! Notifications of a call: progress and log messages, and the encoding of their `_meta`.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::Context;
use crate::{jsonrpc::write, model::Level, revision::Feature};

/// Progress and log messages.
impl Context {
    /// Reports progress to the client: `done` of `total`, with a message for the user.
    ///
    /// `total` is a number, or `()` if it is unknown. An empty message is omitted. Nothing is sent if the client did
    /// not request progress, if `done` has not increased, or within 10 ms of the previous notification unless the work
    /// is complete.
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
        if self.shared.lifetime.has_ended() || !self.shared.progress.admits(done, total) {
            return;
        }
        let message = if self.call().encoding.dialect.has(Feature::ProgressMessage) { message } else { "" };
        shared.connection().notify(&progress_notification(token, done, total, message, meta));
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
        match log_notification(logger, level, &data, meta) {
            Ok(message) => {
                shared.connection().notify(&message);
            }
            Err(error) => tracing::warn!(%error, "a log message cannot be serialized"),
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

    /// Returns whether events of a target are forwarded to the client in addition to those of the function's crate.
    #[cfg(feature = "log")]
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

/// The level that a log message of a call must reach to be sent to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogThreshold {
    /// The level that the client set for the session or, in a stateless revision, for the connection.
    Session,
    /// The level in the request. `None` disables log messages: the client did not ask for any.
    Request(Option<Level>),
}

/// Encodes a log message. An empty logger name and an empty `_meta` are omitted.
///
/// # Errors
///
/// Returns an error if `data` cannot be serialized.
pub(crate) fn log_notification(
    logger: &str,
    level: Level,
    data: &impl Serialize,
    meta: &Map<String, Value>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"#);
    write::string(&mut out, level.as_str());
    if !logger.is_empty() {
        out.extend_from_slice(br#","logger":"#);
        write::string(&mut out, logger);
    }
    out.extend_from_slice(br#","data":"#);
    write::value(&mut out, data)?;
    write_meta(&mut out, meta);
    out.extend_from_slice(b"}}");
    Ok(out)
}

/// Writes `_meta` after another member, unless it is empty.
fn write_meta(out: &mut Vec<u8>, meta: &Map<String, Value>) {
    if !meta.is_empty() {
        out.extend_from_slice(br#","_meta":"#);
        write::plain(out, meta);
    }
}

/// The minimum time between two progress notifications of one call.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(10);

/// The rate limiter for the progress notifications of a call.
#[derive(Debug, Default)]
pub(crate) struct ProgressLimiter(Mutex<Option<Sent>>);

/// The last notification that was sent.
#[derive(Debug)]
struct Sent {
    done: f64,
    at: Instant,
}

impl ProgressLimiter {
    /// Returns whether a notification may be sent, and if so, records it as sent.
    ///
    /// Progress must increase, and notifications must be [`PROGRESS_INTERVAL`] apart unless the work is finished.
    pub(super) fn admits(&self, done: f64, total: Option<f64>) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(last) = &*last {
            let early = now.duration_since(last.at) < PROGRESS_INTERVAL;
            let finished = total.is_some_and(|total| done >= total);
            if done <= last.done || (early && !finished) {
                return false;
            }
        }
        *last = Some(Sent { done, at: now });
        true
    }
}

/// Encodes a notification. `token` is JSON; an empty message and an empty `_meta` are omitted.
fn progress_notification(
    token: &str,
    done: f64,
    total: Option<f64>,
    message: &str,
    meta: &Map<String, Value>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#);
    out.extend_from_slice(token.as_bytes());
    out.extend_from_slice(br#","progress":"#);
    write_number(&mut out, done);
    if let Some(total) = total {
        out.extend_from_slice(br#","total":"#);
        write_number(&mut out, total);
    }
    if !message.is_empty() {
        out.extend_from_slice(br#","message":"#);
        write::string(&mut out, message);
    }
    write_meta(&mut out, meta);
    out.extend_from_slice(b"}}");
    out
}

/// Writes integral values without a fraction.
fn write_number(out: &mut Vec<u8>, number: f64) {
    const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < MAX_EXACT_INTEGER {
        out.extend_from_slice((number as i64).to_string().as_bytes());
    } else {
        write::plain(out, &number);
    }
}

/// A number passed to [`Context::progress`](crate::Context::progress), or `()` for an unknown total.
///
/// ```
/// # fn report(ctx: &mcp_runtime::Context) {
/// ctx.progress(3, 10, "3 of 10 files");
/// ctx.progress(0.5, 1.0, "half");
/// ctx.progress(3, (), "3 files so far");
/// # }
/// ```
pub trait Amount {
    /// Returns the number, if there is one.
    fn amount(self) -> Option<f64>;
}

impl Amount for () {
    fn amount(self) -> Option<f64> {
        None
    }
}

impl<T: Amount> Amount for Option<T> {
    fn amount(self) -> Option<f64> {
        self.and_then(T::amount)
    }
}

macro_rules! amounts {
    ($($number:ty),+) => {
        $(impl Amount for $number {
            fn amount(self) -> Option<f64> {
                Some(self as f64)
            }
        })+
    };
}

amounts!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_keep_their_distance_and_increase() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(check_distances());
    }

    async fn check_distances() {
        let limiter = ProgressLimiter::default();
        for (millis, done, total, admitted) in [
            (0, 1.0, None, true),
            (0, 2.0, None, false),
            (9, 3.0, Some(9.0), false),
            (1, 4.0, Some(9.0), true),
            (60, 4.0, None, false),
            (0, 5.0, None, true),
            (0, 9.0, Some(9.0), true),
            (0, 9.0, Some(9.0), false),
        ] {
            tokio::time::advance(Duration::from_millis(millis)).await;
            assert_eq!(limiter.admits(done, total), admitted, "{done} after {millis} ms");
        }
    }
}
