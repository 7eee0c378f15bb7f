//! Hosts of the machine itself.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns a host without its port.
pub(crate) fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Returns whether a host with an optional port is `localhost` or a loopback address. IPv6 addresses are in brackets.
pub(crate) fn is_loopback(authority: &str) -> bool {
    let host = without_port(authority);
    let ipv6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || ipv6.and_then(|host| host.parse::<Ipv6Addr>().ok()).is_some_and(|address| address.is_loopback())
}
