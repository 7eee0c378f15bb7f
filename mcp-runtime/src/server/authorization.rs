use std::{panic::Location, sync::Arc};

use super::Server;
#[cfg(feature = "http")]
use crate::{auth::Authenticator, transport::http::Authorization};
use crate::{
    auth::{Identity, Scopes},
    handler::entry::EntryInfo,
};

/// Authentication and scopes. See the chapter [Authorization](crate::guide::authorization).
impl Server {
    /// Requires every HTTP request to be authenticated.
    ///
    /// The server then rejects requests without valid credentials with status 401, and binds sessions, tasks and
    /// everything else that outlives a request to the [`Principal`](crate::auth::Principal). If the authenticator names an
    /// authorization server, the server serves the metadata of the protected resource. Other transports are not affected.
    ///
    /// ```
    /// use mcp_runtime::{Server, auth::{IdentityFromExtensions, ProtectedResource}};
    ///
    /// let resource = ProtectedResource::new()
    ///     .resource("https://mcp.example.com/mcp")
    ///     .with_authorization_server("https://id.example.com");
    /// let server = Server::empty("notes", "1.0.0").authenticate(IdentityFromExtensions::new(resource));
    /// assert!(server.check().is_ok());
    /// ```
    ///
    /// A server has one authenticator: a second one is an error when the server is built.
    ///
    /// See [Authorization](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization).
    #[cfg(feature = "http")]
    pub fn authenticate(mut self, authenticator: impl Authenticator) -> Self {
        self.profile.authenticates = true;
        if self.authenticator.replace(Arc::new(authenticator)).is_some() {
            self.problems.push(
                "the server has two authenticators\nhelp: combine them in one that tries each of them".to_owned(),
            );
        }
        self
    }

    /// Requires every HTTP request to have scopes, in addition to the scopes of the function that it calls. Challenges
    /// of requests that call no function name these scopes.
    pub fn require_scopes(mut self, scopes: impl Into<Scopes>) -> Self {
        let access = Arc::make_mut(&mut self.profile.access);
        access.base = std::mem::take(&mut access.base).and(scopes);
        self
    }

    /// Requires scopes for the functions that `applies` selects, in addition to the scopes of their annotations.
    ///
    /// ```
    /// use mcp_runtime::{Server, auth::Scopes};
    ///
    /// let server = Server::new("notes", "1.0.0")
    ///     .require_scopes_for(|entry| entry.has_tag("admin"), "notes:admin")
    ///     .require_scopes_for(|entry| entry.package == "reports", Scopes::any(["reports:read", "reports:all"]));
    /// ```
    ///
    /// Scopes are not enforced over stdio, where there are no tokens. Over HTTP, a server with scopes and without
    /// [`authenticate`](Self::authenticate) does not start.
    #[track_caller]
    pub fn require_scopes_for(
        mut self,
        applies: impl Fn(&EntryInfo<'_>) -> bool + Send + Sync + 'static,
        scopes: impl Into<Scopes>,
    ) -> Self {
        self.profile.scopes.push(applies, scopes.into(), Location::caller());
        self
    }

    /// Omits functions from lists for callers that lack their scopes. By default, lists contain them, so that clients
    /// find out which scopes they could request.
    ///
    /// A caller that knows the name of a function can still find out that it exists: the call is answered with the
    /// scopes that it needs. [`visible_to`](Self::visible_to) hides functions entirely.
    pub fn hide_unauthorized(mut self) -> Self {
        self.profile.hides_unauthorized = true;
        self
    }

    /// Declares that a scope contains other scopes: a caller that was granted `scope` may do everything that requires
    /// one of `implied`.
    ///
    /// The relation is transitive.
    ///
    /// ```
    /// use mcp_runtime::Server;
    ///
    /// let server = Server::new("notes", "1.0.0")
    ///     .scope_implies("notes:admin", ["notes:write", "notes:export"])
    ///     .scope_implies("notes:write", ["notes:read"]);
    /// ```
    pub fn scope_implies(
        mut self,
        scope: impl Into<String>,
        implied: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let (scope, hierarchy) = (scope.into(), &mut Arc::make_mut(&mut self.profile.access).hierarchy);
        implied.into_iter().for_each(|implied| hierarchy.add(scope.clone(), implied.into()));
        self
    }

    /// Sets a rule by which scopes contain other scopes, beside [`scope_implies`](Self::scope_implies): whether its
    /// first argument, a scope that was granted, contains its second.
    ///
    /// ```
    /// use mcp_runtime::Server;
    ///
    /// // `notes:*` contains `notes:read`.
    /// let server = Server::new("notes", "1.0.0").scope_implies_if(|granted, required| {
    ///     granted.strip_suffix('*').is_some_and(|prefix| required.starts_with(prefix))
    /// });
    /// ```
    pub fn scope_implies_if(mut self, contains: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.profile.access).hierarchy.set_rule(contains);
        self
    }

    /// Sets the identity of the sender of messages over stdio, or over any transport but HTTP: the user who started the
    /// process.
    ///
    /// The process reads its credentials from the environment. Scopes are not enforced, since the user who starts the
    /// process has its rights anyway.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use mcp_runtime::{Context, Revision, Server, auth::Identity, tool};
    ///
    /// /// Return the name of the user.
    /// #[tool(read_only)]
    /// fn whoami(ctx: &Context) -> Option<String> {
    ///     Some(ctx.identity()?.principal().to_string())
    /// }
    ///
    /// let server = Server::empty("notes", "1.0.0").with::<whoami>().stdio_identity(Identity::new("ada"));
    /// let mut client = server.test_client(Revision::V2026_07_28);
    /// assert_eq!(client.call("whoami", ()).await.unwrap().text(), "ada");
    /// # });
    /// ```
    pub fn stdio_identity(mut self, identity: Identity) -> Self {
        self.profile.local_identity = Some(identity);
        self
    }

    /// Reports scopes that cannot be required.
    pub(super) fn check_scopes(&mut self) {
        self.problems.extend(self.profile.scopes.problems());
        let base = &self.profile.access.base;
        if let Some(problem) = base.problem().filter(|_| !base.is_empty()) {
            self.problems.push(format!("`Server::require_scopes`: {problem}"));
        }
    }

    /// Prepares the authentication of HTTP requests, and reports what is wrong with it.
    #[cfg(feature = "http")]
    pub(super) fn authorization(&mut self) -> Option<Arc<Authorization>> {
        let identity = &self.profile.identity;
        let name = identity.title.as_ref().unwrap_or(&identity.name);
        match Authorization::new(self.authenticator.take()?, name) {
            Ok(authorization) => return Some(Arc::new(authorization)),
            Err(problems) => self.problems.extend(problems),
        }
        None
    }
}
