//! An HTTP request as the source of a message: the comparison of its headers with the body.
//!
//! See [Request metadata](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata).

use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use http::{Extensions, HeaderMap, HeaderName, Version, request::Parts};
use tokio::sync::Semaphore;

use super::{
    endpoint::Endpoint,
    headers::{Header, METHOD, NAME, VERSION},
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
    telemetry::trace::trace_header,
};

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

    fn extensions(&self) -> &Extensions {
        &self.request.extensions
    }

    fn network(&self) -> (&'static str, &'static str) {
        let version = match self.request.version {
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2",
            Version::HTTP_3 => "3",
            _ => "1.1",
        };
        (if matches!(self.endpoint.remote(), Remote::User(_)) { "unix" } else { "tcp" }, version)
    }

    fn peer_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    fn trace_header(&self, key: usize) -> Option<Cow<'_, str>> {
        trace_header(&self.request.headers, key)
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

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

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
}
