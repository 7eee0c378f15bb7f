//! Requests from the server to its client: their content, their encoding in each revision, and decoding of the answers.
//!
//! Nothing here sends or waits. An [`Ask`] encodes a [`Question`], which the engine sends to the client, and decodes
//! the answer.

mod capability;
mod elicitation;
mod field;
mod question;
mod requested_schema;
mod sample_message;
mod sample_request;
mod url_completion;

pub use capability::Capability;
pub(crate) use capability::announces_root_changes;
pub use elicitation::{Answer, Elicit, Elicitation, FormElicitation, UrlElicitation};
pub use field::{
    Choice, ChoiceSet, ElicitChoice, ElicitField, FieldKind, FieldType, FormField, check_field,
    default_json as field_default_json, field_type,
};
pub(crate) use question::AskOptions;
pub use question::{Ask, InvalidAnswer, ListRoots, Question, Root, WithOptions, encoded_question};
pub use requested_schema::FormContent;
pub use sample_message::{SampleContent, SampleMessage, SampleResult, SampleToolResult, SampleToolUse};
pub use sample_request::{IncludeContext, SampleRequest, ToolChoice};
pub use url_completion::UrlCompletion;
pub(crate) use url_completion::{ElicitationSession, TrackedElicitation};
