//! Resolving host names, without addresses that are not public where these must not be reached.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
};

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

/// A resolver for a connector, which connects only to the addresses that it returns. So a name cannot resolve to one
/// address for a check and to another for the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resolver {
    pub(crate) only_public: bool,
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let only_public = self.only_public;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let addresses: Vec<_> = found.filter(|address| !only_public || is_public(address.ip())).collect();
            if addresses.is_empty() {
                return Err(io::Error::other("the host has no address that may be used"));
            }
            Ok(addresses.into_iter())
        })
    }
}

/// Returns whether an address belongs to a host on the public internet.
///
/// See the registries of special addresses for [IPv4](https://www.iana.org/assignments/iana-ipv4-special-registry) and
/// [IPv6](https://www.iana.org/assignments/iana-ipv6-special-registry).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        [0 | 10 | 127 | 240..=255, ..] => true,
        [100, second, ..] => (64..128).contains(&second),
        [169, 254, ..] | [192, 168, ..] | [192, 0, 0 | 2, _] | [192, 88, 99, _] => true,
        [172, second, ..] => (16..32).contains(&second),
        [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => true,
        [224..240, ..] => true,
        _ => false,
    };
    !special
}

/// Only `2000::/3` is assigned. Of it, addresses that contain one of IPv4 or are not routed are excluded.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let special = match address.segments() {
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..0x1000, ..] => true,
        [first, ..] => first & 0xe000 != 0x2000,
    };
    !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_not_public_are_known() {
        for (address, expected) in [
            ("8.8.8.8", true),
            ("100.63.255.255", true),
            ("100.128.0.1", true),
            ("172.15.255.255", true),
            ("172.32.0.1", true),
            ("192.0.1.1", true),
            ("2001:200::1", true),
            ("2606:4700::1111", true),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("100.64.0.1", false),
            ("100.127.255.255", false),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.8", false),
            ("192.0.2.1", false),
            ("192.88.99.1", false),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("198.19.255.255", false),
            ("198.51.100.1", false),
            ("203.0.113.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::ffff:8.8.8.8", false),
            ("::ffff:127.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("fc00::1", false),
            ("fe80::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
            ("2001::1", false),
            ("2001:1ff::1", false),
            ("2001:db8::1", false),
            ("2002:7f00:1::", false),
            ("3fff::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[tokio::test]
    async fn a_name_of_the_loopback_interface_is_not_resolved_for_public_requests() {
        for (only_public, expected) in [(true, false), (false, true)] {
            let name: Name = "localhost".parse().unwrap();
            assert_eq!(Resolver { only_public }.call(name).await.is_ok(), expected);
        }
    }
}
