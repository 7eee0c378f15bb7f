use std::{fmt, sync::Arc};

use mcp_runtime::Context;

use super::{
    grants::{self, Grant},
    inner::Inner,
    login::UpstreamTokenError,
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
    /// Returns an error if the caller has none, or if it cannot be refreshed.
    pub async fn of(&self, ctx: &Context) -> Result<String, UpstreamTokenError> {
        let identity = ctx.identity().ok_or(UpstreamTokenError::NoLogin)?;
        let text = |name: &str| identity.claim(name).and_then(serde_json::Value::as_str);
        let is_own = text("iss") == Some(&self.0.options.issuer);
        let grant = text("grant").filter(|_| is_own).ok_or(UpstreamTokenError::NoLogin)?;
        let (found, _) = grants::get(&self.0, grant).await?.ok_or(UpstreamTokenError::Ended)?;
        if is_fresh(&self.0, &found) {
            return Ok(found.tokens.access);
        }
        let (server, id, peer) = (Arc::clone(&self.0), grant.to_owned(), Peer::from(ctx.peer_addr()));
        grants::exclusively(&self.0, grant, async move { renewed(&server, &id, peer).await }).await?
    }
}

/// Returns whether the token of a grant does not expire soon, or cannot be renewed.
fn is_fresh(server: &Inner, grant: &Grant) -> bool {
    let soon = server.clock.unix() + MARGIN;
    grant.tokens.refresh.is_none() || grant.tokens.expires.is_none_or(|expires| soon < expires)
}

async fn renewed(server: &Inner, id: &str, peer: Peer) -> Result<String, UpstreamTokenError> {
    for _ in 0..grants::ATTEMPTS {
        let (grant, version) = grants::get(server, id).await?.ok_or(UpstreamTokenError::Ended)?;
        if is_fresh(server, &grant) {
            return Ok(grant.tokens.access);
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
