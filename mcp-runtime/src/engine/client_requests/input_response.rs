use serde::{Deserialize, Serialize};

/// A client's response to a request from the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InputResponse {
    /// The result, as JSON.
    Result(String),
    /// The message of the error that the client responded with.
    Error(String),
}
