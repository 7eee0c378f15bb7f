//! The peers of a server, and the share of each limit that a single peer may use.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    handler::{MAX_BLOCKING, max_checks},
    stdx::Mutex,
};

/// The limited resources that peers share.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Resource {
    Connections,
    Handshakes,
    Sessions,
    Calls,
    AuthorizationRequests,
    Listeners,
    BodyBytes,
    ResponseBytes,
}

/// The number of [`Resource`]s.
const RESOURCES: usize = Resource::ResponseBytes as usize + 1;

/// The peers that use any resource.
///
/// The table has no bound of its own: a peer is removed when nothing refers to it, and the connections, sessions and
/// calls that do are limited.
#[derive(Debug)]
pub(crate) struct Peers {
    table: Mutex<HashMap<Key, Weak<Peer>>>,
    share: Share,
}

/// The sender at the other end of a connection, as the operating system reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remote {
    Address(SocketAddr),
    /// The id of the user whose process has connected to a Unix socket.
    #[cfg_attr(not(any(unix, test)), allow(dead_code, reason = "there are no Unix sockets"))]
    User(u32),
    Unknown,
}

impl Remote {
    /// Returns the address, which the sender at a Unix socket does not have.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(address),
            Self::User(_) | Self::Unknown => None,
        }
    }
}

/// Identifies the clients that limits treat as one peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Principal(Box<str>),
    /// An IPv4 address or the first 64 bits of an IPv6 address.
    Network(IpAddr),
    /// The user whose processes have connected to a Unix socket.
    User(u32),
    Unknown,
}

/// The clients that limits treat as one: clients with the same principal or, without one, with the same network address
/// or, at a Unix socket, of the same user.
#[derive(Debug)]
pub(crate) struct Peer {
    key: Key,
    peers: Arc<Peers>,
    used: [AtomicUsize; RESOURCES],
    /// The number of bytes that the peer's streams keep.
    pub(super) stream_bytes: Arc<AtomicUsize>,
    /// One permit for each blocking function that may run at once.
    pub(super) blocking_share: Arc<Semaphore>,
    /// One permit for each slow check of arguments that may run at once.
    pub(super) check_share: Arc<Semaphore>,
}

impl Peers {
    pub(crate) fn new(share: Share) -> Self {
        Self { table: Mutex::default(), share }
    }

    /// Returns the peer with this principal.
    pub(crate) fn principal(self: &Arc<Self>, name: &str) -> Arc<Peer> {
        self.with_key(Key::Principal(name.into()))
    }

    /// Returns the peer of a sender without a principal. All clients whose address is unknown are one peer.
    pub(crate) fn remote(self: &Arc<Self>, remote: Remote) -> Arc<Peer> {
        self.with_key(match remote {
            Remote::Address(address) => Key::Network(network(address.ip())),
            Remote::User(user) => Key::User(user),
            Remote::Unknown => Key::Unknown,
        })
    }

    /// Returns the peer with this key. Creates it if nothing uses it yet.
    fn with_key(self: &Arc<Self>, key: Key) -> Arc<Peer> {
        let mut table = self.table.lock();
        if let Some(peer) = table.get(&key).and_then(Weak::upgrade) {
            return peer;
        }
        let peer = Peer::new(key.clone(), Arc::clone(self));
        table.insert(key, Arc::downgrade(&peer));
        peer
    }
}

/// Returns the network that a peer controls: providers assign 64 bits of IPv6 addresses to each customer.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

impl Peer {
    fn new(key: Key, peers: Arc<Peers>) -> Arc<Self> {
        let blocking_share = Arc::new(Semaphore::new(peers.share.of(MAX_BLOCKING)));
        let check_share = Arc::new(Semaphore::new(peers.share.of(max_checks())));
        let (used, stream_bytes) = Default::default();
        Arc::new(Self { key, peers, used, stream_bytes, blocking_share, check_share })
    }

    /// Returns what distinguishes the peer from other peers: its principal, its network or its user. Returns `None` if
    /// nothing does.
    pub(crate) fn quota_key(&self) -> Option<String> {
        match &self.key {
            Key::Principal(name) => Some(format!("principal {name}")),
            Key::Network(address) => Some(format!("network {address}")),
            Key::User(id) => Some(format!("user {id}")),
            Key::Unknown => None,
        }
    }

    /// Returns how much of a resource the peer uses.
    pub(crate) fn used(&self, resource: Resource) -> usize {
        self.counter(resource).load(Ordering::Acquire)
    }

    fn counter(&self, resource: Resource) -> &AtomicUsize {
        &self.used[resource as usize]
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut table = self.peers.table.lock();
        // A new peer with the same key may have replaced this one.
        if table.get(&self.key).is_some_and(|peer| peer.strong_count() == 0) {
            table.remove(&self.key);
        }
    }
}

/// The fraction of the part that other peers leave free that a single peer may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share(f64);

impl Share {
    /// Creates a share. Values outside of 0 to 1 are clamped.
    pub(crate) fn new(fraction: f64) -> Self {
        Self(if fraction.is_nan() { 1.0 } else { fraction.clamp(0.0, 1.0) })
    }

    /// Returns how much a peer may use of an amount, which is at least 1 unless the amount is 0.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
    pub(crate) fn of(self, amount: usize) -> usize {
        ((amount as f64 * self.0).ceil() as usize).max(usize::from(amount > 0))
    }
}

/// A limited amount of a resource that peers share.
#[derive(Debug)]
pub(crate) struct Pool {
    resource: Resource,
    permits: Arc<Semaphore>,
    pub(super) max: usize,
    pub(super) share: Share,
}

/// A part of a resource that a peer uses until the permit is dropped.
#[derive(Debug)]
pub(crate) struct PeerPermit {
    resource: Resource,
    amount: u32,
    permits: Arc<Semaphore>,
    peer: Arc<Peer>,
}

impl Pool {
    pub(crate) fn new(resource: Resource, max: usize, share: Share) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Self { resource, permits: Arc::new(Semaphore::new(max)), max, share }
    }

    /// Returns a permit, or `None` if too little is free or the peer's share is exceeded.
    pub(crate) fn try_acquire(&self, peer: &Arc<Peer>, amount: usize) -> Option<PeerPermit> {
        let amount = self.try_take(peer, amount)?;
        Some(PeerPermit { resource: self.resource, amount, permits: Arc::clone(&self.permits), peer: Arc::clone(peer) })
    }

    /// Extends a permit. Returns `false` and leaves it unchanged if too little is free or the peer's share is exceeded.
    pub(crate) fn try_extend(&self, permit: &mut PeerPermit, amount: usize) -> bool {
        self.try_take(&permit.peer, amount).map(|amount| permit.amount += amount).is_some()
    }

    /// Returns how much more a peer may use.
    pub(crate) fn available_to(&self, peer: &Peer) -> usize {
        let free = if self.permits.is_closed() { 0 } else { self.permits.available_permits() };
        let used = peer.used(self.resource);
        self.share.of(used + free).saturating_sub(used).min(free)
    }

    /// Returns how much is free.
    pub(crate) fn free(&self) -> usize {
        self.permits.available_permits()
    }

    /// Waits until nothing is in use. Nothing is free from now on, until the returned value is dropped. Returns at once if
    /// the pool is closed.
    pub(crate) async fn settled(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.acquire_many(u32::try_from(self.max).unwrap_or(u32::MAX)).await.ok()
    }

    /// Gives no more permits from now on.
    pub(crate) fn close(&self) {
        self.permits.close();
    }

    /// Takes permits, which a [`PeerPermit`] returns. Returns their number.
    fn try_take(&self, peer: &Peer, amount: usize) -> Option<u32> {
        let number = u32::try_from(amount).ok()?;
        let counter = peer.counter(self.resource);
        // Checked and added in one step, so that concurrent requests of a peer do not pass the same check.
        let add = |before| {
            let allowed = self.share.of(before + self.permits.available_permits());
            (before + amount <= allowed).then_some(before + amount)
        };
        counter.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).ok()?;
        let taken = self.permits.try_acquire_many(number).map(SemaphorePermit::forget).ok();
        if taken.is_none() {
            counter.fetch_sub(amount, Ordering::AcqRel);
        }
        taken.map(|()| number)
    }
}

impl PeerPermit {
    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    #[cfg(test)]
    pub(crate) fn amount(&self) -> usize {
        self.amount as usize
    }
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        self.peer.counter(self.resource).fetch_sub(self.amount as usize, Ordering::AcqRel);
        self.permits.add_permits(self.amount as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_principals_or_networks() {
        let peers = Arc::new(Peers::new(Share::new(0.75)));
        let address = |text: &str| {
            let address: IpAddr = text.parse().unwrap();
            peers.remote(Remote::Address((address, 0).into()))
        };
        let unknown = || peers.remote(Remote::Unknown);
        for (left, right, are_same) in [
            (address("10.0.0.1"), address("10.0.0.1"), true),
            (address("10.0.0.1"), address("10.0.0.2"), false),
            (address("10.0.0.1"), address("::ffff:10.0.0.1"), true),
            (address("2001:db8:0:1::1"), address("2001:db8:0:1:ffff::2"), true),
            (address("2001:db8:0:1::1"), address("2001:db8:0:2::1"), false),
            (unknown(), unknown(), true),
            (unknown(), address("10.0.0.1"), false),
            (peers.remote(Remote::User(0)), peers.remote(Remote::User(0)), true),
            (peers.remote(Remote::User(0)), peers.remote(Remote::User(1000)), false),
            (peers.remote(Remote::User(0)), peers.remote(Remote::Unknown), false),
            (peers.remote(Remote::Address(([10, 0, 0, 1], 80).into())), address("10.0.0.1"), true),
            (peers.principal("ada"), peers.principal("ada"), true),
            (peers.principal("ada"), peers.principal("eve"), false),
            (peers.principal("10.0.0.1"), address("10.0.0.1"), false),
        ] {
            assert_eq!(Arc::ptr_eq(&left, &right), are_same, "{:?} {:?}", left.key, right.key);
            assert_eq!(left.quota_key() == right.quota_key(), are_same, "{:?} {:?}", left.key, right.key);
        }
    }

    #[test]
    fn the_table_contains_only_peers_in_use() {
        let peers = Arc::new(Peers::new(Share::new(0.75)));
        let kept = [peers.principal("ada"), peers.remote(Remote::Unknown)];
        for number in 0..100_u8 {
            peers.principal(&number.to_string());
            peers.remote(Remote::Address(([10, 0, 0, number], 0).into()));
        }
        let keys = || {
            let mut keys: Vec<_> = peers.table.lock().keys().map(|key| format!("{key:?}")).collect();
            keys.sort();
            keys
        };
        assert_eq!(keys(), [r#"Principal("ada")"#, "Unknown"]);
        drop(kept);
        assert!(keys().is_empty());
    }

    /// A peer has one share, even if it returns while its last permit is dropped.
    #[test]
    fn a_peer_that_was_replaced_does_not_remove_its_successor() {
        let peers = Arc::new(Peers::new(Share::new(0.75)));
        let replaced = Peer::new(Key::Principal("ada".into()), Arc::clone(&peers));
        let current = peers.principal("ada");
        drop(replaced);
        assert!(Arc::ptr_eq(&current, &peers.principal("ada")));
    }

    /// Each peer acquires as much as it can, one after the other.
    #[test]
    fn a_peer_uses_at_most_its_share_of_what_others_leave_free() {
        for (share, max, expected) in [
            (0.75, 1, &[1, 0, 0][..]),
            (0.75, 2, &[2, 0]),
            (0.75, 4, &[3, 1, 0]),
            (0.75, 1000, &[750, 188, 47, 12, 3]),
            (0.5, 1000, &[500, 250, 125]),
            (1.0, 1000, &[1000, 0]),
            (0.0, 1000, &[1, 1, 1]),
        ] {
            let peers = Arc::new(Peers::new(Share::new(0.75)));
            let pool = Pool::new(Resource::Calls, max, Share::new(share));
            let mut permits = Vec::new();
            for (number, expected) in expected.iter().enumerate() {
                let peer = peers.principal(&number.to_string());
                let available = pool.available_to(&peer);
                let acquired: Vec<_> = std::iter::from_fn(|| pool.try_acquire(&peer, 1)).collect();
                assert_eq!((acquired.len(), available), (*expected, *expected), "peer {number} of {share} of {max}");
                assert_eq!(peer.used(Resource::Calls), *expected);
                permits.extend(acquired);
            }
            drop(permits);
            assert_eq!(pool.free(), max);
        }
    }

    #[test]
    fn permits_can_be_extended() {
        let peer = Arc::new(Peers::new(Share::new(0.75))).principal("ada");
        let pool = Pool::new(Resource::BodyBytes, 100, Share::new(0.5));
        let mut permit = pool.try_acquire(&peer, 30).unwrap();
        assert!(!pool.try_extend(&mut permit, 21));
        assert!(pool.try_extend(&mut permit, 20));
        assert_eq!((permit.amount(), peer.used(Resource::BodyBytes), pool.free()), (50, 50, 50));
        drop(permit);
        assert_eq!((peer.used(Resource::BodyBytes), pool.free()), (0, 100));
    }
}
