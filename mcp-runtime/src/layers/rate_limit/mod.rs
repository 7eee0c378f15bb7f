mod local;
#[cfg(feature = "cluster")]
mod shared;
#[cfg(all(test, feature = "cluster"))]
mod tests;

use std::time::Duration;

use lru::LruCache;
use serde_json::json;

use self::local::Rate;
#[cfg(feature = "cluster")]
use std::sync::{Arc, OnceLock};

#[cfg(feature = "cluster")]
use self::shared::SharedBudgets;
#[cfg(feature = "cluster")]
use super::LayerBackend;
use super::{Call, CallKind, Layer, LayerFuture, Next, Outcome};
use crate::stdx::{Mutex, debug, setters};
use crate::{counters::Counter, engine::Bucket, error::Fault};

/// The default maximum number of keys, each of which has its own budget.
const DEFAULT_MAX_KEYS: usize = 10_000;

/// A layer that rejects calls that exceed a rate.
///
/// A burst may use the whole rate at once. After that, the budget is replenished evenly. All calls of the server share
/// one budget by default. [`per_function`](Self::per_function), [`per_caller`](Self::per_caller) and
/// [`per_key`](Self::per_key) split it; if several are set, each combination has its own budget.
///
/// If the server has a [backend](crate::Server::backend), all processes that share it count together, unless the layer
/// is [`per_process`](Self::per_process). Each takes a 32nd of a budget from the backend at a time, but at least one
/// call, and asks the backend again when this share is used up or has expired. Calls that a process takes and does not
/// use expire: all processes together never exceed the rate, and the limit may be stricter by up to that share for each
/// of them. While the backend fails or does not respond, each process counts on its own. A budget outlives the
/// processes. It belongs to the name of the server, the settings of the layer, and the position of the layer among the
/// layers of the server, so that no other layer uses it.
///
/// In stateless revisions, a client sends a call again with each answer to a question, and each of these requests counts.
/// Rejected calls do not count towards the rate. A rejected tool call returns an error result, so that the model can
/// wait and retry. Other calls fail with a protocol error with code 429. Both messages state which calls are
/// limited and how long to wait.
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
    rate: Rate,
    per_function: bool,
    per_caller: bool,
    per_key: Option<KeyOf>,
    per_process: bool,
    max_keys: usize,
    /// The budgets that this process does not share.
    local: Mutex<LruCache<String, Bucket>>,
    /// Created with the first call, if the server has a backend.
    #[cfg(feature = "cluster")]
    shared: OnceLock<Arc<SharedBudgets>>,
}

type KeyOf = Box<dyn Fn(&Call) -> String + Send + Sync>;

impl RateLimit {
    /// Allows `calls` calls in each period of length `per`. At least one call is allowed.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::layers::RateLimit;
    /// let hundred_per_minute = RateLimit::new(100, Duration::from_secs(60));
    /// ```
    pub fn new(calls: u32, per: Duration) -> Self {
        let burst = calls.max(1);
        Self {
            rate: Rate::new(per / burst, burst),
            per_function: false,
            per_caller: false,
            per_key: None,
            per_process: false,
            max_keys: DEFAULT_MAX_KEYS,
            local: Mutex::new(LruCache::unbounded()),
            #[cfg(feature = "cluster")]
            shared: OnceLock::new(),
        }
    }

    setters! {
        /// Sets the maximum number of calls in a burst. Defaults to the `calls` passed to [`new`](Self::new).
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::layers::RateLimit;
        /// // One call each second on average, and at most five at once.
        /// let limit = RateLimit::new(60, Duration::from_secs(60)).burst(5);
        /// ```
        pub fn burst(self, calls: u32) { self.rate.burst = calls.max(1).into() }

        /// Gives each tool, resource and prompt its own budget. The URIs of a template share one. Completions have a
        /// budget of their own.
        pub fn per_function(self) { self.per_function = true }

        /// Gives each caller its own budget.
        ///
        /// A caller is identified by its [principal](crate::Caller::principal) or, without one, by the address of the
        /// HTTP request (for IPv6, its /64 network), or by the user whose process has connected to a Unix socket.
        /// Behind a proxy, that is the proxy's address, or the user that the proxy runs as, unless
        /// `HttpOptions::trusted_proxies` names the proxy. Callers with neither share one budget.
        pub fn per_caller(self) { self.per_caller = true }

        /// Gives each key its own budget.
        ///
        /// A key that clients can choose freely, such as the client's name, does not limit them.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::layers::RateLimit;
        /// // One budget for all users of an organization.
        /// let limit = RateLimit::new(100, Duration::from_secs(60)).per_key(|call| {
        ///     let user = call.caller().principal().unwrap_or_default();
        ///     user.rsplit('@').next().unwrap_or_default().to_owned()
        /// });
        /// ```
        pub fn per_key(self, key: impl Fn(&Call) -> String + Send + Sync + 'static) {
            self.per_key = Some(Box::new(key))
        }

        /// Counts the calls of each process separately, even if processes share a backend: then *n* processes allow *n*
        /// times the rate.
        ///
        /// ```
        /// # use std::time::Duration;
        /// # use mcp_runtime::layers::RateLimit;
        /// // What the memory and the processor of one machine can serve.
        /// let limit = RateLimit::new(500, Duration::from_secs(1)).per_process();
        /// ```
        pub fn per_process(self) { self.per_process = true }

        /// Sets the maximum number of keys that have their own budget in a process. The default is 10,000. If there are
        /// more, the least recently used key is evicted, and starts with a full budget when it returns.
        ///
        /// In a shared backend, the budget of an evicted key is kept until it is full. A process has at most twice this
        /// number of budgets there that are not full, and counts the calls of further keys on its own.
        pub fn max_keys(self, keys: usize) { self.max_keys = keys.max(1) }
    }

    /// Counts a call of this process. Returns the time to wait if the rate is exceeded.
    fn check(&self, key: String) -> Result<(), Duration> {
        let mut budgets = self.local.lock();
        let checked = self.rate.check(budgets.get_or_insert(key, || self.rate.budget()));
        if budgets.len() > self.max_keys {
            budgets.pop_lru();
        }
        checked
    }

    /// Counts a call of all processes. Returns the time to wait if the rate is exceeded.
    #[cfg(feature = "cluster")]
    async fn check_shared(&self, backend: LayerBackend<'_>, key: &str) -> Result<(), Duration> {
        let create = || Arc::new(SharedBudgets::new(Arc::clone(backend.get()), self.rate, self.max_keys));
        let shared = self.shared.get_or_init(create);
        // Processes with other settings have other budgets, since they cannot agree on the state of one.
        let Rate { interval, burst, .. } = self.rate;
        let split = [self.per_function, self.per_caller, self.per_key.is_some()].map(u8::from);
        shared.check(backend.key(&format!("rate {interval} {burst} {split:?} {key}"))).await
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
        if let Some(by) = &self.per_key {
            key += &by(call);
        }
        key
    }

    /// Describes the calls that share the budget of a call, so that a model does not try another tool in vain.
    fn limited_calls(&self, call: &Call) -> String {
        let name = call.entry().name;
        if self.per_function {
            format!("`{name}`")
        } else if self.per_key.is_some() {
            "calls like this one".to_owned()
        } else if !call.is_layered_generally() {
            format!("`{name}` and the functions that share its limit")
        } else if self.per_caller {
            "all calls of this caller".to_owned()
        } else {
            "all calls of this server".to_owned()
        }
    }
}

impl Layer for RateLimit {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        Box::pin(async move {
            let key = self.key(&call);
            #[cfg(not(feature = "cluster"))]
            let checked = self.check(key);
            #[cfg(feature = "cluster")]
            let checked = match call.backend().filter(|_| !self.per_process) {
                // Boxed, since other calls need no memory for it.
                Some(backend) => Box::pin(self.check_shared(backend, &key)).await,
                None => self.check(key),
            };
            match checked {
                Ok(()) => next.run(call).await,
                Err(wait) => reject(&call, &self.limited_calls(&call), wait),
            }
        })
    }
}

fn reject(call: &Call, limited: &str, wait: Duration) -> Outcome {
    let millis = wait.as_nanos().div_ceil(1_000_000).max(1) as u64;
    let wait = Duration::from_millis(millis);
    let message = format!("rate limit of {limited} exceeded: retry in {wait:?}");
    tracing::debug!(name = call.name(), ?wait, "rate limit exceeded");
    Counter::RefusedRate.count();
    match call.kind() {
        CallKind::Tool => Outcome::error(call, message),
        _ => Fault::Custom { code: 429, message, data: Some(json!({ "retryAfterMs": millis })) }.into(),
    }
}

/// Returns the key of a caller.
fn caller(call: &Call) -> String {
    if let Some(principal) = call.caller().principal() {
        return format!("principal {principal}");
    }
    call.caller().head.as_ref().and_then(|head| head.sender_key()).unwrap_or_else(|| {
        #[cfg(feature = "http")]
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
                 set `HttpOptions::peer_addr`, or `HttpOptions::trusted_proxies` behind a proxy"
            );
        });
    }
}

debug!(RateLimit, self, rate: self.rate, per_function: self.per_function, per_caller: self.per_caller);
