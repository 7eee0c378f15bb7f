use std::{
    any::{Any, TypeId},
    fmt,
    pin::Pin,
};

use super::schema::Violation;
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

/// The reason why a call produced no result.
#[derive(Debug)]
pub struct HandlerError(Box<HandlerErrorKind>);

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
}

impl HandlerError {
    pub(crate) fn invalid_arguments(violations: Vec<Violation>) -> Self {
        Self(Box::new(HandlerErrorKind::InvalidArguments(violations)))
    }

    /// Converts an error that a function returned. A [`Fault`] is a protocol error; how any other type is reported
    /// depends on the kind of the function.
    pub(crate) fn from_error<E: fmt::Display + 'static>(error: E) -> Self {
        match (&error as &dyn Any).downcast_ref::<Fault>() {
            Some(fault) => fault.clone().into(),
            None => {
                let (message, type_id) = (format!("{error:#}"), TypeId::of::<E>());
                Self(Box::new(HandlerErrorKind::Failed { message, type_id }))
            }
        }
    }

    pub(crate) fn kind(&self) -> &HandlerErrorKind {
        &self.0
    }

    pub(crate) fn into_kind(self) -> HandlerErrorKind {
        *self.0
    }
}

impl From<Fault> for HandlerError {
    fn from(fault: Fault) -> Self {
        Self(Box::new(HandlerErrorKind::Fault(fault)))
    }
}
