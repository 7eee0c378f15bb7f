//! Limits over all clients of a server: calls in flight, and memory for request bodies and unread responses.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::{options::HttpOptions, session::Sessions};
use crate::{engine::Permit, error::Fault};

/// The maximum size of a response that does not count towards the memory of unread responses. Each connection has at
/// most one unread response, and buffers more than this anyway.
const UNCOUNTED_RESPONSE_BYTES: usize = 16 << 10;
/// Calls are rejected while less than this fraction of the memory of unread responses is free, so that most
/// functions only run if their response will fit.
const FREE_FRACTION: usize = 16;

/// The limits that all clients share. Requests that exceed them are rejected with status 503.
#[derive(Debug)]
pub(super) struct SharedLimits {
    calls: Arc<Semaphore>,
    max_calls: usize,
    /// One permit for each byte.
    body_memory: Arc<Semaphore>,
    /// One permit for each byte of the responses that are written to connections.
    response_memory: Arc<Semaphore>,
    max_response_memory: usize,
    /// The sender with one receiver for each message that is being received.
    receiving: watch::Sender<()>,
    sessions: Arc<Sessions>,
}

/// A response, and the memory that is reserved for it until it is written.
struct UnreadResponse {
    message: Vec<u8>,
    _memory: OwnedSemaphorePermit,
}

/// The permit of a call in flight.
#[derive(Debug)]
struct CallPermit {
    _permit: OwnedSemaphorePermit,
    sessions: Arc<Sessions>,
}

impl SharedLimits {
    pub(super) fn new(options: &HttpOptions, sessions: Arc<Sessions>) -> Self {
        Self {
            calls: Arc::new(Semaphore::new(options.max_in_flight)),
            max_calls: options.max_in_flight,
            body_memory: Arc::new(Semaphore::new(options.body_memory())),
            response_memory: Arc::new(Semaphore::new(options.max_unread_response_bytes)),
            max_response_memory: options.max_unread_response_bytes,
            receiving: watch::Sender::new(()),
            sessions,
        }
    }

    /// Returns a permit for a call.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if too many calls are in flight, or too many bytes of responses are unread.
    pub(super) fn admit_call(&self) -> Result<Permit, Fault> {
        self.check_response_memory()?;
        let permit = Arc::clone(&self.calls).try_acquire_owned().map_err(|_| too_many_calls())?;
        Ok(Box::new(CallPermit { _permit: permit, sessions: Arc::clone(&self.sessions) }))
    }

    /// Checks that [`admit_call`](Self::admit_call) would succeed.
    ///
    /// # Errors
    ///
    /// Returns the same errors.
    pub(super) fn check_capacity(&self) -> Result<(), Fault> {
        self.check_response_memory()?;
        if self.calls.available_permits() > 0 { Ok(()) } else { Err(too_many_calls()) }
    }

    /// Checks that there is memory for the response of another call. Streams have the same amount of memory as
    /// complete responses.
    fn check_response_memory(&self) -> Result<(), Fault> {
        let max = self.max_response_memory;
        let is_full = self.response_memory.available_permits() < max / FREE_FRACTION;
        if is_full || self.sessions.memory().used() > max { Err(too_many_unread()) } else { Ok(()) }
    }

    /// Counts a response as unread until it is written or dropped.
    ///
    /// # Errors
    ///
    /// Returns the response if too many bytes are unread already.
    pub(super) fn count_response(&self, message: Vec<u8>) -> Result<Bytes, Vec<u8>> {
        if message.len() <= UNCOUNTED_RESPONSE_BYTES {
            return Ok(message.into());
        }
        let memory = Arc::clone(&self.response_memory);
        match u32::try_from(message.len()).map(|bytes| memory.try_acquire_many_owned(bytes)) {
            Ok(Ok(memory)) => Ok(Bytes::from_owner(UnreadResponse { message, _memory: memory })),
            _ => Err(message),
        }
    }

    /// Reserves memory for a request body, or returns `None` if all of it is in use.
    pub(super) fn reserve_body_memory(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.body_memory).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }

    /// Registers a message that is being received, until the returned value is dropped.
    pub(super) fn start_receiving(&self) -> watch::Receiver<()> {
        self.receiving.subscribe()
    }

    /// Waits until no message is being received and no call is in flight.
    pub(super) async fn settled(&self) {
        self.receiving.closed().await;
        let all = u32::try_from(self.max_calls).unwrap_or(u32::MAX);
        let _ = self.calls.acquire_many(all).await;
    }
}

fn too_many_calls() -> Fault {
    Fault::overloaded("too many calls in flight")
}

/// Returns the error for a response that is discarded because clients do not read theirs.
pub(super) fn too_many_unread() -> Fault {
    Fault::overloaded("too much response data is unread")
}

impl AsRef<[u8]> for UnreadResponse {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Drop for CallPermit {
    /// Evicts streams if memory is full, since the client of the finished call may never fetch its response.
    fn drop(&mut self) {
        self.sessions.evict_streams();
    }
}
