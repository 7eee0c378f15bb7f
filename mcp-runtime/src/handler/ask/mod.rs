//! Requests from the server to its client: their content, their encoding in each revision, and decoding of the answers.
//!
//! Nothing here sends or waits. An [`Ask`] encodes a [`Question`], which the engine sends to the client, and decodes
//! the answer.

mod capability;
mod elicitation;
mod field;
mod form_field;
mod options;
mod question;
mod requested_schema;
mod sample_message;
mod sample_request;

pub use capability::Capability;
pub(crate) use capability::{announces_root_changes, object_member};
pub(crate) use elicitation::ElicitationSession;
pub use elicitation::{Answer, Elicitation, UrlCompletion, UrlElicitation};
pub use field::{ElicitField, FieldKind, FieldType, default_json as field_default_json, field_type};
pub use form_field::{Choice, ChoiceSet, Elicit, ElicitChoice, FormField, check_field};
pub(crate) use options::AskOptions;
pub use options::{ClientProgress, IncludeContext, ToolChoice, WithOptions};
pub use question::{Ask, InvalidAnswer, ListRoots, Question, Root, encoded_question};
pub use requested_schema::FormContent;
pub use sample_message::{SampleContent, SampleMessage, SampleResult, SampleToolResult, SampleToolUse};
pub use sample_request::SampleRequest;
