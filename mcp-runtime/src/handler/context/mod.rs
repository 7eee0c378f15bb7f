//! The context of a call: the request, and messages to the client while the function runs.

mod amount;
#[allow(clippy::module_inception)]
mod context;
pub(crate) mod current;
mod identity;
pub(crate) mod log;
mod meta;
mod notifications;
mod notifier;
mod progress;
mod questions;
mod request;

pub use self::{amount::Amount, context::Context, notifier::Notifier};
pub(crate) use self::{
    context::{ContextParts, StatusMessages, TaskHandoff},
    log::LogThreshold,
};
