use std::{
    any::Any,
    cell::RefCell,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::Serialize;
use tokio::{sync::Notify, time::Instant};

use super::{
    client_requests::ClientRequester,
    tasking::{Notes, TaskHandoff},
};
use crate::{
    error::Fault,
    jsonrpc::{Id, raw, write},
    model::Level,
    revision::{Dialect, Feature, Revision},
};

/// The least time between two progress notifications of one call.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(10);

/// One request, as the function that answers it sees it: progress, log, cancellation, who asks.
///
/// A function that wants it takes `&Context`. A clone stays valid after the call; what it sends then goes nowhere.
#[derive(Clone)]
pub struct Context {
    call: Arc<Call>,
}

thread_local! {
    static CURRENT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// Restores the call that was running before, even when code panics.
struct Leave(Option<Context>);

impl Drop for Leave {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

struct Call {
    parts: ContextParts,
    cancelled: AtomicBool,
    on_end: Notify,
    over: AtomicBool,
    /// Whether the function goes on without the call that it began in.
    detached: AtomicBool,
    progress: Mutex<Progress>,
    waits: Mutex<Waits>,
}

/// The time that a call spent waiting for its client.
#[derive(Default)]
struct Waits {
    asked: bool,
    questions: usize,
    since: Option<Instant>,
    /// The fault of a client that could not be asked.
    missing_capability: Option<Fault>,
    before: Duration,
}

/// Counts a question that is open.
pub(super) struct Waiting<'a>(&'a Context);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut waits = self.0.waits();
        waits.questions -= 1;
        if waits.questions == 0 {
            let since = waits.since.take();
            waits.before += since.map_or(Duration::ZERO, |since| since.elapsed());
        }
    }
}

/// What the engine knows of a call.
pub(crate) struct ContextParts {
    pub(crate) peer: Arc<dyn Peer>,
    pub(crate) dialect: &'static Dialect,
    pub(crate) id: Id<'static>,
    /// The tool, prompt or resource.
    pub(crate) name: Box<str>,
    /// The JSON of the progress token.
    pub(crate) progress_token: Option<Box<str>>,
    pub(crate) log: LogGate,
    /// The JSON of the request's `_meta`.
    pub(crate) meta: Option<Box<str>>,
    pub(crate) client: Option<ClientInfo>,
    /// How the client is asked; none where the protocol has no way to.
    pub(crate) requester: Option<Arc<dyn ClientRequester>>,
    /// Where the call says how far it is, if it is a task or may become one.
    pub(crate) notes: Option<Arc<dyn Notes>>,
    /// How the call becomes a task, if it may.
    pub(crate) handoff: Option<Arc<dyn TaskHandoff>>,
    /// Whom the transport has found the caller to be.
    pub(crate) principal: Option<Box<str>>,
    /// What the transport knows of the request.
    #[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP knows anything"))]
    pub(crate) attachment: Option<Arc<dyn Any + Send + Sync>>,
}

/// Which log messages a call may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogGate {
    /// Those at or above the session's level.
    Session,
    /// Those at or above the level that the request asked for; none where it asked for nothing.
    Request(Option<Level>),
}

/// The other side of the connection that a call came from.
pub(crate) trait Peer: Send + Sync {
    /// Sends a notification beside the responses; false where it was dropped because the other side does not read.
    fn notify(&self, message: &[u8]) -> bool;

    /// The level that the session asked for.
    fn session_level(&self) -> Level;

    /// Has the client ask again after a time for what comes, where the transport can do that.
    fn pause(&self, retry: Duration);
}

/// Who the client says it is. It is what the client says, not what anybody has checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
#[non_exhaustive]
pub struct ClientInfo {
    /// The program.
    pub name: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// The name for people.
    #[serde(default)]
    pub title: Option<String>,
}

struct Progress {
    last: f64,
    at: Option<Instant>,
}

impl Context {
    pub(crate) fn new(parts: ContextParts) -> Self {
        let call = Call {
            parts,
            cancelled: AtomicBool::new(false),
            on_end: Notify::new(),
            over: AtomicBool::new(false),
            detached: AtomicBool::new(false),
            progress: Mutex::new(Progress { last: f64::NEG_INFINITY, at: None }),
            waits: Mutex::default(),
        };
        Self { call: Arc::new(call) }
    }

    /// Tells the client how far the call has come: `done` of `total`, and a line for people.
    ///
    /// `total` is a number, or `()` where nobody knows it; an empty message is left out. Nothing is sent to a client that did not
    /// ask for progress, nor when `done` has not grown, nor within 10 ms of the last notification unless the
    /// work is done.
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
    /// In a task the message is also what clients see of its status, whether or not they asked for progress.
    ///
    /// See [Progress](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress).
    pub fn progress(&self, done: impl Amount, total: impl Amount, message: impl AsRef<str>) {
        let parts = &self.call.parts;
        if let Some(notes) = &parts.notes
            && !message.as_ref().is_empty()
        {
            notes.note(message.as_ref());
        }
        let Some(token) = &parts.progress_token else { return };
        let Some(done) = done.amount().filter(|done| done.is_finite()) else { return };
        let total = total.amount().filter(|total| total.is_finite());
        if self.is_over() || !self.may_progress(done, total) {
            return;
        }
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"#);
        out.extend_from_slice(token.as_bytes());
        out.extend_from_slice(br#","progress":"#);
        write_number(&mut out, done);
        if let Some(total) = total {
            out.extend_from_slice(br#","total":"#);
            write_number(&mut out, total);
        }
        let message = message.as_ref();
        if !message.is_empty() && parts.dialect.has(Feature::ProgressMessage) {
            out.extend_from_slice(br#","message":"#);
            write::string(&mut out, message);
        }
        out.extend_from_slice(b"}}");
        parts.peer.notify(&out);
    }

    /// Sends a log message to the client, if it wants messages of this level.
    ///
    /// `data` is text or anything that can be serialised; what cannot be is dropped. Messages must not hold secrets.
    ///
    /// See [Logging](https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging).
    pub fn log(&self, level: Level, data: impl Serialize) {
        self.log_as("", level, data);
    }

    /// Sends a log message under the name of a logger. See [`log`](Self::log).
    pub fn log_as(&self, logger: &str, level: Level, data: impl Serialize) {
        if self.is_over() || !self.logs(level) {
            return;
        }
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"#);
        write::string(&mut out, level.as_str());
        if !logger.is_empty() {
            out.extend_from_slice(br#","logger":"#);
            write::string(&mut out, logger);
        }
        out.extend_from_slice(br#","data":"#);
        if let Err(error) = write::value(&mut out, &data) {
            tracing::warn!(%error, "a log message cannot be serialised");
            return;
        }
        out.extend_from_slice(b"}}");
        self.call.parts.peer.notify(&out);
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

    /// Says whether a log message of this level would be sent.
    pub fn logs(&self, level: Level) -> bool {
        match self.call.parts.log {
            LogGate::Session => level >= self.call.parts.peer.session_level(),
            LogGate::Request(threshold) => threshold.is_some_and(|threshold| level >= threshold),
        }
    }

    /// Says whether the call was cancelled, or its connection is gone. Code that blocks asks this now and then; the
    /// future of an async function is simply dropped.
    pub fn is_cancelled(&self) -> bool {
        self.call.cancelled.load(Ordering::Acquire)
    }

    /// Waits until the call is over, because it was cancelled or because it has its result: for work that was spawned beside it.
    ///
    /// # Cancel safety
    ///
    /// It may be dropped and called again.
    pub async fn ended(&self) {
        loop {
            let notified = self.call.on_end.notified();
            if self.is_over() {
                return;
            }
            notified.await;
        }
    }

    /// The JSON of the request's id, as log files know it.
    pub fn request_id(&self) -> &str {
        self.call.parts.id.as_json()
    }

    /// The tool, the prompt or the URI that was asked for.
    pub fn name(&self) -> &str {
        &self.call.parts.name
    }

    /// The revision that the call came in.
    pub fn revision(&self) -> Revision {
        self.call.parts.dialect.revision()
    }

    /// Who the client says it is.
    pub fn client(&self) -> Option<&ClientInfo> {
        self.call.parts.client.as_ref()
    }

    /// Whom the transport has found the caller to be: over HTTP, the `Principal` that a middleware put into the extensions
    /// of the request.
    pub fn principal(&self) -> Option<&str> {
        self.call.parts.principal.as_deref()
    }

    /// One value of the request's `_meta`, such as `traceparent`.
    pub fn meta(&self, key: &str) -> Option<serde_json::Value> {
        let meta = self.call.parts.meta.as_deref()?;
        let (_, value) = raw::members(meta).find(|(name, _)| name == key)?;
        serde_json::from_str(value).ok()
    }

    /// Lets go of the connection that this call's answer would come on: the client asks again after `retry`, and gets then what
    /// has come in the meantime. For calls that take minutes, where a connection is dear.
    ///
    /// It does something for clients of revision 2025-11-25 over HTTP, and nothing for all others.
    ///
    /// See [Sending messages](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server).
    pub fn close_sse_stream(&self, retry: Duration) {
        if self.call.parts.dialect.has(Feature::StreamPolling) && !self.is_over() {
            self.call.parts.peer.pause(retry);
        }
    }

    /// What the transport knows of the request, of one type; over HTTP it is `http::request::Parts`.
    #[cfg(feature = "http")]
    pub(crate) fn attachment<T: 'static>(&self) -> Option<&T> {
        self.call.parts.attachment.as_ref()?.downcast_ref()
    }

    /// The call that the code which is running now belongs to, where its log is forwarded.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Runs code as part of a call, see [`current`](Self::current).
    pub(crate) fn enter<T>(current: Option<&Self>, run: impl FnOnce() -> T) -> T {
        if current.is_none() {
            return run();
        }
        let leave = Leave(CURRENT.replace(current.cloned()));
        let result = run();
        drop(leave);
        result
    }

    /// Lets the function go on without the call that it began in, whatever becomes of that.
    pub(crate) fn detach(&self) {
        self.call.detached.store(true, Ordering::Release);
    }

    /// Lets the function end with what it goes on in.
    pub(crate) fn attach(&self) {
        self.call.detached.store(false, Ordering::Release);
    }

    fn is_detached(&self) -> bool {
        self.call.detached.load(Ordering::Acquire)
    }

    /// Tells whoever waits that the call is cancelled.
    pub(crate) fn cancel(&self) {
        if self.is_detached() {
            return;
        }
        self.call.cancelled.store(true, Ordering::Release);
        self.call.on_end.notify_waiters();
    }

    /// Silences the context: the response is on its way, nothing may follow.
    pub(crate) fn end(&self) {
        if self.is_detached() {
            return;
        }
        self.call.over.store(true, Ordering::Release);
        self.call.on_end.notify_waiters();
    }

    pub(super) fn parts(&self) -> &ContextParts {
        &self.call.parts
    }

    /// How the client of this call is asked.
    pub(crate) fn requester(&self) -> Option<&Arc<dyn ClientRequester>> {
        self.call.parts.requester.as_ref()
    }

    /// Says that the call waits for its client until what comes back is dropped.
    pub(super) fn wait_for_client(&self) -> Waiting<'_> {
        let mut waits = self.waits();
        waits.asked = true;
        waits.questions += 1;
        waits.since.get_or_insert_with(Instant::now);
        Waiting(self)
    }

    /// Keeps the fault of a client that lacks a capability, for a function that passes only its sentence on.
    pub(super) fn note_lack(&self, fault: &Fault) {
        if matches!(fault, Fault::MissingCapability { .. }) {
            self.waits().missing_capability = Some(fault.clone());
        }
    }

    /// The fault of a client that could not be asked, if it came to that.
    pub(crate) fn missing_capability(&self) -> Option<Fault> {
        self.waits().missing_capability.clone()
    }

    /// Says whether the function has asked its client for anything.
    pub(crate) fn has_asked(&self) -> bool {
        self.waits().asked
    }

    /// How long the call has waited for its client, which does not count as its own time.
    pub(crate) fn waited(&self) -> Duration {
        let waits = self.waits();
        waits.before + waits.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.call.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_over(&self) -> bool {
        self.call.over.load(Ordering::Acquire) || self.is_cancelled()
    }

    fn may_progress(&self, done: f64, total: Option<f64>) -> bool {
        let mut progress = self.call.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let early = progress.at.is_some_and(|at| now.duration_since(at) < PROGRESS_INTERVAL);
        let finished = total.is_some_and(|total| done >= total);
        if done <= progress.last || (early && !finished) {
            return false;
        }
        *progress = Progress { last: done, at: Some(now) };
        true
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("id", &self.request_id()).field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Whole numbers without a fraction, as the client would write them.
fn write_number(out: &mut Vec<u8>, number: f64) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT {
        out.extend_from_slice((number as i64).to_string().as_bytes());
    } else {
        write::plain(out, &number);
    }
}

/// A number for [`Context::progress`], or `()` for none.
pub trait Amount {
    /// The number, if there is one.
    fn amount(self) -> Option<f64>;
}

impl Amount for () {
    fn amount(self) -> Option<f64> {
        None
    }
}

impl<T: Amount> Amount for Option<T> {
    fn amount(self) -> Option<f64> {
        self.and_then(T::amount)
    }
}

macro_rules! amounts {
    ($($number:ty),+) => {
        $(impl Amount for $number {
            fn amount(self) -> Option<f64> {
                Some(self as f64)
            }
        })+
    };
}

amounts!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64);
