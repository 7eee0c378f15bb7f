//! Limits over all clients of a server, and each client's share of them: calls in flight, listeners, and memory for
//! request bodies and unread responses, whose buffers are reused.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::sync::{SemaphorePermit, watch};

use super::{
    options::HttpOptions,
    peers::{Peer, PeerPermit, Peers, Pool, Resource},
    session::LocalSessions,
    sse::body::ShutdownPhase,
};
use crate::{
    counters::{Counter, EndpointBuffers, EndpointStats},
    engine::{Permit, too_many_listeners},
    error::Fault,
    stdx::{Mutex, OnDrop},
};

/// The maximum size of a response that does not count towards the memory of unread responses. Each connection has at
/// most one unread response, and buffers more than this anyway.
const UNCOUNTED_RESPONSE_BYTES: usize = 16 << 10;
/// Calls are rejected while less than this fraction of the memory of unread responses is free, so that most
/// functions only run if their response will fit.
const FREE_FRACTION: usize = 16;
/// The maximum number of open `subscriptions/listen` requests.
const MAX_LISTENERS: usize = 10_000;
/// The maximum number of requests to the routes of an authenticator that are handled at once.
const MAX_AUTHORIZATION_REQUESTS: usize = 128;

/// The number of counters of messages that are being received, so that few workers write to the same one.
const RECEIVING_SHARDS: usize = 8;

/// The limits that all clients share. Requests that exceed them are rejected with status 503.
#[derive(Debug)]
pub(super) struct SharedLimits {
    pub(super) peers: Arc<Peers>,
    calls: Pool,
    /// Explains why there is no permit for a call.
    shutdown: watch::Receiver<ShutdownPhase>,
    pub(super) authorization_requests: Pool,
    listeners: Pool,
    /// One permit for each byte.
    body_memory: Pool,
    /// One permit for each byte of the responses that are written to connections.
    response_memory: Pool,
    pub(super) buffers: Arc<SpareBuffers>,
    /// Senders with one receiver for each message that is being received. The messages of a connection use one of them.
    receiving: [watch::Sender<()>; RECEIVING_SHARDS],
    sessions: Arc<LocalSessions>,
}

/// A response, and the memory that is reserved for it until it is written.
struct UnreadResponse {
    message: ReusedBuffer,
    _memory: PeerPermit,
}

impl SharedLimits {
    pub(super) fn new(
        options: &HttpOptions,
        sessions: Arc<LocalSessions>,
        shutdown: watch::Receiver<ShutdownPhase>,
    ) -> Self {
        let pool = |resource, max| Pool::new(resource, max, options.max_peer_share);
        Self {
            peers: Arc::new(Peers::new(options.max_peer_share)),
            calls: pool(Resource::Calls, options.max_in_flight),
            shutdown,
            authorization_requests: pool(Resource::AuthorizationRequests, MAX_AUTHORIZATION_REQUESTS),
            listeners: pool(Resource::Listeners, MAX_LISTENERS),
            body_memory: pool(Resource::BodyBytes, options.body_memory()),
            response_memory: pool(Resource::ResponseBytes, options.max_unread_response_bytes),
            buffers: Arc::default(),
            receiving: Default::default(),
            sessions,
        }
    }

    #[cfg(test)]
    pub(super) fn for_test(options: &HttpOptions, sessions: Arc<LocalSessions>) -> Self {
        Self::new(options, sessions, watch::channel(ShutdownPhase::Running).1)
    }

    /// Returns a permit for a call of a peer, which keeps the memory that is reserved for its arguments.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if too many calls are in flight, or too many bytes of responses are unread, over
    /// all peers or for this peer.
    pub(super) fn admit_call(&self, peer: &Arc<Peer>, body_memory: Option<Arc<PeerPermit>>) -> Result<Permit, Fault> {
        self.check_response_memory(peer)?;
        let permit = self.calls.try_acquire(peer, 1).ok_or_else(|| self.too_many_calls())?;
        let sessions = Arc::clone(&self.sessions);
        // Evicts streams if memory is full, since the client of the finished call may never fetch its response.
        let evict = OnDrop(move || sessions.evict_streams());
        Ok(Box::new((evict, permit, body_memory)))
    }

    /// Checks that [`admit_call`](Self::admit_call) would succeed.
    ///
    /// # Errors
    ///
    /// Returns the same errors.
    pub(super) fn check_capacity(&self, peer: &Peer) -> Result<(), Fault> {
        self.check_response_memory(peer)?;
        if self.calls.available_to(peer) > 0 { Ok(()) } else { Err(self.too_many_calls()) }
    }

    /// Returns a permit for a `subscriptions/listen` request of a peer.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if too many are open, over all peers or for this peer.
    pub(super) fn admit_listener(&self, peer: &Arc<Peer>) -> Result<Permit, Fault> {
        let permit = self.listeners.try_acquire(peer, 1);
        permit.map(|permit| Box::new(permit) as _).ok_or_else(too_many_listeners)
    }

    /// Checks that there is memory for the response of another call. Streams have the same amount of memory as
    /// complete responses.
    fn check_response_memory(&self, peer: &Peer) -> Result<(), Fault> {
        let max = self.response_memory.max;
        let is_full = self.response_memory.available_to(peer) < max / FREE_FRACTION;
        let (own, all) = (peer.stream_bytes.load(Ordering::Relaxed), self.sessions.memory.used());
        let others = all.saturating_sub(own);
        let has_streams = all > max || own > self.response_memory.share.of(max.saturating_sub(others));
        if is_full || has_streams { Err(too_many_unread()) } else { Ok(()) }
    }

    /// Counts a response as unread until it is written or dropped.
    ///
    /// # Errors
    ///
    /// Returns the response if too many bytes are unread already.
    pub(super) fn count_response(&self, peer: &Arc<Peer>, message: Vec<u8>) -> Result<Bytes, Vec<u8>> {
        if message.len() <= UNCOUNTED_RESPONSE_BYTES {
            if message.capacity() <= UNCOUNTED_RESPONSE_BYTES {
                return Ok(message.into());
            }
            let bytes = Bytes::copy_from_slice(&message);
            self.buffers.put(message);
            return Ok(bytes);
        }
        match self.response_memory.try_acquire(peer, message.len()) {
            Some(memory) => {
                let message = ReusedBuffer::new(message, &self.buffers);
                Ok(Bytes::from_owner(UnreadResponse { message, _memory: memory }))
            }
            None => Err(message),
        }
    }

    /// Reserves memory for a peer's request body, in addition to the memory that the peer has reserved already. Returns
    /// `false` if too much memory is in use.
    pub(super) fn reserve_body_memory(
        &self,
        peer: &Arc<Peer>,
        reserved: &mut Option<PeerPermit>,
        bytes: usize,
    ) -> bool {
        if let Some(reserved) = reserved {
            return self.body_memory.try_extend(reserved, bytes);
        }
        *reserved = self.body_memory.try_acquire(peer, bytes);
        reserved.is_some()
    }

    /// Registers a message that is being received on a connection, until the returned value is dropped.
    pub(super) fn start_receiving(&self, connection: usize) -> watch::Receiver<()> {
        self.receiving[connection % RECEIVING_SHARDS].subscribe()
    }

    /// Waits until no message is being received and no call is in flight. No call begins until the returned value is
    /// dropped.
    pub(super) async fn settled(&self) -> Option<SemaphorePermit<'_>> {
        while self.receiving.iter().any(|receiving| !receiving.is_closed()) {
            for receiving in &self.receiving {
                receiving.closed().await;
            }
        }
        self.calls.settled().await
    }

    /// Admits no more calls.
    pub(super) fn close(&self) {
        self.calls.close();
    }

    fn too_many_calls(&self) -> Fault {
        if *self.shutdown.borrow() >= ShutdownPhase::SubscriptionsEnded {
            return Fault::overloaded("the server is shutting down");
        }
        Fault::refused(Counter::RefusedCalls, "too many calls in flight")
    }
}

impl EndpointStats for SharedLimits {
    fn add_to(&self, buffers: &mut EndpointBuffers) {
        let Self { body_memory, response_memory, sessions, .. } = self;
        buffers.requests.add(body_memory.max - body_memory.free(), body_memory.max);
        buffers.responses.add(response_memory.max - response_memory.free(), response_memory.max);
        buffers.streams.add(sessions.memory.used(), response_memory.max);
    }
}

/// Returns the error for a response that is discarded because clients do not read theirs.
pub(super) fn too_many_unread() -> Fault {
    Fault::refused(Counter::RefusedMemory, "too much response data is unread")
}

impl AsRef<[u8]> for UnreadResponse {
    fn as_ref(&self) -> &[u8] {
        &self.message.buffer
    }
}

/// The minimum capacity of a buffer that is reused. An allocator reuses smaller buffers itself, while it usually
/// returns larger buffers to the operating system, so that a message of 1 MiB costs hundreds of page faults for each
/// copy of it.
const MIN_CAPACITY: usize = 64 << 10;
/// The maximum capacity of a buffer that is reused.
const MAX_CAPACITY: usize = 2 << 20;
/// The maximum number of unused buffers.
const MAX_SPARE: usize = 4;
/// The number of consecutive small messages in large buffers after which the unused buffers are released.
const SMALL_MESSAGES: u8 = 16;

/// The buffers of large request bodies and responses that are not in use: at most [`MAX_SPARE`] of [`MAX_CAPACITY`]
/// bytes. Others are released.
#[derive(Debug, Default)]
pub(super) struct SpareBuffers {
    spare: Mutex<Spare>,
    /// The number of unused buffers, so that small messages need not lock if there are none.
    count: AtomicUsize,
}

#[derive(Debug, Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    small_messages: u8,
}

/// A buffer that is reused when it is dropped.
#[derive(Debug)]
pub(super) struct ReusedBuffer {
    pub(super) buffer: Vec<u8>,
    spare: Arc<SpareBuffers>,
}

impl SpareBuffers {
    /// Returns an unused buffer, or `None` if there is none because the latest messages were small.
    pub(super) fn take(&self) -> Option<Vec<u8>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.update(|spare| spare.buffers.pop())
    }

    /// Makes a buffer available to other messages, with its content.
    pub(super) fn put(&self, mut buffer: Vec<u8>) {
        if !(MIN_CAPACITY..=MAX_CAPACITY).contains(&buffer.capacity()) {
            return;
        }
        self.update(|spare| {
            let is_small = buffer.len() < MIN_CAPACITY;
            spare.small_messages = if is_small { spare.small_messages.saturating_add(1) } else { 0 };
            if spare.small_messages >= SMALL_MESSAGES {
                spare.buffers.clear();
            } else if spare.buffers.len() < MAX_SPARE {
                buffer.clear();
                spare.buffers.push(buffer);
            }
        });
    }

    fn update<T>(&self, update: impl FnOnce(&mut Spare) -> T) -> T {
        let mut spare = self.spare.lock();
        let result = update(&mut spare);
        self.count.store(spare.buffers.len(), Ordering::Relaxed);
        result
    }
}

impl ReusedBuffer {
    pub(super) fn new(buffer: Vec<u8>, spare: &Arc<SpareBuffers>) -> Self {
        Self { buffer, spare: Arc::clone(spare) }
    }
}

impl Drop for ReusedBuffer {
    fn drop(&mut self) {
        self.spare.put(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_buffers_are_reused_until_messages_are_small_again() {
        let spare = Arc::new(SpareBuffers::default());
        let put = |length: usize, capacity: usize| {
            let mut buffer = ReusedBuffer::new(Vec::with_capacity(capacity), &spare);
            buffer.buffer.resize(length, b'x');
        };
        put(10, 10);
        put(10, MIN_CAPACITY - 1);
        put(MAX_CAPACITY + 1, MAX_CAPACITY + 1);
        assert_eq!(spare.take(), None);
        for _ in 0..2 * MAX_SPARE {
            put(MIN_CAPACITY, MAX_CAPACITY);
        }
        for _ in 0..MAX_SPARE {
            let buffer = spare.take().expect("large buffers are reused");
            assert_eq!((buffer.len(), buffer.capacity()), (0, MAX_CAPACITY));
        }
        assert_eq!(spare.take(), None);

        put(MIN_CAPACITY, MAX_CAPACITY);
        for _ in 1..SMALL_MESSAGES {
            let buffer = spare.take().expect("few messages were small");
            spare.put(buffer);
        }
        let last = spare.take().expect("few messages were small");
        put(MIN_CAPACITY, MAX_CAPACITY);
        spare.put(last);
        assert!(spare.take().is_some(), "a large message starts the count again");
        for _ in 0..SMALL_MESSAGES {
            put(1, MIN_CAPACITY);
        }
        assert_eq!(spare.take(), None);
    }

    #[test]
    fn a_small_response_does_not_keep_a_large_buffer() {
        let options = HttpOptions::default();
        let limits = SharedLimits::for_test(&options, Arc::new(LocalSessions::new(&options)));
        let mut message = Vec::with_capacity(MIN_CAPACITY);
        message.push(b'x');
        let response = limits.count_response(&limits.peers.principal("ada"), message);
        assert_eq!(response.as_deref(), Ok(&b"x"[..]));
        assert!(limits.buffers.take().is_some(), "the buffer is not available to other messages");
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn statistics_show_what_is_in_use() {
        let options = HttpOptions::default().max_body_bytes(100).max_total_body_bytes(1000);
        let options = options.max_unread_response_bytes(100_000);
        let sessions = Arc::new(LocalSessions::new(&options));
        let limits = SharedLimits::for_test(&options, Arc::clone(&sessions));
        let ada = limits.peers.principal("ada");
        let mut body = None;
        assert!(limits.reserve_body_memory(&ada, &mut body, 300));
        let _response = limits.count_response(&ada, vec![b'x'; 20_000]).unwrap();
        let _stream = sessions.memory.of_peer(&ada).count(7);
        let mut buffers = EndpointBuffers::default();
        limits.add_to(&mut buffers);
        let shown = [buffers.requests, buffers.responses, buffers.streams].map(|buffer| (buffer.used, buffer.max));
        assert_eq!(shown, [(300, 1000), (20_000, 100_000), (7, 100_000)]);
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn the_streams_of_a_peer_use_at_most_its_share_of_what_others_leave_free() {
        let options = HttpOptions::default().max_unread_response_bytes(1000).max_peer_share(0.5);
        let sessions = Arc::new(LocalSessions::new(&options));
        let limits = SharedLimits::for_test(&options, Arc::clone(&sessions));
        let [ada, eve] = ["ada", "eve"].map(|name| limits.peers.principal(name));
        for (own, others, is_admitted) in [
            (0, 0, true),
            (500, 0, true),
            (501, 0, false),
            (200, 600, true),
            (201, 600, false),
            (0, 1000, true),
            (1, 999, true),
            (2, 998, false),
            (0, 1001, false),
        ] {
            let _kept = [(&ada, own), (&eve, others)].map(|(peer, bytes)| sessions.memory.of_peer(peer).count(bytes));
            assert_eq!(limits.admit_call(&ada, None).is_ok(), is_admitted, "{own} {others}");
            assert_eq!(limits.check_capacity(&ada).is_ok(), is_admitted, "{own} {others}");
        }
    }
}
