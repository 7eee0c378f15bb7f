//! Takes the place of `client_requests` without the feature `ask`, when no function can send requests to its client.

use std::{
    task::{self, Poll},
    time::Duration,
};

use super::outcome::Finished;
use crate::error::Fault;

/// The channel through which one call sends requests to its client. Nothing implements it.
pub(crate) trait ClientRequester: Send + Sync {
    /// Returns the outcome that ends the call before its client answers, if there is one.
    fn poll_suspended(&self, cx: &mut task::Context<'_>) -> Poll<Option<Finished>>;
}

/// The requests of a call to its client. Always empty.
#[derive(Debug, Default)]
pub(crate) struct ClientWait {}

impl ClientWait {
    pub(crate) fn unmet_requirement(&self) -> Option<Fault> {
        None
    }

    pub(super) fn has_asked(&self) -> bool {
        false
    }

    pub(crate) fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}
