use std::sync::{Arc, OnceLock};

use super::{
    call::in_flight::InFlight, client_requests::PendingRequests, outbox::Outbox, rates::FlowControl,
    subscriptions::subscriber::Subscriber,
};
use crate::{handler::ClientInfo, revision::Dialect};

/// A session: the result of the negotiation in `initialize`, and the state that lives as long as the session.
#[derive(Debug)]
pub(crate) struct Session {
    /// The id that owns the session's tasks if there is no principal. Generated for the first request about tasks.
    pub(super) id: OnceLock<String>,
    pub(crate) dialect: &'static Dialect,
    pub(crate) client: Option<ClientInfo>,
    /// The principal that opened the session, which nobody else may use.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP identifies the sender of each message"))]
    pub(crate) principal: Option<Box<str>>,
    /// The JSON of the client's capabilities.
    pub(crate) capabilities: Arc<str>,
    /// The requests to the client that it has not yet answered.
    pub(crate) pending_requests: Arc<PendingRequests>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has several connections per session"))]
    pub(crate) in_flight: Arc<InFlight>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has several connections per session"))]
    pub(crate) flow: Arc<FlowControl>,
    /// The destination of messages that belong to no request.
    pub(crate) outbox: Arc<Outbox>,
    /// The subscriptions of the session. `None` if the server did not declare in `initialize` that its lists may
    /// change.
    pub(super) subscriber: Option<Subscriber>,
}
