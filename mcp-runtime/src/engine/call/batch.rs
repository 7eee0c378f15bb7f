//! The response of a batch: an array that goes out when its last request is answered.
//!
//! See [Batching](https://modelcontextprotocol.io/specification/2025-03-26/basic#batching).

use std::sync::{Arc, Mutex, PoisonError};

/// Where in its outbox the response of a call goes.
#[derive(Debug, Clone)]
pub(crate) enum Sink {
    /// It is a line of its own.
    Line,
    /// It is a part of the response of its batch.
    Batch(Arc<Batch>),
}

#[derive(Debug)]
pub(crate) struct Batch {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Responses with commas between them.
    responses: Vec<u8>,
    /// Requests that are neither answered nor cancelled, and one for the batch itself while it is still being read.
    open: usize,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::new(State { responses: Vec::new(), open: 1 }) }
    }

    /// Counts a request that will be answered later.
    pub(crate) fn expect(&self) {
        self.change(|state| state.open += 1);
    }

    /// Adds a response that is there at once.
    pub(crate) fn add(&self, response: &[u8]) {
        self.change(|state| state.add(response));
    }

    /// Adds a response that was expected, and writes the batch's if it was the last.
    pub(crate) fn push(&self, response: &[u8], out: &mut Vec<u8>) {
        self.change(|state| {
            state.add(response);
            state.close_one(out);
        });
    }

    /// Gives up a response that was expected, or ends the reading of the batch.
    pub(crate) fn skip(&self, out: &mut Vec<u8>) {
        self.change(|state| state.close_one(out));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl State {
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
