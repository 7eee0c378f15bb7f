//! Inspects the messages in responses of servers, and changes them for the client.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Response, StatusCode, request::Parts},
};
use bytes::Bytes;

use super::{
    super::message::{
        Generation, INTERNAL_ERROR, Message, MessageKind, RequestId, add_list_changed, batch_elements, error_response,
    },
    respond::{json, message_of, with_server},
    session::Session,
    state::{HttpProxy, SharedSession},
    sync::lock,
};
use crate::sse::SseEvent;

/// Filters the messages of one response.
pub(super) struct ResponseFilter {
    proxy: Arc<HttpProxy>,
    server: Generation,
    session: Option<Arc<SharedSession>>,
    /// The ids of the requests that the server has to answer, as JSON. A session keeps track of its own.
    unanswered: Vec<String>,
    new_session: Option<NewSession>,
    /// Whether the result contains capabilities.
    has_capabilities: bool,
}

/// The session that a successful `initialize` response opens.
pub(super) struct NewSession {
    pub(super) id: String,
    /// The head and body of the `initialize` request.
    pub(super) parts: Parts,
    pub(super) body: Bytes,
}

impl ResponseFilter {
    /// Filters a response to requests without a session.
    pub(super) fn stateless(proxy: Arc<HttpProxy>, server: Generation, requests: Vec<String>) -> Self {
        Self { proxy, server, session: None, unanswered: requests, new_session: None, has_capabilities: false }
    }

    /// Filters a response to requests in a session.
    pub(super) fn in_session(
        proxy: Arc<HttpProxy>,
        server: Generation,
        session: Arc<SharedSession>,
        requests: Vec<String>,
    ) -> Self {
        let mut filter = Self::stateless(proxy, server, requests);
        filter.session = Some(session);
        filter
    }

    /// Declares that the result contains capabilities, and may open a session.
    pub(super) fn with_capabilities(mut self, new_session: Option<NewSession>) -> Self {
        self.has_capabilities = true;
        self.new_session = new_session;
        self
    }

    pub(super) fn session(&self) -> Option<&SharedSession> {
        self.session.as_deref()
    }

    /// Returns whether a client can resume the stream of this response on its server.
    pub(super) fn is_resumable(&self) -> bool {
        self.session.is_some() && self.proxy.backends.running(self.server).is_some()
    }

    /// Records a message. Returns it as the client should receive it, or `None` if it should not.
    pub(super) fn apply(&mut self, text: &str) -> Option<String> {
        if let Some(session) = &self.session {
            return lock(&session.state).handle_server_message(self.server, text);
        }
        for message in batch_elements(text).unwrap_or_else(|| vec![text]) {
            self.record_response(message);
        }
        let extended = if self.has_capabilities { add_list_changed(text) } else { None };
        Some(extended.unwrap_or_else(|| text.to_owned()))
    }

    fn record_response(&mut self, text: &str) {
        let Some(message) = Message::parse(text) else { return };
        let MessageKind::Response { id } = message.kind() else { return };
        let id = RequestId::parse(id);
        self.unanswered.retain(|unanswered| RequestId::parse(unanswered) != id);
        if message.result.is_none() {
            return;
        }
        if let Some(NewSession { id, parts, body }) = self.new_session.take()
            && let Some(session) = Session::open(&parts, &body, self.server, &id, text)
        {
            self.proxy.add_session(id, session);
        }
    }

    /// Applies the filter to an event.
    pub(super) fn apply_to_event(&mut self, mut event: SseEvent) -> Option<SseEvent> {
        if let Some(message) = message_of(&event) {
            event.data = Some(self.apply(message)?);
        }
        Some(if self.session.is_some() { with_server(event, self.server) } else { event })
    }

    /// Returns whether the server has not answered all requests.
    pub(super) fn has_unanswered(&self) -> bool {
        match &self.session {
            Some(session) => lock(&session.state).has_unanswered(self.server, &self.unanswered),
            None => !self.unanswered.is_empty(),
        }
    }

    /// Returns errors for the requests that the server has not answered.
    pub(super) fn take_errors(&mut self, why: &str) -> Vec<String> {
        let ids = match &self.session {
            Some(session) => {
                lock(&session.state).take_unanswered(Some(&self.unanswered), |server| server == self.server)
            }
            None => std::mem::take(&mut self.unanswered),
        };
        ids.iter().map(|id| error_response(id, INTERNAL_ERROR, why)).collect()
    }

    /// Returns a response with an error for each request that the server has not answered.
    pub(super) fn into_error_response(mut self, why: &str) -> Response<Body> {
        let errors = self.take_errors(why);
        let text = if let [error] = &*errors { error.clone() } else { format!("[{}]", errors.join(",")) };
        json(StatusCode::OK, text)
    }
}
