//! Requests from a function to its client: sent while the call waits, or returned round by round.

#[cfg(any(not(feature = "sealed-state"), test))]
#[cfg_attr(feature = "sealed-state", allow(dead_code, reason = "states are sealed"))]
mod kept;
mod pending;
mod rounds;
#[cfg(feature = "sealed-state")]
mod seal;
mod state;
mod wait;

#[cfg(not(feature = "sealed-state"))]
pub(crate) use kept::KeptStates as RoundStates;
#[cfg(feature = "tasks")]
pub(super) use pending::PendingRequest;
pub(crate) use pending::{InputResponse, PendingRequests, session_ended};
pub(super) use pending::{decode_progress, decode_response, into_result, send_request};
pub(super) use rounds::{RoundParams, RoundsRequester};
#[cfg(feature = "sealed-state")]
pub(crate) use seal::StateKeys as RoundStates;
pub(super) use state::Binding;
pub(crate) use state::KEY_ID_LEN;
#[cfg(feature = "cluster")]
pub(crate) use state::base64_key;
pub use state::{StateKey, StateKeyError};
pub(super) use wait::{RootsCache, wait_for_response};
