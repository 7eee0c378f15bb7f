use std::{error::Error, fmt};

use serde_json::Value;

use super::Capability;
use crate::{
    error::Fault,
    handler::schema::{Checker, SchemaError, Violation},
    revision::{Features, Revision, dialect_of},
};

/// A request to the client: [`Elicitation`](crate::Elicitation), [`UrlElicitation`](crate::UrlElicitation),
/// [`SampleRequest`](crate::SampleRequest) or [`ListRoots`](crate::ListRoots).
///
/// See [Client features](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a request to the client",
    label = "expected `Elicitation<_>`, `UrlElicitation`, `SampleRequest` or `ListRoots`"
)]
pub trait Ask: Send + Sync + 'static {
    /// The answer.
    type Answer: Send + 'static;

    /// Encodes the request for the client's revision.
    ///
    /// # Errors
    ///
    /// Returns a fault if the revision does not support the request, or if the request is invalid.
    #[doc(hidden)]
    fn question(&self, features: Features) -> Result<Question, Fault>;

    /// Decodes the `result` of the client, which must be valid JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if the result does not match the request.
    #[doc(hidden)]
    fn read(&self, result: &str) -> Result<Self::Answer, InvalidAnswer>;
}

/// An encoded request to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The key, which identifies the request among those of a call.
    pub(crate) key: String,
    /// The method.
    pub(crate) method: &'static str,
    /// The parameters: an object, as JSON.
    pub(crate) params: String,
    /// The capabilities that the client must have declared.
    pub(crate) capabilities: &'static [Capability],
}

impl Question {
    /// Checks the capabilities that the client has declared: an object, as JSON.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::MissingCapability`] with the capabilities that the client has not declared.
    pub(crate) fn check_capabilities(&self, declared: &str) -> Result<(), Fault> {
        let is_missing = |capability: &Capability| !capability.is_declared_in(declared);
        let missing: Vec<_> = self.capabilities.iter().copied().filter(is_missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(Capability::missing(&missing)) }
    }
}

/// The reason why a client's answer does not match the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidAnswer(String);

impl InvalidAnswer {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl fmt::Display for InvalidAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for InvalidAnswer {}

impl From<Violation> for InvalidAnswer {
    fn from(violation: Violation) -> Self {
        Self(violation.to_string())
    }
}

impl From<SchemaError> for InvalidAnswer {
    fn from(error: SchemaError) -> Self {
        Self(error.to_string())
    }
}

/// Encodes a request without an id, for comparison with the schema of a revision.
///
/// # Errors
///
/// Same as [`Ask::question`].
pub fn encoded_question(ask: &impl Ask, revision: Revision) -> Result<String, Fault> {
    let Question { method, params, .. } = ask.question(dialect_of(revision).features())?;
    Ok(format!(r#"{{"method":"{method}","params":{params}}}"#))
}

/// Parses an answer that must match a schema.
pub(super) fn parse(schema: &Value, json: &str) -> Result<Value, InvalidAnswer> {
    let violations = Checker::compile(schema)?.violations(json);
    if violations.is_empty() {
        return serde_json::from_str(json).map_err(|error| InvalidAnswer::new(error.to_string()));
    }
    let messages: Vec<_> = violations.iter().map(ToString::to_string).collect();
    Err(InvalidAnswer(messages.join("; ")))
}

/// Returns the fault for an invalid request, which the author of the server must correct.
pub(super) fn invalid_request(message: impl Into<String>) -> Fault {
    Fault::Internal(message.into())
}
