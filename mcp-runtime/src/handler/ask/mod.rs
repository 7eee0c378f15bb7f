//! Requests from the server to its client: their content, their encoding in each revision, and decoding of the answers.
//!
//! Nothing here sends or waits. An [`Ask`] encodes a [`Question`], which the engine sends to the client, and decodes
//! the answer.

mod elicitation;
mod field;
mod question;
mod requested_schema;
mod sample_message;
mod sample_request;

pub use elicitation::{Answer, Elicit, Elicitation, FormElicitation, UrlElicitation};
pub use field::{
    Choice, ChoiceSet, ElicitChoice, ElicitField, FieldKind, FieldType, FormField, check_field,
    default_json as field_default_json, field_type,
};
pub use question::{
    Ask, Capability, InvalidAnswer, ListRoots, Question, Root, UrlCompletion, WithOptions, encoded_question,
};
pub(crate) use question::{AskOptions, ElicitationSession, TrackedElicitation, announces_root_changes};
pub use requested_schema::FormContent;
pub use sample_message::{SampleContent, SampleMessage, SampleResult, SampleToolResult, SampleToolUse};
pub use sample_request::{IncludeContext, SampleRequest, ToolChoice};
