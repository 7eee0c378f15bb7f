//! The sessions of an endpoint, whether or not other processes share them.

use std::{pin::Pin, sync::Arc, time::Instant};

use super::{ActiveSession, LocalSessions, too_many_sessions};
use crate::{
    backend::BackendFuture,
    engine::{Session, SessionMessage},
    error::Fault,
    transport::http::peers::Peer,
};

/// A future of a method of a trait.
pub(crate) type SessionFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sessions that several processes share. `cluster` implements it.
pub(crate) trait SharedSessions: std::fmt::Debug + Send + Sync {
    /// Adds a session of a peer that was opened in this process. Returns its id.
    ///
    /// # Errors
    ///
    /// Fails if there are too many sessions, or the backend fails or takes too long.
    fn open<'a>(&'a self, session: &'a Arc<Session>, peer: &'a Arc<Peer>)
    -> SessionFuture<'a, Result<Arc<str>, Fault>>;

    /// Returns the session with this id, which another process may have opened, and keeps it from becoming idle. Returns
    /// `None` if it does not exist, or if another principal opened it.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails and this process does not know the session or has lost its lease, or if there are too
    /// many sessions.
    fn find<'a>(
        &'a self,
        id: &'a str,
        principal: Option<&'a str>,
        peer: &'a Arc<Peer>,
        now: Instant,
    ) -> SessionFuture<'a, Result<Option<ActiveSession>, Fault>>;

    /// Returns whether a session must be read again before a message is processed that has arrived at `now`.
    fn is_outdated(&self, session: &Session, now: Instant) -> bool;

    /// Records that a session is used, which keeps other processes from evicting it. Does not wait.
    fn used(&self, session: &Session);

    /// Ends a session for all other processes as soon as the backend responds. Its client never learns its id.
    fn discard(&self, session: &Session);

    /// Tells other processes about the messages of a client that concern them. Returns `false` if the session has ended.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails, or takes too long for all messages. Other processes may have learned some of them.
    fn send<'a>(&'a self, session: &'a Session, messages: Vec<SessionMessage>) -> BackendFuture<'a, bool>;

    /// Ends a session for all processes, except for its copy here.
    fn delete<'a>(&'a self, session: &'a Session) -> BackendFuture<'a, ()>;

    /// Waits until every process can read the responses of all calls of this process.
    fn written(&self) -> SessionFuture<'_, ()>;
}

/// The sessions of an endpoint.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// The sessions of this process, and its copies of sessions that other processes have opened.
    pub(crate) local: Arc<LocalSessions>,
    /// `None` if no other process knows them.
    shared: Option<Arc<dyn SharedSessions>>,
}

/// A session that was looked up without waiting.
pub(crate) enum Lookup {
    Found(ActiveSession),
    /// The session is unknown to this process, or outdated. [`Sessions::load`] finds it.
    Unloaded,
}

impl Sessions {
    pub(crate) fn new(local: Arc<LocalSessions>, shared: Option<Arc<dyn SharedSessions>>) -> Self {
        Self { local, shared }
    }

    /// Opens a session of a peer, and returns its id.
    ///
    /// # Errors
    ///
    /// Fails if there are too many sessions, or if other processes share them and the backend fails.
    pub(crate) async fn open(&self, session: &Arc<Session>, peer: &Arc<Peer>) -> Result<Arc<str>, Fault> {
        match &self.shared {
            Some(shared) => shared.open(session, peer).await,
            None => self.local.open(Arc::clone(session), peer).ok_or_else(too_many_sessions),
        }
    }

    /// Looks a session up, and keeps it from becoming idle. Returns `None` if it does not exist.
    pub(crate) fn look_up(&self, id: &str, principal: Option<&str>, now: Instant) -> Option<Lookup> {
        match (self.local.find(id, principal, now), &self.shared) {
            (Some(found), Some(shared)) if !shared.is_outdated(&found.session.session, now) => {
                shared.used(&found.session.session);
                Some(Lookup::Found(found))
            }
            (_, Some(_)) => Some(Lookup::Unloaded),
            (found, None) => found.map(Lookup::Found),
        }
    }

    /// Returns the session with this id, or `None` if it does not exist or another principal opened it.
    ///
    /// # Errors
    ///
    /// Fails if other processes share the sessions and the backend fails, or if there are too many sessions.
    pub(crate) async fn load(
        &self,
        id: &str,
        principal: Option<&str>,
        peer: &Arc<Peer>,
        now: Instant,
    ) -> Result<Option<ActiveSession>, Fault> {
        match &self.shared {
            Some(shared) => shared.find(id, principal, peer, now).await,
            None => Ok(self.local.find(id, principal, now)),
        }
    }

    /// Returns whether a session must be [loaded](Self::load) again before a message is processed.
    pub(crate) fn is_outdated(&self, session: &Session) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.is_outdated(session, Instant::now()))
    }

    /// Tells other processes about the messages of a client that concern them. Returns `false` if the session has ended.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails. Other processes may have learned some of the messages.
    pub(crate) fn send<'a>(&'a self, session: &'a Session, messages: Vec<SessionMessage>) -> BackendFuture<'a, bool> {
        match &self.shared {
            Some(shared) if !messages.is_empty() => shared.send(session, messages),
            _ => Box::pin(std::future::ready(Ok(true))),
        }
    }

    /// Ends a session in all processes.
    ///
    /// # Errors
    ///
    /// Fails if other processes share the session and the backend fails. The session then continues.
    pub(crate) async fn delete(&self, session: &Session) -> Result<(), Fault> {
        if let Some(shared) = &self.shared {
            shared.delete(session).await?;
        }
        self.local.close(session.id().unwrap_or_default());
        Ok(())
    }

    /// Ends a session that was opened, and whose client never learns its id.
    pub(crate) fn discard(&self, session: &Session) {
        if let Some(shared) = &self.shared {
            shared.discard(session);
        }
        self.local.close(session.id().unwrap_or_default());
    }

    /// Waits until clients can resume the streams of all calls of this process at other processes, if these share them.
    pub(crate) async fn written(&self) {
        if let Some(shared) = &self.shared {
            shared.written().await;
        }
    }

    /// Returns whether clients that lose their connections to this process can resume their streams at other processes.
    pub(crate) fn are_shared(&self) -> bool {
        self.shared.is_some()
    }
}
