use std::{
    fmt,
    net::IpAddr,
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

use super::{Call, Layer, LayerFuture, Next, Outcome};
use crate::{error::Fault, handler::entry::EntryKind};

/// The keys that are counted for at once, unless set.
const KEYS: usize = 10_000;

/// Refuses calls that come too often.
///
/// As many calls as the rate says may come at once; after that one more each time its share of the time has passed. All
/// calls of the server count together, unless it is [`per_function`](Self::per_function),
/// [`per_caller`](Self::per_caller) or [`by`](Self::by) a key; of these several may be said, and each combination counts
/// for itself.
///
/// A refused call does not count. Of a tool it ends with an error for the model, which can wait and try again, of
/// anything else with a protocol error of code 429; both say how long to wait.
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
    /// Allows so many calls in so much time, at least one.
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
            max_keys: KEYS,
            clock: Uptime(Instant::now()),
        }
    }

    /// Sets how many calls may come at once, where that is not as many as the rate says.
    #[must_use]
    pub fn burst(mut self, calls: u32) -> Self {
        self.quota = self.quota.allow_burst(NonZeroU32::new(calls).unwrap_or(NonZeroU32::MIN));
        self
    }

    /// Counts the calls of each tool, resource and prompt for themselves; the URIs of one template count together.
    #[must_use]
    pub fn per_function(mut self) -> Self {
        self.per_function = true;
        self
    }

    /// Counts the calls of each caller for themselves: of each [principal](crate::Caller::principal), and where there is
    /// none of each address that an HTTP request came from (of IPv6 the network). Behind a proxy that is the proxy's.
    /// Where there is neither, all callers are one.
    #[must_use]
    pub fn per_caller(mut self) -> Self {
        self.per_caller = true;
        self
    }

    /// Counts the calls of each key for themselves.
    ///
    /// A key that clients can choose, such as the name that they give themselves, holds nobody back.
    #[must_use]
    pub fn by(mut self, key: impl Fn(&Call) -> String + Send + Sync + 'static) -> Self {
        self.by = Some(Box::new(key));
        self
    }

    /// Sets how many keys are counted for at once; 10,000 unless set. Of more than that the one that has not come for the
    /// longest time is forgotten, and begins anew.
    #[must_use]
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.max_keys = keys.max(1);
        self
    }

    /// Counts a call; gives the time to wait if it may not be.
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
                Err(wait) => refuse(&call, wait),
            }
        })
    }
}

fn refuse(call: &Call, wait: Duration) -> Outcome {
    let millis = wait.as_nanos().div_ceil(1_000_000).max(1) as u64;
    let wait = Duration::from_millis(millis);
    let why = format!("`{}` is called too often: try again in {wait:?}", call.entry().name);
    tracing::debug!(name = call.name(), ?wait, "a call is one too many");
    match call.kind() {
        EntryKind::Tool => Outcome::error(call, why),
        EntryKind::Resource | EntryKind::Prompt => {
            Fault::Custom { code: 429, message: why, data: Some(json!({ "retryAfterMs": millis })) }.into()
        }
    }
}

/// Who calls, as far as the server can tell.
fn caller(call: &Call) -> String {
    match (call.caller().principal(), address(call)) {
        (Some(principal), _) => format!("principal {principal}"),
        (None, Some(address)) => format!("address {address}"),
        (None, None) => String::new(),
    }
}

#[cfg(feature = "http")]
fn address(call: &Call) -> Option<IpAddr> {
    call.caller().peer_addr().map(|address| network(address.ip().to_canonical()))
}

#[cfg(not(feature = "http"))]
fn address(_: &Call) -> Option<IpAddr> {
    None
}

/// What one customer of a provider has: an address of IPv4, of IPv6 all that begin with the same 64 bits.
#[cfg_attr(not(any(feature = "http", test)), expect(dead_code, reason = "only HTTP knows addresses"))]
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("quota", &self.quota)
            .field("per_function", &self.per_function)
            .field("per_caller", &self.per_caller)
            .finish_non_exhaustive()
    }
}

/// The time since the layer was made, by the clock that everything else goes by.
#[derive(Debug, Clone, Copy)]
struct Uptime(Instant);

impl Clock for Uptime {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::network;

    #[test]
    fn an_address_stands_for_its_network() {
        for (address, expected) in [("10.1.2.3", "10.1.2.3"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"), ("::1", "::")]
        {
            assert_eq!(network(address.parse().unwrap()).to_string(), expected);
        }
    }
}
