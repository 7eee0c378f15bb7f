//! Reading the headers of a request.
//!
//! See [Streamable HTTP](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http).

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, header::ACCEPT};

use crate::error::Fault;

pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The values of `Accept` that nearly every client sends.
const COMMON_ACCEPT: [&str; 2] = ["application/json, text/event-stream", "text/event-stream, application/json"];

/// A header that should not be repeated.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Header<'a> {
    /// The first value, or `None` if the header is absent.
    value: Option<&'a HeaderValue>,
    is_repeated: bool,
}

impl<'a> Header<'a> {
    /// Finds headers in one pass. This is faster than looking up each, which hashes its name.
    pub(super) fn find<const N: usize>(headers: &'a HeaderMap, names: [&HeaderName; N]) -> [Self; N] {
        let mut found = [Self::default(); N];
        for (name, value) in headers {
            if let Some(index) = names.iter().position(|wanted| *wanted == name) {
                let header = &mut found[index];
                header.is_repeated = header.value.is_some();
                header.value.get_or_insert(value);
            }
        }
        found
    }

    pub(super) fn is_absent(self) -> bool {
        self.value.is_none()
    }

    /// Returns the only value as text. Returns `None` if the header is absent, repeated or not ASCII.
    pub(super) fn text(self) -> Option<&'a str> {
        self.value.filter(|_| !self.is_repeated).and_then(|value| value.to_str().ok())
    }

    /// Returns the value of the header of this name, or a fault if it is repeated or contains non-ASCII characters.
    pub(super) fn plain(self, name: &HeaderName) -> Result<Option<&'a str>, Fault> {
        match (self.value, self.text()) {
            (None, _) => Ok(None),
            (_, Some(text)) => Ok(Some(text.trim_ascii())),
            _ if self.is_repeated => Err(Fault::HeaderMismatch(format!("duplicate `{name}`"))),
            _ => Err(Fault::HeaderMismatch(format!("`{name}` contains non-ASCII characters"))),
        }
    }

    /// Returns the value of the header of this name, which may be encoded in base64, between `=?base64?` and `?=`.
    pub(super) fn encoded(self, name: &HeaderName) -> Result<Option<Cow<'a, str>>, Fault> {
        let Some(text) = self.plain(name)? else { return Ok(None) };
        let Some(base64) = text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
            return Ok(Some(Cow::Borrowed(text)));
        };
        let decoded = STANDARD.decode(base64).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let invalid = || Fault::HeaderMismatch(format!("`{name}` is not base64-encoded UTF-8"));
        decoded.map(|text| Some(Cow::Owned(text))).ok_or_else(invalid)
    }
}

/// Returns whether `Accept` includes both JSON and event streams.
pub(super) fn accepts_json_and_events(headers: &HeaderMap, accept: Header<'_>) -> bool {
    accept.text().is_some_and(|accept| COMMON_ACCEPT.contains(&accept))
        || (accepts(headers, "application", "json") && accepts(headers, "text", "event-stream"))
}

/// Returns whether `Accept` includes a media type. Without the header, every type is accepted.
pub(super) fn accepts(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    let ranges = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let matching = ranges.filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let (range_kind, range_subtype) = parts.next()?.split_once('/')?;
        let matches = |range: &str, value: &str| range == "*" || range.eq_ignore_ascii_case(value);
        let is_excluded =
            parts.any(|part| matches!(part.to_ascii_lowercase().as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        let precision = (range_kind != "*", range_subtype != "*");
        (matches(range_kind, kind) && matches(range_subtype, subtype)).then_some((precision, !is_excluded))
    });
    // The most precise range decides.
    matching.max().is_some_and(|(_, is_accepted)| is_accepted)
}

/// Returns whether `Content-Type` declares the body to be JSON in UTF-8.
pub(super) fn is_json(content_type: Header<'_>) -> bool {
    let content_type = content_type.text().unwrap_or_default();
    if content_type == "application/json" {
        return true;
    }
    let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let charset = parameters
        .split(';')
        .filter_map(|parameter| parameter.trim().split_once('='))
        .find(|(name, _)| name.eq_ignore_ascii_case("charset"));
    kind.trim().eq_ignore_ascii_case("application/json")
        && charset.is_none_or(|(_, charset)| charset.trim_matches('"').eq_ignore_ascii_case("utf-8"))
}

/// Returns whether the body has no content coding, such as gzip.
pub(super) fn is_unencoded(content_encoding: Header<'_>) -> bool {
    content_encoding.is_absent()
        || content_encoding.text().is_some_and(|coding| coding.trim().eq_ignore_ascii_case("identity"))
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

    use super::*;

    fn headers(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn posts_must_accept_json_and_events() {
        for (values, accepted) in [
            (&[][..], true),
            (&["application/json, text/event-stream"], true),
            (&["text/event-stream, application/json"], true),
            (&["text/event-stream,application/json;q=0.5"], true),
            (&["application/json", "Text/Event-Stream"], true),
            (&["text/html", "application/json, text/event-stream"], true),
            (&["*/*"], true),
            (&["application/*, text/*"], true),
            (&["application/json"], false),
            (&["text/event-stream"], false),
            (&["application/json, text/event-stream;q=0"], false),
        ] {
            let headers = headers(ACCEPT, values);
            let [accept] = Header::find(&headers, [&ACCEPT]);
            assert_eq!(accepts_json_and_events(&headers, accept), accepted, "{values:?}");
        }
    }

    #[test]
    fn accept_is_matched_against_media_types() {
        for (accept, json, events) in [
            (None, true, true),
            (Some("*/*"), true, true),
            (Some("application/json, text/event-stream"), true, true),
            (Some("text/event-stream;q=0.5, Application/JSON;q=1"), true, true),
            (Some("application/*, text/event-stream;q=0"), true, false),
            (Some("application/json;q=0, */*"), false, true),
            (Some("*/*, text/event-stream;q=0"), true, false),
            (Some("text/*;q=0, text/event-stream, */*;q=0"), false, true),
            (Some("*/*;q=0, application/*"), true, false),
            (Some("text/html"), false, false),
            (Some(""), false, false),
        ] {
            let headers = headers(ACCEPT, accept.as_slice());
            let accepted = (accepts(&headers, "application", "json"), accepts(&headers, "text", "event-stream"));
            assert_eq!(accepted, (json, events), "{accept:?}");
        }
    }

    #[test]
    fn json_content_types_are_recognized() {
        for (content_type, expected) in [
            (Some("application/json"), true),
            (Some("Application/JSON; charset=UTF-8"), true),
            (Some("application/json;charset=\"utf-8\""), true),
            (Some("application/json ; charset=utf-8"), true),
            (Some("application/json; profile=x"), true),
            (Some("Application/JSON"), true),
            (Some("application/json; charset=latin1"), false),
            (Some("application/jsonp"), false),
            (Some("text/plain"), false),
            (None, false),
        ] {
            let headers = headers(CONTENT_TYPE, content_type.as_slice());
            let [header] = Header::find(&headers, [&CONTENT_TYPE]);
            assert_eq!(is_json(header), expected, "{content_type:?}");
        }
    }

    /// It is not clear which of them describes the body.
    #[test]
    fn repeated_headers_do_not_describe_the_body() {
        for (repeats, expected) in [(1, true), (2, false)] {
            let json = headers(CONTENT_TYPE, &["application/json"; 2][..repeats]);
            let plain = headers(CONTENT_ENCODING, &["identity"; 2][..repeats]);
            let ([json], [plain]) = (Header::find(&json, [&CONTENT_TYPE]), Header::find(&plain, [&CONTENT_ENCODING]));
            assert_eq!((is_json(json), is_unencoded(plain)), (expected, expected), "{repeats}");
        }
    }
}
