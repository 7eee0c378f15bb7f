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

use super::{
    IntoErrorResponse,
    error_response::{ErrorResponse, Shown, log_failure},
    schema::Violation,
};
use crate::error::Fault;

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
#[derive(Debug)]
pub struct HandlerError(Box<Parts>);

#[derive(Debug)]
struct Parts {
    kind: HandlerErrorKind,
    /// A text that has not been logged yet.
    log: Option<String>,
}

#[derive(Debug)]
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
            return Self::from_error_response(response.clone());
        }
        Self::new(HandlerErrorKind::Failed { message: format!("{error:#}"), type_id: TypeId::of::<E>() })
    }

    pub(crate) fn from_error_response(response: ErrorResponse) -> Self {
        let kind = match response.shown {
            Shown::Message(text) => HandlerErrorKind::Message(text),
            Shown::Fault(fault) => HandlerErrorKind::Fault(*fault),
            Shown::Reference(reference) => HandlerErrorKind::Masked(reference),
        };
        Self(Box::new(Parts { kind, log: response.log }))
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

impl<T> fmt::Debug for Returned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::any::type_name::<T>())
    }
}

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
            Err(error) => Err(HandlerError::from_error_response(error.into_error_response())),
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
        Some(response) => Err(HandlerError::from_error_response(response)),
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
