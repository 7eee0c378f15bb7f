use std::{fmt, sync::Arc};

use mcp_runtime::{Context, auth::Identity};

use super::{
    grants::{self, Grant},
    inner::Inner,
    login::{UpstreamError, UpstreamTokenError},
    random,
};
use crate::shares::Peer;

/// The time before its expiry at which a token is replaced, in seconds.
const MARGIN: f64 = 30.0;

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

impl UpstreamTokens {
    /// Returns the access token of the caller at the provider, which is refreshed first if it is about to expire.
    ///
    /// # Errors
    ///
    /// Returns an error if the caller has none, or if it has expired and cannot be refreshed.
    pub async fn of(&self, ctx: &Context) -> Result<String, UpstreamTokenError> {
        self.of_identity(ctx.identity(), Peer::from(ctx.peer_addr())).await
    }

    async fn of_identity(&self, identity: Option<&Identity>, peer: Peer) -> Result<String, UpstreamTokenError> {
        let identity = identity.ok_or(UpstreamTokenError::NoLogin)?;
        let text = |name: &str| identity.claim(name).and_then(serde_json::Value::as_str);
        let is_own = text("iss") == Some(&self.0.options.issuer);
        let grant = text("grant").filter(|_| is_own).ok_or(UpstreamTokenError::NoLogin)?;
        let (found, _) = grants::get(&self.0, grant).await?.ok_or(UpstreamTokenError::Ended)?;
        if is_fresh(&self.0, &found) {
            return Ok(found.tokens.access);
        }
        let (server, id) = (Arc::clone(&self.0), grant.to_owned());
        grants::exclusively(&self.0, grant, async move { renewed(&server, &id, peer).await }).await?
    }

    /// Exchanges the access token of the caller for one with which another service can be called in the name of the caller:
    /// `audience` is the service as the provider knows it, and the token has these scopes there. Without scopes, the provider
    /// chooses them.
    ///
    /// Each call is a request to the provider, which must allow this server to exchange tokens.
    ///
    /// ```no_run
    /// # async fn exchange(tokens: &mcp_auth::UpstreamTokens, ctx: &mcp_runtime::Context) -> Result<(), mcp_auth::UpstreamTokenError> {
    /// let token = tokens.exchange(ctx, "https://calendar.example.com", ["events:read"]).await?;
    /// // … a request to this service with `Authorization: Bearer {token}`
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// See [RFC 8693](https://www.rfc-editor.org/rfc/rfc8693).
    ///
    /// # Errors
    ///
    /// Returns an error if the caller has no token, or if the provider refuses or does not respond.
    pub async fn exchange(
        &self,
        ctx: &Context,
        audience: &str,
        scopes: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<String, UpstreamTokenError> {
        let scope = joined(scopes);
        let token = self.of(ctx).await?;
        self.exchange_token(&token, audience, &scope).await
    }

    /// Exchanges the access token of a user, as [`exchange`](Self::exchange) does, outside of a call: for a connection to another
    /// service that is opened in the name of the user.
    ///
    /// # Errors
    ///
    /// Fails as [`exchange`](Self::exchange) does.
    pub async fn exchange_for(
        &self,
        user: &Identity,
        audience: &str,
        scopes: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<String, UpstreamTokenError> {
        let scope = joined(scopes);
        let token = self.of_identity(Some(user), Peer::from(None)).await?;
        self.exchange_token(&token, audience, &scope).await
    }

    async fn exchange_token(&self, token: &str, audience: &str, scope: &str) -> Result<String, UpstreamTokenError> {
        let exchanged = self.0.upstream.exchange_token(token, audience, scope).await;
        exchanged.map_err(|error| {
            tracing::warn!(%error, audience, "the token of a user cannot be exchanged");
            match error {
                UpstreamError::Refused(_) => UpstreamTokenError::Refused,
                UpstreamError::Unavailable(_) => UpstreamTokenError::Unavailable,
            }
        })
    }
}

/// Returns the parameter `scope`.
fn joined(scopes: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut scope = String::new();
    for name in scopes {
        scope.push_str(if scope.is_empty() { "" } else { " " });
        scope.push_str(name.as_ref());
    }
    scope
}

/// Returns whether the token of a grant does not expire soon, or is still valid and cannot be renewed.
fn is_fresh(server: &Inner, grant: &Grant) -> bool {
    let margin = if grant.tokens.refresh.is_some() { MARGIN } else { 0.0 };
    grant.tokens.expires.is_none_or(|expires| server.clock.unix() + margin < expires)
}

async fn renewed(server: &Inner, id: &str, peer: Peer) -> Result<String, UpstreamTokenError> {
    for _ in 0..grants::ATTEMPTS {
        let (grant, version) = grants::get(server, id).await?.ok_or(UpstreamTokenError::Ended)?;
        if is_fresh(server, &grant) {
            return Ok(grant.tokens.access);
        }
        if grant.tokens.refresh.is_none() {
            return Err(UpstreamTokenError::Ended);
        }
        if let Some(grant) = grants::renew(server, id, grant, version, peer).await?
            && grants::replace(server, id, version, &grant).await?
        {
            return Ok(grant.tokens.access);
        }
        random::pause(grants::MAX_PAUSE).await;
    }
    Err(UpstreamTokenError::Unavailable)
}

impl fmt::Debug for UpstreamTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpstreamTokens")
    }
}
