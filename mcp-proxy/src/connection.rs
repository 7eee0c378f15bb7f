//! A connection to an upstream: the client of the official SDK, and the calls that wait on it.
//!
//! The SDK runs the handler of each message in a task of its own, without order. Therefore [`CallTransport`] reads progress and log
//! messages where they arrive, before the response that follows them.
// Logging, roots and sampling are deprecated, and upstreams use them.
#![expect(deprecated)]

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::try_join_all;
use mcp_runtime::{Context, Fault, Level, ask::Capability};
use rmcp::{
    ClientHandler, ErrorData, Peer, RoleClient, ServiceError,
    model::{
        ClientCapabilities, ClientConfig, ClientRequest, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, Extensions, GetExtensions as _, Implementation, InputRequiredResult,
        InputResponses, JsonRpcMessage, ListRootsResult, LoggingLevel, ProgressToken, ProtocolVersion, RequestId,
        RequestMetaObject, ResourceUpdatedNotificationParam, ServerNotification, ServerPeerInfo, ServerResult,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt as _, InboundStreamOrigin, NotificationContext, PeerRequestOptions,
        RequestContext, RequestHandle, RunningService, RxJsonRpcMessage, TxJsonRpcMessage,
    },
    transport::Transport,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::{convert::Prefix, questions::ask};

/// How many questions of one call may wait for the first one. Further questions are rejected.
const MAX_QUESTIONS: usize = 4;
/// How often a call may return questions instead of its result.
const MAX_ROUNDS: usize = 16;
/// How many questions a result may contain.
const MAX_QUESTIONS_PER_ROUND: usize = 16;
/// The maximum length of the key of a question.
const MAX_KEY_LENGTH: usize = 256;

/// Receives the announcements of an upstream.
pub(crate) trait Listener: Send + Sync + 'static {
    /// The lists have changed, or the connection has ended.
    fn changed(&self);
    /// A resource has changed.
    fn resource_updated(&self, uri: &str);
}

/// A call that waits for the upstream.
struct WaitingCall {
    ctx: Context,
    questions: mpsc::Sender<Question>,
}

/// A question that arrived while a call was waiting.
struct Question {
    method: &'static str,
    params: Value,
    reply: oneshot::Sender<Result<Value, Fault>>,
}

/// The calls that wait, in the order of their start. The server limits their number.
#[derive(Default)]
struct Calls(Mutex<Vec<(RequestId, ProgressToken, Arc<WaitingCall>)>>);

impl Calls {
    fn with<R>(&self, run: impl FnOnce(&mut Vec<(RequestId, ProgressToken, Arc<WaitingCall>)>) -> R) -> R {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn remove_ended(&self) {
        self.with(|calls| calls.retain(|(.., call)| !call.questions.is_closed()));
    }

    fn of_token(&self, token: &ProgressToken) -> Option<Arc<WaitingCall>> {
        self.with(|calls| calls.iter().find(|(_, other, _)| other == token).map(|(.., call)| Arc::clone(call)))
    }

    /// Returns the call to which a message belongs: the call on whose stream it arrived, or else the last call if all
    /// calls have the same principal. No principal may see messages for another one.
    fn of_message(&self, extensions: &Extensions) -> Option<Arc<WaitingCall>> {
        self.with(|calls| {
            if let Some(InboundStreamOrigin::OutboundRequest(id)) = extensions.get() {
                return calls.iter().find(|(other, ..)| other == id).map(|(.., call)| Arc::clone(call));
            }
            let (.., last) = calls.last()?;
            let is_unique = calls.iter().all(|(.., call)| call.ctx.principal() == last.ctx.principal());
            // Clients without a principal are different clients.
            (is_unique && (calls.len() == 1 || last.ctx.principal().is_some())).then(|| Arc::clone(last))
        })
    }
}

/// A transport that registers calls when they are sent, and delivers progress and log messages when they arrive.
struct CallTransport<T, L: Listener> {
    inner: T,
    calls: Arc<Calls>,
    listener: Arc<L>,
    is_personal: bool,
}

impl<T: Transport<RoleClient>, L: Listener> Transport<RoleClient> for CallTransport<T, L> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(sent) = &message
            && let Some(call) = sent.request.extensions().get::<Arc<WaitingCall>>()
            && let Some(token) = rmcp::model::GetMeta::get_meta(&sent.request).get_progress_token()
        {
            self.calls.with(|calls| {
                // The call may have been cancelled before its request is sent.
                if !call.questions.is_closed() {
                    calls.push((sent.id.clone(), token, Arc::clone(call)));
                }
            });
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.listener.changed();
                return None;
            };
            match &message {
                JsonRpcMessage::Notification(received) => match &received.notification {
                    ServerNotification::ProgressNotification(progress) => {
                        let progress = &progress.params;
                        if let Some(call) = self.calls.of_token(&progress.progress_token) {
                            let message = progress.message.as_deref().unwrap_or_default();
                            match progress.total {
                                Some(total) => call.ctx.progress(progress.progress, total, message),
                                None => call.ctx.progress(progress.progress, (), message),
                            }
                        }
                    }
                    ServerNotification::LoggingMessageNotification(log) => {
                        let level = LEVELS.into_iter().find(|(_, level)| *level == log.params.level);
                        // `rmcp` does not know the stream, and the message may be late, about the call of another caller.
                        let call = self.calls.of_message(&log.extensions).filter(|_| self.is_personal);
                        match call.zip(level) {
                            Some((call, (level, _))) => {
                                call.ctx.log_as(
                                    log.params.logger.as_deref().unwrap_or_default(),
                                    level,
                                    &log.params.data,
                                );
                            }
                            None => tracing::debug!("a log message of an upstream belongs to no single caller"),
                        }
                    }
                    _ => return Some(message),
                },
                _ => return Some(message),
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// The levels of log messages, with the lowest first.
const LEVELS: [(Level, LoggingLevel); 8] = [
    (Level::Debug, LoggingLevel::Debug),
    (Level::Info, LoggingLevel::Info),
    (Level::Notice, LoggingLevel::Notice),
    (Level::Warning, LoggingLevel::Warning),
    (Level::Error, LoggingLevel::Error),
    (Level::Critical, LoggingLevel::Critical),
    (Level::Alert, LoggingLevel::Alert),
    (Level::Emergency, LoggingLevel::Emergency),
];

/// Returns the capabilities of the client of a call, or of any client.
fn capabilities(ctx: Option<&Context>) -> ClientCapabilities {
    let has = |capability| ctx.is_none_or(|ctx| ctx.supports(capability));
    let mut given = Map::new();
    if has(Capability::Roots) {
        given.insert("roots".to_owned(), json!({}));
    }
    let modes = [(Capability::Elicitation, "form"), (Capability::UrlElicitation, "url")];
    let modes: Map<_, _> =
        modes.into_iter().filter(|(mode, _)| has(*mode)).map(|(_, n)| (n.to_owned(), json!({}))).collect();
    if !modes.is_empty() {
        given.insert("elicitation".to_owned(), modes.into());
    }
    if has(Capability::Sampling) {
        let kinds = [(Capability::SamplingTools, "tools"), (Capability::SamplingContext, "context")];
        let kinds: Map<_, _> =
            kinds.into_iter().filter(|(kind, _)| has(*kind)).map(|(_, n)| (n.to_owned(), json!({}))).collect();
        given.insert("sampling".to_owned(), kinds.into());
    }
    serde_json::from_value(given.into()).unwrap_or_default()
}

/// Answers the requests of an upstream.
struct Handler<L: Listener> {
    calls: Arc<Calls>,
    listener: Arc<L>,
}

impl<L: Listener> Handler<L> {
    async fn ask(
        &self,
        method: &'static str,
        params: Value,
        context: &RequestContext<RoleClient>,
    ) -> Result<Value, ErrorData> {
        let Some(call) = self.calls.of_message(&context.extensions) else {
            // Some servers ask for roots when they start.
            if method == "roots/list" {
                return Ok(json!({"roots": []}));
            }
            return Err(ErrorData::invalid_request("the request belongs to no single call", None));
        };
        let (reply, answer) = oneshot::channel();
        if call.questions.try_send(Question { method, params, reply }).is_err() {
            return Err(ErrorData::invalid_request("the call has ended, or has too many open requests", None));
        }
        drop(call);
        tokio::select! {
            answer = answer => match answer {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(fault)) => Err(ErrorData::internal_error(fault.to_string(), None)),
                Err(_) => Err(ErrorData::internal_error("the call has ended", None)),
            },
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
        }
    }
}

fn decoded<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn encoded(params: impl Serialize) -> Value {
    serde_json::to_value(params).unwrap_or_default()
}

impl<L: Listener> ClientHandler for Handler<L> {
    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        decoded(self.ask("sampling/createMessage", encoded(params), &context).await?)
    }

    async fn list_roots(&self, context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        decoded(self.ask("roots/list", Value::Null, &context).await?)
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        decoded(self.ask("elicitation/create", encoded(params), &context).await?)
    }

    async fn on_resource_updated(&self, params: ResourceUpdatedNotificationParam, _: NotificationContext<RoleClient>) {
        self.listener.resource_updated(&params.uri);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.listener.changed();
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.listener.changed();
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.listener.changed();
    }

    fn get_info(&self) -> ClientConfig {
        let client = Implementation::new("mcp-proxy", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities(None), client).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// An open connection.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    calls: Arc<Calls>,
    is_stateless: bool,
    subscriptions: Mutex<Vec<(String, tokio::task::JoinHandle<()>)>>,
    lists: Option<tokio::task::JoinHandle<()>>,
    _running: Box<dyn Send + Sync>,
}

/// Why a connection could not be opened, with details for the log.
pub(crate) type ConnectError = Box<dyn std::error::Error + Send + Sync>;

impl Connection {
    /// Opens a connection over a transport. `is_personal` is whether all its calls have the same principal.
    pub(crate) async fn open<T: Transport<RoleClient> + 'static, L: Listener>(
        transport: T,
        listener: &Arc<L>,
        is_personal: bool,
    ) -> Result<Self, ConnectError> {
        let calls = Arc::<Calls>::default();
        let tap =
            CallTransport { inner: transport, calls: Arc::clone(&calls), listener: Arc::clone(listener), is_personal };
        let handler = Handler { calls: Arc::clone(&calls), listener: Arc::clone(listener) };
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        };
        let running: RunningService<RoleClient, _> = handler.serve_with_lifecycle(tap, lifecycle).await?;
        let peer = running.peer().clone();
        peer.set_response_cache_config(rmcp::service::ClientCacheConfig::disabled()).await;
        let info = peer.peer_info();
        let is_stateless = info.as_ref().is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28);
        if !is_stateless && info.is_some_and(|info| info.capabilities.logging.is_some()) {
            let _ = peer.set_level(SetLevelRequestParams::new(LoggingLevel::Debug)).await;
        }
        let lists = is_stateless.then(|| {
            let filter = SubscriptionFilter::builder();
            let filter = filter.tools_list_changed().prompts_list_changed().resources_list_changed().build();
            listen(peer.clone(), filter, Arc::clone(listener))
        });
        Ok(Self { peer, calls, is_stateless, subscriptions: Mutex::default(), lists, _running: Box::new(running) })
    }

    pub(crate) fn info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer.peer_info()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Sends a request that belongs to no call.
    pub(crate) async fn request(&self, request: ClientRequest) -> Result<ServerResult, ServiceError> {
        self.peer.send_request(request).await
    }

    /// Subscribes to a resource.
    pub(crate) async fn subscribe<L: Listener>(&self, uri: &str, listener: &Arc<L>) -> Result<(), ServiceError> {
        if !self.is_stateless {
            return self.peer.subscribe(SubscribeRequestParams::new(uri)).await;
        }
        let mut subscriptions = self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        subscriptions.retain(|(_, task)| !task.is_finished());
        if subscriptions.iter().all(|(other, _)| other != uri) {
            let filter = SubscriptionFilter::builder().resource_subscriptions([uri]).build();
            subscriptions.push((uri.to_owned(), listen(self.peer.clone(), filter, Arc::clone(listener))));
        }
        Ok(())
    }

    /// Sends the request of a call, and answers the questions of the upstream until it returns the result. `request` creates
    /// the request from the answers and the state of the previous round.
    ///
    /// Dropping the future cancels the request.
    pub(crate) async fn call(
        &self,
        ctx: &Context,
        prefix: &Prefix,
        request: impl Fn(Option<InputResponses>, Option<String>) -> ClientRequest,
    ) -> Result<ServerResult, CallError> {
        let (mut responses, mut state, mut asked) = (None, None, 0);
        for _ in 0..MAX_ROUNDS {
            let result = self.round(ctx, prefix, request(responses, state), &mut asked).await?;
            let ServerResult::InputRequiredResult(required) = result else { return Ok(result) };
            let InputRequiredResult { input_requests, request_state, .. } = required;
            let requests = input_requests.unwrap_or_default();
            if requests.len() > MAX_QUESTIONS_PER_ROUND || requests.keys().any(|key| key.len() > MAX_KEY_LENGTH) {
                return Err(CallError::Fault(Fault::internal("the upstream asks too many questions")));
            }
            // Together, so that a client of a stateless revision receives all of them in one response.
            let answers = requests.into_iter().map(|(key, request)| async move {
                let request = encoded(request);
                let method = request["method"].as_str().unwrap_or_default();
                let answer = ask(ctx, prefix, key.clone(), method, &request["params"]).await;
                answer.map(|answer| (key, answer))
            });
            let answers = try_join_all(answers).await.map_err(CallError::Fault)?.into_iter().collect();
            (responses, state) = (Some(answers), request_state);
        }
        Err(CallError::Fault(Fault::internal("the upstream asks too many questions")))
    }

    async fn round(
        &self,
        ctx: &Context,
        prefix: &Prefix,
        mut request: ClientRequest,
        asked: &mut usize,
    ) -> Result<ServerResult, CallError> {
        let (questions, received) = mpsc::channel(MAX_QUESTIONS);
        let mut waiting = Waiting { handle: None, received, calls: &self.calls };
        request.extensions_mut().insert(Arc::new(WaitingCall { ctx: ctx.clone(), questions }));
        let options = PeerRequestOptions::no_options().with_meta(self.meta(ctx));
        let handle = self.peer.send_request_with_option(request, options).await.map_err(|_| CallError::NotSent)?;
        waiting.handle = Some(handle);
        let mut asking: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        loop {
            let Some(handle) = &mut waiting.handle else { return Err(CallError::NotSent) };
            tokio::select! {
                response = &mut handle.rx => {
                    waiting.handle = None;
                    return response.unwrap_or(Err(ServiceError::TransportClosed)).map_err(CallError::Service);
                }
                Some(question) = waiting.received.recv(), if asking.is_none() => {
                    *asked += 1;
                    let key = format!("{}-{asked}", prefix.as_str());
                    asking = Some(Box::pin(answer(ctx.clone(), prefix.clone(), key, question)));
                }
                () = async { if let Some(asking) = &mut asking { asking.await } }, if asking.is_some() => asking = None,
            }
        }
    }

    /// Returns the `_meta` of a request: the trace, and for a stateless upstream what the caller's client supports.
    fn meta(&self, ctx: &Context) -> RequestMetaObject {
        let mut meta = RequestMetaObject::new();
        for name in ["traceparent", "tracestate"] {
            if let Some(value) = ctx.meta(name) {
                meta.insert(name.to_owned(), value);
            }
        }
        if self.is_stateless {
            meta.set_client_capabilities(capabilities(Some(ctx)));
            // The lowest level that the client wants.
            if let Some((_, level)) = LEVELS.into_iter().find(|(level, _)| ctx.logs(*level)) {
                meta.set_log_level(level);
            }
        }
        meta
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let subscriptions = self.subscriptions.get_mut().unwrap_or_else(PoisonError::into_inner);
        subscriptions.drain(..).map(|(_, task)| task).chain(self.lists.take()).for_each(|task| task.abort());
    }
}

/// Passes on the changes that a stateless upstream announces, until the stream ends.
fn listen<L: Listener>(
    peer: Peer<RoleClient>,
    filter: SubscriptionFilter,
    listener: Arc<L>,
) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let Ok(mut subscription) = peer.listen(filter).await else { return };
        while let Ok(Some(notification)) = subscription.next().await {
            match notification {
                ServerNotification::ResourceUpdatedNotification(updated) => {
                    listener.resource_updated(&updated.params.uri);
                }
                ServerNotification::ToolListChangedNotification(_)
                | ServerNotification::PromptListChangedNotification(_)
                | ServerNotification::ResourceListChangedNotification(_) => listener.changed(),
                _ => {}
            }
        }
    })
}

async fn answer(ctx: Context, prefix: Prefix, key: String, asked: Question) {
    let Question { method, params, mut reply } = asked;
    tokio::select! {
        answer = ask(&ctx, &prefix, key, method, &params) => {
            let _ = reply.send(answer);
        }
        () = reply.closed() => {}
    }
}

/// A request that is cancelled if it is dropped before its response has arrived.
struct Waiting<'a> {
    handle: Option<RequestHandle<RoleClient>>,
    /// Closed when the call ends, so that the transport does not register it later.
    received: mpsc::Receiver<Question>,
    calls: &'a Calls,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.received.close();
        self.calls.remove_ended();
        if let Some(handle) = self.handle.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let cancel = handle.cancel(Some("the caller has cancelled the call".to_owned()));
            runtime.spawn(tokio::time::timeout(Duration::from_secs(5), cancel));
        }
    }
}

/// Why a call has no result.
pub(crate) enum CallError {
    /// The connection was closed before the request was sent.
    NotSent,
    Service(ServiceError),
    Fault(Fault),
}
