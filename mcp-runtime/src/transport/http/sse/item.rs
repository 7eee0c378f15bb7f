//! The items that a response receives from a stream.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;

/// The id of the stream for messages that belong to no request.
pub(crate) const GENERAL: u64 = 0;

/// An item that a response receives from a stream.
#[cfg_attr(not(feature = "cluster"), allow(dead_code, reason = "only processes that share a backend need it"))]
#[derive(Debug)]
pub(crate) enum StreamItem {
    /// The stream exists, so the client can resume it.
    Opened { stream: u64 },
    /// A message with the number of its event.
    Event { position: u64, line: Bytes },
    /// A message that no log contains. The client cannot resume the stream after this message.
    Message { line: Bytes },
    /// The request of a function to close the response. The client should reconnect after a delay.
    Close { position: u64, retry: Duration },
    /// The stream is complete.
    End,
}

#[cfg(feature = "cluster")]
impl StreamItem {
    /// Returns the length of the message.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Event { line, .. } | Self::Message { line } => line.len(),
            _ => 0,
        }
    }
}

/// A future that a response polls until it is ready.
pub(crate) struct Wait(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Wait {
    pub(crate) fn new(future: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wait")
    }
}
