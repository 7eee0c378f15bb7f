use std::{fmt, pin::Pin, sync::Arc, vec};

use super::{call::Call, outcome::Outcome};
use crate::{engine::call::guard::GuardedCall, handler::CallFuture};

/// A layer around calls.
///
/// A layer receives each call before its function does. It continues the call with [`Next::run`], or answers it without
/// running the function, and it may replace the outcome. A layer whose future is ready immediately does not
/// cause the call to be spawned as a task.
///
/// When a call is cancelled or times out, the future of [`call`](Self::call) is dropped. A panic in a layer fails the
/// call.
///
/// ```
/// use mcp_runtime::layers::{Call, Layer, LayerFuture, Next, Outcome};
///
/// /// Rejects callers that are not on the list.
/// struct Guests(Vec<String>);
///
/// impl Layer for Guests {
///     fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
///         Box::pin(async move {
///             match call.caller().principal() {
///                 Some(name) if self.0.iter().any(|guest| guest == name) => next.run(call).await,
///                 _ => Outcome::error(&call, "you are not on the list"),
///             }
///         })
///     }
/// }
/// ```
///
/// [`from_fn`](super::from_fn) creates a layer from an async function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer",
    label = "expected a type that implements `Layer`",
    note = "an async function becomes a layer with `mcp_runtime::layers::from_fn`"
)]
pub trait Layer: Send + Sync + 'static {
    /// Handles a call, by continuing with `next` or by answering it directly.
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_>;
}

/// The future that [`Layer::call`] returns.
pub type LayerFuture<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

impl<L: Layer + ?Sized> Layer for Arc<L> {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        (**self).call(call, next)
    }
}

impl<L: Layer + ?Sized> Layer for Box<L> {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        (**self).call(call, next)
    }
}

/// The remaining layers and the function behind them. Running a clone runs the function again.
///
/// ```
/// # use mcp_runtime::layers::{Call, CallStatus, Next, Outcome};
/// /// Repeats a read-only call that has failed.
/// async fn retry_once(call: Call, next: Next) -> Outcome {
///     let outcome = next.clone().run(call.clone()).await;
///     if outcome.status() == CallStatus::Fault && call.hints().read_only == Some(true) {
///         return next.run(call).await;
///     }
///     outcome
/// }
/// # mcp_runtime::layers::from_fn(retry_once);
/// ```
#[derive(Clone)]
pub struct Next(vec::IntoIter<Arc<dyn Layer>>);

impl Next {
    pub(super) fn new(layers: Vec<Arc<dyn Layer>>) -> Self {
        Self(layers.into_iter())
    }

    /// Continues the call and returns its outcome. A panic becomes a fault.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call.
    pub async fn run(mut self, call: Call) -> Outcome {
        let info = Arc::clone(&call.info);
        let name = info.call.name;
        let guarded = match self.0.next() {
            Some(layer) => GuardedCall::new(Box::pin(async move { layer.call(call, self).await.finished }), None, name),
            None => GuardedCall::new(Box::pin(call.run()), info.call.context.clone(), name),
        };
        match guarded.await {
            Ok(finished) => Outcome::of(finished, &info),
            Err(panic) => info.call.panic_fault(&*panic).into(),
        }
    }

    /// Returns a continuation without layers.
    pub(crate) fn without_layers() -> Self {
        Self::new(Vec::new())
    }

    /// Returns a future that runs the call through all layers.
    pub(crate) fn start(self, call: Call) -> CallFuture {
        Box::pin(async move { self.run(call).await.finished })
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Next({} layers)", self.0.len())
    }
}
