//! Progress and log messages: their limits, and their encoding.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::{jsonrpc::write, model::Level, revision::encode::Object, stdx::Mutex};

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
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/message","params":"#);
    let mut params = Object::begin(&mut out);
    params.string("level", level.as_str());
    params.optional("logger", Some(logger).filter(|logger| !logger.is_empty()));
    write::value(params.key("data"), data)?;
    end(params, meta);
    Ok(out)
}

/// Completes the `params` of a notification with `_meta`, unless it is empty, and the notification.
fn end(mut params: Object<'_>, meta: &Map<String, Value>) {
    params.value("_meta", Some(meta).filter(|meta| !meta.is_empty()));
    params.out.extend_from_slice(b"}}");
}

/// The minimum time between two progress notifications of one call.
pub(super) const PROGRESS_INTERVAL: Duration = Duration::from_millis(10);

/// The rate limiter for the progress notifications of a call.
#[derive(Debug, Default)]
pub(crate) struct ProgressLimiter(Mutex<Option<Sent>>);

/// The last notification that was sent.
#[derive(Debug)]
struct Sent {
    done: f64,
    at: Instant,
    /// Whether it said that the work is finished.
    is_final: bool,
}

impl ProgressLimiter {
    /// Sends a notification if it may be sent. The lock is held meanwhile, so notifications leave in the order of their
    /// progress.
    ///
    /// Progress must increase, and notifications must be [`PROGRESS_INTERVAL`] apart, except for the first one that says
    /// that the work is finished.
    pub(super) fn send(&self, done: f64, total: Option<f64>, send: impl FnOnce()) {
        let mut last = self.0.lock();
        let now = Instant::now();
        let is_final = total.is_some_and(|total| done >= total);
        if let Some(last) = &*last {
            let early = now.duration_since(last.at) < PROGRESS_INTERVAL;
            if done <= last.done || (early && (last.is_final || !is_final)) {
                return;
            }
        }
        *last = Some(Sent { done, at: now, is_final });
        send();
    }
}

/// Encodes a notification. `token` is JSON; an empty message and an empty `_meta` are omitted.
pub(super) fn progress_notification(
    token: &str,
    done: f64,
    total: Option<f64>,
    message: &str,
    meta: &Map<String, Value>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/progress","params":"#);
    let mut params = Object::begin(&mut out);
    params.key("progressToken").extend_from_slice(token.as_bytes());
    write_number(params.key("progress"), done);
    if let Some(total) = total {
        write_number(params.key("total"), total);
    }
    params.optional("message", Some(message).filter(|message| !message.is_empty()));
    end(params, meta);
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

    #[test]
    fn integral_amounts_are_written_without_a_fraction() {
        for (amount, expected) in [(3.0, "3"), (-0.5, "-0.5"), (1e15, "1000000000000000"), (1e300, "1e+300")] {
            let mut out = Vec::new();
            write_number(&mut out, amount);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
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
            (0, 10.0, Some(9.0), false),
            (0, 11.0, Some(11.0), false),
            (10, 12.0, Some(12.0), true),
        ] {
            tokio::time::advance(Duration::from_millis(millis)).await;
            let mut is_sent = false;
            limiter.send(done, total, || is_sent = true);
            assert_eq!(is_sent, admitted, "{done} after {millis} ms");
        }
    }

    /// Otherwise, progress that was admitted first could be sent last.
    #[test]
    fn one_notification_is_sent_at_a_time() {
        let (limiter, sent) = (ProgressLimiter::default(), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            limiter.send(9.0, Some(10.0), || {
                scope.spawn(|| limiter.send(10.0, Some(10.0), || sent.lock().push(10)));
                std::thread::sleep(Duration::from_millis(20));
                sent.lock().push(9);
            });
        });
        assert_eq!(*sent.lock(), [9, 10]);
    }
}
