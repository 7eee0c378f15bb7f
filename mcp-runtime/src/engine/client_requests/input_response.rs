use serde::{Deserialize, Serialize};

use crate::error::Fault;

/// A client's response to a request from the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InputResponse {
    /// The result, as JSON.
    Result(String),
    /// The message of the error that the client responded with.
    Error(String),
}

/// Turns the response to a request into the result that the function receives.
pub(in crate::engine) fn into_result(response: InputResponse, method: &str) -> Result<String, Fault> {
    match response {
        InputResponse::Result(json) => Ok(json),
        InputResponse::Error(message) => Err(Fault::AnswerError { method: method.to_owned(), message }),
    }
}
