//! The response of a batch: an array that is sent once every request of the batch is answered.
//!
//! See [Batching](https://modelcontextprotocol.io/specification/2025-03-26/basic#batching).

use std::sync::{Arc, PoisonError};

use crate::engine::sync::Mutex;

/// The destination of a response.
#[derive(Debug, Clone)]
pub(crate) enum Sink {
    /// The output, as a separate line.
    Line,
    /// The response of a batch.
    Batch(Arc<Batch>),
}

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
