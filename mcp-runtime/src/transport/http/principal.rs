use http::request::Parts;

/// The identity of a caller, established by a middleware that inserts it into the extensions of each HTTP request.
///
/// Functions read it with [`Context::principal`](crate::Context::principal), and layers and
/// [`Server::visible_to`](crate::Server::visible_to) with [`Caller::principal`](crate::Caller::principal).
///
/// Anything that outlives a request belongs to the principal of the request that created it. Principals are equal if
/// their names are equal, byte for byte. All callers without a principal count as one principal. For other principals,
/// the following do not exist, even if they know the ids:
///
/// - A session with its streams, its calls, its subscriptions and the server's requests to the client. A request that
///   names it receives the status 404, as for an unknown id, and has no effect: it does not cancel a call, answer for
///   the client, resume a stream, end the session or keep it from expiring. A middleware must therefore insert the same
///   principal into every request of a session: if it adds or omits the principal later, the session is not found. The
///   same holds for the sessions of [`HttpOptions::legacy_sse`](crate::HttpOptions::legacy_sse).
/// - A task. Without a principal, it belongs to its session or, in the stateless revision 2026-07-28, to anybody who
///   knows its id.
/// - The state of a call that asks its client in revision 2026-07-28: nobody else can continue the call with it.
///
/// [Rate limits](crate::layers) per caller and [cached results](crate::layers) are also kept apart by principal.
///
/// ```
/// # use mcp_runtime::Principal;
/// # fn authenticate(request: &mut http::Request<()>) {
/// request.extensions_mut().insert(Principal::new("ada@example.com"));
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal(String);

impl Principal {
    /// Creates a principal with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Returns the name of the sender of a request.
    pub(super) fn of(request: &Parts) -> Option<&str> {
        request.extensions.get().map(Self::as_str)
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
