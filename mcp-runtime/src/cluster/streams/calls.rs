use serde::{Deserialize, Serialize};

use crate::{
    engine::write_error,
    error::Fault,
    jsonrpc::{Id, Incoming, Message, Transmission, parse},
    revision::Dialect,
};

/// The requests whose responses a stream carries.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StreamCalls {
    /// The ids, as JSON. The size of a message limits them.
    ids: Vec<String>,
    /// Whether the client has sent them as a batch, so that one array carries all responses.
    is_batch: bool,
}

impl StreamCalls {
    /// Reads the requests of a message or a batch.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let id = |message| match message {
            Ok(Incoming::Request(_, id)) => Some(id.as_json().to_owned()),
            _ => None,
        };
        let text = std::str::from_utf8(bytes).unwrap_or_default().trim_start_matches('\u{feff}');
        match parse(text) {
            Transmission::One(message) => Self { ids: id(message).into_iter().collect(), is_batch: false },
            Transmission::Batch(messages) => {
                Self { ids: messages.filter_map(|message| id(Message::read(message))).collect(), is_batch: true }
            }
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Encodes the responses of calls whose results are lost.
    pub(super) fn lost(&self, dialect: &'static Dialect) -> Vec<u8> {
        self.fail(
            dialect,
            "the call was lost, because the process that ran it is gone or could not store the result: the function may \
             have run, completely or in part",
        )
    }

    /// Encodes the responses of calls whose results the backend has no room for.
    pub(super) fn too_long(&self, dialect: &'static Dialect) -> Vec<u8> {
        self.fail(
            dialect,
            "the function has run, but its result is too long to be stored for a client that has lost its connection",
        )
    }

    fn fail(&self, dialect: &'static Dialect, message: &'static str) -> Vec<u8> {
        let fault = Fault::internal(message);
        let responses = self.ids.iter().filter_map(|id| {
            let mut response = Vec::new();
            write_error(&mut response, dialect, Some(&Id::from_json(id)?), &fault);
            Some(response)
        });
        let responses = responses.collect::<Vec<_>>().join(&b","[..]);
        if self.is_batch && !responses.is_empty() { [b"[", &responses[..], b"]"].concat() } else { responses }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision;

    #[test]
    fn every_request_of_a_lost_stream_is_answered() {
        const REASON: &str = "the call was lost, because the process that ran it is gone or could not store the \
                              result: the function may have run, completely or in part";
        let error =
            |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32603,"message":"{REASON}"}}}}"#);
        for (message, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned(), error("1")),
            ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"a\\\"\",\"method\":\"ping\"}".to_owned(), error(r#""a\"""#)),
            (r#"{"jsonrpc":"2.0","method":"ping"}"#.to_owned(), String::new()),
            (
                r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"},
                {"jsonrpc":"2.0","id":2,"method":"c"},{"jsonrpc":"2.0","id":3,"result":{}}]"#
                    .to_owned(),
                format!("[{},{}]", error("1"), error("2")),
            ),
            (r#"[{"jsonrpc":"2.0","method":"b"}]"#.to_owned(), String::new()),
        ] {
            let calls = StreamCalls::decode(&StreamCalls::read(message.as_bytes()).encode()).unwrap();
            let lost = calls.lost(revision::newest_handshake());
            assert_eq!(String::from_utf8(lost).unwrap(), expected, "{message}");
        }
    }
}
