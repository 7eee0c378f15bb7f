//! The origins that a page may use, and whether they permit a URL.

/// The declared origins of a page, by their use.
#[derive(Debug, Default)]
pub struct Policy([Vec<Origin>; 4]);

/// The purpose for which a page loads a URL. The value is the position in [`Policy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Requests of scripts.
    Connect,
    /// Scripts, style sheets, fonts, images and media.
    Resource,
    /// Frames.
    Frame,
    /// `<base href>`.
    Base,
}

impl Use {
    /// Every use, with the name of its option in `#[ui]` and of its list in `_meta.ui.csp`.
    pub const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Connect, "connect", "connectDomains"),
        (Self::Resource, "resources", "resourceDomains"),
        (Self::Frame, "frames", "frameDomains"),
        (Self::Base, "base_uris", "baseUriDomains"),
    ];

    /// Returns the name of the option that declares the origins.
    pub fn option(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Why an origin is not part of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// It is no origin, or its scheme does not fit the use.
    Invalid,
    /// The policy contains it already.
    Duplicate,
}

/// A source expression of a content security policy: a scheme, a host, which may begin with `*.`, and a port.
#[derive(Debug)]
struct Origin {
    written: String,
    scheme: String,
    host: String,
    port: Option<String>,
}

impl Policy {
    /// Creates a policy from the origins of each use, in the order of [`Use`]. Leaves out what [`add`](Self::add) rejects.
    pub fn of(origins: &[&[&str]; 4]) -> Self {
        let mut policy = Self::default();
        for ((kind, ..), origins) in Use::ALL.into_iter().zip(origins) {
            for origin in *origins {
                let _ = policy.add(kind, origin);
            }
        }
        policy
    }

    /// Adds an origin.
    ///
    /// # Errors
    ///
    /// Fails if it is invalid or a duplicate.
    pub fn add(&mut self, kind: Use, written: &str) -> Result<(), Rejected> {
        let origin = Origin::parse(written).ok_or(Rejected::Invalid)?;
        if kind != Use::Connect && matches!(&*origin.scheme, "wss" | "ws") {
            return Err(Rejected::Invalid);
        }
        let origins = &mut self.0[kind as usize];
        if origins.iter().any(|other| other.written == written) {
            return Err(Rejected::Duplicate);
        }
        origins.push(origin);
        Ok(())
    }

    /// Returns the origins of each use as they are written, in the order of [`Use`].
    pub fn origins(&self) -> [Vec<&str>; 4] {
        self.0.each_ref().map(|origins| origins.iter().map(|origin| &*origin.written).collect())
    }

    /// Returns whether the policy permits a URL.
    pub fn permits(&self, kind: Use, url: &str) -> bool {
        let Some((scheme, host, port)) = split(url) else { return false };
        self.0[kind as usize].iter().any(|origin| origin.matches(&scheme, &host, port.as_deref()))
    }
}

impl Origin {
    /// Parses nothing but an origin, so that it cannot end its directive or the policy.
    fn parse(written: &str) -> Option<Self> {
        let (scheme, authority) = written.split_once("://")?;
        let (host, port) = authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
        let is_label =
            |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
        let scheme = scheme.to_ascii_lowercase();
        let is_valid = matches!(&*scheme, "https" | "http" | "wss" | "ws")
            && host.strip_prefix("*.").unwrap_or(host).split('.').all(is_label)
            && port.is_none_or(is_port);
        is_valid.then(|| Self {
            written: written.to_owned(),
            scheme,
            host: host.to_ascii_lowercase(),
            port: port.map(str::to_owned),
        })
    }

    /// See [CSP](https://www.w3.org/TR/CSP3/#match-url-to-source-expression).
    fn matches(&self, scheme: &str, host: &str, port: Option<&str>) -> bool {
        let matches_scheme = match (&*self.scheme, scheme) {
            ("http", "https") | ("ws", "wss" | "http" | "https") | ("wss", "https") => true,
            (own, other) => own == other,
        };
        let matches_host = match self.host.strip_prefix('*') {
            Some(suffix) => host.strip_suffix(suffix).is_some_and(|rest| !rest.is_empty()),
            None => self.host == host,
        };
        let default = |scheme: &str| if matches!(scheme, "https" | "wss") { "443" } else { "80" };
        let other = port.unwrap_or(default(scheme));
        let matches_port = match self.port.as_deref() {
            Some(own) => own == other,
            None => other == default(scheme),
        };
        matches_scheme && matches_host && matches_port
    }
}

/// Returns whether a text is an origin: a scheme, a host, which may begin with `*.`, and optionally a port.
pub fn is_origin(text: &str) -> bool {
    Origin::parse(text).is_some()
}

/// Returns whether a script computes the host of the URL in a template literal, as in `https://${host}/`.
pub(crate) fn has_computed_host(url: &str) -> bool {
    split(url).is_some_and(|(_, host, _)| host.contains("${"))
}

/// Splits a URL into its scheme, host and port, in lower case. A URL without a scheme, as in `//host/path`, is secure.
fn split(url: &str) -> Option<(String, String, Option<String>)> {
    let (scheme, rest) = url.strip_prefix("//").map(|rest| ("https", rest)).or_else(|| url.split_once("://"))?;
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.to_owned())),
        None => (authority, None),
    };
    Some((scheme.to_ascii_lowercase(), host.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_permit_urls_as_browsers_match_them() {
        for (origin, url, expected) in [
            ("https://a.example", "https://a.example/x?y", true),
            ("https://a.example", "HTTPS://A.EXAMPLE", true),
            ("HTTPS://A.EXAMPLE", "https://a.example/x", true),
            ("https://a.example", "//a.example/x", true),
            ("https://a.example", "https://a.example:443/x", true),
            ("https://a.example", "https://a.example:8443/x", false),
            ("https://a.example:8443", "https://a.example:8443/x", true),
            ("https://a.example:443", "https://a.example/x", true),
            ("https://a.example", "http://a.example/x", false),
            ("http://a.example", "https://a.example/x", true),
            ("http://a.example", "http://a.example:80/x", true),
            ("http://a.example:80", "http://a.example/x", true),
            ("https://a.example", "wss://a.example/x", false),
            ("wss://a.example", "wss://a.example/x", true),
            ("wss://a.example", "https://a.example/x", true),
            ("wss://a.example", "http://a.example/x", false),
            ("ws://a.example", "ws://a.example/x", true),
            ("ws://a.example", "wss://a.example/x", true),
            ("ws://a.example", "http://a.example/x", true),
            ("ws://a.example", "https://a.example/x", true),
            ("http://a.example", "ws://a.example/x", false),
            ("https://*.a.example", "https://b.a.example", true),
            ("https://*.a.example", "https://a.example", false),
            ("https://*.a.example", "https://evil-a.example", false),
            ("https://*.a.example", "https://evila.example", false),
            ("https://a.example", "https://a.example.evil.example", false),
            ("https://a.example", "https://a.example@evil.example/x", false),
            ("https://a.example", "https://a.example:443@evil.example/x", false),
            ("https://a.example", "https://b.example", false),
            ("https://a.example", "https://${host}/x", false),
            ("https://*.a.example", r"https://evil.example\.a.example", false),
            ("https://*.a.example", "https://evil.example?.a.example", false),
            ("https://*.a.example", "https://evil.example#.a.example", false),
        ] {
            assert_eq!(Policy::of(&[&[origin], &[], &[], &[]]).permits(Use::Connect, url), expected, "{origin} {url}");
        }
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        for (origin, connects, expected) in [
            ("https://a.example", false, true),
            ("http://localhost:8080", false, true),
            ("https://*.a.example", false, true),
            ("wss://a.example", true, true),
            ("wss://a.example", false, false),
            ("ws://a.example", true, true),
            ("ws://a.example", false, false),
            ("a.example", false, false),
            ("//a.example", true, false),
            (r"https://a.example\", true, false),
            ("https://a.example, script-src *", true, false),
            ("https://a.example\r\nX-Header: 1", true, false),
            ("https://a.example\u{e9}", true, false),
            ("https://a.example:", true, false),
            ("https://a.example:+80", true, false),
            ("http://127.0.0.1:*", true, false),
            ("javascript://x", true, false),
            ("'self'", true, false),
            ("https://a.example/path", true, false),
            ("https://", false, false),
            ("https://a.example/", false, false),
            ("https://a.example; script-src *", false, false),
            ("https://a.example 'unsafe-eval'", false, false),
            ("https://*", false, false),
            ("https://a.*.example", false, false),
            ("https://user@a.example", false, false),
            ("https://a.example:99999", false, false),
            ("data:", false, false),
            ("*", false, false),
        ] {
            let kind = if connects { Use::Connect } else { Use::Resource };
            assert_eq!(Policy::default().add(kind, origin).is_ok(), expected, "{origin}");
            assert_eq!(is_origin(origin), Policy::default().add(Use::Connect, origin).is_ok(), "{origin}");
        }
    }

    #[test]
    fn each_use_has_an_origin_once() {
        let mut policy = Policy::default();
        for (kind, origin, expected) in [
            (Use::Connect, "https://a.example", Ok(())),
            (Use::Connect, "https://b.example", Ok(())),
            (Use::Resource, "https://a.example", Ok(())),
            (Use::Connect, "https://a.example", Err(Rejected::Duplicate)),
        ] {
            assert_eq!(policy.add(kind, origin), expected, "{kind:?} {origin}");
        }
        let origins = [vec!["https://a.example", "https://b.example"], vec!["https://a.example"], vec![], vec![]];
        assert_eq!(policy.origins(), origins);
        assert!(policy.permits(Use::Connect, "https://b.example/x"));
        assert!(!policy.permits(Use::Resource, "https://b.example/x"));
    }
}
