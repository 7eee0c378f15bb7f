//! Requests from a function to its client: sent while the call waits, or returned round by round.

#[cfg(any(not(feature = "sealed-state"), test))]
#[cfg_attr(feature = "sealed-state", allow(dead_code, reason = "states are sealed"))]
mod kept;
mod live;
mod readiness;
mod requester;
mod roots;
mod roots_hook;
mod rounds;
#[cfg(feature = "sealed-state")]
mod seal;
mod state;
mod wait;

#[cfg(not(feature = "sealed-state"))]
pub(crate) use kept::KeptStates as RoundStates;
pub(super) use live::LiveRequester;
pub(super) use requester::requester;
pub(super) use roots::RootsCache;
pub(crate) use roots_hook::RootsHook;
#[cfg(feature = "sealed-state")]
pub(crate) use seal::StateKeys as RoundStates;
#[cfg(feature = "tasks")]
pub(super) use wait::into_result;
