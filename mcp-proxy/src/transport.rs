//! The transport of a connection, which knows the calls that wait on it.
//!
//! The SDK runs the handler of each message in a task of its own, without order. Therefore [`CallTransport`] reads progress and log
//! messages where they arrive, before the response that follows them.

// Logging is deprecated, and upstreams use it.
#![expect(deprecated)]

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use mcp_runtime::{Context, Fault, Level};
use rmcp::{
    RoleClient,
    model::{
        ClientNotification, Extensions, GetExtensions as _, JsonRpcMessage, LoggingLevel, ProgressToken, RequestId,
        ServerNotification,
    },
    service::{InboundStreamOrigin, RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::Value;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::sleep,
};

use crate::convert::{make_printable, printable};

/// How long after its call an upstream may name the task that it has made.
pub(crate) const LATE_TASK_TIMEOUT: Duration = Duration::from_secs(2);

/// Receives the announcements of an upstream.
pub(crate) trait Listener: Send + Sync + 'static {
    /// The lists have changed, or announcements of changes may be lost.
    fn changed(&self);
    /// A resource has changed.
    fn resource_updated(&self, uri: &str);
    /// The subscription to a resource has ended.
    fn unsubscribed(&self);
    /// A stream of announcements of a session has opened. Announcements from before may be lost.
    fn stream_opened(&self);
}

/// A call that waits for the upstream.
pub(crate) struct WaitingCall {
    pub(crate) ctx: Context,
    pub(crate) questions: mpsc::Sender<Question>,
    /// The id of the task that the upstream has made of the call.
    pub(crate) task: OnceLock<String>,
    /// Whether the upstream has sent progress.
    pub(crate) has_progress: AtomicBool,
    /// Whether the upstream has responded, so that open questions are those of other calls.
    pub(crate) has_result: AtomicBool,
    /// Whether the call was cancelled, and the upstream may still name a task that it has made of it.
    pub(crate) awaits_task: AtomicBool,
}

impl WaitingCall {
    pub(crate) fn new(ctx: &Context, questions: mpsc::Sender<Question>) -> Self {
        let (has_progress, has_result, awaits_task) = Default::default();
        Self { ctx: ctx.clone(), questions, task: OnceLock::new(), has_progress, has_result, awaits_task }
    }
}

/// The calls to which a question may belong, with the newest last.
#[derive(Clone, Default)]
pub(crate) struct Candidates(pub(crate) Vec<Weak<WaitingCall>>);

/// A question that arrived while a call was waiting.
pub(crate) struct Question {
    pub(crate) method: &'static str,
    pub(crate) params: Value,
    pub(crate) reply: oneshot::Sender<Result<Value, Fault>>,
}

/// The maximum number of calls that have ended without a response and are remembered, and for how long. Most upstreams do not respond
/// to a call that was cancelled.
const MAX_ABANDONED: usize = 1024;
const ABANDONED_LIFETIME: Duration = Duration::from_secs(10 * 60);

/// The calls on a connection.
pub(crate) struct Calls {
    /// Whether all calls have the same principal.
    has_single_principal: bool,
    sent: Mutex<SentCalls>,
}

#[derive(Default)]
struct SentCalls {
    /// The requests of the calls that wait, in the order of their start. The server limits their number.
    waiting: Vec<SentRequest>,
    /// The callers of requests that have ended without a response, and when: the upstream may still ask their questions.
    abandoned: HashMap<RequestId, (Option<KnownCaller>, Instant)>,
    /// When there were last more than [`MAX_ABANDONED`].
    lost_callers: Option<Instant>,
}

struct SentRequest {
    id: RequestId,
    token: ProgressToken,
    call: Arc<WaitingCall>,
    has_response: bool,
}

/// A caller that is known to be the same for two calls: a principal, or the client of a server over stdio.
#[derive(PartialEq)]
struct KnownCaller(Option<String>);

impl KnownCaller {
    /// Returns the caller. Clients over HTTP without a principal are different clients.
    fn of(ctx: &Context) -> Option<Self> {
        (ctx.is_stdio() || ctx.principal().is_some()).then(|| Self(ctx.principal().map(str::to_owned)))
    }
}

fn is_recent(at: &Instant) -> bool {
    at.elapsed() < ABANDONED_LIFETIME
}

impl SentCalls {
    /// Returns whether a question that names no call must be one of the caller of the newest call.
    fn are_of_one_caller(&mut self) -> bool {
        self.abandoned.retain(|_, (_, at)| is_recent(at));
        let Some(last) = self.waiting.last() else { return false };
        let caller = KnownCaller::of(&last.call.ctx);
        let is_same = |other: &Option<KnownCaller>| caller.is_some() && caller == *other;
        !self.lost_callers.as_ref().is_some_and(is_recent)
            && self.abandoned.values().all(|(caller, _)| is_same(caller))
            && self
                .waiting
                .iter()
                .all(|sent| Arc::ptr_eq(&sent.call, &last.call) || is_same(&KnownCaller::of(&sent.call.ctx)))
    }
}

impl Calls {
    pub(crate) fn new(has_single_principal: bool) -> Self {
        Self { has_single_principal, sent: Mutex::default() }
    }

    fn with<R>(&self, run: impl FnOnce(&mut SentCalls) -> R) -> R {
        run(&mut self.sent.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn remove_ended(&self) {
        self.with(|calls| {
            let SentCalls { waiting, abandoned, lost_callers } = calls;
            waiting.retain(|SentRequest { id, call, has_response, .. }| {
                let has_ended = call.questions.is_closed();
                if has_ended && !has_response && !self.has_single_principal && !call.ctx.is_stdio() {
                    if abandoned.len() >= MAX_ABANDONED {
                        abandoned.retain(|_, (_, at)| is_recent(at));
                    }
                    if abandoned.len() < MAX_ABANDONED {
                        abandoned.insert(id.clone(), (KnownCaller::of(&call.ctx), Instant::now()));
                    } else {
                        *lost_callers = Some(Instant::now());
                    }
                }
                !has_ended
            });
        });
    }

    /// Records that the upstream has responded to a request, and asks no more questions for it.
    fn responded(&self, id: &RequestId) {
        self.with(|calls| {
            calls.abandoned.remove(id);
            calls.waiting.iter_mut().filter(|sent| sent.id == *id).for_each(|sent| sent.has_response = true);
        });
    }

    fn of_token(&self, token: &ProgressToken) -> Option<Arc<WaitingCall>> {
        self.with(|calls| calls.waiting.iter().find(|sent| sent.token == *token).map(|sent| Arc::clone(&sent.call)))
    }

    /// Returns the call of which the upstream has made this task, or on whose stream the message about it has arrived. The response
    /// that names the task may not have been handled yet. No other call may get the message.
    pub(crate) async fn of_task(&self, id: &str, extensions: &Extensions) -> Option<Weak<WaitingCall>> {
        if let Some(InboundStreamOrigin::OutboundRequest(_)) = extensions.get() {
            return self.of_message(extensions).pop();
        }
        for _ in 0..20 {
            let is_of_task = |call: &WaitingCall| call.task.get().is_some_and(|task| task == id);
            let find = |calls: &mut SentCalls| {
                let found = calls.waiting.iter().find(|sent| is_of_task(&sent.call));
                found.map(|sent| Arc::downgrade(&sent.call))
            };
            let found = self.with(find);
            if found.is_some() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        None
    }

    /// Returns the calls to which a message may belong: the call on whose stream it arrived, or else all calls, with the newest
    /// last, if they have the same principal, as well as those that were cancelled without a response. No principal may see
    /// messages for another one.
    pub(crate) fn of_message(&self, extensions: &Extensions) -> Vec<Weak<WaitingCall>> {
        self.with(|calls| {
            if let Some(InboundStreamOrigin::OutboundRequest(id)) = extensions.get() {
                let of_stream = calls.waiting.iter().find(|sent| sent.id == *id);
                return of_stream.map(|sent| Arc::downgrade(&sent.call)).into_iter().collect();
            }
            if !calls.are_of_one_caller() {
                return Vec::new();
            }
            let mut found: Vec<_> = calls.waiting.iter().map(|sent| &sent.call).collect();
            // A call may have a second request.
            found.dedup_by(|a, b| Arc::ptr_eq(a, b));
            found.into_iter().map(Arc::downgrade).collect()
        })
    }
}

/// The maximum number of messages that an upstream may leave unread, and of its own requests without a response, not counting
/// calls. An upstream that exceeds either loses its connection.
const MAX_UNSENT: usize = 1024;
/// How long an upstream may leave cancellations unread beyond the maximum, which are then lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// A transport that registers calls when they are sent, and delivers progress and log messages when they arrive.
pub(crate) struct CallTransport<T, L: Listener> {
    inner: T,
    calls: Arc<Calls>,
    listener: Arc<L>,
    /// Whether all calls on the connection so far are from one caller, so that messages without a call may be passed to it.
    has_single_caller: bool,
    unsent: Arc<Semaphore>,
    unsent_cancellations: Arc<Semaphore>,
    /// Since when no cancellation could be sent.
    refused_since: Option<Instant>,
    /// The requests of the upstream that have no response yet, and that it has not cancelled.
    unanswered: HashSet<RequestId>,
    is_stuck: bool,
}

fn is_cancellation(message: &TxJsonRpcMessage<RoleClient>) -> bool {
    let JsonRpcMessage::Notification(sent) = message else { return false };
    matches!(sent.notification, ClientNotification::CancelledNotification(_))
}

impl<T, L: Listener> CallTransport<T, L> {
    pub(crate) fn new(inner: T, calls: &Arc<Calls>, listener: &Arc<L>) -> Self {
        let permits = || Arc::new(Semaphore::new(MAX_UNSENT));
        let (calls, listener) = (Arc::clone(calls), Arc::clone(listener));
        Self {
            inner,
            calls,
            listener,
            has_single_caller: true,
            unsent: permits(),
            unsent_cancellations: permits(),
            refused_since: None,
            unanswered: HashSet::new(),
            is_stuck: false,
        }
    }
}

impl<T: Transport<RoleClient>, L: Listener> Transport<RoleClient> for CallTransport<T, L> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (mut ended, mut has_ended) = (None, false);
        if let JsonRpcMessage::Request(sent) = &message
            && let Some(call) = sent.request.extensions().get::<Arc<WaitingCall>>()
            && let Some(token) = rmcp::model::GetMeta::get_meta(&sent.request).get_progress_token()
        {
            self.has_single_caller &= self.calls.has_single_principal || call.ctx.is_stdio();
            self.calls.with(|calls| {
                // The call may have been cancelled before its request is sent, which would be registered too late.
                has_ended = call.questions.is_closed();
                if has_ended {
                    return;
                }
                // Beside its first request, which has the token of its progress, a call has at most one.
                let second = calls.waiting.iter_mut().filter(|sent| Arc::ptr_eq(&sent.call, call)).nth(1);
                let request = SentRequest { id: sent.id.clone(), token, call: Arc::clone(call), has_response: false };
                match second {
                    Some(second) => *second = request,
                    None => calls.waiting.push(request),
                }
            });
            ended = Some(Arc::clone(call));
        }
        match &message {
            JsonRpcMessage::Response(response) => drop(self.unanswered.remove(&response.id)),
            JsonRpcMessage::Error(error) => drop(error.id.as_ref().map(|id| self.unanswered.remove(id))),
            _ => {}
        }
        // The server limits calls. One that is cancelled keeps its request only while its task is awaited.
        let is_cancellation = is_cancellation(&message);
        let permits = if is_cancellation { &self.unsent_cancellations } else { &self.unsent };
        let permit = if ended.is_none() { Arc::clone(permits).try_acquire_owned().ok() } else { None };
        let is_refused = ended.is_none() && permit.is_none();
        // Callers that cancel must not end the connection of a program that is busy for a moment.
        let is_dropped = is_refused && is_cancellation;
        if is_cancellation {
            self.refused_since = is_dropped.then(|| self.refused_since.unwrap_or_else(Instant::now));
        }
        let is_busy = is_dropped && self.refused_since.is_some_and(|since| since.elapsed() < PATIENCE);
        if is_refused && !is_busy && !self.is_stuck {
            tracing::warn!("an upstream loses its connection: it does not read what it is sent");
            self.is_stuck = true;
        }
        let request = match &message {
            JsonRpcMessage::Request(sent) => Some(sent.id.clone()),
            _ => None,
        };
        let calls = Arc::clone(&self.calls);
        let sending = (!self.is_stuck && !is_dropped && !has_ended).then(|| self.inner.send(message));
        async move {
            let Some(sending) = sending else { return Ok(()) };
            match ended {
                Some(call) => tokio::select! {
                    biased;
                    sent = sending => {
                        if let (Err(_), Some(id)) = (&sent, request) {
                            calls.responded(&id);
                        }
                        sent
                    }
                    () = async {
                        call.questions.closed().await;
                        // The response may name a task, which must be cancelled as well.
                        if call.awaits_task.load(Ordering::Relaxed) {
                            sleep(LATE_TASK_TIMEOUT).await;
                        }
                    } => Ok(()),
                },
                None => {
                    let sent = sending.await;
                    drop(permit);
                    sent
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = if self.is_stuck { None } else { self.inner.receive().await };
            let Some(mut message) = message else {
                self.listener.changed();
                return None;
            };
            match &mut message {
                JsonRpcMessage::Response(response) => {
                    self.calls.responded(&response.id);
                    return Some(message);
                }
                JsonRpcMessage::Error(error) => {
                    error.id.as_ref().into_iter().for_each(|id| self.calls.responded(id));
                    return Some(message);
                }
                JsonRpcMessage::Request(received) => {
                    // Other calls may wait when the handler runs.
                    let extensions = received.request.extensions_mut();
                    let candidates = Candidates(self.calls.of_message(extensions));
                    extensions.insert(candidates);
                    self.unanswered.insert(received.id.clone());
                    if self.unanswered.len() > MAX_UNSENT {
                        tracing::warn!(
                            "an upstream loses its connection: it sends requests before it reads the responses"
                        );
                        self.is_stuck = true;
                    }
                    return Some(message);
                }
                JsonRpcMessage::Notification(received) => match &received.notification {
                    ServerNotification::CancelledNotification(cancelled) => {
                        // `rmcp` sends no response to it.
                        cancelled.params.request_id.as_ref().map(|id| self.unanswered.remove(id));
                        return Some(message);
                    }
                    ServerNotification::ProgressNotification(progress) => {
                        let progress = &progress.params;
                        if let Some(call) = self.calls.of_token(&progress.progress_token) {
                            call.has_progress.store(true, Ordering::Relaxed);
                            let message = printable(progress.message.as_deref().unwrap_or_default());
                            match progress.total {
                                Some(total) => call.ctx.progress(progress.progress, total, message),
                                None => call.ctx.progress(progress.progress, (), message),
                            }
                        }
                    }
                    ServerNotification::LoggingMessageNotification(log) => {
                        let level = LEVELS.into_iter().find(|(_, level)| *level == log.params.level);
                        // `rmcp` does not know the stream, and the message may be late, about the call of another caller.
                        let mut calls = self.calls.of_message(&log.extensions);
                        let call = calls.pop().and_then(|call| call.upgrade()).filter(|_| self.has_single_caller);
                        match call.zip(level) {
                            Some((call, (level, _))) => {
                                let logger = printable(log.params.logger.as_deref().unwrap_or_default());
                                let mut data = log.params.data.clone();
                                make_printable(&mut data, true);
                                call.ctx.log_as(&logger, level, data);
                            }
                            None => tracing::debug!("a log message of an upstream belongs to no single caller"),
                        }
                    }
                    _ => return Some(message),
                },
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// The levels of log messages, with the lowest first.
pub(crate) const LEVELS: [(Level, LoggingLevel); 8] = [
    (Level::Debug, LoggingLevel::Debug),
    (Level::Info, LoggingLevel::Info),
    (Level::Notice, LoggingLevel::Notice),
    (Level::Warning, LoggingLevel::Warning),
    (Level::Error, LoggingLevel::Error),
    (Level::Critical, LoggingLevel::Critical),
    (Level::Alert, LoggingLevel::Alert),
    (Level::Emergency, LoggingLevel::Emergency),
];

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, convert::Infallible, future::ready};

    use serde_json::json;

    use super::*;

    #[derive(Default)]
    struct Messages(VecDeque<RxJsonRpcMessage<RoleClient>>);

    impl Transport<RoleClient> for Messages {
        type Error = Infallible;

        fn send(
            &mut self,
            _: TxJsonRpcMessage<RoleClient>,
        ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
            ready(Ok(()))
        }

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
            self.0.pop_front()
        }

        async fn close(&mut self) -> Result<(), Infallible> {
            Ok(())
        }
    }

    struct NoListener;

    impl Listener for NoListener {
        fn changed(&self) {}
        fn resource_updated(&self, _: &str) {}
        fn unsubscribed(&self) {}
        fn stream_opened(&self) {}
    }

    /// The lowest level that a caller wants is found by its position.
    #[test]
    fn levels_are_those_of_the_upstream_in_order() {
        for (level, theirs) in LEVELS {
            assert_eq!(format!("{level:?}"), format!("{theirs:?}"));
        }
        assert!(LEVELS.is_sorted_by_key(|(level, _)| *level), "{LEVELS:?}");
    }

    /// Only requests without a response count towards the limit.
    #[tokio::test]
    async fn requests_that_have_ended_are_not_counted() {
        for end in ["result", "error", "cancellation"] {
            let mut transport =
                CallTransport::new(Messages::default(), &Arc::new(Calls::new(false)), &Arc::new(NoListener));
            for id in 0..2 * MAX_UNSENT {
                let receive = |message: Value| serde_json::from_value(message).unwrap();
                transport.inner.0.push_back(receive(json!({"jsonrpc": "2.0", "id": id, "method": "ping"})));
                assert!(transport.receive().await.is_some(), "{end}: request {id}");
                let answer = match end {
                    "result" => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
                    "error" => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "no"}}),
                    _ => {
                        let cancelled = json!({
                            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id},
                        });
                        transport.inner.0.push_back(receive(cancelled));
                        assert!(transport.receive().await.is_some(), "{end}: request {id}");
                        continue;
                    }
                };
                transport.send(serde_json::from_value(answer).unwrap()).await.unwrap();
            }
        }
    }

    /// Messages beyond the maximum that the upstream has not read.
    #[test]
    fn only_cancellations_are_lost_while_an_upstream_is_busy() {
        for (method, params, is_stuck) in [
            ("notifications/cancelled", json!({"requestId": 1}), false),
            ("notifications/roots/list_changed", json!({}), true),
        ] {
            let mut transport =
                CallTransport::new(Messages::default(), &Arc::new(Calls::new(false)), &Arc::new(NoListener));
            let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
            let mut unread = Vec::new();
            for _ in 0..=MAX_UNSENT {
                assert!(!transport.is_stuck, "{method}");
                unread.push(transport.send(serde_json::from_value(message.clone()).unwrap()));
            }
            assert_eq!(transport.is_stuck, is_stuck, "{method}");
        }
    }
}
