/// The identity of a caller, established by a middleware that inserts it into the extensions of the HTTP request.
///
/// Functions read it with [`Context::principal`](crate::Context::principal), and
/// [`Server::visible_to`](crate::Server::visible_to) with [`Caller::principal`](crate::Caller::principal). Sessions,
/// tasks and the state of calls that ask their client belong to the principal that opened them: to anybody else, they do
/// not exist.
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

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
