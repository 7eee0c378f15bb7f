use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracing::Span;

use super::{
    caller::VisibleTo, dialect::RequestDialect, params::Params, sender_access::SenderAccess, source::RequestSource,
};
use crate::{
    auth::Identity,
    cluster::SessionMessage,
    engine::{
        call::{batch::Sink, clock::Clock, in_flight::InFlight},
        outbox::Outbox,
        rates::FlowControl,
        server::Engine,
        session::Session,
    },
    handler::{Caller, ClientInfo, Encoding},
    jsonrpc::{Id, RawJson},
    registry::Registry,
    revision::{Dialect, Feature},
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
