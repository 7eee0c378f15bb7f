//! The outcome of a function, and how its error is mapped to what the model, the client and the log see.
//!
//! The mapping is found from the type that the function returns. Rust has no specialization, so no `impl` can prefer
//! [`IntoErrorResponse`] to `Display`. Macro expansions know the concrete type, and method lookup prefers the receiver with the
//! most references:
//!
//! 1. `Result<_, E>` with `E: IntoErrorResponse`
//! 2. `Result<_, E>` with an error that holds another error: `anyhow::Error`, `Box<dyn Error + Send + Sync>`
//! 3. `Result<_, Box<dyn Error>>`
//! 4. everything else

use std::{
    any::{Any, TypeId},
    error::Error,
    fmt,
    marker::PhantomData,
    pin::Pin,
};

use tracing::subscriber::NoSubscriber;

use super::schema::Violation;
use crate::{error::Fault, random, stderr, stdx::debug};

/// The kind of the result that a call produced, or else the reason why it produced none.
pub type HandlerResult = Result<ResultKind, HandlerError>;

/// The kind of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultKind {
    /// The function returned a value.
    Complete,
    /// The model reads that the tool failed: the first text of the result.
    ToolError(String),
    /// The call needs answers from the client, which repeats the request with them.
    InputRequired,
    /// The call became a task, which continues to run.
    TaskCreated,
}

/// The future of a call.
pub type CallFuture = Pin<Box<dyn Future<Output = Finished> + Send>>;

/// The outcome of a call that ran as a future.
#[derive(Debug)]
pub struct Finished {
    /// The result, as JSON.
    pub(crate) body: Vec<u8>,
    pub(crate) outcome: HandlerResult,
}

impl Finished {
    /// Returns the outcome of a call that succeeded with this result, as JSON.
    pub(crate) fn with_result(body: Vec<u8>) -> Self {
        Self::of_kind(ResultKind::Complete, body)
    }

    /// Returns the outcome of a call with a result of this kind, as JSON.
    pub(crate) fn of_kind(kind: ResultKind, body: Vec<u8>) -> Self {
        Self { body, outcome: Ok(kind) }
    }

    /// Returns the outcome of a call that failed.
    pub(crate) fn failed(error: impl Into<HandlerError>) -> Self {
        Self { body: Vec::new(), outcome: Err(error.into()) }
    }
}

impl<E: Into<HandlerError>> From<Result<Vec<u8>, E>> for Finished {
    fn from(result: Result<Vec<u8>, E>) -> Self {
        result.map_or_else(Self::failed, Self::with_result)
    }
}

/// The reason why a call produced no result.
#[derive(Debug, Clone, PartialEq)]
pub struct HandlerError(Box<Parts>);

#[derive(Debug, Clone, PartialEq)]
struct Parts {
    kind: HandlerErrorKind,
    /// A text that has not been logged yet.
    log: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HandlerErrorKind {
    /// The arguments do not match the schema. A model can correct them.
    InvalidArguments(Vec<Violation>),
    /// A protocol error.
    Fault(Fault),
    /// The function returned an error. The model reads the message if the function is a tool; otherwise it is only
    /// logged.
    Failed {
        message: String,
        /// The type of the error.
        type_id: TypeId,
    },
    /// The function chose a message that every client receives. The model reads it if the function is a tool.
    Message(String),
    /// The function failed for a reason that only the log contains, with this reference.
    Masked(String),
}

impl HandlerError {
    fn new(kind: HandlerErrorKind) -> Self {
        Self(Box::new(Parts { kind, log: None }))
    }

    pub(crate) fn invalid_arguments(violations: Vec<Violation>) -> Self {
        Self::new(HandlerErrorKind::InvalidArguments(violations))
    }

    /// Converts an error that a function returned. A [`Fault`] is a protocol error, and an [`ErrorResponse`] determines what
    /// is reported; how any other type is reported depends on the kind of the function.
    pub(crate) fn from_error<E: fmt::Display + 'static>(error: E) -> Self {
        let any: &dyn Any = &error;
        if let Some(fault) = any.downcast_ref::<Fault>() {
            return fault.clone().into();
        }
        if let Some(response) = any.downcast_ref::<ErrorResponse>() {
            return response.0.clone();
        }
        Self::new(HandlerErrorKind::Failed { message: format!("{error:#}"), type_id: TypeId::of::<E>() })
    }

    /// Writes the text for the log, unless that has been done.
    pub(crate) fn log(&mut self, name: &str, id: &str) {
        if let Some(reason) = self.0.log.take() {
            let reference = match &self.0.kind {
                HandlerErrorKind::Masked(reference) => Some(reference.as_str()),
                _ => None,
            };
            log_failure(name, id, reference, &reason);
        }
    }

    pub(crate) fn kind(&self) -> &HandlerErrorKind {
        &self.0.kind
    }

    pub(crate) fn into_kind(self) -> HandlerErrorKind {
        self.0.kind
    }
}

/// Returns the message that hides why a function failed.
pub(crate) fn masked_message(name: &str, reference: &str) -> String {
    format!("`{name}` failed; see the server log, reference {reference}")
}

impl From<Fault> for HandlerError {
    fn from(fault: Fault) -> Self {
        Self::new(HandlerErrorKind::Fault(fault))
    }
}

/// A function that returns the mapped error of a return value, or the value if its error is not mapped.
pub type ErrorMapping<T> = fn(T) -> Result<T, HandlerError>;

/// The return type of an annotated function.
pub struct Returned<T>(PhantomData<T>);

impl<T> Returned<T> {
    /// The only value.
    pub const TYPE: Self = Self(PhantomData);
}

debug!(Returned<T>, self);

/// The mapping of the errors of a return type.
pub trait MapsErrors<T> {
    /// Returns the mapping.
    fn error_mapping(&self) -> ErrorMapping<T>;
}

/// The mapping of errors that implement [`IntoErrorResponse`].
impl<T, E: IntoErrorResponse> MapsErrors<Result<T, E>> for &&&Returned<Result<T, E>> {
    fn error_mapping(&self) -> ErrorMapping<Result<T, E>> {
        |returned| match returned {
            Ok(value) => Ok(Ok(value)),
            Err(error) => Err(error.into_error_response().0),
        }
    }
}

/// The mapping of errors that hold an error which can be sent between threads.
impl<T, E: AsRef<dyn Error + Send + Sync>> MapsErrors<Result<T, E>> for &&Returned<Result<T, E>> {
    fn error_mapping(&self) -> ErrorMapping<Result<T, E>> {
        |returned| mapped_by_cause(returned, |error| error.as_ref())
    }
}

/// The mapping of errors that hold an error which cannot be sent between threads.
impl<T, E: AsRef<dyn Error>> MapsErrors<Result<T, E>> for &Returned<Result<T, E>> {
    fn error_mapping(&self) -> ErrorMapping<Result<T, E>> {
        |returned| mapped_by_cause(returned, |error| error.as_ref())
    }
}

/// The mapping of values that are not errors, and of errors of all other types.
impl<T> MapsErrors<T> for Returned<T> {
    fn error_mapping(&self) -> ErrorMapping<T> {
        Ok
    }
}

fn mapped_by_cause<T, E>(
    returned: Result<T, E>,
    cause: fn(&E) -> &(dyn Error + 'static),
) -> Result<Result<T, E>, HandlerError> {
    match returned.as_ref().err().and_then(|error| ErrorResponse::among(cause(error))) {
        Some(response) => Err(response.0),
        None => Ok(returned),
    }
}

/// Returns `$value` of type `$returned`, or returns its error from the surrounding function if the error is mapped.
#[doc(hidden)]
#[macro_export]
macro_rules! __mapped {
    ($returned:ty, $value:expr) => {{
        let returned = $value;
        use $crate::__private::MapsErrors as _;
        let mapping: $crate::__private::ErrorMapping<$returned> =
            (&&&&$crate::__private::Returned::<$returned>::TYPE).error_mapping();
        mapping(returned)?
    }};
}

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
        ErrorResponse(self.into())
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
pub struct ErrorResponse(pub(crate) HandlerError);

impl ErrorResponse {
    /// Creates a response whose text is sent to the client, so it must not contain secrets: what the model, or the sender
    /// of a prompt's request, can do about it.
    pub fn message(text: impl fmt::Display) -> Self {
        Self(HandlerError::new(HandlerErrorKind::Message(text.to_string())))
    }

    /// Creates a response whose text only the log contains. The client receives a neutral message with a reference, which
    /// the log contains, too.
    ///
    /// The alternate form of the text is logged (`{:#}`), with which errors of `anyhow` print their causes.
    pub fn masked(text: impl fmt::Display) -> Self {
        Self(HandlerError::new(HandlerErrorKind::Masked(random::reference()))).with_log(text)
    }

    /// Adds a text for the log, in its alternate form (`{:#}`). Replaces an earlier text.
    #[must_use]
    pub fn with_log(mut self, text: impl fmt::Display) -> Self {
        self.0.0.log = Some(format!("{text:#}"));
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
        match self.0.kind() {
            HandlerErrorKind::Message(text) => f.write_str(text),
            HandlerErrorKind::Fault(fault) => fault.fmt(f),
            HandlerErrorKind::Masked(reference) => write!(f, "failed; see the server log, reference {reference}"),
            // The functions that create responses create no others.
            HandlerErrorKind::Failed { .. } | HandlerErrorKind::InvalidArguments(_) => Ok(()),
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
