use std::{fmt, sync::Arc, time::Duration};

use mcp_runtime::{Context, backend::RecordCondition};

use super::{codes, codes::Grant, inner::Inner, login::UpstreamError};

/// The time before its expiry at which a token is replaced, in seconds.
const MARGIN: f64 = 30.0;

/// The number of attempts if the client refreshes its own tokens at the same time.
const ATTEMPTS: usize = 3;

/// The access tokens that users have at the provider, for functions that call its services in the name of the user.
///
/// Functions have no access to them unless the author adds this value as state. Clients never see them.
///
/// ```no_run
/// use mcp_auth::{AuthorizationServer, UpstreamTokens};
/// use mcp_runtime::{Context, Server, tool};
///
/// /// Count your calendars.
/// #[tool(read_only, scopes("calendar:read"))]
/// async fn count_calendars(tokens: &UpstreamTokens, ctx: &Context) -> Result<usize, String> {
///     let token = tokens.of(ctx).await.map_err(|error| error.to_string())?;
///     // … a request with `Authorization: Bearer {token}`
/// #   Ok(token.len())
/// }
///
/// # fn configure(server: Server, authorization: AuthorizationServer) -> Server {
/// server.with_state(authorization.upstream_tokens()).authenticate(authorization)
/// # }
/// ```
#[derive(Clone)]
pub struct UpstreamTokens(pub(super) Arc<Inner>);

/// Why there is no token of a user at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UpstreamTokenError {
    /// The caller has not logged in at the provider: it is a machine, or identified in another way.
    NoLogin,
    /// The login has ended. The client has to authorize again.
    Ended,
    /// The provider or the store does not respond.
    Unavailable,
}

impl fmt::Display for UpstreamTokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoLogin => "the caller has not logged in at the provider",
            Self::Ended => "the login at the provider has ended: authorize again",
            Self::Unavailable => "the token of the provider is temporarily unavailable",
        })
    }
}

impl std::error::Error for UpstreamTokenError {}

impl UpstreamTokens {
    /// Returns the access token of the caller at the provider, which is refreshed first if it is about to expire.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller has none, or if it cannot be refreshed.
    pub async fn of(&self, ctx: &Context) -> Result<String, UpstreamTokenError> {
        let identity = ctx.identity().ok_or(UpstreamTokenError::NoLogin)?;
        let text = |name: &str| identity.claim(name).and_then(serde_json::Value::as_str);
        let is_own = text("iss") == Some(&self.0.options.issuer);
        let grant = text("grant").filter(|_| is_own).ok_or(UpstreamTokenError::NoLogin)?;
        for _ in 0..ATTEMPTS {
            if let Some(token) = self.current(grant).await? {
                return Ok(token);
            }
        }
        Err(UpstreamTokenError::Unavailable)
    }

    /// Returns the token of a grant, or `None` if the grant was changed at the same time.
    async fn current(&self, id: &str) -> Result<Option<String>, UpstreamTokenError> {
        let server = &*self.0;
        let _refreshing = server.refreshing.lock(id).await;
        let unavailable = |error: mcp_runtime::backend::BackendError| {
            tracing::error!(%error, "the token of a user at the provider cannot be read");
            UpstreamTokenError::Unavailable
        };
        let found = server.store.get::<Grant>("grant", id).await.map_err(unavailable)?;
        let (mut grant, version) = found.ok_or(UpstreamTokenError::Ended)?;
        let now = server.clock.unix();
        if grant.tokens.refresh.is_none() || grant.tokens.expires.is_none_or(|expires| now + MARGIN < expires) {
            return Ok(Some(grant.tokens.access));
        }
        grant.tokens = match server.upstream.refresh(&grant.tokens, now).await {
            Ok(tokens) => tokens,
            Err(UpstreamError::Refused(_)) => {
                codes::end(server, id).await.map_err(unavailable)?;
                return Err(UpstreamTokenError::Ended);
            }
            Err(error) => {
                tracing::warn!(%error, "the token of a user at the provider cannot be refreshed");
                return Err(UpstreamTokenError::Unavailable);
            }
        };
        let lifetime = Duration::from_secs_f64((grant.expires - now).max(0.0));
        let written = server.store.set("grant", id, RecordCondition::Version(version), &grant, lifetime).await;
        Ok(written.map_err(unavailable)?.then_some(grant.tokens.access))
    }
}

impl fmt::Debug for UpstreamTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpstreamTokens")
    }
}
