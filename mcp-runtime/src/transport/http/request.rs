//! Reading the headers of a request, and an HTTP request as the source of a message: the comparison of its headers with
//! the body.
//!
//! See [Request metadata](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata).

use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Version, header::ACCEPT, request::Parts};
use tokio::sync::Semaphore;

use super::{
    endpoint::Endpoint,
    peers::{Peer, PeerPermit, Remote},
    response,
};
use crate::{
    auth::{Identity, RequestHead},
    engine::{MirroredFields, Permit, RequestSource},
    error::{Fault, excerpt},
    jsonrpc::raw,
    revision::{self, Dialect},
    stdx::Mutex,
};

pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(super) const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The values of `Accept` that nearly every client sends.
const COMMON_ACCEPT: [&str; 2] = ["application/json, text/event-stream", "text/event-stream, application/json"];

/// The HTTP request that carried a message.
#[derive(Debug)]
pub(super) struct HttpRequestSource {
    request: Parts,
    address: Option<SocketAddr>,
    /// The peer, unless it is the peer of the connection.
    other_peer: Option<Arc<Peer>>,
    endpoint: Endpoint,
    /// The memory that is reserved for the body, if it is long. The calls of the message keep it.
    body_memory: OnceLock<Arc<PeerPermit>>,
    /// The scopes that the sender has to request for the operation.
    demanded_scopes: Mutex<Vec<String>>,
}

impl HttpRequestSource {
    /// Wraps the head of a request for the engine.
    pub(super) fn new(request: Parts, endpoint: &Endpoint) -> Self {
        let sender = endpoint.sender_of(&request);
        let other_peer = endpoint.other_peer(&request, sender);
        let (body_memory, demanded_scopes) = Default::default();
        Self {
            request,
            address: sender.address(),
            other_peer,
            endpoint: endpoint.clone(),
            body_memory,
            demanded_scopes,
        }
    }

    /// Returns the peer whose share of the limits the request uses.
    pub(super) fn peer(&self) -> &Arc<Peer> {
        self.other_peer.as_ref().unwrap_or_else(|| self.endpoint.peer())
    }

    pub(super) fn request(&self) -> &Parts {
        &self.request
    }

    fn version_header(&self) -> Result<Option<&str>, Fault> {
        let [version] = Header::find(&self.request.headers, [&VERSION]);
        version.plain(&VERSION)
    }

    /// Keeps the memory that is reserved for the body while the message or one of its calls is processed: functions hold
    /// their arguments.
    pub(super) fn keep_memory(&self, memory: Option<PeerPermit>) {
        if let Some(memory) = memory {
            // A request has only one body.
            let _ = self.body_memory.set(Arc::new(memory));
        }
    }

    /// Returns the scopes that the sender has to request for the operation.
    pub(super) fn demanded_scopes(&self) -> Vec<String> {
        self.demanded_scopes.lock().clone()
    }

    /// Clears the header map and returns it, so that the response can reuse its allocation.
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

    fn version(&self) -> Version {
        self.request.version
    }

    fn extensions(&self) -> &Extensions {
        &self.request.extensions
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    fn is_unix(&self) -> bool {
        matches!(self.endpoint.remote(), Remote::User(_))
    }

    fn sender_key(&self) -> Option<String> {
        self.peer().quota_key()
    }

    fn identity(&self) -> Option<&Identity> {
        response::identity(&self.request)
    }

    fn principal(&self) -> Option<&str> {
        response::principal(&self.request)
    }

    fn demand_scopes(&self, scopes: &[String]) {
        *self.demanded_scopes.lock() = scopes.to_vec();
    }

    fn blocking_share(&self) -> Option<&Arc<Semaphore>> {
        Some(&self.peer().blocking_share)
    }

    fn check_share(&self) -> Option<&Arc<Semaphore>> {
        Some(&self.peer().check_share)
    }
}

impl RequestSource for HttpRequestSource {
    fn check_request(&self, request: &MirroredFields<'_>) -> Result<(), Fault> {
        let headers = &self.request.headers;
        let [version, method, name] = Header::find(headers, [&VERSION, &METHOD, &NAME]);
        expect(&VERSION, version.plain(&VERSION)?, &request.version.string().unwrap_or_default())?;
        expect(&METHOD, method.plain(&METHOD)?, request.method)?;
        match request.subject {
            Some(subject) => {
                let subject = subject.string().unwrap_or_default();
                expect(&NAME, name.encoded(&NAME)?.as_deref(), &subject)
            }
            None => Ok(()),
        }
    }

    fn check_unversioned(&self) -> Result<(), Fault> {
        match self.version_header()? {
            Some(version) if revision::stateless(version).is_some() => {
                Err(Fault::invalid_params("`_meta.io.modelcontextprotocol/protocolVersion` is missing"))
            }
            Some(version) if revision::handshake(version).is_none() => {
                Err(Fault::UnsupportedVersion { requested: version.to_owned() })
            }
            _ => Ok(()),
        }
    }

    fn notification_dialect(&self) -> Option<&'static Dialect> {
        revision::stateless(self.version_header().ok()??)
    }

    fn check_arguments(&self, arguments: &[(&str, Option<&str>)]) -> Result<(), Fault> {
        for (name, value) in arguments {
            let header = HeaderName::try_from(format!("mcp-param-{name}"))
                .map_err(|_| Fault::HeaderMismatch(format!("`{name}` cannot be the name of a header")))?;
            let [actual] = Header::find(&self.request.headers, [&header]);
            let actual = actual.encoded(&header)?;
            match (value.filter(|value| *value != "null"), actual) {
                (None, None) => {}
                (None, Some(_)) => {
                    return Err(Fault::HeaderMismatch(format!(
                        "`{header}` is present, but the argument it mirrors is missing"
                    )));
                }
                (Some(value), actual) => match raw::string(value) {
                    Some(text) => expect(&header, actual.as_deref(), &text)?,
                    None if actual.as_deref().is_some_and(|actual| is_same_number(actual, value)) => {}
                    None => expect(&header, actual.as_deref(), value)?,
                },
            }
        }
        Ok(())
    }

    fn admit(&self) -> Result<Permit, Fault> {
        self.endpoint.limits().admit_call(self.peer(), self.body_memory.get().cloned())
    }

    fn check_capacity(&self) -> Result<(), Fault> {
        self.endpoint.limits().check_capacity(self.peer())
    }

    fn admit_listener(&self) -> Result<Permit, Fault> {
        self.endpoint.limits().admit_listener(self.peer())
    }
}

fn expect(header: &HeaderName, actual: Option<&str>, expected: &str) -> Result<(), Fault> {
    let quoted = excerpt(expected);
    match actual {
        Some(actual) if actual == expected => Ok(()),
        Some(actual) => {
            Err(Fault::HeaderMismatch(format!("`{header}` is {:?}, but the body contains {quoted:?}", excerpt(actual))))
        }
        None => Err(Fault::HeaderMismatch(format!("`{header}` is missing, but the body contains {quoted:?}"))),
    }
}

/// The largest safe integer, 2^53 - 1. Larger integers may not be exact as `f64`, and headers must not mirror them.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Compares integers by value, so that `42.0` equals `42`.
fn is_same_number(left: &str, right: &str) -> bool {
    let number = |text: &str| {
        let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        is_number.then(|| text.parse::<f64>().ok()).flatten().filter(|number| number.abs() <= MAX_SAFE_INTEGER)
    };
    number(left).is_some_and(|left| number(right) == Some(left))
}

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
    fn encoded(self, name: &HeaderName) -> Result<Option<Cow<'a, str>>, Fault> {
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
    use http::{HeaderValue, Request, header::CONTENT_TYPE};

    use super::*;
    use crate::{jsonrpc::RawJson, server::Server, transport::http::options::HttpOptions};

    fn source(headers: &[(&str, &str)]) -> HttpRequestSource {
        let (mut parts, ()) = Request::new(()).into_parts();
        for (name, value) in headers {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            parts.headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value);
        }
        let server = Server::empty("test", "0").build().unwrap();
        let service = server.into_http_service(HttpOptions::default()).unwrap();
        HttpRequestSource::new(parts, &service.endpoint)
    }

    #[test]
    fn headers_must_match_the_request() {
        let version = ("MCP-Protocol-Version", "2026-07-28");
        let call = ("mcp-method", "tools/call");
        let request = MirroredFields {
            version: RawJson::new(r#""2026-07-28""#),
            method: "tools/call",
            subject: Some(RawJson::new(r#""add""#)),
        };
        for (headers, matches) in [
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
            assert_eq!(source(headers).check_request(&request).is_ok(), matches, "{headers:?}");
        }
    }

    #[test]
    fn headers_must_match_the_arguments() {
        for (header, value, matches) in [
            (Some("us-west1"), Some(r#""us-west1""#), true),
            (Some("=?base64?SGVsbG8=?="), Some(r#""Hello""#), true),
            (Some("SGVsbG8="), Some(r#""SGVsbG8=""#), true),
            (Some("=?base64?SGVsbG8="), Some(r#""=?base64?SGVsbG8=""#), true),
            (Some("=?base64?SGVsbG8?="), Some(r#""Hello""#), false),
            (Some("=?base64?SGVs!!!bG8=?="), Some(r#""Hello""#), false),
            (Some("42"), Some("42"), true),
            (Some("42.0"), Some("42"), true),
            (Some("-42.0"), Some("-42"), true),
            (Some("42"), Some("43"), false),
            (Some("nan"), Some("42"), false),
            (Some("+42"), Some("42"), false),
            (Some("9007199254740991.0"), Some("9007199254740991"), true),
            (Some("9007199254740993"), Some("9007199254740993"), true),
            // A proxy must not route by a number that differs from the number in the body.
            (Some("9007199254740992"), Some("9007199254740993"), false),
            (Some("-9007199254740992"), Some("-9007199254740993"), false),
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
            assert_eq!(source(&headers).check_arguments(&[("Region", value)]).is_ok(), matches, "{header:?} {value:?}");
        }
    }

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
}
