//! The reply to a question.

use rmcp::model::{ElicitResult, ElicitationAction};
use serde_json::{Map, Value};

/// A user's reply to a question.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Accept(Map<String, Value>),
    /// The user agrees to visit a page.
    Consent,
    Decline,
    Cancel,
}

impl From<Reply> for ElicitResult {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Accept(form) => Self::new(ElicitationAction::Accept).with_content(Value::Object(form)),
            Reply::Consent => Self::new(ElicitationAction::Accept),
            Reply::Decline => Self::new(ElicitationAction::Decline),
            Reply::Cancel => Self::new(ElicitationAction::Cancel),
        }
    }
}
