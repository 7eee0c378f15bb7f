//! Limits that peers share, so that one of them cannot keep the others waiting.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{Mutex, MutexGuard, PoisonError},
};

use http::Extensions;
use mcp_runtime::auth::PeerAddr;

/// The sender of a request. All senders whose address is unknown are one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Peer(Option<IpAddr>);

impl Peer {
    /// Returns the sender of the request with these extensions.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        extensions.get::<PeerAddr>().map(|peer| peer.0).into()
    }

    #[cfg(feature = "server")]
    pub(crate) fn address(self) -> Option<IpAddr> {
        self.0
    }

    /// Returns the address, or the network of 64 bits that one sender of IPv6 usually has.
    pub(crate) fn network(self) -> Option<IpAddr> {
        Some(match self.0? {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
            address @ IpAddr::V4(_) => address,
        })
    }
}

impl From<Option<SocketAddr>> for Peer {
    fn from(address: Option<SocketAddr>) -> Self {
        Self(address.map(|address| address.ip().to_canonical()))
    }
}

/// A number of permits, of which each peer may use 3/4 of what the others leave free.
pub(crate) struct Shares {
    max: usize,
    used: Mutex<HashMap<Option<IpAddr>, usize>>,
}

/// A permit of a peer.
pub(crate) struct Share<'a> {
    shares: &'a Shares,
    network: Option<IpAddr>,
}

impl Shares {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, used: Mutex::default() }
    }

    /// Returns `None` if the peer uses its share already.
    pub(crate) fn try_acquire(&self, peer: Peer) -> Option<Share<'_>> {
        let network = peer.network();
        let mut used = self.lock();
        // At most `max` peers have entries.
        let free = self.max.saturating_sub(used.values().sum());
        let own = used.get(&network).copied().unwrap_or_default();
        if free == 0 || own + 1 > ((own + free) * 3).div_ceil(4) {
            return None;
        }
        used.insert(network, own + 1);
        Some(Share { shares: self, network })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Option<IpAddr>, usize>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut used = self.shares.lock();
        match used.get_mut(&self.network) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                used.remove(&self.network);
            }
        }
    }
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shares({})", self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str) -> Peer {
        Some(SocketAddr::new(address.parse().unwrap(), 1)).into()
    }

    /// Each peer acquires as much as it can, one after the other.
    #[test]
    fn a_peer_uses_at_most_its_share_of_what_others_leave_free() {
        let shares = Shares::new(32);
        let mut permits = Vec::new();
        for (sender, expected) in [
            (peer("192.0.2.1"), 24),
            (peer("::ffff:192.0.2.1"), 0),
            (peer("2001:db8:0:1::1"), 6),
            (peer("2001:db8:0:1::2"), 0),
            (Peer::default(), 2),
            (peer("192.0.2.2"), 0),
        ] {
            let acquired: Vec<_> = std::iter::from_fn(|| shares.try_acquire(sender)).collect();
            assert_eq!(acquired.len(), expected, "{sender:?}");
            permits.extend(acquired);
        }
        drop(permits);
        assert!(shares.lock().is_empty());
        assert!(shares.try_acquire(peer("192.0.2.2")).is_some());
    }
    /// Whatever the order in which permits are released, as many are free as are not in use.
    #[test]
    fn a_released_permit_frees_one_place() {
        for order in 0..6 {
            let shares = Shares::new(4);
            let sender = peer("192.0.2.1");
            let mut permits: Vec<_> = (0..3).map(|_| shares.try_acquire(sender).unwrap()).collect();
            assert!(shares.try_acquire(sender).is_none());
            for (used, at) in [(2, order % 3), (1, order / 3)] {
                permits.swap_remove(at);
                assert_eq!(shares.lock().values().sum::<usize>(), used, "{order}");
            }
            permits.extend((0..2).map(|_| shares.try_acquire(sender).unwrap()));
            assert!(shares.try_acquire(sender).is_none(), "{order}");
        }
    }
}
