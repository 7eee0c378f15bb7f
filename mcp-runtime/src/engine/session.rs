use std::sync::{Arc, OnceLock};

use super::{
    call::in_flight::InFlight,
    client_requests::PendingRequests,
    outbox::{Outbox, SessionLevel},
    subscriptions::subscriber::Subscriber,
};
use crate::{handler::ClientInfo, revision::Dialect};

/// A session: what `initialize` negotiated, and the state that lives as long as the session.
#[derive(Debug)]
pub(crate) struct Session {
    /// The owner of its tasks if the transport knows no principal. Generated for the first task.
    pub(super) id: OnceLock<String>,
    pub(crate) dialect: &'static Dialect,
    pub(crate) client: Option<ClientInfo>,
    /// The JSON of the client's capabilities.
    pub(crate) capabilities: Arc<str>,
    /// The requests to the client that are not yet answered.
    pub(crate) pending_requests: Arc<PendingRequests>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has several connections per session"))]
    pub(crate) in_flight: Arc<InFlight>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has several connections per session"))]
    pub(crate) level: Arc<SessionLevel>,
    /// The destination of messages that belong to no request.
    pub(crate) outbox: Arc<Outbox>,
    /// Its subscriptions. `None` if `initialize` announced that the server does not change.
    pub(super) subscriber: Option<Subscriber>,
}
