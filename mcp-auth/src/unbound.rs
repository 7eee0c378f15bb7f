use std::fmt;

/// An authenticator that does not know yet which resource it protects.
///
/// It does not implement [`Authenticator`](mcp_runtime::auth::Authenticator), so a server that accepts tokens of any audience
/// does not compile:
///
/// ```compile_fail,E0277
/// let keys: mcp_auth::JwkSet = r#"{"keys": []}"#.parse().unwrap();
/// let jwt = mcp_auth::Jwt::keys("https://id.example.com", keys);
/// mcp_runtime::Server::new("notes", "1.0.0").authenticate(jwt); // `resource` is missing
/// ```
#[must_use = "call `resource` to create an authenticator"]
pub struct Unbound<A>(pub(crate) A);

impl<A> fmt::Debug for Unbound<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unbound")
    }
}
