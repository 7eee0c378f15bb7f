use std::{fmt, sync::Arc, time::Duration};

use http::request::Parts;
use mcp_runtime::{
    auth::{AuthenticateFuture, AuthenticationError, Authenticator, AuthorizationRoutes, ProtectedResource},
    backend::{MemoryRecords, Records},
};
use ring::hmac;
use serde_json::Value;

use super::{
    audit::Event,
    client::ConfiguredClient,
    clients::Clients,
    cookies::Cookies,
    documents::{Documents, MAX_DOCUMENT, Policy},
    ended::Ended,
    grants,
    inner::Inner,
    keys::SigningKeys,
    options::{Endpoint, Endpoints, Options},
    page::ConsentPage,
    random,
    routes::Routes,
    seal::Sealer,
    store::Store,
    upstream::Upstream,
    upstream_tokens::UpstreamTokens,
    users,
};
use crate::{
    Dpop, Error, Jwt,
    audience::Audience,
    clock::Clock,
    dpop::{CLIENT_PROOFS, Proofs},
    fetch::Fetcher,
    jwt::Keys,
    shares::Peer,
    url::SecureUrl,
};

/// The bounds of the lifetime of access tokens.
const ACCESS_TOKENS: std::ops::RangeInclusive<Duration> = Duration::from_secs(60)..=Duration::from_secs(60 * 60);

/// The maximum time for which a login can be refreshed.
const MAX_LOGIN: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// An authorization server in the same process as the MCP server, for identity providers that cannot do what MCP clients
/// ask for: users log in at the provider, and clients get tokens of this server.
///
/// It is also the authenticator for these tokens, and the resource that it describes names itself as its authorization
/// server. Clients of 2025-03-26 find it, too, since they expect it on the origin of the MCP server.
///
/// ```no_run
/// # use mcp_runtime::Server;
/// use mcp_auth::{AuthorizationServer, ClientCredentials, Upstream};
///
/// #[mcp_runtime::server]
/// async fn main(
///     server: Server,
///     #[arg(env = "CLIENT_SECRET")] client_secret: String,
/// ) -> Result<Server, mcp_auth::Error> {
///     let credentials = ClientCredentials::basic("notes", client_secret);
///     let upstream = Upstream::discover("https://id.example.com", credentials).await?;
///     let authorization = AuthorizationServer::builder("https://mcp.example.com/mcp", upstream)?
///         .service_name("Notes")
///         .with_scope("notes:read", "Read your notes")
///         .with_scope("notes:write", "Change your notes")
///         .build()
///         .await?;
///     Ok(server.authenticate(authorization))
/// }
/// ```
///
/// At the provider, register `https://mcp.example.com/authorize/callback` as the redirect URI.
///
/// # Behaviour
///
/// - Metadata at `/.well-known/oauth-authorization-server`, with and without the path of the MCP endpoint, and the
///   endpoints `/authorize`, `/par`, `/token`, `/register`, `/revoke` and `/introspect`.
/// - Authorization codes with PKCE (S256 only), exactly registered redirect URIs except for ports on the loopback
///   interface, and `iss` in every authorization response.
/// - A page on which the user approves every client, before the login at the provider. An approval is remembered for 30
///   days for the same user, client, redirect URI and scopes in the same browser, but never for a redirect URI on the
///   loopback interface or with a scheme of an application. Without TLS, the user confirms each login once more.
/// - A page at `/authorize/account`, on which users see which clients they have allowed, and end their access.
/// - Access tokens are JWTs that the server signs with keys of its own, which it replaces every day. They expire after
///   10 minutes. Refresh tokens can be used once: if one is used again, the grant ends, except that a client that repeats
///   its last refresh within 30 seconds gets the same tokens. A refresh also asks the provider whether the login still
///   exists, and what it says about the user now.
/// - Logout tokens of the provider at `/authorize/backchannel-logout`, which end the grants of a session or user.
/// - Clients register dynamically, are identified by the URL of a metadata document, or are
///   [configured](AuthorizationServerBuilder::with_client).
///
/// # Errors of the provider
///
/// If the provider does not respond, logins end with `temporarily_unavailable`, refreshes are answered with status 503,
/// and grants stay as they are. If it refuses to refresh its own tokens, the grant ends.
pub struct AuthorizationServer {
    inner: Arc<Inner>,
    jwt: Jwt,
}

/// Configures an [`AuthorizationServer`].
#[must_use]
pub struct AuthorizationServerBuilder {
    options: Options,
    upstream: Upstream,
    records: Option<Arc<dyn Records>>,
    secrets: Vec<Vec<u8>>,
    clients: Vec<ConfiguredClient>,
    documents: Option<Box<Policy>>,
    dpop: Option<Dpop>,
    clock: Clock,
}

impl AuthorizationServer {
    /// Begins to configure a server. `resource` is the URL of the MCP endpoint as clients know it, such as
    /// `https://mcp.example.com/mcp`. The issuer is its origin.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid, or is neither `https` nor on the loopback interface.
    pub fn builder(resource: &str, upstream: Upstream) -> Result<AuthorizationServerBuilder, Error> {
        Ok(AuthorizationServerBuilder {
            options: Options::new(resource)?,
            upstream,
            records: None,
            secrets: Vec::new(),
            clients: Vec::new(),
            documents: Some(Box::new(|_| true)),
            dpop: None,
            clock: Clock::default(),
        })
    }

    /// Returns the tokens of users at the provider, for functions that need them.
    pub fn upstream_tokens(&self) -> UpstreamTokens {
        UpstreamTokens(Arc::clone(&self.inner))
    }

    /// Ends all grants of a user at all processes with the same [`records`](AuthorizationServerBuilder::records), and
    /// forgets what the user has approved, and the sessions at the provider. `subject` is the user at the provider: what follows `#` in the
    /// [`Principal`](mcp_runtime::auth::Principal). Returns the number of grants that have ended.
    ///
    /// This process rejects the access tokens at once, and others within a second of their next request. A login that is
    /// in progress at the provider is not affected: a user who may not come back must be locked out there, or by
    /// [`admit`](AuthorizationServerBuilder::admit).
    ///
    /// # Errors
    ///
    /// Returns an error if the store is not available. Some grants may have ended.
    pub async fn revoke_grants(&self, subject: &str) -> Result<usize, Error> {
        let ended =
            users::revoke_grants(&self.inner, subject, Peer::default(), "the operator has ended all grants").await;
        ended.map_err(Error::records)
    }

    /// Replaces the keys that sign access tokens at all processes with the same
    /// [`records`](AuthorizationServerBuilder::records), after a key has become known. Access tokens that were signed
    /// before are rejected by this process at once, and by others within a second of their next request. Clients refresh
    /// them: grants and refresh tokens do not depend on these keys.
    ///
    /// A key is encrypted with the [secret](AuthorizationServerBuilder::with_secret) in the store. If the secret has become
    /// known, change it, and delete the records.
    ///
    /// # Errors
    ///
    /// Returns an error if the store is not available.
    pub async fn revoke_signing_keys(&self) -> Result<(), Error> {
        let (keys, lifetime) = self.inner.keys.revoke().await?;
        for key in keys {
            self.inner.ended.add_key(&key, lifetime).await.map_err(Error::records)?;
        }
        Event::new("revocation", Peer::default()).reason("the operator has replaced the signing keys").record();
        Ok(())
    }

    async fn identify(&self, request: &Parts) -> Result<mcp_runtime::auth::Identity, AuthenticationError> {
        self.inner.ended.follow().await;
        let identity = self.jwt.authenticate(request).await?;
        let ids = grants::BINDINGS.map(|name| identity.claim(name).and_then(Value::as_str));
        if ids.into_iter().flatten().any(|id| self.inner.ended.contains(id)) {
            return Err(AuthenticationError::invalid("the token was revoked"));
        }
        Ok(identity)
    }
}

impl AuthorizationServerBuilder {
    /// Sets the issuer: a URL at the origin of the resource, possibly with a path, below which the endpoints are.
    /// Default: the origin, which clients of 2025-03-26 expect.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid or has another origin.
    pub fn issuer(mut self, issuer: &str) -> Result<Self, Error> {
        let url = SecureUrl::parse(issuer)?;
        if url.origin() != self.options.origin || url.uri().query().is_some() {
            return Err(Error::url(issuer, format!("is not at the origin `{}` of the resource", self.options.origin)));
        }
        let path = url.uri().path().trim_end_matches('/').to_owned();
        self.options.endpoints = Endpoints::below(&path);
        (self.options.issuer, self.options.issuer_path) = (issuer.to_owned(), path);
        Ok(self)
    }

    /// Sets the path of an endpoint.
    pub fn endpoint(mut self, endpoint: Endpoint, path: impl Into<String>) -> Self {
        self.options.endpoints.set(endpoint, path.into());
        self
    }

    /// Sets the name of the server for users. Default: the host of the resource.
    pub fn service_name(mut self, name: impl Into<String>) -> Self {
        self.options.service_name = name.into();
        self
    }

    /// Adds a scope that clients may request, with a description for users. Clients that request no scopes get all of
    /// them, and unknown scopes are ignored.
    pub fn with_scope(mut self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.options.scopes.push((name.into(), description.into()));
        self
    }

    /// Sets the claims of the user at the provider, such as `email`, that are copied into access tokens, which clients can
    /// read. They are renewed at each refresh. Claims of more than 1 KiB are left out.
    pub fn claims(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options.claims = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a function that decides by the claims of the provider whether a user may use the server: at the login, and at
    /// each refresh by the new identity token or, without one, by what the user endpoint says now in addition to the last
    /// identity token, if there was any. By default, every user who can log in at the provider may use the server.
    ///
    /// ```no_run
    /// # fn configure(server: mcp_auth::AuthorizationServerBuilder) -> mcp_auth::AuthorizationServerBuilder {
    /// server.admit(|claims| claims["email_verified"] == true && claims["hd"] == "example.com")
    /// # }
    /// ```
    pub fn admit(mut self, admits: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        self.options.admission = Some(Box::new(admits));
        self
    }

    /// Adds a client that is known in advance.
    pub fn with_client(mut self, client: ConfiguredClient) -> Self {
        self.clients.push(client);
        self
    }

    /// Sets whether clients can register dynamically, which is deprecated since 2026-07-28. Default: `true`.
    ///
    /// A registration expires an hour after it was made, but 90 days, or the [`login_lifetime`](Self::login_lifetime) if that
    /// is longer, after each approval. Since this time is not known in advance, the response states none
    /// (`client_secret_expires_at` is 0): a client registers again when the server no longer knows it.
    pub fn registration(mut self, is_enabled: bool) -> Self {
        self.options.registration = is_enabled;
        self
    }

    /// Sets whether clients can be identified by the URL of a metadata document, which the server fetches. Default:
    /// `true`. Documents on addresses that are not public are never fetched.
    pub fn client_documents(mut self, is_enabled: bool) -> Self {
        self.documents = is_enabled.then(|| Box::new(|_: &str| true) as _);
        self
    }

    /// Sets a function that decides by the URL of its metadata document whether a client may use the server. By default,
    /// every client may that a user approves.
    ///
    /// ```no_run
    /// # fn configure(server: mcp_auth::AuthorizationServerBuilder) -> mcp_auth::AuthorizationServerBuilder {
    /// server.admit_documents(|url| url.starts_with("https://app.example.com/"))
    /// # }
    /// ```
    pub fn admit_documents(mut self, admits: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.documents = Some(Box::new(admits));
        self
    }

    /// Sets whether clients with credentials may present identity assertions of the provider (ID-JAG) and get access tokens
    /// for its users, without a page for consent and a login here: the enterprise decides at its provider which clients may
    /// act for which users. Default: `false`. The provider must have been [discovered](Upstream::discover).
    ///
    /// [`admit`](Self::admit) decides by the claims of the assertion. If the provider has several tenants under one issuer, it
    /// must compare the claim of the tenant, or users of every tenant get tokens. An assertion without `scope` allows all
    /// scopes of the server. There are no refresh tokens: a client presents the assertion again while it is valid, or another
    /// one.
    ///
    /// See [Enterprise-managed authorization](https://modelcontextprotocol.io/extensions/auth/enterprise-managed-authorization).
    pub fn identity_assertions(mut self, are_accepted: bool) -> Self {
        self.options.identity_assertions = are_accepted;
        self
    }

    /// Binds tokens to the keys of clients that prove that they have one (DPoP). An access token is then accepted only with a
    /// proof for each request, so a stolen one is useless. The refresh tokens of clients without credentials are bound, too. By
    /// default, the server ignores proofs, and all tokens are bearer tokens.
    ///
    /// With [`Dpop::required`], clients get no other tokens. With [`Dpop::optional`], this holds for those that announce
    /// `dpop_bound_access_tokens`. By default, proofs are remembered in the [`records`](Self::records), as many of requests for
    /// tokens as of requests to the resource, and [nonces](Dpop::nonces) are the same in all processes with the same
    /// [secret](Self::with_secret).
    pub fn dpop(mut self, options: Dpop) -> Self {
        self.dpop = Some(options);
        self
    }

    /// Sets the lifetime of access tokens: at least a minute, and at most an hour. Default: 10 minutes.
    pub fn access_token_lifetime(mut self, lifetime: Duration) -> Self {
        self.options.access_token_lifetime = lifetime.clamp(*ACCESS_TOKENS.start(), *ACCESS_TOKENS.end());
        self
    }

    /// Sets the time after which a user has to log in again, however often the client refreshes its tokens: at most a
    /// year. Default: 30 days.
    pub fn login_lifetime(mut self, lifetime: Duration) -> Self {
        self.options.login_lifetime = lifetime.min(MAX_LOGIN);
        self
    }

    /// Sets the time after which a grant ends that its client does not refresh. Default: `None`, so that it ends with the
    /// [login](Self::login_lifetime). A client refreshes when it needs an access token, so the time should be longer than
    /// the [lifetime](Self::access_token_lifetime) of these.
    pub fn grant_idle_timeout(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.grant_idle_timeout = time.into();
        self
    }

    /// Sets where clients, grants and keys are stored. Default: in memory, so users log in again when the server
    /// restarts.
    ///
    /// Everything that is stored is encrypted with the [secret](Self::with_secret), which is then required, and bound to the
    /// issuer, the resource and the provider: servers that differ in one of them can share records and secret.
    pub fn records(mut self, records: impl Records) -> Self {
        self.records = Some(Arc::new(records));
        self
    }

    /// Adds a secret from which a key for encryption is derived: at least 32 random bytes, the same in every process. The
    /// first secret encrypts, and the others decrypt what was encrypted before a change. Default: a random one.
    ///
    /// To change the secret, first add the new one as the last in every process, and then make it the first. Keep the
    /// old one: a server that cannot decrypt its signing keys cannot be built. If the secret is lost, delete all records
    /// whose keys begin with `authorization-server/1/`. Clients then register again, and users log in again.
    pub fn with_secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// Sets CSS that the pages contain in addition to their own.
    pub fn style(mut self, css: impl Into<String>) -> Self {
        self.options.style = Some(css.into());
        self
    }

    /// Replaces the page that asks users for consent. See [`ConsentPage`] for what it must contain.
    pub fn consent_page(mut self, page: impl Fn(&ConsentPage) -> String + Send + Sync + 'static) -> Self {
        self.options.page = Some(Box::new(page));
        self
    }

    #[cfg(test)]
    pub(crate) fn without_scopes(mut self) -> Self {
        self.options.scopes.clear();
        self
    }

    #[cfg(test)]
    pub(crate) fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Creates the server, and its keys if the store has none.
    ///
    /// # Errors
    ///
    /// Returns an error if an option is invalid, or if the store is not available.
    pub async fn build(self) -> Result<AuthorizationServer, Error> {
        let Self { options, upstream, records, mut secrets, clients, documents, dpop, clock } = self;
        options.endpoints.check()?;
        if options.identity_assertions && !upstream.has_issuer() {
            let why = "identity assertions cannot be verified\nhelp: use `Upstream::discover` for the provider";
            return Err(Error::options(why));
        }
        match (&records, secrets.is_empty()) {
            (Some(_), true) => {
                let why = "records without a secret\nhelp: set one with `AuthorizationServerBuilder::with_secret`";
                return Err(Error::options(why.to_owned()));
            }
            (None, true) => secrets.push(random::bytes::<32>()?.to_vec()),
            _ => {}
        }
        let server = format!("{} {} {}", options.issuer, options.resource, upstream.name());
        let sealer = Sealer::new(&secrets, &server)?;
        let dpop = dpop.map(|dpop| dpop.or(nonce_key(&secrets), records.as_ref()));
        let records = records.unwrap_or_else(|| Arc::new(MemoryRecords::default()));
        let store = Store::new(records, sealer.clone(), &server);
        let keys = Arc::new(SigningKeys::load(store.clone(), clock.clone()).await?);
        let clients = Clients {
            configured: clients.into_iter().map(|client| client.0).collect(),
            documents: Documents::new(Fetcher::public(MAX_DOCUMENT), clock.clone(), documents),
            store: store.clone(),
            clock: clock.clone(),
            issuer: options.issuer.clone(),
            is_https: options.origin.starts_with("https:"),
        };
        let (issuer, resource) = (options.issuer.clone(), options.resource.clone());
        let jwt = Jwt::unbound(issuer, Keys::Shared(Arc::clone(&keys) as _), clock.clone());
        let mut jwt = jwt.resource(resource.clone()).require_at_jwt();
        let mut proofs = None;
        if let Some(dpop) = dpop {
            jwt = jwt.dpop(dpop.clone())?;
            proofs = Some(Proofs::new(dpop, &resource, CLIENT_PROOFS, clock.clone())?);
        }
        let inner = Inner {
            audience: Audience::new(resource),
            cookies: Cookies { is_secure: options.origin.starts_with("https:") },
            ended: Ended::new(store.clone(), Arc::clone(&keys), clock.clone(), options.access_token_lifetime),
            options,
            upstream,
            clients,
            proofs,
            keys,
            store,
            sealer,
            clock,
        };
        Ok(AuthorizationServer { inner: Arc::new(inner), jwt })
    }
}

/// Returns the key of the nonces of proofs.
fn nonce_key(secrets: &[Vec<u8>]) -> [u8; 32] {
    let secret = hmac::Key::new(hmac::HMAC_SHA256, secrets.first().map_or(&[], Vec::as_slice));
    let mut key = [0; 32];
    key.copy_from_slice(hmac::sign(&secret, b"dpop nonces").as_ref());
    key
}

impl Authenticator for AuthorizationServer {
    fn authenticate<'a>(&'a self, request: &'a Parts) -> AuthenticateFuture<'a> {
        Box::pin(self.identify(request))
    }

    fn protected_resource(&self) -> ProtectedResource {
        self.jwt.protected_resource()
    }

    fn routes(&self) -> Vec<Arc<dyn AuthorizationRoutes>> {
        vec![Arc::new(Routes(Arc::clone(&self.inner)))]
    }
}

impl fmt::Debug for AuthorizationServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationServer").field("issuer", &self.inner.options.issuer).finish_non_exhaustive()
    }
}

impl fmt::Debug for AuthorizationServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationServerBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
