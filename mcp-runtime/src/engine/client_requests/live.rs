//! Sends requests to the client and waits for their responses, in revisions in which servers can send requests.

use std::{
    future::ready,
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::timeout;

use super::wait::{into_result, wait_for_response};
use crate::{
    engine::{
        outbox::Outbox,
        pending_requests::session_ended,
        request::operation::Operation,
        session::{Session, SessionInfo},
    },
    error::Fault,
    handler::{
        AnswerFuture, CallConnection as _, CheckAnswer, ClientInfo, ClientRequester, OnceValues, SessionPeer,
        ask::{ElicitationSession, Question},
    },
    revision::Dialect,
};

/// The maximum time for which a request waits until it may be sent to the client.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum time for which a `ping` waits for its response.
const PING_TIMEOUT: Duration = Duration::from_secs(30);

/// The requester of a call that waits for its client, or of code that runs outside of calls.
pub(crate) struct LiveRequester {
    session: Weak<Session>,
    info: Arc<SessionInfo>,
    /// The outbox of the call. `None` outside of calls, where the session's own outbox is used.
    outbox: Option<Arc<Outbox>>,
    once: OnceValues,
}

impl LiveRequester {
    /// Creates the requester of a call. Requests are sent on the stream of the call.
    pub(crate) fn of_call(session: &Arc<Session>, outbox: &Arc<Outbox>) -> Self {
        Self { outbox: Some(Arc::clone(outbox)), ..Self::of_session(session) }
    }

    /// Creates the requester of code outside of calls. Requests are sent on the stream for messages that belong to no
    /// request.
    pub(crate) fn of_session(session: &Arc<Session>) -> Self {
        Self {
            session: Arc::downgrade(session),
            info: Arc::clone(&session.info),
            outbox: None,
            once: OnceValues::default(),
        }
    }

    /// Returns the session, unless it has ended.
    fn open_session(&self) -> Option<Arc<Session>> {
        open_session(&self.session)
    }
}

fn open_session(session: &Weak<Session>) -> Option<Arc<Session>> {
    session.upgrade().filter(|session| !session.has_ended())
}

impl ClientRequester for LiveRequester {
    fn capabilities(&self) -> &str {
        &self.info.capabilities
    }

    fn ask(&self, question: Question, check: &CheckAnswer<'_>) -> AnswerFuture {
        if let Err(fault) = question.check_capabilities(&self.info.capabilities) {
            return Box::pin(ready(Err(fault)));
        }
        let Some(session) = self.open_session() else { return Box::pin(ready(Err(session_ended()))) };
        if let Some(known) = session.roots.answer(&question).filter(|answer| check(answer).is_ok()) {
            return Box::pin(ready(Ok(known)));
        }
        Box::pin(ask(self.session.clone(), self.outbox.clone(), question))
    }

    fn ping(&self) -> AnswerFuture {
        let (session, outbox) = (self.session.clone(), self.outbox.clone());
        Box::pin(async move {
            let session = open_session(&session).ok_or_else(session_ended)?;
            let outbox = match outbox {
                Some(outbox) => outbox,
                None => session.until_read(READY_TIMEOUT).await?,
            };
            let operation = Operation::to_client(&session, "ping");
            let mut request = session.pending_requests.send_request(operation, &outbox, ("ping", "{}"), false)?;
            match timeout(PING_TIMEOUT, &mut request.response).await {
                // An error response also shows that the client is responsive.
                Ok(Ok(_)) => Ok("{}".to_owned()),
                Ok(Err(_)) => Err(session_ended()),
                Err(_) => {
                    request.time_out();
                    tracing::warn!(timeout = ?PING_TIMEOUT, "the client did not answer a ping");
                    Err(Fault::internal(format!("the client did not answer `ping` within {PING_TIMEOUT:?}")))
                }
            }
        })
    }

    fn session(&self) -> Option<Arc<dyn SessionPeer>> {
        Some(Arc::new(Self::of_session(&self.session.upgrade()?)))
    }

    fn elicitation_session(&self) -> Option<Arc<dyn ElicitationSession>> {
        Some(Arc::new(self.session.clone()))
    }

    fn once_values(&self) -> &OnceValues {
        &self.once
    }
}

impl ElicitationSession for Weak<Session> {
    fn notify(&self, message: &[u8]) -> bool {
        open_session(self).is_some_and(|session| session.outbox.notify(message))
    }
}

impl SessionPeer for LiveRequester {
    fn requester(&self) -> &dyn ClientRequester {
        self
    }

    fn dialect(&self) -> &'static Dialect {
        self.info.dialect
    }

    fn client(&self) -> Option<&ClientInfo> {
        self.info.client.as_ref()
    }

    fn principal(&self) -> Option<&str> {
        self.info.principal.as_deref()
    }

    fn has_ended(&self) -> bool {
        self.open_session().is_none()
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let session = self.open_session();
        Box::pin(async move {
            if let Some(session) = session {
                session.ended().await;
            }
        })
    }

    fn is_reachable(&self) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let session = self.open_session().filter(|session| session.is_initialized());
        Box::pin(async move {
            match session {
                Some(session) => session.is_read().await,
                None => false,
            }
        })
    }
}

/// Sends a question once the client may receive it, and waits for the answer.
///
/// The future holds the session only while it waits, so it keeps nothing alive before it is first polled.
async fn ask(session: Weak<Session>, outbox: Option<Arc<Outbox>>, mut question: Question) -> Result<String, Fault> {
    let session = open_session(&session).ok_or_else(session_ended)?;
    let limit = question.options.timeout.unwrap_or(session.answer_timeout);
    session.until_initialized(READY_TIMEOUT.min(limit)).await?;
    let outbox = match outbox {
        Some(outbox) => outbox,
        None => session.until_read(READY_TIMEOUT.min(limit)).await?,
    };
    let version = session.roots.version();
    let wants_progress = question.options.wants_progress();
    let operation = Operation::to_client(&session, question.method);
    let message = (question.method, &*question.params);
    let mut request = session.pending_requests.send_request(operation, &outbox, message, wants_progress)?;
    if let Some(tracked) = question.tracked.take() {
        tracked.received_by(Arc::new(Arc::downgrade(&session)));
    }
    let response = wait_for_response(&mut request, &question, limit).await?;
    into_result(response, question.method).inspect(|answer| session.roots.store(&question, version, answer))
}

#[cfg(all(test, feature = "http"))]
mod tests {
    use super::*;

    /// Authors may keep both for as long as they like.
    #[test]
    fn completions_and_unpolled_requests_keep_nothing_of_a_session() {
        let session = Arc::new(Session::for_test());
        let (weak, info) = (Arc::downgrade(&session), Arc::downgrade(&session.info));
        let requester = LiveRequester::of_session(&session);
        let (recipient, ping) = (requester.elicitation_session().unwrap(), requester.ping());
        assert!(recipient.notify(b"{}"));
        drop((session, requester));
        assert!(weak.upgrade().is_none() && info.upgrade().is_none());
        assert!(!recipient.notify(b"{}"));
        drop(ping);
    }
}
