//! Requests from a function to its client: sent while the call waits, or returned round by round.

#[cfg(any(not(feature = "sealed-state"), test))]
#[cfg_attr(feature = "sealed-state", allow(dead_code, reason = "states are sealed"))]
mod kept;
mod live;
mod roots;
mod rounds;
#[cfg(feature = "sealed-state")]
mod seal;
mod state;

#[cfg(not(feature = "sealed-state"))]
pub(crate) use kept::KeptStates as RoundStates;
pub(super) use live::into_result;
pub(crate) use live::{LiveRequester, RootsHook};
pub(super) use roots::RootsCache;
pub(super) use rounds::requester;
#[cfg(feature = "sealed-state")]
pub(crate) use seal::StateKeys as RoundStates;
