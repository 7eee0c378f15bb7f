//! The audit log: what users, clients and operators have done, and what they were refused. It contains no secrets.

use mcp_runtime::auth::Principal;

use crate::shares::Peer;

/// The target of the events, which the runtime uses for requests that it refuses.
pub(super) const TARGET: &str = "mcp_runtime::audit";

/// An event of the audit log.
#[derive(Debug, Clone)]
#[must_use]
pub(super) struct Event<'a> {
    name: &'static str,
    principal: Option<String>,
    client: Option<&'a str>,
    peer: Peer,
    reason: Option<&'a str>,
}

impl<'a> Event<'a> {
    pub(super) fn new(name: &'static str, peer: Peer) -> Self {
        Self { name, principal: None, client: None, peer, reason: None }
    }

    /// Sets the principal of a subject of this issuer, as functions see it.
    pub(super) fn principal(self, issuer: &str, subject: &str) -> Self {
        Self { principal: Some(Principal::of_subject(issuer, subject).to_string()), ..self }
    }

    /// Sets the client, which must be known: what an unknown client states may be anything.
    pub(super) fn client(self, id: impl Into<Option<&'a str>>) -> Self {
        Self { client: id.into(), ..self }
    }

    pub(super) fn reason(self, reason: &'a str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    pub(super) fn record(&self) {
        let Self { name: event, principal, client, peer, reason } = self;
        let (principal, peer) = (principal.as_deref(), peer.address().map(tracing::field::display));
        if *event == "reuse" {
            tracing::warn!(target: TARGET, event, principal, client, peer, reason, "audit");
        } else {
            tracing::info!(target: TARGET, event, principal, client, peer, reason, "audit");
        }
    }
}
