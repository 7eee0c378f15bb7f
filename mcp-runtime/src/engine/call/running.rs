//! Runs the futures of calls, and the functions that complete an argument or list resources.

use std::{
    any::Any,
    collections::BTreeMap,
    future::ready,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context as TaskContext, Poll},
    time::{Duration, Instant},
};

use crate::{
    engine::request::params,
    error::Fault,
    handler::{
        Call, CallFuture, Completions, Context, EarlierArguments, Finished, Function, HandlerError, HandlerErrorKind,
        HandlerResult, ServerFnInput, ServerFnOutput, enter_call,
        entry::{CompleteFn, Handler, ServerFnEntry},
        run_blocking, takes_context,
    },
    jsonrpc::{RawJson, raw},
    telemetry,
};

/// The precision of tokio's timers. A call with less time left than this counts as timed out.
const TIMER_PRECISION: Duration = Duration::from_millis(1);

impl Context {
    /// Runs a guarded call to completion. Returns `None` if it did not finish within this time. Time spent waiting for
    /// the client does not count.
    pub(crate) async fn run_within(&self, limit: Option<Duration>, mut guarded: GuardedCall) -> Option<Finished> {
        let Some(limit) = limit else { return Some(guarded.await) };
        let start = tokio::time::Instant::now();
        let mut remaining = limit;
        loop {
            if let Ok(finished) = tokio::time::timeout(remaining, &mut guarded).await {
                return Some(finished);
            }
            remaining = (limit + self.shared().client_wait.elapsed()).saturating_sub(start.elapsed());
            if remaining < TIMER_PRECISION {
                return None;
            }
        }
    }
}

/// The time after which a function that blocks its thread is reported in the log.
const SLOW_AFTER: Duration = Duration::from_millis(100);

/// A future whose panics are caught and become faults, including panics of its destructor, which are only logged.
pub(crate) struct GuardedCall {
    /// `None` once it has finished.
    running: Option<CallFuture>,
    context: Context,
    /// Whether the future belongs to the function, and not to a layer around it.
    is_function: bool,
    /// Whether the call, including its layers, may be handed off to a task.
    hands_off: bool,
    /// Whether a slow poll is logged.
    warns_if_slow: bool,
    /// Whether the call ends with questions to the client, which are being encoded.
    is_suspended: bool,
}

impl GuardedCall {
    /// Guards the future of a call.
    pub(crate) fn new(running: CallFuture, context: Context) -> Self {
        let shared = context.shared();
        let (is_function, hands_off) = (!shared.is_layered, shared.handoff.is_some());
        let mut guarded = Self::layered(running, context, is_function);
        guarded.hands_off = hands_off;
        guarded
    }

    /// Guards the future of a layer, or the future of the function inside of all layers.
    pub(crate) fn layered(running: CallFuture, context: Context, is_function: bool) -> Self {
        let running = Some(running);
        Self { running, context, is_function, hands_off: false, warns_if_slow: false, is_suspended: false }
    }

    /// Logs a warning when the future blocks its thread.
    pub(crate) fn with_slow_warning(mut self) -> Self {
        self.warns_if_slow = true;
        self
    }

    /// Polls the function or its layers. Returns the payload of a panic as an error.
    fn poll_running(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<Finished, Box<dyn Any + Send>>> {
        let Some(mut running) = self.running.take() else { return Poll::Pending };
        let start = self.warns_if_slow.then(Instant::now);
        let _entered = telemetry::enter(self.context.shared().unsampled.as_ref());
        let context = self.is_function.then_some(&self.context);
        let poll = || match enter_call(context, || running.as_mut().poll(cx)) {
            Poll::Ready(finished) => Ok(finished),
            Poll::Pending => Err(running),
        };
        let polled = catch_unwind(AssertUnwindSafe(poll));
        if let Some(start) = start {
            warn_if_slow(self.context.call(), start.elapsed());
        }
        match polled {
            Ok(Ok(Finished { body, outcome })) => {
                let outcome = with_unmet_requirement(outcome, context);
                Poll::Ready(Ok(Finished { body, outcome }))
            }
            Ok(Err(running)) => {
                self.running = Some(running);
                Poll::Pending
            }
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }

    /// If the call ends with questions to the client, polls the result that contains them. Returns `None` if it does not.
    fn poll_questions(&self, cx: &mut TaskContext<'_>) -> Poll<Option<Finished>> {
        let requester = self.context.shared().requester().filter(|_| self.is_function);
        requester.map_or(Poll::Ready(None), |requester| requester.poll_suspended(cx))
    }

    /// If the function has requested a handoff, moves the rest of the call into a task, and continues with the future of
    /// the response that is sent in place of the result. Returns whether it has.
    pub(super) fn hand_off(&mut self, cx: &mut TaskContext<'_>) -> bool {
        if !self.hands_off {
            return false;
        }
        let handoff = self.context.shared().handoff.as_ref();
        let Some(handoff) = handoff.filter(|handoff| handoff.poll_requested(cx).is_ready()) else { return false };
        self.running = self.running.take().map(|rest| handoff.hand_off(rest, self.context.clone()));
        true
    }
}

impl Future for GuardedCall {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Finished> {
        loop {
            let was_suspended = self.is_suspended;
            if !was_suspended && let Poll::Ready(result) = self.poll_running(cx) {
                let panicked = |panic: Box<dyn Any + Send>| Finished::failed(self.context.call().panic_fault(&*panic));
                return Poll::Ready(result.unwrap_or_else(panicked));
            }
            let questions = self.poll_questions(cx);
            self.is_suspended = questions.is_pending();
            match questions {
                Poll::Ready(Some(finished)) => return Poll::Ready(finished),
                Poll::Pending => return Poll::Pending,
                // There are no questions, or another task has withdrawn them.
                Poll::Ready(None) => {}
            }
            if !self.hand_off(cx) && !was_suspended {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for GuardedCall {
    fn drop(&mut self) {
        let running = self.running.take();
        if catch_unwind(AssertUnwindSafe(|| drop(running))).is_err() {
            tracing::error!(name = &*self.context.call().name, "function panicked while being dropped");
        }
    }
}

/// If a function failed because the client does not meet a requirement, replaces its error with the fault that names
/// the requirement.
pub(super) fn with_unmet_requirement(outcome: HandlerResult, context: Option<&Context>) -> HandlerResult {
    let unmet = |context: &Context| context.shared().client_wait.unmet_requirement();
    outcome.map_err(|error| match (error.kind(), context.and_then(unmet)) {
        (HandlerErrorKind::Fault(_) | HandlerErrorKind::InvalidArguments(_), _) | (_, None) => error,
        (_, Some(fault)) => fault.into(),
    })
}

/// Logs a warning if a function has blocked its thread.
pub(super) fn warn_if_slow(call: &Call, elapsed: Duration) {
    // Requests about tasks run no function of the author.
    if elapsed <= SLOW_AFTER || call.name.starts_with("tasks/") {
        return;
    }
    let remedy = match call.function.as_ref().map(|function| &function.common().handler) {
        Some(Handler::Sync(_)) => "mark it as `blocking`, or make it async",
        _ => {
            "an async function must not block, and no timeout interrupts it: run what blocks in \
             `tokio::task::spawn_blocking`, or make the function a plain one that is marked as `blocking`"
        }
    };
    let name = &*call.name;
    tracing::warn!(name, ?elapsed, "function blocked its connection, unless the machine is overloaded: {remedy}");
}

/// The time at which a connection last read the system clock.
///
/// Reading the system clock is a considerable part of the cost of a small call. The transport therefore reads it when a
/// message arrives, and a call reads it when its function returns. The work between the previous reading and a call is
/// counted as part of the call.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// The nanoseconds since `start`, which overflow only after centuries.
    elapsed: AtomicU64,
}

impl Clock {
    pub(crate) fn new(now: Instant) -> Self {
        Self { start: now, elapsed: AtomicU64::new(0) }
    }

    pub(crate) fn set(&self, now: Instant) {
        self.elapsed.store(self.nanos(now), Ordering::Relaxed);
    }

    /// Returns the time of the last reading.
    pub(crate) fn last(&self) -> Instant {
        self.start + Duration::from_nanos(self.elapsed.load(Ordering::Relaxed))
    }

    /// Reads the system clock, and returns the time since the previous reading.
    pub(crate) fn lap(&self) -> Duration {
        let (before, now) = (self.elapsed.load(Ordering::Relaxed), self.nanos(Instant::now()));
        self.elapsed.store(now, Ordering::Relaxed);
        Duration::from_nanos(now.saturating_sub(before))
    }

    fn nanos(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Runs a server function, on a separate thread if it blocks.
pub(crate) async fn run_server_fn(
    function: ServerFnEntry,
    blocking: bool,
    input: ServerFnInput,
) -> Result<ServerFnOutput, HandlerError> {
    if !blocking {
        return (function.call)(input).await;
    }
    let runtime = tokio::runtime::Handle::current();
    let context = input.context.clone();
    let produced = run_blocking(&context, move || runtime.block_on((function.call)(input))).await;
    produced.unwrap_or_else(|| Err(Fault::shutting_down().into()))
}

/// The source of the completions of an argument.
pub(crate) enum CompletionSource {
    Function(ServerFnEntry),
    /// A closure, and the name of the argument.
    Closure(Arc<CompleteFn>, Box<str>),
    /// The permitted values.
    Values(Arc<[String]>),
}

impl CompletionSource {
    /// Returns the source for an argument, or `None` if the function has no such argument.
    pub(crate) fn of(function: &Function, argument: &str) -> Option<Self> {
        let index = function.contract.arguments.iter().position(|known| known.name == argument)?;
        if let Some(complete) = function.common().handler.closures().and_then(|closures| closures.complete.clone()) {
            return Some(Self::Closure(complete, argument.into()));
        }
        Some(match function.contract.arguments[index].complete {
            Some(function) => Self::Function(function),
            None => Self::Values(Arc::clone(&function.contract.choices()[index])),
        })
    }

    /// Returns whether completing takes the context.
    pub(crate) fn takes_context(&self) -> bool {
        match self {
            Self::Function(function) => takes_context(function),
            Self::Closure(..) => true,
            Self::Values(_) => false,
        }
    }
}

/// The completion of an argument.
pub(crate) struct Completion {
    pub(crate) source: CompletionSource,
    /// The name of the prompt, or the URI template.
    pub(crate) subject: Box<str>,
}

impl Completion {
    /// Completes a value. `earlier` contains the arguments that the client has already filled in, as JSON.
    pub(crate) fn complete(&self, context: &Context, value: &str, earlier: Option<&str>) -> CallFuture {
        let earlier = || earlier_arguments(earlier);
        let completing = match &self.source {
            CompletionSource::Function(function) => {
                let is_blocking = context.call().function.as_ref().is_some_and(|function| function.common().blocking);
                let completed = Some((value.into(), Arc::new(earlier())));
                let input = ServerFnInput { context: context.clone(), completed };
                Box::pin(run_server_fn(*function, is_blocking, input))
            }
            CompletionSource::Closure(function, argument) => function(argument, value, earlier(), context.clone()),
            CompletionSource::Values(values) => {
                let body = Completions::matching(value, values.iter()).write(&context.call().encoding);
                return Box::pin(ready(Finished::with_result(body)));
            }
        };
        let context = context.clone();
        Box::pin(async move {
            let completions = match completing.await {
                Ok(ServerFnOutput::Completions(completions)) => completions,
                Ok(ServerFnOutput::Resources(_)) => Completions::default(),
                Err(error) => return Finished::failed(error),
            };
            Finished::with_result(completions.write(&context.call().encoding))
        })
    }

    /// Completes the value of the arguments that layers have seen.
    pub(crate) async fn run(&self, context: &Context, arguments: &str) -> Finished {
        match params::string(raw::member(arguments, "value").map(RawJson::new), "argument.value") {
            Ok(value) => self.complete(context, &value, raw::member(arguments, "context")).await,
            Err(fault) => Finished::failed(fault),
        }
    }
}

/// Reads the arguments that the client has already filled in.
fn earlier_arguments(context: Option<&str>) -> EarlierArguments {
    let arguments = context.and_then(|context| raw::member(context, "arguments"));
    let strings = arguments.into_iter().flat_map(raw::members);
    let strings = strings.filter_map(|(name, json)| Some((name.into_owned(), raw::string(json)?.into_owned())));
    EarlierArguments(strings.collect::<BTreeMap<_, _>>())
}
