use std::time::Duration;

use bytes::Bytes;

/// The id of the stream for messages that belong to no request.
pub(in crate::transport::http) const GENERAL: u64 = 0;

/// An item that a response receives from a stream.
#[derive(Debug)]
pub(in crate::transport::http) enum StreamItem {
    /// The stream exists, so the client can resume it.
    Opened { stream: u64 },
    /// A message.
    Event { position: u64, line: Bytes },
    /// A message that no log contains. The client cannot resume the stream after this message.
    Message { line: Bytes },
    /// The request of a function to close the response. The client should reconnect after a delay.
    Close { position: u64, retry: Duration },
    /// The stream is complete.
    End,
}

impl StreamItem {
    /// Returns the length of the message.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Event { line, .. } | Self::Message { line } => line.len(),
            _ => 0,
        }
    }
}
