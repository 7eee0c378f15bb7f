//! Hosts of the machine itself.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Returns a host without its port.
pub(crate) fn without_port(authority: &str) -> &str {
    authority.trim_end_matches(|char: char| char.is_ascii_digit()).strip_suffix(':').unwrap_or(authority)
}

/// Returns whether a host with an optional port is `localhost` or a loopback address. IPv6 addresses are in brackets.
pub(crate) fn is_loopback(authority: &str) -> bool {
    let host = without_port(authority);
    let ipv6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    // The common hosts come first, since parsing an address takes longer.
    host == "127.0.0.1"
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || ipv6.and_then(|host| host.parse::<Ipv6Addr>().ok()).is_some_and(|address| address.is_loopback())
}
