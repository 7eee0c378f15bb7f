//! The URIs to which authorization responses are sent.

use http::Uri;

use crate::url::has_valid_address;

/// The maximum length of a redirect URI in bytes.
pub(super) const MAX_LENGTH: usize = 1024;

/// Parses a redirect URI that a client may register: `https`, or `http` on the loopback interface, without credentials,
/// fragment, and parameters of responses.
///
/// See [OAuth 2.1](https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1-13#section-2.3.1) and the
/// [security considerations](https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization#security-considerations)
/// of 2025-03-26.
pub(super) fn parse(text: &str) -> Result<Uri, &'static str> {
    if text.len() > MAX_LENGTH {
        return Err("is too long");
    }
    // The parser is stricter than those of browsers, so both find the same host: backslashes, spaces and control
    // characters are errors.
    if text.contains('#') || !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
        return Err("has a fragment or an invalid character");
    }
    let uri: Uri = text.parse().map_err(|_| "is invalid")?;
    let authority = uri.authority().ok_or("is not absolute")?;
    if authority.as_str().contains('@') {
        return Err("contains credentials");
    }
    if !has_valid_address(authority) {
        return Err("has an invalid host or port");
    }
    if contains_response(text) {
        return Err("contains a parameter of authorization responses");
    }
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if is_loopback(&uri) => Ok(uri),
        _ => Err("is neither `https` nor on the loopback interface"),
    }
}

const RESPONSE: [&str; 7] = ["code", "state", "iss", "response", "error", "error_description", "error_uri"];

/// Returns whether the query of a URI contains a parameter of responses. A client might read it in place of the one that is
/// added, and send a code to the issuer that it names.
///
/// See [RFC 6749, 3.1](https://www.rfc-editor.org/rfc/rfc6749#section-3.1) and
/// [RFC 9207](https://www.rfc-editor.org/rfc/rfc9207#section-2.4).
fn contains_response(uri: &str) -> bool {
    let query = uri.split_once('?').map_or("", |(_, query)| query);
    form_urlencoded::parse(query.as_bytes()).any(|(name, _)| RESPONSE.contains(&&*name))
}

/// Returns the scheme of a URI that has a private-use scheme, such as `com.example.app:/callback`. Every program on the machine
/// of the user can claim it, so only the operator may accept such a URI.
///
/// See [RFC 8252, 7.1](https://www.rfc-editor.org/rfc/rfc8252#section-7.1).
pub(super) fn private_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let is_valid = text.len() <= MAX_LENGTH
        && !rest.is_empty()
        && !contains_response(text)
        && !text.contains('#')
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        && scheme.starts_with(|first: char| first.is_ascii_lowercase())
        && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte))
        && !is_reserved(scheme);
    is_valid.then_some(scheme)
}

/// Returns whether browsers and systems handle a scheme themselves.
fn is_reserved(scheme: &str) -> bool {
    matches!(scheme, "about" | "blob" | "chrome" | "data" | "file" | "filesystem" | "ftp" | "http" | "https" | "intent")
        || matches!(scheme, "javascript" | "mailto" | "vbscript" | "view-source")
}

/// Returns whether a URI is on the machine of the user.
pub(super) fn is_loopback(uri: &Uri) -> bool {
    crate::url::is_loopback(uri.host().unwrap_or_default())
}

/// Returns whether a requested URI is a registered one: the same text, except that the port of an `http` URI on the
/// loopback interface may differ, since native applications listen on a free one.
///
/// See [RFC 8252, 7.3](https://www.rfc-editor.org/rfc/rfc8252#section-7.3).
pub(super) fn matches(registered: &str, requested: &str) -> bool {
    if registered == requested {
        return true;
    }
    let (Ok(left), Ok(right)) = (parse(registered), parse(requested)) else { return false };
    let rest = |uri: &Uri| uri.path_and_query().map(|rest| rest.as_str().to_owned());
    left.scheme_str() == Some("http")
        && right.scheme_str() == Some("http")
        && is_loopback(&left)
        && left.host() == right.host()
        && rest(&left) == rest(&right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_uris_are_https_or_on_the_loopback_interface() {
        for (uri, valid) in [
            ("https://app.example/callback", true),
            ("https://app.example/callback?a=b", true),
            ("https://app.example/callback?a=state&codes=1&error_page=2", true),
            ("https://app.example/callback?iss=https://evil.example", false),
            ("https://app.example/callback?a=b&i%73s=x", false),
            ("https://app.example/callback?code=x", false),
            ("https://app.example/callback?state", false),
            ("https://app.example/callback?error_description=x", false),
            ("https://app.example/callback?response=x", false),
            ("http://[127.0.0.1]/callback", false),
            ("https://[x]/callback", false),
            ("https://app.example:0/callback", false),
            ("http://127.0.0.1:3000/callback", true),
            ("http://[::1]/callback", true),
            ("http://localhost/", true),
            ("http://app.example/callback", false),
            ("http://127.0.0.1.app.example/", false),
            ("app://callback", false),
            ("javascript:alert(1)", false),
            ("data:text/html,x", false),
            ("/callback", false),
            ("https://app.example/#fragment", false),
            ("https://app.example\\@evil.example/", false),
            ("https://app.example/\tx", false),
            ("https://app.example@evil.example/", false),
            ("http://localhost:evil.example/callback", false),
            ("http://[::1]evil.example/callback", false),
            ("http://localhost:*/callback", false),
            ("http://localhost:99999/callback", false),
            ("http://localhost:-1/callback", false),
            ("http://localhost:+5/callback", false),
            ("http://localhost:/callback", false),
            ("https://app.example:443/callback", true),
            ("", false),
        ] {
            assert_eq!(parse(uri).is_ok(), valid, "{uri}");
        }
        assert_eq!(parse(&format!("https://app.example/{}", "x".repeat(MAX_LENGTH))).err(), Some("is too long"));
    }

    #[test]
    fn private_schemes_are_not_those_of_browsers() {
        for (uri, scheme) in [
            ("com.example.app:/callback", Some("com.example.app")),
            ("editor://tools/callback?a=b", Some("editor")),
            ("web+app:callback", Some("web+app")),
            ("editor://tools/callback?iss=x", None),
            ("editor:", None),
            ("editor", None),
            (":/callback", None),
            ("Editor:/callback", None),
            ("1editor:/callback", None),
            ("ed itor:/callback", None),
            ("editor:/callback#fragment", None),
            ("editor:/call\\back", None),
            ("editor:/call\nback", None),
            ("https://app.example/", None),
            ("http://app.example/", None),
            ("javascript:alert(1)", None),
            ("data:text/html,x", None),
            ("file:///etc/passwd", None),
            ("about:blank", None),
            ("blob:x", None),
            ("chrome:x", None),
            ("filesystem:x", None),
            ("ftp://app.example/", None),
            ("intent:scan", None),
            ("mailto:ada@app.example", None),
            ("vbscript:x", None),
            ("view-source:x", None),
        ] {
            assert_eq!(private_scheme(uri), scheme, "{uri}");
        }
        assert_eq!(private_scheme(&format!("editor:/{}", "x".repeat(MAX_LENGTH))), None);
    }

    #[test]
    fn redirect_uris_are_compared_exactly_except_for_loopback_ports() {
        for (registered, requested, matching) in [
            ("https://app.example/callback", "https://app.example/callback", true),
            ("https://app.example/callback", "https://app.example/callback/", false),
            ("https://app.example/callback", "https://app.example/callback?x", false),
            ("https://app.example/callback", "https://app.example:444/callback", false),
            ("https://app.example/callback", "https://APP.example/callback", false),
            ("https://app.example/callback", "https://app.example.evil.example/callback", false),
            ("https://app.example/callback", "https://app.example/x/../callback", false),
            ("http://127.0.0.1:3000/callback", "http://127.0.0.1:4000/callback", true),
            ("http://127.0.0.1/callback", "http://127.0.0.1:4000/callback", true),
            ("http://localhost:3000/callback", "http://localhost:4000/callback", true),
            ("http://[::1]:3000/callback", "http://[::1]:4000/callback", true),
            ("http://127.0.0.1:3000/callback", "http://localhost:3000/callback", false),
            ("http://127.0.0.1:3000/callback", "http://127.0.0.1:3000/other", false),
            ("http://127.0.0.1:3000/callback", "http://127.0.0.1:4000/callback?x", false),
            ("http://127.0.0.1:3000/callback", "https://127.0.0.1:3000/callback", false),
            ("https://localhost:3000/callback", "https://localhost:4000/callback", false),
            ("http://[::1]/callback", "http://[::1]evil.example/callback", false),
            ("http://localhost/callback", "http://localhost:evil.example/callback", false),
        ] {
            assert_eq!(matches(registered, requested), matching, "{registered} {requested}");
        }
    }
}
