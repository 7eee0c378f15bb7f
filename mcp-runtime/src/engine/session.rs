use std::sync::Arc;

use super::{asking::Questions, flights::Flights, outbox::SessionLevel};
use crate::{handler::ClientInfo, revision::Dialect};

/// What `initialize` settled, and what lives as long as the session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) client: Option<ClientInfo>,
    /// The JSON of what the client declared.
    pub(crate) capabilities: Arc<str>,
    /// What the client was asked and has not yet answered.
    pub(crate) questions: Arc<Questions>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has several connections in one session"))]
    pub(crate) flights: Arc<Flights>,
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP has several connections in one session"))]
    pub(crate) level: Arc<SessionLevel>,
}
