//! What HTTP adds to a server: authentication, and the conversion into a service.

use std::sync::Arc;

use super::{BuiltServer, Server};
#[cfg(feature = "cluster")]
use crate::cluster::Cluster;
use crate::{
    auth::Authenticator,
    error::BuildError,
    transport::http::{
        Authorization, Endpoint, HttpOptions, HttpService, LegacySessions,
        session::{LocalSessions, Sessions},
    },
};

/// The maximum number of functions that an error names.
const MAX_NAMES: usize = 5;

/// The parts of a built server that only HTTP needs.
#[derive(Debug, Clone)]
pub(super) struct HttpParts {
    /// The processes that share the backend. `None` if the author has not set one.
    #[cfg(feature = "cluster")]
    pub(super) cluster: Option<Arc<Cluster>>,
    /// How HTTP requests are authenticated.
    pub(super) authorization: Option<Arc<Authorization>>,
    pub(super) legacy: LegacySessions,
}

/// Authentication. See the chapter [Authorization](crate::guide::authorization).
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
    pub fn authenticate(mut self, authenticator: impl Authenticator) -> Self {
        self.profile.authenticates = true;
        if self.authenticator.replace(Arc::new(authenticator)).is_some() {
            self.problems.push(
                "the server has two authenticators\nhelp: combine them in one that tries each of them".to_owned(),
            );
        }
        self
    }

    /// Prepares the authentication of HTTP requests, and reports what is wrong with it.
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

impl BuiltServer {
    /// Converts the server into an HTTP service, to [serve](crate::http::serve) on a listener or to mount into axum and
    /// other frameworks based on `http` and `tower`.
    ///
    /// ```
    /// # use mcp_runtime::{BuildError, HttpOptions, Server};
    /// # #[allow(dead_code)]
    /// fn app(server: Server) -> Result<axum::Router, BuildError> {
    ///     let mcp = server.build()?.into_http_service(HttpOptions::default())?;
    ///     Ok(axum::Router::new().nest_service("/mcp", mcp))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if functions require scopes, but the server has no authenticator, or if an option is invalid.
    pub fn into_http_service(self, options: HttpOptions) -> Result<HttpService, BuildError> {
        let problems: Vec<_> = self.authorization_problem().into_iter().chain(options.problem()).collect();
        if !problems.is_empty() {
            return Err(BuildError::new(problems));
        }
        let is_https = self.http.authorization.as_ref().is_some_and(|authorization| authorization.is_https());
        if is_https && !options.knows_clients_of_proxies() {
            tracing::warn!(
                "the resource has an `https` URL, so a proxy forwards all requests, but the addresses of its clients are \
                 unknown: they share the limits for requests without a principal\n\
                 help: name the proxy with `--trusted-proxies 10.0.0.0/8` or \
                 `HttpOptions::trusted_proxies(\"10.0.0.0/8\")`, or set `HttpOptions::peer_addr`"
            );
        }
        Ok(HttpService::new(self.endpoint(options), self.http.legacy))
    }

    /// Creates an endpoint, whose sessions the processes that share the backend share.
    pub(crate) fn endpoint(&self, options: HttpOptions) -> Endpoint {
        let local = Arc::new(LocalSessions::new(&options));
        let sessions: Arc<dyn Sessions> = Arc::clone(&local) as _;
        #[cfg(feature = "cluster")]
        let cluster = self.http.cluster.as_ref();
        #[cfg(feature = "cluster")]
        let sessions = cluster.map_or(sessions, |cluster| cluster.sessions(&self.engine, &local, &options));
        Endpoint::new(Arc::clone(&self.engine), self.http.authorization.clone(), local, sessions, options)
    }

    /// Returns a problem if functions with scopes are reachable without authentication.
    fn authorization_problem(&self) -> Option<String> {
        let registry = self.engine.registry();
        if self.http.authorization.is_some()
            || (!registry.requires_scopes && self.engine.profile.access.base.is_empty())
        {
            return None;
        }
        let functions = registry.functions().map(|(function, _)| function);
        let mut functions: Vec<_> = functions.filter(|function| function.scopes.is_some()).collect();
        functions.sort_by_key(|function| (function.kind() as u8, function.key()));
        let names: Vec<_> = functions.iter().map(|function| format!("`{}`", function.name)).collect();
        let what = match names.as_slice() {
            [] => "every request requires scopes".to_owned(),
            [name] => format!("{name} requires scopes"),
            names if names.len() > MAX_NAMES => format!("{} and others require scopes", names[..MAX_NAMES].join(", ")),
            names => format!("{} require scopes", names.join(", ")),
        };
        Some(format!(
            "{what}, but the server does not authenticate requests over HTTP\n\
             help: add an authenticator with `Server::authenticate`; if a middleware identifies the callers, add \
             `IdentityFromExtensions`"
        ))
    }
}
