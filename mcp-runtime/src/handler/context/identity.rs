use serde::de::DeserializeOwned;

use super::context::Context;
use crate::{
    auth::{Hierarchy, Identity, Scopes},
    error::Fault,
};

/// Who is calling, and what the caller may do.
impl Context {
    /// Returns the authenticated caller. Over HTTP, [`Server::authenticate`](crate::Server::authenticate) or a
    /// middleware identifies it; over stdio, it is that of
    /// [`Server::stdio_identity`](crate::Server::stdio_identity).
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Return the scopes of the user.
    /// #[tool(read_only)]
    /// fn scopes(ctx: &Context) -> Vec<String> {
    ///     ctx.identity().into_iter().flat_map(|identity| identity.scopes()).map(str::to_owned).collect()
    /// }
    /// ```
    pub fn identity(&self) -> Option<&Identity> {
        self.inner.parts.caller.identity()
    }

    /// Decodes the claims of the caller. Returns `None` if the caller is unknown, or if its claims do not have the form
    /// of `T`.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// #[derive(serde::Deserialize)]
    /// struct Claims {
    ///     email: String,
    /// }
    ///
    /// /// Return the email address of the user.
    /// #[tool(read_only)]
    /// fn email(ctx: &Context) -> Option<String> {
    ///     ctx.claims::<Claims>().map(|claims| claims.email)
    /// }
    /// ```
    pub fn claims<T: DeserializeOwned>(&self) -> Option<T> {
        self.identity()?.claims().ok()
    }

    /// Requires scopes that are only known at run time, in addition to those of the annotation.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, tool};
    /// /// Delete a note.
    /// #[tool(scopes("notes:write"))]
    /// fn delete_note(ctx: &Context, id: u32, is_shared: bool) -> Result<(), Fault> {
    ///     if is_shared {
    ///         ctx.require_scope("notes:share")?;
    ///     }
    ///     // …
    ///     Ok(())
    /// }
    /// ```
    ///
    /// Call it before the function has effects. If the response has not begun, it becomes an HTTP response with status
    /// 403 that names all scopes of the operation, and the client can obtain a token with them and repeat the call.
    /// Otherwise, the error names them. Over stdio, where there are no tokens, the check succeeds.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::InsufficientScope`], which the function should return.
    pub fn require_scope(&self, scopes: impl Into<Scopes>) -> Result<(), Fault> {
        let parts = &self.inner.parts;
        let Some(head) = self.head() else { return Ok(()) };
        let (demanded, identity) = (scopes.into(), head.identity());
        if parts.access.as_ref().is_some_and(|rules| rules.grants(identity, &demanded)) {
            return Ok(());
        }
        let all = parts.scopes.as_deref().cloned().unwrap_or_default().and(demanded);
        let required = match &parts.access {
            Some(rules) => rules.to_request(identity, all),
            None => Hierarchy::default().to_request(None, &all),
        };
        head.demand_scopes(&required);
        Err(Fault::InsufficientScope { required })
    }
}
