//! What stands around calls. A call without layers knows nothing of all this.

mod call;
mod next;
mod outcome;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
};

pub use call::Call;
pub(crate) use call::Site;
pub use next::Next;
pub use outcome::{Ending, Outcome};

use crate::{handler::entry::EntryInfo, registry::Function};

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

/// Makes a layer of an async function, or of a closure that gives a future.
///
/// It returns an [`Outcome`], or a `Result` of it whose error is a [`Fault`](crate::Fault).
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
///     let (name, began) = (call.name().to_owned(), Instant::now());
///     let outcome = next.run(call).await;
///     println!("{name}: {} after {:?}", outcome.ending(), began.elapsed());
///     outcome
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let server = Server::empty("adder", "1.0.0").with::<add>().layer(from_fn(timed)).layer(from_fn(
///     |call: Call, next: Next| async move {
///         match call.argument("a") {
///             Some(a) if a == 13 => Err(Fault::invalid_params("13 is not to be added")),
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
    F: Fn(Call, Next) -> R + Send + Sync + 'static,
    R: Future<Output: Into<Outcome>> + Send + 'static,
{
    FromFn(function)
}

struct FromFn<F>(F);

impl<F, R> Layer for FromFn<F>
where
    F: Fn(Call, Next) -> R + Send + Sync + 'static,
    R: Future<Output: Into<Outcome>> + Send + 'static,
{
    fn call(&self, call: Call, next: Next) -> Answering<'_> {
        let future = (self.0)(call, next);
        Box::pin(async move { future.await.into() })
    }
}

/// Says whether a layer stands around the calls of an entry.
type Applies = Arc<dyn Fn(&EntryInfo<'_>) -> bool + Send + Sync>;

/// The layers of a server, the outermost first.
#[derive(Clone, Default)]
pub(crate) struct Layers(Vec<Placed>);

#[derive(Clone)]
struct Placed {
    layer: Arc<dyn Layer>,
    /// None where it stands around every call.
    applies: Option<Applies>,
}

impl Layers {
    pub(crate) fn push(&mut self, layer: Arc<dyn Layer>, applies: Option<Applies>) {
        self.0.push(Placed { layer, applies });
    }

    /// The layers around an item's calls; none if there are none.
    pub(super) fn around(&self, item: &Function) -> Option<Next> {
        if self.0.is_empty() {
            return None;
        }
        let info = item.info();
        let applying = self.0.iter().filter(|placed| placed.applies_to(&info));
        let layers: Vec<_> = applying.map(|placed| Arc::clone(&placed.layer)).collect();
        (!layers.is_empty()).then(|| Next::new(layers))
    }
}

impl Placed {
    /// A decision that panics is none, and leaves the layer where it is.
    fn applies_to(&self, info: &EntryInfo<'_>) -> bool {
        let Some(applies) = &self.applies else { return true };
        catch_unwind(AssertUnwindSafe(|| applies(info))).unwrap_or_else(|_| {
            tracing::error!(name = info.name, "the function of `layer_for` panicked, so that the layer is applied");
            true
        })
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layers({})", self.0.len())
    }
}
