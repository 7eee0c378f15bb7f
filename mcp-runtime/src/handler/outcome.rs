use std::{
    any::{Any, TypeId},
    fmt,
    pin::Pin,
};

use super::{
    Contract, Encoding,
    failure::{Failure, Shown, log_failure},
    schema::Violation,
};
use crate::error::Fault;

/// `Ok` if a call produced a result, or else the reason why it did not.
pub type HandlerResult = Result<(), HandlerError>;

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
        Self { body, outcome: Ok(()) }
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

    /// Converts an error that a function returned. A [`Fault`] is a protocol error, and a [`Failure`] determines what
    /// is reported; how any other type is reported depends on the kind of the function.
    pub(crate) fn from_error<E: fmt::Display + 'static>(error: E) -> Self {
        let any: &dyn Any = &error;
        if let Some(fault) = any.downcast_ref::<Fault>() {
            return fault.clone().into();
        }
        if let Some(failure) = any.downcast_ref::<Failure>() {
            return Self::from_failure(failure.clone());
        }
        Self::new(HandlerErrorKind::Failed { message: format!("{error:#}"), type_id: TypeId::of::<E>() })
    }

    pub(crate) fn from_failure(failure: Failure) -> Self {
        let kind = match failure.shown {
            Shown::Message(text) => HandlerErrorKind::Message(text),
            Shown::Fault(fault) => HandlerErrorKind::Fault(*fault),
            Shown::Reference(reference) => HandlerErrorKind::Masked(reference),
        };
        Self(Box::new(Parts { kind, log: failure.log }))
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

/// The buffer for the result of a call, and the parameters of its encoding.
#[derive(Debug)]
pub struct Reply<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) encoding: &'a Encoding,
    /// Whether the tool has an output schema.
    pub(crate) structured: bool,
    /// Whether structured results are wrapped in an object for dialects that require one.
    pub(crate) wraps: bool,
    /// The URI of the requested resource; empty for tools and prompts.
    pub(crate) uri: &'a str,
    /// The media type in the annotation of the resource.
    pub(crate) mime_type: Option<&'static str>,
}

impl<'a> Reply<'a> {
    /// Creates the reply of a function with this contract.
    pub(crate) fn new(out: &'a mut Vec<u8>, encoding: &'a Encoding, contract: &Contract, uri: &'a str) -> Self {
        let output = contract.output_schema();
        let (structured, wraps) = (output.is_some(), output.is_some_and(|output| output.wraps));
        Self { out, encoding, structured, wraps, uri, mime_type: contract.mime_type }
    }

    /// Creates a reply without an output schema, URI or media type.
    pub(crate) fn plain(out: &'a mut Vec<u8>, encoding: &'a Encoding) -> Self {
        Self { out, encoding, structured: false, wraps: false, uri: "", mime_type: None }
    }
}
