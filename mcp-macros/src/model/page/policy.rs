//! The origins that a page may use, and whether they permit a URL.

use syn::LitStr;

use crate::{errors::Errors, model::literal::json_string};

/// The declared origins of a page.
pub(super) struct Policy([Vec<Origin>; 4]);

/// The purpose for which a page loads a URL. The value is the position in [`Policy`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Connect,
    Resource,
    Frame,
    Base,
}

impl Use {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Connect, "connect", "connectDomains"),
        (Self::Resource, "resources", "resourceDomains"),
        (Self::Frame, "frames", "frameDomains"),
        (Self::Base, "base_uris", "baseUriDomains"),
    ];

    /// Returns the name of the option that declares the origins.
    pub(super) fn option(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// A source expression of a content security policy: a scheme, a host, which may begin with `*.`, and a port.
struct Origin {
    written: String,
    scheme: String,
    host: String,
    port: Option<String>,
}

impl Policy {
    /// Checks the declared origins, in the order of [`Use`].
    pub(super) fn check(given: [&Vec<LitStr>; 4], errors: &mut Errors) -> Self {
        let mut policy = Self(Default::default());
        for ((kind, option, _), literals) in Use::ALL.into_iter().zip(given) {
            let origins = &mut policy.0[kind as usize];
            for literal in literals {
                let value = literal.value();
                let example = if kind == Use::Connect { "https://api.example.com" } else { "https://cdn.example.com" };
                match Origin::parse(&value, kind == Use::Connect) {
                    None => errors.on(
                        literal,
                        format_args!(
                            "invalid origin `{value}` of `{option}`, expected a scheme and a host such as `{example}`"
                        ),
                    ),
                    Some(_) if origins.iter().any(|other| other.written == value) => {
                        errors.on(literal, format_args!("duplicate origin `{value}`"));
                    }
                    Some(origin) => origins.push(origin),
                }
            }
        }
        policy
    }

    /// Returns the value of `csp`, unless it would be empty.
    pub(super) fn json(&self) -> Option<String> {
        let member = |(kind, _, name): &(Use, _, &str)| {
            let origins = &self.0[*kind as usize];
            let list: Vec<_> = origins.iter().map(|origin| json_string(&origin.written)).collect();
            (!list.is_empty()).then(|| format!(r#""{name}":[{}]"#, list.join(",")))
        };
        let members: Vec<_> = Use::ALL.iter().filter_map(member).collect();
        (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
    }

    /// Returns whether the policy permits a URL.
    pub(super) fn permits(&self, kind: Use, url: &str) -> bool {
        let Some((scheme, host, port)) = split(url) else { return false };
        self.0[kind as usize].iter().any(|origin| origin.matches(&scheme, &host, port.as_deref()))
    }
}

impl Origin {
    fn parse(written: &str, connects: bool) -> Option<Self> {
        let (scheme, host, port) = split(written)?;
        let is_known = matches!(&*scheme, "https" | "http") || (connects && matches!(&*scheme, "wss" | "ws"));
        let name = host.strip_prefix("*.").unwrap_or(&host);
        let is_label =
            |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let has_path = written.matches('/').count() > 2 || written.contains(['?', '#', '@']);
        let has_valid_port = port.as_ref().is_none_or(|port| port.parse::<u16>().is_ok());
        (is_known && name.split('.').all(is_label) && !has_path && has_valid_port).then(|| Self {
            written: written.to_owned(),
            scheme,
            host,
            port,
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

/// Returns whether a script computes the host of the URL in a template literal, as in `https://${host}/`.
pub(super) fn has_computed_host(url: &str) -> bool {
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
impl Policy {
    pub(super) fn of(given: [&[&str]; 4]) -> Self {
        Self(given.map(|origins| origins.iter().filter_map(|origin| Origin::parse(origin, true)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_permit_urls_as_browsers_match_them() {
        for (origin, url, expected) in [
            ("https://a.example", "https://a.example/x?y", true),
            ("https://a.example", "HTTPS://A.EXAMPLE", true),
            ("https://a.example", "//a.example/x", true),
            ("https://a.example", "https://a.example:443/x", true),
            ("https://a.example", "https://a.example:8443/x", false),
            ("https://a.example:8443", "https://a.example:8443/x", true),
            ("https://a.example", "http://a.example/x", false),
            ("http://a.example", "https://a.example/x", true),
            ("https://a.example", "wss://a.example/x", false),
            ("wss://a.example", "wss://a.example/x", true),
            ("https://*.a.example", "https://b.a.example", true),
            ("https://*.a.example", "https://a.example", false),
            ("https://a.example", "https://a.example.evil.example", false),
            ("https://a.example", "https://b.example", false),
            ("https://a.example", "https://${host}/x", false),
            ("https://*.a.example", r"https://evil.example\.a.example", false),
        ] {
            assert_eq!(Policy::of([&[origin], &[], &[], &[]]).permits(Use::Connect, url), expected, "{origin} {url}");
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
            ("a.example", false, false),
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
            assert_eq!(Origin::parse(origin, connects).is_some(), expected, "{origin}");
        }
    }
}
