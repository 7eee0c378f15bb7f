use std::sync::{Arc, OnceLock};

use super::{
    call::in_flight::InFlight,
    client_requests::PendingRequests,
    outbox::{Outbox, SessionLevel},
    subscriptions::subscriber::Subscriber,
};
use crate::{handler::ClientInfo, revision::Dialect};

/// What `initialize` settled, and what lives as long as the session.
#[derive(Debug)]
pub(crate) struct Session {
    /// What its tasks belong to, if nobody knows whose the session is; made for the first one.
    pub(super) id: OnceLock<String>,
    pub(crate) dialect: &'static Dialect,
    pub(crate) client: Option<ClientInfo>,
    /// The JSON of what the client declared.
    pub(crate) capabilities: Arc<str>,
    /// The requests that the client has not yet responded to.
    pub(crate) pending_requests: Arc<PendingRequests>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has several connections in one session"))]
    pub(crate) in_flight: Arc<InFlight>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has several connections in one session"))]
    pub(crate) level: Arc<SessionLevel>,
    /// Where messages go that belong to no request.
    pub(crate) outbox: Arc<Outbox>,
    /// How it is told of changes; none if it was told that there are none.
    pub(super) subscriber: Option<Subscriber>,
}
