//! Requests from a function to its client: sent while the call waits, or returned round by round.

mod input_response;
mod key_ring;
mod pending;
mod progress;
mod roots;
mod rounds;
mod seal;
mod shared_keys;
mod state;
mod state_key;
mod wait;

pub(crate) use input_response::InputResponse;
pub(super) use input_response::into_result;
pub(crate) use pending::PendingRequests;
pub(crate) use pending::session_ended;
pub(super) use pending::{PendingRequest, decode_response, send_request};
pub(super) use progress::decode_progress;
pub(super) use roots::RootsCache;
pub(super) use rounds::{RoundParams, RoundsRequester};
pub(crate) use seal::StateKeys;
pub(super) use state::Binding;
pub use state_key::{StateKey, StateKeyError};
pub(super) use wait::wait_for_response;
