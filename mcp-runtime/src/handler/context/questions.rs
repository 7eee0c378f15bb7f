//! Requests to the client: those of a call, and those of a session outside of calls.

use std::{sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};

use super::{Context, SharedCall};
use crate::{
    error::Fault,
    handler::{
        ask::{
            Answer, Ask, Capability, Elicit, Elicitation, ListRoots, Root, SampleRequest, SampleResult, UrlElicitation,
        },
        caller::ClientInfo,
        client_requests::{AskAll, CallRequests, ClientRequests, SessionPeer},
    },
    revision::{Feature, Revision},
    stdx::debug,
};

/// Requests to the client.
impl Context {
    /// Asks the user to fill in a form. `message` explains to the user why.
    ///
    /// `key` identifies the question within this call. In revisions 2025-06-18 to 2025-11-25, the call waits for the
    /// answer. In stateless revisions, the call ends with the question, and **the function runs again from its start**
    /// when the client retries the call with the answer: everything before the question runs again unless it is wrapped
    /// in [`once`](Self::once). In both cases, execution continues on the next line with the answer.
    ///
    /// ```
    /// use mcp_runtime::{Context, Elicit, Fault, ask::Answer, tool};
    ///
    /// #[derive(Elicit)]
    /// struct Confirm {
    ///     /// Really delete it?
    ///     sure: bool,
    /// }
    ///
    /// /// Delete a file.
    /// #[tool(destructive)]
    /// async fn delete(ctx: &Context, path: String) -> Result<String, Fault> {
    ///     match ctx.elicit::<Confirm>("confirm", format!("Delete {path}?")).await? {
    ///         Answer::Accept(Confirm { sure: true }) => Ok(format!("deleted {path}")),
    ///         Answer::Accept(_) | Answer::Decline | Answer::Cancel => Ok("nothing was deleted".into()),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`Fault::MissingCapability`] if the client does not support elicitation, and another fault if it
    /// responds with an error, with an invalid answer, or not in time.
    ///
    /// See [Elicitation](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation) and
    /// [Multi round-trip requests](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr).
    pub async fn elicit<T: Elicit>(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<Answer<T>, Fault> {
        self.ask(Elicitation::new(key, message)).await
    }

    /// Sends the user to a web page, for data that must not pass through the client, such as credentials and payments.
    ///
    /// [`Answer::Accept`] means that the user agreed to open the page, not that the interaction there is complete.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, ask::Answer, tool};
    /// /// Connect the calendar of the user.
    /// #[tool]
    /// async fn connect(ctx: &Context) -> Result<String, Fault> {
    ///     let page = "https://example.com/connect";
    ///     Ok(match ctx.elicit_url("connect", page, "Sign in to connect your calendar.").await? {
    ///         Answer::Accept(()) => "waiting for the user to sign in".to_owned(),
    ///         Answer::Decline | Answer::Cancel => "the calendar is not connected".to_owned(),
    ///     })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit). Revisions before 2025-11-25 do not support it.
    ///
    /// See [URL mode](https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#url-mode-elicitation-requests).
    pub async fn elicit_url(
        &self,
        key: impl Into<String>,
        url: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<Answer<()>, Fault> {
        self.ask(UrlElicitation::new(key, url, message)).await
    }

    /// Returns the fault of a function that cannot continue before the user has visited web pages, for example because
    /// it needs the consent of a third party. The function must return the fault.
    ///
    /// In revision 2025-11-25, the client receives the pages in the error `URLElicitationRequiredError` (-32042), and
    /// may retry the request afterwards. [`UrlElicitation::with_completion`] tells it when.
    ///
    /// Stateless revisions have no such error. There, the call ends with the pages as questions, as in
    /// [`elicit_url`](Self::elicit_url). When the client retries the call, the function runs again. If it still cannot
    /// continue, the fault is a [`Fault::Internal`].
    ///
    /// The fault is [`Fault::MissingCapability`] if the client has not declared `elicitation.url`, and in revisions
    /// before 2025-11-25. It is a [`Fault::Internal`] if a URL is invalid (see [`UrlElicitation`]) or there are no
    /// pages.
    ///
    /// A function may convert the fault to its own error type: the pages are still reported to the client.
    ///
    /// ```
    /// use mcp_runtime::{Context, Fault, ask::UrlElicitation, tool};
    ///
    /// # fn token() -> Option<String> { None }
    /// /// List the files of the user.
    /// #[tool]
    /// async fn files(ctx: &Context) -> Result<String, Fault> {
    ///     let Some(token) = token() else {
    ///         let page = UrlElicitation::new("connect", "https://example.com/connect", "Grant access to your files.");
    ///         return Err(ctx.url_elicitation_required([page]).await);
    ///     };
    ///     Ok(format!("{} files", token.len()))
    /// }
    /// ```
    ///
    /// See [URL elicitation required error](https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error).
    pub async fn url_elicitation_required(&self, pages: impl IntoIterator<Item = UrlElicitation>) -> Fault {
        self.client_requests().url_elicitation_required(pages.into_iter().collect()).await
    }

    /// Requests a completion from the client's model.
    ///
    /// Deprecated since revision 2026-07-28:
    /// see [Stability](crate::guide::stability#deprecated-features-of-the-protocol).
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, ask::SampleRequest, tool};
    /// /// Translate a text.
    /// #[tool(read_only)]
    /// async fn translate(ctx: &Context, text: String, language: String) -> Result<String, Fault> {
    ///     let request = SampleRequest::new(text).system_prompt(format!("Translate to {language}.")).max_tokens(500);
    ///     Ok(ctx.sample(request).await?.text())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit).
    ///
    /// See [Sampling](https://modelcontextprotocol.io/specification/2026-07-28/client/sampling).
    pub async fn sample(&self, request: SampleRequest) -> Result<SampleResult, Fault> {
        self.ask(request).await
    }

    /// Requests the directories and files that the client lets the server work on.
    ///
    /// Deprecated since revision 2026-07-28:
    /// see [Stability](crate::guide::stability#deprecated-features-of-the-protocol).
    ///
    /// If the client announces changes of its roots, the answer is cached in the session until the next change. See
    /// [`Server::on_roots_changed`](crate::Server::on_roots_changed).
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, tool};
    /// /// List the directories of the project.
    /// #[tool(read_only)]
    /// async fn directories(ctx: &Context) -> Result<Vec<String>, Fault> {
    ///     Ok(ctx.roots().await?.into_iter().map(|root| root.uri).collect())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit).
    ///
    /// See [Roots](https://modelcontextprotocol.io/specification/2026-07-28/client/roots).
    pub async fn roots(&self) -> Result<Vec<Root>, Fault> {
        self.ask(ListRoots).await
    }

    /// Sends a request to the client and waits for the answer. [`elicit`](Self::elicit),
    /// [`elicit_url`](Self::elicit_url), [`sample`](Self::sample) and [`roots`](Self::roots) are shorthands for it.
    ///
    /// A function may convert [`Fault::MissingCapability`] to its own error type: the missing capability is still
    /// reported to the client.
    ///
    /// In revisions with a handshake, the request is not sent before the client has sent `notifications/initialized`.
    /// It waits for the notification for at most 10 seconds, or [`Server::ask_timeout`](crate::Server::ask_timeout) if
    /// that is shorter.
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request; its answer is lost.
    pub async fn ask<A: Ask>(&self, ask: A) -> Result<A::Answer, Fault> {
        self.client_requests().ask(ask).await
    }

    /// Sends several requests at once: a tuple of up to six, or a vector. In stateless revisions, this takes one round
    /// trip instead of one per request.
    ///
    /// ```
    /// use mcp_runtime::{Context, Elicit, Fault, ask::{Elicitation, ListRoots, SampleRequest}, tool};
    ///
    /// #[derive(Elicit)]
    /// struct Name {
    ///     name: String,
    /// }
    ///
    /// /// Greet the user.
    /// #[tool]
    /// async fn greet(ctx: &Context) -> Result<String, Fault> {
    ///     let (name, greeting, roots) = ctx
    ///         .ask_all((
    ///             Elicitation::<Name>::new("name", "Who are you?"),
    ///             SampleRequest::new("Write a greeting."),
    ///             ListRoots,
    ///         ))
    ///         .await?;
    ///     let name = name.accepted().map_or_else(|| "you".to_owned(), |form| form.name);
    ///     Ok(format!("{} {name} ({} roots)", greeting.text(), roots.len()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first error and cancels the other requests.
    pub async fn ask_all<A: AskAll>(&self, asks: A) -> Result<A::Answers, Fault> {
        asks.ask_all(self.client_requests()).await
    }

    /// Runs `future` once per call, even if requests to the client restart the function (see
    /// [`elicit`](Self::elicit)). Between these rounds, the value is stored in the encrypted `requestState`.
    ///
    /// Use it for values that must not differ between rounds, such as a random number, and for side effects that must
    /// not be repeated, such as a reservation. `key` identifies the value within this call. A `Result` is stored as
    /// well, including an `Err`.
    ///
    /// If the client cannot be asked, the next question fails when the side effect has happened already. Call
    /// [`require`](Self::require) first.
    ///
    /// A value is stored with the next request to the client. If the client starts over or sends the same round twice,
    /// everything after the last stored value runs again. For side effects that must never be repeated, such as a
    /// payment, use the value as an idempotency key.
    ///
    /// Do not run it concurrently with a request to the client: a value that is not ready when the request ends the
    /// round is lost and computed again in the next round. Two concurrent calls with the same key both run their
    /// futures.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, ask::Capability, tool};
    /// # async fn reserve() -> u64 { 1 }
    /// /// Book a seat.
    /// #[tool]
    /// async fn book(ctx: &Context) -> Result<String, Fault> {
    ///     ctx.require(Capability::Elicitation)?;
    ///     let seat = ctx.once("seat", reserve()).await?;
    ///     // … ask for confirmation …
    ///     Ok(format!("seat {seat}"))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a fault if the value cannot be serialized to JSON, or deserialized from it in a later round.
    pub async fn once<T: Serialize + DeserializeOwned>(
        &self,
        key: impl Into<String>,
        future: impl Future<Output = T>,
    ) -> Result<T, Fault> {
        // A task continues with the values of its call.
        let requester = self.shared.requester.as_deref();
        ClientRequests { requester, ..self.client_requests() }.once(key.into(), future).await
    }

    /// Returns whether the client supports requests that need a capability: it has declared the capability, and its
    /// revision defines it.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, ask::{Capability, SampleRequest}, tool};
    /// /// Summarise a text.
    /// #[tool]
    /// async fn summarise(ctx: &Context, text: String) -> Result<String, Fault> {
    ///     if ctx.supports(Capability::Sampling) {
    ///         return Ok(ctx.sample(SampleRequest::new(format!("Summarise: {text}"))).await?.text());
    ///     }
    ///     Ok(text.chars().take(80).collect())
    /// }
    /// ```
    pub fn supports(&self, capability: Capability) -> bool {
        self.client_requests().supports(capability)
    }

    /// Fails the call early if the client does not support a capability.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, ask::Capability, tool};
    /// /// Index the project, then ask what to search for.
    /// #[tool]
    /// async fn search(ctx: &Context) -> Result<String, Fault> {
    ///     ctx.require(Capability::Elicitation)?;
    ///     // … an index that takes a minute …
    ///     Ok("indexed".to_owned())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same [`Fault::MissingCapability`] as the request that needs the capability.
    pub fn require(&self, capability: Capability) -> Result<(), Fault> {
        self.client_requests().require(capability)
    }

    /// Sends a `ping` to the client, and returns the time that its response took.
    ///
    /// Fails after 30 seconds without a response; [`tokio::time::timeout`] sets a shorter limit. Unlike other requests,
    /// a ping may be sent before the client is initialized.
    ///
    /// ```
    /// # use mcp_runtime::{Context, Fault, tool};
    /// /// Measure how quickly the client responds.
    /// #[tool]
    /// async fn latency(ctx: &Context) -> Result<String, Fault> {
    ///     Ok(format!("{} ms", ctx.ping().await?.as_millis()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns a fault if the client does not respond in time. Also returns one in stateless revisions, which have no
    /// `ping`: servers send no requests there.
    ///
    /// See [Ping](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping).
    pub async fn ping(&self) -> Result<Duration, Fault> {
        self.client_requests().ping().await
    }

    /// Returns the session of the call, which outlives the call. Code that runs in the background can use it to send
    /// requests to the client.
    ///
    /// # Errors
    ///
    /// Returns a fault in stateless revisions, which have no sessions: there, every message of the server belongs to a
    /// request of the client. Also returns one in functions that list or complete values, and if the session has ended.
    pub fn session(&self) -> Result<Session, Fault> {
        if !self.call().encoding.dialect.has(Feature::Handshake) {
            let version = self.call().encoding.dialect.name();
            return Err(Fault::internal(format!(
                "protocol version {version} has no sessions, so the server sends messages only during calls"
            )));
        }
        let session = self.shared.requester().and_then(|requester| requester.session());
        session.map(Session::new).ok_or_else(|| Fault::internal("the call has no session, or its session has ended"))
    }

    fn client_requests(&self) -> ClientRequests<'_> {
        let SharedCall { lifetime, client_wait, .. } = &*self.shared;
        ClientRequests {
            requester: self.shared.requester(),
            features: self.call().encoding.dialect.features(),
            call: Some(CallRequests { lifetime, wait: client_wait }),
        }
    }
}

/// The session of a client, for requests outside of calls.
///
/// [`Context::session`](crate::Context::session) and [`Handle::sessions`](crate::Handle::sessions) return it. Clones
/// are cheap and refer to the same session. Once the session has ended, every request fails.
///
/// Over stdio, requests are sent on the connection. Over HTTP, they are sent on the stream that the client opens with
/// GET, which not every client does: a request waits up to 10 seconds for the stream, and then fails. Requests also
/// wait until the client has sent `notifications/initialized`. [`is_reachable`](Self::is_reachable) returns whether a
/// request would be sent at once.
///
/// Stateless revisions have no sessions. There, a server sends questions only during calls, with the methods of
/// [`Context`](crate::Context). Prefer these in all revisions where possible: many clients show the user what a
/// question is about only if it belongs to a call.
///
/// ```
/// use mcp_runtime::{Context, Fault, ask::SampleRequest, tool};
///
/// /// Summarise the report once it is complete.
/// #[tool]
/// fn summarise_later(ctx: &Context) -> Result<&'static str, Fault> {
///     let session = ctx.session()?;
///     tokio::spawn(async move {
///         // … the report …
///         match session.sample(SampleRequest::new("Summarise: …")).await {
///             Ok(summary) => println!("{}", summary.text()),
///             Err(error) => eprintln!("no summary: {error}"),
///         }
///     });
///     Ok("The summary will follow.")
/// }
/// ```
#[derive(Clone)]
pub struct Session {
    peer: Arc<dyn SessionPeer>,
}

impl Session {
    pub(crate) fn new(peer: Arc<dyn SessionPeer>) -> Self {
        Self { peer }
    }

    /// Asks the user to fill in a form. See [`Context::elicit`](crate::Context::elicit).
    ///
    /// # Errors
    ///
    /// Returns [`Fault::MissingCapability`] if the client does not support elicitation. Returns another fault if the
    /// client cannot be reached, if it responds with an error, with an invalid answer or not in time, or if the session
    /// ends.
    pub async fn elicit<T: Elicit>(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<Answer<T>, Fault> {
        self.ask(Elicitation::new(key, message)).await
    }

    /// Sends the user to a web page. See [`Context::elicit_url`](crate::Context::elicit_url).
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit). Revisions before 2025-11-25 do not support it.
    pub async fn elicit_url(
        &self,
        key: impl Into<String>,
        url: impl Into<String>,
        message: impl Into<String>,
    ) -> Result<Answer<()>, Fault> {
        self.ask(UrlElicitation::new(key, url, message)).await
    }

    /// Requests a completion from the client's model. See [`Context::sample`](crate::Context::sample).
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit).
    pub async fn sample(&self, request: SampleRequest) -> Result<SampleResult, Fault> {
        self.ask(request).await
    }

    /// Requests the directories and files that the client lets the server work on. See
    /// [`Context::roots`](crate::Context::roots).
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit).
    pub async fn roots(&self) -> Result<Vec<Root>, Fault> {
        self.ask(ListRoots).await
    }

    /// Sends a request to the client and waits for the answer.
    ///
    /// # Errors
    ///
    /// Same as [`elicit`](Self::elicit).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request; its answer is lost.
    pub async fn ask<A: Ask>(&self, ask: A) -> Result<A::Answer, Fault> {
        self.client_requests().ask(ask).await
    }

    /// Sends several requests at once: a tuple of up to six, or a vector.
    ///
    /// # Errors
    ///
    /// Returns the first error and cancels the other requests.
    pub async fn ask_all<A: AskAll>(&self, asks: A) -> Result<A::Answers, Fault> {
        asks.ask_all(self.client_requests()).await
    }

    /// Sends a `ping` to the client, and returns the time that its response took. See
    /// [`Context::ping`](crate::Context::ping).
    ///
    /// # Errors
    ///
    /// Returns a fault if the client cannot be reached, if it does not respond within 30 seconds, or if the session
    /// ends.
    pub async fn ping(&self) -> Result<Duration, Fault> {
        self.client_requests().ping().await
    }

    /// Returns whether the client supports requests that need a capability. See
    /// [`Context::supports`](crate::Context::supports).
    pub fn supports(&self, capability: Capability) -> bool {
        self.client_requests().supports(capability)
    }

    /// Returns whether a request would be sent at once: the client has sent `notifications/initialized`, and over HTTP
    /// it has an open stream for messages outside of calls.
    ///
    /// With a [shared backend](crate::Server::backend), the stream may be open at any process of the service. If this
    /// process has no such stream, the method asks the backend, and returns `false` if the backend fails.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn is_reachable(&self) -> bool {
        self.peer.is_reachable().await
    }

    /// Returns whether the session has ended.
    pub fn has_ended(&self) -> bool {
        self.peer.has_ended()
    }

    /// Waits until the session has ended: the client has disconnected or ended it, or it has expired.
    ///
    /// # Cancel safety
    ///
    /// This method is cancel safe.
    pub async fn ended(&self) {
        self.peer.ended().await;
    }

    /// Returns the protocol revision of the session.
    pub fn revision(&self) -> Revision {
        self.peer.info().dialect.revision()
    }

    /// Returns the name and version that the client reports about itself. They are not verified.
    pub fn client(&self) -> Option<&ClientInfo> {
        self.peer.info().client.as_ref()
    }

    /// Returns the authenticated principal that opened the session: over HTTP, the `Principal` that a middleware inserted
    /// into the extensions of the request.
    pub fn principal(&self) -> Option<&str> {
        self.peer.info().principal.as_deref()
    }

    fn client_requests(&self) -> ClientRequests<'_> {
        ClientRequests { requester: Some(&*self.peer), features: self.peer.info().dialect.features(), call: None }
    }
}

debug!(Session, self, revision: self.revision(), client: self.client(), has_ended: self.has_ended());
