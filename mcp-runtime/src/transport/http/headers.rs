//! Reading the headers of a request.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{
    HeaderMap, HeaderName,
    header::{ACCEPT, AsHeaderName, CONTENT_ENCODING, CONTENT_TYPE},
};

use crate::error::Fault;

pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The values of `Accept` that nearly every client sends.
const COMMON_ACCEPT: [&str; 2] = ["application/json, text/event-stream", "text/event-stream, application/json"];

/// Returns the value of a header, or a fault if it occurs more than once or contains non-ASCII characters.
pub(super) fn plain<'a, N>(headers: &'a HeaderMap, name: &N) -> Result<Option<&'a str>, Fault>
where
    N: AsRef<str> + ?Sized,
    for<'n> &'n N: AsHeaderName,
{
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("duplicate `{}`", name.as_ref())));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.trim_ascii())),
        Err(_) => Err(mismatch(format!("`{}` contains non-ASCII characters", name.as_ref()))),
    }
}

/// Returns the value of a header that may be encoded in base64, between `=?base64?` and `?=`.
pub(super) fn encoded<'a, N>(headers: &'a HeaderMap, name: &N) -> Result<Option<Cow<'a, str>>, Fault>
where
    N: AsRef<str> + ?Sized,
    for<'n> &'n N: AsHeaderName,
{
    let Some(text) = plain(headers, name)? else { return Ok(None) };
    let Some(base64) = text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(Some(Cow::Borrowed(text)));
    };
    let decoded = STANDARD.decode(base64).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let invalid = || mismatch(format!("`{}` is not base64-encoded UTF-8", name.as_ref()));
    decoded.map(|text| Some(Cow::Owned(text))).ok_or_else(invalid)
}

pub(super) fn mismatch(why: String) -> Fault {
    Fault::HeaderMismatch(why)
}

/// Returns whether `Accept` includes both JSON and event streams.
pub(super) fn accepts_json_and_events(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(ACCEPT).iter();
    values.any(|value| COMMON_ACCEPT.iter().any(|common| value == common))
        || (accepts(headers, "application", "json") && accepts(headers, "text", "event-stream"))
}

/// Returns whether `Accept` includes a media type. Without the header, every type is accepted.
pub(super) fn accepts(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let (range_kind, range_subtype) = parts.next().and_then(|range| range.split_once('/')).unwrap_or_default();
        let is_excluded =
            parts.any(|part| matches!(part.to_ascii_lowercase().as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        let matches = |range: &str, value: &str| range == "*" || range.eq_ignore_ascii_case(value);
        !is_excluded && matches(range_kind, kind) && matches(range_subtype, subtype)
    })
}

/// Returns whether `Content-Type` declares the body to be JSON in UTF-8.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
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
pub(super) fn is_unencoded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    codings.all(|coding| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

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
            assert_eq!(accepts_json_and_events(&headers(ACCEPT, values)), accepted, "{values:?}");
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
            assert_eq!(is_json(&headers(CONTENT_TYPE, content_type.as_slice())), expected, "{content_type:?}");
        }
    }
}
