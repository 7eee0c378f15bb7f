//! How a call asks its client: while it waits, or round by round.

mod live;
mod rounds;
mod seal;

pub(crate) use live::Questions;
pub(super) use live::{Kept, Live, Waiting, put};
pub(super) use rounds::{Retry, Rounds};
pub(super) use seal::Binding;
pub(crate) use seal::StateKeys;
pub use seal::{StateKey, StateKeyError};
