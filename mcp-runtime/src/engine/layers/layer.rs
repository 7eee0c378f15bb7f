use std::{fmt, pin::Pin, sync::Arc, vec};

use super::{call::Call, outcome::Outcome};
use crate::{engine::call::guard::GuardedCall, handler::CallFuture};

/// Something that stands around calls.
///
/// It gets each call before its function does, and runs it with [`Next::run`], or answers in its place. What comes back
/// may be passed on as it is or replaced. A layer that waits for nothing costs no task.
///
/// A layer is dropped in the middle of its `call` when the call is cancelled or takes too long. One that panics fails the
/// call.
///
/// ```
/// use mcp_runtime::layers::{Answering, Call, Layer, Next, Outcome};
///
/// /// Lets nobody in who is not on the list.
/// struct Guests(Vec<String>);
///
/// impl Layer for Guests {
///     fn call(&self, call: Call, next: Next) -> Answering<'_> {
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
/// [`from_fn`] makes one of an async function.
pub trait Layer: Send + Sync + 'static {
    /// Answers a call, by means of `next` or by itself.
    fn call(&self, call: Call, next: Next) -> Answering<'_>;
}

/// The future of a layer's answer.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

impl<L: Layer + ?Sized> Layer for Arc<L> {
    fn call(&self, call: Call, next: Next) -> Answering<'_> {
        (**self).call(call, next)
    }
}

impl<L: Layer + ?Sized> Layer for Box<L> {
    fn call(&self, call: Call, next: Next) -> Answering<'_> {
        (**self).call(call, next)
    }
}

/// The layers that are still to come, and the function behind them. A clone runs the call once more.
#[derive(Clone)]
pub struct Next(vec::IntoIter<Arc<dyn Layer>>);

impl Next {
    pub(super) fn new(layers: Vec<Arc<dyn Layer>>) -> Self {
        Self(layers.into_iter())
    }

    /// Goes on with the call, and gives what it came to. A panic has become a fault.
    ///
    /// # Cancel safety
    ///
    /// Dropping it cancels the call.
    pub async fn run(mut self, call: Call) -> Outcome {
        let info = Arc::clone(&call.info);
        let name = info.callee.name;
        let guarded = match self.0.next() {
            Some(layer) => GuardedCall::layer(Box::pin(async move { layer.call(call, self).await.finished }), name),
            None => GuardedCall::new(Box::pin(call.run()), info.context.clone(), info.forwards_log, name),
        };
        match guarded.await {
            Ok(finished) => Outcome::of(finished, &info),
            Err(panic) => info.callee.panic_fault(&*panic, &info.id).into(),
        }
    }

    /// The whole of a call, for the engine to drive.
    pub(crate) fn start(self, call: Call) -> CallFuture {
        Box::pin(async move { self.run(call).await.finished })
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Next({} layers)", self.0.len())
    }
}
