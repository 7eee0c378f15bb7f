//! Requests from a function to its client: sent while the call waits, or returned round by round.

mod live;
mod once;
mod progress;
mod rounds;
mod seal;
mod state;
mod state_key;
mod wait;

pub(crate) use live::PendingRequests;
pub(super) use live::{LiveRequester, PendingRequest, into_result, send_request};
pub(super) use once::OnceValues;
pub(super) use rounds::{RoundParams, RoundsRequester};
pub(crate) use seal::StateKeys;
pub(super) use state::Binding;
pub use state_key::{StateKey, StateKeyError};
