//! Keeps the state of requests between their rounds in memory, and gives the client its id.
//!
//! Without the feature `sealed-state`, the next round arrives in the same process, so the state need not leave it.

use std::{
    collections::VecDeque,
    future::Ready,
    sync::Arc,
    time::{Duration, Instant},
};

use super::state::{RequestState, check_size, json};
use crate::{engine::request::params::invalid_request_state, error::Fault, random, stdx::Mutex};

/// The maximum number of states of a server. Beyond it, the oldest one is dropped, and its request must begin
/// again.
const MAX_STATES: usize = 1024;
/// The maximum size in bytes of the states of a server, treated like their number.
const MAX_BYTES: usize = 4 << 20;

/// The longest time to live, which keeps the arithmetic of times within its range.
const MAX_TTL: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The states of the requests of a server.
#[derive(Debug)]
pub(crate) struct KeptStates {
    kept: Mutex<Kept>,
    ttl: Duration,
}

#[derive(Debug, Default)]
struct Kept {
    /// The oldest one first.
    states: VecDeque<KeptState>,
    bytes: usize,
}

#[derive(Debug)]
struct KeptState {
    id: String,
    /// The digest of the request that the state belongs to.
    binding: [u8; 32],
    expires: Instant,
    json: Vec<u8>,
}

impl KeptStates {
    /// Creates an empty set of states, which expire after `ttl`.
    pub(crate) fn new(ttl: Duration) -> Self {
        Self { kept: Mutex::default(), ttl: ttl.min(MAX_TTL) }
    }

    /// Returns no future, since a state can be kept at any time.
    pub(super) fn until_ready(self: &Arc<Self>) -> Option<Ready<()>> {
        None
    }

    /// Keeps a state, and returns its id, which the client returns with the next round.
    ///
    /// # Errors
    ///
    /// Fails if the state is too large, or if the operating system provides no randomness.
    pub(super) fn keep(&self, binding: &[u8; 32], state: RequestState) -> Result<String, Fault> {
        let json = json(&state)?;
        check_size(json.len())?;
        let id = random::id().ok_or_else(|| Fault::internal("the server cannot generate random ids"))?;
        let mut kept = self.kept.lock();
        let now = Instant::now();
        while kept.states.len() >= MAX_STATES
            || kept.bytes + json.len() > MAX_BYTES
            || kept.states.front().is_some_and(|oldest| oldest.expires <= now)
        {
            let Some(dropped) = kept.states.pop_front() else { break };
            kept.bytes -= dropped.json.len();
        }
        kept.bytes += json.len();
        kept.states.push_back(KeptState { id: id.clone(), binding: *binding, expires: now + self.ttl, json });
        Ok(id)
    }

    /// Returns the state with an id. A client may repeat a round, so the state stays.
    ///
    /// # Errors
    ///
    /// Fails if the id is unknown, if the state has expired, or if it belongs to another request. The reason is logged
    /// and not sent to the client.
    pub(super) fn open(&self, binding: &[u8; 32], id: &str) -> Result<RequestState, Fault> {
        let kept = self.kept.lock();
        let Some(state) = kept.states.iter().find(|state| state.id == id) else {
            return Err(invalid_request_state("unknown"));
        };
        if state.expires <= Instant::now() {
            return Err(invalid_request_state("expired"));
        }
        if state.binding != *binding {
            return Err(invalid_request_state("bound to another request or principal"));
        }
        serde_json::from_slice(&state.json).map_err(|_| invalid_request_state("malformed"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{super::state::MAX_STATE_LEN, *};

    const TTL: Duration = Duration::from_secs(60);

    fn state(page: &str) -> RequestState {
        RequestState { once: HashMap::from([("page".to_owned(), page.to_owned())]), ..RequestState::default() }
    }

    #[test]
    fn a_state_opens_repeatedly_for_its_request_until_it_expires() {
        let cases = [(TTL, 1, 1, true), (Duration::MAX, 1, 1, true), (TTL, 1, 2, false), (Duration::ZERO, 1, 1, false)];
        for (ttl, kept_for, opened_for, opens) in cases {
            let states = KeptStates::new(ttl);
            let id = states.keep(&[kept_for; 32], state("1")).unwrap();
            for _ in 0..2 {
                let opened = states.open(&[opened_for; 32], &id);
                assert_eq!(opened.ok(), opens.then(|| state("1")), "{ttl:?} {kept_for} {opened_for}");
            }
            let Err(Fault::InvalidParams(message)) = states.open(&[kept_for; 32], "other") else { panic!("opened") };
            assert!(message.ends_with("retry without it"), "{message}");
        }
    }

    #[test]
    fn states_beyond_the_limits_replace_the_oldest_ones() {
        let largest = MAX_STATE_LEN - json(&state("")).unwrap().len();
        for (size, fits) in [(0, MAX_STATES), (MAX_STATE_LEN / 2, 7), (largest, MAX_BYTES / MAX_STATE_LEN)] {
            let states = KeptStates::new(TTL);
            let ids: Vec<_> = (0..fits + 2).map(|_| states.keep(&[0; 32], state(&"x".repeat(size))).unwrap()).collect();
            let opens: Vec<_> = ids.iter().map(|id| states.open(&[0; 32], id).is_ok()).collect();
            assert_eq!(opens.iter().position(|opens| *opens), Some(2), "{size}");
            assert_eq!(opens.iter().filter(|opens| **opens).count(), fits, "{size}");
            let kept = states.kept.lock();
            assert_eq!(kept.bytes, kept.states.iter().map(|state| state.json.len()).sum::<usize>());
        }
        assert!(KeptStates::new(TTL).keep(&[0; 32], state(&"x".repeat(MAX_STATE_LEN))).is_err());
    }
}
