//! A connection to an upstream, and the calls on it. The client is that of the official SDK.
// Logging, roots and sampling are deprecated, and upstreams use them.
#![expect(deprecated)]

use std::{
    future::pending,
    mem,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::future::try_join_all;
use mcp_runtime::{Context, Fault, ask::Capability};
use rmcp::{
    ClientHandler, ErrorData, Peer, RoleClient, ServiceError,
    model::{
        ClientCapabilities, ClientConfig, ClientRequest, CreateMessageRequestParams, CreateMessageResult,
        CustomNotification, ElicitRequestParams, ElicitResult, GetExtensions as _, Implementation, InputRequests,
        InputRequiredResult, InputResponses, ListRootsResult, LoggingLevel, PaginatedRequestParams, ProtocolVersion,
        RequestMetaObject, ResourceUpdatedNotificationParam, ServerPeerInfo, ServerResult, SetLevelRequestParams,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt as _, NotificationContext, PeerRequestOptions, RequestContext,
        RequestHandle, RunningService,
    },
    transport::Transport,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{
        Semaphore,
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::Instant,
};

use crate::{
    convert::Prefix,
    pages::Pages,
    questions::ask,
    subscriptions::Subscriptions,
    tasks,
    transport::{CallTransport, Calls, Candidates, LEVELS, Listener, Question, WaitingCall},
};

/// How many questions of one call may wait for the first one. Further questions are rejected.
const MAX_QUESTIONS: usize = 4;
/// How often a call may return questions instead of its result.
pub(crate) const MAX_ROUNDS: usize = 16;
/// How many questions a result may contain.
const MAX_QUESTIONS_PER_ROUND: usize = 16;
/// How many dropped calls may wait for the task that the upstream makes of them. Further calls are cancelled at once.
const MAX_LATE_TASKS: usize = 64;
/// The maximum length of the key of a question.
const MAX_KEY_LENGTH: usize = 256;

/// The maximum number of pages of a list.
pub(crate) const MAX_PAGES: usize = 100;

/// The maximum size in bytes of the lists that are read together.
pub(crate) const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The extension for pages.
const PAGES: &str = "io.modelcontextprotocol/ui";

/// Returns the capabilities of the client of a call, or of any client. `accepts_task` is whether the call may become a task.
fn capabilities(ctx: Option<&Context>, accepts_task: bool) -> ClientCapabilities {
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
    let pages = match ctx {
        Some(ctx) => ctx.client_extension(PAGES),
        None => Some(json!({"mimeTypes": ["text/html;profile=mcp-app"]})),
    };
    let mut extensions = Map::new();
    extensions.extend(pages.map(|pages| (PAGES.to_owned(), pages)));
    extensions.extend(accepts_task.then(|| (tasks::EXTENSION.to_owned(), json!({}))));
    if !extensions.is_empty() {
        given.insert("extensions".to_owned(), extensions.into());
    }
    serde_json::from_value(given.into()).unwrap_or_default()
}

/// Answers the requests of an upstream.
struct Handler<L: Listener> {
    calls: Arc<Calls>,
    pages: Arc<Pages>,
    listener: Arc<L>,
}

impl<L: Listener> Handler<L> {
    async fn ask(
        &self,
        method: &'static str,
        mut params: Value,
        context: &RequestContext<RoleClient>,
    ) -> Result<Value, ErrorData> {
        let task = context.meta.get("io.modelcontextprotocol/related-task").and_then(|task| task["taskId"].as_str());
        let mut calls = match task {
            Some(task) => self.calls.of_task(task, &context.extensions).await.into_iter().collect(),
            None => context.extensions.get::<Candidates>().cloned().unwrap_or_default().0,
        };
        if calls.is_empty() {
            // Some servers ask for roots when they start.
            if method == "roots/list" {
                return Ok(json!({"roots": []}));
            }
            return Err(ErrorData::invalid_request("the request belongs to no single call", None));
        }
        while let Some(call) = calls.pop() {
            let Some(call) = call.upgrade() else { continue };
            let (reply, answer) = oneshot::channel();
            let params = if calls.is_empty() { mem::take(&mut params) } else { params.clone() };
            match call.questions.try_send(Question { method, params, reply }) {
                Err(TrySendError::Full(_)) => {
                    return Err(ErrorData::invalid_request("the call has too many open requests", None));
                }
                // A closed channel drops `reply`.
                Ok(()) | Err(TrySendError::Closed(_)) => {}
            }
            tokio::select! {
                biased;
                answer = answer => match answer {
                    Ok(Ok(value)) => return Ok(value),
                    Ok(Err(fault)) => return Err(ErrorData::internal_error(fault.to_string(), None)),
                    Err(_) => {}
                },
                () = call.questions.closed() => {}
                () = context.ct.cancelled() => return Err(ErrorData::internal_error("cancelled", None)),
            }
            // A call that has its result did not ask. One that was cancelled may have.
            if !call.has_result.load(Ordering::Relaxed) {
                break;
            }
        }
        Err(ErrorData::internal_error("the call has ended", None))
    }
}

fn decoded<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn encoded(params: impl Serialize) -> Value {
    // As text first: 0.1, which `rmcp` decodes as `f32`, would become the `f64` 0.10000000149011612.
    serde_json::to_string(&params).and_then(|text| serde_json::from_str(&text)).unwrap_or_default()
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

    async fn on_custom_notification(&self, received: CustomNotification, _: NotificationContext<RoleClient>) {
        let id = received.params.as_ref().and_then(|params| params["elicitationId"].as_str());
        if let Some(id) = id.filter(|_| received.method == "notifications/elicitation/complete") {
            self.pages.complete(id);
        }
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
        ClientConfig::new(capabilities(None, false), client)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// Returns how a connection is opened unless a session is demanded: with the newest revision that the upstream supports.
pub(crate) fn newest() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

/// An open connection.
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    calls: Arc<Calls>,
    pub(crate) pages: Arc<Pages>,
    /// Permits to wait for the tasks of calls that were dropped.
    late_tasks: Arc<Semaphore>,
    pub(crate) is_stateless: bool,
    /// When the list of tools was last read because a call was rejected.
    pub(crate) tools_read: tokio::sync::Mutex<Option<Instant>>,
    pub(crate) subscriptions: Subscriptions,
    _running: Box<dyn Send + Sync>,
}

/// Why a connection could not be opened, with details for the log.
pub(crate) type ConnectError = Box<dyn std::error::Error + Send + Sync>;

impl Connection {
    /// Opens a connection over a transport. `has_single_principal` is whether all its calls have the same one, and `limit` is how
    /// long the upstream may take to respond to a request that belongs to no call.
    pub(crate) async fn open<T: Transport<RoleClient> + 'static, L: Listener>(
        transport: T,
        listener: &Arc<L>,
        has_single_principal: bool,
        lifecycle: ClientLifecycleMode,
        limit: Duration,
    ) -> Result<Self, ConnectError> {
        let (calls, pages) = (Arc::new(Calls::new(has_single_principal)), Arc::<Pages>::default());
        let tap = CallTransport::new(transport, &calls, listener);
        let handler = Handler { calls: Arc::clone(&calls), pages: Arc::clone(&pages), listener: Arc::clone(listener) };
        let running: RunningService<RoleClient, _> = handler.serve_with_lifecycle(tap, lifecycle).await?;
        let peer = running.peer().clone();
        peer.set_response_cache_config(rmcp::service::ClientCacheConfig::disabled()).await;
        let info = peer.peer_info();
        let is_stateless = info.as_ref().is_some_and(|info| info.protocol_version >= ProtocolVersion::V_2026_07_28);
        if !is_stateless && info.is_some_and(|info| info.capabilities.logging.is_some()) {
            let _ = peer.set_level(SetLevelRequestParams::new(LoggingLevel::Debug)).await;
        }
        // Only the connection that all callers share reads lists.
        let subscriptions = Subscriptions::new(peer.clone(), is_stateless, !has_single_principal, limit, listener);
        let late_tasks = Arc::new(Semaphore::new(MAX_LATE_TASKS));
        let tools_read = tokio::sync::Mutex::default();
        Ok(Self {
            peer,
            calls,
            pages,
            late_tasks,
            is_stateless,
            tools_read,
            subscriptions,
            _running: Box::new(running),
        })
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

    /// Reads the list of tools, so that `rmcp` knows which arguments are headers: it keeps them for each connection.
    ///
    /// # Errors
    ///
    /// Returns the error of a page. The tools of the pages before it are known.
    pub(crate) async fn read_tools(&self) -> Result<(), ServiceError> {
        let (mut cursor, mut bytes) = (None, 0);
        for _ in 0..MAX_PAGES {
            let page = self.peer.list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor))).await?;
            bytes += serde_json::to_vec(&page.tools).map_or(0, |tools| tools.len());
            cursor = page.next_cursor;
            if cursor.is_none() || bytes > MAX_BYTES {
                break;
            }
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
        for number in 0..MAX_ROUNDS {
            let round = self.round(ctx, prefix, request(responses, state), &mut asked);
            let required = if self.is_stateless {
                // If the client repeats the call with its answers, the upstream continues instead of beginning again.
                let (ended, result) = oneshot::channel();
                let question = async {
                    match round.await {
                        Ok(ServerResult::InputRequiredResult(required)) => required,
                        other => {
                            let _ = ended.send(other);
                            pending().await
                        }
                    }
                };
                tokio::select! {
                    required = ctx.once(format!("{}#{number}", prefix.as_str()), question) => required.map_err(CallError::Fault)?,
                    Ok(result) = result => return result,
                }
            } else {
                match round.await? {
                    ServerResult::InputRequiredResult(required) => required,
                    result => return Ok(result),
                }
            };
            let InputRequiredResult { input_requests, request_state, .. } = required;
            let answers = self.answer_all(ctx, prefix, input_requests.unwrap_or_default()).await?;
            (responses, state) = (Some(answers), request_state);
        }
        Err(too_many_questions())
    }

    /// Asks the client of a call the questions of a result.
    pub(crate) async fn answer_all(
        &self,
        ctx: &Context,
        prefix: &Prefix,
        requests: InputRequests,
    ) -> Result<InputResponses, CallError> {
        if requests.len() > MAX_QUESTIONS_PER_ROUND || requests.keys().any(|key| key.len() > MAX_KEY_LENGTH) {
            return Err(too_many_questions());
        }
        // Together, so that a client of a stateless revision receives all of them in one response.
        let answers = requests.into_iter().map(|(key, request)| async move {
            let request = encoded(request);
            let method = request["method"].as_str().unwrap_or_default();
            let answer = ask(ctx, prefix, &self.pages, key.clone(), method, &request["params"]).await;
            answer.map(|answer| (key, answer))
        });
        Ok(try_join_all(answers).await.map_err(CallError::Fault)?.into_iter().collect())
    }

    async fn round(
        &self,
        ctx: &Context,
        prefix: &Prefix,
        mut request: ClientRequest,
        asked: &mut usize,
    ) -> Result<ServerResult, CallError> {
        let (questions, received) = mpsc::channel(MAX_QUESTIONS);
        let call = Arc::new(WaitingCall::new(ctx, questions));
        let (calls, late_tasks) = (&*self.calls, &self.late_tasks);
        let mut waiting = Waiting { call: &call, handle: None, task_meta: None, received, calls, late_tasks };
        let (is_tool, accepts_task) = (request.method() == "tools/call", tasks::is_accepted_for(&request));
        if accepts_task && !self.is_stateless {
            request = tasks::requesting(request);
        }
        request.extensions_mut().insert(Arc::clone(&call));
        let meta = self.meta(ctx, accepts_task);
        waiting.task_meta = accepts_task.then(|| meta.clone());
        let options = PeerRequestOptions::no_options().with_meta(meta);
        let handle = self.peer.send_request_with_option(request, options).await.map_err(|_| CallError::NotSent)?;
        waiting.handle = Some(handle);
        let Waiting { handle, received, .. } = &mut waiting;
        let mut finished = pin!(async {
            let Some(sent) = handle else { return Err(CallError::NotSent) };
            let response = (&mut sent.rx).await;
            *handle = None;
            let result = response.unwrap_or(Err(ServiceError::TransportClosed)).map_err(CallError::Service)?;
            match tasks::created(&result).filter(|_| is_tool) {
                Some(task) => Box::pin(self.follow(ctx, prefix, &call, task)).await,
                None => Ok(result),
            }
        });
        let mut asking: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
        loop {
            tokio::select! {
                result = &mut finished => {
                    let has_result = matches!(result, Ok(_) | Err(CallError::Service(ServiceError::McpError(_))));
                    call.has_result.store(has_result, Ordering::Relaxed);
                    return result;
                }
                Some(question) = received.recv(), if asking.is_none() => {
                    *asked += 1;
                    let key = format!("{}-{asked}", prefix.as_str());
                    asking = Some(Box::pin(answer(ctx.clone(), prefix.clone(), Arc::clone(&self.pages), key, question)));
                }
                () = async { if let Some(asking) = &mut asking { asking.await } }, if asking.is_some() => asking = None,
            }
        }
    }

    /// Returns the `_meta` of a request: the trace, and for a stateless upstream what the caller's client supports.
    pub(crate) fn meta(&self, ctx: &Context, accepts_task: bool) -> RequestMetaObject {
        let mut meta = RequestMetaObject::new();
        let trace = ctx.trace_context();
        for name in ["traceparent", "tracestate"] {
            if let Some(value) = trace.get(name) {
                meta.insert(name.to_owned(), value.into());
            }
        }
        if self.is_stateless {
            meta.set_client_capabilities(capabilities(Some(ctx), accepts_task));
            // The lowest level that the client wants.
            if let Some((_, level)) = LEVELS.into_iter().find(|(level, _)| ctx.logs(*level)) {
                meta.set_log_level(level);
            }
        }
        meta
    }
}

pub(crate) fn too_many_questions() -> CallError {
    CallError::Fault(Fault::internal("the upstream asks too many questions"))
}

async fn answer(ctx: Context, prefix: Prefix, pages: Arc<Pages>, key: String, asked: Question) {
    let Question { method, params, mut reply } = asked;
    tokio::select! {
        answer = ask(&ctx, &prefix, &pages, key, method, &params) => {
            let _ = reply.send(answer);
        }
        () = reply.closed() => {}
    }
}

/// A request that is cancelled if it is dropped before its response has arrived.
struct Waiting<'a> {
    call: &'a WaitingCall,
    handle: Option<RequestHandle<RoleClient>>,
    /// The `_meta` of requests about the task that the upstream may make of the call.
    task_meta: Option<RequestMetaObject>,
    /// Closed when the call ends, so that the transport does not register it later.
    received: mpsc::Receiver<Question>,
    calls: &'a Calls,
    late_tasks: &'a Arc<Semaphore>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let awaited = self.task_meta.take().filter(|_| self.handle.is_some());
        let late_task = awaited.and_then(|meta| Some((meta, Arc::clone(self.late_tasks).try_acquire_owned().ok()?)));
        self.call.awaits_task.store(late_task.is_some(), Ordering::Relaxed);
        self.received.close();
        self.calls.remove_ended();
        if let Some(mut handle) = self.handle.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                if let Some((meta, _permit)) = late_task
                    && tasks::cancel_created(&mut handle, meta).await
                {
                    return;
                }
                let cancel = handle.cancel(Some("the caller has cancelled the call".to_owned()));
                let _ = tokio::time::timeout(Duration::from_secs(5), cancel).await;
            });
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
