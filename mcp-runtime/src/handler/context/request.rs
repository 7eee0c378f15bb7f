use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tracing::Span;

use super::Context;
use crate::{
    auth::{AccessRules, Identity, Scopes},
    error::Fault,
    handler::caller::ClientInfo,
    jsonrpc::{RawJson, object_member, raw},
    revision::{Feature, Revision},
    telemetry::{TraceCarrier, TraceContext},
    trace_context::{is_baggage, is_traceparent, is_tracestate},
};

/// The request, its client and its transport.
impl Context {
    /// Returns the id of the request, as JSON. Log records of the call carry the same id. The call of a notification has an id
    /// that is no JSON.
    pub fn request_id(&self) -> &str {
        self.call().id.as_json()
    }

    /// Returns the name of the tool or prompt, or the URI of the resource.
    #[expect(clippy::misnamed_getters, reason = "the name of a resource's call is its URI")]
    pub fn name(&self) -> &str {
        &self.call().subject
    }

    /// Returns the protocol revision of the request.
    ///
    /// ```
    /// # use mcp_runtime::Context;
    /// # fn with(ctx: &Context) {
    /// if ctx.revision() < mcp_runtime::Revision::V2025_06_18 {
    ///     ctx.warning("this client cannot show forms");
    /// }
    /// # }
    /// ```
    pub fn revision(&self) -> Revision {
        self.call().encoding.dialect.revision()
    }

    /// Returns the name and version that the client reports about itself. They are not verified.
    pub fn client(&self) -> Option<&ClientInfo> {
        self.shared.caller.client()
    }

    /// Returns the name of the authenticated caller: the name of its [`identity`](Self::identity), or the `Principal`
    /// that a middleware inserted into the extensions of the HTTP request.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Return the name of the user.
    /// #[tool(read_only)]
    /// fn whoami(ctx: &Context) -> Result<String, &'static str> {
    ///     ctx.principal().map(str::to_owned).ok_or("sign in first")
    /// }
    /// ```
    pub fn principal(&self) -> Option<&str> {
        self.shared.caller.principal()
    }

    /// Returns whether the call arrived on the stdin of the process. All such calls are from one caller, who started the
    /// program. Calls over the streams of [`BuiltServer::serve`](crate::BuiltServer::serve) are not, since a program may
    /// serve several, and calls of a test client are, unless it is authenticated.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Return the folder in which the user works.
    /// #[tool(read_only)]
    /// fn folder(ctx: &Context) -> Result<String, &'static str> {
    ///     let folder = std::env::current_dir().ok().filter(|_| ctx.is_stdio());
    ///     folder.map(|folder| folder.display().to_string()).ok_or("the user is on another machine")
    /// }
    /// ```
    pub fn is_stdio(&self) -> bool {
        self.shared.caller.is_stdio
    }

    /// Returns one value of the request's `_meta`, such as `traceparent`. Of duplicate members, the last one counts.
    ///
    /// A value of `traceparent`, `tracestate` or `baggage` that violates W3C Trace Context or W3C Baggage is ignored,
    /// and so is a `tracestate` without a valid `traceparent`.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Return the trace of the request.
    /// #[tool(read_only)]
    /// fn trace(ctx: &Context) -> Option<String> {
    ///     ctx.meta("traceparent")?.as_str().map(str::to_owned)
    /// }
    /// ```
    pub fn meta(&self, key: &str) -> Option<serde_json::Value> {
        let value: Value = serde_json::from_str(raw::member(self.shared.meta.as_deref()?, key)?).ok()?;
        let is_valid = match (key, value.as_str()) {
            ("traceparent", text) => text.is_some_and(is_traceparent),
            ("tracestate", text) => text.is_some_and(is_tracestate) && self.meta("traceparent").is_some(),
            ("baggage", text) => text.is_some_and(is_baggage),
            _ => true,
        };
        is_valid.then_some(value)
    }

    /// Returns the trace context for requests that the function sends to other services: that of the current span if the
    /// server [has telemetry](crate::Server::telemetry), and otherwise the one that the client has sent, in `_meta` or in
    /// the headers of its HTTP request.
    ///
    /// Pass its `baggage` on only to services that may know what the client says about itself.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Return the headers that a request for weather carries.
    /// #[tool(read_only)]
    /// fn headers(ctx: &Context) -> Vec<String> {
    ///     let trace = ctx.trace_context();
    ///     let headers = ["traceparent", "tracestate"].into_iter();
    ///     headers.filter_map(|name| Some(format!("{name}: {}", trace.get(name)?))).collect()
    /// }
    /// ```
    pub fn trace_context(&self) -> TraceCarrier<'static> {
        let own = self.shared.telemetry.as_ref().map(|telemetry| telemetry.inject(&Span::current()));
        own.unwrap_or_else(|| {
            let meta = self.shared.meta.as_deref();
            let meta = TraceCarrier::KEYS.map(|key| raw::member(meta?, key).map(RawJson::new));
            TraceContext { meta: &meta, head: self.head() }.parent()
        })
    }

    /// Returns an experimental capability that the client declared: an object, which may be empty. Returns `None` if
    /// the client did not declare it.
    ///
    /// The client's declaration of all its capabilities is limited to 64 KiB.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Render a chart.
    /// #[tool]
    /// fn chart(ctx: &Context) -> &'static str {
    ///     if ctx.client_experimental("com.example/charts").is_some() { "an interactive chart" } else { "a picture" }
    /// }
    /// ```
    ///
    /// See [Capabilities](https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#capability-negotiation).
    pub fn client_experimental(&self, name: &str) -> Option<Value> {
        self.client_capability("experimental", name)
    }

    /// Returns the settings of an extension that the client declared: an object, which may be empty. Returns `None` if
    /// the client did not declare it. Clients of older revisions declare extensions in `initialize`, if at all.
    ///
    /// The client's declaration of all its capabilities is limited to 64 KiB.
    ///
    /// See [Extension negotiation](https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning).
    pub fn client_extension(&self, name: &str) -> Option<Value> {
        self.client_capability("extensions", name)
    }

    /// Returns an object in a member of the client's capabilities.
    fn client_capability(&self, member: &str, name: &str) -> Option<Value> {
        let shared = &self.shared;
        let capabilities = match &shared.capabilities {
            Some(capabilities) => &**capabilities,
            None => object_member(shared.meta.as_deref()?, "io.modelcontextprotocol/clientCapabilities")?,
        };
        let declared = object_member(object_member(capabilities, member)?, name)?;
        serde_json::from_str(declared).ok()
    }

    /// Returns the headers of the HTTP request, or `None` over other transports.
    ///
    /// ```
    /// # use mcp_runtime::{Context, tool};
    /// /// Return the language of the user.
    /// #[tool(read_only)]
    /// fn language(ctx: &Context) -> Option<String> {
    ///     ctx.headers()?.get("accept-language")?.to_str().ok().map(str::to_owned)
    /// }
    /// ```
    #[cfg(feature = "http")]
    pub fn headers(&self) -> Option<&http::HeaderMap> {
        self.shared.caller.headers()
    }

    /// Returns the value of type `T` that a middleware inserted into the extensions of the HTTP request.
    ///
    /// ```
    /// use mcp_runtime::{Context, Revision, Server, tool};
    ///
    /// /// What a middleware knows about the tenant.
    /// #[derive(Clone)]
    /// struct Tenant(&'static str);
    ///
    /// /// Return the name of the tenant.
    /// #[tool(read_only)]
    /// fn tenant(ctx: &Context) -> Result<&'static str, &'static str> {
    ///     ctx.extension::<Tenant>().map(|tenant| tenant.0).ok_or("unknown tenant")
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
    /// let client = Server::empty("tenants", "1.0.0").with::<tenant>().test_client(Revision::V2026_07_28);
    /// let mut client = client.with_extension(Tenant("acme"));
    /// assert_eq!(client.call("tenant", ()).await.unwrap().text(), "acme");
    /// # });
    /// ```
    #[cfg(feature = "http")]
    pub fn extension<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.shared.caller.extension()
    }

    /// Returns the address of the sender of the HTTP request: the client that a
    /// [trusted proxy](crate::HttpOptions::trusted_proxies) states, or else the address that the function set with
    /// [`HttpOptions::peer_addr`](crate::HttpOptions::peer_addr) finds in the request, or else the address of the
    /// connection, which may belong to a proxy.
    ///
    /// A service that is mounted into another framework does not see the connection, so without such a function, the
    /// address is `None`, as it is at a Unix socket without a trusted proxy.
    #[cfg(feature = "http")]
    pub fn peer_addr(&self) -> Option<std::net::SocketAddr> {
        self.shared.caller.peer_addr()
    }

    /// Closes the SSE stream that would carry the response, which frees the connection during a long call.
    ///
    /// The client reconnects after `retry` and receives the messages that were sent in the meantime. This method
    /// affects only clients of revision 2025-11-25 over HTTP.
    ///
    /// See [Sending messages](https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server).
    pub fn close_sse_stream(&self, retry: Duration) {
        if self.call().encoding.dialect.has(Feature::StreamPolling) && !self.shared.lifetime.has_ended() {
            self.shared.connection().close_sse_stream(retry);
        }
    }
}

/// The caller, and what the caller may do.
impl Context {
    /// Returns the authenticated caller. Over HTTP, [`Server::authenticate`](crate::Server::authenticate) or a
    /// middleware identifies it; over stdio, it is the identity of
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
        self.shared.caller.identity()
    }

    /// Decodes the claims of the caller, like [`Identity::claims`].
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
    /// fn email(ctx: &Context) -> Result<String, serde_json::Error> {
    ///     Ok(ctx.claims::<Claims>()?.email)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the caller is unknown, or if its claims do not have the form of `T`.
    pub fn claims<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        match self.identity() {
            Some(identity) => identity.claims(),
            None => Err(serde::de::Error::custom("the caller is unknown")),
        }
    }

    /// Requires scopes that are only known at run time, in addition to the scopes of the annotation.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, tool};
    /// /// Delete a note.
    /// #[tool(scopes("notes:write"))]
    /// fn delete_note(ctx: &Context, id: u32, is_shared: bool) -> Result<(), Fault> {
    ///     if is_shared {
    ///         ctx.require_scopes("notes:share")?;
    ///     }
    ///     // …
    ///     Ok(())
    /// }
    /// ```
    ///
    /// Call it before the function has effects. If the response has not begun, it becomes an HTTP response with status
    /// 403 that names these scopes, those of the annotation and those that earlier calls of this method have required, and
    /// the client can obtain a token with them and repeat the call.
    /// Otherwise, the error names them. Over stdio, where there are no tokens, the check succeeds.
    ///
    /// # Errors
    ///
    /// Returns [`Fault::InsufficientScope`], which the function should return.
    pub fn require_scopes(&self, scopes: impl Into<Scopes>) -> Result<(), Fault> {
        let shared = &self.shared;
        let Some(head) = self.head() else { return Ok(()) };
        let (demanded, identity) = (scopes.into(), head.identity());
        if shared.access.as_ref().is_some_and(|rules| rules.grants(identity, &demanded)) {
            let mut granted = shared.demanded.lock();
            *granted = std::mem::take(&mut *granted).and(demanded);
            return Ok(());
        }
        let declared = self.call().function.as_ref().and_then(|function| function.scopes.clone());
        let granted = shared.demanded.lock().clone();
        let all = declared.unwrap_or_default().and(granted).and(demanded);
        let required = match &shared.access {
            Some(rules) => rules.to_request(identity, all),
            None => AccessRules::default().to_request(None, all),
        };
        head.demand_scopes(&required);
        Err(Fault::InsufficientScope { required })
    }
}
