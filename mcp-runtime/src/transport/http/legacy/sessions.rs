use std::sync::Arc;

use super::{clients::Clients, forwarder::Forwarder};
use crate::engine::Engine;

/// The sessions of 2024-11-05 of a server, which all of its listeners share.
#[derive(Debug, Clone)]
pub(crate) struct LegacySessions {
    pub(super) clients: Arc<Clients>,
    /// Forwards messages to other replicas. `None` if the backend is not shared.
    pub(super) forwarder: Option<Arc<Forwarder>>,
}

impl LegacySessions {
    pub(crate) fn new(engine: &Engine) -> Self {
        let clients = Arc::default();
        let forwarder = Forwarder::new(engine, &clients);
        Self { clients, forwarder }
    }
}
