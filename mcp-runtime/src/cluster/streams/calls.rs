use serde::{Deserialize, Serialize};

use crate::{engine::write_error, error::Fault, jsonrpc::Id, revision::Dialect};

/// The requests whose responses a stream carries.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StreamCalls {
    /// The ids, as JSON. The size of a message limits them.
    ids: Vec<String>,
    /// Whether the client has sent them as a batch, so that one array carries all responses.
    is_batch: bool,
}

impl StreamCalls {
    /// Describes the requests of a message or a batch.
    pub(crate) fn new<'a>(ids: impl Iterator<Item = &'a Id<'a>>, is_batch: bool) -> Self {
        Self { ids: ids.map(|id| id.as_json().to_owned()).collect(), is_batch }
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
        for (ids, is_batch, expected) in [
            (&["1"][..], false, error("1")),
            (&[r#""a\"""#], false, error(r#""a\"""#)),
            (&[], false, String::new()),
            (&["1", "2"], true, format!("[{},{}]", error("1"), error("2"))),
            (&[], true, String::new()),
        ] {
            let calls: Vec<_> = ids.iter().filter_map(|id| Id::from_json(id)).collect();
            let calls = StreamCalls::decode(&StreamCalls::new(calls.iter(), is_batch).encode()).unwrap();
            let lost = calls.lost(revision::newest_handshake());
            assert_eq!(String::from_utf8(lost).unwrap(), expected, "{ids:?}");
        }
    }
}
