//! The trace context of messages.

use std::{borrow::Cow, fmt};

use crate::{
    auth::RequestHead,
    jsonrpc::RawJson,
    trace_context::{is_baggage, is_traceparent, is_tracestate},
};

/// The trace context that a message arrived with. Values that violate W3C Trace Context or W3C Baggage are absent.
#[derive(Clone)]
pub struct TraceContext<'a> {
    /// The members of `_meta`, in the order of [`TraceCarrier::KEYS`].
    pub(crate) meta: &'a [Option<RawJson<'a>>; TraceCarrier::KEYS.len()],
    pub(crate) head: Option<&'a dyn RequestHead>,
}

impl Default for TraceContext<'_> {
    fn default() -> Self {
        Self { meta: &[const { None }; TraceCarrier::KEYS.len()], head: None }
    }
}

impl<'a> TraceContext<'a> {
    /// Reads the context in the `_meta` of the message, which is the parent of the operation.
    pub fn meta(&self) -> TraceCarrier<'a> {
        TraceCarrier::validated(|key| self.meta[key]?.string())
    }

    /// Returns whether the message has no context, which is cheaper than reading it.
    pub fn is_empty(&self) -> bool {
        // `tracestate` alone is no context.
        let has_header = |key| self.head.is_some_and(|head| head.trace_header(key).is_some());
        self.meta.iter().all(Option::is_none) && !has_header(0) && !has_header(2)
    }

    /// Returns the context that is the parent of the operation.
    pub(crate) fn parent(&self) -> TraceCarrier<'static> {
        let parent = [self.meta(), self.headers()].into_iter().find(|sent| sent.traceparent.is_some());
        parent.unwrap_or_default().into_valid()
    }

    /// Reads the context in the headers of the HTTP request. If `_meta` has a different one, it is a link of the
    /// operation, and otherwise its parent.
    pub fn headers(&self) -> TraceCarrier<'a> {
        TraceCarrier::validated(|key| self.head?.trace_header(key))
    }
}

/// The headers of [`TraceCarrier::KEYS`].
#[cfg(feature = "http")]
static HEADERS: [http::HeaderName; 3] = [
    http::HeaderName::from_static(TraceCarrier::KEYS[0]),
    http::HeaderName::from_static(TraceCarrier::KEYS[1]),
    http::HeaderName::from_static(TraceCarrier::KEYS[2]),
];

/// Returns the header with this index in [`TraceCarrier::KEYS`], whose lines are one list.
#[cfg(feature = "http")]
pub(crate) fn trace_header(headers: &http::HeaderMap, key: usize) -> Option<Cow<'_, str>> {
    let mut lines = headers.get_all(&HEADERS[key]).iter();
    let mut joined = Cow::Borrowed(lines.next()?.to_str().ok()?);
    for line in lines {
        let list = joined.to_mut();
        list.push(',');
        list.push_str(line.to_str().ok()?);
    }
    Some(joined)
}

impl fmt::Debug for TraceContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceContext").field("meta", &self.meta()).field("headers", &self.headers()).finish()
    }
}

/// A trace context as text: the formats of [W3C Trace Context](https://www.w3.org/TR/trace-context-2/) and
/// [W3C Baggage](https://www.w3.org/TR/baggage/).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceCarrier<'a> {
    /// The trace, the span, and whether it is sampled.
    pub traceparent: Option<Cow<'a, str>>,
    /// The state of tracing systems. Absent without a `traceparent`.
    pub tracestate: Option<Cow<'a, str>>,
    /// Values that accompany the trace.
    pub baggage: Option<Cow<'a, str>>,
}

impl TraceCarrier<'_> {
    /// The names of the fields.
    pub const KEYS: [&'static str; 3] = ["traceparent", "tracestate", "baggage"];

    /// Returns a field by its name, in the letters of [`KEYS`](Self::KEYS).
    pub fn get(&self, key: &str) -> Option<&str> {
        match key {
            "traceparent" => self.traceparent.as_deref(),
            "tracestate" => self.tracestate.as_deref(),
            "baggage" => self.baggage.as_deref(),
            _ => None,
        }
    }

    /// Reads the fields by their index in [`KEYS`](Self::KEYS), and omits values that violate their format.
    pub(crate) fn validated<'a>(read: impl Fn(usize) -> Option<Cow<'a, str>>) -> TraceCarrier<'a> {
        let traceparent = read(0).filter(|text| is_traceparent(text));
        let tracestate = traceparent.is_some().then(|| read(1).filter(|text| is_tracestate(text)));
        let baggage = read(2).filter(|text| is_baggage(text));
        TraceCarrier { traceparent, tracestate: tracestate.flatten(), baggage }
    }

    /// Omits values that violate their format.
    pub(super) fn into_valid(self) -> TraceCarrier<'static> {
        TraceCarrier::validated(|key| Some(Cow::Owned(self.get(Self::KEYS[key])?.to_owned())))
    }

    /// Returns whether no field is present.
    pub fn is_empty(&self) -> bool {
        self.traceparent.is_none() && self.tracestate.is_none() && self.baggage.is_none()
    }
}
