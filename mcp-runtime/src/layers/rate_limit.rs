use std::{
    fmt,
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::Clock,
    middleware::NoOpMiddleware,
    state::{InMemoryState, NotKeyed},
};
use lru::LruCache;
use serde_json::json;
use tokio::time::Instant;

use super::{Call, CallKind, Layer, LayerFuture, Next, Outcome};
use crate::error::Fault;

/// The default maximum number of keys, each of which has its own budget.
const DEFAULT_MAX_KEYS: usize = 10_000;

/// A layer that rejects calls that exceed a rate.
///
/// A burst may use the whole rate at once. After that, the budget is replenished evenly. All calls of the server share
/// one budget by default. [`per_function`](Self::per_function), [`per_caller`](Self::per_caller) and [`by`](Self::by)
/// split it; if several are set, each combination has its own budget.
///
/// Rejected calls do not count towards the rate. A rejected tool call returns an error result, so that the model can
/// wait and retry. Other calls fail with a protocol error with code 429. Both messages state how long to wait.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_runtime::{Revision, Server, layers::RateLimit, tool};
///
/// /// Roll a die.
/// #[tool]
/// fn roll() -> u8 {
///     4
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let limit = RateLimit::new(2, Duration::from_secs(3600)).per_function().per_caller();
/// let mut client = Server::empty("dice", "1.0.0").with::<roll>().layer(limit).test_client(Revision::V2026_07_28);
/// assert_eq!(client.call("roll", ()).await.unwrap().text(), "4");
/// assert_eq!(client.call("roll", ()).await.unwrap().text(), "4");
/// assert!(client.call("roll", ()).await.unwrap().is_error());
/// # });
/// ```
pub struct RateLimit {
    quota: Quota,
    per_function: bool,
    per_caller: bool,
    by: Option<KeyOf>,
    limiters: Mutex<LruCache<String, Arc<Limiter>>>,
    max_keys: usize,
    clock: Uptime,
}

type KeyOf = Box<dyn Fn(&Call) -> String + Send + Sync>;

type Limiter = RateLimiter<NotKeyed, InMemoryState, Uptime, NoOpMiddleware<Duration>>;

impl RateLimit {
    /// Allows `calls` calls in each period of length `per`. At least one call is allowed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::layers::RateLimit;
    /// let hundred_per_minute = RateLimit::new(100, Duration::from_secs(60));
    /// ```
    pub fn new(calls: u32, per: Duration) -> Self {
        let calls = NonZeroU32::new(calls).unwrap_or(NonZeroU32::MIN);
        let share = (per / calls.get()).max(Duration::from_nanos(1));
        let quota = Quota::with_period(share).unwrap_or(Quota::per_second(calls)).allow_burst(calls);
        Self {
            quota,
            per_function: false,
            per_caller: false,
            by: None,
            limiters: Mutex::new(LruCache::unbounded()),
            max_keys: DEFAULT_MAX_KEYS,
            clock: Uptime(Instant::now()),
        }
    }

    /// Sets the maximum number of calls in a burst. Defaults to the `calls` passed to [`new`](Self::new).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::layers::RateLimit;
    /// // One call each second on average, and at most five at once.
    /// let limit = RateLimit::new(60, Duration::from_secs(60)).burst(5);
    /// ```
    #[must_use]
    pub fn burst(mut self, calls: u32) -> Self {
        self.quota = self.quota.allow_burst(NonZeroU32::new(calls).unwrap_or(NonZeroU32::MIN));
        self
    }

    /// Gives each tool, resource and prompt its own budget. The URIs of a template share one. Completions have a budget
    /// of their own.
    #[must_use]
    pub fn per_function(mut self) -> Self {
        self.per_function = true;
        self
    }

    /// Gives each caller its own budget.
    ///
    /// A caller is identified by its [principal](crate::Caller::principal) or, without one, by the address of the HTTP
    /// request (for IPv6, its /64 network), or by the user whose process has connected to a Unix socket. Behind a proxy,
    /// that is the proxy's address, or the user that the proxy runs as. Callers with neither share one budget.
    #[must_use]
    pub fn per_caller(mut self) -> Self {
        self.per_caller = true;
        self
    }

    /// Gives each key its own budget.
    ///
    /// A key that clients can choose freely, such as the client's name, does not limit them.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::layers::RateLimit;
    /// // One budget for all users of an organization.
    /// let limit = RateLimit::new(100, Duration::from_secs(60)).by(|call| {
    ///     let user = call.caller().principal().unwrap_or_default();
    ///     user.rsplit('@').next().unwrap_or_default().to_owned()
    /// });
    /// ```
    #[must_use]
    pub fn by(mut self, key: impl Fn(&Call) -> String + Send + Sync + 'static) -> Self {
        self.by = Some(Box::new(key));
        self
    }

    /// Sets the maximum number of keys that have their own budget. The default is 10,000. If there are more, the least
    /// recently used key is evicted, and starts with a full budget when it returns.
    #[must_use]
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.max_keys = keys.max(1);
        self
    }

    /// Counts a call. Returns the time to wait if the rate is exceeded.
    fn check(&self, call: &Call) -> Result<(), Duration> {
        let limiter = self.limiter(self.key(call));
        limiter.check().map_err(|not_until| not_until.wait_time_from(self.clock.now()))
    }

    fn limiter(&self, key: String) -> Arc<Limiter> {
        let mut limiters = self.limiters.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(RateLimiter::direct_with_clock(self.quota, self.clock));
        let limiter = Arc::clone(limiters.get_or_insert(key, make));
        if limiters.len() > self.max_keys {
            limiters.pop_lru();
        }
        limiter
    }

    fn key(&self, call: &Call) -> String {
        let mut key = String::new();
        if self.per_function {
            key += &format!("{:?} {}\0", call.kind(), call.entry().name);
        }
        if self.per_caller {
            key += &caller(call);
            key.push('\0');
        }
        if let Some(by) = &self.by {
            key += &by(call);
        }
        key
    }
}

impl Layer for RateLimit {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        Box::pin(async move {
            match self.check(&call) {
                Ok(()) => next.run(call).await,
                Err(wait) => reject(&call, wait),
            }
        })
    }
}

fn reject(call: &Call, wait: Duration) -> Outcome {
    let millis = wait.as_nanos().div_ceil(1_000_000).max(1) as u64;
    let wait = Duration::from_millis(millis);
    let message = format!("rate limit of `{}` exceeded: retry in {wait:?}", call.entry().name);
    tracing::debug!(name = call.name(), ?wait, "rate limit exceeded");
    match call.kind() {
        CallKind::Tool => Outcome::error(call, message),
        CallKind::Resource | CallKind::Prompt | CallKind::Completion => {
            Fault::Custom { code: 429, message, data: Some(json!({ "retryAfterMs": millis })) }.into()
        }
    }
}

/// Returns the key of a caller.
fn caller(call: &Call) -> String {
    if let Some(principal) = call.caller().principal() {
        return format!("principal {principal}");
    }
    call.caller().head.as_ref().and_then(|head| head.sender_key()).unwrap_or_else(|| {
        warn_if_unknown(call);
        String::new()
    })
}

/// Warns once if callers over HTTP cannot be distinguished.
#[cfg(feature = "http")]
fn warn_if_unknown(call: &Call) {
    static WARNING: std::sync::Once = std::sync::Once::new();
    if call.caller().headers().is_some() {
        WARNING.call_once(|| {
            tracing::warn!(
                "callers without a principal share one rate limit, because their addresses are unknown: \
                 set `HttpOptions::peer_addr`"
            );
        });
    }
}

#[cfg(not(feature = "http"))]
fn warn_if_unknown(_: &Call) {}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("quota", &self.quota)
            .field("per_function", &self.per_function)
            .field("per_caller", &self.per_caller)
            .finish_non_exhaustive()
    }
}

/// The time since the layer was created, measured by tokio's clock.
#[derive(Debug, Clone, Copy)]
struct Uptime(Instant);

impl Clock for Uptime {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
