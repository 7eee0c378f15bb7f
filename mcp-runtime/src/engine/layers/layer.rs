use std::{
    any::type_name,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    vec,
};

use super::call::{Call, LayerPosition, Outcome};
use crate::{
    engine::{call::running::GuardedCall, request::start::CallSpan},
    handler::{CallFuture, Function, entry::EntryInfo},
    stdx::debug,
};

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

macro_rules! pointers {
    ($($pointer:ident)*) => {
        $(impl<L: Layer + ?Sized> Layer for $pointer<L> {
            fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
                (**self).call(call, next)
            }
        })*
    };
}

pointers!(Arc Box);

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
    /// Continues the call and returns its outcome. A panic becomes a fault.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call.
    pub async fn run(mut self, call: Call) -> Outcome {
        let (context, tool_dialect) = (call.context.clone(), call.tool_dialect());
        let guarded = match self.0.next() {
            Some(layer) => {
                let running = Box::pin(async move { layer.call(call, self).await.finished });
                GuardedCall::layered(running, context, false)
            }
            None => GuardedCall::layered(Box::pin(call.run()), context, true),
        };
        Outcome { finished: guarded.await, tool_dialect }
    }

    /// Returns a future that runs the call through all layers.
    pub(crate) fn start(self, call: Call) -> CallFuture {
        Box::pin(async move { self.run(call).await.finished })
    }
}

debug!(Next, self, layers: self.0.len());

/// Creates a layer from an async function, or from a closure that returns a future.
///
/// The function returns an [`Outcome`], or a `Result` of one with an error that converts into an [`Outcome`], such as a
/// [`Fault`](crate::Fault).
///
/// The function is called many times at once, so the future of each call must own what it uses. A closure that captures
/// values is therefore not `async` itself: it clones them and returns an `async move` block.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_runtime::{
///     Server,
///     layers::{Call, Next, Outcome, from_fn},
/// };
///
/// let guests = Arc::new(vec!["Ada".to_owned()]);
/// let server = Server::empty("party", "1.0.0").layer(from_fn(move |call: Call, next: Next| {
///     let guests = Arc::clone(&guests);
///     async move {
///         match call.caller().principal() {
///             Some(name) if guests.iter().any(|guest| guest == name) => next.run(call).await,
///             _ => Outcome::error(&call, "you are not on the list"),
///         }
///     }
/// }));
/// ```
///
/// An async function:
///
/// ```
/// use std::time::Instant;
///
/// use mcp_runtime::{
///     Fault, Revision, Server,
///     layers::{Call, Next, Outcome, from_fn},
///     tool,
/// };
/// use serde_json::json;
///
/// /// Add two numbers.
/// #[tool]
/// fn add(a: f64, b: f64) -> f64 {
///     a + b
/// }
///
/// async fn timed(call: Call, next: Next) -> Outcome {
///     let (name, start) = (call.name().to_owned(), Instant::now());
///     let outcome = next.run(call).await;
///     println!("{name}: {} after {:?}", outcome.status(), start.elapsed());
///     outcome
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let server = Server::empty("adder", "1.0.0").with::<add>().layer(from_fn(timed)).layer(from_fn(
///     |call: Call, next: Next| async move {
///         match call.argument("a") {
///             Some(a) if a == 13 => Err(Fault::invalid_params("13 is not allowed")),
///             _ => Ok(next.run(call).await),
///         }
///     },
/// ));
/// let mut client = server.test_client(Revision::V2026_07_28);
/// assert_eq!(client.call("add", json!({"a": 1, "b": 2})).await.unwrap().text(), "3");
/// assert!(client.call("add", json!({"a": 13, "b": 2})).await.is_err());
/// # });
/// ```
pub fn from_fn<F, R>(function: F) -> impl Layer
where
    F: LayerFn<R>,
    R: Future<Output: Into<Outcome>> + Send + 'static,
{
    FromFn(function)
}

/// A function that [`from_fn`] turns into a layer: any `Fn(Call, Next) -> R` that threads can share.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be turned into a layer",
    label = "expected an async function, or a closure that takes a `Call` and a `Next` and returns a future",
    note = "the future of an `async` closure borrows what the closure captures: write a closure that clones it and returns a block, `move |call, next| {{ let db = Arc::clone(&db); async move {{ … }} }}`"
)]
pub trait LayerFn<R>: Fn(Call, Next) -> R + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<F, R> LayerFn<R> for F where F: Fn(Call, Next) -> R + Send + Sync + 'static {}

struct FromFn<F>(F);

impl<F, R> Layer for FromFn<F>
where
    F: Fn(Call, Next) -> R + Send + Sync + 'static,
    R: Future<Output: Into<Outcome>> + Send + 'static,
{
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        let future = (self.0)(call, next);
        Box::pin(async move { future.await.into() })
    }
}

/// A predicate that decides whether a layer applies to the calls of an entry.
type Applies = Arc<dyn Fn(&EntryInfo<'_>) -> bool + Send + Sync>;

/// The layers of a server, outermost first.
#[derive(Clone, Default)]
pub(crate) struct Layers(Vec<Arc<LayerEntry>>);

/// A layer that knows its position.
#[derive(Clone)]
struct LayerEntry {
    layer: Arc<dyn Layer>,
    /// The name of its span.
    name: &'static str,
    position: LayerPosition,
    /// `None` if the layer applies to every call.
    applies: Option<Applies>,
}

impl Layers {
    pub(crate) fn push<L: Layer>(&mut self, layer: L, applies: Option<Applies>) {
        self.add(Arc::new(layer), layer_name::<L>(), applies);
    }

    /// Adds layers, inside of the layers so far.
    pub(crate) fn append(&mut self, other: Self) {
        for entry in other.0 {
            self.add(Arc::clone(&entry.layer), entry.name, entry.applies.clone());
        }
    }

    fn add(&mut self, layer: Arc<dyn Layer>, name: &'static str, applies: Option<Applies>) {
        let position = LayerPosition { index: self.0.len(), is_general: applies.is_none() };
        self.0.push(Arc::new(LayerEntry { layer, name, position, applies }));
    }

    /// Returns the same layers for the functions that `limit` leaves to each.
    pub(crate) fn limited(self, limit: impl Fn(Option<Applies>) -> Applies) -> Self {
        let limited = |entry: Arc<LayerEntry>| {
            Arc::new(LayerEntry { applies: Some(limit(entry.applies.clone())), ..(*entry).clone() })
        };
        Self(self.0.into_iter().map(limited).collect())
    }

    /// Returns the layers that apply to the calls of a function, or `None` if no layer does.
    pub(crate) fn for_function(&self, function: &Function) -> Option<Next> {
        if self.0.is_empty() {
            return None;
        }
        let info = function.info();
        let applying = self.0.iter().filter(|entry| entry.applies_to(&info));
        let layers: Vec<_> = applying.map(|entry| Arc::clone(entry) as _).collect();
        (!layers.is_empty()).then(|| Next(layers.into_iter()))
    }

    /// Returns the continuation of a call whose future is polled, because layers apply to it, or because the check of
    /// its arguments may take long. Returns `None` if the function can be called directly.
    pub(crate) fn for_call(&self, function: &Function, arguments: &str) -> Option<Next> {
        let is_slow = || function.contract.is_slow_to_check(arguments);
        self.for_function(function).or_else(|| is_slow().then(|| Next(vec::IntoIter::default())))
    }
}

impl Layer for LayerEntry {
    fn call(&self, mut call: Call, next: Next) -> LayerFuture<'_> {
        let span = CallSpan::new(&call.context, || format!("layer {}", self.name));
        call.position = self.position;
        let running = span.in_scope(|| self.layer.call(call, next));
        span.around(running)
    }
}

/// Returns the path of the type of a layer, or of its function.
fn layer_name<L>() -> &'static str {
    let name = type_name::<L>();
    let function = name.split_once("::FromFn<").and_then(|(_, function)| function.strip_suffix('>'));
    function.unwrap_or(name)
}

impl LayerEntry {
    /// Returns whether the layer applies to an entry. If the predicate panics, the layer applies.
    fn applies_to(&self, info: &EntryInfo<'_>) -> bool {
        let Some(applies) = &self.applies else { return true };
        catch_unwind(AssertUnwindSafe(|| applies(info))).unwrap_or_else(|_| {
            tracing::error!(name = info.name, "the function passed to `layer_for` panicked, so the layer is applied");
            true
        })
    }
}

debug!(Layers, self, layers: self.0.len());
