//! The proxies in front of a server, which state the address of the client in a header.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderValue};

use super::peers::Remote;

/// The header of [RFC 7239](https://www.rfc-editor.org/rfc/rfc7239), and the older one that most proxies send.
const FORWARDED: &str = "forwarded";
const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// The proxies whose statements about the senders of requests are used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TrustedProxies {
    networks: Vec<Network>,
    /// Whether processes that connect to a Unix socket are proxies.
    unix: bool,
}

/// An address, or a network in CIDR notation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix: u32,
}

impl TrustedProxies {
    /// Parses a list that is separated by commas.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the first invalid entry.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut proxies = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            if entry == "unix" {
                proxies.unix = true;
            } else {
                let network = Network::parse(entry).ok_or_else(|| {
                    format!(
                        "the trusted proxy `{entry}` is invalid: expected an address, a network such as `10.0.0.0/8`, \
                         or `unix`"
                    )
                })?;
                proxies.networks.push(network);
            }
        }
        Ok(proxies)
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the address of the client for which a proxy forwards a request. Returns `None` if the sender is no trusted
    /// proxy, or if it states no address.
    ///
    /// Each proxy adds its client to the end of a header, so the entries are read from the right, up to the first address
    /// that is no trusted proxy: a client can write anything to the left of it. A proxy usually sets one of the two
    /// headers and passes on the other one. If they contradict each other, the result is `0.0.0.0`, an
    /// unknown client, so that a forged header makes its sender neither another client nor the proxy.
    pub(super) fn client(&self, sender: Remote, headers: &HeaderMap) -> Option<SocketAddr> {
        let is_proxy = match sender {
            Remote::Address(address) => self.contains(address.ip()),
            Remote::User(_) => self.unix,
            Remote::Unknown => false,
        };
        if !is_proxy {
            return None;
        }
        let stated = |name, parse: fn(&str) -> Option<SocketAddr>| {
            headers.contains_key(name).then(|| self.nearest_client(headers, name, parse))
        };
        match (stated(FORWARDED, forwarded_for), stated(X_FORWARDED_FOR, node)) {
            (Some(left), Some(right)) if left.map(|client| client.ip()) != right.map(|client| client.ip()) => {
                Some(SocketAddr::from(([0; 4], 0)))
            }
            (stated, other) => stated.or(other)?,
        }
    }

    /// Returns the last address of a header that is no trusted proxy, or the first one if all of them are.
    fn nearest_client(
        &self,
        headers: &HeaderMap,
        name: &str,
        parse: fn(&str) -> Option<SocketAddr>,
    ) -> Option<SocketAddr> {
        // The proxy appends to the text of the client, which may contain any byte.
        let lines = headers.get_all(name).iter().rev().map(HeaderValue::as_bytes);
        let entries = lines.flat_map(|line| line.rsplit(|byte| *byte == b','));
        let mut nearest = None;
        for client in entries.map(|entry| parse(str::from_utf8(entry).unwrap_or_default().trim())) {
            let client = client?;
            nearest = Some(client);
            if !self.contains(client.ip()) {
                break;
            }
        }
        nearest
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address.to_canonical()))
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let stated: IpAddr = address.parse().ok()?;
        let address = stated.to_canonical();
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= bits && address == stated)?,
            None => bits,
        };
        Some(Self { address, prefix })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let (difference, bits) = match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (u128::from(own.to_bits() ^ other.to_bits()), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits() ^ other.to_bits(), 128),
            _ => return false,
        };
        difference.checked_shr(bits - self.prefix).unwrap_or_default() == 0
    }
}

/// Parses an element of `Forwarded`, such as `for="[2001:db8::1]:4711";proto=https`. Every parameter must be well-formed:
/// the text after a comma in a quoted value is no element.
fn forwarded_for(element: &str) -> Option<SocketAddr> {
    let mut client = None;
    for parameter in element.split(';').map(str::trim) {
        let (name, value) = parameter.split_once('=')?;
        let value = match value.strip_prefix('"') {
            Some(quoted) => quoted.strip_suffix('"')?,
            None => value,
        };
        if value.contains(['"', '\\']) {
            return None;
        }
        if name.eq_ignore_ascii_case("for") && client.replace(node(value)?).is_some() {
            return None;
        }
    }
    client
}

/// Parses an address, possibly with a port. An IPv6 address may be in brackets.
fn node(text: &str) -> Option<SocketAddr> {
    let without_port = text.strip_prefix('[').map_or(Some(text), |rest| rest.strip_suffix(']'));
    let address = without_port.and_then(|address| address.parse().ok()).map(|address: IpAddr| (address, 0).into());
    address.or_else(|| text.parse().ok()).map(|client: SocketAddr| (client.ip().to_canonical(), client.port()).into())
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    const PROXY: &str = "10.0.0.1:50000";

    fn proxies() -> TrustedProxies {
        TrustedProxies::parse("10.0.0.0/8, 2001:db8:1::/48,192.0.2.7, unix").unwrap()
    }

    fn client(sender: &str, lines: &[(&str, &str)]) -> Option<String> {
        let headers: HeaderMap = lines
            .iter()
            .map(|(name, value)| {
                (name.parse::<HeaderName>().unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
            })
            .collect();
        let address = proxies().client(Remote::Address(sender.parse().unwrap()), &headers)?;
        Some(if address.port() == 0 { address.ip().to_string() } else { address.to_string() })
    }

    #[test]
    fn addresses_are_read_from_the_right_up_to_the_first_that_is_no_proxy() {
        for (value, expected) in [
            ("198.51.100.1", Some("198.51.100.1")),
            ("é, 198.51.100.1", Some("198.51.100.1")),
            ("198.51.100.1, é", None),
            ("198.51.100.1:4711", Some("198.51.100.1:4711")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:4711", Some("[2001:db8::1]:4711")),
            ("::ffff:198.51.100.1", Some("198.51.100.1")),
            ("6.6.6.6, 198.51.100.1", Some("198.51.100.1")),
            ("6.6.6.6,198.51.100.1, 10.1.2.3,192.0.2.7", Some("198.51.100.1")),
            ("garbage, 198.51.100.1, 2001:db8:1:2::3", Some("198.51.100.1")),
            // All of them are proxies: the first one is the sender.
            ("10.0.0.9, 10.0.0.8", Some("10.0.0.9")),
            // A proxy that states no address of its client is taken for the sender.
            ("", None),
            ("unknown", None),
            ("198.51.100.1, unknown", None),
            ("198.51.100.1,", None),
            ("198.51.100.1, _hidden", None),
            ("198.51.100.1, [2001:db8::1", None),
            ("198.51.100.1, 2001:db8::1]", None),
            ("198.51.100.1, 1.2.3.4:99999", None),
            ("198.51.100.1, 1.2.3", None),
            ("198.51.100.1, unknown, 10.0.0.8", None),
        ] {
            assert_eq!(client(PROXY, &[(X_FORWARDED_FOR, value)]).as_deref(), expected, "{value}");
        }
        let lines = [(X_FORWARDED_FOR, "6.6.6.6"), (X_FORWARDED_FOR, "198.51.100.1"), (X_FORWARDED_FOR, "10.0.0.8")];
        assert_eq!(client(PROXY, &lines).as_deref(), Some("198.51.100.1"));
    }

    #[test]
    fn elements_of_forwarded_are_well_formed() {
        for (value, expected) in [
            ("for=198.51.100.1", Some("198.51.100.1")),
            ("For=198.51.100.1;proto=https;by=10.0.0.1", Some("198.51.100.1")),
            ("proto=http ; for=\"[2001:db8::1]:4711\"", Some("[2001:db8::1]:4711")),
            ("for=\"198.51.100.1:4711\"", Some("198.51.100.1:4711")),
            ("for=6.6.6.6, for=198.51.100.1, for=10.0.0.8", Some("198.51.100.1")),
            // A quote that a client has opened does not hide the element of the proxy.
            ("for=\"6.6.6.6, for=198.51.100.1", Some("198.51.100.1")),
            ("for=198.51.100.1;host=\"a,for=6.6.6.6\"", None),
            ("for=198.51.100.1;host=\"a,for=6.6.6.6;a=\"", None),
            ("for=198.51.100.1;host=\"a,for=6.6.6.6;a=\\\"\"", None),
            ("for=198.51.100.1;for=6.6.6.6", None),
            ("for=unknown", None),
            ("for=_hidden", None),
            ("proto=https", None),
            ("198.51.100.1", None),
            ("for=", None),
        ] {
            assert_eq!(client(PROXY, &[(FORWARDED, value)]).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn headers_that_contradict_each_other_have_no_known_client() {
        for (forwarded, older, expected) in [
            ("for=198.51.100.1", "198.51.100.1", Some("198.51.100.1")),
            ("for=\"198.51.100.1:80\"", "6.6.6.6, 198.51.100.1", Some("198.51.100.1:80")),
            ("for=6.6.6.6", "198.51.100.1", Some("0.0.0.0")),
            ("for=198.51.100.1", "6.6.6.6", Some("0.0.0.0")),
            ("for=unknown", "198.51.100.1", Some("0.0.0.0")),
        ] {
            let found = client(PROXY, &[(FORWARDED, forwarded), (X_FORWARDED_FOR, older)]);
            assert_eq!(found.as_deref(), expected, "{forwarded} {older}");
        }
    }

    #[test]
    fn only_proxies_are_believed() {
        for (sender, is_believed) in [
            ("10.0.0.1:1", true),
            ("10.255.255.255:1", true),
            ("11.0.0.0:1", false),
            ("[::ffff:10.0.0.1]:1", true),
            ("192.0.2.7:1", true),
            ("192.0.2.8:1", false),
            ("[2001:db8:1:ffff::1]:1", true),
            ("[2001:db8:2::1]:1", false),
            ("127.0.0.1:1", false),
        ] {
            let found = client(sender, &[(X_FORWARDED_FOR, "198.51.100.1")]);
            assert_eq!(found.is_some(), is_believed, "{sender}");
        }
        let headers = HeaderMap::from_iter([(X_FORWARDED_FOR.parse().unwrap(), "198.51.100.1".parse().unwrap())]);
        for (remote, is_believed) in [(Remote::User(0), true), (Remote::Unknown, false)] {
            assert_eq!(proxies().client(remote, &headers).is_some(), is_believed, "{remote:?}");
        }
        assert_eq!(TrustedProxies::default().client(Remote::User(0), &headers), None);
    }

    #[test]
    fn lists_have_addresses_and_networks() {
        for (text, is_valid) in [
            ("", true),
            ("10.0.0.1", true),
            ("0.0.0.0/0,::/0", true),
            ("10.1.2.3/8", true),
            ("::ffff:10.0.0.1", true),
            ("unix", true),
            ("10.0.0.0/33", false),
            ("::/129", false),
            ("::ffff:10.0.0.0/104", false),
            ("10.0.0.0/", false),
            ("10.0.0.0/-1", false),
            ("10.0.0", false),
            ("localhost", false),
            ("10.0.0.1 10.0.0.2", false),
        ] {
            assert_eq!(TrustedProxies::parse(text).is_ok(), is_valid, "{text}");
        }
        let all = TrustedProxies::parse("0.0.0.0/0, ::/0").unwrap();
        for address in ["10.0.0.1", "255.255.255.255", "2001:db8::1"] {
            assert!(all.contains(address.parse().unwrap()), "{address}");
        }
    }
}
