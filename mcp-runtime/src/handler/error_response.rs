//! How the errors of functions are mapped to what the model, the client and the log see.

use std::{error::Error, fmt};

use tracing::subscriber::NoSubscriber;

use crate::{error::Fault, random, stderr};

/// An error that a function may return: any type that implements [`Display`](fmt::Display).
///
/// It is implemented automatically: `#[derive(Debug, thiserror::Error)]` is enough. The model reads the text of a tool's
/// error; [`IntoErrorResponse`] maps errors differently.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a function: it must implement `std::fmt::Display`",
    label = "the error type does not implement `Display`",
    note = "for a type of your own, implement `std::fmt::Display`, or add `#[derive(thiserror::Error)]` with `#[error(\"…\")]`: the model reads the text of a tool's error",
    note = "for a type of another crate, convert the error, such as with `.map_err(|error| format!(\"{{error:?}}\"))`, and return `Result<_, String>`"
)]
pub trait ErrorOutput: fmt::Display + 'static {}

#[diagnostic::do_not_recommend]
impl<E: fmt::Display + 'static> ErrorOutput for E {}

/// Maps an error to what the model, the client and the log see, for tools, resources and prompts alike.
///
/// Implement it for the error type of your application, as you would implement axum's `IntoResponse`, and return
/// `Result<_, YourError>`. Without it, the model reads the `Display` text of a tool's error, and the errors of resources
/// and prompts are only logged.
///
/// ```
/// use std::fmt;
///
/// use mcp_runtime::{ErrorResponse, Fault, IntoErrorResponse, Revision, Server, tool};
/// use serde_json::json;
///
/// #[derive(Debug)]
/// enum ShopError {
///     OutOfStock(String),
///     Closed,
///     Database(String),
/// }
///
/// impl fmt::Display for ShopError {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         match self {
///             Self::OutOfStock(item) => write!(f, "{item} is out of stock, order something else"),
///             Self::Closed => f.write_str("the shop is closed"),
///             Self::Database(error) => write!(f, "database error: {error}"),
///         }
///     }
/// }
///
/// impl IntoErrorResponse for ShopError {
///     fn into_error_response(self) -> ErrorResponse {
///         match self {
///             Self::OutOfStock(_) => ErrorResponse::message(self),
///             Self::Closed => Fault::custom(4003, self.to_string()).into(),
///             Self::Database(_) => ErrorResponse::masked(self),
///         }
///     }
/// }
///
/// /// Order an item.
/// #[tool]
/// fn order(item: String) -> Result<String, ShopError> {
///     match item.as_str() {
///         "pen" => Err(ShopError::OutOfStock(item)),
///         "ink" => Err(ShopError::Closed),
///         _ => Err(ShopError::Database("10.0.0.1 does not answer".to_owned())),
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let mut client = Server::empty("shop", "1.0.0").with::<order>().test_client(Revision::V2026_07_28);
/// let result = client.call("order", json!({"item": "pen"})).await.unwrap();
/// assert_eq!(result.text(), "pen is out of stock, order something else");
/// assert_eq!(client.call("order", json!({"item": "ink"})).await.unwrap_err().code, 4003);
/// let result = client.call("order", json!({"item": "cup"})).await.unwrap();
/// assert!(!result.text().contains("10.0.0.1"));
/// # });
/// ```
///
/// The mapping applies to functions whose return type is `Result<_, E>`. In other places, such as `list` and `complete`
/// functions, return `Result<_, ErrorResponse>`: the `?` operator converts every `E` that implements this trait.
///
/// See [Error handling](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#error-handling).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be converted to an `ErrorResponse`",
    note = "implement `mcp_runtime::IntoErrorResponse` for `{Self}`, or return `Result<_, {Self}>` instead"
)]
pub trait IntoErrorResponse: fmt::Display + Sized + 'static {
    /// Converts the error.
    fn into_error_response(self) -> ErrorResponse;
}

impl IntoErrorResponse for Fault {
    fn into_error_response(self) -> ErrorResponse {
        ErrorResponse { shown: Shown::Fault(Box::new(self)), log: None }
    }
}

/// An error as the model, the client and the log see it. See [`IntoErrorResponse`].
///
/// | constructor | tool | prompt | resource | log |
/// | --- | --- | --- | --- | --- |
/// | [`message`](Self::message) | the text, as a result with `isError`, which the model reads | the text, as invalid params (-32602) | the text, as an internal error (-32603) | nothing |
/// | `from` a [`Fault`] | the protocol error | the protocol error | the protocol error | nothing |
/// | [`masked`](Self::masked) | a neutral text with a reference, as a result with `isError` | the same text, as an internal error (-32603) | as for a prompt | the text and the reference |
///
/// A message tells the sender of a request what to change, and the sender of a prompt's request can only change its
/// arguments. For a prompt that fails for another reason, use [`masked`](Self::masked) or [`Fault::internal`]; for a
/// resource that does not exist, [`Fault::resource_not_found`].
///
/// [`with_log`](Self::with_log) adds an entry to the log in the first two cases. Entries are written with the level
/// `ERROR`, the name of the function and the id of the request. If the program has no `tracing` subscriber, as in most
/// tests, they are printed to stderr.
///
/// The layer [`MaskErrors`](crate::layers::MaskErrors) does not change it.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorResponse {
    pub(super) shown: Shown,
    pub(super) log: Option<String>,
}

/// The part that the client receives.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shown {
    Message(String),
    Fault(Box<Fault>),
    /// A neutral message with a reference to the log.
    Reference(String),
}

impl ErrorResponse {
    /// Creates a response whose text is sent to the client, so it must not contain secrets: what the model, or the sender
    /// of a prompt's request, can do about it.
    pub fn message(text: impl fmt::Display) -> Self {
        Self { shown: Shown::Message(text.to_string()), log: None }
    }

    /// Creates a response whose text only the log contains. The client receives a neutral message with a reference, which
    /// the log contains, too.
    ///
    /// The alternate form of the text is logged (`{:#}`), with which errors of `anyhow` print their causes.
    pub fn masked(text: impl fmt::Display) -> Self {
        Self { shown: Shown::Reference(random::reference()), log: Some(format!("{text:#}")) }
    }

    /// Adds a text for the log, in its alternate form (`{:#}`). Replaces an earlier text.
    #[must_use]
    pub fn with_log(mut self, text: impl fmt::Display) -> Self {
        self.log = Some(format!("{text:#}"));
        self
    }

    /// Returns the response or the fault among an error and its causes, if there is one.
    pub(super) fn among(error: &(dyn Error + 'static)) -> Option<Self> {
        std::iter::successors(Some(error), |&error| error.source()).find_map(|error| {
            let response = error.downcast_ref::<Self>().cloned();
            response.or_else(|| error.downcast_ref::<Fault>().cloned().map(IntoErrorResponse::into_error_response))
        })
    }
}

impl<E: IntoErrorResponse> From<E> for ErrorResponse {
    fn from(error: E) -> Self {
        error.into_error_response()
    }
}

impl fmt::Display for ErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.shown {
            Shown::Message(text) => f.write_str(text),
            Shown::Fault(fault) => fault.fmt(f),
            Shown::Reference(reference) => write!(f, "failed; see the server log, reference {reference}"),
        }
    }
}

impl Error for ErrorResponse {}

/// Logs the failure of a function. `reference` is the reference that the client received.
///
/// Writes it to stderr if the program has no `tracing` subscriber: the client does not know the reason, so it would be
/// lost. Like the log, it is dropped if stderr is not read.
pub(crate) fn log_failure(name: &str, id: &str, reference: Option<&str>, reason: &str) {
    let is_lost = tracing::dispatcher::get_default(|dispatch| dispatch.is::<NoSubscriber>());
    if is_lost {
        let reference = reference.map(|reference| format!(", reference {reference}")).unwrap_or_default();
        stderr::writer().push(format!("`{name}` failed (request {id}{reference}): {reason}\n").as_bytes());
    } else {
        tracing::error!(name, id, reference, reason, "function failed");
    }
}
