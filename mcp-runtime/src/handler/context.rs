pub(crate) mod current;
pub(crate) mod log;
mod notifier;
mod progress;

use std::{
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use self::progress::ProgressLimiter;
use super::{
    CallFuture,
    ask::{
        Answer, Ask, Capability, Elicit, Elicitation, ListRoots, Root, SampleRequest, SampleResult, UrlElicitation,
        object_member,
    },
    client_requests::{AskAll, CallRequests, ClientRequester, ClientRequests},
    client_wait::ClientWait,
    lifetime::CallLifetime,
    peer::{ClientInfo, Peer, RequestHead},
    session::Session,
};
use crate::{
    error::Fault,
    jsonrpc::{Id, raw},
    model::Level,
    revision::{Dialect, Feature, Revision},
};

pub use self::{notifier::Notifier, progress::Amount};

pub(crate) use self::log::LogThreshold;

/// The request that a function is handling. Reports progress, sends log messages and requests to the client, detects
/// cancellation, and identifies the caller.
///
/// A function receives it by declaring a parameter of type `&Context`. Clones are cheap and may outlive the call; a
/// clone that outlives its call sends nothing.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    parts: ContextParts,
    lifetime: CallLifetime,
    progress: ProgressLimiter,
    client_wait: ClientWait,
}

/// The properties of a call, as provided by the engine.
pub(crate) struct ContextParts {
    pub(crate) peer: Arc<dyn Peer>,
    pub(crate) dialect: &'static Dialect,
    pub(crate) id: Id<'static>,
    /// The name of the tool or prompt, or the URI of the resource.
    pub(crate) name: Box<str>,
    /// The progress token, as JSON.
    pub(crate) progress_token: Option<Box<str>>,
    pub(crate) log: LogThreshold,
    /// The targets whose events are forwarded to the client in addition to those of the function's crate.
    pub(crate) log_targets: Option<Arc<[String]>>,
    /// The `_meta` of the request, as JSON.
    pub(crate) meta: Option<Box<str>>,
    pub(crate) client: Option<ClientInfo>,
    /// The capabilities that the client declared in `initialize`, as JSON. `None` for stateless requests, which declare
    /// them in `_meta`.
    pub(crate) capabilities: Option<Arc<str>>,
    /// The channel for requests to the client; `None` if the protocol does not allow any.
    pub(crate) requester: Option<Arc<dyn ClientRequester>>,
    /// The receiver of status messages if the call is, or may become, a task.
    pub(crate) task_status: Option<Arc<dyn StatusMessages>>,
    /// The means to turn the call into a task; `None` if it cannot become one.
    pub(crate) handoff: Option<Arc<dyn TaskHandoff>>,
    /// The caller as authenticated by the transport.
    pub(crate) principal: Option<Box<str>>,
    pub(crate) head: Option<Arc<dyn RequestHead>>,
}

/// The receiver of the status messages of a task.
pub(crate) trait StatusMessages: Send + Sync {
    /// Replaces the previous message.
    fn set(&self, message: &str);
}

/// The handoff of a running call to a task.
///
/// It is declared next to [`Context`] because the two refer to each other: the rest of the call runs with the same
/// context.
pub(crate) trait TaskHandoff: Send + Sync {
    /// Requests the handoff, which happens when the call is next pending. Resolves when it has succeeded or failed.
    fn request(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Returns `Ready` once the handoff has been requested.
    fn poll_requested(&self, cx: &mut task::Context<'_>) -> Poll<()>;

    /// Takes over the rest of the function. The returned future completes the original call in its place.
    fn hand_off(&self, rest: CallFuture, context: Arc<Context>) -> CallFuture;
}

impl Context {
    /// Reports progress to the client: `done` of `total`, with a message for the user.
    ///
    /// `total` is a number, or `()` if it is unknown. An empty message is omitted. Nothing is sent if the client did
    /// not request progress, if `done` has not increased, or within 10 ms of the previous notification unless the work
    /// is complete.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Copy files.
    /// #[tool]
    /// fn copy(ctx: &Context, files: Vec<String>) {
    ///     for (done, file) in files.iter().enumerate() {
    ///         ctx.progress(done, files.len(), file);
    ///     }
    /// }
    /// ```
    ///
    /// In a task, the message also becomes the status message of the task, even if the client did not request progress.
    ///
    /// See [Progress](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress).
    pub fn progress(&self, done: impl Amount, total: impl Amount, message: impl AsRef<str>) {
        self.send_progress(done.amount(), total.amount(), message.as_ref(), &Map::new());
    }

    fn send_progress(&self, done: Option<f64>, total: Option<f64>, message: &str, meta: &Map<String, Value>) {
        let parts = &self.inner.parts;
        if let Some(status) = &parts.task_status
            && !message.is_empty()
        {
            status.set(message);
        }
        let Some(token) = &parts.progress_token else { return };
        let Some(done) = done.filter(|done| done.is_finite()) else { return };
        let total = total.filter(|total| total.is_finite());
        if self.inner.lifetime.has_ended() || !self.inner.progress.admits(done, total) {
            return;
        }
        let message = if parts.dialect.has(Feature::ProgressMessage) { message } else { "" };
        parts.peer.notify(&progress::notification(token, done, total, message, meta));
    }

    /// Sends a log message to the client if the client asked for messages of this level.
    ///
    /// `data` is text or any serializable value; a value that fails to serialize is dropped. Messages must not contain
    /// secrets.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Level, tool};
    /// /// Reload the index.
    /// #[tool]
    /// fn reload(ctx: &Context) {
    ///     ctx.log(Level::Notice, "reloading");
    ///     ctx.log(Level::Info, serde_json::json!({"files": 7, "milliseconds": 12}));
    /// }
    /// ```
    ///
    /// See [Logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging).
    pub fn log(&self, level: Level, data: impl Serialize) {
        self.log_as("", level, data);
    }

    /// Sends a log message with the name of a logger. See [`log`](Self::log).
    pub fn log_as(&self, logger: &str, level: Level, data: impl Serialize) {
        self.send_log(logger, level, data, &Map::new());
    }

    fn send_log(&self, logger: &str, level: Level, data: impl Serialize, meta: &Map<String, Value>) {
        let parts = &self.inner.parts;
        if self.inner.lifetime.has_ended() || !self.logs(level) || !parts.peer.admits_log_message() {
            return;
        }
        match log::notification(logger, level, &data, meta) {
            Ok(message) => {
                parts.peer.notify(&message);
            }
            Err(error) => tracing::warn!(%error, "a log message cannot be serialized"),
        }
    }

    /// Sends a log message of level `debug`.
    pub fn debug(&self, data: impl Serialize) {
        self.log(Level::Debug, data);
    }

    /// Sends a log message of level `info`.
    pub fn info(&self, data: impl Serialize) {
        self.log(Level::Info, data);
    }

    /// Sends a log message of level `warning`.
    pub fn warning(&self, data: impl Serialize) {
        self.log(Level::Warning, data);
    }

    /// Sends a log message of level `error`.
    pub fn error(&self, data: impl Serialize) {
        self.log(Level::Error, data);
    }

    /// Adds a member to the `_meta` of the notifications that are sent with the returned notifier.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Copy files.
    /// #[tool]
    /// fn copy(ctx: &Context, files: Vec<String>) {
    ///     for (done, file) in files.iter().enumerate() {
    ///         ctx.with_meta("com.example/file", &**file).progress(done, files.len(), "copying");
    ///     }
    /// }
    /// ```
    ///
    /// See [`_meta`](https://modelcontextprotocol.io/specification/2025-11-25/basic#meta).
    pub fn with_meta(&self, key: impl Into<String>, value: impl Into<Value>) -> Notifier<'_> {
        Notifier { context: self, meta: Map::new() }.with_meta(key, value)
    }

    /// Returns whether a log message of this level would be sent.
    pub fn logs(&self, level: Level) -> bool {
        match self.inner.parts.log {
            LogThreshold::Session => level >= self.inner.parts.peer.session_level(),
            LogThreshold::Request(threshold) => threshold.is_some_and(|threshold| level >= threshold),
        }
    }

    /// Returns whether events of a target are forwarded to the client in addition to those of the function's crate.
    #[cfg(feature = "log")]
    pub(crate) fn forwards_target(&self, target: &str) -> bool {
        let is_inside = |module: &String| {
            target.strip_prefix(module.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        self.inner.parts.log_targets.as_deref().is_some_and(|modules| modules.iter().any(is_inside))
    }

    /// Returns whether the call was cancelled or its connection closed.
    ///
    /// Blocking code should check this periodically. The future of an async function is dropped when its call is
    /// cancelled, so it does not need to.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Search for a number whose square ends with the given digits.
    /// #[tool(read_only, blocking)]
    /// fn square_root(ctx: &Context, digits: u64, modulus: u64) -> Option<u64> {
    ///     (0..modulus).take_while(|_| !ctx.is_cancelled()).find(|number| number * number % modulus == digits)
    /// }
    /// ```
    pub fn is_cancelled(&self) -> bool {
        self.inner.lifetime.is_cancelled()
    }

    /// Waits until the call ends, because it was cancelled or because it has returned its result.
    ///
    /// Use it in spawned tasks that should stop with their call.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mcp_runtime::{Context, tool};
    /// /// Do something slow.
    /// #[tool]
    /// async fn slow(ctx: &Context) {
    ///     let ctx = ctx.clone();
    ///     tokio::spawn(async move {
    ///         tokio::select! {
    ///             () = ctx.ended() => {}
    ///             () = tokio::time::sleep(Duration::from_secs(60)) => ctx.info("this takes longer than a minute"),
    ///         }
    ///     });
    ///     // …
    /// }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn ended(&self) {
        self.inner.lifetime.ended().await;
    }

    /// Returns the id of the request, as JSON. Log records of the call carry the same id.
    pub fn request_id(&self) -> &str {
        self.inner.parts.id.as_json()
    }

    /// Returns the name of the tool or prompt, or the URI of the resource.
    pub fn name(&self) -> &str {
        &self.inner.parts.name
    }

    /// Returns the protocol revision of the request.
    pub fn revision(&self) -> Revision {
        self.inner.parts.dialect.revision()
    }

    /// Returns the name and version that the client reports about itself. They are not verified.
    pub fn client(&self) -> Option<&ClientInfo> {
        self.inner.parts.client.as_ref()
    }

    /// Returns the authenticated caller. Over HTTP, it is the `Principal` that a middleware inserted into the
    /// extensions of the request.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Return the name of the user.
    /// #[tool(read_only)]
    /// fn whoami(ctx: &Context) -> Result<String, &'static str> {
    ///     ctx.principal().map(str::to_owned).ok_or("sign in first")
    /// }
    /// ```
    pub fn principal(&self) -> Option<&str> {
        self.inner.parts.principal.as_deref()
    }

    /// Returns one value of the request's `_meta`, such as `traceparent`. Of duplicate members, the last one counts.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Return the trace of the request.
    /// #[tool(read_only)]
    /// fn trace(ctx: &Context) -> Option<String> {
    ///     ctx.meta("traceparent")?.as_str().map(str::to_owned)
    /// }
    /// ```
    pub fn meta(&self, key: &str) -> Option<serde_json::Value> {
        let value = raw::member(self.inner.parts.meta.as_deref()?, key)?;
        serde_json::from_str(value).ok()
    }

    /// Returns an experimental capability that the client declared: an object, which may be empty. Returns `None` if
    /// the client did not declare it.
    ///
    /// The client's declaration of all its capabilities is limited to 64 KiB.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Render a chart.
    /// #[tool]
    /// fn chart(ctx: &Context) -> &'static str {
    ///     if ctx.client_experimental("com.example/charts").is_some() { "an interactive chart" } else { "a picture" }
    /// }
    /// ```
    ///
    /// See [Capabilities](https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation).
    pub fn client_experimental(&self, name: &str) -> Option<Value> {
        self.client_capability("experimental", name)
    }

    /// Returns the settings of an extension that the client declared: an object, which may be empty. Returns `None` if
    /// the client did not declare it, or if the revision has no extensions; 2026-07-28 is the first that has them.
    ///
    /// The client's declaration of all its capabilities is limited to 64 KiB.
    ///
    /// See [Extension negotiation](https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning).
    pub fn client_extension(&self, name: &str) -> Option<Value> {
        if self.inner.parts.dialect.has(Feature::Extensions) {
            self.client_capability("extensions", name)
        } else {
            None
        }
    }

    /// Returns an object in a member of the client's capabilities.
    fn client_capability(&self, member: &str, name: &str) -> Option<Value> {
        let parts = &self.inner.parts;
        let capabilities = match &parts.capabilities {
            Some(capabilities) => &**capabilities,
            None => object_member(parts.meta.as_deref()?, "io.modelcontextprotocol/clientCapabilities")?,
        };
        let declared = object_member(object_member(capabilities, member)?, name)?;
        serde_json::from_str(declared).ok()
    }

    /// Returns the headers of the HTTP request, or `None` over other transports.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Return the language of the user.
    /// #[tool(read_only)]
    /// fn language(ctx: &Context) -> Option<String> {
    ///     ctx.headers()?.get("accept-language")?.to_str().ok().map(str::to_owned)
    /// }
    /// ```
    #[cfg(feature = "http")]
    pub fn headers(&self) -> Option<&http::HeaderMap> {
        Some(self.head()?.headers())
    }

    /// Returns the value of type `T` that a middleware inserted into the extensions of the HTTP request.
    #[cfg(feature = "http")]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.head()?.extensions().get()
    }

    /// Returns the remote address of the HTTP connection: the client's, or that of the nearest proxy.
    ///
    /// Returns `None` if the service is mounted into another framework, which may provide the address as an
    /// [extension](Self::extension).
    #[cfg(feature = "http")]
    pub fn peer_addr(&self) -> Option<std::net::SocketAddr> {
        self.head()?.peer_addr()
    }

    /// Closes the SSE stream that would carry the response, which frees the connection during a long call.
    ///
    /// The client reconnects after `retry` and receives the messages that were sent in the meantime. This method
    /// affects only clients of revision 2025-11-25 over HTTP.
    ///
    /// See [Sending messages](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server).
    pub fn close_sse_stream(&self, retry: Duration) {
        if self.inner.parts.dialect.has(Feature::StreamPolling) && !self.inner.lifetime.has_ended() {
            self.inner.parts.peer.close_sse_stream(retry);
        }
    }

    /// Asks the user to fill in a form. `message` explains to the user why.
    ///
    /// `key` identifies the question among those of this call. In revisions 2025-06-18 to 2025-11-25, the call waits
    /// for the answer. In revision 2026-07-28, the call ends with the question, and **the function runs again from its
    /// start** when the client retries the call with the answer: everything before the question runs again unless it is
    /// wrapped in [`once`](Self::once). In both cases, execution continues on the next line with the answer.
    ///
    /// ```
    /// use mcp_runtime::{Answer, Context, Elicit, Fault, tool};
    ///
    /// #[derive(Elicit)]
    /// struct Confirm {
    ///     /// Really delete it?
    ///     sure: bool,
    /// }
    ///
    /// /// Delete a file.
    /// #[tool(destructive)]
    /// async fn delete(ctx: &Context, path: String) -> Result<String, Fault> {
    ///     match ctx.elicit::<Confirm>("confirm", format!("Delete {path}?")).await? {
    ///         Answer::Accept(Confirm { sure: true }) => Ok(format!("deleted {path}")),
    ///         Answer::Accept(_) | Answer::Decline | Answer::Cancel => Ok("nothing was deleted".into()),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Fault::MissingCapability`] if the client does not support elicitation, and another fault if it
    /// responds with an error, with an invalid answer, or not in time.
    ///
    /// See [Elicitation](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation) and
    /// [Multi round-trip requests](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr).
    pub async fn elicit<T: Elicit>(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<Answer<T>, Fault> {
        self.ask(Elicitation::new(key, message)).await
    }

    /// Sends the user to a web page, for data that must not pass through the client, such as credentials and payments.
    ///
    /// [`Answer::Accept`] means that the user agreed to open the page, not that the interaction there is complete.
    ///
    /// ```
    /// # use mcp_runtime::{Answer, Context, Fault, tool};
    /// /// Connect the calendar of the user.
    /// #[tool]
    /// async fn connect(ctx: &Context) -> Result<String, Fault> {
    ///     let page = "https://example.com/connect";
    ///     Ok(match ctx.elicit_url("connect", page, "Sign in to connect your calendar.").await? {
    ///         Answer::Accept(()) => "waiting for the user to sign in".to_owned(),
    ///         Answer::Decline | Answer::Cancel => "the calendar is not connected".to_owned(),
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit). Revisions before 2025-11-25 do not support it.
    ///
    /// See [URL mode](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#url-mode-elicitation-requests).
    pub async fn elicit_url(
        &self,
        key: impl Into<String>,
        url: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<Answer<()>, Fault> {
        self.ask(UrlElicitation::new(key, url, message)).await
    }

    /// Returns the fault of a function that cannot continue before the user has visited web pages, for example because
    /// it needs the consent of a third party. The function must return the fault.
    ///
    /// In revision 2025-11-25, the client receives the pages in the error `URLElicitationRequiredError` (-32042), and
    /// may retry the request afterwards. [`UrlElicitation::with_completion`] tells it when.
    ///
    /// Revision 2026-07-28 has no such error. There, the call ends with the pages as questions, as in
    /// [`elicit_url`](Self::elicit_url). When the client retries the call, the function runs again. If it still cannot
    /// continue, the fault is a [`Fault::Internal`].
    ///
    /// The fault is [`Fault::MissingCapability`] if the client has not declared `elicitation.url`, and in revisions
    /// before 2025-11-25. It is a [`Fault::Internal`] if a URL is invalid (see [`UrlElicitation`]) or there are no
    /// pages.
    ///
    /// A function may convert the fault to its own error type: the pages are still reported to the client.
    ///
    /// ```
    /// use mcp_runtime::{Context, Fault, UrlElicitation, tool};
    ///
    /// # fn token() -> Option<String> { None }
    /// /// List the files of the user.
    /// #[tool]
    /// async fn files(ctx: &Context) -> Result<String, Fault> {
    ///     let Some(token) = token() else {
    ///         let page = UrlElicitation::new("connect", "https://example.com/connect", "Grant access to your files.");
    ///         return Err(ctx.url_elicitation_required([page]).await);
    ///     };
    ///     Ok(format!("{} files", token.len()))
    /// }
    /// ```
    ///
    /// See [URL elicitation required error](https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error).
    pub async fn url_elicitation_required(&self, pages: impl IntoIterator<Item = UrlElicitation>) -> Fault {
        self.client_requests().url_elicitation_required(pages.into_iter().collect()).await
    }

    /// Requests a completion from the client's model.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, SampleRequest, tool};
    /// /// Translate a text.
    /// #[tool(read_only)]
    /// async fn translate(ctx: &Context, text: String, language: String) -> Result<String, Fault> {
    ///     let request = SampleRequest::new(text).system_prompt(format!("Translate to {language}.")).max_tokens(500);
    ///     Ok(ctx.sample(request).await?.text())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit).
    ///
    /// See [Sampling](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling).
    pub async fn sample(&self, request: SampleRequest) -> Result<SampleResult, Fault> {
        self.ask(request).await
    }

    /// Requests the directories and files that the client lets the server work on.
    ///
    /// If the client announces changes of its roots, the answer is cached in the session until the next change. See
    /// [`Server::on_roots_changed`](crate::Server::on_roots_changed).
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, tool};
    /// /// List the directories of the project.
    /// #[tool(read_only)]
    /// async fn directories(ctx: &Context) -> Result<Vec<String>, Fault> {
    ///     Ok(ctx.roots().await?.into_iter().map(|root| root.uri).collect())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit).
    ///
    /// See [Roots](https://modelcontextprotocol.io/specification/2026-07-28/client/roots).
    pub async fn roots(&self) -> Result<Vec<Root>, Fault> {
        self.ask(ListRoots).await
    }

    /// Sends a request to the client and waits for the answer. [`elicit`](Self::elicit),
    /// [`elicit_url`](Self::elicit_url), [`sample`](Self::sample) and [`roots`](Self::roots) are shorthands for it.
    ///
    /// A function may convert [`Fault::MissingCapability`] to its own error type: the missing capability is still
    /// reported to the client.
    ///
    /// In revisions with a handshake, the request is not sent before the client has sent `notifications/initialized`.
    /// It waits for the notification for at most 10 seconds, or [`Server::ask_timeout`](crate::Server::ask_timeout) if
    /// that is shorter.
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request; its answer is lost.
    pub async fn ask<A: Ask>(&self, ask: A) -> Result<A::Answer, Fault> {
        self.client_requests().ask(ask).await
    }

    /// Sends several requests at once: a tuple of up to six, or a vector. In revision 2026-07-28, this takes one round
    /// trip instead of one per request.
    ///
    /// ```
    /// use mcp_runtime::{Context, Elicit, Elicitation, Fault, ListRoots, SampleRequest, tool};
    ///
    /// #[derive(Elicit)]
    /// struct Name {
    ///     name: String,
    /// }
    ///
    /// /// Greet the user.
    /// #[tool]
    /// async fn greet(ctx: &Context) -> Result<String, Fault> {
    ///     let (name, greeting, roots) = ctx
    ///         .ask_all((
    ///             Elicitation::<Name>::new("name", "Who are you?"),
    ///             SampleRequest::new("Write a greeting."),
    ///             ListRoots,
    ///         ))
    ///         .await?;
    ///     let name = name.accepted().map_or_else(|| "you".to_owned(), |form| form.name);
    ///     Ok(format!("{} {name} ({} roots)", greeting.text(), roots.len()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first error and cancels the other requests.
    pub async fn ask_all<A: AskAll>(&self, asks: A) -> Result<A::Answers, Fault> {
        asks.ask_all(self.client_requests()).await
    }

    /// Sends a `ping` to the client, and returns the time that its response took.
    ///
    /// Fails after 30 seconds without a response; [`tokio::time::timeout`] sets a shorter limit. Unlike other requests,
    /// a ping may be sent before the client is initialized.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, tool};
    /// /// Measure how quickly the client responds.
    /// #[tool]
    /// async fn latency(ctx: &Context) -> Result<String, Fault> {
    ///     Ok(format!("{} ms", ctx.ping().await?.as_millis()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a fault if the client does not respond in time. Also returns one in revision 2026-07-28, which has no
    /// `ping`: servers send no requests there.
    ///
    /// See [Ping](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping).
    pub async fn ping(&self) -> Result<Duration, Fault> {
        self.client_requests().ping().await
    }

    /// Returns the session of the call, which outlives the call. Code that runs in the background can use it to send
    /// requests to the client.
    ///
    /// # Errors
    ///
    /// Returns a fault in revision 2026-07-28, which has no sessions: there, every message of the server belongs to a
    /// request of the client. Also returns one in functions that list or complete values, and if the session has ended.
    pub fn session(&self) -> Result<Session, Fault> {
        let Inner { parts, .. } = &*self.inner;
        if !parts.dialect.has(Feature::Handshake) {
            let version = parts.dialect.name();
            return Err(Fault::internal(format!(
                "protocol version {version} has no sessions, so the server sends messages only during calls"
            )));
        }
        let session = parts.requester.as_ref().and_then(|requester| requester.session());
        session.map(Session::new).ok_or_else(|| Fault::internal("the call has no session, or its session has ended"))
    }

    /// Runs `future` once per call, even if requests to the client restart the function (see
    /// [`elicit`](Self::elicit)). Between these rounds, the value is stored in the encrypted `requestState`.
    ///
    /// Use it for values that must not differ between rounds, such as a random number, and for side effects that must
    /// not be repeated, such as a reservation. `key` identifies the value among those of this call. A `Result` is
    /// stored as well, including an `Err`.
    ///
    /// A value is stored with the next request to the client. If the client starts over or sends the same round twice,
    /// everything after the last stored value runs again. For side effects that must never be repeated, such as a
    /// payment, use the value as an idempotency key.
    ///
    /// Do not run it concurrently with a request to the client: a value that is not ready when the request ends the
    /// round is lost and computed again in the next round. Two concurrent calls with the same key both run their
    /// futures.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, tool};
    /// # async fn reserve() -> u64 { 1 }
    /// /// Book a seat.
    /// #[tool]
    /// async fn book(ctx: &Context) -> Result<String, Fault> {
    ///     let seat = ctx.once("seat", reserve()).await?;
    ///     // … ask for confirmation …
    ///     Ok(format!("seat {seat}"))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a fault if the value cannot be serialized to JSON, or deserialized from it in a later round.
    pub async fn once<T: Serialize + DeserializeOwned>(
        &self,
        key: impl Into<String>,
        future: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        self.client_requests().once(key.into(), future).await
    }

    /// Returns whether the client supports requests that need a capability: it has declared the capability, and its
    /// revision defines it.
    ///
    /// ```
    /// # use mcp_runtime::{Capability, Context, Fault, SampleRequest, tool};
    /// /// Summarise a text.
    /// #[tool]
    /// async fn summarise(ctx: &Context, text: String) -> Result<String, Fault> {
    ///     if ctx.supports(Capability::Sampling) {
    ///         return Ok(ctx.sample(SampleRequest::new(format!("Summarise: {text}"))).await?.text());
    ///     }
    ///     Ok(text.chars().take(80).collect())
    /// }
    /// ```
    pub fn supports(&self, capability: Capability) -> bool {
        self.client_requests().supports(capability)
    }

    /// Fails the call early if the client does not support a capability.
    ///
    /// ```
    /// # use mcp_runtime::{Capability, Context, Fault, tool};
    /// /// Index the project, then ask what to search for.
    /// #[tool]
    /// async fn search(ctx: &Context) -> Result<String, Fault> {
    ///     ctx.require(Capability::Elicitation)?;
    ///     // … an index that takes a minute …
    ///     Ok("indexed".to_owned())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same [`Fault::MissingCapability`] as the request that needs the capability.
    pub fn require(&self, capability: Capability) -> Result<(), Fault> {
        self.client_requests().require(capability)
    }

    /// Turns the call of a `#[tool(task = "deferred")]` into a task, in which the function continues.
    ///
    /// The client receives the task instead of the result, and fetches the result later. If the client does not support
    /// tasks or the call is already a task, this does nothing.
    ///
    /// Requests to the client before this point belong to the call (see [`elicit`](Self::elicit)); later requests
    /// belong to the task.
    ///
    /// ```
    /// use mcp_runtime::{Answer, Context, Elicit, Fault, tool};
    ///
    /// #[derive(Elicit)]
    /// struct Confirm {
    ///     sure: bool,
    /// }
    ///
    /// /// Rebuild the index.
    /// #[tool(task = "deferred")]
    /// async fn rebuild(ctx: &Context) -> Result<String, Fault> {
    ///     let Answer::Accept(Confirm { sure: true }) = ctx.elicit("confirm", "This takes an hour. Begin?").await? else {
    ///         return Ok("nothing was done".to_owned());
    ///     };
    ///     ctx.become_task().await;
    ///     // … the hour …
    ///     Ok("rebuilt".to_owned())
    /// }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// The call may become a task even if the future is dropped.
    pub async fn become_task(&self) {
        let Some(handoff) = &self.inner.parts.handoff else { return };
        let (mut requested, mut ended) = (handoff.request(), pin!(self.ended()));
        // Without `ended`, a spawned task that calls this would wait forever once its call has returned.
        poll_fn(|cx| match requested.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => ended.as_mut().poll(cx),
        })
        .await;
    }

    fn client_requests(&self) -> ClientRequests<'_> {
        let Inner { parts, lifetime, client_wait, .. } = &*self.inner;
        ClientRequests {
            requester: parts.requester.as_deref(),
            features: parts.dialect.features(),
            call: Some(CallRequests { lifetime, wait: client_wait }),
        }
    }

    pub(crate) fn new(parts: ContextParts) -> Self {
        let inner = Inner {
            parts,
            lifetime: CallLifetime::default(),
            progress: ProgressLimiter::default(),
            client_wait: ClientWait::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Makes the function independent of the request that started it: [`cancel`](Self::cancel) and [`end`](Self::end)
    /// have no effect until [`attach`](Self::attach).
    pub(crate) fn detach(&self) {
        self.inner.lifetime.set_detached(true);
    }

    /// Reverses [`detach`](Self::detach).
    pub(crate) fn attach(&self) {
        self.inner.lifetime.set_detached(false);
    }

    /// Marks the call as cancelled and wakes the tasks that wait for its end.
    pub(crate) fn cancel(&self) {
        self.inner.lifetime.cancel();
    }

    /// Marks the call as completed: nothing may be sent after its response.
    pub(crate) fn end(&self) {
        self.inner.lifetime.complete();
    }

    pub(crate) fn requester(&self) -> Option<&Arc<dyn ClientRequester>> {
        self.inner.parts.requester.as_ref()
    }

    /// Returns the head of the request, if the transport has one.
    pub(crate) fn head(&self) -> Option<&dyn RequestHead> {
        self.inner.parts.head.as_deref()
    }

    pub(crate) fn handoff(&self) -> Option<&Arc<dyn TaskHandoff>> {
        self.inner.parts.handoff.as_ref()
    }

    /// Returns the last fault that tells the client what the call requires.
    pub(crate) fn unmet_requirement(&self) -> Option<Fault> {
        self.inner.client_wait.unmet_requirement()
    }

    /// Returns whether the function has sent any request to its client.
    pub(crate) fn has_asked(&self) -> bool {
        self.inner.client_wait.has_asked()
    }

    /// Returns how long the call has waited for its client. This time does not count towards the timeout of the call.
    pub(crate) fn waited(&self) -> Duration {
        self.inner.client_wait.elapsed()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("id", &self.request_id()).field("name", &self.name()).finish_non_exhaustive()
    }
}
