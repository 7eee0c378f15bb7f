use super::{
    call::Call,
    layer::{Layer, LayerFuture, Next},
    outcome::Outcome,
};

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
