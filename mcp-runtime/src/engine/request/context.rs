//! A message with its sender, dialect, session and `tracing` span, and the check of the scopes that it needs.
//!
//! The engine decides, and the transport tells the client. Messages without a source, as over stdio, need no scopes.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use super::{
    operation::{Ending, Operation},
    params::Params,
    source::{RequestSource, SenderAccess, VisibleTo, check_scopes},
};
use crate::{
    auth::{Identity, Scopes},
    engine::{
        call::{
            in_flight::{Batch, InFlight},
            running::Clock,
        },
        limits::FlowControl,
        outbox::Outbox,
        replicas::SessionMessage,
        server::Engine,
        session::Session,
    },
    error::{Fault, beginning},
    handler::{Caller, ClientInfo, Encoding, Function, entry::EntryInfo},
    jsonrpc::{Id, RawJson},
    registry::Registry,
    revision::{Dialect, Feature},
    stdx::Mutex,
};

/// The state of a connection that its requests share.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) engine: Arc<Engine>,
    /// The session, once `initialize` has opened it.
    pub(crate) session: OnceLock<Arc<Session>>,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) source: Option<Arc<dyn RequestSource>>,
    /// Whether the connection serves a single exchange, so that a session opened on it outlives it.
    pub(crate) is_single_exchange: bool,
    /// Whether the messages arrive on the stdin of the process.
    pub(crate) is_stdio: bool,
    pub(crate) clock: Clock,
    /// The messages for other replicas that must be sent before the transmission is answered. Contains at most one
    /// message for each message of a transmission.
    pub(crate) outgoing: Mutex<Vec<SessionMessage>>,
}

impl ConnectionContext {
    /// Creates the state of a connection without a session and without a source.
    pub(crate) fn new(now: Instant, engine: Arc<Engine>, in_flight: Arc<InFlight>, outbox: Arc<Outbox>) -> Self {
        Self {
            engine,
            session: OnceLock::new(),
            in_flight,
            outbox,
            source: None,
            is_single_exchange: false,
            is_stdio: false,
            clock: Clock::new(now),
            outgoing: Mutex::default(),
        }
    }

    /// Returns the principal that the transport has authenticated or, over a transport that does not identify senders,
    /// the principal of the process.
    pub(crate) fn principal(&self) -> Option<&str> {
        match &self.source {
            Some(source) => source.principal(),
            None => self.engine.profile.local_identity.as_ref().map(|identity| identity.principal()),
        }
    }

    /// Keeps a message for the other replicas, if they know the session.
    pub(crate) fn tell_replicas(&self, message: impl FnOnce() -> SessionMessage) {
        if self.session.get().is_some_and(|session| session.is_shared()) {
            self.outgoing.lock().push(message());
        }
    }
}

/// A request, with everything that is needed to answer it.
pub(crate) struct RequestContext<'a> {
    pub(crate) connection: &'a ConnectionContext,
    pub(crate) dialect: &'static Dialect,
    pub(crate) params: &'a Params<'a>,
    pub(crate) id: &'a Id,
    /// The batch that contains the request.
    pub(crate) batch: Option<&'a Arc<Batch>>,
    /// The registry snapshot that the whole request is answered from.
    pub(crate) registry: &'a Arc<Registry>,
    /// The operation that the request is.
    pub(crate) operation: &'a Operation,
}

impl<'a> RequestContext<'a> {
    pub(crate) fn engine(&self) -> &'a Arc<Engine> {
        &self.connection.engine
    }

    /// Ends the operation, and reports a fault to the transport, in addition to the response.
    pub(crate) fn end(&self, ending: &Ending) {
        if let Some(class) = ending.class() {
            self.connection.outbox.set_fault(class);
        }
        self.operation.end(self.dialect, ending);
    }

    pub(crate) fn session(&self) -> Option<&'a Arc<Session>> {
        self.connection.session.get()
    }

    pub(crate) fn has(&self, feature: Feature) -> bool {
        self.dialect.has(feature)
    }

    pub(crate) fn encoding(&self) -> &'a Arc<Encoding> {
        self.connection.engine.encoding(self.dialect)
    }

    /// Returns the principal of the [connection](ConnectionContext::principal).
    pub(crate) fn principal(&self) -> Option<&'a str> {
        self.connection.principal()
    }

    /// Returns the budgets of the sender's requests: those of its session or connection or, over HTTP without a
    /// session, of its peer.
    pub(crate) fn budgets(&self) -> Arc<FlowControl> {
        let connection = self.connection;
        match &connection.source {
            Some(source) if connection.is_single_exchange && self.session().is_none() => {
                let (engine, peer) = (self.engine(), source.sender_key().unwrap_or_default());
                engine.peer_rates.of(&peer, &engine.profile.limits.rates, connection.clock.last())
            }
            _ => Arc::clone(&connection.outbox.flow),
        }
    }

    /// Returns the identity of the sender, unless the transport knows it.
    pub(crate) fn local_identity(&self) -> Option<&'a Identity> {
        self.engine().profile.local_identity.as_ref().filter(|_| self.connection.source.is_none())
    }

    /// Returns the scopes of the sender, for checks that outlive the request.
    pub(crate) fn sender_access(&self) -> SenderAccess {
        let rules = &self.connection.engine.profile.access;
        SenderAccess(self.connection.source.as_ref().map(|source| (Arc::clone(rules), Arc::clone(source))))
    }

    /// Returns the entries that the sender of the request sees.
    pub(crate) fn visible_to(&self) -> VisibleTo {
        let visibility = self.connection.engine.profile.visibility.as_ref();
        VisibleTo(visibility.map(|visibility| Arc::new((visibility.clone(), self.caller()))))
    }

    /// Returns the sender of the request.
    pub(crate) fn caller(&self) -> Caller {
        Caller { client: self.client(), ..self.unnamed_caller() }
    }

    /// Returns the sender of the request without its description of itself, for calls that cannot read it.
    pub(crate) fn unnamed_caller(&self) -> Caller {
        Caller {
            local_identity: self.local_identity().cloned(),
            is_stdio: self.connection.is_stdio && self.connection.source.is_none(),
            client: None,
            revision: self.dialect.revision(),
            head: self.connection.source.as_ref().map(|source| Arc::clone(source) as _),
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

    /// Returns whether the client has declared that it shows pages.
    #[cfg(feature = "ui")]
    pub(crate) fn shows_pages(&self) -> bool {
        let session = self.session_capabilities();
        let own = || self.params.meta.client_capabilities.map_or("{}", crate::jsonrpc::RawJson::text);
        let capabilities = session.as_deref().unwrap_or_else(own);
        let object_member = crate::jsonrpc::object_member;
        let extensions = object_member(capabilities, "extensions");
        let settings = extensions.and_then(|extensions| object_member(extensions, crate::ui::EXTENSION));
        settings.is_some_and(crate::ui::shows_pages)
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
    beginning(&text, MAX_CLIENT_INFO_BYTES).replace(char::is_control, "\u{fffd}")
}

/// Checks that the sender of a request may use a function.
///
/// # Errors
///
/// Returns [`Fault::InsufficientScope`] with every scope of the operation.
pub(crate) fn authorize(request: &RequestContext<'_>, function: &Function) -> Result<(), Fault> {
    let (Some(source), Some(scopes)) = (&request.connection.source, &function.scopes) else { return Ok(()) };
    check_scopes(&request.engine().profile.access, &**source, scopes)
}

/// Returns whether the sender of a request may use a function.
pub(crate) fn may_use(request: &RequestContext<'_>, function: &Function) -> bool {
    let (Some(source), Some(scopes)) = (&request.connection.source, &function.scopes) else { return true };
    request.engine().profile.access.grants(source.identity(), scopes)
}

/// The entries that the sender of a request finds in lists.
pub(crate) struct ListedTo {
    visible: VisibleTo,
    /// The scopes by which entries are omitted. `None` if entries are listed for senders that may not use them.
    access: Option<SenderAccess>,
}

impl ListedTo {
    pub(crate) fn sender_of(request: &RequestContext<'_>) -> Self {
        let engine = request.engine();
        let hides = engine.profile.hides_unauthorized && request.registry.requires_scopes;
        Self { visible: request.visible_to(), access: hides.then(|| request.sender_access()) }
    }

    /// Returns whether some entries may be omitted.
    pub(crate) fn is_limited(&self) -> bool {
        self.visible.is_limited() || self.access.is_some()
    }

    /// Returns whether the sender sees a function.
    pub(crate) fn sees(&self, function: &Function) -> bool {
        self.visible.sees(function)
    }

    /// Returns whether lists contain an entry that requires scopes.
    pub(crate) fn includes(&self, info: &EntryInfo<'_>, scopes: Option<&Scopes>) -> bool {
        let is_omitted = self.access.as_ref().zip(scopes).is_some_and(|(access, scopes)| !access.grants(scopes));
        !is_omitted && self.visible.sees_entry(info)
    }
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
