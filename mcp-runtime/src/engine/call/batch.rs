//! Where responses go, and the response of a batch: an array that is sent once every request of the batch is answered.
//!
//! See [Batching](https://modelcontextprotocol.io/specification/2025-03-26/basic#batching).

use std::sync::{Arc, PoisonError};

use crate::{
    counters::Counted,
    debug::debug,
    engine::{
        outbox::Outbox,
        request::{operation::Operation, source::Permit},
        sync::Mutex,
    },
};

/// The destination of the response of a call in flight: a line of the output, or a part of the response of a batch.
pub(crate) struct Sink {
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) batch: Option<Arc<Batch>>,
    /// The capacity of the transport that the call occupies.
    pub(crate) _permit: Option<Permit>,
    /// The operation that ends with the response.
    pub(crate) operation: Operation,
    pub(crate) _count: Counted,
}

impl Sink {
    /// Announces the response.
    pub(super) fn open(&self) {
        if let Some(batch) = &self.batch {
            batch.expect();
        }
        self.outbox.open_call();
    }

    /// Sends the response, or ends the call without one.
    pub(super) fn close(self, response: Option<Vec<u8>>) {
        self.outbox.close_call(|out| match (self.batch, response) {
            (Some(batch), Some(response)) => batch.push(&response, out),
            (Some(batch), None) => batch.skip(out),
            (None, Some(response)) => {
                if response.len() > out.capacity() && out.is_empty() {
                    *out = response;
                } else {
                    out.extend_from_slice(&response);
                }
                out.push(b'\n');
            }
            (None, None) => {}
        });
    }
}

debug!(Sink, self, batch: self.batch);

/// A batch whose response is not yet complete. The limit on messages in a batch bounds the responses that it holds.
#[derive(Debug)]
pub(crate) struct Batch {
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// The responses so far, separated by commas.
    responses: Vec<u8>,
    /// The number of requests that are neither answered nor cancelled, plus one while the batch is being read.
    open: usize,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { progress: Mutex::new(Progress { responses: Vec::new(), open: 1 }) }
    }

    /// Announces a response that follows later.
    pub(crate) fn expect(&self) {
        self.update(|progress| progress.open += 1);
    }

    /// Adds a response that was not announced.
    pub(crate) fn add(&self, response: &[u8]) {
        self.update(|progress| progress.add(response));
    }

    /// Adds an announced response, and writes the response of the batch if this was the last one.
    pub(crate) fn push(&self, response: &[u8], out: &mut Vec<u8>) {
        self.update(|progress| {
            progress.add(response);
            progress.close_one(out);
        });
    }

    /// Drops an announced response or marks the batch as read, and writes the response of the batch if it is
    /// complete.
    pub(crate) fn skip(&self, out: &mut Vec<u8>) {
        self.update(|progress| progress.close_one(out));
    }

    fn update(&self, update: impl FnOnce(&mut Progress)) {
        update(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Progress {
    fn add(&mut self, response: &[u8]) {
        if !self.responses.is_empty() {
            self.responses.push(b',');
        }
        self.responses.extend_from_slice(response);
    }

    fn close_one(&mut self, out: &mut Vec<u8>) {
        self.open -= 1;
        if self.open == 0 && !self.responses.is_empty() {
            out.push(b'[');
            out.append(&mut self.responses);
            out.extend_from_slice(b"]\n");
        }
    }
}
