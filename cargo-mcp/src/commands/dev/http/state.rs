//! The state that all HTTP requests share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use super::{super::reporter::Reporter, backend::Backends, session::Session, sync::lock};

/// The proxy between HTTP clients and the servers of successive builds.
#[derive(Debug)]
pub(super) struct HttpProxy {
    pub(super) backends: Backends,
    sessions: Mutex<HashMap<String, Arc<SharedSession>>>,
    pub(super) reporter: Reporter,
}

/// A session that concurrent requests use.
#[derive(Debug)]
pub(super) struct SharedSession {
    /// The session id that the client received.
    pub(super) id: String,
    pub(super) state: Mutex<Session>,
    /// Held while the session is opened on a new server.
    pub(super) opening: tokio::sync::Mutex<()>,
}

impl HttpProxy {
    pub(super) fn new(backends: Backends, reporter: Reporter) -> Self {
        Self { backends, sessions: Mutex::default(), reporter }
    }

    pub(super) fn session(&self, id: &str) -> Option<Arc<SharedSession>> {
        lock(&self.sessions).get(id).cloned()
    }

    pub(super) fn sessions(&self) -> Vec<Arc<SharedSession>> {
        lock(&self.sessions).values().cloned().collect()
    }

    pub(super) fn add_session(&self, id: String, state: Session) {
        let session = SharedSession { id: id.clone(), state: state.into(), opening: tokio::sync::Mutex::default() };
        lock(&self.sessions).insert(id, Arc::new(session));
    }

    pub(super) fn remove_session(&self, id: &str) {
        lock(&self.sessions).remove(id);
    }
}
