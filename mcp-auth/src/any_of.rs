use std::{fmt, sync::Arc};

use http::request::Parts;
use mcp_runtime::auth::{
    AuthenticateFuture, AuthenticationError, AuthenticationErrorKind as Kind, Authenticator, AuthorizationRoutes,
    Identity, ProtectedResource,
};

/// Accepts a request if one of several authenticators does. They are asked in order, and the first identity counts.
///
/// [`Introspection`](crate::Introspection) sends what it does not know to its issuer, even tokens of other issuers and API
/// keys. Ask it last.
///
/// If all of them refuse a request, the response combines their challenges. It is 503 if one could not tell, otherwise
/// 401 with all reasons.
///
/// ```no_run
/// # use mcp_runtime::Server;
/// use mcp_auth::{AnyOf, ApiKeys, Jwt};
///
/// #[mcp_runtime::server]
/// async fn main(server: Server) -> Result<Server, mcp_auth::Error> {
///     let users = Jwt::discover("https://id.example.com").await?.resource("https://mcp.example.com/mcp");
///     let machines = ApiKeys::file("/etc/notes/api-keys.json")?;
///     Ok(server.authenticate(AnyOf::new(users).or(machines)))
/// }
/// ```
#[must_use]
pub struct AnyOf(Vec<Box<dyn Authenticator>>);

impl AnyOf {
    /// Creates an authenticator that asks this one first.
    pub fn new(first: impl Authenticator) -> Self {
        Self(vec![Box::new(first)])
    }

    /// Adds an authenticator that is asked if the previous ones refuse a request. Its metadata is joined with theirs.
    pub fn or(mut self, next: impl Authenticator) -> Self {
        self.0.push(Box::new(next));
        self
    }

    async fn first(&self, request: &Parts) -> Result<Identity, AuthenticationError> {
        let mut errors = Vec::new();
        for authenticator in &self.0 {
            match authenticator.authenticate(request).await {
                Ok(identity) => return Ok(identity),
                Err(error) => errors.push(error),
            }
        }
        Err(combine(errors))
    }
}

impl Authenticator for AnyOf {
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(self.first(request))
    }

    fn protected_resource(&self) -> ProtectedResource {
        let descriptions = self.0.iter().map(|authenticator| authenticator.protected_resource());
        descriptions.reduce(ProtectedResource::or).unwrap_or_default()
    }

    fn routes(&self) -> Vec<Arc<dyn AuthorizationRoutes>> {
        self.0.iter().flat_map(|authenticator| authenticator.routes()).collect()
    }
}

impl fmt::Debug for AnyOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyOf({} authenticators)", self.0.len())
    }
}

/// Combines the reasons of all authenticators. Those without credentials for them count only if none has any.
fn combine(errors: Vec<AuthenticationError>) -> AuthenticationError {
    let is_missing = |error: &&AuthenticationError| error.kind() == Kind::Missing;
    let present: Vec<_> = errors.iter().filter(|error| !is_missing(error)).collect();
    let message = present.iter().map(|error| error.message()).collect::<Vec<_>>().join("; ");
    let retry_after = present.iter().filter_map(|error| match error.kind() {
        Kind::Unavailable { retry_after, .. } => Some(retry_after),
        _ => None,
    });
    let mut combined = if present.is_empty() {
        AuthenticationError::missing()
    } else if let Some(retry_after) = retry_after.min() {
        AuthenticationError::unavailable(retry_after, message)
    } else if present.iter().all(|error| error.kind() == Kind::Malformed) {
        AuthenticationError::malformed(message)
    } else {
        AuthenticationError::invalid(message)
    };
    let details: Vec<&str> = present.iter().filter_map(|error| error.detail()).collect();
    if !details.is_empty() {
        combined = combined.with_detail(details.join("; "));
    }
    for error in &errors {
        combined = error.challenges().iter().cloned().fold(combined, AuthenticationError::with_challenge);
        for (name, value) in error.response_headers() {
            combined = combined.with_response_header(name.clone(), value.clone());
        }
    }
    combined
}
