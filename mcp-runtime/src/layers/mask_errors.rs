use std::any::TypeId;

use super::{Call, Layer, LayerFuture, Next, Outcome};
use crate::{
    handler::{log_failure, masked_message},
    random,
};

/// A layer that hides the messages of errors from clients. The client receives a neutral message with a reference, and
/// the log contains the original message with the same reference.
///
/// Use this layer if clients or models are not trusted. It masks the errors that functions return, which would
/// otherwise reach the model unchanged. It does not mask deliberate messages: a [`Fault`](crate::Fault), a
/// [`ErrorResponse`](crate::ErrorResponse), a [`ToolResult`](crate::ToolResult) with `is_error`, invalid arguments, and errors of a
/// type that is [shown](Self::show). If the program has no `tracing` subscriber, as in most tests, the original message
/// is printed to stderr.
///
/// ```
/// use std::fmt;
///
/// use mcp_runtime::{Revision, Server, layers::MaskErrors, tool};
/// use serde_json::json;
///
/// #[derive(Debug)]
/// struct OutOfStock;
///
/// impl fmt::Display for OutOfStock {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         f.write_str("out of stock")
///     }
/// }
///
/// /// Order pens.
/// #[tool]
/// fn order() -> Result<(), OutOfStock> {
///     Err(OutOfStock)
/// }
///
/// /// Count the pens.
/// #[tool]
/// fn count() -> Result<usize, String> {
///     Err("postgres://admin:hunter2@10.0.0.1 does not answer".to_owned())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let server = Server::empty("pens", "1.0.0").with::<order>().with::<count>();
/// let mut client = server.layer(MaskErrors::new().show::<OutOfStock>()).test_client(Revision::V2026_07_28);
/// assert_eq!(client.call("order", ()).await.unwrap().text(), "out of stock");
/// assert!(!client.call("count", ()).await.unwrap().text().contains("hunter2"));
/// # });
/// ```
#[derive(Debug, Clone, Default)]
pub struct MaskErrors {
    shown: Vec<TypeId>,
}

impl MaskErrors {
    /// Creates a layer that masks errors of all types.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows errors of type `E` to clients, for functions that return `Result<_, E>`.
    #[must_use]
    pub fn show<E: 'static>(mut self) -> Self {
        self.shown.push(TypeId::of::<E>());
        self
    }
}

impl Layer for MaskErrors {
    fn call(&self, call: Call, next: Next) -> LayerFuture<'_> {
        Box::pin(async move {
            let outcome = next.run(call.clone()).await;
            let Some((reason, error_type)) = outcome.failure_with_type() else { return outcome };
            if self.shown.contains(&error_type) {
                return outcome;
            }
            let (name, reference) = (call.entry().name, random::reference());
            log_failure(name, call.request_id(), Some(&reference), reason);
            Outcome::error(&call, masked_message(name, &reference))
        })
    }
}
