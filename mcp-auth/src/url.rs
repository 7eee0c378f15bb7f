//! Absolute URLs whose transport is secure.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
};

use http::{Uri, uri::Authority};

use crate::Error;

/// An absolute `https` URL, or an `http` URL on the loopback interface, without credentials and fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SecureUrl {
    text: String,
    uri: Uri,
}

impl SecureUrl {
    /// # Errors
    ///
    /// Returns what is wrong with the URL.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let error = |reason: &str| Error::url(text, reason);
        if text.contains('#') {
            return Err(error("has a fragment"));
        }
        let uri: Uri = text.parse().map_err(|reason| error(&format!("is invalid: {reason}")))?;
        let authority = uri.authority().ok_or_else(|| error("is not absolute: expected `https://…`"))?;
        if authority.as_str().contains('@') {
            return Err(error("contains credentials"));
        }
        if !has_valid_address(authority) {
            return Err(error("has an invalid host or port"));
        }
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_loopback(authority.host()) => {}
            Some("http") => return Err(error("is not secure: expected `https`, or a host on the loopback interface")),
            _ => return Err(error("is not absolute: expected `https://…`")),
        }
        Ok(Self { text: text.to_owned(), uri })
    }

    /// Returns the text that was parsed.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) fn is_https(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    /// Returns the scheme and authority, as written.
    pub(crate) fn origin(&self) -> &str {
        let end = self.text.find("://").map_or(0, |at| at + 3);
        let path = self.text[end..].find(['/', '?']).map_or(self.text.len(), |at| end + at);
        &self.text[..path]
    }

    /// Returns whether both URLs identify the same resource: scheme and host are compared without case, a default port
    /// and an empty path are added, paths are normalized, and the query is ignored.
    pub(crate) fn identifies_same(&self, other: &Self) -> bool {
        self.normal_parts() == other.normal_parts()
    }

    fn normal_parts(&self) -> (bool, String, Option<u16>, String) {
        let default = if self.is_https() { 443 } else { 80 };
        let host = self.uri.host().unwrap_or_default().to_ascii_lowercase();
        (self.is_https(), host, self.uri.port_u16().or(Some(default)), normal_path(self.uri.path()))
    }
}

impl fmt::Display for SecureUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Decodes unreserved characters of a path, writes other encoded bytes in upper case, and removes `.` and `..`.
///
/// See [RFC 3986, 6.2.2](https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2).
fn normal_path(path: &str) -> String {
    let mut parts = path.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at_checked(2).unwrap_or(("", part));
        match u8::from_str_radix(code, 16).map(char::from) {
            Ok(char) if char.is_ascii_alphanumeric() || "-._~".contains(char) => decoded.push(char),
            _ => decoded.extend(["%", &code.to_ascii_uppercase()]),
        }
        decoded.push_str(rest);
    }
    let mut segments = Vec::new();
    for segment in decoded.split('/').skip(1) {
        if segment == ".." {
            segments.pop();
        } else if segment != "." {
            segments.push(segment);
        }
    }
    if (decoded.ends_with("/.") || decoded.ends_with("/..")) && !segments.is_empty() {
        segments.push("");
    }
    format!("/{}", segments.join("/"))
}

/// Returns whether nothing but a port follows the host, the port is a number other than 0, and brackets contain an IPv6
/// address. The parser of [`Uri`] accepts other text, where browsers would find another host.
pub(crate) fn has_valid_address(authority: &Authority) -> bool {
    let port = authority.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
    let host = authority.host();
    authority.as_str().strip_prefix(host) == Some(&port)
        && port != ":0"
        && (!host.starts_with('[') || in_brackets(host).is_some())
}

pub(crate) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
        || in_brackets(host).is_some_and(|ip| ip.is_loopback())
}

fn in_brackets(host: &str) -> Option<Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::SecureUrl;

    #[test]
    fn only_secure_absolute_urls_are_accepted() {
        for (url, expected) in [
            ("https://id.example.com/a?b=c", None),
            ("http://localhost:80/", None),
            ("http://LocalHost:3000/", None),
            ("http://127.0.0.1:3000", None),
            ("http://[::1]:3000/x", None),
            ("http://id.example.com", Some("is not secure: expected `https`, or a host on the loopback interface")),
            (
                "http://127.0.0.1.example.com",
                Some("is not secure: expected `https`, or a host on the loopback interface"),
            ),
            ("https://a:b@id.example.com", Some("contains credentials")),
            ("http://localhost:id.example.com/", Some("has an invalid host or port")),
            ("https://id.example.com:99999/", Some("has an invalid host or port")),
            ("https://id.example.com:0/", Some("has an invalid host or port")),
            ("http://[127.0.0.1]/", Some("has an invalid host or port")),
            ("https://id.example.com/#a", Some("has a fragment")),
            ("ftp://id.example.com", Some("is not absolute: expected `https://…`")),
            ("id.example.com", Some("is not absolute: expected `https://…`")),
            ("/path", Some("is not absolute: expected `https://…`")),
            ("https:// example.com", Some("is invalid: invalid uri character")),
        ] {
            let expected = expected.map(|reason| format!("the URL `{url}` {reason}"));
            assert_eq!(SecureUrl::parse(url).err().map(|error| error.to_string()), expected, "{url}");
        }
    }

    #[test]
    fn an_origin_ends_before_path_and_query() {
        for url in ["https://a.example:444", "https://a.example:444/x?y/z", "https://a.example:444?y/z"] {
            assert_eq!(SecureUrl::parse(url).expect("a valid URL").origin(), "https://a.example:444", "{url}");
        }
    }

    #[test]
    fn urls_are_compared_after_normalization() {
        for (left, right, same) in [
            ("https://A.example/x", "HTTPS://a.example:443/x", true),
            ("https://a.example", "https://a.example/", true),
            ("https://a.example/x?y", "https://a.example/x", true),
            ("https://a.example/x", "https://a.example/x/", false),
            ("https://a.example/x", "https://a.example/X", false),
            ("https://a.example/%7ex%c3%bc", "https://a.example/~x%C3%BC", true),
            ("https://a.example/x%2fy", "https://a.example/x/y", false),
            ("https://a.example/x%3b", "https://a.example/x;", false),
            ("https://a.example/%25%37", "https://a.example/%257", true),
            ("https://a.example/x%", "https://a.example/x", false),
            ("https://a.example/./x/y/%2e%2E/z", "https://a.example/x/z", true),
            ("https://a.example/../x/.", "https://a.example/x/", true),
            ("https://a.example/x/y/..", "https://a.example/x/", true),
            ("https://a.example/x/..", "https://a.example", true),
            ("https://a.example/x//..", "https://a.example/x/", true),
            ("https://a.example/x/...", "https://a.example/", false),
            ("https://a.example/x", "https://a.example:444/x", false),
            ("http://localhost/x", "https://localhost/x", false),
        ] {
            let [left, right] = [left, right].map(|url| SecureUrl::parse(url).expect("a valid URL"));
            assert_eq!(left.identifies_same(&right), same, "{left} {right}");
        }
    }
}
