/// Whom a request comes from, as a middleware has found out: it puts this into the extensions of the HTTP request.
///
/// Functions find it with [`Context::principal`](crate::Context::principal), and [`Server::visible_to`](crate::Server::visible_to) with
/// [`Caller::principal`](crate::Caller::principal).
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
    /// Names somebody.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
