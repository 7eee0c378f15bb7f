//! The context of a call: the request, messages to the client while the function runs, and the call that the current
//! thread is executing.

mod messages;
mod notifications;
#[cfg(feature = "ask")]
mod questions;
mod request;

#[cfg(feature = "ask")]
pub use self::questions::Session;
pub use self::{messages::Amount, notifications::Notifier};

use std::{
    cell::RefCell,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
};

pub(crate) use self::messages::{LogThreshold, ProgressLimiter, log_notification};

use crate::{
    auth::{AccessRules, RequestHead, Scopes},
    handler::{
        call::Call,
        caller::{CallConnection, CallLifetime, Caller},
        client_requests::{ClientRequester, ClientWait},
        outcome::CallFuture,
    },
    jsonrpc::{Id, raw},
    stdx::{Mutex, OnDrop, debug, race},
    telemetry::{SharedTelemetry, Unsampled},
};

/// The request that a function is handling. Reports progress, sends log messages and requests to the client, detects
/// cancellation, and identifies the caller.
///
/// A function receives it by declaring a parameter of type `&Context`. Clones are cheap and may outlive the call; a
/// clone that outlives its call sends nothing. To use it in `tokio::spawn`, clone it; to send requests to the client after
/// the call, take [`ctx.session()`](Self::session) along. A spawned task that uses `ctx` itself is rejected with
/// `borrowed data escapes outside of function`.
///
/// ```
/// use mcp_runtime::{Context, tool};
///
/// /// Import rows.
/// #[tool(destructive = false)]
/// async fn import(ctx: &Context, rows: Vec<String>) -> String {
///     for (done, row) in rows.iter().enumerate() {
///         ctx.progress(done, rows.len(), row);
///         // … import the row …
///     }
///     ctx.info("the import is complete");
///     format!("imported {} rows for {}", rows.len(), ctx.principal().unwrap_or("everybody"))
/// }
/// ```
///
/// The guide explains [work in the background](crate::guide::long_calls#work-in-the-background).
#[derive(Clone)]
pub struct Context {
    shared: Arc<SharedCall>,
}

/// A call that is shared: with its function as the [`Context`], with its layers, with the table of calls in flight, and
/// with the task that it may become.
pub(crate) struct SharedCall {
    pub(crate) call: Call,
    pub(crate) connection: Arc<dyn CallConnection>,
    pub(crate) log: LogThreshold,
    /// The targets whose events are forwarded to the client in addition to the events of the function's crate. `None`
    /// if no log events are forwarded.
    pub(crate) log_targets: Option<Arc<[String]>>,
    /// The `_meta` of the request, as JSON. `None` also if neither the function nor a layer can read it.
    pub(crate) meta: Option<Box<str>>,
    pub(crate) caller: Caller,
    /// The capabilities that the client declared in `initialize`, as JSON. `None` for stateless requests, which declare
    /// them in `_meta`.
    pub(crate) capabilities: Option<Arc<str>>,
    /// Set if the operation is not sampled.
    pub(crate) unsampled: Option<Unsampled>,
    /// The telemetry of the server. `None` also if neither the function nor a layer can read the request.
    pub(crate) telemetry: Option<SharedTelemetry>,
    /// Whether the request continues an earlier round.
    pub(crate) is_continued: bool,
    /// Whether layers wrap the function. If so, they guard it themselves.
    pub(crate) is_layered: bool,
    /// The channel for requests to the client; `None` if the protocol does not allow any.
    pub(crate) requester: Option<Arc<dyn ClientRequester>>,
    /// The client of the task, if the call is, or may become, one.
    pub(crate) task: Option<Arc<dyn TaskPeer>>,
    /// The means to turn the call into a task; `None` if it cannot become one.
    pub(crate) handoff: Option<Arc<dyn TaskHandoff>>,
    /// The rules about scopes. `None` if the caller has none.
    pub(crate) access: Option<Arc<AccessRules>>,
    /// The scopes that the function has demanded, and that the caller has.
    pub(crate) demanded: Mutex<Scopes>,
    pub(crate) lifetime: CallLifetime,
    pub(crate) progress: ProgressLimiter,
    pub(crate) client_wait: ClientWait,
}

impl SharedCall {
    /// Shares a call of this caller, which cannot send requests to its client.
    pub(crate) fn new(call: Call, connection: Arc<dyn CallConnection>, caller: Caller) -> Self {
        Self {
            call,
            connection,
            log: LogThreshold::Request(None),
            log_targets: None,
            meta: None,
            caller,
            capabilities: None,
            unsampled: None,
            telemetry: None,
            is_continued: false,
            is_layered: false,
            requester: None,
            task: None,
            handoff: None,
            access: None,
            demanded: Mutex::default(),
            lifetime: CallLifetime::default(),
            progress: ProgressLimiter::default(),
            client_wait: ClientWait::default(),
        }
    }

    /// Returns the connection of the call, or of the task that it has become.
    fn connection(&self) -> &dyn CallConnection {
        self.handoff.as_ref().and_then(|handoff| handoff.task()).map_or(&*self.connection, |task| task)
    }

    /// Returns the channel for requests to the client, of the call or of the task that it has become.
    pub(crate) fn requester(&self) -> Option<&dyn ClientRequester> {
        let task = self.handoff.as_ref().and_then(|handoff| handoff.task());
        task.map(|task| task as _).or(self.requester.as_deref())
    }

    /// Returns the progress token, as JSON, if the client requested progress. A notification requests nothing.
    fn progress_token(&self) -> Option<&str> {
        let meta = self.meta.as_deref().filter(|_| !self.call.id.is_of_notification())?;
        raw::member(meta, "progressToken").filter(|token| Id::from_json(token).is_some())
    }
}

/// The client of a task: its questions, notifications and status messages.
pub(crate) trait TaskPeer: ClientRequester + CallConnection {
    /// Replaces the status message.
    fn set_status(&self, message: &str);
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

    /// Returns the client of the task that the call has become. `None` if it has not.
    fn task(&self) -> Option<&dyn TaskPeer>;

    /// Continues the rest of the call as a task. Returns the future that answers the original call.
    fn hand_off(&self, rest: CallFuture, context: Context) -> CallFuture;
}

impl Context {
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
        self.shared.lifetime.is_cancelled()
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
        self.shared.lifetime.ended().await;
    }

    /// Turns the call of a `#[tool(task = "deferred")]` into a task, in which the function continues.
    ///
    /// The client receives the task instead of the result, and fetches the result later. If the client does not support
    /// tasks or the call is already a task, this does nothing. Returns whether the call is a task.
    ///
    /// Requests to the client before this point belong to the call (see [`elicit`](Self::elicit)); later requests
    /// belong to the task.
    ///
    /// ```
    /// use mcp_runtime::{Context, Elicit, Fault, ask::Answer, tool};
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
    pub async fn become_task(&self) -> bool {
        let Some(handoff) = &self.shared.handoff else { return self.shared.task.is_some() };
        // Without `ended`, a spawned task that calls this would wait forever once its call has returned.
        let _ = race(handoff.request(), self.ended()).await;
        handoff.task().is_some()
    }

    pub(crate) fn new(shared: SharedCall) -> Self {
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn call(&self) -> &Call {
        &self.shared.call
    }

    pub(crate) fn shared(&self) -> &SharedCall {
        &self.shared
    }

    /// Returns whether both are the context of the same call.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns the head of the request, if the transport has one.
    pub(crate) fn head(&self) -> Option<&dyn RequestHead> {
        self.shared.caller.head.as_deref()
    }

    /// Returns whether the function has sent requests to its client, in this round or an earlier round.
    pub(crate) fn is_conversation(&self) -> bool {
        self.shared.is_continued || self.shared.client_wait.has_asked()
    }
}

debug!(Context, self, id: self.request_id(), name: self.name());

thread_local! {
    static CURRENT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// Returns the call that the current thread is executing.
pub(crate) fn current_call() -> Option<Context> {
    CURRENT.with_borrow(Clone::clone)
}

/// Runs code as part of a call: until it returns, [`current_call`] is that call, if its log events are sent to the
/// client. `None` does not change the current call.
pub(crate) fn enter_call<T>(context: Option<&Context>, run: impl FnOnce() -> T) -> T {
    let Some(context) = context.filter(|context| context.shared.log_targets.is_some()) else { return run() };
    let mut previous = CURRENT.replace(Some(context.clone()));
    let _restore = OnDrop(move || CURRENT.set(previous.take()));
    run()
}
