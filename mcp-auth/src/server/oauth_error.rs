use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use mcp_runtime::backend::BackendError;
use serde_json::json;

use super::{audit::Event, login::UpstreamTokenError, reply};
use crate::{Error, shares::Peer};

/// An error response of an endpoint for clients.
///
/// See [RFC 6749, 5.2](https://www.rfc-editor.org/rfc/rfc6749#section-5.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OAuthError {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) description: Cow<'static, str>,
    /// The client, if it is known.
    pub(super) client: Option<Box<str>>,
    /// The nonce for the next proof of the client.
    pub(super) dpop_nonce: Option<Box<HeaderValue>>,
}

impl OAuthError {
    pub(super) fn new(code: &'static str, description: impl Into<Cow<'static, str>>) -> Self {
        let (status, description) = (StatusCode::BAD_REQUEST, description.into());
        Self { status, code, description, client: None, dpop_nonce: None }
    }

    pub(super) fn invalid_client(description: impl Into<Cow<'static, str>>) -> Self {
        Self { status: StatusCode::UNAUTHORIZED, ..Self::new("invalid_client", description) }
    }

    /// Something that the server depends on does not respond.
    pub(super) fn unavailable() -> Self {
        let description = "the server cannot handle the request at the moment";
        Self { status: StatusCode::SERVICE_UNAVAILABLE, ..Self::new("temporarily_unavailable", description) }
    }

    /// Adds the client that was refused.
    pub(super) fn of_client(self, id: &str) -> Self {
        Self { client: Some(id.into()), ..self }
    }

    /// Adds the refusal to the audit log.
    pub(super) fn record(&self, peer: Peer) {
        Event::new("refusal", peer).client(self.client.as_deref()).reason(&self.description).record();
    }

    pub(super) fn response(&self) -> Response<Bytes> {
        let body = json!({"error": self.code, "error_description": self.description});
        let mut response = reply::json(self.status, &body);
        reply::set_nonce(&mut response, self.dpop_nonce.as_deref().cloned());
        match self.status {
            StatusCode::UNAUTHORIZED => reply::set(&mut response, header::WWW_AUTHENTICATE, r#"Basic realm="clients""#),
            // Within the time in which a refresh may be repeated.
            StatusCode::SERVICE_UNAVAILABLE => reply::set(&mut response, header::RETRY_AFTER, "5"),
            StatusCode::TOO_MANY_REQUESTS => reply::set(&mut response, header::RETRY_AFTER, "60"),
            _ => {}
        }
        response
    }
}

impl From<BackendError> for OAuthError {
    fn from(error: BackendError) -> Self {
        tracing::error!(%error, "the authorization server cannot use its records");
        Self::unavailable()
    }
}

impl From<UpstreamTokenError> for OAuthError {
    fn from(error: UpstreamTokenError) -> Self {
        match error {
            UpstreamTokenError::Unavailable => Self::unavailable(),
            UpstreamTokenError::Ended | UpstreamTokenError::NoLogin | UpstreamTokenError::Refused => {
                Self::new("invalid_grant", "the login at the provider has ended")
            }
        }
    }
}

impl From<Error> for OAuthError {
    fn from(error: Error) -> Self {
        tracing::error!(%error, "the authorization server failed");
        Self::unavailable()
    }
}
