use std::{sync::Arc, time::Duration};

use super::{
    ask::{Answer, Ask, Capability, Elicit, Elicitation, ListRoots, Root, SampleRequest, SampleResult, UrlElicitation},
    caller::ClientInfo,
    client_requests::{AskAll, ClientRequests, SessionPeer},
};
use crate::debug::debug;
use crate::{error::Fault, revision::Revision};

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
        self.peer.dialect().revision()
    }

    /// Returns the name and version that the client reports about itself. They are not verified.
    pub fn client(&self) -> Option<&ClientInfo> {
        self.peer.client()
    }

    /// Returns the authenticated principal that opened the session: over HTTP, the `Principal` that a middleware inserted
    /// into the extensions of the request.
    pub fn principal(&self) -> Option<&str> {
        self.peer.principal()
    }

    fn client_requests(&self) -> ClientRequests<'_> {
        ClientRequests { requester: Some(self.peer.requester()), features: self.peer.dialect().features(), call: None }
    }
}

debug!(Session, self, revision: self.revision(), client: self.client(), has_ended: self.has_ended());
