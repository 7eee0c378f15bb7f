//! The headers that repeat parts of a stateless request, and how they are compared with it.
//!
//! See [Request metadata](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata).

use std::{borrow::Cow, net::SocketAddr, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Extensions, HeaderMap, HeaderName, header::AsHeaderName, request::Parts};

use super::{context::Principal, work::Work};
use crate::{
    engine::{Mirrored, Permit, RequestSource},
    error::Fault,
    handler::RequestHead,
    jsonrpc::raw,
    revision,
};

pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// What nearly every client accepts.
const USUAL_ACCEPT: [&str; 2] = ["application/json, text/event-stream", "text/event-stream, application/json"];

/// An HTTP request as the origin of a message.
#[derive(Debug)]
pub(super) struct HttpRequestSource {
    request: Parts,
    peer: Option<SocketAddr>,
    work: Arc<Work>,
}

impl HttpRequestSource {
    /// A request that came from `peer`, if that is known.
    pub(super) fn new(request: Parts, peer: Option<SocketAddr>, work: &Arc<Work>) -> Self {
        Self { request, peer, work: Arc::clone(work) }
    }

    pub(super) fn request(&self) -> &Parts {
        &self.request
    }

    /// The map that the headers were in, to be used again.
    pub(super) fn into_empty_headers(self) -> HeaderMap {
        let mut headers = self.request.headers;
        headers.clear();
        headers
    }
}

impl RequestHead for HttpRequestSource {
    fn headers(&self) -> &HeaderMap {
        &self.request.headers
    }

    fn extensions(&self) -> &Extensions {
        &self.request.extensions
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer
    }
}

impl RequestSource for HttpRequestSource {
    fn check_request(&self, request: &Mirrored<'_>) -> Result<(), Fault> {
        let headers = &self.request.headers;
        let version = raw::string(request.version).unwrap_or_default();
        expect(VERSION.as_str(), plain(headers, &VERSION)?, &version)?;
        expect(METHOD.as_str(), plain(headers, &METHOD)?, request.method)?;
        match request.subject {
            Some(subject) => {
                let subject = raw::string(subject).unwrap_or_default();
                expect(NAME.as_str(), encoded(headers, &NAME)?.as_deref(), &subject)
            }
            None => Ok(()),
        }
    }

    fn check_unversioned(&self) -> Result<(), Fault> {
        match plain(&self.request.headers, &VERSION)? {
            Some(version) if revision::stateless(version).is_some() => {
                Err(Fault::invalid_params("`_meta.io.modelcontextprotocol/protocolVersion` is missing"))
            }
            Some(version) if revision::handshake(version).is_none() => {
                Err(Fault::UnsupportedVersion { requested: version.to_owned() })
            }
            _ => Ok(()),
        }
    }

    fn check_arguments(&self, arguments: &[(&str, Option<&str>)]) -> Result<(), Fault> {
        for (name, value) in arguments {
            let header = format!("mcp-param-{}", name.to_ascii_lowercase());
            let given = encoded(&self.request.headers, header.as_str())?;
            match (value.filter(|value| *value != "null"), given) {
                (None, None) => {}
                (None, Some(_)) => {
                    return Err(mismatch(format!("`{header}` is there, but the argument that it repeats is not")));
                }
                (Some(value), given) => match raw::string(value) {
                    Some(text) => expect(&header, given.as_deref(), &text)?,
                    None if given.as_deref().is_some_and(|given| same_number(given, value)) => {}
                    None => expect(&header, given.as_deref(), value)?,
                },
            }
        }
        Ok(())
    }

    fn admit(&self) -> Result<Permit, Fault> {
        self.work.admit().ok_or_else(too_much)
    }

    fn check_room(&self) -> Result<(), Fault> {
        if self.work.has_room() { Ok(()) } else { Err(too_much()) }
    }

    fn principal(&self) -> Option<&str> {
        self.request.extensions.get().map(Principal::as_str)
    }
}

fn expect(header: &str, given: Option<&str>, expected: &str) -> Result<(), Fault> {
    match given {
        Some(given) if given == expected => Ok(()),
        Some(given) => Err(mismatch(format!("`{header}` is {given:?}, but the body says {expected:?}"))),
        None => Err(mismatch(format!("`{header}` is missing, the body says {expected:?}"))),
    }
}

fn too_much() -> Fault {
    Fault::overloaded("too many requests are in work")
}

fn mismatch(why: String) -> Fault {
    Fault::HeaderMismatch(why)
}

/// The value of a header that may be there once.
pub(super) fn plain<'a, N>(headers: &'a HeaderMap, name: &N) -> Result<Option<&'a str>, Fault>
where
    N: AsRef<str> + ?Sized,
    for<'n> &'n N: AsHeaderName,
{
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("`{}` is there twice", name.as_ref())));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.trim_ascii())),
        Err(_) => Err(mismatch(format!("`{}` has characters that are not ASCII", name.as_ref()))),
    }
}

/// The value of a header that may be in base64, between `=?base64?` and `?=`.
fn encoded<'a, N>(headers: &'a HeaderMap, name: &N) -> Result<Option<Cow<'a, str>>, Fault>
where
    N: AsRef<str> + ?Sized,
    for<'n> &'n N: AsHeaderName,
{
    let Some(text) = plain(headers, name)? else { return Ok(None) };
    let Some(base64) = text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(Some(Cow::Borrowed(text)));
    };
    let decoded = STANDARD.decode(base64).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let refuse = || mismatch(format!("`{}` is no UTF-8 in base64", name.as_ref()));
    decoded.map(|text| Some(Cow::Owned(text))).ok_or_else(refuse)
}

/// The greatest integer that no other is taken for when both are read as `f64`; no header may repeat one beyond.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Compares integers as numbers: `42.0` is `42`.
fn same_number(left: &str, right: &str) -> bool {
    let number = |text: &str| {
        let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        is_number.then(|| text.parse::<f64>().ok()).flatten().filter(|number| number.abs() <= MAX_SAFE_INTEGER)
    };
    number(left).is_some_and(|left| number(right) == Some(left))
}

/// Says whether `Accept` takes answers as JSON and as events.
pub(super) fn accepts_answers(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(http::header::ACCEPT).iter();
    values.any(|value| USUAL_ACCEPT.iter().any(|usual| value == usual))
        || (accepts(headers, "application", "json") && accepts(headers, "text", "event-stream"))
}

/// Says whether `Accept` takes a media type; no header takes anything.
pub(super) fn accepts(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    let mut values = headers.get_all(http::header::ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let (range_kind, range_subtype) = parts.next().and_then(|range| range.split_once('/')).unwrap_or_default();
        let refused =
            parts.any(|part| matches!(part.to_ascii_lowercase().as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        let fits = |range: &str, value: &str| range == "*" || range.eq_ignore_ascii_case(value);
        !refused && fits(range_kind, kind) && fits(range_subtype, subtype)
    })
}

/// Says whether the body is JSON, by its `Content-Type`.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let content_type =
        headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderName, HeaderValue, Request};

    use super::*;
    use crate::transport::http::{HttpOptions, sessions::Sessions};

    fn source(headers: &[(&str, &str)]) -> HttpRequestSource {
        let (mut parts, ()) = Request::new(()).into_parts();
        for (name, value) in headers {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            parts.headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
        }
        let sessions = Arc::new(Sessions::new(1, Duration::ZERO));
        HttpRequestSource::new(parts, None, &Arc::new(Work::new(&HttpOptions::default(), sessions)))
    }

    #[test]
    fn both_kinds_of_answers_are_accepted() {
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
            let headers: Vec<_> = values.iter().map(|value| ("accept", *value)).collect();
            assert_eq!(accepts_answers(source(&headers).headers()), accepted, "{values:?}");
        }
    }

    #[test]
    fn requests_are_compared() {
        let version = ("MCP-Protocol-Version", "2026-07-28");
        let call = ("mcp-method", "tools/call");
        let request = Mirrored { version: r#""2026-07-28""#, method: "tools/call", subject: Some(r#""add""#) };
        for (headers, fits) in [
            (&[version, call, ("Mcp-Name", "add")][..], true),
            (&[version, call, ("Mcp-Name", "  add  ")], true),
            (&[version, call, ("Mcp-Name", "=?base64?YWRk?=")], true),
            (&[version, call, ("Mcp-Name", "=?base64?YWR?=")], false),
            (&[version, call, ("Mcp-Name", "=?BASE64?YWRk?=")], false),
            (&[version, call, ("Mcp-Name", "Add")], false),
            (&[version, call, ("Mcp-Name", "add"), ("Mcp-Name", "add")], false),
            (&[version, call, ("Mcp-Name", "ädd")], false),
            (&[version, call], false),
            (&[version, ("mcp-method", "TOOLS/CALL"), ("Mcp-Name", "add")], false),
            (&[version, ("Mcp-Name", "add")], false),
            (&[("mcp-protocol-version", "2025-11-25"), call, ("Mcp-Name", "add")], false),
            (&[call, ("Mcp-Name", "add")], false),
        ] {
            assert_eq!(source(headers).check_request(&request).is_ok(), fits, "{headers:?}");
        }
    }

    #[test]
    fn arguments_are_compared() {
        for (header, value, fits) in [
            (Some("us-west1"), Some(r#""us-west1""#), true),
            (Some("=?base64?SGVsbG8=?="), Some(r#""Hello""#), true),
            (Some("SGVsbG8="), Some(r#""SGVsbG8=""#), true),
            (Some("=?base64?SGVsbG8="), Some(r#""=?base64?SGVsbG8=""#), true),
            (Some("=?base64?SGVsbG8?="), Some(r#""Hello""#), false),
            (Some("=?base64?SGVs!!!bG8=?="), Some(r#""Hello""#), false),
            (Some("42"), Some("42"), true),
            (Some("42.0"), Some("42"), true),
            (Some("42"), Some("43"), false),
            (Some("nan"), Some("42"), false),
            (Some("9007199254740991.0"), Some("9007199254740991"), true),
            (Some("9007199254740993"), Some("9007199254740993"), true),
            // What is routed by one number must not be executed with another.
            (Some("9007199254740992"), Some("9007199254740993"), false),
            (Some("1e999"), Some("2e999"), false),
            (Some("true"), Some("true"), true),
            (Some("True"), Some("true"), false),
            (None, None, true),
            (None, Some("null"), true),
            (None, Some(r#""there""#), false),
            (Some("there"), None, false),
            (Some("there"), Some("null"), false),
        ] {
            let headers: Vec<_> = header.map(|header| ("Mcp-Param-Region", header)).into_iter().collect();
            assert_eq!(source(&headers).check_arguments(&[("Region", value)]).is_ok(), fits, "{header:?} {value:?}");
        }
    }

    #[test]
    fn media_types_are_accepted() {
        for (accept, json, events) in [
            (None, true, true),
            (Some("*/*"), true, true),
            (Some("application/json, text/event-stream"), true, true),
            (Some("text/event-stream;q=0.5, Application/JSON;q=1"), true, true),
            (Some("application/*, text/event-stream;q=0"), true, false),
            (Some("text/html"), false, false),
            (Some(""), false, false),
        ] {
            let headers: Vec<_> = accept.map(|accept| ("accept", accept)).into_iter().collect();
            let headers = &source(&headers).request.headers;
            let accepted = (accepts(headers, "application", "json"), accepts(headers, "text", "event-stream"));
            assert_eq!(accepted, (json, events), "{accept:?}");
        }
    }

    #[test]
    fn bodies_are_json() {
        for (content_type, expected) in [
            (Some("application/json"), true),
            (Some("Application/JSON; charset=UTF-8"), true),
            (Some("application/json;charset=\"utf-8\""), true),
            (Some("application/json; charset=latin1"), false),
            (Some("application/jsonp"), false),
            (Some("text/plain"), false),
            (None, false),
        ] {
            let headers: Vec<_> = content_type.map(|value| ("content-type", value)).into_iter().collect();
            assert_eq!(is_json(&source(&headers).request.headers), expected, "{content_type:?}");
        }
    }
}
