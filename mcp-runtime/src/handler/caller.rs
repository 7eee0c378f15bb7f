//! The sender of a call, its connection, and the client's reports about itself and its progress.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::AbortHandle};

use crate::{
    auth::{Identity, RequestHead},
    model::Level,
    revision::{Dialect, Revision},
    stdx::wait_until,
};

/// The sender of a request, as seen by [`Server::visible_to`](crate::Server::visible_to) and [`layers`](crate::layers).
///
/// A client's description of itself is not verified, so authorize by the identity:
///
/// ```
/// use mcp_runtime::{Caller, Server};
///
/// fn is_operator(caller: &Caller) -> bool {
///     caller.identity().is_some_and(|identity| identity.has_scope("operate"))
/// }
///
/// # fn configure(server: Server) -> Server {
/// server.visible_to(|caller, entry| !entry.has_tag("operations") || is_operator(caller))
/// # }
/// ```
#[derive(Debug)]
pub struct Caller {
    pub(crate) client: Option<ClientInfo>,
    pub(crate) revision: Revision,
    pub(crate) local_identity: Option<Identity>,
    /// Whether the request arrived on the stdin of the process.
    pub(crate) is_stdio: bool,
    pub(crate) head: Option<Arc<dyn RequestHead>>,
}

impl Caller {
    /// Returns the name of the authenticated principal. See [`Context::principal`](crate::Context::principal).
    pub fn principal(&self) -> Option<&str> {
        match &self.head {
            Some(head) => head.principal(),
            None => self.local_identity.as_ref().map(|identity| identity.principal()),
        }
    }

    /// Returns the authenticated sender: the principal, its scopes and its claims. See
    /// [`Context::identity`](crate::Context::identity).
    pub fn identity(&self) -> Option<&Identity> {
        self.head.as_ref().map_or(self.local_identity.as_ref(), |head| head.identity())
    }

    /// Returns the client's description of itself. It is not verified.
    pub fn client(&self) -> Option<&ClientInfo> {
        self.client.as_ref()
    }

    /// Returns the protocol revision of the request.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the headers of the HTTP request, or `None` over other transports.
    #[cfg(feature = "http")]
    pub fn headers(&self) -> Option<&http::HeaderMap> {
        Some(self.head.as_deref()?.headers())
    }

    /// Returns the value of type `T` that a middleware inserted into the extensions of the HTTP request.
    #[cfg(feature = "http")]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.head.as_deref()?.extensions().get()
    }

    /// Returns the address of the sender of the HTTP request. See [`Context::peer_addr`](crate::Context::peer_addr).
    #[cfg(feature = "http")]
    pub fn peer_addr(&self) -> Option<std::net::SocketAddr> {
        self.head.as_deref()?.peer_addr()
    }
}

/// The connection on which a call was received.
pub(crate) trait CallConnection: Send + Sync {
    /// Sends a notification of a call, unless the call has ended. Drops it if the client reads too slowly.
    fn notify(&self, message: &[u8], call: &CallLifetime);

    /// Returns the log level that the client set for the session.
    fn session_level(&self) -> Level;

    /// Counts a log message. Returns `false` if it exceeds the rate of the session.
    fn admits_log_message(&self) -> bool;

    /// Closes the SSE stream of the call, if any. The client reconnects after `retry`.
    fn close_sse_stream(&self, retry: Duration);
}

/// The name and version that a client reports about itself. They are not verified.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct ClientInfo {
    /// The name of the program.
    pub name: String,
    /// The version of the program.
    #[serde(default)]
    pub version: String,
    /// The display name.
    #[serde(default)]
    pub title: Option<String>,
}

/// The outcome of `initialize`.
#[derive(Debug)]
pub(crate) struct SessionInfo {
    pub(crate) dialect: &'static Dialect,
    pub(crate) client: Option<ClientInfo>,
    /// The JSON of the client's capabilities.
    pub(crate) capabilities: Arc<str>,
    /// The principal that opened the session, and the only one that may use it.
    pub(crate) principal: Option<Box<str>>,
}

/// The state of a call: whether it was cancelled, has completed, or is detached because it continues as a task.
#[derive(Debug, Default)]
pub(crate) struct CallLifetime {
    cancelled: AtomicBool,
    completed: AtomicBool,
    /// Whether the function continues independently of the request that started it.
    detached: AtomicBool,
    ended: Notify,
    /// The tokio task that runs the call once it has to wait.
    task: OnceLock<AbortHandle>,
}

impl CallLifetime {
    /// Marks the call as cancelled and wakes the tasks that wait for its end.
    pub(crate) fn cancel(&self) {
        self.set(&self.cancelled);
    }

    /// Marks the call as completed: nothing may be sent after its response.
    pub(crate) fn complete(&self) {
        self.set(&self.completed);
    }

    /// Sets a flag and wakes the waiting tasks. Has no effect on a detached call, which outlives its request.
    fn set(&self, flag: &AtomicBool) {
        if self.detached.load(Ordering::Acquire) {
            return;
        }
        flag.store(true, Ordering::Release);
        self.ended.notify_waiters();
    }

    /// Sets the tokio task that runs the call. Only the first one counts.
    pub(crate) fn set_task(&self, task: AbortHandle) {
        let _ = self.task.set(task);
    }

    /// Cancels the call, and drops its future.
    pub(crate) fn stop(&self) {
        self.cancel();
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    /// Makes the function independent of the request that started it, or reverses that. While it is independent,
    /// [`cancel`](Self::cancel) and [`complete`](Self::complete) have no effect.
    pub(crate) fn set_detached(&self, detached: bool) {
        self.detached.store(detached, Ordering::Release);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.completed.load(Ordering::Acquire) || self.is_cancelled()
    }

    /// Waits until the call is cancelled or completed.
    pub(crate) async fn ended(&self) {
        wait_until(&self.ended, || self.has_ended().then_some(())).await;
    }
}

/// Progress that the client reports about a request of the server.
///
/// ```
/// use mcp_runtime::{
///     Context, Fault,
///     ask::{Ask, SampleRequest, SampleResult},
/// };
///
/// # #[allow(dead_code)]
/// async fn ask(ctx: &Context) -> Result<SampleResult, Fault> {
///     let request = SampleRequest::new("Write a poem.").on_progress(|progress| {
///         tracing::debug!(done = progress.progress, total = progress.total, "the model is writing");
///     });
///     ctx.ask(request).await
/// }
/// ```
///
/// See [Progress](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(not(feature = "ask"), allow(unreachable_pub, reason = "only questions report progress"))]
#[non_exhaustive]
pub struct ClientProgress {
    /// The progress so far. It increases with each report.
    pub progress: f64,
    /// The progress at which the request is complete, if known.
    pub total: Option<f64>,
    /// A message for the user, truncated to 1024 bytes.
    pub message: Option<String>,
}
