//! A message with its sender, its dialect, its session and its `tracing` span.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use tracing::{Span, field::Empty};

use super::{access::SenderAccess, params::Params};
use crate::{
    auth::Identity,
    cluster::SessionMessage,
    engine::{
        call::{batch::Sink, guard::Clock, in_flight::InFlight},
        outbox::Outbox,
        rates::FlowControl,
        server::Engine,
        session::Session,
    },
    error::Fault,
    excerpt::excerpt,
    handler::{Caller, ClientInfo, Encoding, RequestHead, entry::EntryInfo},
    jsonrpc::{Id, RawJson},
    model::Level,
    random::log_id,
    registry::{Function, Registry},
    revision::{self, Dialect, Feature},
};

/// The state of a connection that its requests share.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) engine: Arc<Engine>,
    /// The session, once `initialize` has opened it.
    pub(crate) session: OnceLock<Arc<Session>>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) flow: Arc<FlowControl>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) source: Option<Arc<dyn RequestSource>>,
    /// Whether the connection serves a single exchange, so that a session opened on it outlives it.
    pub(crate) is_single_exchange: bool,
    pub(crate) clock: Clock,
    /// What other replicas must learn before the transmission is answered. Contains at most one message for each message
    /// of a transmission.
    pub(crate) outgoing: Mutex<Vec<SessionMessage>>,
}

impl ConnectionContext {
    /// Returns the principal that the transport has authenticated or, over a transport that does not identify senders,
    /// that of the process.
    pub(crate) fn principal(&self) -> Option<&str> {
        match &self.source {
            Some(source) => source.principal(),
            None => self.engine.profile.local_identity.as_ref().map(|identity| identity.principal().as_str()),
        }
    }

    /// Keeps a message for the other replicas, if they know the session.
    pub(crate) fn tell_replicas(&self, message: impl FnOnce() -> SessionMessage) {
        if self.session.get().is_some_and(|session| session.shared().is_some()) {
            self.outgoing.lock().unwrap_or_else(PoisonError::into_inner).push(message());
        }
    }

    /// Takes the messages for the other replicas.
    #[cfg(feature = "http")]
    pub(crate) fn take_outgoing(&self) -> Vec<SessionMessage> {
        std::mem::take(&mut *self.outgoing.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A request, with everything that is needed to answer it.
pub(crate) struct RequestContext<'a> {
    pub(crate) connection: &'a ConnectionContext,
    pub(crate) dialect: &'a RequestDialect,
    pub(crate) params: &'a Params<'a>,
    pub(crate) id: &'a Id<'a>,
    /// The destination of the response.
    pub(crate) sink: &'a Sink,
    /// The registry snapshot that the whole request is answered from.
    pub(crate) registry: &'a Arc<Registry>,
    /// The span that the request is answered in.
    pub(crate) span: &'a Span,
}

impl<'a> RequestContext<'a> {
    pub(crate) fn engine(&self) -> &'a Arc<Engine> {
        &self.connection.engine
    }

    pub(crate) fn session(&self) -> Option<&'a Arc<Session>> {
        self.connection.session.get()
    }

    pub(crate) fn dialect(&self) -> &'static Dialect {
        self.dialect.dialect
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.dialect.dialect.has(feature)
    }

    pub(crate) fn encoding(&self) -> &'a Arc<Encoding> {
        self.connection.engine.encoding(self.dialect.dialect)
    }

    /// Returns the principal of the [connection](ConnectionContext::principal).
    pub(crate) fn principal(&self) -> Option<&'a str> {
        self.connection.principal()
    }

    /// Returns the identity of the sender, unless the transport knows it.
    pub(crate) fn local_identity(&self) -> Option<&'a Identity> {
        self.engine().profile.local_identity.as_ref().filter(|_| self.connection.source.is_none())
    }

    /// Returns the scopes of the sender, for checks that outlive the request.
    pub(crate) fn sender_access(&self) -> SenderAccess {
        SenderAccess::new(&self.connection.engine.profile.access, self.connection.source.as_ref())
    }

    /// Returns the entries that the sender of the request sees.
    pub(crate) fn visible_to(&self) -> VisibleTo {
        match &self.connection.engine.profile.visibility {
            Some(visibility) => visibility.for_caller(self.caller()),
            None => VisibleTo::default(),
        }
    }

    /// Returns the sender of the request.
    pub(crate) fn caller(&self) -> Caller {
        let source = self.connection.source.as_ref();
        Caller {
            principal: self.principal().map(Into::into),
            local_identity: self.local_identity().cloned(),
            client: self.client(),
            revision: self.dialect.dialect.revision(),
            head: source.map(|source| Arc::clone(source) as _),
        }
    }

    /// Returns the client's description of itself.
    pub(crate) fn client(&self) -> Option<ClientInfo> {
        if self.has(Feature::RequestMeta) {
            client_info(self.params.meta.client_info)
        } else {
            self.session()?.info.client.clone()
        }
    }

    /// Returns the capabilities that the client declared in `initialize`, as JSON. A stateless request declares its
    /// own.
    pub(crate) fn session_capabilities(&self) -> Option<Arc<str>> {
        let session = self.session().filter(|_| !self.has(Feature::RequestMeta))?;
        Some(Arc::clone(&session.info.capabilities))
    }
}

/// The maximum size of the name, version and title of a client in bytes. The rest is cut off.
const MAX_CLIENT_INFO_BYTES: usize = 256;

/// Parses the `clientInfo` of a request. Invalid values are ignored.
pub(crate) fn client_info(json: Option<RawJson<'_>>) -> Option<ClientInfo> {
    let ClientInfo { name, version, title } = serde_json::from_str(json?.text()).ok()?;
    Some(ClientInfo { name: printable(name), version: printable(version), title: title.map(printable) })
}

/// Bounds the size of a text, and replaces control characters so that it can be logged.
fn printable(text: String) -> String {
    if text.len() <= MAX_CLIENT_INFO_BYTES && !text.contains(char::is_control) {
        return text;
    }
    let end = (0..=MAX_CLIENT_INFO_BYTES.min(text.len())).rfind(|&end| text.is_char_boundary(end)).unwrap_or_default();
    text[..end].replace(char::is_control, "\u{fffd}")
}

/// The author's rule that decides which entries a caller sees.
#[derive(Clone)]
pub(crate) struct Visibility(Arc<Decide>);

type Decide = dyn Fn(&Caller, &EntryInfo<'_>) -> bool + Send + Sync;

impl Visibility {
    pub(crate) fn new(sees: impl Fn(&Caller, &EntryInfo<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(sees))
    }

    /// Returns the entries that a caller sees.
    pub(crate) fn for_caller(&self, caller: Caller) -> VisibleTo {
        VisibleTo(Some(Arc::new((self.clone(), caller))))
    }
}

impl fmt::Debug for Visibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Visibility")
    }
}

/// The entries that a caller sees: all of them, unless the server has a [`Visibility`].
#[derive(Debug, Clone, Default)]
pub(crate) struct VisibleTo(Option<Arc<(Visibility, Caller)>>);

impl VisibleTo {
    /// Returns whether some entries may be hidden.
    pub(crate) fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Returns whether the caller sees a function. If the rule panics, the function is hidden.
    pub(crate) fn sees(&self, function: &Function) -> bool {
        self.sees_entry(&function.info())
    }

    /// Returns whether the caller sees an entry, which may also be a skill.
    pub(crate) fn sees_entry(&self, info: &EntryInfo<'_>) -> bool {
        let Some((visibility, caller)) = self.0.as_deref() else { return true };
        catch_unwind(AssertUnwindSafe(|| visibility.0(caller, info))).unwrap_or_else(|_| {
            tracing::error!(name = info.name, "the function passed to `visible_to` panicked, so the entry is hidden");
            false
        })
    }
}

/// The dialect of a request, and the options that the request itself sets.
#[derive(Debug)]
pub(crate) struct RequestDialect {
    pub(crate) dialect: &'static Dialect,
    /// The log level of a stateless request.
    pub(crate) level: Option<Level>,
}

impl RequestDialect {
    /// Determines the dialect of a request: the version that the request names, or else the version of its session.
    ///
    /// See [Versioning](https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning).
    ///
    /// # Errors
    ///
    /// Returns a fault if the version is missing or unsupported, or if it contradicts the one that the transport names.
    pub(crate) fn determine(
        session: Option<&'static Dialect>,
        source: Option<&dyn RequestSource>,
        method: &str,
        params: &Params<'_>,
    ) -> Result<Self, Fault> {
        if let Some(version) = params.meta.protocol_version {
            if let Some(source) = source {
                source.check_request(&MirroredFields { version, method, subject: params.subject(method) })?;
            }
            let (dialect, level) = params.meta.stateless()?;
            return Ok(Self { dialect, level });
        }
        if let Some(dialect) = session {
            return Ok(Self { dialect, level: None });
        }
        if let Some(source) = source {
            source.check_unversioned()?;
        }
        match method {
            "initialize" | "ping" => Ok(Self { dialect: revision::newest_handshake(), level: None }),
            _ => Err(Fault::invalid_params(
                "`_meta.io.modelcontextprotocol/protocolVersion` is missing, and no session was opened with `initialize`",
            )),
        }
    }
}

/// The capacity of a transport that a call occupies until the permit is dropped.
pub(crate) type Permit = Box<dyn Any + Send + Sync>;

/// The source of a message: what the transport knows about the message beyond its text.
pub(crate) trait RequestSource: RequestHead + std::fmt::Debug {
    /// Compares a stateless request with the fields that the transport repeats.
    ///
    /// # Errors
    ///
    /// Returns a fault that names the difference.
    fn check_request(&self, request: &MirroredFields<'_>) -> Result<(), Fault>;

    /// Checks that a message may omit its protocol version.
    ///
    /// # Errors
    ///
    /// Returns a fault if the transport names a version in which every request must contain its version.
    fn check_unversioned(&self) -> Result<(), Fault>;

    /// Compares arguments with the copies that the transport carries, such as HTTP headers. Each argument is a name,
    /// and the JSON of its value if it has one.
    ///
    /// # Errors
    ///
    /// Returns a fault that names the difference.
    fn check_arguments(&self, arguments: &[(&str, Option<&str>)]) -> Result<(), Fault>;

    /// Reserves capacity for a call. Other messages need none, so responses and cancellations pass even at capacity.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if there is no capacity left.
    fn admit(&self) -> Result<Permit, Fault>;

    /// Checks that there is capacity for a call that completes in place and therefore need not reserve it.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if there is no capacity left.
    fn check_capacity(&self) -> Result<(), Fault>;

    /// Reserves capacity for a `subscriptions/listen` request.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::Overloaded`] if there is no capacity left.
    fn admit_listener(&self) -> Result<Permit, Fault>;

    /// Returns the authenticated sender of the message.
    fn principal(&self) -> Option<&str>;
}

/// The fields of a stateless request that a transport may repeat outside the message.
#[derive(Debug)]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only HTTP repeats fields of a request"))]
pub(crate) struct MirroredFields<'a> {
    /// The JSON of the protocol version.
    pub(crate) version: RawJson<'a>,
    pub(crate) method: &'a str,
    /// The JSON of the name of a tool or prompt, the URI of a resource, or the id of a task.
    pub(crate) subject: Option<RawJson<'a>>,
}

/// Creates the span in which a request is answered: everything that runs for it, such as its function and the layers
/// around that, whether in place, in a tokio task or on a blocking thread.
///
/// `entry` is recorded once the function is known. If no subscriber wants the span, this costs an atomic load: nothing
/// is formatted.
pub(crate) fn request_span(connection: &ConnectionContext, method: &str, id: &Id<'_>) -> Span {
    tracing::info_span!(
        target: "mcp_runtime::request",
        "mcp.request",
        method,
        id = id.as_json(),
        // A connection without a source has one session, whose id says nothing.
        session = connection.source.as_ref().and_then(|_| connection.session.get()?.id()).map(log_id),
        principal = connection.principal().map(excerpt).as_deref(),
        entry = Empty,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_info_is_bounded_and_printable() {
        let long = "é".repeat(1 << 20);
        for (name, expected) in [
            ("x".to_owned(), "x".to_owned()),
            ("x".repeat(256), "x".repeat(256)),
            ("x".repeat(257), "x".repeat(256)),
            (long.clone(), "é".repeat(128)),
            (format!("x{long}"), format!("x{}", "é".repeat(127))),
            ("a\nb\u{1b}[31m".to_owned(), "a\u{fffd}b\u{fffd}[31m".to_owned()),
        ] {
            let json = serde_json::json!({"name": name, "version": name, "title": name}).to_string();
            let info = client_info(Some(RawJson::new(&json))).unwrap();
            let expected = ClientInfo { name: expected.clone(), version: expected.clone(), title: Some(expected) };
            assert_eq!(info, expected);
            assert!(info.name.capacity() <= 3 * MAX_CLIENT_INFO_BYTES);
        }
    }
}
