//! Sends requests to the client and waits for their responses, in revisions in which servers can send requests: from
//! calls, and from the author's function that runs when the roots of a client change.

use std::{
    future::{pending, ready},
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};

use crate::{
    engine::{
        outbox::Outbox,
        pending_requests::{PendingRequest, session_ended},
        replicas::InputResponse,
        request::operation::Operation,
        session::Session,
    },
    error::Fault,
    handler::{
        self, AnswerFuture, CheckAnswer, ClientRequester, OnceValues, SessionInfo, SessionPeer,
        ask::{AskOptions, ElicitationSession, Question},
    },
    stdx::{debug, race},
};

/// The maximum time for which a request waits until it may be sent to the client.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum time for which a `ping` waits for its response.
const PING_TIMEOUT: Duration = Duration::from_secs(30);
/// The time between two checks whether a client reads at another replica.
const READER_INTERVAL: Duration = Duration::from_millis(200);

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
}

/// Returns a session, unless it has ended.
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
        let Some(session) = open_session(&self.session) else { return Box::pin(ready(Err(session_ended()))) };
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
    fn info(&self) -> &SessionInfo {
        &self.info
    }

    fn has_ended(&self) -> bool {
        open_session(&self.session).is_none()
    }

    fn ended(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let session = open_session(&self.session);
        Box::pin(async move {
            if let Some(session) = session {
                session.ended.wait().await;
            }
        })
    }

    fn is_reachable(&self) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let session = open_session(&self.session).filter(|session| session.is_initialized());
        Box::pin(async move {
            match session {
                Some(session) => session.outbox.has_reader() || session.is_read_elsewhere().await,
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

impl Session {
    /// Waits until the client has sent `notifications/initialized`. Until then, the server may send no requests except
    /// pings.
    ///
    /// # Errors
    ///
    /// Fails if the notification does not arrive within `limit`, or if the session ends first.
    async fn until_initialized(&self, limit: Duration) -> Result<(), Fault> {
        if self.is_initialized() {
            return Ok(());
        }
        match race(timeout(limit, self.initialized.wait()), self.ended.wait()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Fault::internal(format!(
                "the client has not sent `notifications/initialized` within {limit:?}, so no request can be sent to it"
            ))),
            Err(_) => Err(session_ended()),
        }
    }

    /// Waits until the client reads messages that belong to no request, and returns their outbox.
    ///
    /// # Errors
    ///
    /// Fails if the client does not open a stream for them within `limit`, or if the session ends first.
    async fn until_read(&self, limit: Duration) -> Result<Arc<Outbox>, Fault> {
        if self.outbox.has_reader() {
            return Ok(Arc::clone(&self.outbox));
        }
        let read = race(self.outbox.until_read(), self.until_read_elsewhere());
        match race(timeout(limit, read), self.ended.wait()).await {
            Ok(Ok(_)) => Ok(Arc::clone(&self.outbox)),
            Ok(Err(_)) => Err(Fault::internal(format!(
                "the client has not opened a stream for messages outside of calls within {limit:?}"
            ))),
            Err(_) => Err(session_ended()),
        }
    }

    /// Waits until the client reads messages that belong to no request at another replica, which receives what is sent
    /// here.
    async fn until_read_elsewhere(&self) {
        if self.pending_requests.replicas().is_none() {
            return pending().await;
        }
        while !self.is_read_elsewhere().await {
            sleep(READER_INTERVAL).await;
        }
    }

    /// Returns whether the client reads messages that belong to no request at another replica. Returns `false` if the
    /// backend fails.
    async fn is_read_elsewhere(&self) -> bool {
        match self.pending_requests.replicas().zip(self.id()) {
            Some((replicas, id)) => replicas.is_read(id).await.unwrap_or(false),
            None => false,
        }
    }
}

/// Waits for the response to a question, and passes the client's progress on in the meantime. Waits for `limit`, which
/// starts again with each progress if the question has a maximum.
///
/// # Errors
///
/// Returns [`Fault::AnswerTimeout`] if there is no response in time, and another fault if the session ends.
async fn wait_for_response(
    request: &mut PendingRequest,
    question: &Question,
    limit: Duration,
) -> Result<InputResponse, Fault> {
    let AskOptions { max_timeout, on_progress, .. } = &question.options;
    let max = max_timeout.unwrap_or(limit);
    let started = Instant::now();
    let mut remaining = limit.min(max);
    loop {
        let PendingRequest { response, progress, .. } = &mut *request;
        let progressed = async {
            let Some(progress) = progress else { return pending().await };
            match progress.changed().await {
                Ok(()) => progress.borrow().clone(),
                // The channel is closed when the response has arrived.
                Err(_) => pending().await,
            }
        };
        // Progress that arrives before the response is passed on before it.
        let progress = match timeout(remaining, race(progressed, response)).await {
            Ok(Ok(progress)) => progress,
            Ok(Err(Ok(response))) => return Ok(response),
            Ok(Err(Err(_))) => return Err(request.withdrawn()),
            Err(_) => {
                request.time_out();
                let timeout = if started.elapsed() >= max { max } else { limit };
                return Err(Fault::AnswerTimeout { key: question.key.clone(), timeout });
            }
        };
        if let Some((report, progress)) = on_progress.as_ref().zip(progress) {
            report(progress);
        }
        let until_max = max.saturating_sub(started.elapsed());
        // Without a maximum, `max` equals `limit`, so progress does not extend the wait.
        remaining = limit.min(until_max);
    }
}

/// Turns the response to a request into the result that the function receives.
pub(in crate::engine) fn into_result(response: InputResponse, method: &str) -> Result<String, Fault> {
    match response {
        InputResponse::Result(json) => Ok(json),
        InputResponse::Error(message) => Err(Fault::AnswerError { method: method.to_owned(), message }),
    }
}

/// The function that was passed to [`Server::on_roots_changed`](crate::Server::on_roots_changed).
#[derive(Clone)]
pub(crate) struct RootsHook(Arc<dyn Fn(handler::Session) -> HookFuture + Send + Sync>);

type HookFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

impl RootsHook {
    pub(crate) fn new<F>(run: impl Fn(handler::Session) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move |session| Box::pin(run(session))))
    }

    /// Runs the hook for a session. If it is already running, runs it once more afterwards. A running hook is aborted
    /// when the session ends.
    pub(in crate::engine) fn run(&self, session: &Arc<Session>) {
        if !session.roots.hook_runs.start() {
            return;
        }
        let (hook, session) = (self.clone(), Arc::clone(session));
        tokio::spawn(async move {
            loop {
                let handle = handler::Session::new(Arc::new(LiveRequester::of_session(&session)));
                let function = Arc::clone(&hook.0);
                let mut running = tokio::spawn(async move { function(handle).await });
                match race(&mut running, session.ended.wait()).await {
                    Ok(Err(error)) if error.is_panic() => {
                        tracing::error!("the function passed to `on_roots_changed` panicked");
                    }
                    Ok(_) => {}
                    Err(_) => return running.abort(),
                }
                if !session.roots.hook_runs.finish() {
                    return;
                }
            }
        });
    }
}

debug!(RootsHook, self);

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

    #[cfg(feature = "cluster")]
    #[tokio::test(start_paused = true)]
    async fn the_backend_is_seldom_asked_whether_the_client_reads_elsewhere() {
        use crate::{backend::MemoryBackend, cluster::Cluster, testing::test_backend::TestBackend};

        let backend = Arc::new(TestBackend::<_, MemoryBackend>::new(Duration::from_millis(1)));
        let session = Session::for_test();
        session.set_id(&"session".into());
        let replica = Cluster::for_test(Arc::clone(&backend) as _, Duration::from_secs(60));
        session.pending_requests.number_by(&replica);
        assert!(session.until_read(Duration::from_secs(4)).await.is_err());
        let operations = backend.operations();
        assert!((10..=30).contains(&operations), "{operations} in 4 seconds");
    }
}
