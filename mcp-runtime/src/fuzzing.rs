//! The internals that the fuzz targets in `fuzz/` test. Compiled only with `--cfg fuzzing`, which `cargo fuzz` sets.

use crate::jsonrpc::{self, Id, Incoming, Malformed, Message, ResponseBody, Transmission};

/// A text as the message reader understands it.
#[derive(Debug)]
pub enum Parsed {
    /// The text is not JSON.
    Syntax,
    /// The JSON is not a message. Contains the id, as JSON.
    Invalid(Option<String>),
    /// A request: its id as JSON, its method, and its parameters as raw JSON.
    Request(String, String, Option<Vec<(String, String)>>),
    /// A notification: its method, and its parameters as raw JSON.
    Notification(String, Option<Vec<(String, String)>>),
    /// A response: its id as JSON, and the result or the error as raw JSON.
    Response(Option<String>, Result<String, String>),
    /// A batch of messages as raw JSON.
    Batch(Vec<String>),
}

/// Reads a message or a batch.
pub fn parse(text: &str) -> Parsed {
    match jsonrpc::parse(text) {
        Transmission::Batch(messages) => Parsed::Batch(messages.map(str::to_owned).collect()),
        Transmission::One(Err(Malformed::Parse(_))) => Parsed::Syntax,
        Transmission::One(Err(Malformed::Invalid(id, _))) => Parsed::Invalid(id.as_ref().map(as_json)),
        Transmission::One(Ok(Incoming::Request(message, id))) => {
            Parsed::Request(as_json(&id), message.method.clone().into_owned(), params(&message))
        }
        Transmission::One(Ok(Incoming::Notification(message))) => {
            Parsed::Notification(message.method.clone().into_owned(), params(&message))
        }
        Transmission::One(Ok(Incoming::Response(id, body))) => {
            let body = match body {
                ResponseBody::Result(result) => Ok(result.to_owned()),
                ResponseBody::Error(error) => Err(error.to_owned()),
            };
            Parsed::Response(id.as_ref().map(as_json), body)
        }
    }
}

fn as_json(id: &Id) -> String {
    id.as_json().to_owned()
}

fn params(message: &Message<'_>) -> Option<Vec<(String, String)>> {
    let members = message.params.as_ref()?.members();
    Some(members.map(|(name, value)| (name.into_owned(), value.to_owned())).collect())
}
