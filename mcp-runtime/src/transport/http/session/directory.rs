//! The sessions of an endpoint, whether or not other processes share them.

use std::{future::ready, pin::Pin, sync::Arc, time::Instant};

use super::{ActiveSession, LocalSessions, too_many_sessions};
use crate::{
    backend::BackendFuture,
    engine::{Session, SessionMessage},
    error::Fault,
    transport::http::peers::Peer,
};

/// A future of a method of a trait.
pub(crate) type SessionFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The sessions of an endpoint. Unless overridden, the methods are those of a process that shares its sessions with no
/// other. `cluster` implements sessions that several processes share.
pub(crate) trait Sessions: std::fmt::Debug + Send + Sync {
    /// Returns the sessions of this process, and its copies of sessions that other processes have opened.
    fn local(&self) -> &LocalSessions;

    /// Opens a session of a peer, and sets its id.
    ///
    /// # Errors
    ///
    /// Fails if there are too many sessions, or if other processes share them and the backend fails or takes too long.
    fn open<'a>(&'a self, session: &'a Arc<Session>, peer: &'a Arc<Peer>) -> SessionFuture<'a, Result<(), Fault>> {
        let opened = self.local().open(Arc::clone(session), peer);
        Box::pin(ready(opened.map(drop).ok_or_else(too_many_sessions)))
    }

    /// Looks a session up without waiting, and keeps it from becoming idle. Returns `None` if this process does not know
    /// it, or if its copy is outdated: [`load`](Self::load) finds it if it exists.
    fn look_up(&self, id: &str, principal: Option<&str>, now: Instant) -> Option<ActiveSession> {
        self.local().find(id, principal, now)
    }

    /// Returns the session with this id, which another process may have opened, and keeps it from becoming idle. Returns
    /// `None` if it does not exist, or if another principal opened it.
    ///
    /// # Errors
    ///
    /// Fails if other processes share the sessions, and there are too many of them, or the backend fails and this process
    /// does not know the session or has lost its lease.
    fn load<'a>(
        &'a self,
        id: &'a str,
        principal: Option<&'a str>,
        _peer: &'a Arc<Peer>,
        now: Instant,
    ) -> SessionFuture<'a, Result<Option<ActiveSession>, Fault>> {
        Box::pin(ready(Ok(self.local().find(id, principal, now))))
    }

    /// Returns whether a session must be [loaded](Self::load) again before a message is processed.
    fn is_outdated(&self, _session: &Session) -> bool {
        false
    }

    /// Tells other processes about the messages of a client that concern them. Returns `false` if the session has ended.
    ///
    /// # Errors
    ///
    /// Fails if the backend fails, or takes too long for all messages. Other processes may have learned some of them.
    fn send<'a>(&'a self, _session: &'a Session, _messages: Vec<SessionMessage>) -> BackendFuture<'a, bool> {
        Box::pin(ready(Ok(true)))
    }

    /// Ends a session in all processes.
    ///
    /// # Errors
    ///
    /// Fails if other processes share the session and the backend fails. The session then continues.
    fn delete<'a>(&'a self, session: &'a Session) -> BackendFuture<'a, ()> {
        self.local().close(session.id().unwrap_or_default());
        Box::pin(ready(Ok(())))
    }

    /// Ends a session that was opened, and whose client never learns its id. Other processes learn of it as soon as the
    /// backend responds.
    fn discard(&self, session: &Session) {
        self.local().close(session.id().unwrap_or_default());
    }

    /// Waits until clients can resume the streams of all calls of this process at other processes, if these share them.
    fn written(&self) -> SessionFuture<'_, ()> {
        Box::pin(ready(()))
    }
}

impl Sessions for LocalSessions {
    fn local(&self) -> &LocalSessions {
        self
    }
}
