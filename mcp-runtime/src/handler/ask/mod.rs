//! What a server asks of its client: what is asked, how each revision spells it, how the answer is read.
//!
//! Nothing here sends or waits. An [`Ask`] makes a [`Question`], which the engine brings to the client, and reads what the
//! client answers.

mod capability;
mod choice;
mod elicitation;
mod field;
mod filled;
mod form;
mod requested;
mod roots;
mod sample;
mod sampling;

use serde_json::Value;

use super::schema::Checker;
use crate::{
    error::Fault,
    revision::{Features, Revision, dialect_of},
};

pub use capability::Capability;
pub use choice::{Choice, Choices, ElicitChoice};
pub use elicitation::{Answer, Elicitation, UrlElicitation};
pub use field::{ElicitField, asked, field_type};
pub use filled::Filled;
pub use form::{Elicit, FormField, fits};
pub use roots::{ListRoots, Root};
pub use sample::{SampleContent, SampleMessage, SampleResult, SampleToolResult, SampleToolUse};
pub use sampling::{IncludeContext, SampleRequest, ToolChoice};

/// Something that can be asked of the client: [`Elicitation`], [`UrlElicitation`], [`SampleRequest`] or [`ListRoots`].
///
/// See [Client features](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be asked of a client",
    label = "expected `Elicitation<_>`, `UrlElicitation`, `SampleRequest` or `ListRoots`"
)]
pub trait Ask: Send + Sync + 'static {
    /// What comes back.
    type Answer: Send + 'static;

    /// Makes the request, in the words of the client's revision.
    ///
    /// # Errors
    ///
    /// A fault if the revision has no words for it, or if it contradicts itself.
    #[doc(hidden)]
    fn question(&self, features: Features) -> Result<Question, Fault>;

    /// Reads the client's `result`, which is known to be JSON.
    ///
    /// # Errors
    ///
    /// A sentence that says what does not fit.
    #[doc(hidden)]
    fn read(&self, result: &str) -> Result<Self::Answer, String>;
}

/// One request to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What tells it from the other questions of a call.
    pub(crate) key: String,
    /// The method of the protocol.
    pub(crate) method: &'static str,
    /// The parameters: an object, as JSON.
    pub(crate) params: String,
    /// What the client must have declared.
    pub(crate) needs: Capability,
}

/// Spells a question as a request without an id, to be held against the schema of the revision.
pub fn spelled(ask: &impl Ask, revision: Revision) -> Result<String, Fault> {
    let Question { method, params, .. } = ask.question(dialect_of(revision).features())?;
    Ok(format!(r#"{{"method":"{method}","params":{params}}}"#))
}

/// Holds an answer against a schema, so that what is left can be read without looking back.
fn conforming(schema: &Value, json: &str) -> Result<Value, String> {
    let checker = Checker::compile(schema)?;
    let violations = checker.violations(json);
    if violations.is_empty() {
        return serde_json::from_str(json).map_err(|error| error.to_string());
    }
    Err(violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// Makes the fault of an author who asks for what makes no sense.
fn mistaken(why: impl Into<String>) -> Fault {
    Fault::Internal(why.into())
}
